use super::*;

#[test]
fn a_free_slot_is_entered_and_a_busy_one_is_left_an_item() {
    let slot = Slot::new((), 2);
    let Entry::Entered(mut guard, 1) = slot.enter_or_defer(1) else { panic!("busy") };
    assert!(matches!(slot.enter_or_defer(2), Entry::Deferred));
    assert!(matches!(slot.enter_or_defer(3), Entry::Deferred));
    assert!(matches!(slot.enter_or_defer(4), Entry::Full(4)));
    assert_eq!(guard.next_deferred(), Some(2));
    let mut guard = guard.leave().expect_err("an item was left");
    assert_eq!((guard.next_deferred(), guard.next_deferred()), (Some(3), None));
    guard.leave().expect("nothing was left");
    assert!(slot.try_lock().is_some());
}

#[test]
fn a_wish_without_an_item_is_work_too() {
    let slot = Slot::<_, ()>::new((), 1);
    let guard = slot.lock();
    assert!(slot.want().is_none());
    let guard = guard.leave().expect_err("it was wanted");
    guard.leave().expect("once");
    assert!(slot.want().is_some());
}

#[test]
fn a_dropped_guard_leaves_the_work_to_the_next_holder() {
    let slot = Slot::new((), 1);
    let guard = slot.lock();
    assert!(matches!(slot.enter_or_defer(7), Entry::Deferred));
    drop(guard);
    let mut guard = slot.try_lock().unwrap().leave().expect_err("still wanted");
    assert_eq!(guard.next_deferred(), Some(7));
}

#[test]
fn who_waits_for_the_slot_relieves_the_holder() {
    let slot = Slot::new((), 1);
    let guard = slot.lock();
    assert!(matches!(slot.enter_or_defer(7), Entry::Deferred));
    std::thread::scope(|scope| {
        let relief = scope.spawn(|| {
            let mut guard = slot.lock();
            assert!(guard.is_wanted(), "the one before says so");
            guard.next_deferred()
        });
        while slot.word.load(Ordering::Relaxed) < WAITER {
            std::thread::yield_now();
        }
        guard.leave().expect("another one waits");
        assert_eq!(relief.join().unwrap(), Some(7));
    });
}

#[test]
fn a_look_is_waited_for_and_left_no_work() {
    let slot = Slot::<_, ()>::new(5, 1);
    let look = slot.look();
    std::thread::scope(|scope| {
        let wanting = scope.spawn(|| *slot.want().expect("a look takes no wishes"));
        assert_eq!(*look, 5);
        drop(look);
        assert_eq!(wanting.join().unwrap(), 5);
    });
}

#[test]
fn no_item_is_lost_or_doubled_among_threads() {
    let slot = Slot::new(Vec::new(), 1 << 16);
    std::thread::scope(|scope| {
        for thread in 0..4_u32 {
            let slot = &slot;
            scope.spawn(move || (0..5_000).for_each(|item| give(slot, thread << 16 | item)));
        }
        for thread in 4..6_u32 {
            let slot = &slot;
            scope.spawn(move || (0..5_000).for_each(|item| give_briefly(slot, thread << 16 | item)));
        }
    });
    let mut items = slot.look().clone();
    items.sort_unstable();
    items.dedup();
    assert_eq!((items.len(), slot.look().len()), (30_000, 30_000));
    assert_eq!(slot.word.load(Ordering::Relaxed), 0);
}

fn give_briefly(slot: &Slot<Vec<u32>, u32>, item: u32) {
    let mut guard = slot.lock_briefly();
    guard.push(item);
    if item.is_multiple_of(8) {
        guard.stay();
    }
    if let Err(wanted) = guard.leave() {
        finish(wanted);
    }
}

fn give(slot: &Slot<Vec<u32>, u32>, item: u32) {
    let Entry::Entered(mut guard, item) = slot.enter_or_defer(item) else { return };
    guard.push(item);
    finish(guard);
}

fn finish(mut guard: SlotGuard<'_, Vec<u32>, u32>) {
    loop {
        while let Some(item) = guard.next_deferred() {
            guard.push(item);
        }
        match guard.leave() {
            Ok(()) => return,
            Err(wanted) => guard = wanted,
        }
    }
}

#[test]
fn many_items_are_left_in_their_order_and_the_rest_stays() {
    let slot = Slot::new((), 4);
    assert!(!slot.has_deferred());
    assert!(slot.defer(0).is_ok());
    let mut items = vec![1, 2, 3, 4, 5];
    slot.defer_all(&mut items);
    assert_eq!(items, [4, 5], "there was room for three");
    assert!(slot.has_deferred());
    let mut guard = slot.want().unwrap();
    let taken: Vec<_> = std::iter::from_fn(|| guard.next_deferred()).collect();
    assert_eq!(taken, [0, 1, 2, 3]);
    assert!(!slot.has_deferred());
    guard.leave().expect("nothing was left");
}

#[test]
fn who_holds_it_briefly_is_waited_for_and_left_no_work() {
    let slot = Slot::<_, ()>::new(5, 1);
    let mut brief = slot.lock_briefly();
    assert!(slot.try_lock().is_none());
    std::thread::scope(|scope| {
        let wanting = scope.spawn(|| *slot.want().expect("no wish is left to who is there briefly"));
        let waiting = scope.spawn(|| *slot.lock());
        // Longer than anybody spins: they nap.
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(slot.word.load(Ordering::Relaxed), HELD | BRIEF, "nobody else changes the word");
        *brief = 6;
        brief.leave().expect("there is no work");
        assert_eq!((wanting.join().unwrap(), waiting.join().unwrap()), (6, 6));
    });
    drop(slot.lock_briefly());
    assert_eq!(slot.word.load(Ordering::Relaxed), 0);
}

#[test]
fn who_stays_is_left_work() {
    let slot = Slot::new((), 1);
    let mut guard = slot.lock_briefly();
    guard.stay();
    assert!(matches!(slot.enter_or_defer(7), Entry::Deferred));
    let mut guard = guard.leave().expect_err("an item was left");
    assert_eq!(guard.next_deferred(), Some(7));
    guard.stay();
    guard.leave().expect("nothing was left");
}

#[test]
fn work_that_lies_there_already_is_done_by_who_came_briefly() {
    let slot = Slot::new((), 1);
    let guard = slot.lock();
    assert!(matches!(slot.enter_or_defer(7), Entry::Deferred));
    drop(guard);
    let mut guard = slot.lock_briefly().leave().expect_err("it is wanted");
    assert_eq!(guard.next_deferred(), Some(7));
    assert!(matches!(slot.enter_or_defer(8), Entry::Deferred), "to an ordinary holder");
    let mut guard = guard.leave().expect_err("an item was left");
    assert_eq!(guard.next_deferred(), Some(8));
    guard.leave().expect("nothing was left");
}
