//! A lock with a backlog: who finds the slot busy leaves its item and goes, and no item is left lying.
//!
//! Algorithm: one word decides. HELD: somebody holds the slot. WANTED: somebody left work for the holder. BRIEF: the
//! holder is there for a moment, and will do no work. The bits above count the threads that wait for the slot.
//! * Leaving work: put the item into the backlog, then *want* the slot. If it is free, wanting takes it; if it is
//!   held, the same exchange sets WANTED; if it is held briefly, the wanting thread waits.
//! * Leaving the slot: one exchange from HELD to free. It fails if WANTED is set, and the holder stays and does the
//!   work. If other threads wait for the slot, it is left with WANTED set, and the next holder sees it when it leaves:
//!   so a thread that is kept busy by others' items is relieved as soon as somebody waits.
//! * Holding it briefly: while BRIEF is set nobody but the holder changes the word, not even to be counted. So leaving is a store of
//!   what the word was before, which takes a fraction of an exchange, and so is staying as an ordinary holder.
//!
//! Why nothing is left lying: WANTED and HELD are bits of the same word, so wanting comes either before the holder's
//! leaving, which then fails, or after it, and then finds the slot free. There is no moment between. A waiter is
//! counted from before it sleeps until the exchange that makes it the holder, so "others wait" is never stale.
//!
//! Races:
//! * The backlog has its own short lock and a length beside it, which the holder reads first. A deferrer writes the
//!   length before it wants the slot, and that exchange releases; the holder's leaving acquires. So a holder that
//!   misses the new length sees WANTED when it leaves.
//! * A holder may take an item out before its deferrer comes to want the slot. Then WANTED stands for no item, and the
//!   holder looks once in vain; or the deferrer enters a slot with nothing to do, and leaves.
//! * A thread that waits for a brief holder is woken by nobody, as it may not be counted: it spins, and naps if the holder has lost
//!   its processor. Whoever was counted before the brief holder came is woken by that.
//! * A guard that is dropped without leaving (in a panic, say) frees the slot and lets WANTED stand: nothing is lost,
//!   but it waits for the next one to enter and leave.

use std::collections::VecDeque;
use std::time::Duration;

use crate::face::atomic::{AtomicUsize, Ordering};
use crate::face::{Spin, UnsafeCell};
use crate::{Futex, SpinLock};
pub use guard::{Look, SlotGuard};

mod guard;

const HELD: u32 = 1;
const WANTED: u32 = 2;
const BRIEF: u32 = 4;
/// One waiting thread.
const WAITER: u32 = 8;
/// How long who waits for a brief holder sleeps at a time.
const BRIEF_NAP: Duration = Duration::from_micros(50);

/// A value that one thread at a time may use, with a bounded backlog of items for it.
///
/// ```
/// use weft_sync::{Entry, Slot};
///
/// let slot = Slot::new(Vec::new(), 16); // a connection, and packets for it
/// let receive = |packet: u32| match slot.enter_or_defer(packet) {
///     Entry::Entered(mut guard, packet) => {
///         guard.push(packet);
///         loop {
///             while let Some(packet) = guard.next_deferred() {
///                 guard.push(packet);
///             }
///             match guard.leave() {
///                 Ok(()) => break,
///                 Err(wanted) => guard = wanted, // somebody deferred a packet just now
///             }
///         }
///     }
///     Entry::Deferred => {} // the holder has it
///     Entry::Full(_packet) => {} // dropped, as a network may
/// };
/// std::thread::scope(|scope| {
///     scope.spawn(|| receive(1));
///     scope.spawn(|| receive(2));
/// });
/// assert_eq!(slot.look().len(), 2);
/// ```
#[derive(Debug)]
pub struct Slot<T, I> {
    word: Futex,
    held: UnsafeCell<Held<T, I>>,
    backlog_max: u32,
    backlog: SpinLock<Queue<I>>,
    /// Items in `backlog`, written under its lock.
    backlog_len: AtomicUsize,
}

/// Items in order. There is none before the first item, for most slots are never found busy.
type Queue<I> = Option<Box<Items<I>>>;

#[derive(Debug)]
struct Items<I>(VecDeque<I>);

impl<I> Default for Items<I> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

/// What belongs to the holder.
#[derive(Debug)]
struct Held<T, I> {
    value: T,
    /// Items taken out of the backlog and not handed over yet.
    taken: Queue<I>,
}

// SAFETY: the word lets one thread at a time reach what is held; `T` is never shared, except by `look` with itself.
unsafe impl<T: Send, I: Send> Sync for Slot<T, I> {}
// SAFETY: the slot owns its value and its items.
unsafe impl<T: Send, I: Send> Send for Slot<T, I> {}

/// What became of an item.
#[derive(Debug)]
pub enum Entry<'a, T, I> {
    /// The slot is the caller's, which begins with this item.
    Entered(SlotGuard<'a, T, I>, I),
    /// The item is in the backlog, and another thread sees to it.
    Deferred,
    /// The backlog is full; here is the item again.
    Full(I),
}

impl<T, I> Slot<T, I> {
    /// A free slot. The backlog holds `backlog_max` items, and the holder up to as many again.
    pub fn new(value: T, backlog_max: u32) -> Self {
        Self {
            word: Futex::new(0),
            held: UnsafeCell::new(Held { value, taken: None }),
            backlog_max,
            backlog: SpinLock::new(None),
            backlog_len: AtomicUsize::new(0),
        }
    }

    /// Takes the slot for `item` if it is free, and leaves the item to the holder otherwise. Never waits for a holder.
    pub fn enter_or_defer(&self, item: I) -> Entry<'_, T, I> {
        if let Some(guard) = self.try_lock() {
            return Entry::Entered(guard, item);
        }
        if let Err(item) = self.defer(item) {
            return Entry::Full(item);
        }
        let mut wanted = self.want();
        while let Some(mut guard) = wanted {
            if let Some(item) = guard.next_deferred() {
                return Entry::Entered(guard, item);
            }
            wanted = guard.leave().err();
        }
        Entry::Deferred
    }

    /// Puts an item into the backlog. It will be seen to only if the caller, now or after more items, calls
    /// [`Slot::want`].
    ///
    /// # Errors
    ///
    /// The item, if the backlog is full.
    pub fn defer(&self, item: I) -> Result<(), I> {
        let mut backlog = self.backlog.lock();
        let Items(items) = &mut **backlog.get_or_insert_default();
        if items.len() >= self.backlog_max as usize {
            return Err(item);
        }
        items.push_back(item);
        self.backlog_len.store(items.len(), Ordering::Relaxed);
        Ok(())
    }

    /// Puts items into the backlog, in their order; those that it has no room for stay where they are. As for [`Slot::defer`].
    pub fn defer_all(&self, items: &mut Vec<I>) {
        let mut backlog = self.backlog.lock();
        let Items(queue) = &mut **backlog.get_or_insert_default();
        let room = (self.backlog_max as usize).saturating_sub(queue.len());
        queue.extend(items.drain(..room.min(items.len())));
        self.backlog_len.store(queue.len(), Ordering::Relaxed);
    }

    /// Whether items lie in the backlog that no holder has taken out. Others may add and take meanwhile.
    #[inline]
    pub fn has_deferred(&self) -> bool {
        self.backlog_len.load(Ordering::Relaxed) > 0
    }

    /// Asks for the slot for work that lies ready: the caller gets it, or its holder is told and will do the work.
    pub fn want(&self) -> Option<SlotGuard<'_, T, I>> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & BRIEF != 0 {
                return Some(self.lock());
            }
            let is_held = word & HELD != 0;
            let wanted = if is_held { word | WANTED } else { word | HELD };
            // Releases, so that the holder sees the work; acquires, for this may be the holder.
            match self.word.compare_exchange_weak(word, wanted, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return (!is_held).then(|| SlotGuard::of(self)),
                Err(now) => word = now,
            }
        }
    }

    /// Waits until the slot is free and takes it.
    #[inline]
    pub fn lock(&self) -> SlotGuard<'_, T, I> {
        if self.try_take(HELD, 0).is_none() {
            self.wait_and_take();
        }
        SlotGuard::of(self)
    }

    /// As [`Slot::lock`], for a moment: others wait for the end of that instead of leaving work, and it ends by a store. So there
    /// must be no work in it, nor anything that takes longer than to copy a packet; [`SlotGuard::stay`] before that. Where others
    /// had the slot it is as [`Slot::lock`].
    #[inline]
    pub fn lock_briefly(&self) -> SlotGuard<'_, T, I> {
        match self.try_take(HELD | BRIEF, 0) {
            Some(before) => SlotGuard::of_brief(self, before),
            None => {
                self.wait_and_take();
                SlotGuard::of(self)
            }
        }
    }

    /// Takes the slot if it is free now.
    #[inline]
    pub fn try_lock(&self) -> Option<SlotGuard<'_, T, I>> {
        self.try_take(HELD, 0).map(|_| SlotGuard::of(self))
    }

    /// Waits until the slot is free and takes it for a short look. A look does no work, so nobody leaves work to it; and
    /// it is not counted as waiting, so no holder relies on it.
    pub fn look(&self) -> Look<'_, T, I> {
        let mut spin = Spin::default();
        loop {
            if let Some(before) = self.try_take(HELD | BRIEF, 0) {
                return Look::of(SlotGuard::of_brief(self, before));
            }
            if !spin.look_again() {
                spin.give_way();
            }
        }
    }

    /// Takes a free slot; `waiter` is what the taker was counted as. Returns what the word is without the taker.
    #[inline]
    fn try_take(&self, bits: u32, waiter: u32) -> Option<u32> {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & HELD == 0 {
            let before = word - waiter;
            match self.word.compare_exchange_weak(word, before | bits, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(before),
                Err(now) => word = now,
            }
        }
        None
    }

    #[cold]
    fn wait_and_take(&self) {
        let mut spin = Spin::default();
        while spin.look_again() {
            if self.try_take(HELD, 0).is_some() {
                return;
            }
        }
        self.be_counted();
        while self.try_take(HELD, WAITER).is_none() {
            let word = self.word.load(Ordering::Relaxed);
            if word & HELD != 0 {
                self.word.wait(word, None);
            }
        }
    }

    /// Counts this thread as one that waits, which must not be done while the slot is held briefly.
    fn be_counted(&self) {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & BRIEF != 0 {
                self.word.nap(word, BRIEF_NAP);
                word = self.word.load(Ordering::Relaxed);
                continue;
            }
            match self.word.compare_exchange_weak(word, word + WAITER, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Frees the slot, and lets WANTED stand.
    fn free(&self) {
        if self.word.fetch_and(!HELD, Ordering::Release) >= WAITER {
            self.word.wake_one();
        }
    }

    /// Frees the slot that is held briefly; the word was `before` until then.
    #[inline]
    fn free_brief(&self, before: u32) {
        self.word.store(before, Ordering::Release);
        if before >= WAITER {
            self.word.wake_one();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
