//! Processes are killed and stopped, in every state of a connection, and their peers are watched: when they learn of it,
//! what they are told, and what it leaves behind. `cargo test -p weft-tools --test chaos -- --kills 1000`
//!
//! Some processes survive, the lanes, and each kills its peers one after another: this program again, as a server or
//! client over UDP on the loopback interface. What goes wrong while the machine stands still is tried again, and said.

mod case;
mod census;
mod crossing;
mod director;
mod expected;
mod io_nodes;
mod lane;
mod life;
mod metronome;
mod operation;
mod pattern;
mod pause;
mod real_times;
mod report;
mod times;
mod traffic;
mod turn;
mod victim;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use weft_socket::Service;

use case::{After, Case, Killed, State, Survivor};
use census::Census;
use crossing::{Both, Crossing};
use lane::Lane;
use metronome::Metronome;
use operation::expect_nothing_left;
use times::Times;
use turn::{Share, Turn};

/// Kills after which a lane has taken all the memory it needs.
const WARM_UP: usize = 10;
/// Kills unless it is said how many: about a third of all cases.
const KILLS: usize = 72;
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("victim") => life::run(&words[1..]),
        Some("lane") => run_lane(&words[1..]),
        Some("--real-times") => real_times::run(),
        Some("--list") => println!("chaos: test"),
        _ if is_about_another_test(&words) => {}
        _ => director::direct(kills(&words)),
    }
}

/// Whether the words name tests, and none of them is this.
fn is_about_another_test(words: &[String]) -> bool {
    let mut names =
        words.iter().filter(|word| !word.starts_with('-') && word.parse::<usize>().is_err()).peekable();
    names.peek().is_some() && !names.any(|name| "chaos".contains(name.as_str()))
}

/// How many kills are asked for.
fn kills(words: &[String]) -> usize {
    let number = words.iter().position(|word| word == "--kills").and_then(|at| words.get(at + 1));
    number.map_or(KILLS, |word| word.parse().expect("--kills takes a number"))
}

/// Takes the turns of a lane from one of them on, and ends by a panic at the first that goes wrong.
fn run_lane(words: &[String]) {
    victim::die_with_parent();
    let _metronome = Metronome::start();
    let numbers: Vec<usize> = words.iter().map(|word| word.parse().expect("a number")).collect();
    let [own, lanes, kills, begin] = numbers[..] else { panic!("{words:?}") };
    let share = Share { lane: own, lanes, kills };
    let lane = Lane::new(place(own));
    let mut crossing = Crossing::new(own);
    let mut first = None;
    let turns: Vec<_> = share.turns().into_iter().skip(begin).collect();
    // A lane with few turns, or one that goes on where another ended, looks after half of them.
    let warm_up = WARM_UP.min(turns.len() / 2);
    for (count, turn) in turns.into_iter().enumerate() {
        if count == warm_up {
            first = Some(Census::take());
        }
        let line = match turn {
            Turn::Kill { index, case, service } => {
                format!("kill {index} {}", kill(&lane, &mut crossing, case, service))
            }
            Turn::Pause => format!("pause {}", pause(&lane, own)),
        };
        assert_eq!(census::children(), crossing.io_nodes.processes(), "{turn}: processes");
        println!("{line}");
    }
    println!("done");
    if let Some(first) = first {
        // A link of each node.
        let growth = Census::take().growth_since(first, 2);
        println!("growth {}", growth.unwrap_or_else(|why| panic!("left behind: {why}")));
    }
    println!("io-growth {}", crossing.io_nodes.growth_kib);
    crossing.io_nodes.end();
}

/// Kills once, compares what it came to with what it should, and says it: microseconds, and what this end was told.
fn kill(lane: &Lane, crossing: &mut Crossing, case: Case, service: Service) -> String {
    let kill = if case.killed == Killed::Peer {
        lane.kill(case, case.times(), service)
    } else {
        let Both { kill, peer } = crossing.kill(case, case.times(), service);
        let expected = case.expected_of_peer().filter(|_| !case.goes_on());
        if let (Some(expected), Some((line, after))) = (expected, peer) {
            let how = line.splitn(3, ' ').last().unwrap_or_default();
            let is_right = expected.holds_in_words(how, after);
            assert!(is_right, "{case} {service:?}: the other end said \"{line}\" after {after:?}");
        }
        kill
    };
    let is_right = case.expected().holds(kill.reason, kill.informed);
    assert!(is_right, "{case} {service:?}: told {:?} after {:?}", kill.reason, kill.informed);
    let told = kill.reason.map_or(if case.goes_on() { "goes on" } else { "-" }, |reason| reason.name());
    format!("{} {told}", kill.informed.as_micros())
}

/// [CDP-TMR-2] A peer that is stopped for less than the give-up or the expiry loses nothing, and one that is stopped for
/// longer finds, when it goes on, a clean error, as this end does.
fn pause(lane: &Lane, own: usize) -> String {
    let survivor = if own.is_multiple_of(2) { Survivor::Client } else { Survivor::Server };
    let is_sending = own < 2;
    let case = Case { state: State::Idle, killed: Killed::Peer, survivor, after: After::Restart };
    let pause = |pause| {
        let result = lane.pause(survivor, Times::Short, pause, is_sending);
        expect_nothing_left(&lane.node, case);
        result
    };
    let short = if is_sending { Duration::from_millis(1_000) } else { Duration::from_millis(1_500) };
    let brief = pause(short);
    assert!(brief.outcome.is_ok(), "{survivor:?} {short:?} {is_sending}: {brief:?}");
    let long = pause(Duration::from_secs(5));
    let told = long.outcome.as_ref().expect_err("it was too long");
    let peer = long.peer.as_deref().unwrap_or_default();
    let is_told = ["idle", "gave up", "unknown"].iter().any(|reason| peer.ends_with(reason));
    assert!(is_told, "{survivor:?} {is_sending}: {long:?}");
    format!(
        "{survivor:?}, {}: {} after {:.1} s; the other end: {peer}",
        if is_sending { "sending" } else { "idle" },
        told.0.name(),
        told.1.as_secs_f64()
    )
}

/// An address of the loopback interface that nobody else has, for the victims of a lane.
fn place(lane: usize) -> SocketAddr {
    let [.., high, low] = std::os::unix::process::parent_id().to_be_bytes();
    let lane = u8::try_from(lane + 1).expect("not so many lanes");
    (Ipv4Addr::new(127, 64 | high & 63, low, lane), 64_064).into()
}
