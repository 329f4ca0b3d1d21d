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
