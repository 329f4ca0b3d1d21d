use super::*;

const RTT: Duration = Duration::from_micros(100);

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

/// Demotes the default at `now`.
fn lose_default(set: &mut IoSet, now: Instant) {
    let default = set.default_member();
    assert!(set.note_lost(now, default, LOSSES_MAX));
}

/// Probes what is due from `from` on and answers it after `took`, until `answers` were given; the time of the last.
fn answer(set: &mut IoSet, from: Instant, answers: usize, took: Duration) -> Instant {
    let mut now = from;
    for _ in 0..answers {
        now = set.next_probe().unwrap().max(now);
        let member = set.poll_probe(now).unwrap();
        set.note_answer(now, member, took, RTT);
    }
    now
}

/// [CDP-IO-5] At a count of 3 the next member with a count of 0 becomes default.
#[test]
fn three_losses_promote_the_next_member_without_any() {
    let mut set = IoSet::new(4, 1);
    set.note_lost(at(1), 2, 1);
    assert!(!set.note_lost(at(1), 1, 1) && !set.note_lost(at(1), 1, 1));
    assert_eq!(set.default_member(), 1);
    assert!(set.note_lost(at(1), 1, 1));
    assert_eq!((set.default_member(), set.is_demoted(1), set.switches()), (3, true, 1));
}

/// [CDP-IO-5] Where all members have lost something, the one whose last loss is oldest becomes default.
#[test]
fn where_all_lost_the_oldest_loss_is_promoted() {
    let mut set = IoSet::new(3, 0);
    set.note_lost(at(2), 1, 1);
    set.note_lost(at(1), 2, 1);
    assert!(set.note_lost(at(3), 0, 3));
    assert_eq!(set.default_member(), 2);
}

/// [CDP-IO-4] The acknowledgement of a number sent once clears the count of its member.
#[test]
fn a_delivery_clears_the_count_of_its_member() {
    let mut set = IoSet::new(2, 0);
    for _ in 0..10 {
        assert!(!set.note_lost(at(1), 0, LOSSES_MAX - 1));
        set.note_delivered(0);
    }
    assert_eq!(set.default_member(), 0);
    set.note_delivered(99);
    assert!(!set.note_lost(at(1), 99, 5), "no such member");
}

#[test]
fn one_member_stays_whatever_it_loses() {
    let mut set = IoSet::new(1, 0);
    assert!(!set.note_lost(at(1), 0, 100));
    assert_eq!((set.default_member(), set.next_probe()), (0, None));
}

/// [CDP-IO-13] Who is gone is left at once for a member that has lost nothing, and by no other way.
#[test]
fn a_member_that_is_gone_is_left_once() {
    let mut set = IoSet::new(3, 0);
    assert!(!set.note_gone(at(1), 2) && !set.note_gone(at(1), 9));
    assert!(set.note_gone(at(2), 0));
    assert_eq!((set.default_member(), set.is_demoted(0)), (1, true));
    assert!(!set.note_gone(at(3), 1), "nobody is left who has lost nothing");
    assert_eq!((set.default_member(), set.switches()), (1, 1));
    answer(&mut set, at(10), 2, RTT);
    assert!(!set.note_gone(at(20), 0), "its answers count no more");
    answer(&mut set, at(20), 2, RTT);
    assert_eq!(set.default_member(), 1);
    answer(&mut set, at(40), 1, RTT);
    assert_eq!(set.default_member(), 0);
    assert!(!IoSet::new(1, 0).note_gone(at(1), 0));
}

/// [CDP-IO-4] [CDP-IO-13] A loss on a member that carries only what is sent again must not keep it from being taken for ever.
#[test]
fn a_loss_of_another_is_forgotten_in_time() {
    let mut set = IoSet::new(2, 0);
    assert!(!set.note_lost(at(1), 1, 1));
    assert!(!set.note_gone(at(2), 0), "a moment ago the other lost something");
    assert!(!set.is_losing(0), "no other effect");
    assert!(set.note_gone(at(6), 0));
    assert_eq!(set.default_member(), 1);
}

/// [CDP-IO-6] A demoted member is probed every IO_PROBE and comes back after three answers in a row.
#[test]
fn the_default_of_the_file_comes_back_after_three_answers() {
    let mut set = IoSet::new(2, 0);
    lose_default(&mut set, at(10));
    assert_eq!((set.poll_probe(at(14)), set.next_probe()), (None, Some(at(15))));
    answer(&mut set, at(15), 2, RTT);
    // One probe without an answer, and it begins anew.
    set.poll_probe(set.next_probe().unwrap());
    let now = answer(&mut set, at(15), 2, RTT);
    assert_eq!(set.default_member(), 1);
    answer(&mut set, now, 1, RTT);
    assert_eq!((set.default_member(), set.is_demoted(0), set.next_probe()), (0, false, None));
}

/// Who probes without a pause would never come to an end.
#[test]
fn a_member_is_due_once_at_a_time() {
    let mut set = IoSet::new(2, 0);
    set.set_probe_interval(Duration::ZERO);
    lose_default(&mut set, at(10));
    let now = set.next_probe().unwrap();
    assert_eq!((set.poll_probe(now), set.poll_probe(now)), (Some(0), None));
}

#[test]
fn an_answer_that_was_not_asked_for_counts_for_nothing() {
    let mut set = IoSet::new(2, 0);
    lose_default(&mut set, at(10));
    for _ in 0..5 {
        assert!(!set.note_answer(at(11), 0, RTT, RTT));
    }
    assert!(set.is_demoted(0));
}

/// A member that only became slow is left like one that drops, and does not come back while it is slow.
#[test]
fn late_answers_do_not_bring_a_member_back() {
    let mut set = IoSet::new(2, 0);
    lose_default(&mut set, at(10));
    let now = answer(&mut set, at(10), 5, Duration::from_millis(200));
    assert!(set.is_demoted(0));
    answer(&mut set, now, 3, RTT);
    assert!(!set.is_demoted(0));
}

/// A member that answers probes and yet loses packets is trusted later each time.
#[test]
fn who_relapses_has_to_answer_longer() {
    let mut set = IoSet::new(2, 0);
    lose_default(&mut set, at(0));
    let now = answer(&mut set, at(0), 3, RTT);
    assert_eq!(set.default_member(), 0);
    lose_default(&mut set, now);
    let now = answer(&mut set, now, 5, RTT);
    assert_eq!(set.default_member(), 1);
    let now = answer(&mut set, now, 1, RTT);
    assert_eq!(set.default_member(), 0);
    // Long after it is as good as any.
    let later = now + Duration::from_secs(1_000);
    lose_default(&mut set, later);
    answer(&mut set, later, 3, RTT);
    assert_eq!(set.default_member(), 0);
}

/// Another member than the file's default stays where it came back.
#[test]
fn only_the_default_of_the_file_takes_its_place_again() {
    let mut set = IoSet::new(3, 0);
    lose_default(&mut set, at(0));
    lose_default(&mut set, at(0));
    assert_eq!(set.default_member(), 2);
    answer(&mut set, at(1), 6, RTT);
    assert_eq!((set.default_member(), set.is_demoted(1)), (0, false));
}
