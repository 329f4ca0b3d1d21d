//! I11: the counters of a connection say what was seen on the wire, and add up.

use weft_proto::Stats;

use crate::violation::{Invariant, Violation, ensure};
use crate::watch::wire::Sent;

/// What the counters of one end are compared with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// What it sent, seen on the wire.
    pub sent: Sent,
    /// Messages or writes that its machine accepted from the user.
    pub accepted: u64,
    /// Messages or pieces its user got.
    pub delivered: u64,
    /// Greatest ACK number that reached it, numbers of DAT and FIN only.
    pub acked: u64,
}

/// Compares the counters with what was seen.
///
/// # Errors
///
/// The first that disagrees.
pub fn check(stats: &Stats, seen: &Seen) -> Result<(), Violation> {
    let sent = &seen.sent;
    let equal = |name: &str, told: u64, seen: u64| {
        ensure(told == seen, Invariant::Counters, || format!("{name} is {told}, and {seen} were seen"))
    };
    // An echo-form RST is sent on behalf of the process, which limits it.
    equal("packets_sent", stats.packets_sent, sent.packets - sent.echo_resets)?;
    equal("numbers_sent", stats.numbers_sent, sent.numbers)?;
    equal("retransmitted", stats.retransmitted, sent.repeated)?;
    equal("bytes_sent", stats.bytes_sent, sent.bytes)?;
    equal("messages_sent", stats.messages_sent, seen.accepted)?;
    equal("messages_received", stats.messages_received, seen.delivered)?;
    let settled = stats.numbers_acked + stats.numbers_dropped;
    ensure(settled <= stats.numbers_sent, Invariant::Counters, || {
        format!("{settled} numbers settled of {} sent", stats.numbers_sent)
    })?;
    ensure(stats.numbers_acked <= seen.acked, Invariant::Counters, || {
        format!("{} numbers acknowledged, and {} on the wire", stats.numbers_acked, seen.acked)
    })
}

/// When a connection has ended no number is in flight any more: sent = acknowledged + dropped.
///
/// # Errors
///
/// If numbers are missing.
pub fn check_final(stats: &Stats) -> Result<(), Violation> {
    let settled = stats.numbers_acked + stats.numbers_dropped;
    ensure(settled == stats.numbers_sent, Invariant::Counters, || {
        format!("at the end {settled} numbers settled of {} sent", stats.numbers_sent)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn honest() -> (Stats, Seen) {
        let sent = Sent { packets: 9, numbers: 5, repeated: 1, bytes: 500, echo_resets: 1 };
        let stats = Stats {
            packets_sent: 8,
            numbers_sent: 5,
            numbers_acked: 3,
            numbers_dropped: 2,
            retransmitted: 1,
            bytes_sent: 500,
            messages_sent: 4,
            messages_received: 2,
            ..Stats::default()
        };
        (stats, Seen { sent, accepted: 4, delivered: 2, acked: 3 })
    }

    #[test]
    fn honest_counters_pass() {
        let (stats, seen) = honest();
        assert_eq!(check(&stats, &seen), Ok(()));
        assert_eq!(check_final(&stats), Ok(()));
    }

    #[test]
    fn each_wrong_counter_fires() {
        let wrongs: [fn(&mut Stats); 8] = [
            |stats| stats.packets_sent += 1,
            |stats| stats.numbers_sent += 1,
            |stats| stats.retransmitted -= 1,
            |stats| stats.bytes_sent -= 1,
            |stats| stats.messages_sent += 1,
            |stats| stats.messages_received += 1,
            |stats| stats.numbers_dropped += 1,
            |stats| stats.numbers_acked += 1,
        ];
        for (i, wrong) in wrongs.iter().enumerate() {
            let (mut stats, seen) = honest();
            wrong(&mut stats);
            let found = check(&stats, &seen).unwrap_err();
            assert_eq!(found.invariant, Invariant::Counters, "{i}");
        }
    }

    #[test]
    fn a_number_that_is_neither_acknowledged_nor_dropped_fires() {
        let (mut stats, _) = honest();
        stats.numbers_dropped -= 1;
        assert!(check_final(&stats).is_err());
    }
}
