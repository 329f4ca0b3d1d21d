//! What a test has shown: a line per interval, a summary, JSON.

use std::time::Duration;

use serde::Serialize;
use weft_socket::SocketStats;

use super::protocol::{ConnectionResult, Direction, Request, Results, Service};
use super::traffic::Flow;
use crate::cpu::CpuUse;
use crate::target::Target;
use crate::units;

/// What was measured.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub(super) struct Test {
    target: String,
    service: Service,
    direction: Direction,
    size_bytes: u64,
    parallel: u32,
    seconds: Option<f64>,
    bytes_per_connection: Option<u64>,
    /// Of the first connection, at the end: larger packets are proved while the test runs.
    mss: u16,
    congestion: String,
}

impl Test {
    pub(super) fn new(request: &Request, target: &Target, stats: &SocketStats) -> Self {
        let is_timed = request.bytes.is_none();
        Self {
            target: target.to_string(),
            service: request.service,
            direction: request.direction,
            size_bytes: request.size_bytes,
            parallel: request.parallel,
            seconds: is_timed.then(|| Duration::from_millis(request.time_ms).as_secs_f64()),
            bytes_per_connection: request.bytes,
            mss: stats.mss,
            congestion: stats.congestion.to_owned(),
        }
    }

    pub(super) fn note_end(&mut self, stats: &SocketStats) {
        self.mss = stats.mss;
    }

    pub(super) fn head(&self) -> [String; 2] {
        let (service, unit) = match self.service {
            Service::Stream => ("stream", "writes"),
            Service::Datagram => ("datagram", "messages"),
        };
        let connections = if self.parallel == 1 {
            "1 connection".to_owned()
        } else {
            format!("{} connections", self.parallel)
        };
        let direction = match self.direction {
            Direction::ToServer => "to",
            Direction::ToClient => "from",
            Direction::Both => "to and from",
        };
        [
            format!(
                "{service} {direction} {}: {connections}, {unit} of {} B, {}",
                self.target, self.size_bytes, self.congestion
            ),
            format!(
                "{:>15}  {:>10}  {:>12}  {:>10}  {:>8}  {:>9}  {:>7}",
                "time", "data", "rate", "messages/s", "resent", "rtt", "window"
            ),
        ]
    }
}

/// The counters at one moment.
#[derive(Clone, Copy, Default)]
pub(super) struct Snapshot {
    at: Duration,
    sent_bytes: u64,
    received_bytes: u64,
    sent_messages: u64,
    received_messages: u64,
    retransmitted: u64,
}

impl Snapshot {
    fn of(flows: &[Flow], at: Duration) -> Self {
        flows.iter().fold(Self { at, ..Self::default() }, |sum, flow| Self {
            at,
            sent_bytes: sum.sent_bytes + flow.sent.bytes(),
            received_bytes: sum.received_bytes + flow.received.bytes(),
            sent_messages: sum.sent_messages + flow.sent.messages(),
            received_messages: sum.received_messages + flow.received.messages(),
            retransmitted: sum.retransmitted + flow.socket.stats().retransmitted,
        })
    }
}

/// What happened between two moments.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub(super) struct Interval {
    from_seconds: f64,
    to_seconds: f64,
    sent_bytes: u64,
    received_bytes: u64,
    sent_messages: u64,
    received_messages: u64,
    bits_per_second: f64,
    retransmitted: u64,
    rtt_us: Option<f64>,
    congestion_window: u32,
}

impl Interval {
    pub(super) fn origin(flows: &[Flow]) -> Snapshot {
        Snapshot { at: Duration::ZERO, ..Snapshot::of(flows, Duration::ZERO) }
    }

    pub(super) fn since(before: &Snapshot, flows: &[Flow], at: Duration) -> (Self, Snapshot) {
        let now = Snapshot::of(flows, at);
        let seconds = (now.at - before.at).as_secs_f64().max(1e-9);
        let sent_bytes = now.sent_bytes - before.sent_bytes;
        let received_bytes = now.received_bytes - before.received_bytes;
        let stats = flows.first().map(|flow| flow.socket.stats());
        let interval = Self {
            from_seconds: before.at.as_secs_f64(),
            to_seconds: now.at.as_secs_f64(),
            sent_bytes,
            received_bytes,
            sent_messages: now.sent_messages - before.sent_messages,
            received_messages: now.received_messages - before.received_messages,
            bits_per_second: (sent_bytes + received_bytes) as f64 * 8.0 / seconds,
            retransmitted: now.retransmitted - before.retransmitted,
            rtt_us: stats.as_ref().and_then(|s| s.rtt).map(|rtt| rtt.as_secs_f64() * 1e6),
            congestion_window: stats.map_or(0, |s| s.congestion_window),
        };
        (interval, now)
    }

    /// Whether a last, short interval says anything.
    pub(super) fn is_worth_a_line(&self) -> bool {
        self.to_seconds - self.from_seconds > 0.1
    }

    pub(super) fn line(&self) -> String {
        let seconds = (self.to_seconds - self.from_seconds).max(1e-9);
        format!(
            "{:>15}  {:>10}  {:>12}  {:>10}  {:>8}  {:>9}  {:>7}",
            format!("{:.1} to {:.1} s", self.from_seconds, self.to_seconds),
            units::bytes(self.sent_bytes + self.received_bytes),
            units::bit_rate(self.bits_per_second),
            units::count((self.sent_messages + self.received_messages) as f64 / seconds),
            self.retransmitted,
            self.rtt_us.map_or_else(
                || "-".to_owned(),
                |micros| units::duration(Duration::from_secs_f64(micros / 1e6))
            ),
            self.congestion_window
        )
    }
}

/// One direction over all connections.
#[derive(Serialize, Clone, PartialEq, Debug)]
struct Sum {
    sent_bytes: u64,
    received_bytes: u64,
    messages: u64,
    sent_bits_per_second: f64,
    received_bits_per_second: f64,
    messages_per_second: f64,
    packets_sent: u64,
    retransmitted: u64,
    retransmitted_share: f64,
    lost: u64,
    spurious: u64,
    timeouts: u64,
    limited_by: Vec<String>,
}

impl Sum {
    fn new(senders: &[ConnectionResult], receivers: &[ConnectionResult]) -> Self {
        let total =
            |of: fn(&ConnectionResult) -> u64, ends: &[ConnectionResult]| ends.iter().map(of).sum::<u64>();
        let longest = |of: fn(&ConnectionResult) -> f64, ends: &[ConnectionResult]| {
            ends.iter().map(of).fold(1e-9, f64::max)
        };
        let (sent_bytes, received_bytes) =
            (total(|c| c.sent_bytes, senders), total(|c| c.received_bytes, receivers));
        let (packets, again) = (total(|c| c.packets_sent, senders), total(|c| c.retransmitted, senders));
        let received_seconds = longest(|c| c.received_seconds, receivers);
        let is_stream_of_reads = total(|c| c.received_messages, receivers);
        let mut limited_by: Vec<String> = senders.iter().map(|c| c.limited_by.clone()).collect();
        limited_by.sort();
        limited_by.dedup();
        Self {
            sent_bytes,
            received_bytes,
            messages: is_stream_of_reads,
            sent_bits_per_second: sent_bytes as f64 * 8.0 / longest(|c| c.sent_seconds, senders),
            received_bits_per_second: received_bytes as f64 * 8.0 / received_seconds,
            messages_per_second: is_stream_of_reads as f64 / received_seconds,
            packets_sent: packets,
            retransmitted: again,
            retransmitted_share: again as f64 / packets.max(1) as f64,
            lost: total(|c| c.lost, senders),
            spurious: total(|c| c.spurious, senders),
            timeouts: total(|c| c.timeouts, senders),
            limited_by,
        }
    }

    fn lines(&self, from: &str, to: &str, is_datagram: bool, mss: u16) -> [String; 2] {
        let messages = if is_datagram {
            format!(", {} messages/s", units::count(self.messages_per_second))
        } else {
            String::new()
        };
        [
            format!(
                "{from} to {to}: {} arrived, {}{messages}",
                units::bytes(self.received_bytes),
                units::bit_rate(self.received_bits_per_second)
            ),
            format!(
                "    {} packets of up to {mss} B, {} sent again ({:.3} %), {} lost, {} time-outs, limited by {}",
                self.packets_sent,
                self.retransmitted,
                self.retransmitted_share * 100.0,
                self.lost.saturating_sub(self.spurious),
                self.timeouts,
                self.limited_by.join(" and ")
            ),
        ]
    }
}

/// Bytes sent and received over all connections of one end.
pub(super) fn totals(connections: &[ConnectionResult]) -> (u64, u64) {
    connections.iter().fold((0, 0), |(sent, received), c| (sent + c.sent_bytes, received + c.received_bytes))
}

/// Everything about a finished test.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub(super) struct Report {
    test: Test,
    intervals: Vec<Interval>,
    to_server: Option<Sum>,
    to_client: Option<Sum>,
    cpu_client: CpuUse,
    cpu_server: CpuUse,
    client: Vec<ConnectionResult>,
    server: Vec<ConnectionResult>,
}

impl Report {
    pub(super) fn new(test: Test, intervals: Vec<Interval>, here: Results, there: Results) -> Self {
        let (there_sent, direction) = (&there.connections, test.direction);
        Self {
            to_server: direction.client_sends().then(|| Sum::new(&here.connections, there_sent)),
            to_client: direction.server_sends().then(|| Sum::new(there_sent, &here.connections)),
            cpu_client: here.cpu,
            cpu_server: there.cpu,
            client: here.connections,
            server: there.connections,
            test,
            intervals,
        }
    }

    pub(super) fn first_error(&self) -> Option<&str> {
        self.client.iter().chain(&self.server).find_map(|connection| connection.error.as_deref())
    }

    pub(super) fn lines(&self) -> Vec<String> {
        let (is_datagram, mss) = (self.test.service == Service::Datagram, self.test.mss);
        let mut lines = vec![String::new()];
        if let Some(sum) = &self.to_server {
            lines.extend(sum.lines("client", "server", is_datagram, mss));
        }
        if let Some(sum) = &self.to_client {
            lines.extend(sum.lines("server", "client", is_datagram, mss));
        }
        lines.push(format!(
            "processor: client {}, server {}",
            self.cpu_client.text(),
            self.cpu_server.text()
        ));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(sent_bytes: u64, received_bytes: u64) -> ConnectionResult {
        ConnectionResult {
            sent_bytes,
            received_bytes,
            sent_seconds: 2.0,
            received_seconds: 4.0,
            received_messages: 100,
            packets_sent: 1000,
            retransmitted: 10,
            limited_by: "path loss".into(),
            ..ConnectionResult::default()
        }
    }

    #[test]
    fn a_direction_is_summed_over_its_connections() {
        let sum =
            Sum::new(&[connection(500, 0), connection(500, 0)], &[connection(0, 400), connection(0, 600)]);
        assert_eq!((sum.sent_bytes, sum.received_bytes, sum.messages), (1000, 1000, 200));
        assert!((sum.sent_bits_per_second - 4000.0).abs() < 1e-6);
        assert!((sum.received_bits_per_second - 2000.0).abs() < 1e-6);
        assert!((sum.retransmitted_share - 0.01).abs() < 1e-9);
        let text = sum.lines("client", "server", true, 1444).join("\n");
        assert!(text.contains("20 sent again (1.000 %)") && text.contains("limited by path loss"), "{text}");
        assert!(text.contains("50 messages/s"), "{text}");
    }
}
