//! While a thread streams the service threads do not take the processor from it; when it is done they are as urgent as others (decision 0096).

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use common::Pair;
use weft_socket::Options;

/// For so long at most either is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// As of `sched(7)`.
const SCHED_OTHER: &str = "0";
const SCHED_BATCH: &str = "3";

/// The policies of the service threads of this process.
fn policies() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let services = tasks.filter_map(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let (name, rest) = stat.rsplit_once(')')?;
        // the 41st field, of which two are before the rest
        let policy = rest.split_whitespace().nth(38)?;
        name.ends_with("(weft-0").then(|| policy.to_owned())
    });
    services.collect()
}

/// Whether that is so of the policies before long.
fn come_to(is_so: impl Fn(&[String]) -> bool, mut meanwhile: impl FnMut()) -> bool {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        meanwhile();
        if is_so(&policies()) {
            return true;
        }
    }
    false
}

#[test]
fn a_service_thread_gives_way_to_who_streams() {
    let Pair { accepted, connected, .. } = &Pair::over_udp(&Options::stream());
    if policies().iter().any(|policy| policy != SCHED_OTHER) {
        eprintln!("SKIPPED: the threads of this process have a policy of their own, which stays");
        return;
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = vec![0; 256 << 10];
            while accepted.recv(&mut buffer).is_ok_and(|len| len > 0) {}
            accepted.close_start();
        });
        let bytes = vec![7; 128 << 10];
        let stream = || {
            let until = Instant::now() + Duration::from_millis(10);
            while Instant::now() < until {
                connected.send(&bytes).unwrap();
            }
        };
        let gives_way = come_to(|all| all.iter().any(|policy| policy == SCHED_BATCH), stream);
        assert!(gives_way, "{:?}", policies());
        let rest = || thread::sleep(Duration::from_millis(5));
        let is_over = come_to(|all| all.iter().all(|policy| policy == SCHED_OTHER), rest);
        assert!(is_over, "{:?}", policies());
        connected.close().unwrap();
    });
}
