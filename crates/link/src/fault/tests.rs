//! Determinism and statistics of every fault, in virtual time over the loopback hub.

#[allow(dead_code, reason = "the tests of sockets use the rest")]
#[path = "../../../socket/tests/stopwatch/mod.rs"]
mod stopwatch;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use stopwatch::Stopwatch;

use super::*;
use crate::{Endpoint, Hub, Interest, Udp, wait, wait_for};

const PACKETS: usize = 20_000;

/// A disturbed sender, a plain receiver, and the time.
struct Bench {
    bad: Fault<Endpoint>,
    plain: Endpoint,
    now_ns: Arc<AtomicU64>,
}

impl Bench {
    fn new(seed: u64, send: &str, receive: &str) -> Self {
        let hub = Hub::new(1500);
        let (a, plain) = (hub.endpoint().unwrap(), hub.endpoint().unwrap());
        let now_ns = Arc::new(AtomicU64::new(0));
        let told = Arc::clone(&now_ns);
        let clock = move || Instant::from_nanos(told.load(Ordering::Relaxed));
        let (send, receive) = (send.parse().unwrap(), receive.parse().unwrap());
        Self { bad: Fault::with_clock(a, seed, send, receive, clock).unwrap(), plain, now_ns }
    }

    fn pass(&self, time: Duration) {
        self.now_ns.fetch_add(u64::try_from(time.as_nanos()).unwrap(), Ordering::Relaxed);
    }

    /// Sends `PACKETS` numbered packets through the disturbed side in batches, and returns what arrives.
    fn run(&self) -> Vec<Vec<u8>> {
        let mut arrived = Vec::new();
        for first in (0..PACKETS).step_by(50) {
            let mut batch = SendBatch::new();
            (first..first + 50).for_each(|n| batch.push_slice(self.plain.info().local, &packet(n)));
            self.bad.send(&mut batch).unwrap();
            assert!(batch.is_empty());
            self.pass(Duration::from_micros(10));
            collect(&self.plain, &mut arrived);
        }
        self.pass(Duration::from_secs(1));
        self.bad.recv(&mut RecvBatch::new()).unwrap();
        collect(&self.plain, &mut arrived);
        arrived
    }
}

fn packet(number: usize) -> Vec<u8> {
    let mut bytes = vec![0x55; 60 + number % 400];
    bytes[..8].copy_from_slice(&(number as u64).to_le_bytes());
    bytes
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

fn collect(link: &impl Link, into: &mut Vec<Vec<u8>>) {
    let mut batch = RecvBatch::new();
    while link.recv(&mut batch).unwrap() > 0 {
        into.extend(batch.drain().map(|packet| packet.bytes.to_vec()));
    }
}

/// Four standard deviations around what a probability leads to expect of `PACKETS`.
#[allow(clippy::cast_precision_loss)]
fn assert_rate(count: u64, probability: f64) {
    let (mean, n) = (probability * PACKETS as f64, PACKETS as f64);
    let spread = 4.0 * (n * probability * (1.0 - probability)).sqrt();
    assert!((count as f64 - mean).abs() <= spread, "{count}, expected {mean} ± {spread}");
}

#[test]
fn without_faults_every_packet_passes_unchanged_and_in_order() {
    let bench = Bench::new(1, "", "");
    let expected: Vec<_> = (0..PACKETS).map(packet).collect();
    assert!(bench.run() == expected);
    assert_eq!(bench.bad.counts().0, FaultCounts { packets: PACKETS as u64, ..FaultCounts::default() });
}

#[test]
fn the_same_seed_gives_the_same_outcome_and_another_seed_another() {
    let faults =
        "loss=5%,burst=1%/20%,duplicate=3%,reorder=5%/7,delay=20us,jitter=100us,corrupt=2%,truncate=2%";
    let outcome = |seed| Bench::new(seed, faults, "").run();
    let first = outcome(7);
    assert!(first == outcome(7));
    assert!(first != outcome(8));
}

#[test]
fn losses_come_as_often_as_asked_for() {
    let bench = Bench::new(2, "loss=5%", "");
    let arrived = bench.run();
    let lost = bench.bad.counts().0.lost;
    assert_rate(lost, 0.05);
    assert_eq!(arrived.len() as u64 + lost, PACKETS as u64);
}

#[test]
fn bursts_have_the_length_that_the_model_gives_them() {
    let bench = Bench::new(3, "burst=1%/10%", "");
    let mut bursts = 0;
    let mut before = 0;
    for packet in bench.run() {
        bursts += u64::from(number(&packet) > before + 1);
        before = number(&packet);
    }
    let lost = bench.bad.counts().0.lost_in_bursts;
    let mean = lost / bursts;
    assert!((8..=12).contains(&mean), "{lost} packets lost in {bursts} bursts");
}

#[test]
fn duplicates_are_whole_copies() {
    let bench = Bench::new(4, "duplicate=5%", "");
    let arrived = bench.run();
    let doubled = bench.bad.counts().0.duplicated;
    assert_rate(doubled, 0.05);
    assert_eq!(arrived.len() as u64, PACKETS as u64 + doubled);
    let mut unique = arrived;
    unique.dedup();
    assert_eq!(unique.len(), PACKETS);
}

#[test]
fn reordered_packets_are_overtaken_by_no_more_than_the_displacement() {
    for faults in ["reorder=5%/6", "reorder=5%/6,delay=100us"] {
        let bench = Bench::new(5, faults, "");
        let numbers: Vec<u64> = bench.run().iter().map(|packet| number(packet)).collect();
        assert_eq!(numbers.len(), PACKETS);
        assert_rate(bench.bad.counts().0.reordered, 0.05);
        let late = numbers.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!(late > 500, "only {late} packets out of order with {faults}");
        for (place, &number) in numbers.iter().enumerate() {
            assert!(
                (place as u64).abs_diff(number) <= 6,
                "packet {number} came at place {place} with {faults}"
            );
        }
    }
}

#[test]
fn a_packet_that_nobody_overtakes_comes_in_the_end() {
    let bench = Bench::new(6, "reorder=100%/9", "");
    let mut batch = SendBatch::new();
    batch.push_slice(bench.plain.info().local, b"alone");
    bench.bad.send(&mut batch).unwrap();
    let mut arrived = Vec::new();
    collect(&bench.plain, &mut arrived);
    assert!(arrived.is_empty());
    bench.pass(bench.bad.next_due().unwrap());
    bench.bad.recv(&mut RecvBatch::new()).unwrap();
    collect(&bench.plain, &mut arrived);
    assert_eq!(arrived, [b"alone"]);
    assert_eq!(bench.bad.next_due(), None);
}

#[test]
fn corrupted_packets_differ_in_at_most_eight_bits_and_truncated_ones_are_a_beginning() {
    let bench = Bench::new(7, "corrupt=5%", "");
    let arrived = bench.run();
    let mut changed = 0;
    for (n, bytes) in arrived.iter().enumerate() {
        let flips: u32 = bytes.iter().zip(packet(n)).map(|(got, sent)| (got ^ sent).count_ones()).sum();
        assert!(flips <= 8);
        changed += u64::from(flips > 0);
    }
    let corrupted = bench.bad.counts().0.corrupted;
    assert_rate(corrupted, 0.05);
    assert!(corrupted - changed < 10, "bits inverted twice are rare: {corrupted} against {changed}");

    let bench = Bench::new(8, "truncate=5%", "");
    let arrived = bench.run();
    let short = arrived.iter().enumerate().filter(|&(n, bytes)| bytes.len() < packet(n).len()).count();
    assert!(arrived.iter().enumerate().all(|(n, bytes)| packet(n).starts_with(bytes)));
    assert_eq!(short as u64, bench.bad.counts().0.truncated);
    assert_rate(short as u64, 0.05);
}

#[test]
fn delayed_packets_come_at_their_time_and_keep_their_order_without_jitter() {
    let bench = Bench::new(9, "delay=10ms", "");
    let mut batch = SendBatch::new();
    (0..3).for_each(|n| batch.push_slice(bench.plain.info().local, &packet(n)));
    bench.bad.send(&mut batch).unwrap();
    assert_eq!(bench.bad.next_due(), Some(Duration::from_millis(10)));
    bench.pass(Duration::from_nanos(9_999_999));
    bench.bad.recv(&mut RecvBatch::new()).unwrap();
    let mut arrived = Vec::new();
    collect(&bench.plain, &mut arrived);
    assert!(arrived.is_empty());
    bench.pass(Duration::from_nanos(1));
    bench.bad.send(&mut SendBatch::new()).unwrap();
    collect(&bench.plain, &mut arrived);
    assert_eq!(arrived, [packet(0), packet(1), packet(2)]);
}

#[test]
fn the_directions_are_independent() {
    let bench = Bench::new(10, "", "loss=100%");
    let mut batch = SendBatch::new();
    (0..300).for_each(|n| batch.push_slice(bench.bad.info().local, &packet(n)));
    bench.plain.send(&mut batch).unwrap();
    let mut packets = RecvBatch::new();
    assert_eq!(bench.bad.recv(&mut packets).unwrap(), 0);
    assert_eq!(bench.bad.counts().1.lost, 300);
    bench.bad.set(Faults::BLACK_HOLE, Faults::NONE);
    batch.push_slice(bench.bad.info().local, &packet(1));
    bench.plain.send(&mut batch).unwrap();
    assert_eq!(bench.bad.recv(&mut packets).unwrap(), 1);
}

#[test]
fn the_descriptor_wakes_when_a_delayed_packet_is_due() {
    let hub = Hub::new(1500);
    let (a, b) = (hub.endpoint().unwrap(), hub.endpoint().unwrap());
    let bad = Fault::new(a, 11, Faults::NONE, "delay=20ms".parse().unwrap()).unwrap();
    let mut batch = SendBatch::new();
    batch.push_slice(bad.info().local, b"late");
    b.send(&mut batch).unwrap();
    let started = std::time::Instant::now();
    let mut packets = RecvBatch::new();
    assert_eq!(wait(&bad.poll_fds(), Some(Duration::from_secs(60))).unwrap(), 1);
    assert_eq!(bad.recv(&mut packets).unwrap(), 0);
    while packets.is_empty() {
        assert_eq!(wait(&bad.poll_fds(), Some(Duration::from_secs(60))).unwrap(), 1);
        bad.recv(&mut packets).unwrap();
    }
    assert!(started.elapsed() >= Duration::from_millis(20));
    assert_eq!(wait(&bad.poll_fds(), Some(Duration::from_millis(5))).unwrap(), 0);
}

/// Its own descriptor tells when something is to be received, and never that there is room to send.
#[test]
fn whether_there_is_room_to_send_is_the_devices_to_say() {
    let plain = Udp::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let bad = Fault::new(plain, 1, Faults::NONE, Faults::NONE).unwrap();
    let mut room = [Interest::writable(bad.send_fd().unwrap())];
    assert_eq!(wait_for(&mut room, Some(Duration::from_secs(60))).unwrap(), 1);
}

#[test]
fn packets_under_way_outlive_the_link_they_left_by() {
    let hub = Hub::new(1500);
    let (a, b) = (hub.endpoint().unwrap(), hub.endpoint().unwrap());
    let bad = Fault::new(a, 13, "delay=20ms,jitter=5ms".parse().unwrap(), Faults::NONE).unwrap();
    let mut batch = SendBatch::new();
    (0..3).for_each(|n| batch.push_slice(b.info().local, &packet(n)));
    let (started, watch) = (std::time::Instant::now(), Stopwatch::start());
    bad.send(&mut batch).unwrap();
    drop(bad);
    assert!(started.elapsed() >= Duration::from_millis(20), "{:?}", started.elapsed());
    assert!(watch.ran() < Duration::from_secs(2), "{:?}", watch.ran());
    let mut arrived = Vec::new();
    collect(&b, &mut arrived);
    assert_eq!(arrived.len(), 3);

    let hub = Hub::new(1500);
    let bad = Fault::new(hub.endpoint().unwrap(), 14, "delay=1000s".parse().unwrap(), Faults::NONE).unwrap();
    batch.push_slice(bad.info().local, b"too late for anybody");
    bad.send(&mut batch).unwrap();
    let watch = Stopwatch::start();
    drop(bad);
    assert!(watch.ran() < Duration::from_secs(1), "nothing leaves soon, so nothing is waited for");
}

/// Two threads at once: one sets a late alarm and is held up just before it reaches the kernel, and the other sets an
/// early one meanwhile.
#[test]
fn an_early_alarm_is_not_lost_to_a_late_one() {
    let hub = Hub::new(1500);
    let (a, b) = (hub.endpoint().unwrap(), hub.endpoint().unwrap());
    let (held_up, go) = mpsc::channel();
    let (done, other_is_done) = mpsc::channel();
    // The clock is read when a packet is sent, and again when the alarm is set: that is where the first thread is held up.
    let script = Mutex::new((0, held_up, other_is_done));
    let origin = std::time::Instant::now();
    let clock = move || {
        if thread::current().name() == Some("late") {
            let mut script = lock(&script);
            script.0 += 1;
            if script.0 == 2 {
                script.1.send(()).unwrap();
                // The other thread may have to wait for this one.
                let _ = script.2.recv_timeout(Duration::from_millis(100));
            }
        }
        Instant::from_nanos(u64::try_from(origin.elapsed().as_nanos()).unwrap())
    };
    let bad = Fault::with_clock(a, 12, "delay=1000s".parse().unwrap(), Faults::NONE, clock).unwrap();
    let send = || {
        let mut batch = SendBatch::new();
        batch.push_slice(b.info().local, b"a packet");
        bad.send(&mut batch).unwrap();
    };
    thread::scope(|scope| {
        thread::Builder::new().name("late".to_owned()).spawn_scoped(scope, send).unwrap();
        go.recv().unwrap();
        bad.set("delay=1ms".parse().unwrap(), Faults::NONE);
        send();
        done.send(()).unwrap();
    });
    assert_eq!(wait(&bad.poll_fds(), Some(Duration::from_secs(60))).unwrap(), 1);
}
