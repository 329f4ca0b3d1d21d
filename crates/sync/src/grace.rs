//! Reading shared lists without a lock: what was taken out is freed once nobody can still be reading it.
//!
//! Algorithm: readers count themselves in and out of a stripe, a counter that the thread mostly has for itself. A
//! writer takes an object out of the shared structure (under its own lock) and retires it. Retired objects gather
//! in `fresh`. When nothing waits, `fresh` becomes `waiting`, and all stripes are marked busy; whenever a stripe's
//! counter is seen at zero, its mark goes; without marks, `waiting` is freed.
//!
//! Why this is right: a reader that could have met the object counted itself in before the object was taken out.
//! Its counter is above zero from then until it leaves, so a zero seen after the object was taken out means that
//! this reader has left. It does not matter that the stripes are looked at one after the other, nor that new
//! readers come and go.
//!
//! Races:
//! * Reader: count in, fence, read links. Writer: unlink, fence, look at the counter. With both fences sequentially
//!   consistent, either the writer sees the count, or the reader sees the list without the object.
//! * Counting out releases and looking acquires, so everything the reader read happens before the free.
//! * A reader that is pre-empted while it reads holds up frees and nobody else: writers do not wait for it, beyond
//!   a bounded spin.
//!
//! Limits: 64 stripes. More threads share them, which costs time and, as long as at least one of the sharers is
//! always reading, puts off frees. An object may stay retired until the next writer comes.

use std::marker::PhantomData;

use crate::Mutex;
use crate::face::atomic::{AtomicUsize, Ordering, fence};
use crate::face::{Spin, add_then_fence, thread_index};

const STRIPES: usize = if cfg!(loom) { 2 } else { 64 };
const ALL: u64 = u64::MAX >> (u64::BITS as usize - STRIPES);

/// Two cache lines for each, because processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe(AtomicUsize);

/// Counts readers, and keeps what writers took out until it can be dropped.
///
/// `T` owns what is to be freed without being the memory itself, as a raw pointer with a `Drop` does: readers may
/// still look at that memory while the `T` lies here.
#[derive(Debug)]
pub struct Grace<T> {
    stripes: Box<[Stripe]>,
    retired: Mutex<Retired<T>>,
}

#[derive(Debug)]
struct Retired<T> {
    fresh: Vec<T>,
    waiting: Vec<T>,
    /// Stripes not seen at zero since `waiting` was filled.
    busy: u64,
}

impl<T> Default for Grace<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Grace<T> {
    /// No reader, nothing retired.
    #[must_use]
    pub fn new() -> Self {
        let retired = Retired { fresh: Vec::new(), waiting: Vec::new(), busy: 0 };
        Self { stripes: (0..STRIPES).map(|_| Stripe::default()).collect(), retired: Mutex::new(retired) }
    }

    /// Begins to read. Whatever can be reached now stays valid until the guard is dropped, so keep it for a moment
    /// only.
    #[inline]
    pub fn read(&self) -> Reading<'_> {
        let readers = &self.stripes[thread_index() % STRIPES].0;
        add_then_fence(readers, 1);
        Reading { readers, stays: PhantomData }
    }

    /// Drops `object` once every reader of now is gone: mostly before this returns, else when the next one is
    /// retired, or by [`Grace::collect`].
    ///
    /// # Safety
    ///
    /// A reader that begins after this call must not be able to reach what dropping `object` frees.
    pub unsafe fn retire(&self, object: T) {
        self.retired.lock().fresh.push(object);
        let mut spin = Spin::default();
        while !self.collect() && spin.look_again() {}
    }

    /// Drops what no reader can hold any more. True if nothing is left.
    pub fn collect(&self) -> bool {
        let mut retired = self.retired.lock();
        let old = self.advance(&mut retired);
        let older = self.advance(&mut retired);
        let is_empty = retired.fresh.is_empty() && retired.waiting.is_empty();
        drop(retired);
        // Dropped without the lock, for a drop may retire something itself.
        drop((old, older));
        is_empty
    }

    /// Looks at the busy stripes, and takes out what has waited for the last of them.
    fn advance(&self, retired: &mut Retired<T>) -> Vec<T> {
        if retired.waiting.is_empty() {
            std::mem::swap(&mut retired.fresh, &mut retired.waiting);
            retired.busy = ALL;
        }
        if retired.waiting.is_empty() {
            return Vec::new();
        }
        fence(Ordering::SeqCst);
        for (stripe, Stripe(readers)) in self.stripes.iter().enumerate() {
            if retired.busy & 1 << stripe != 0 && readers.load(Ordering::Acquire) == 0 {
                retired.busy &= !(1 << stripe);
            }
        }
        if retired.busy == 0 { std::mem::take(&mut retired.waiting) } else { Vec::new() }
    }
}

/// The right to read; dropping it ends the reading.
#[must_use = "the reading lasts only as long as its guard"]
#[derive(Debug)]
pub struct Reading<'a> {
    readers: &'a AtomicUsize,
    stays: PhantomData<*const ()>,
}

impl Drop for Reading<'_> {
    #[inline]
    fn drop(&mut self) {
        self.readers.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn what_nobody_reads_is_dropped_at_once() {
        let (grace, object) = (Grace::new(), Arc::new(()));
        // SAFETY: no reader reaches anything by the object.
        unsafe { grace.retire(object.clone()) };
        assert_eq!(Arc::strong_count(&object), 1);
    }

    #[test]
    fn a_reader_of_before_holds_up_the_drop_and_one_of_after_does_not() {
        let (grace, object) = (Grace::new(), Arc::new(()));
        let before = grace.read();
        // SAFETY: no reader reaches anything by the object.
        unsafe { grace.retire(object.clone()) };
        assert!(!grace.collect());
        assert_eq!(Arc::strong_count(&object), 2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _after = grace.read();
            });
        });
        drop(before);
        assert!(grace.collect());
        assert_eq!(Arc::strong_count(&object), 1);
    }

    #[test]
    fn what_is_retired_later_waits_for_its_own_readers() {
        let (grace, first, second) = (Grace::new(), Arc::new(()), Arc::new(()));
        let one = grace.read();
        // SAFETY: no reader reaches anything by the object.
        unsafe { grace.retire(first.clone()) };
        // SAFETY: as above.
        unsafe { grace.retire(second.clone()) };
        drop(one);
        assert!(grace.collect());
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 1));
    }

    #[test]
    fn what_is_left_is_dropped_with_it() {
        let object = Arc::new(());
        let grace = Grace::new();
        let reading = grace.read();
        // SAFETY: no reader reaches anything by the object.
        unsafe { grace.retire(object.clone()) };
        drop(reading);
        drop(grace);
        assert_eq!(Arc::strong_count(&object), 1);
    }
}
