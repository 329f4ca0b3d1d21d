//! How fibers begin and end.

use super::*;

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

/// The closure of a fiber that is cancelled before it starts is dropped on the fiber, and may make values there.
#[test]
fn values_of_a_fiber_that_never_started_are_not_those_of_the_next() {
    static COUNT: FiberLocal<Cell<u32>> = FiberLocal::new(|| Cell::new(0));
    struct Counts;
    impl Drop for Counts {
        fn drop(&mut self) {
            COUNT.with(|count| count.set(count.get() + 1)).expect("it is dropped on its fiber");
        }
    }
    on_fiber(|| {
        let counts = Counts;
        let child = spawn(move || drop(counts)).unwrap();
        child.fiber().cancel();
        assert!(matches!(child.join(), Err(JoinError::Cancelled)));
        assert_eq!(spawn(|| COUNT.with(Cell::get)).unwrap().join().unwrap(), Ok(0));
    });
}
