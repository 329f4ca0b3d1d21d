//! What fibers leave behind: results that nobody takes, and destructors that wait.

use super::*;

/// Counts its drop once it has had the mutex.
struct Lease(Arc<(Mutex<()>, AtomicUsize)>);

impl Lease {
    /// One, and where drops are counted.
    fn new() -> (Self, Arc<(Mutex<()>, AtomicUsize)>) {
        let shared = Arc::new((Mutex::new(()), AtomicUsize::new(0)));
        (Self(shared.clone()), shared)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let _held = self.0.0.lock();
        self.0.1.fetch_add(1, Ordering::Relaxed);
    }
}

/// Yields until the fiber has ended, but not for ever.
fn let_it_end(fiber: &Fiber) {
    for _ in 0..1_000 {
        if fiber.is_ended() {
            return;
        }
        yield_now();
    }
    panic!("it has not ended");
}

#[test]
fn a_result_that_nobody_takes_may_wait_as_it_is_dropped() {
    on_fiber(|| {
        let (lease, shared) = Lease::new();
        let held = shared.0.lock();
        drop(spawn(move || lease).unwrap());
        yield_now();
        assert_eq!(shared.1.load(Ordering::Relaxed), 0);
        drop(held);
        (0..10).for_each(|_| yield_now());
        assert_eq!(shared.1.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_result_that_nobody_takes_is_dropped_whole_by_a_cancelled_fiber() {
    on_fiber(|| {
        let (lease, shared) = Lease::new();
        let held = shared.0.lock();
        let child = spawn(move || lease).unwrap();
        let fiber = child.fiber().clone();
        drop(child);
        yield_now();
        fiber.cancel();
        yield_now();
        assert!(!fiber.is_ended(), "it waits for the mutex");
        drop(held);
        let_it_end(&fiber);
        assert_eq!(shared.1.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn who_lets_a_result_go_waits_for_its_destructor() {
    on_fiber(|| {
        let (lease, shared) = Lease::new();
        let held = shared.0.lock();
        let dropper = spawn(move || {
            let child = spawn(move || lease).unwrap();
            let_it_end(child.fiber());
            drop(child);
            check_cancelled();
            unreachable!("it was cancelled meanwhile");
        });
        let dropper = dropper.unwrap();
        // By then it waits for the mutex.
        (0..10).for_each(|_| yield_now());
        dropper.fiber().cancel();
        yield_now();
        assert_eq!(shared.1.load(Ordering::Relaxed), 0);
        drop(held);
        assert!(matches!(dropper.join(), Err(JoinError::Cancelled)));
        assert_eq!(shared.1.load(Ordering::Relaxed), 1);
    });
}

/// Cancels the fiber that `begin` gives a lease to, which waits as it is dropped, and is dropped whole.
fn cancel_one_with_a_lease(begin: impl FnOnce(Lease) -> JoinHandle<()>) {
    let (lease, shared) = Lease::new();
    let held = shared.0.lock();
    let child = begin(lease);
    child.fiber().cancel();
    (0..10).for_each(|_| yield_now());
    assert_eq!(shared.1.load(Ordering::Relaxed), 0);
    drop(held);
    assert!(matches!(child.join(), Err(JoinError::Cancelled)));
    assert_eq!(shared.1.load(Ordering::Relaxed), 1);
}

#[test]
fn what_a_fiber_that_never_started_holds_is_dropped_whole() {
    on_fiber(|| cancel_one_with_a_lease(|lease| spawn(move || drop(lease)).unwrap()));
}

#[test]
fn what_a_cancelled_fiber_has_in_its_storage_is_dropped_whole() {
    static KEPT: FiberLocal<RefCell<Option<Lease>>> = FiberLocal::new(|| RefCell::new(None));
    let begin = |lease| {
        let child = spawn(move || {
            KEPT.with(|kept| *kept.borrow_mut() = Some(lease)).unwrap();
            park().unwrap();
        });
        yield_now();
        child.unwrap()
    };
    on_fiber(move || cancel_one_with_a_lease(begin));
}

/// The thread counts the panic of one that sleeps in a destructor, and does not say whose it is: a cancellation of another that
/// went to sleep meanwhile waits until the panic is over.
#[test]
fn one_that_falls_asleep_beside_one_that_unwinds_can_be_cancelled() {
    on_fiber(|| {
        for is_early in [true, false] {
            let (lease, shared) = Lease::new();
            let held = shared.0.lock();
            let fails = spawn(move || {
                let _lease = lease;
                std::panic::resume_unwind(Box::new("on purpose, to wait as it unwinds"));
            });
            let fails: JoinHandle<()> = fails.unwrap();
            yield_now();
            let semaphore = Arc::new(Semaphore::new(0));
            let theirs = semaphore.clone();
            let waits = spawn(move || theirs.wait()).unwrap();
            yield_now();
            if is_early {
                waits.fiber().cancel();
            }
            drop(held);
            assert!(matches!(fails.join(), Err(JoinError::Panicked(_))));
            if !is_early {
                // By then its worker has looked after other things.
                sleep(Duration::from_millis(5));
                waits.fiber().cancel();
            }
            let ended = waits.join_until(Instant::now() + Duration::from_secs(10));
            let error = ended.err().map(|(_, error)| error);
            semaphore.post();
            assert!(matches!(error, Some(JoinError::Cancelled)), "early: {is_early}, {error:?}");
        }
    });
}
