//! Processes are killed and stopped, in every state of a connection, and their peers are watched: when they learn of it,
//! what they are told, and what it leaves behind. `cargo test -p weft-tools --test chaos -- --kills 1000`
//!
//! Some processes survive, the lanes, and each kills its peers one after another: this program again, as a server or
//! client over UDP on the loopback interface.

mod case;
mod census;
mod lane;
mod report;
mod victim;

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use weft_socket::Service;

use case::{After, Case, State, Survivor};
use census::Census;
use lane::Lane;
use report::Report;

/// Lanes at a time.
const LANES: usize = 16;
/// Kills after which a lane has taken all the memory it needs.
const WARM_UP: usize = 8;
/// What memory may grow by afterwards.
const GROWTH_KIB: usize = 8 << 10;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("victim") => victim::run(&words[1..], |service, confirm| {
            let state = if confirm { State::HeldFin } else { State::Idle };
            Case { state, survivor: Survivor::Client, after: After::Restart }.options(service)
        }),
        Some("lane") => run_lane(&words[1..]),
        Some("--list") => println!("chaos: test"),
        _ if is_about_another_test(&words) => {}
        _ => direct(&words),
    }
}

/// Whether the words name tests, and none of them is this.
fn is_about_another_test(words: &[String]) -> bool {
    let mut names =
        words.iter().filter(|word| !word.starts_with('-') && word.parse::<usize>().is_err()).peekable();
    names.peek().is_some() && !names.any(|name| "chaos".contains(name.as_str()))
}

/// Starts the lanes and gathers what they say.
fn direct(words: &[String]) {
    let cases = Case::all();
    let number = words.iter().position(|word| word == "--kills").and_then(|at| words.get(at + 1));
    let kills = number.map_or(cases.len(), |word| word.parse().expect("--kills takes a number"));
    let lanes = LANES.min(kills.max(1));
    let begin = Instant::now();
    let mut running: Vec<(Child, usize)> = Vec::new();
    for lane in 0..lanes {
        let own = std::env::current_exe().expect("the path of this program");
        let words = ["lane".to_owned(), lane.to_string(), lanes.to_string(), kills.to_string()];
        let child = Command::new(own).args(words).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        running.push((child.expect("a process"), lane));
    }
    let mut report = Report::default();
    let mut failures = Vec::new();
    for (mut child, lane) in running {
        let said = BufReader::new(child.stdout.take().expect("it was asked for"));
        said.lines().for_each(|line| report.take(&line.expect("what a lane says"), &cases));
        if !child.wait().expect("a lane").success() {
            failures.push(lane);
        }
    }
    report.print(&cases, begin.elapsed());
    assert!(failures.is_empty(), "lanes {failures:?} failed; what they said stands above");
    assert_eq!((report.wrong(), report.kills()), (Vec::new(), kills));
}

/// Kills every case whose turn it is.
fn run_lane(words: &[String]) {
    // SAFETY: no pointers; it concerns this process alone.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let numbers: Vec<usize> = words.iter().map(|word| word.parse().expect("a number")).collect();
    let [own, lanes, kills] = numbers[..] else { panic!("{words:?}") };
    let cases = Case::all();
    let lane = Lane::new(place(own));
    let mut first = None;
    for (count, kill) in (own..kills).step_by(lanes).enumerate() {
        if count == WARM_UP {
            first = Some(Census::take());
        }
        let index = kill % cases.len();
        let is_even = (kill / cases.len()).is_multiple_of(2);
        let service = if is_even { Service::Stream } else { Service::Datagram };
        let (case, done) = (cases[index], lane.kill(cases[index], service));
        let expected = case.expected();
        let is_expected =
            done.reason.map_or(expected.reasons.is_empty(), |reason| expected.reasons.contains(&reason))
                && (expected.least..=expected.most).contains(&done.informed);
        if !is_expected {
            println!("WRONG {case} {service:?}: told {:?} after {:?}", done.reason, done.informed);
        }
        println!(
            "kill {index} {} {}",
            done.informed.as_micros(),
            done.reason.map_or("-", |reason| reason.name())
        );
    }
    if own < 4 {
        pause(&lane, own);
    }
    if let Some(first) = first {
        let last = Census::take();
        lane::settle(first, last).unwrap_or_else(|why| panic!("left behind: {why}"));
        let growth = last.resident_kib.saturating_sub(first.resident_kib);
        assert!(growth <= GROWTH_KIB, "{growth} KiB of memory were left behind: {first:?}, {last:?}");
        println!("growth {growth}");
    }
}

/// [CDP-TMR-2] A peer that is stopped for less than the give-up or the expiry loses nothing, and one that is stopped for
/// longer finds, when it goes on, a clean error, as this end does.
fn pause(lane: &Lane, own: usize) {
    let survivor = if own.is_multiple_of(2) { Survivor::Client } else { Survivor::Server };
    let is_sending = own < 2;
    let short = if is_sending { Duration::from_millis(1_000) } else { Duration::from_millis(1_500) };
    let brief = lane.pause(survivor, short, is_sending);
    assert!(brief.outcome.is_ok(), "{survivor:?} {short:?} {is_sending}: {brief:?}");
    let long = lane.pause(survivor, Duration::from_secs(5), is_sending);
    let told = long.outcome.as_ref().expect_err("it was too long");
    let peer = long.peer.as_deref().unwrap_or_default();
    assert!(peer.contains("ended because"), "{survivor:?} {is_sending}: {long:?}");
    println!(
        "pause {survivor:?}, {}: {} after {:.1} s; the other end: {peer}",
        if is_sending { "sending" } else { "idle" },
        told.0.name(),
        told.1.as_secs_f64()
    );
}

/// An address of the loopback interface that nobody else has, for the victims of a lane.
fn place(lane: usize) -> SocketAddr {
    let [.., high, low] = std::os::unix::process::parent_id().to_be_bytes();
    let lane = u8::try_from(lane + 1).expect("not so many lanes");
    (Ipv4Addr::new(127, 64 | high & 63, low, lane), 64_064).into()
}
