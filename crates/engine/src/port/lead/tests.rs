use std::sync::atomic::AtomicUsize;
use std::task::Waker;

use super::*;
use crate::port::tests::port;

const NAP: Duration = Duration::from_micros(250);

/// Counts how often a thread was woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl task::Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Threads that follow, and how often each was woken.
struct Asleep([Arc<Wakes>; 3], [Option<Ticket>; 3]);

impl Asleep {
    fn at(port: &Port) -> Self {
        let wakes: [Arc<Wakes>; 3] = std::array::from_fn(|_| Arc::default());
        let since = [20, 10, 30].map(Instant::from_nanos);
        let tickets = [0, 1, 2].map(|at| Some(port.follow(wakes[at].clone().into(), since[at])));
        Self(wakes, tickets)
    }

    fn leave<'a>(&mut self, at: usize, port: &'a Port) -> Option<Lead<'a>> {
        port.unfollow(self.1[at].take().expect("it follows"))
    }

    fn wakes(&self) -> [usize; 3] {
        self.0.each_ref().map(|wakes| wakes.0.load(Ordering::Relaxed))
    }
}

#[test]
fn who_leaves_the_lead_calls_who_has_waited_longest_unless_it_is_back_soon() {
    let port = port();
    let asleep = Asleep::at(&port);
    let mut absences = 0;
    // A machine that stands still between the two looks at the clock makes an absence long.
    while asleep.wakes()[1] == absences {
        port.try_lead().unwrap().leave();
        port.note_wait(clock::now());
        absences += 1;
        assert!(absences < 1_000, "it was never relied on");
    }
    assert!(absences >= 9, "relied on after {absences} absences");
    assert_eq!(asleep.wakes(), [0, absences - 1, 0]);

    let mut lead = port.try_lead().unwrap();
    lead.note_woken(1);
    lead.leave();
    assert_eq!(asleep.wakes(), [0, absences, 0], "something came for another");
    port.note_wait(clock::now());

    let now = clock::now();
    port.note_user_turn(now);
    port.fill_lead(now + FREE_AT_MOST);
    let later = now + FREE_AT_MOST + Duration::from_nanos(1);
    let lead = port.try_lead().unwrap();
    port.fill_lead(later);
    assert_eq!(asleep.wakes(), [0, absences, 0], "somebody looked a moment ago, or leads");
    lead.leave();
    let before = asleep.wakes()[1];
    port.fill_lead(later);
    assert_eq!(asleep.wakes(), [0, before + 1, 0], "it did not come back");
}

#[test]
fn a_leader_without_use_for_the_lead_is_asked_for_it() {
    let port = port();
    let mut lead = port.try_lead().unwrap();
    (1..RELAYS).for_each(|_| lead.note_woken(1));
    port.counters.waiters_busy_turns.add(1);
    (0..RELAYS).for_each(|_| lead.note_woken(1));
    lead.note_woken(0);
    let _ = port.follow(Waker::noop().clone(), clock::now());
    assert!(
        !port.signal.is_raised() && !port.take_lead_wanted(),
        "threads that poll have brought something as well"
    );
    lead.note_woken(1);
    let _ = port.follow(Waker::noop().clone(), clock::now());
    assert!(port.signal.is_raised() && port.take_lead_wanted());
}

#[test]
fn the_lead_is_given_to_one_thread_and_is_never_free_meanwhile() {
    let port = port();
    let lead = port.try_lead().unwrap();
    let lead = lead.give_to_last().unwrap_err();
    let mut asleep = Asleep::at(&port);
    assert!(lead.give_to_last().is_ok());
    assert_eq!(asleep.wakes(), [0, 0, 1]);
    assert!(port.try_lead().is_none());
    assert!(asleep.leave(0, &port).is_none());
    // It noticed too late, as what it waited for has come: it leaves the lead as any other.
    let lead = asleep.leave(2, &port).unwrap();
    let lead = lead.give_to_older(Instant::from_nanos(10)).unwrap_err();
    drop(lead);
    assert_eq!(asleep.wakes(), [0, 1, 1]);
    let lead = port.try_lead().unwrap();
    assert!(lead.give_to_older(Instant::from_nanos(11)).is_ok());
    assert!(port.is_led());
    drop(asleep.leave(1, &port).unwrap());
    assert!(!port.is_led());
}

/// A thread held up between the flag and the write of a signal writes after the leader took the flag down.
#[test]
fn a_late_signal_ends_one_sleep_and_not_every_other() {
    let port = port();
    let lead = port.try_lead().unwrap();
    port.signal.write_late();
    lead.sleep(clock::now(), None, || false);

    let (begin, limit) = (clock::now(), Duration::from_millis(20));
    lead.sleep(begin, Some(begin + limit), || false);
    assert!(clock::now() - begin >= limit, "woken again by the same signal");
}

#[test]
fn a_thread_that_falls_asleep_ends_the_leaders_nap() {
    let port = port();
    let lead = port.try_lead().unwrap();
    let begin = clock::now();
    let later = begin + Duration::from_nanos(1);
    assert!(!lead.nap(NAP, begin, None), "nobody has run a turn");

    port.note_user_turn(later);
    assert!(port.is_served_since(begin) && !port.is_served_since(later));
    assert!(lead.nap(NAP, begin, None));

    port.is_napping.store(true, Ordering::Relaxed); // as another thread sees it meanwhile
    let _ = port.follow(Waker::noop().clone(), clock::now());
    assert!(port.signal.is_raised(), "the leader is woken");
    assert!(!port.is_served_since(begin));
    assert!(!lead.nap(NAP, begin, None), "it takes over");
}
