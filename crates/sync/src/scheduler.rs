//! Where a call that blocks, a scheduler of fibers and a transport meet, none of which knows the others.
//!
//! A thread that runs fibers tells so by [`install`]. A call that has to wait asks [`current`]: on such a thread it leaves
//! the waker of the fiber that runs with what it waits for, and parks the fiber; on any other it makes the thread wait. While
//! a fiber is parked, the scheduler knows the [`Driver`] that will wake it: idle threads poll that, and sleep in it.

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use crate::{Parker, Unparker};

/// What a fiber waits for at a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Something to receive, or a connection to accept.
    Readable,
    /// Room to send.
    Writable,
    /// The outcome of a connect.
    Connected,
    /// The outcome of a close.
    Closed,
}

/// One wait of a fiber.
#[derive(Clone, Copy)]
pub struct Wait<'a> {
    /// What for.
    pub awaited: Awaited,
    /// The address of what it waits at, for listings.
    pub object: usize,
    /// How long at most.
    pub timeout: Option<Duration>,
    /// What has to make progress meanwhile.
    pub driver: &'a Arc<dyn Driver>,
}

/// Runs fibers on threads of its own.
pub trait Scheduler: Sync {
    /// A waker of the fiber that runs on this thread; `None` if it runs none at this moment.
    fn waker(&self) -> Option<Waker>;

    /// Has others run until that waker is woken, or has been since the last return, or the time is over. It may return
    /// early, so look again. A fiber that is cancelled unwinds.
    fn park(&self, wait: &Wait<'_>);

    /// Has others run for so long.
    fn sleep(&self, duration: Duration);

    /// Calls `body`, in which a cancellation ends no wait.
    fn shielded(&self, body: &mut dyn FnMut());
}

/// A transport, as threads with nothing else to do drive it.
pub trait Driver: Send + Sync {
    /// Makes progress of at most `budget` packets, or about so many, and returns how much it made. Never waits.
    fn poll(&self, budget: usize) -> usize;

    /// Sleeps, and makes progress whenever there is some to make, until the sleeper is called or `limit` is over. It may
    /// return early.
    fn rest(&self, sleeper: &Sleeper<'_>, limit: Option<Duration>);

    /// Ends a rest: the sleeper is called.
    fn wake(&self);

    /// Nobody here polls for now.
    fn watch(&self);
}

/// A thread that is about to rest.
pub struct Sleeper<'a> {
    /// Where it sleeps when it need not look after the transport.
    pub parker: &'a Parker,
    /// Ends that sleep.
    pub waker: &'a Waker,
    /// Whether it has something else to do. Who gives it something asks for [`Driver::wake`] afterwards.
    pub is_called: &'a dyn Fn() -> bool,
}

impl Wake for Unparker {
    fn wake(self: Arc<Self>) {
        self.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.unpark();
    }
}

thread_local! {
    static SCHEDULER: Cell<Option<&'static dyn Scheduler>> = const { Cell::new(None) };
}

/// Says that this thread runs fibers of `scheduler`, from now to its end.
pub fn install(scheduler: &'static dyn Scheduler) {
    SCHEDULER.set(Some(scheduler));
}

/// The scheduler whose fibers this thread runs.
#[inline]
#[must_use]
pub fn current() -> Option<&'static dyn Scheduler> {
    // A destructor at the end of a thread may wait as well, when there is nothing to ask any more.
    SCHEDULER.try_with(Cell::get).unwrap_or(None)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Nobody;

    impl Scheduler for Nobody {
        fn waker(&self) -> Option<Waker> {
            None
        }
        fn park(&self, _wait: &Wait<'_>) {}
        fn sleep(&self, _duration: Duration) {}
        fn shielded(&self, body: &mut dyn FnMut()) {
            body();
        }
    }

    #[test]
    fn a_thread_has_the_scheduler_that_was_installed_there_and_others_have_none() {
        std::thread::spawn(|| {
            install(&Nobody);
            assert!(current().is_some_and(|scheduler| scheduler.waker().is_none()));
        })
        .join()
        .unwrap();
        assert!(current().is_none());
    }

    #[test]
    fn an_unparker_is_a_waker() {
        let parker = Parker::new();
        Waker::from(Arc::new(parker.unparker())).wake();
        assert!(parker.park_timeout(Duration::ZERO));
    }
}
