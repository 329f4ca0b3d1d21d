use super::*;

const MS: Duration = Duration::from_millis(1);

/// What answers a first transmission says nothing of the time at which the number was sent again.
#[test]
fn an_answer_that_comes_too_soon_is_of_an_earlier_transmission() {
    let start = Instant::from_nanos(1_000_000_000);
    let arrival = |elapsed: Duration| {
        let mut flight = Flight::new(Seq::new(1));
        flight.push(start, Piece::default(), false, false);
        let again = start + 30 * MS;
        flight.resend(again, 0);
        let progress = flight.acknowledge(again + elapsed, flight.nxt(), Some(10 * MS));
        (progress.delivered, progress.spurious, progress.sent_at)
    };
    assert_eq!(arrival(10 * MS), (1, 0, start + 30 * MS));
    assert_eq!(arrival(9 * MS), (1, 1, Instant::ZERO));
}

/// A thread may look at the clock, another send a packet, and the first then take in what answers it.
#[test]
fn an_acknowledgement_stamped_before_its_packet_tells_no_round_trip() {
    let start = Instant::from_nanos(1_000_000_000);
    let mut flight = Flight::new(Seq::new(1));
    flight.push(start, Piece::default(), false, false);
    let progress = flight.acknowledge(start + 3 * MS, flight.nxt(), None);
    assert_eq!((progress.delivered, progress.rtt, flight.rack_rtt), (1, Some(3 * MS), 3 * MS));
    flight.push(start + 9 * MS, Piece::default(), false, false);
    let progress = flight.acknowledge(start + 8 * MS, flight.nxt(), None);
    assert_eq!((progress.delivered, progress.rtt, flight.rack_rtt), (1, None, 3 * MS));
}

/// What is acknowledged together is what would have been acknowledged one by one, whatever became of it before.
#[test]
fn numbers_acknowledged_together_tell_what_each_would_have_told() {
    let start = Instant::from_nanos(1_000_000_000);
    let flight = || {
        let mut flight = Flight::new(Seq::new(1));
        flight.set_large(800);
        for nth in 0..40 {
            flight.push(start + MS * (nth / 8), Piece::of_bytes(10 * nth + 500), false, nth == 39);
        }
        let mut progress = Progress::default();
        flight.mark_held(start + 6 * MS, 0, &[1 << 20], None, &mut progress);
        flight.resend(start + 7 * MS, 10);
        flight
    };
    let now = start + 9 * MS;
    for count in 1..=40 {
        let (mut at_once, mut by_one) = (flight(), flight());
        let all = at_once.acknowledge(now, at_once.una() + count, Some(MS));
        let mut sum = Progress::default();
        for _ in 0..count {
            let one = by_one.acknowledge(now, by_one.una() + 1, Some(MS));
            sum.delivered += one.delivered;
            sum.on_path += one.on_path;
            sum.bytes += one.bytes;
            sum.acked += one.acked;
            sum.rtt = sum.rtt.into_iter().chain(one.rtt).min();
            sum.sent_at = sum.sent_at.max(one.sent_at);
            sum.is_from_first |= one.is_from_first;
            sum.fin |= one.fin;
            sum.large |= one.large;
            sum.repeated = one.repeated.or(sum.repeated);
        }
        assert_eq!(format!("{all:?}"), format!("{sum:?}"), "{count} numbers");
        assert_eq!(format!("{at_once:?}"), format!("{by_one:?}"), "{count} numbers");
    }
}
