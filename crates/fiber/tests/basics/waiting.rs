//! What fibers wait for, and what ends a wait.

use std::sync::atomic::AtomicBool;

use super::*;

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
fn a_notified_fiber_that_is_cancelled_before_it_has_the_mutex_lets_another_go() {
    on_fiber(|| {
        let shared = Arc::new((Mutex::new(()), Condvar::new()));
        let [first, second] = [(); 2].map(|()| {
            let theirs = shared.clone();
            let waiter = spawn(move || drop(theirs.1.wait(theirs.0.lock()))).unwrap();
            yield_now();
            waiter
        });
        let held = shared.0.lock();
        shared.1.notify_one();
        // It runs, and waits for the mutex.
        yield_now();
        first.fiber().cancel();
        assert!(matches!(first.join(), Err(JoinError::Cancelled)));
        drop(held);
        let outcome = second.join_until(Instant::now() + Duration::from_secs(10));
        let outcome = outcome.map_err(|(waits, _)| waits.unwrap().fiber().cancel());
        assert!(outcome.is_ok(), "the notification was used up by nobody");
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
fn what_is_shielded_is_not_unwound_where_it_asks() {
    on_fiber(|| {
        let asked = Arc::new(AtomicBool::new(false));
        let child = spawn({
            let asked = asked.clone();
            move || {
                shielded(|| {
                    yield_now();
                    assert!(is_cancelled());
                    check_cancelled();
                    asked.store(true, Ordering::Relaxed);
                });
                check_cancelled();
                panic!("it goes on");
            }
        });
        let child = child.unwrap();
        yield_now();
        child.fiber().cancel();
        assert!(matches!(child.join(), Err(JoinError::Cancelled)));
        assert!(asked.load(Ordering::Relaxed));
    });
}

/// The thread counts the panic of one that sleeps in a destructor: the others yield to each other all the same.
#[test]
fn fibers_yield_beside_one_that_sleeps_as_it_unwinds() {
    struct Sleeps;
    impl Drop for Sleeps {
        fn drop(&mut self) {
            sleep(Duration::from_millis(50));
        }
    }
    on_fiber(|| {
        let fails = spawn(|| {
            let _sleeps = Sleeps;
            panic!("on purpose, to sleep as it unwinds");
        });
        yield_now();
        let is_set = Arc::new(AtomicBool::new(false));
        // Of two that are ready the one that was spawned last runs first.
        let sets = spawn({
            let is_set = is_set.clone();
            move || is_set.store(true, Ordering::Relaxed)
        });
        let looks = spawn({
            let begin = Instant::now();
            move || {
                while !is_set.load(Ordering::Relaxed) && begin.elapsed() < Duration::from_secs(10) {
                    yield_now();
                }
                is_set.load(Ordering::Relaxed)
            }
        });
        assert!(looks.unwrap().join().unwrap(), "nobody else ran");
        sets.unwrap().join().unwrap();
        assert!(matches!(fails.unwrap().join(), Err(JoinError::Panicked(_))));
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
    let order_of = |unit: Duration| {
        on_fiber(move || {
            let order = Arc::new(Mutex::new(Vec::new()));
            let begin = Instant::now();
            let sleepers: Vec<_> = [3, 1, 2]
                .map(|units| {
                    let order = order.clone();
                    spawn(move || {
                        assert_eq!(park_until(begin + unit * units), Ok(false));
                        order.lock().push(units);
                    })
                })
                .into();
            // On the one worker all of them sleep when this one goes on.
            yield_now();
            let is_early = begin.elapsed() < unit;
            sleepers.into_iter().for_each(|sleeper| sleeper.unwrap().join().unwrap());
            is_early.then(|| order.lock().clone())
        })
    };
    // A machine that stands still may leave no time for the first deadline.
    let order = (0..10).find_map(|round| order_of(Duration::from_millis(10 << round)));
    assert_eq!(order, Some(vec![1, 2, 3]));
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

/// However rarely it looks, a worker that naps looks again after each nap.
#[test]
fn a_worker_that_looks_once_before_it_naps_goes_on_looking() {
    let runtime = Runtime::builder().spins(1).build().unwrap();
    let word = Arc::new(AtomicBool::new(false));
    let theirs = word.clone();
    let child = runtime.spawn(move || {
        let in_time = Instant::now() + Duration::from_secs(10);
        wait_until_deadline(|| theirs.load(Ordering::Acquire), in_time)
    });
    // Long enough for some naps.
    std::thread::sleep(Duration::from_millis(50));
    word.store(true, Ordering::Release);
    assert_eq!(child.unwrap().join().unwrap(), Ok(()));
}

/// Whoever looks first, and whether the worker had other conditions to look at.
#[test]
fn what_holds_at_the_deadline_is_no_time_out() {
    on_fiber(|| {
        for _ in 0..20 {
            assert_eq!(wait_until_deadline(|| true, Instant::now()), Ok(()));
        }
        let others = (0..40).map(|_| spawn(|| wait_until_deadline(|| false, in_a_moment())).unwrap());
        let others: Vec<_> = others.collect();
        yield_now();
        assert_eq!(wait_until_deadline(|| true, Instant::now()), Ok(()), "among others");
        for other in others {
            assert_eq!(other.join().unwrap(), Err(ConditionError::TimedOut));
        }
        let panics = wait_until_deadline(|| std::panic::resume_unwind(Box::new("late")), Instant::now());
        assert_eq!(panics, Err(ConditionError::Panicked("late".to_owned())));
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
fn a_poll_hook_that_panics_does_not_end_its_worker() {
    let runtime = Runtime::new().unwrap();
    runtime.set_poll_hook(|_| std::panic::resume_unwind(Box::new("a defect of the hook")));
    assert_eq!(runtime.run(|| spawn(|| 6).unwrap().join().unwrap()).unwrap(), 6);
}
