use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn advance<T>(wheel: &mut TimerWheel<T>, now: Instant) -> Vec<T> {
    let mut fired = Vec::new();
    wheel.advance(now, |value| fired.push(value));
    fired
}

#[test]
fn a_tick_is_at_most_a_millisecond() {
    const { assert!(TimerWheel::<()>::TICK_NS <= 1_000_000) };
}

#[test]
fn nothing_fires_early_and_nothing_a_tick_late() {
    for due_ns in [1, 65_535, 65_536, 65_537, 1_000_000_007, 7_200_000_000_001] {
        let mut wheel = TimerWheel::new(at(0));
        wheel.schedule((), at(due_ns));
        assert!(advance(&mut wheel, at(due_ns - 1)).is_empty(), "{due_ns} fired early");
        let late = at(due_ns + TimerWheel::<()>::TICK_NS - 1);
        assert_eq!(advance(&mut wheel, late).len(), 1, "{due_ns} fired late");
    }
}

#[test]
fn what_is_overdue_fires_at_the_next_call_even_at_the_same_time() {
    let now = at(1 << 40);
    let mut wheel = TimerWheel::new(now);
    wheel.schedule("now", now);
    wheel.schedule("long ago", Instant::ZERO);
    assert_eq!(wheel.next_due(), Some(now));
    assert_eq!(advance(&mut wheel, now).len(), 2);
    wheel.schedule("again", now);
    assert_eq!(advance(&mut wheel, Instant::ZERO), ["again"], "even if time seems to go back");
    assert_eq!(wheel.next_due(), None);
}

#[test]
fn what_is_overdue_can_be_put_off() {
    let mut wheel = TimerWheel::new(at(1 << 40));
    let timer = wheel.schedule((), Instant::ZERO);
    assert!(wheel.reschedule(timer, at(1 << 41)));
    assert!(advance(&mut wheel, at(1 << 40)).is_empty());
    assert_eq!(advance(&mut wheel, at(1 << 41)).len(), 1);
}

#[test]
fn a_name_ends_with_its_timer() {
    let mut wheel = TimerWheel::new(at(0));
    let first = wheel.schedule(1, at(10));
    assert_eq!(advance(&mut wheel, at(1 << 20)), [1]);
    let second = wheel.schedule(2, at(1 << 30));
    assert_eq!((first.index, wheel.len()), (second.index, 1), "the entry is used again");
    assert!(!wheel.reschedule(first, at(0)));
    assert_eq!(wheel.cancel(first), None);
    assert_eq!(wheel.cancel(second), Some(2));
    assert!(wheel.is_empty() && wheel.next_due().is_none());
}

#[test]
fn never_is_beyond_every_clock() {
    let mut wheel = TimerWheel::new(at(0));
    wheel.schedule((), Instant::MAX);
    assert!(advance(&mut wheel, at(u64::MAX - (1 << 17))).is_empty());
}

#[test]
fn putting_off_adds_no_entry_and_does_not_move_the_timer() {
    let mut wheel = TimerWheel::new(at(0));
    let timer = wheel.schedule((), at(0) + Duration::from_millis(200));
    for millis in 0..100_000 {
        assert!(wheel.reschedule(timer, at(0) + Duration::from_millis(200 + millis)));
        assert!(advance(&mut wheel, at(0) + Duration::from_millis(millis)).is_empty());
    }
    assert_eq!(wheel.entries.len(), 1);
}

#[test]
fn a_sleep_does_not_end_for_timers_that_were_put_off() {
    let mut wheel = TimerWheel::new(at(0));
    let (soon, late) = (at(5 << TICK_BITS), at(300 << TICK_BITS));
    let timers = [1, 2, 3].map(|name| wheel.schedule(name, soon));
    assert!(wheel.reschedule(timers[0], late) && wheel.reschedule(timers[2], at(70 << TICK_BITS)));
    assert_eq!(wheel.first(10), Some((timers[1], soon, &2)));
    assert_eq!(wheel.cancel(timers[1]), Some(2));
    assert_eq!(wheel.first(10), Some((timers[2], at(70 << TICK_BITS), &3)));
    assert_eq!(wheel.cancel(timers[2]), Some(3));
    assert_eq!(wheel.next_due(), Some(at(256 << TICK_BITS)), "it has been moved to where it belongs");
    assert_eq!(wheel.first(0), None, "too many to look at");
    assert_eq!(wheel.first(1), Some((timers[0], late, &1)));
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Schedule(u64),
    Reschedule(usize, u64),
    Cancel(usize),
    Advance(u64),
    Sleep,
    First,
}

/// Times ahead, from nanoseconds to days.
fn delay_ns() -> impl Strategy<Value = u64> {
    (0_u32..48, any::<u64>()).prop_map(|(bits, random)| random & ((1 << bits) - 1))
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => delay_ns().prop_map(Operation::Schedule),
        4 => (any::<usize>(), delay_ns()).prop_map(|(pick, delay)| Operation::Reschedule(pick, delay)),
        1 => any::<usize>().prop_map(Operation::Cancel),
        2 => delay_ns().prop_map(Operation::Advance),
        2 => Just(Operation::Sleep),
        2 => Just(Operation::First),
    ]
}

/// A wheel beside the plainest truth: due ticks in a map.
struct Pair {
    now_ns: u64,
    wheel: TimerWheel<u32>,
    model: BTreeMap<u32, (Timer, u64)>,
    count: u32,
}

impl Pair {
    fn pick(&self, pick: usize) -> Option<u32> {
        self.model.keys().nth(pick % self.model.len().max(1)).copied()
    }

    fn apply(&mut self, operation: Operation) {
        match operation {
            Operation::Schedule(delay) => {
                let due_ns = self.now_ns + delay;
                let timer = self.wheel.schedule(self.count, at(due_ns));
                self.model.insert(self.count, (timer, due_ns));
                self.count += 1;
            }
            Operation::Reschedule(pick, delay) => {
                let Some(id) = self.pick(pick) else { return };
                let (timer, due_ns) = self.model.get_mut(&id).unwrap();
                *due_ns = self.now_ns + delay;
                assert!(self.wheel.reschedule(*timer, at(*due_ns)));
            }
            Operation::Cancel(pick) => {
                let Some(id) = self.pick(pick) else { return };
                let (timer, _) = self.model.remove(&id).unwrap();
                assert_eq!(self.wheel.cancel(timer), Some(id));
            }
            Operation::Advance(delay) => self.advance_to(self.now_ns + delay),
            Operation::Sleep => self.sleep(),
            Operation::First => self.first(),
        }
        self.check();
    }

    fn advance_to(&mut self, now_ns: u64) {
        self.now_ns = now_ns.max(self.now_ns);
        let tick = self.now_ns >> TICK_BITS;
        let mut fired = advance(&mut self.wheel, at(self.now_ns));
        fired.sort_unstable();
        let mut due = Vec::new();
        self.model.retain(|id, (_, due_ns)| {
            let is_due = tick_of(at(*due_ns)) <= tick;
            due.extend(is_due.then_some(*id));
            !is_due
        });
        assert_eq!(fired, due);
    }

    /// Sleeps as an engine would until something fires.
    fn sleep(&mut self) {
        let len = self.wheel.len();
        let mut wakes = 0;
        while let Some(next) = self.wheel.next_due().filter(|_| self.wheel.len() == len) {
            self.advance_to(next.as_nanos());
            wakes += 1;
            assert!(wakes <= 9 * (len + 1), "sleeping makes no progress");
        }
    }

    fn first(&mut self) {
        let first = self.wheel.first(usize::MAX).map(|(timer, due, id)| (timer, due.as_nanos(), *id));
        assert_eq!(first.map(|(_, due, _)| due), self.earliest());
        if let Some((timer, due, id)) = first {
            let (known, due_ns) = self.model[&id];
            assert_eq!((timer, due), (known, tick_of(at(due_ns)) << TICK_BITS));
        }
    }

    fn earliest(&self) -> Option<u64> {
        self.model.values().map(|(_, due_ns)| tick_of(at(*due_ns)) << TICK_BITS).min()
    }

    fn check(&self) {
        assert_eq!(self.wheel.len(), self.model.len());
        let earliest = self.earliest();
        let next = self.wheel.next_due().map(Instant::as_nanos);
        assert!(next.is_some() == earliest.is_some() && next <= earliest.map(|e| e.max(self.now_ns)));
    }
}

proptest! {
    #[test]
    fn the_wheel_does_what_a_map_does(
        start in 0..1_u64 << 60,
        operations in prop::collection::vec(operation(), 1..200),
    ) {
        let wheel = TimerWheel::new(at(start));
        let mut pair = Pair { now_ns: start, wheel, model: BTreeMap::new(), count: 0 };
        for operation in operations {
            pair.apply(operation);
        }
        pair.advance_to(u64::MAX);
        prop_assert!(pair.wheel.is_empty());
    }
}
