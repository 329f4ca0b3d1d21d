//! The right to use a slot.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use super::{HELD, Slot, WAITER, WANTED};
use crate::face::atomic::Ordering;

/// The right to use a slot. End it by [`SlotGuard::leave`], so that what others left is not left lying.
#[must_use = "the slot is held only as long as its guard"]
#[derive(Debug)]
pub struct SlotGuard<'a, T, I> {
    slot: &'a Slot<T, I>,
    /// Where the slot is held briefly: what the word was before.
    brief: Option<u32>,
    stays: PhantomData<*const ()>,
}

impl<'a, T, I> SlotGuard<'a, T, I> {
    #[inline]
    pub(super) fn of(slot: &'a Slot<T, I>) -> Self {
        Self { slot, brief: None, stays: PhantomData }
    }

    #[inline]
    pub(super) fn of_brief(slot: &'a Slot<T, I>, before: u32) -> Self {
        Self { slot, brief: Some(before), stays: PhantomData }
    }

    /// The holder is not there for a moment only: others may leave work from now on. Does nothing where that is so already.
    #[inline]
    pub fn stay(&mut self) {
        if let Some(before) = self.brief.take() {
            self.slot.word.store(before | HELD, Ordering::Relaxed);
        }
    }

    /// Whether somebody left work and said so, now or while an earlier holder had the slot, who left it to this one.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.slot.word.load(Ordering::Relaxed) & WANTED != 0
    }

    /// The oldest item that somebody left.
    #[inline]
    pub fn next_deferred(&mut self) -> Option<I> {
        let slot = self.slot;
        slot.held.with_mut(|held| {
            // SAFETY: the guard holds the slot, and `&mut self` makes this the only loan.
            let taken = unsafe { &mut (*held).taken };
            if let Some(item) = taken.as_mut().and_then(|items| items.0.pop_front()) {
                return Some(item);
            }
            if slot.backlog_len.load(Ordering::Relaxed) == 0 {
                return None;
            }
            let mut backlog = slot.backlog.lock();
            std::mem::swap(&mut *backlog, taken);
            slot.backlog_len.store(0, Ordering::Relaxed);
            drop(backlog);
            taken.as_mut()?.0.pop_front()
        })
    }

    /// Frees the slot, unless somebody left work meanwhile.
    ///
    /// # Errors
    ///
    /// The guard, if there is work: take the items, do what is to be done, and leave again.
    #[inline]
    pub fn leave(mut self) -> Result<(), Self> {
        if let Some(before) = self.brief {
            if must_stay(before) {
                self.brief = Some(before & !WANTED);
                self.stay();
                return Err(self);
            }
            self.slot.free_brief(before);
            std::mem::forget(self);
            return Ok(());
        }
        let mut word = self.slot.word.load(Ordering::Relaxed);
        loop {
            let must_stay = must_stay(word);
            let left = if must_stay { word & !WANTED } else { word & !HELD };
            // Acquires, so that a holder who stays sees the work; releases, for this may be the end.
            match self.slot.word.compare_exchange_weak(word, left, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if must_stay => return Err(self),
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        if word >= WAITER {
            self.slot.word.wake_one();
        }
        std::mem::forget(self);
        Ok(())
    }
}

impl<T, I> Deref for SlotGuard<'_, T, I> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the slot, and lends the value no longer than it lives itself.
        self.slot.held.with(|held| unsafe { &(*held).value })
    }
}

impl<T, I> DerefMut for SlotGuard<'_, T, I> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the slot, and `&mut self` makes this the only loan.
        self.slot.held.with_mut(|held| unsafe { &mut (*held).value })
    }
}

impl<T, I> Drop for SlotGuard<'_, T, I> {
    fn drop(&mut self) {
        match self.brief {
            Some(before) => self.slot.free_brief(before),
            None => self.slot.free(),
        }
    }
}

/// Whether somebody left work, and nobody waits who would see to it.
#[inline]
fn must_stay(word: u32) -> bool {
    word & WANTED != 0 && word < WAITER
}

/// A short look at the value of a slot; others wait for its end.
#[must_use = "the slot is held only as long as the look"]
#[derive(Debug)]
pub struct Look<'a, T, I> {
    guard: SlotGuard<'a, T, I>,
}

impl<'a, T, I> Look<'a, T, I> {
    pub(super) fn of(guard: SlotGuard<'a, T, I>) -> Self {
        Self { guard }
    }
}

impl<T, I> Deref for Look<'_, T, I> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}
