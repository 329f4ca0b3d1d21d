//! The times of the specification, waited for: `cargo test -p weft-tools --test chaos -- --real-times`, some seven minutes.
//!
//! All connections wait at the same time, each in a thread with a node and processes of its own.

use std::ops::RangeInclusive;
use std::thread;
use std::time::Duration;

use weft_socket::{EndReason, Service};

use crate::case::{After, Case, Killed, State, Survivor};
use crate::census;
use crate::crossing::{Both, Crossing};
use crate::lane::Lane;
use crate::times::Times;

/// A client sends PIN after 60 s, 10 % more or less, and waits 300 s for the answer.
const CLIENT: RangeInclusive<u64> = 354..=369;
/// A server waits for 300 s. What it heard last came a little before its peer was gone, as with the next.
const SERVER: RangeInclusive<u64> = 299..=303;
/// A client whose peer goes while a probe for larger packets is under way, which is a PIN as well.
const PROBING_CLIENT: RangeInclusive<u64> = 299..=369;
/// Longer than any end waits, and no longer than a connection may be silent.
const LONG: Duration = Duration::from_secs(400);
const SHORT: Duration = Duration::from_secs(240);

/// What befell one end, what it was told, after how many seconds, and when that is right.
struct Row {
    what: String,
    told: Option<EndReason>,
    seconds: f64,
    is_right: bool,
}

impl Row {
    fn new(
        what: impl Into<String>,
        told: Option<EndReason>,
        after: Duration,
        (expected, when): (Option<EndReason>, RangeInclusive<u64>),
    ) -> Self {
        let is_right = told == expected && when.contains(&after.as_secs());
        Self { what: what.into(), told, seconds: after.as_secs_f64(), is_right }
    }
}

/// Waits for all of them, and fails if one is not told what it should be, when it should be.
pub(crate) fn run() {
    let all: Vec<fn(usize) -> Vec<Row>> = vec![
        |lane| vec![gone(lane, State::Opening, Survivor::Client, EndReason::GaveUp, 61..=66)],
        |lane| vec![gone(lane, State::Sending, Survivor::Client, EndReason::GaveUp, 100..=107)],
        |lane| vec![gone(lane, State::Sending, Survivor::Server, EndReason::GaveUp, 100..=107)],
        |lane| vec![gone(lane, State::Idle, Survivor::Client, EndReason::Idle, PROBING_CLIENT)],
        |lane| vec![gone(lane, State::Idle, Survivor::Server, EndReason::Idle, SERVER)],
        without_io_nodes,
        |lane| vec![stopped_for_long(lane, Survivor::Client, CLIENT)],
        |lane| vec![stopped_for_long(lane, Survivor::Server, SERVER)],
        |lane| vec![stopped_briefly(lane, Survivor::Client)],
        |lane| vec![stopped_briefly(lane, Survivor::Server)],
    ];
    let waiting: Vec<_> =
        all.into_iter().enumerate().map(|(lane, wait)| thread::spawn(move || wait(lane))).collect();
    let rows: Vec<Row> = waiting.into_iter().flat_map(|rows| rows.join().expect("a wait")).collect();
    println!("{:<79} seconds  told", "");
    for Row { what, told, seconds, .. } in &rows {
        println!("{what:<79} {seconds:>7.1}  {}", told.map_or("goes on", |reason| reason.name()));
    }
    assert!(census::children().is_empty(), "a process was left behind");
    let wrong: Vec<&str> = rows.iter().filter(|row| !row.is_right).map(|row| row.what.as_str()).collect();
    assert!(wrong.is_empty(), "not as the specification says: {wrong:?}");
}

/// The other process is killed, and its host with it.
fn gone(lane: usize, state: State, survivor: Survivor, reason: EndReason, when: RangeInclusive<u64>) -> Row {
    let case = Case { state, killed: Killed::Peer, survivor, after: After::Darkness };
    let kill = Lane::new(crate::place(lane)).kill(case, Times::Specified, Service::Stream);
    Row::new(case.to_string(), kill.reason, kill.informed, (Some(reason), when))
}

/// Both I/O nodes are killed, and their hosts with them.
fn without_io_nodes(lane: usize) -> Vec<Row> {
    let case = Case {
        state: State::Idle,
        killed: Killed::IoNodes,
        survivor: Survivor::Client,
        after: After::Darkness,
    };
    let Both { kill, peer } = Crossing::new(lane).kill(case, Times::Specified, Service::Stream);
    let (said, after) = peer.expect("it had a connection");
    let told = said.ends_with(EndReason::Idle.name()).then_some(EndReason::Idle);
    let at_server = Case { survivor: Survivor::Server, ..case };
    vec![
        Row::new(case.to_string(), kill.reason, kill.informed, (Some(EndReason::Idle), CLIENT)),
        Row::new(at_server.to_string(), told, after, (Some(EndReason::Idle), SERVER)),
    ]
}

/// The other process is stopped until this end has been told; then it is told as well.
fn stopped_for_long(lane: usize, survivor: Survivor, when: RangeInclusive<u64>) -> Row {
    let pause = Lane::new(crate::place(lane)).pause(survivor, Times::Specified, LONG, false);
    let (told, after) = pause.outcome.expect_err("it was too long");
    let peer = pause.peer.unwrap_or_default();
    let mut row = Row::new(
        format!("{} stopped for {LONG:?}; it: {peer}", peer_of(survivor)),
        Some(told),
        after,
        (Some(EndReason::Idle), when),
    );
    row.is_right &= peer.ends_with(EndReason::Idle.name());
    row
}

fn stopped_briefly(lane: usize, survivor: Survivor) -> Row {
    let pause = Lane::new(crate::place(lane)).pause(survivor, Times::Specified, SHORT, false);
    let (told, after) = match pause.outcome {
        Ok(()) => (None, SHORT),
        Err((reason, after)) => (Some(reason), after),
    };
    Row::new(format!("{} stopped for {SHORT:?}", peer_of(survivor)), told, after, (None, 240..=240))
}

fn peer_of(survivor: Survivor) -> &'static str {
    match survivor {
        Survivor::Client => "server",
        Survivor::Server => "client",
    }
}
