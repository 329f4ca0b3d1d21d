//! A joiner runs the fiber itself that it waits for, if that would be next: nobody sees a difference.

use super::*;

/// What the fiber that calls this is listed with, and the fiber that waits for its end.
fn states_of_child_and_joiner(handle: &weft_fiber::Handle) -> (State, State) {
    let me = Fiber::current().expect("this is a fiber").id();
    let fibers = handle.list();
    let state = |is_me: bool| fibers.iter().find(|fiber| (fiber.id == me) == is_me).map(|fiber| fiber.state);
    (state(true).expect("it runs"), state(false).expect("its joiner lives"))
}

#[test]
fn a_joiner_is_listed_as_one_that_waits_while_the_other_runs() {
    let runtime = Runtime::new().unwrap();
    let handle = runtime.handle();
    let states =
        runtime.run(move || spawn(move || states_of_child_and_joiner(&handle)).unwrap().join().unwrap());
    assert_eq!(states.unwrap(), (State::Running, State::Waiting(Why::Join)));
}

#[test]
fn a_joiner_counts_while_the_other_runs_and_keeps_it_from_being_detached() {
    on_fiber(|| {
        let child = spawn(|| {
            let me = Fiber::current().expect("this is a fiber");
            wait_for_joiners(1).expect("this is a fiber");
            (me.joiners(), me.detach())
        });
        assert_eq!(child.unwrap().join().unwrap(), (1, Err(DetachError::Joined)));
    });
}

#[test]
fn a_joiner_that_is_cancelled_by_the_other_unwinds() {
    for ends in [true, false] {
        on_fiber(move || {
            let joiner = spawn(move || {
                let me = Fiber::current().expect("this is a fiber");
                let child = spawn(move || {
                    me.cancel();
                    if !ends {
                        yield_now();
                    }
                });
                child.unwrap().join().unwrap();
                unreachable!("it was cancelled");
            });
            assert!(matches!(joiner.unwrap().join(), Err(JoinError::Cancelled)), "the other ends: {ends}");
        });
    }
}

#[test]
fn a_cancelled_joiner_leaves_the_other_to_be_detached() {
    on_fiber(|| {
        let (begun, gate, child) = (Waiter::new(), Waiter::new(), Arc::new(Mutex::new(None)));
        let theirs = (begun.clone(), gate.clone(), child.clone());
        let joiner = spawn(move || {
            let other = spawn(move || {
                *theirs.2.lock() = Fiber::current();
                theirs.0.wake();
                theirs.1.wait();
            });
            other.unwrap().join().unwrap();
        });
        let joiner = joiner.unwrap();
        begun.wait();
        let child = child.lock().take().expect("it has begun");
        assert_eq!(child.joiners(), 1);
        joiner.fiber().cancel();
        assert!(matches!(joiner.join(), Err(JoinError::Cancelled)));
        assert_eq!((child.joiners(), child.detach()), (0, Ok(())));
        gate.wake();
    });
}

#[test]
fn one_that_yields_at_once_lets_the_others_go_first() {
    let order = on_fiber(|| {
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |name: &'static str| {
            let order = order.clone();
            move || order.lock().push(name)
        };
        let (begins, goes_on) = (note("begins"), note("goes on"));
        let other = spawn(note("other")).unwrap();
        let child = spawn(move || {
            begins();
            yield_now();
            goes_on();
        });
        child.unwrap().join().unwrap();
        other.join().unwrap();
        std::mem::take(&mut *order.lock())
    });
    assert_eq!(order, ["begins", "other", "goes on"]);
}

#[test]
fn joiners_that_run_each_other_may_be_many() {
    fn below(depth: u32) -> u32 {
        if depth == 0 { 0 } else { 1 + spawn(move || below(depth - 1)).unwrap().join().unwrap() }
    }
    assert_eq!(on_fiber(|| below(5_000)), 5_000);
}

#[test]
fn ready_fibers_run_while_another_only_spawns_and_joins() {
    on_fiber(|| {
        let turns = Arc::new(AtomicUsize::new(0));
        let theirs = turns.clone();
        let yields = spawn(move || {
            (0..100).for_each(|_| {
                theirs.fetch_add(1, Ordering::Relaxed);
                yield_now();
            });
        });
        yield_now();
        (0..200).for_each(|round| assert_eq!(spawn(move || round).unwrap().join().unwrap(), round));
        assert_eq!(turns.load(Ordering::Relaxed), 100);
        yields.unwrap().join().unwrap();
    });
}

#[test]
fn one_that_waits_for_a_third_is_joined_when_that_has_come() {
    on_fiber(|| {
        let (first, second) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (theirs, mine) = (first.clone(), second.clone());
        let child = spawn(move || {
            theirs.wait();
            mine.post();
            7
        });
        let helper = spawn(move || first.post());
        assert_eq!(child.unwrap().join().unwrap(), 7);
        second.wait();
        helper.unwrap().join().unwrap();
    });
}
