//! What the runtime does for all of them: its end, its limits, where they run, what it tells.

use std::sync::atomic::AtomicBool;

use super::*;

#[test]
fn the_runtime_waits_for_attached_fibers_and_cancels_detached_ones() {
    let (finished, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    struct Count(Arc<AtomicUsize>);
    impl Drop for Count {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (theirs, count) = (finished.clone(), Count(dropped.clone()));
    on_fiber(move || {
        let _attached = spawn(move || {
            sleep(Duration::from_millis(10));
            theirs.fetch_add(1, Ordering::SeqCst)
        });
        let _detached = Spawn::new().detached().spawn(move || {
            let _count = count;
            park().unwrap();
        });
        yield_now();
    });
    assert_eq!((finished.load(Ordering::SeqCst), dropped.load(Ordering::SeqCst)), (1, 1));
}

/// Detached fibers come and go between the looks of the thread that ends the runtime.
#[test]
fn detached_fibers_that_come_and_go_do_not_end_an_attached_one() {
    for _ in 0..20 {
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let attached = runtime
            .spawn(|| {
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_millis(20) {
                    let _detached = Spawn::new().detached().spawn(|| ()).unwrap();
                    yield_now();
                }
                7
            })
            .unwrap();
        drop(runtime);
        assert_eq!(attached.join().unwrap(), 7);
    }
}

#[test]
fn the_end_of_the_runtime_does_not_wait_for_ever_for_a_detached_fiber_that_is_always_ready() {
    let (begun, done) = (Waiter::new(), Arc::new(AtomicBool::new(false)));
    let (begins, theirs) = (begun.clone(), done.clone());
    let runtime = Runtime::new().unwrap();
    let busy = move || {
        shielded(|| {
            begins.wake();
            while !theirs.load(Ordering::Relaxed) {
                yield_now();
            }
        });
    };
    let busy = Spawn::new().detached().spawn_on(&runtime.handle(), busy).unwrap();
    begun.wait();
    let (has_ended, is_ended) = std::sync::mpsc::channel();
    let ender = std::thread::spawn(move || {
        drop(runtime);
        let _ = has_ended.send(());
    });
    let ended = is_ended.recv_timeout(Duration::from_secs(30));
    assert!(!busy.fiber().is_ended());
    done.store(true, Ordering::Relaxed);
    ender.join().unwrap();
    assert!(ended.is_ok(), "the runtime ended when the fiber did");
}

/// A fiber that has taken its worker's thread does not keep others to itself that have not begun.
#[test]
fn fibers_that_have_not_begun_go_to_whoever_is_idle() {
    const WORKERS: usize = 4;
    let together = |begun: &AtomicUsize| {
        begun.fetch_add(1, Ordering::SeqCst);
        let until = Instant::now() + Duration::from_secs(5);
        while begun.load(Ordering::SeqCst) < WORKERS && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(100));
        }
        begun.load(Ordering::SeqCst)
    };
    let runtime = Runtime::builder().workers(WORKERS).build().unwrap();
    for _ in 0..20 {
        let begun = Arc::new(AtomicUsize::new(0));
        let all = move || {
            let begun: Vec<_> = (0..WORKERS).map(|_| begun.clone()).collect();
            let all: Vec<_> =
                begun.into_iter().map(|begun| spawn(move || together(&begun)).unwrap()).collect();
            all.into_iter().map(|fiber| fiber.join().unwrap()).fold(WORKERS, usize::min)
        };
        assert_eq!(runtime.spawn(all).unwrap().join().unwrap(), WORKERS, "began, a worker each");
    }
}

#[test]
fn the_limit_is_an_error_and_not_the_end() {
    let runtime = Runtime::builder().fiber_limit(10).build().unwrap();
    runtime
        .run(|| {
            let parts: Vec<_> = (0..9).map(|_| spawn(|| ()).unwrap()).collect();
            assert_eq!(spawn(|| ()).unwrap_err(), SpawnError::Limit { limit: 10 });
            parts.into_iter().for_each(|part| part.join().unwrap());
            spawn(|| ()).unwrap().join().unwrap();
        })
        .unwrap();
}

#[test]
fn after_shutdown_there_are_errors() {
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle();
    let child = runtime.spawn(|| 3).unwrap();
    let fiber = child.fiber().clone();
    runtime.shut_down();
    assert_eq!(handle.spawn(|| ()).unwrap_err(), SpawnError::ShutDown);
    fiber.cancel();
    fiber.unpark();
    assert_eq!(child.join().unwrap(), 3);
}

/// A spawn beside the end of the runtime is refused, or its fiber runs: its joiner never waits for nothing.
#[test]
fn what_is_spawned_as_the_runtime_ends_runs_or_is_refused() {
    for _ in 0..20_000 {
        let runtime = Runtime::new().unwrap();
        let handle = runtime.handle();
        let spawner = std::thread::spawn(move || {
            for pause in 0_u64.. {
                match handle.spawn(|| 1) {
                    Ok(child) => assert_eq!(child.join().unwrap(), 1),
                    Err(error) => return error,
                }
                // The runtime ends when it finds no fiber.
                std::thread::sleep(Duration::from_micros(pause % 50));
            }
            unreachable!("it ends by an error");
        });
        drop(runtime);
        assert_eq!(spawner.join().unwrap(), SpawnError::ShutDown);
    }
}

#[test]
fn calls_for_fibers_are_refused_on_threads() {
    assert_eq!(spawn(|| ()).unwrap_err(), SpawnError::NotAFiber);
    assert_eq!(park(), Err(NotAFiber));
    assert_eq!(wait_for_joiners(1), Err(NotAFiber));
    assert_eq!(bind_here(), Err(NotAFiber));
    assert!(Fiber::current().is_none());
}

#[test]
fn a_runtime_that_its_own_fiber_drops_is_an_error_and_no_hang() {
    let runtime = Arc::new(std::sync::Mutex::new(None));
    let theirs = runtime.clone();
    *runtime.lock().unwrap() = Some(Runtime::new().unwrap());
    let handle = runtime.lock().unwrap().as_ref().unwrap().handle();
    let child = handle.spawn(move || {
        let runtime = theirs.lock().unwrap().take();
        drop(runtime);
        5
    });
    assert_eq!(child.unwrap().join().unwrap(), 5);
}

#[test]
fn bound_fibers_run_where_they_are_bound() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    runtime
        .run(|| {
            for worker in [0, 1] {
                let child = Spawn::new().bind(worker).spawn(current_worker).unwrap();
                assert_eq!(child.fiber().bound_to(), Some(worker));
                assert_eq!(child.join().unwrap(), Some(worker));
            }
            let error = Spawn::new().bind(2).spawn(|| ()).unwrap_err();
            assert_eq!(error, SpawnError::NoSuchWorker { worker: 2, workers: 2 });
        })
        .unwrap();
}

#[test]
fn a_roaming_fiber_changes_over_when_it_is_bound() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let there = runtime.run(|| {
        let body = || {
            let me = Fiber::current().unwrap();
            [0, 1, 0].map(|worker| {
                me.bind(worker).unwrap();
                yield_now();
                current_worker()
            })
        };
        // SAFETY: the body keeps nothing of its thread.
        unsafe { Spawn::new().roaming() }.spawn(body).unwrap().join().unwrap()
    });
    assert_eq!(there.unwrap(), [Some(0), Some(1), Some(0)]);
}

#[test]
fn a_fiber_that_has_started_stays_and_a_local_one_never_leaves() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    runtime
        .run(|| {
            let here = current_worker().unwrap();
            let me = Fiber::current().unwrap();
            assert_eq!(me.bind(1 - here), Err(BindError::Started { home: here }));
            assert_eq!(me.unbind(), Err(BindError::NotBound));
            bind_here().unwrap();
            assert_eq!(me.unbind(), Ok(()));
            let local = spawn_local(|| ()).unwrap();
            assert_eq!(local.fiber().bind(1 - here), Err(BindError::Local));
            assert_eq!(local.fiber().unbind(), Err(BindError::Local));
        })
        .unwrap();
}

#[test]
fn a_value_that_cannot_leave_its_thread_is_dropped_there() {
    struct Stays(std::thread::ThreadId, Rc<Cell<u32>>);
    impl Drop for Stays {
        fn drop(&mut self) {
            assert_eq!(std::thread::current().id(), self.0);
            self.1.set(self.1.get() + 1);
        }
    }
    let fibers = on_fiber(|| {
        let dropped = Rc::new(Cell::new(0));
        let spawn_one = || {
            let dropped = dropped.clone();
            spawn_local(move || Stays(std::thread::current().id(), dropped)).unwrap()
        };
        let (early, late) = (spawn_one(), spawn_one());
        let fibers = [early.fiber().clone(), late.fiber().clone()];
        drop(early);
        yield_now();
        yield_now();
        assert_eq!(dropped.get(), 1);
        drop(late);
        assert_eq!(dropped.get(), 2);
        fibers
    });
    // The last references go on another thread, and find nothing to drop.
    assert!(fibers.iter().all(Fiber::is_ended));
}

#[test]
fn a_deadlock_is_reported_with_names() {
    static REPORTED: AtomicUsize = AtomicUsize::new(0);
    let note = |deadlock: &Deadlock| {
        assert!(deadlock.to_string().contains("\"left\"") && deadlock.fibers().len() == 2, "{deadlock}");
        REPORTED.fetch_add(1, Ordering::SeqCst);
    };
    let runtime = Runtime::builder().on_deadlock(note).build().unwrap();
    let semaphore = Arc::new(Semaphore::new(0));
    let fibers = ["left", "right"].map(|name| {
        let semaphore = semaphore.clone();
        Spawn::new().name(name).spawn_on(&runtime.handle(), move || semaphore.wait()).unwrap()
    });
    let start = Instant::now();
    while REPORTED.load(Ordering::SeqCst) == 0 && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(runtime.handle().deadlock().is_some());
    assert_eq!(REPORTED.load(Ordering::SeqCst), 1);
    // A thread from outside can end it.
    fibers.iter().for_each(|_| semaphore.post());
    fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
    assert!(runtime.handle().deadlock().is_none());
}

#[test]
fn the_listing_says_who_waits_for_what() {
    let runtime = Runtime::new().unwrap();
    let (semaphore, handle) = (Arc::new(Semaphore::new(0)), runtime.handle());
    let theirs = semaphore.clone();
    let waits = Spawn::new().name("reader").spawn_on(&handle, move || theirs.wait()).unwrap();
    let (listed, me) = runtime
        .run(move || {
            yield_now();
            (handle.list(), Fiber::current().unwrap().id())
        })
        .unwrap();
    let reader = listed.iter().find(|fiber| fiber.name == "reader").unwrap();
    assert_eq!((reader.state, reader.worker), (State::Waiting(Why::Semaphore), Some(0)));
    assert!(
        reader.to_string().contains("\"reader\"") && reader.to_string().contains("waits for a semaphore")
    );
    let main = listed.iter().find(|fiber| fiber.id == me).unwrap();
    assert_eq!(main.state, State::Running);
    semaphore.post();
    waits.join().unwrap();
    assert_eq!(runtime.handle().list(), []);
}
