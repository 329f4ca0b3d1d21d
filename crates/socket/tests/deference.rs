//! While a thread streams the service threads do not take the processor from it; when it is done they are as urgent as others (decision 0096).

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread};

use common::{Pair, wait_until};
use weft_socket::Options;

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

#[test]
fn a_service_thread_gives_way_to_who_streams() {
    let Pair { accepted, connected, .. } = &Pair::over_udp(&Options::stream());
    if policies().iter().any(|policy| policy != SCHED_OTHER) {
        eprintln!("SKIPPED: the threads of this process have a policy of their own, which stays");
        return;
    }
    let is_over = &AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = vec![0; 256 << 10];
            while accepted.recv(&mut buffer).is_ok_and(|len| len > 0) {}
            accepted.close_start();
        });
        let sender = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                connected.send(&[7; 128 << 10]).unwrap();
            }
        });
        let has_given_way = (0..10_000).any(|_| {
            thread::sleep(Duration::from_millis(1));
            policies().iter().any(|policy| policy == SCHED_BATCH)
        });
        is_over.store(true, Ordering::Relaxed);
        sender.join().unwrap();
        assert!(has_given_way, "{:?}", policies());
        wait_until("all are as urgent as before", || policies().iter().all(|policy| policy == SCHED_OTHER));
        connected.close().unwrap();
    });
}
