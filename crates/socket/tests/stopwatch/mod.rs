//! Time that a busy machine gave: what it stood still is taken from what the clock says.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// From one beat to the next.
const BEAT: Duration = Duration::from_millis(5);
/// What a beat of a machine that runs may take more.
const JITTER: Duration = Duration::from_millis(1);
/// A beat that is later than this says that the machine did not run on time.
const LATE: Duration = Duration::from_millis(50);
/// How often a round is played again in which the machine did not run on time.
const ROUNDS: usize = 20;

/// Runs from its start; a thread beats beside it and notes how late it wakes.
pub(crate) struct Stopwatch {
    beats: Arc<Beats>,
    beating: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Beats {
    count: AtomicU64,
    /// Time up to the last of them, without what any of them was late.
    ran_ns: AtomicU64,
    /// By how much the latest was late.
    latest_ns: AtomicU64,
    is_over: AtomicBool,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        let beats = Arc::new(Beats::default());
        let beating = thread::spawn({
            let (beats, begin) = (beats.clone(), Instant::now());
            move || beats.run(begin)
        });
        Self { beats, beating: Some(beating) }
    }

    /// Time from the start to the next beat in which the machine ran.
    pub(crate) fn ran(&self) -> Duration {
        self.await_beat();
        Duration::from_nanos(self.beats.ran_ns.load(Ordering::SeqCst))
    }

    /// Sleeps until the machine has run for so long from now on.
    pub(crate) fn run_for(&self, time: Duration) {
        let until = self.ran() + time;
        while let rest = until.saturating_sub(self.ran())
            && !rest.is_zero()
        {
            thread::sleep(rest);
        }
    }

    /// Whether the machine has not stood still so far.
    pub(crate) fn is_on_time(&self) -> bool {
        self.await_beat();
        Duration::from_nanos(self.beats.latest_ns.load(Ordering::SeqCst)) < LATE
    }

    /// A beat that is due tells of the standstill that has just ended.
    fn await_beat(&self) {
        let count = self.beats.count.load(Ordering::SeqCst);
        while self.beats.count.load(Ordering::SeqCst) == count {
            thread::sleep(BEAT / 5);
        }
    }
}

impl Beats {
    fn run(&self, begin: Instant) {
        let mut last = begin;
        while !self.is_over.load(Ordering::SeqCst) {
            thread::sleep(BEAT);
            let now = Instant::now();
            let beat = now - std::mem::replace(&mut last, now);
            let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            self.ran_ns.fetch_add(ns(beat.min(BEAT + JITTER)), Ordering::SeqCst);
            self.latest_ns.fetch_max(ns(beat.saturating_sub(BEAT)), Ordering::SeqCst);
            self.count.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        self.beats.is_over.store(true, Ordering::SeqCst);
        let _ = self.beating.take().map(JoinHandle::join);
    }
}

/// Plays rounds until one is right. A wrong one fails the test, unless the machine stood still in it.
pub(crate) fn judge(mut round: impl FnMut() -> Result<(), String>) {
    for _ in 0..ROUNDS {
        let watch = Stopwatch::start();
        let Err(what) = round() else { return };
        assert!(!watch.is_on_time(), "{what}");
        eprintln!("AGAIN, as the machine stood still: {what}");
    }
    // Past what keeps the words of tests that pass.
    let _ = writeln!(io::stderr(), "NOT JUDGED: in {ROUNDS} rounds the machine never ran on time");
}
