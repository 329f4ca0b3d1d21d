//! Who waits for what at a slot or a listener.
//!
//! Algorithm: conditions are bits of one word. Whoever changes the state of a connection sets and clears the bits under
//! the slot's lock; for bits that are new it takes the waiters of those bits out of the list, to be woken after the
//! turn, with no lock held. A waiter first leaves its waker in the list, then looks at the bits again.
//!
//! Races:
//! * Bit set against waiter registering: the setter writes the bits and then looks whether anybody is in the list; the
//!   waiter writes itself into the list and then looks at the bits. Both steps are sequentially consistent, so one of
//!   the two sees the other and no wake is lost.
//! * What holds no more needs no such order: a descriptor that is made at the same time may be left readable, and whoever relies
//!   on it finds nothing and lowers it.
//! * A waiter that times out, and a future that is dropped, takes itself out; if it was taken out already it gets one wake too
//!   many, which its loop bears.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task;

use weft_link::Waker;
use weft_sync::SpinLock;

/// What a thread, a task or a descriptor waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Interest {
    /// A receive, or an accept, would return at once.
    Readable = 1,
    /// A send would return at once.
    Writable = 2,
    /// The open is decided.
    Connected = 4,
    /// The close is decided.
    Closed = 8,
    /// A receive that waits would have something to take: all of a message, or much of one whose end has not come.
    RestReadable = 16,
    /// Of a message that is sent in parts the next one has room, or no message is.
    RestWritable = 32,
}

const INTERESTS: [Interest; 6] = [
    Interest::Readable,
    Interest::Writable,
    Interest::Connected,
    Interest::Closed,
    Interest::RestReadable,
    Interest::RestWritable,
];

impl Interest {
    pub(crate) const fn bit(self) -> u32 {
        self as u32
    }

    const fn index(self) -> usize {
        self.bit().trailing_zeros() as usize
    }
}

/// What is to be woken once no lock is held.
#[derive(Debug)]
pub(crate) enum Wake {
    /// A blocked thread or a task.
    Task(task::Waker),
    /// A descriptor becomes readable.
    Descriptor(Arc<Waker>),
}

impl Wake {
    pub(crate) fn run(self) {
        match self {
            Self::Task(waker) => waker.wake(),
            Self::Descriptor(waker) => waker.wake(),
        }
    }
}

/// Who waits for a condition.
#[derive(Debug)]
struct Waiter {
    interest: Interest,
    waker: task::Waker,
    /// The future that it is for; 0 if it is for whoever has this waker.
    ticket: u64,
}

/// A number for a future that waits. There are as many as any process will need.
pub(crate) fn ticket() -> u64 {
    static TICKETS: AtomicU64 = AtomicU64::new(1);
    TICKETS.fetch_add(1, Ordering::Relaxed)
}

/// One for each interest.
type Descriptors = [OnceLock<Arc<Waker>>; INTERESTS.len()];

/// The conditions of a slot, and those who wait for them.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// Conditions that hold.
    bits: AtomicU32,
    /// Conditions that somebody waits for, in the list or with a descriptor.
    wanted: AtomicU32,
    list: SpinLock<Vec<Waiter>>,
    /// Those of who polls; most never do.
    descriptors: OnceLock<Box<Descriptors>>,
}

impl Waiters {
    /// Whether the condition holds.
    #[inline]
    pub(crate) fn is_ready(&self, interest: Interest) -> bool {
        self.bits.load(Ordering::SeqCst) & interest.bit() != 0
    }

    /// Whether whatever is to be sent has room.
    pub(crate) fn are_writable(&self) -> bool {
        let bits = Interest::Writable.bit() | Interest::RestWritable.bit();
        self.bits.load(Ordering::Relaxed) & bits == bits
    }

    /// Puts `bits` in place of the present ones; who waited for a new one goes to `wakes`. `again` are bits whose
    /// descriptors are written even if they were set before: something new arrived.
    #[inline]
    pub(crate) fn set(&self, bits: u32, again: u32, wakes: &mut Vec<Wake>) {
        let before = self.bits.load(Ordering::Relaxed);
        if bits & !before != 0 {
            self.bits.store(bits, Ordering::SeqCst);
        } else if before != bits {
            self.bits.store(bits, Ordering::Release);
        }
        let news = bits & (!before | again);
        let gone = before & !bits;
        if news | gone != 0 && self.wanted.load(Ordering::SeqCst) & (news | gone) != 0 {
            self.settle(news, gone, wakes);
        }
    }

    /// The conditions with these bits hold, and something new came.
    #[inline]
    pub(crate) fn raise(&self, bits: u32, wakes: &mut Vec<Wake>) {
        self.set(self.bits.load(Ordering::Relaxed) | bits, bits, wakes);
    }

    /// The conditions with these bits hold no more. Wakes nobody.
    #[inline]
    pub(crate) fn clear(&self, gone: u32) {
        let bits = self.bits.load(Ordering::Relaxed);
        if bits & gone != 0 {
            self.set(bits & !gone, 0, &mut Vec::new());
        }
    }

    #[cold]
    fn settle(&self, news: u32, gone: u32, wakes: &mut Vec<Wake>) {
        let mut list = self.list.lock();
        let mut kept = 0;
        for waiter in list.extract_if(.., |waiter| news & waiter.interest.bit() != 0) {
            wakes.push(Wake::Task(waiter.waker));
        }
        list.iter().for_each(|waiter| kept |= waiter.interest.bit());
        for interest in INTERESTS {
            let Some(descriptor) = self.known_descriptor(interest) else { continue };
            kept |= interest.bit();
            if gone & interest.bit() != 0 {
                descriptor.drain();
            } else if news & interest.bit() != 0 {
                wakes.push(Wake::Descriptor(descriptor.clone()));
            }
        }
        self.wanted.store(kept, Ordering::SeqCst);
    }

    /// Leaves `waker` here until the condition holds. Look at [`Waiters::is_ready`] afterwards.
    pub(crate) fn register(&self, interest: Interest, waker: &task::Waker) {
        self.register_as(0, interest, waker);
    }

    /// The same for the future with that ticket, which leaves one waker, whatever others of its task do; or for 0.
    pub(crate) fn register_as(&self, ticket: u64, interest: Interest, waker: &task::Waker) {
        let mut list = self.list.lock();
        let is_anybodys = |other: &Waiter| other.interest == interest && other.waker.will_wake(waker);
        let is_it = |other: &Waiter| other.ticket == ticket && (ticket > 0 || is_anybodys(other));
        match list.iter_mut().find(|other| is_it(other)) {
            Some(known) => known.waker.clone_from(waker),
            None => {
                // Few conditions ever have a second waiter.
                list.reserve_exact(1);
                list.push(Waiter { interest, waker: waker.clone(), ticket });
            }
        }
        self.wanted.fetch_or(interest.bit(), Ordering::SeqCst);
    }

    /// Takes back what [`Waiters::register`] left.
    pub(crate) fn forget(&self, waker: &task::Waker) {
        self.list.lock().retain(|known| !known.waker.will_wake(waker));
    }

    /// Takes back what a future left.
    pub(crate) fn give_up(&self, ticket: u64) {
        self.list.lock().retain(|known| known.ticket != ticket);
    }

    /// The descriptor that is readable while the condition holds.
    pub(crate) fn descriptor(&self, interest: Interest) -> io::Result<Arc<Waker>> {
        let place = &self.descriptors.get_or_init(Box::default)[interest.index()];
        if let Some(descriptor) = place.get() {
            return Ok(descriptor.clone());
        }
        let descriptor = place.get_or_init({
            let fresh = Arc::new(Waker::new()?);
            || fresh
        });
        // Under the list's lock, or a setter that saw no descriptor would take the wish back.
        let list = self.list.lock();
        self.wanted.fetch_or(interest.bit(), Ordering::SeqCst);
        drop(list);
        if self.is_ready(interest) {
            descriptor.wake();
        }
        Ok(descriptor.clone())
    }

    /// An operation found that the condition does not hold: the descriptor must not say otherwise. A wake that was on
    /// its way when the condition ended may have left it readable.
    pub(crate) fn lower(&self, interest: Interest) {
        let Some(descriptor) = self.known_descriptor(interest) else { return };
        descriptor.drain();
        if self.is_ready(interest) {
            descriptor.wake();
        }
    }

    /// Whether somebody watches a descriptor, who runs no turns himself.
    pub(crate) fn has_descriptor(&self, interest: Interest) -> bool {
        self.known_descriptor(interest).is_some()
    }

    fn known_descriptor(&self, interest: Interest) -> Option<&Arc<Waker>> {
        self.descriptors.get()?[interest.index()].get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_condition_that_begins_to_hold_wakes_only_those_who_wait_for_it() {
        let waiters = Waiters::default();
        let (reader, writer) = (Arc::new(Count::default()), Arc::new(Count::default()));
        waiters.register(Interest::Readable, &reader.clone().into());
        waiters.register(Interest::Writable, &writer.clone().into());
        let mut wakes = Vec::new();
        waiters.set(Interest::Readable.bit(), 0, &mut wakes);
        wakes.drain(..).for_each(Wake::run);
        assert_eq!((reader.0.load(Ordering::Relaxed), writer.0.load(Ordering::Relaxed)), (1, 0));
        waiters.set(Interest::Readable.bit(), 0, &mut wakes);
        assert!(wakes.is_empty(), "nothing is new");
    }

    #[test]
    fn a_descriptor_follows_its_condition() {
        let waiters = Waiters::default();
        let descriptor = waiters.descriptor(Interest::Readable).unwrap();
        let mut wakes = Vec::new();
        waiters.set(Interest::Readable.bit(), 0, &mut wakes);
        wakes.drain(..).for_each(Wake::run);
        assert!(descriptor.drain(), "readable while it holds");
        descriptor.wake();
        waiters.set(0, 0, &mut wakes);
        assert!(!descriptor.drain(), "not readable when it holds no more");
    }

    #[test]
    fn a_descriptor_made_late_shows_what_holds_already() {
        let waiters = Waiters::default();
        waiters.set(Interest::Writable.bit(), 0, &mut Vec::new());
        assert!(waiters.descriptor(Interest::Writable).unwrap().drain());
    }

    #[test]
    fn who_gave_up_waiting_is_not_woken() {
        let waiters = Waiters::default();
        let reader = Arc::new(Count::default());
        let waker = reader.into();
        waiters.register(Interest::Readable, &waker);
        waiters.forget(&waker);
        let mut wakes = Vec::new();
        waiters.set(Interest::Readable.bit(), 0, &mut wakes);
        assert!(wakes.is_empty());
    }
}
