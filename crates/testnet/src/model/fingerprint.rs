//! When two states count as one.
//!
//! A machine shows all it is made of by `Debug`. The fingerprint is a hash of that text without the parts that only
//! count or measure, with counters of tries cut off where they have no more effect, and without times: of the timers
//! it counts which are set and which is next, as any side's next timer may fire next, however late. A connection that
//! has ended counts by how it ended.

use std::fmt::Write;

use weft_des::TraceHash;
use weft_proto::Connection;
use weft_wire::Packet;

/// Fields that only count, measure, spread, pace, choose among several paths, or repeat the configuration.
const LEFT_OUT: [&str; 40] = [
    "config",
    "stats",
    "verdicts",
    "jitter",
    "rtt",
    "congestion",
    "pacer",
    "rate",
    "mtu",
    "rack_rtt",
    "newest",
    "newest_is_repeated",
    "reordering",
    "reaction",
    "stamp",
    "sent_at",
    "quiet_since",
    "pin_answers",
    "challenges",
    "next_chunk",
    "told_ce",
    "ecn_recover",
    "probe_out",
    "recover",
    "was_limited",
    "duplicate_acks",
    "progress_at",
    "heard_at",
    "unanswered",
    "told_edge",
    "max_window",
    "way",
    "open_way",
    "is_probe",
    "paths",
    "tallies",
    "probes",
    "arrivals",
    "newest_by",
    "echoed_by",
];

/// Counters that have no more effect beyond this value.
const CUT_OFF: [&str; 4] = ["transmissions", "open_tries", "persist_tries", "dat_since_ack"];
const CUT_OFF_AT: u64 = 3;

/// A hash of 128 bits; among 10^8 states two collide with a chance below 10^-22.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Fingerprint(u64, u64);

/// Gathers what makes up a state.
#[derive(Debug)]
pub struct Gatherer {
    one: TraceHash,
    two: TraceHash,
    text: String,
}

impl Gatherer {
    /// Nothing gathered yet.
    #[must_use]
    pub fn new() -> Self {
        let mut two = TraceHash::new();
        two.add(0x5EED);
        Self { one: TraceHash::new(), two, text: String::new() }
    }

    /// Adds a number.
    pub fn number(&mut self, number: u64) {
        self.one.add(number);
        self.two.add(number.rotate_left(17) ^ 0xA5A5);
    }

    /// Adds what was gathered elsewhere.
    pub fn fingerprint(&mut self, print: Fingerprint) {
        self.one.add(print.0);
        self.two.add(print.1);
    }

    /// Adds a connection.
    pub fn connection(&mut self, connection: &Connection) {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        if connection.is_finished() {
            // Writing to a String cannot fail.
            let _ = write!(text, "{:?} {:?}", connection.error(), connection.close_result());
        } else {
            let _ = write!(text, "{connection:?}");
        }
        let first = earliest(&text);
        let mut rest = text.as_str();
        while let Some(token) = next_token(&mut rest) {
            self.token(&token, first);
        }
        self.text = text;
    }

    fn token(&mut self, token: &Token<'_>, first: Option<u64>) {
        match *token {
            Token::Time(u64::MAX) => self.number(1),
            Token::Time(nanos) => self.number(if Some(nanos) == first { 2 } else { 3 }),
            Token::Text(text) => {
                self.one.add_bytes(text.as_bytes());
                self.two.add_bytes(text.as_bytes());
                self.two.add(0xF00D);
            }
            Token::Count(count) => self.number(300 + count),
        }
    }

    /// The fingerprint of all that was gathered.
    #[must_use]
    pub fn finish(&self) -> Fingerprint {
        Fingerprint(self.one.value(), self.two.value())
    }
}

impl Default for Gatherer {
    fn default() -> Self {
        Self::new()
    }
}

/// What a packet says, in a number: all that a receiver may look at ([CDP-HDR-6] leaves out RTX; TLVs that nobody
/// knows are skipped, so they do not count either).
#[must_use]
pub fn of_packet(packet: &Packet, seq: u64) -> u64 {
    let header = packet.header();
    let mut hash = TraceHash::new();
    hash.add(header.kind as u64);
    hash.add(u64::from(header.eom) | u64::from(header.ece) << 1);
    hash.add(seq);
    hash.add(u64::from(header.ack) << 16 | u64::from(header.window));
    if header.kind.has_tlvs() {
        hash.add_bytes(format!("{:?}", packet.tlvs()).as_bytes());
    } else {
        hash.add_bytes(&packet.payload());
    }
    hash.value()
}

enum Token<'a> {
    Text(&'a str),
    Time(u64),
    Count(u64),
}

/// The earliest time in the text, which is that of the timer that fires next.
fn earliest(text: &str) -> Option<u64> {
    let mut rest = text;
    let times = std::iter::from_fn(|| next_token(&mut rest)).filter_map(|token| match token {
        Token::Time(nanos) => Some(nanos),
        Token::Text(_) | Token::Count(_) => None,
    });
    times.min()
}

/// The next word, number or sign that counts, skipping fields that are left out.
fn next_token<'a>(rest: &mut &'a str) -> Option<Token<'a>> {
    loop {
        *rest = rest.trim_start_matches([' ', ',']);
        let first = rest.chars().next()?;
        if !is_word(first) {
            let (sign, after) = rest.split_at(first.len_utf8());
            *rest = after;
            return Some(Token::Text(sign));
        }
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        *rest = after;
        let Some(value) = after.strip_prefix(": ") else { return Some(classify(word)) };
        if LEFT_OUT.contains(&word) {
            *rest = skip_value(value);
        } else if CUT_OFF.contains(&word) {
            let end = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
            *rest = &value[end..];
            return Some(Token::Count(value[..end].parse().unwrap_or(0).min(CUT_OFF_AT)));
        } else {
            return Some(Token::Text(word));
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.')
}

/// A time is printed as seconds with nine decimals.
fn classify(word: &str) -> Token<'_> {
    let time = word.strip_suffix('s').and_then(|digits| {
        let (seconds, nanos) = digits.split_once('.')?;
        (nanos.len() == 9).then_some(())?;
        seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos.parse().ok()?)
    });
    time.map_or(Token::Text(word), Token::Time)
}

/// What follows the value at the beginning of `text`, brackets counted.
fn skip_value(text: &str) -> &str {
    let mut depth = 0_i32;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => return &text[at..],
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => return &text[at..],
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use weft_base::{Address, FlowKey, Instant, NodeId, Port, Seq, Service};
    use weft_proto::{Config, Secret};

    use super::*;

    fn connection(iss: u64, entropy: u64, at: Instant) -> Connection {
        let end = |node| Address { node: NodeId::new(node).unwrap(), port: Port::new(9).unwrap() };
        let flow = FlowKey { local: end(1), remote: end(2) };
        Connection::connect(
            at,
            flow,
            Config::new(Service::Stream, 512),
            Secret { iss: Seq::new(iss), entropy },
        )
    }

    fn print(connection: &Connection) -> Fingerprint {
        let mut gatherer = Gatherer::new();
        gatherer.connection(connection);
        gatherer.finish()
    }

    #[test]
    fn the_same_state_later_and_with_other_jitter_is_the_same() {
        let later = Instant::from_nanos(7_000_000_123);
        let one = print(&connection(5, 1, Instant::ZERO));
        assert_eq!(one, print(&connection(5, 2, later)));
    }

    #[test]
    fn another_number_or_another_state_is_another() {
        let one = connection(5, 1, Instant::ZERO);
        assert_ne!(print(&one), print(&connection(6, 1, Instant::ZERO)));
        let mut sent = one.clone();
        sent.poll_transmit(Instant::ZERO, &mut Vec::new()).unwrap();
        assert_ne!(print(&one), print(&sent), "a timer runs");
        let mut closed = one.clone();
        closed.close(Instant::ZERO);
        assert_ne!(print(&one), print(&closed));
    }

    #[test]
    fn fields_are_left_out_with_all_their_brackets() {
        let mut rest = "A { stats: B { x: [1, 2], y: C(3) }, z: 4 }";
        let mut texts = Vec::new();
        while let Some(token) = next_token(&mut rest) {
            if let Token::Text(text) = token {
                texts.push(text);
            }
        }
        assert_eq!(texts, ["A", "{", "z", ":", "4", "}"]);
    }

    #[test]
    fn times_are_told_from_words_and_durations() {
        assert!(matches!(classify("63.000000001s"), Token::Time(63_000_000_001)));
        assert!(matches!(classify("18446744073.709551615s"), Token::Time(u64::MAX)));
        assert!(matches!(classify("250ms"), Token::Text(_)));
        assert!(matches!(classify("1.5s"), Token::Text(_)));
    }
}
