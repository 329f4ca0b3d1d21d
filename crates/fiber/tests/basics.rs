//! What fibers do, one behaviour a test.

#![cfg(not(loom))]
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use weft_fiber::*;

/// Runs `body` on one worker; its panic is the test's.
fn on_fiber<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    run(body).expect("the body ends well")
}

fn in_a_moment() -> Instant {
    Instant::now() + Duration::from_millis(5)
}

#[test]
fn yielding_fibers_take_turns() {
    let order = on_fiber(|| {
        let order = Rc::new(RefCell::new(Vec::new()));
        let parts: Vec<_> = (0..3)
            .map(|part| {
                let order = order.clone();
                spawn_local(move || {
                    for round in 0..3 {
                        order.borrow_mut().push((round, part));
                        yield_now();
                    }
                })
                .unwrap()
            })
            .collect();
        parts.into_iter().for_each(|part| part.join().unwrap());
        order.take()
    });
    let rounds: Vec<i32> = order.iter().map(|&(round, _)| round).collect();
    assert_eq!(rounds, [0, 0, 0, 1, 1, 1, 2, 2, 2]);
}

#[test]
fn large_closures_and_results_are_kept_whole() {
    let sum = on_fiber(|| {
        let input = [7_u64; 100];
        let child = spawn(move || input.map(|number| number + 1)).unwrap();
        child.join().unwrap().iter().sum::<u64>()
    });
    assert_eq!(sum, 800);
}

#[test]
fn a_result_that_nobody_takes_is_dropped_once() {
    let count = Arc::new(());
    let theirs = count.clone();
    on_fiber(move || {
        for round in 0..100 {
            let value = theirs.clone();
            let child = spawn(move || (value, [round; 50])).unwrap();
            if round % 2 == 0 {
                yield_now();
            }
            drop(child);
        }
    });
    assert_eq!(Arc::strong_count(&count), 1);
}

#[test]
fn any_number_of_fibers_and_threads_join() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let shared = runtime
        .spawn(|| {
            sleep(Duration::from_millis(5));
            "done".to_owned()
        })
        .unwrap()
        .share();
    let fibers: Vec<_> = (0..20)
        .map(|_| {
            let shared = shared.clone();
            runtime.spawn(move || shared.join().unwrap().clone()).unwrap()
        })
        .collect();
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let shared = shared.clone();
            std::thread::spawn(move || shared.join().unwrap().clone())
        })
        .collect();
    assert!(fibers.into_iter().all(|fiber| fiber.join().unwrap() == "done"));
    assert!(threads.into_iter().all(|thread| thread.join().unwrap() == "done"));
}

#[test]
fn a_panic_stays_in_its_fiber() {
    on_fiber(|| {
        let child = spawn(|| -> u32 { std::panic::resume_unwind(Box::new("on purpose")) }).unwrap();
        match child.join() {
            Err(JoinError::Panicked(panic)) => assert_eq!(panic.message(), "on purpose"),
            other => panic!("{other:?}"),
        }
        assert_eq!(spawn(|| 1).unwrap().join().unwrap(), 1);
    });
}

#[test]
fn a_fiber_cannot_join_itself() {
    on_fiber(|| {
        let slot = Rc::new(RefCell::new(None::<JoinHandle<bool>>));
        let theirs = slot.clone();
        let child = spawn_local(move || {
            let handle = theirs.borrow_mut().take().unwrap();
            matches!(handle.join(), Err(JoinError::Itself))
        });
        let fiber = child.as_ref().unwrap().fiber().clone();
        *slot.borrow_mut() = Some(child.unwrap());
        while !fiber.is_ended() {
            yield_now();
        }
    });
}

#[test]
fn a_detached_fiber_is_not_joined_until_it_is_attached() {
    on_fiber(|| {
        let child = spawn(|| 5).unwrap();
        child.fiber().detach().unwrap();
        assert_eq!(child.fiber().detach(), Err(DetachError::Detached));
        let fiber = child.fiber().clone();
        let shared = child.share();
        assert!(matches!(shared.join(), Err(JoinError::Detached)));
        fiber.attach().unwrap();
        assert_eq!(fiber.attach(), Err(DetachError::Attached));
        assert_eq!(*shared.join().unwrap(), 5);
        assert_eq!(fiber.detach(), Err(DetachError::Ended));
    });
}

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

#[test]
fn a_cancelled_fiber_unwinds_where_it_waits() {
    on_fiber(|| {
        let semaphore = Arc::new(Semaphore::new(0));
        let alive = Arc::new(());
        let (theirs, guard) = (semaphore.clone(), alive.clone());
        let waits = spawn(move || {
            let _guard = guard;
            theirs.wait();
        });
        let waits = waits.unwrap();
        yield_now();
        assert_eq!(Arc::strong_count(&alive), 2);
        waits.fiber().cancel();
        assert!(matches!(waits.join(), Err(JoinError::Cancelled)));
        assert_eq!(Arc::strong_count(&alive), 1);
        semaphore.post();
        assert_eq!(semaphore.permits(), 1, "a permit was handed to nobody");
    });
}

#[test]
fn a_fiber_that_is_cancelled_before_it_starts_never_does() {
    on_fiber(|| {
        let child = spawn(|| panic!("it started")).unwrap();
        child.fiber().cancel();
        assert!(matches!(child.join(), Err(JoinError::Cancelled)));
    });
}

#[test]
fn a_shielded_wait_is_not_cancelled() {
    on_fiber(|| {
        let child = spawn(|| {
            shielded(|| sleep(Duration::from_millis(5)));
            check_cancelled();
        });
        let child = child.unwrap();
        yield_now();
        child.fiber().cancel();
        assert!(matches!(child.join(), Err(JoinError::Cancelled)));
    });
}

#[test]
fn what_may_end_at_a_deadline_does() {
    on_fiber(|| {
        let (mutex, semaphore) = (Mutex::new(()), Semaphore::new(0));
        let held = mutex.lock();
        assert!(mutex.lock_until(in_a_moment()).is_none());
        assert!(!semaphore.wait_until(in_a_moment()));
        assert_eq!(park_until(in_a_moment()), Ok(false));
        assert_eq!(wait_until_deadline(|| false, in_a_moment()), Err(ConditionError::TimedOut));
        let (condvar, other) = (Condvar::new(), Mutex::new(()));
        assert!(!condvar.wait_until(other.lock(), in_a_moment()).1);
        let never = spawn(|| park().unwrap()).unwrap();
        let (handle, error) = never.join_until(in_a_moment()).unwrap_err();
        assert!(matches!(error, JoinError::TimedOut));
        let never = handle.unwrap();
        never.fiber().unpark();
        never.join().unwrap();
        drop(held);
        assert!(mutex.lock_until(in_a_moment()).is_some());
    });
}

#[test]
fn sleepers_wake_in_the_order_of_their_deadlines() {
    let order = on_fiber(|| {
        let order = Arc::new(Mutex::new(Vec::new()));
        let sleepers: Vec<_> = [30, 10, 20]
            .map(|time| {
                let order = order.clone();
                spawn(move || {
                    sleep(Duration::from_millis(time));
                    order.lock().push(time);
                })
            })
            .into();
        sleepers.into_iter().for_each(|sleeper| sleeper.unwrap().join().unwrap());
        order.lock().clone()
    });
    assert_eq!(order, [10, 20, 30]);
}

#[test]
fn a_posted_condition_is_tested_until_it_holds() {
    on_fiber(|| {
        let (word, limit) = (Arc::new(AtomicU64::new(0)), 100);
        let theirs = word.clone();
        let child = spawn(move || {
            wait_for(&Condition::not_less(&*theirs, limit)).map(|()| theirs.load(Ordering::Relaxed))
        });
        let child = child.unwrap();
        for _ in 0..limit {
            word.fetch_add(1, Ordering::Release);
            yield_now();
        }
        assert_eq!(child.join().unwrap(), Ok(100));
    });
}

#[test]
fn conditions_are_tested_under_load_too() {
    on_fiber(|| {
        let word = Arc::new(AtomicU64::new(0));
        let theirs = word.clone();
        let child = spawn(move || wait_for(&Condition::equal(&*theirs, 1))).unwrap();
        yield_now();
        word.store(1, Ordering::Release);
        let other = spawn(|| {
            loop {
                yield_now();
            }
        });
        let mut rounds = 0;
        while !child.fiber().is_ended() {
            yield_now();
            rounds += 1;
        }
        assert!(rounds <= 200, "the condition was tested after {rounds} rounds");
        other.unwrap().fiber().cancel();
    });
}

#[test]
fn a_condition_function_that_panics_is_an_error_of_its_fiber() {
    on_fiber(|| {
        let result = wait_until(|| std::panic::resume_unwind(Box::new("no such channel")));
        assert_eq!(result, Err(ConditionError::Panicked("no such channel".to_owned())));
    });
}

#[test]
fn a_condition_function_that_waits_is_refused() {
    on_fiber(|| {
        let semaphore = Semaphore::new(0);
        let result = wait_until(|| {
            semaphore.wait();
            true
        });
        let Err(ConditionError::Panicked(message)) = result else { panic!("{result:?}") };
        assert!(message.contains("stop its worker"), "{message}");
    });
}

#[test]
fn exit_ends_a_fiber_from_below_and_is_refused_elsewhere() {
    assert_eq!(exit(1).unwrap_err(), ExitError::NotAFiber);
    on_fiber(|| {
        let child = spawn(|| {
            assert!(matches!(exit("a word"), Err(ExitError::OtherType { .. })));
            let _ = exit(9);
            8
        });
        assert_eq!(child.unwrap().join().unwrap(), 9);
    });
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

#[test]
fn a_stack_overflow_ends_the_fiber_and_nothing_else() {
    fn deeper(depth: u64) -> u64 {
        let frame = std::hint::black_box([depth; 64]);
        if depth == 0 { frame[0] } else { deeper(depth - 1) + frame[63] }
    }
    on_fiber(|| {
        for _ in 0..3 {
            let child = Spawn::new().name("deep").spawn(|| deeper(1 << 30)).unwrap();
            let error = child.join().unwrap_err();
            assert!(
                matches!(&error, JoinError::StackOverflow { name, .. } if name.contains("deep")),
                "{error}"
            );
        }
        assert_eq!(Spawn::new().stack_size(1 << 20).spawn(|| deeper(100)).unwrap().join().unwrap(), 5_050);
    });
}

#[test]
fn the_high_water_mark_grows_with_the_depth() {
    on_fiber(|| {
        let mark = |size: usize| {
            let child = Spawn::new().measured().spawn(move || {
                std::hint::black_box(vec![0_u8; 10]);
                if size > 0 {
                    std::hint::black_box([1_u8; 20_000]);
                }
                Fiber::current().unwrap().high_water()
            });
            child.unwrap().join().unwrap()
        };
        assert!(mark(1) > 20_000);
    });
}

#[test]
fn the_barrier_by_join_count_lets_all_joiners_go() {
    on_fiber(|| {
        let barrier = spawn(|| wait_for_joiners(5).unwrap()).unwrap().share();
        let passed = Rc::new(Cell::new(0));
        let parts: Vec<_> = (0..5)
            .map(|_| {
                let (barrier, passed) = (barrier.clone(), passed.clone());
                yield_now();
                assert_eq!(passed.get(), 0);
                spawn_local(move || {
                    barrier.join().unwrap();
                    passed.set(passed.get() + 1);
                })
            })
            .collect();
        parts.into_iter().for_each(|part| part.unwrap().join().unwrap());
        assert_eq!(passed.get(), 5);
    });
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
    while REPORTED.load(Ordering::SeqCst) == 0 && start.elapsed() < Duration::from_secs(20) {
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
fn the_poll_hook_wakes_who_waits_for_the_world() {
    let runtime = Runtime::new().unwrap();
    let (waiter, calls) = (Waiter::new(), Arc::new(AtomicUsize::new(0)));
    let (theirs, count) = (waiter.clone(), calls.clone());
    assert!(runtime.set_poll_hook(move |budget| {
        assert!(budget > 0);
        if count.fetch_add(1, Ordering::SeqCst) == 3 {
            theirs.wake();
            return 1;
        }
        0
    }));
    assert!(!runtime.set_poll_hook(|_| 0));
    runtime.run(move || waiter.wait()).unwrap();
    assert!(calls.load(Ordering::SeqCst) > 3);
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
fn words_in_shared_memory_are_waited_for_between_processes() {
    // SAFETY: a new mapping, shared with children.
    let place = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert_ne!(place, libc::MAP_FAILED);
    // SAFETY: the page is zero, which is two words, and stays mapped to the end of the process.
    let [lock, word] = unsafe { &*place.cast::<[AtomicU64; 2]>() };
    let lock = shared::Mutex::of(lock);
    lock.lock();
    // SAFETY: the child calls only what is allowed after fork: it writes a word, polls a lock, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        word.store(1, Ordering::Release);
        while !lock.try_lock() {
            std::hint::spin_loop();
        }
        word.store(2, Ordering::Release);
        // SAFETY: ends the process at once.
        unsafe { libc::_exit(0) };
    }
    on_fiber(move || {
        wait_for(&Condition::equal(word, 1)).unwrap();
        assert!(lock.unlock());
        wait_for(&Condition::equal(word, 2)).unwrap();
        assert!(!lock.lock_until(in_a_moment()));
    });
    let mut status = 0;
    // SAFETY: waits for a child of ours.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
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
fn a_poll_hook_that_panics_does_not_end_its_worker() {
    let runtime = Runtime::new().unwrap();
    runtime.set_poll_hook(|_| std::panic::resume_unwind(Box::new("a defect of the hook")));
    assert_eq!(runtime.run(|| spawn(|| 6).unwrap().join().unwrap()).unwrap(), 6);
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

#[test]
fn values_of_fiber_storage_are_dropped_with_the_fiber() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    struct Count;
    impl Drop for Count {
        fn drop(&mut self) {
            DROPPED.fetch_add(1, Ordering::SeqCst);
        }
    }
    static LOCAL: FiberLocal<Count> = FiberLocal::new(|| Count);
    assert_eq!(LOCAL.with(|_| ()), Err(NotAFiber));
    on_fiber(|| {
        for ended in 1..=3 {
            spawn(|| LOCAL.with(|_| ()).unwrap()).unwrap().join().unwrap();
            assert_eq!(DROPPED.load(Ordering::SeqCst), ended);
        }
    });
}
