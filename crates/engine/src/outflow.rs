//! A sender that waits for room dozes while what it has sent queues on the way (decision 0111).
//!
//! Where the network is slower than the machine, packets queue before it: as long as some do, a sender that looks late for their acknowledgements
//! holds up nothing, and is not woken for each. How long the queue lasts is told by the round trips, as they are longer than the least of
//! them; part of that is the time that the receiver takes to look.

use std::time::Duration;

use crate::clock;
use crate::inflow::STREAM_DOZE_MAX;
use crate::port::Port;
use crate::progress::Condition;
use crate::waiters::Interest;

/// So much of the queue may drain in a doze.
const PART: u32 = 4;
/// Shorter dozes take more of the processor than the wakes that they spare.
const DOZE_MIN: Duration = Duration::from_micros(100);

/// A thread begins to wait: if it does so for room to send, and what it has sent queues on the way, it dozes before it looks.
pub(crate) fn doze_for_room(port: &Port, condition: Condition<'_>) {
    let (Interest::Writable | Interest::RestWritable) = condition.interest else { return };
    let queueing = condition.slot.map_or(Duration::ZERO, |slot| slot.look().connection.queueing());
    let Some(doze) = doze_of(queueing).filter(|_| !port.is_led() && !port.inflow.is_urgent()) else { return };
    let now = clock::now();
    if !condition.is_late(now + doze) {
        port.doze(doze, now);
    }
}

fn doze_of(queueing: Duration) -> Option<Duration> {
    let doze = (queueing / PART).min(STREAM_DOZE_MAX);
    (doze >= DOZE_MIN).then_some(doze)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_the_queue_may_drain_in_a_doze() {
        let doze_us = |queueing_us| doze_of(Duration::from_micros(queueing_us)).map(|doze| doze.as_micros());
        assert_eq!(doze_us(0), None, "a path without a queue");
        assert_eq!(doze_us(396), None, "the wakes that it spares take less");
        assert_eq!(doze_us(440), Some(110), "384 packets at 10 Gbit/s");
        assert_eq!(doze_us(44_000), Some(1_200), "the same at 100 Mbit/s");
    }
}
