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
