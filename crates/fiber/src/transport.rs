//! How calls of a transport wait on a fiber, and how workers without a fiber drive the transport (see
//! [`weft_sync::scheduler`]).
//!
//! A fiber that waits names its transport's driver. As long as it waits the driver is attended: idle workers poll it, and
//! one of them sleeps in it rather than at its own bell.
//!
//! Races: whoever has news for a worker finds it wherever it sleeps; see `sleep`.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{RawWaker, RawWakerVTable, Waker};
use std::time::Duration;

use weft_sync::SpinLock;
use weft_sync::scheduler::{Awaited, Driver, Scheduler, Wait};

use crate::block::Block;
use crate::cancel;
use crate::control;
use crate::fiber::Fiber;
use crate::runtime::Shared;
use crate::why::Why;
use crate::worker;

/// The drivers that fibers of a runtime wait for at present.
pub(crate) struct Drivers {
    len: AtomicUsize,
    attended: SpinLock<Vec<Attended>>,
}

struct Attended {
    driver: Arc<dyn Driver>,
    /// Fibers that wait for it.
    fibers: usize,
}

impl Drivers {
    pub(crate) fn new() -> Self {
        Self { len: AtomicUsize::new(0), attended: SpinLock::new(Vec::new()) }
    }

    /// How many there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// One of them, round and round.
    pub(crate) fn nth(&self, index: usize) -> Option<Arc<dyn Driver>> {
        let attended = self.attended.lock();
        let index = index.checked_rem(attended.len())?;
        Some(attended[index].driver.clone())
    }

    /// Has each make progress of at most `budget`; returns how much they made.
    #[inline]
    pub(crate) fn poll(&self, budget: usize) -> usize {
        (0..self.len()).filter_map(|index| self.nth(index)).map(|driver| driver.poll(budget)).sum()
    }

    fn attend<'a>(&'a self, driver: &'a Arc<dyn Driver>) -> Attending<'a> {
        let mut attended = self.attended.lock();
        match attended.iter_mut().find(|known| Arc::ptr_eq(&known.driver, driver)) {
            Some(known) => known.fibers += 1,
            None => attended.push(Attended { driver: driver.clone(), fibers: 1 }),
        }
        self.len.store(attended.len(), Ordering::Relaxed);
        Attending(self, driver)
    }
}

/// A fiber waits for a driver.
struct Attending<'a>(&'a Drivers, &'a Arc<dyn Driver>);

impl Drop for Attending<'_> {
    fn drop(&mut self) {
        let mut attended = self.0.attended.lock();
        let place = attended.iter().position(|known| Arc::ptr_eq(&known.driver, self.1));
        let Some(place) = place else { return };
        attended[place].fibers -= 1;
        let gone = (attended[place].fibers == 0).then(|| attended.swap_remove(place));
        self.0.len.store(attended.len(), Ordering::Relaxed);
        drop(attended);
        drop(gone);
    }
}

/// The fibers of whichever runtime the thread belongs to.
struct Fibers;

/// Says that this thread runs fibers.
pub(crate) fn install() {
    weft_sync::scheduler::install(&Fibers);
}

impl Scheduler for Fibers {
    fn waker(&self) -> Option<Waker> {
        worker::current_block().map(waker_of)
    }

    fn park(&self, wait: &Wait<'_>) {
        let Some(block) = worker::current_block() else { return };
        // SAFETY: the fiber that runs lives.
        let fiber = unsafe { block.as_ref() };
        // SAFETY: the shared state lives as long as any region is out, and this fiber has one.
        let shared: &Shared = unsafe { &*fiber.shared };
        let attending = shared.drivers.attend(wait.driver);
        let deadline = wait.timeout.and_then(control::deadline);
        let outcome = fiber.news.wait_for(why(wait.awaited), wait.object, deadline);
        drop(attending);
        cancel::unwind_if(outcome);
    }

    fn sleep(&self, duration: Duration) {
        control::sleep(duration);
    }

    fn shielded(&self, body: &mut dyn FnMut()) {
        control::shielded(body);
    }
}

fn why(awaited: Awaited) -> Why {
    match awaited {
        Awaited::Readable => Why::Readable,
        Awaited::Writable => Why::Writable,
        Awaited::Connected => Why::Connected,
        Awaited::Closed => Why::Closed,
    }
}

/// A waker is a reference to the fiber.
fn waker_of(block: NonNull<Block>) -> Waker {
    let reference = ManuallyDrop::new(Fiber::share(block));
    // SAFETY: the functions treat the pointer as the reference to a fiber that it is.
    unsafe { Waker::from_raw(RawWaker::new(reference.as_ptr(), &VTABLE)) }
}

/// One place, so that two wakers of one fiber are equal.
static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, forget);

/// The reference that a waker's pointer is.
///
/// # Safety
///
/// `waker` came from [`waker_of`] or [`clone`].
unsafe fn reference(waker: *const ()) -> ManuallyDrop<Fiber> {
    // SAFETY: it is the pointer of a reference, which the waker keeps.
    ManuallyDrop::new(Fiber::own(unsafe { NonNull::new_unchecked(waker.cast_mut().cast()) }))
}

/// SAFETY contract of this and the next three: that of [`reference`].
unsafe fn clone(waker: *const ()) -> RawWaker {
    // SAFETY: the contract.
    let another = ManuallyDrop::new(Fiber::clone(&*unsafe { reference(waker) }));
    RawWaker::new(another.as_ptr(), &VTABLE)
}

unsafe fn wake(waker: *const ()) {
    // SAFETY: the contract.
    let last = ManuallyDrop::into_inner(unsafe { reference(waker) });
    last.block().news.set();
}

unsafe fn wake_by_ref(waker: *const ()) {
    // SAFETY: the contract.
    unsafe { reference(waker) }.block().news.set();
}

unsafe fn forget(waker: *const ()) {
    // SAFETY: the contract; the waker's reference ends here.
    drop(ManuallyDrop::into_inner(unsafe { reference(waker) }));
}
