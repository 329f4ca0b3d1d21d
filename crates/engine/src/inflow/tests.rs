use super::doze::DOZE_MAX;
use super::*;

const BUFFER_BYTES: usize = 4 << 20;
const AT: Instant = Instant::from_nanos(1_000_000_000);

fn us(count: u64) -> Instant {
    AT + Duration::from_micros(count)
}

/// So many packets of 1,000 bytes, in so many pieces.
fn packets(packets: u64, pieces: u64) -> Arrived {
    Arrived { packets, pieces, bytes: 1_000 * packets }
}

fn note(inflow: &Inflow, window: &mut Window, arrived: Arrived, now: Instant) {
    inflow.note(window, arrived, now);
}

/// So many packets every 100 µs of a window and the turn that ends it.
fn play(inflow: &Inflow, count: u64) -> Window {
    let mut window = Window::new(AT);
    (1..=10).for_each(|turn| note(inflow, &mut window, packets(count, 1), us(100 * turn)));
    window
}

#[test]
fn many_packets_of_one_direction_are_a_flood() {
    let inflow = Inflow::new(BUFFER_BYTES);
    play(&inflow, 15);
    assert!(!inflow.is_flooded());
    play(&inflow, 16);
    assert!(inflow.is_flooded());
}

#[test]
fn few_large_packets_are_no_flood() {
    let inflow = Inflow::new(BUFFER_BYTES);
    for (mean_bytes, is_flood) in [(LARGE_BYTES, false), (LARGE_BYTES - 1, true)] {
        let arrived = Arrived { packets: 200, pieces: 200, bytes: 200 * mean_bytes };
        inflow.note(&mut Window::new(AT), arrived, AT + WINDOW);
        assert_eq!(inflow.is_flooded(), is_flood, "{mean_bytes} bytes");
    }
}

#[test]
fn nobody_dozes_where_what_comes_meanwhile_fills_more_than_a_part_of_the_buffer() {
    let bytes_per_ms = 2_200_000;
    for (buffer_bytes, is_flood) in [(660_000, true), (659_990, false)] {
        let inflow = Inflow::new(buffer_bytes);
        let arrived = Arrived { packets: 1_500, pieces: 50, bytes: bytes_per_ms };
        let is_short_of_room = inflow.note(&mut Window::new(AT), arrived, AT + WINDOW) == Some(false);
        assert_eq!((inflow.is_flooded(), is_short_of_room), (is_flood, !is_flood), "{buffer_bytes} bytes");
        inflow.set_buffer_bytes(660_000);
        assert_eq!(inflow.note(&mut Window::new(AT), arrived, AT + WINDOW), None, "it just has");
        inflow.set_buffer_bytes(4 * 660_000);
        assert_eq!(inflow.note(&mut Window::new(AT), arrived, AT + WINDOW), Some(true));
        assert!(inflow.is_flooded());
    }
}

#[test]
fn packets_that_were_joined_do_not_come_apart() {
    let inflow = Inflow::new(BUFFER_BYTES);
    let mut window = play(&inflow, 100);
    assert!(inflow.is_flooded() && !inflow.is_dozed_through_first(false));
    (11..=20).for_each(|turn| note(&inflow, &mut window, packets(100, 51), us(100 * turn)));
    assert!(inflow.is_dozed_through_first(false));
    (21..=30).for_each(|turn| note(&inflow, &mut window, packets(100, 50), us(100 * turn)));
    assert!(inflow.is_flooded() && !inflow.is_dozed_through_first(false));
    (31..=40).for_each(|turn| note(&inflow, &mut window, packets(10, 10), us(100 * turn)));
    assert!(!inflow.is_dozed_through_first(false));
}

#[test]
fn a_turn_of_large_packets_or_of_a_flood_takes_what_the_cache_holds() {
    let turn = |packets, pieces, mean_bytes| {
        let inflow = Inflow::new(64 << 20);
        let arrived = Arrived { packets, pieces, bytes: packets * mean_bytes };
        inflow.note(&mut Window::new(AT), arrived, AT + WINDOW);
        inflow.turn_packets()
    };
    assert_eq!(turn(40, 40, 65_500), 4, "large");
    assert_eq!(turn(500, 500, 8_972), 29, "a flood, one by one");
    assert_eq!(turn(1_000, 1_000, 1_472), 178, "the same of full packets with MTU 1500");
    assert_eq!(turn(1_000, 1_000, 100), TURN_PACKETS, "the same of small ones");
    assert_eq!(turn(500, 100, 8_972), 43, "a flood, joined");
    assert_eq!(turn(1_000, 100, 1_472), TURN_PACKETS, "the same of full packets with MTU 1500");
    assert_eq!(turn(10, 5, 8_972), TURN_PACKETS, "none");
}

#[test]
fn who_took_as_much_as_a_turn_may_have_left_some() {
    let inflow = Inflow::new(BUFFER_BYTES);
    inflow.note_turn(3, 4, false);
    assert!(!inflow.is_behind());
    inflow.note_turn(4, 4, false);
    assert!(inflow.is_behind());
    inflow.note_turn(0, 4, false);
    assert!(!inflow.is_behind());
    inflow.note_turn(3, 4, true);
    assert!(inflow.is_behind(), "the reader had no room for the fourth");
}

#[test]
fn a_turn_takes_few_of_full_packets_one_by_one_until_it_leaves_some() {
    let inflow = Inflow::new(BUFFER_BYTES);
    let mut window = Window::new(AT);
    let mut turn = |ms: u64, pieces, mean_bytes: u64| {
        let arrived = Arrived { packets: 100, pieces, bytes: 100 * mean_bytes };
        note(&inflow, &mut window, arrived, us(1_000 * ms));
        inflow.turn_packets()
    };
    assert_eq!(turn(1, 100, 1_444), EARLY_PACKETS);
    assert_eq!(turn(2, 50, 1_444), TURN_PACKETS, "joined");
    assert_eq!(turn(3, 100, 1_199), TURN_PACKETS, "small ones");
    assert_eq!(turn(4, 100, 1_444), EARLY_PACKETS);
    let next = |count, budget| {
        inflow.note_turn(count, budget, false);
        inflow.turn_packets()
    };
    assert_eq!((next(8, 8), next(16, 16), next(31, 32)), (16, 32, EARLY_PACKETS));
    assert_eq!(next(200, 200), TURN_PACKETS, "at most");
    inflow.note_user_sends(us(4_500));
    assert_eq!(turn(5, 100, 1_444), TURN_PACKETS, "who sends may answer: one acknowledgement is enough");
    inflow.note_turn(256, 256, false);
    assert_eq!(inflow.turn_packets(), TURN_PACKETS);
}

#[test]
fn an_answer_is_not_waited_for_in_a_doze() {
    let inflow = Inflow::new(BUFFER_BYTES);
    inflow.note_user_sends(us(500));
    let mut window = play(&inflow, 50);
    assert!(!inflow.is_flooded(), "it came within the window");
    (11..=20).for_each(|turn| note(&inflow, &mut window, packets(50, 1), us(100 * turn)));
    assert!(inflow.is_flooded(), "it came before the window");
}

#[test]
fn a_window_with_a_pause_is_no_flood() {
    let inflow = Inflow::new(BUFFER_BYTES);
    let mut window = Window::new(AT);
    inflow.note(&mut window, packets(10_000, 1), us(2_000));
    assert!(!inflow.is_flooded());
}

#[test]
fn dozes_that_held_up_the_sender_are_the_last_for_a_while() {
    let inflow = Inflow::new(BUFFER_BYTES);
    let mut window = play(&inflow, 100); // one a microsecond
    inflow.note_doze(us(1_000), 50, us(1_100), false);
    assert!(inflow.is_flooded(), "half of the packets came");
    inflow.note_doze(us(1_000), 128, us(1_250), false);
    assert!(inflow.is_flooded(), "half of what a turn takes came");
    (0..2).for_each(|_| inflow.note_doze(us(1_000), 49, us(1_100), false));
    assert!(inflow.is_flooded(), "by chance");
    inflow.note_doze(us(1_000), 50, us(1_100), false);
    (0..2).for_each(|_| inflow.note_doze(us(1_000), 49, us(1_100), false));
    assert!(inflow.is_flooded(), "not in a row");
    (0..3).for_each(|_| inflow.note_doze_for_others(us(1_000), 128, us(1_900)));
    assert!(inflow.is_flooded(), "who ended it late are those that it was for");
    (0..2).for_each(|_| inflow.note_doze(us(1_000), 128, us(1_900), false));
    inflow.note_doze_for_others(us(1_000), 49, us(1_100));
    assert!(!inflow.is_flooded());
    (11..=1_000).for_each(|turn| note(&inflow, &mut window, packets(100, 1), us(100 * turn)));
    assert!(!inflow.is_flooded(), "not yet");
    (1_001..=1_050).for_each(|turn| note(&inflow, &mut window, packets(100, 1), us(100 * turn)));
    assert!(inflow.is_flooded());
}

/// What comes in dozes that hold up the sender is no measure of what would come without.
#[test]
fn dozes_are_judged_by_what_came_before_them() {
    let inflow = Inflow::new(BUFFER_BYTES);
    let mut window = play(&inflow, 100); // one a microsecond
    (11..=20).for_each(|turn| note(&inflow, &mut window, packets(30, 1), us(100 * turn)));
    inflow.note_doze(us(2_000), 50, us(2_100), false);
    (0..3).for_each(|_| inflow.note_doze(us(2_000), 30, us(2_100), false));
    assert!(!inflow.is_flooded());
    let inflow = Inflow::new(BUFFER_BYTES);
    let mut window = play(&inflow, 100);
    (11..=20).for_each(|turn| note(&inflow, &mut window, packets(15, 1), us(100 * turn)));
    assert!(!inflow.is_flooded(), "it is over");
    (21..=30).for_each(|turn| note(&inflow, &mut window, packets(30, 1), us(100 * turn)));
    (0..3).for_each(|_| inflow.note_doze(us(3_000), 15, us(3_100), false));
    assert!(inflow.is_flooded(), "and another one begins");
}

/// Milliseconds of a stream, 80 packets of 1,444 bytes in each.
fn stream(inflow: &Inflow, window: &mut Window, since_ms: u64, count: u64) {
    for ms in since_ms..since_ms + count {
        let arrived = Arrived { packets: 80, pieces: 10, bytes: 80 * 1_444 };
        note(inflow, window, arrived, us(1_000 * (ms + 1)));
    }
}

#[test]
fn who_waits_for_a_stream_dozes_where_it_comes_slowly() {
    let inflow = Inflow::new(BUFFER_BYTES);
    let mut window = Window::new(AT);
    stream(&inflow, &mut window, 0, 10);
    assert!(!inflow.is_dozed_through(true), "not tried yet");
    stream(&inflow, &mut window, 10, 200);
    assert!(inflow.is_dozed_through(true) && inflow.is_dozed_through_first(true));
    assert!(!inflow.is_dozed_through(false) && !inflow.is_dozed_through_first(false), "others do not");
    assert_eq!(inflow.doze_of(true), STREAM_DOZE_MAX);
    assert_eq!(inflow.doze_of(false), DOZE_MAX);
    let arrived = Arrived { packets: 80, pieces: 80, bytes: 80 * 1_444 };
    note(&inflow, &mut window, arrived, us(211_000));
    assert_eq!(inflow.turn_packets(), TURN_PACKETS, "also where they come one by one");
    inflow.note_user_sends(us(211_500));
    assert!(!inflow.is_dozed_through(true), "the peer may wait for what is sent");
    stream(&inflow, &mut window, 211, 2);
    assert!(inflow.is_dozed_through(true), "until a window without");
}

#[test]
fn small_packets_are_no_stream() {
    let inflow = Inflow::new(BUFFER_BYTES);
    let mut window = Window::new(AT);
    (1..=200).for_each(|ms| note(&inflow, &mut window, packets(80, 80), us(1_000 * ms)));
    assert!(!inflow.is_dozed_through(true));
}

#[test]
fn a_stream_is_not_dozed_through_beside_who_is_urgent() {
    let inflow = Inflow::new(BUFFER_BYTES);
    let mut window = Window::new(AT);
    stream(&inflow, &mut window, 0, 200);
    let urgent = [inflow.be_urgent(), inflow.be_urgent()];
    assert!(!inflow.is_dozed_through(true));
    assert_eq!(inflow.doze_of(true), DOZE_MAX);
    let [first, second] = urgent;
    drop(first);
    stream(&inflow, &mut window, 200, 50);
    assert!(!inflow.is_dozed_through(true), "there is another one");
    drop(second);
    stream(&inflow, &mut window, 250, 50);
    assert!(inflow.is_dozed_through(true));
}
