//! Time that a busy machine gave: what it stood still is taken from what the clock says.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// From one beat to the next.
const BEAT: Duration = Duration::from_millis(5);
/// A beat that is later than this says that the machine did not run on time.
const LATE: Duration = Duration::from_millis(50);
/// How often a round is played again in which the machine did not run on time.
const ROUNDS: usize = 20;

/// Runs from its start; a thread beats beside it and notes how late it wakes.
pub(crate) struct Stopwatch {
    began_at: Instant,
    beats: Arc<Beats>,
    beating: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Beats {
    count: AtomicU64,
    /// By how much all of them together were late, and the latest of them.
    late_ns: AtomicU64,
    latest_ns: AtomicU64,
    is_over: AtomicBool,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        let beats = Arc::new(Beats::default());
        let beating = thread::spawn({
            let beats = beats.clone();
            move || beats.run()
        });
        Self { began_at: Instant::now(), beats, beating: Some(beating) }
    }

    /// Time since the start in which the machine ran.
    pub(crate) fn ran(&self) -> Duration {
        let elapsed = self.began_at.elapsed();
        self.await_beat();
        elapsed.saturating_sub(Duration::from_nanos(self.beats.late_ns.load(Ordering::SeqCst)))
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
    fn run(&self) {
        let mut last = Instant::now();
        while !self.is_over.load(Ordering::SeqCst) {
            thread::sleep(BEAT);
            let late = last.elapsed().saturating_sub(BEAT);
            last = Instant::now();
            let late = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
            self.late_ns.fetch_add(late, Ordering::SeqCst);
            self.latest_ns.fetch_max(late, Ordering::SeqCst);
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
    eprintln!("NOT JUDGED: in {ROUNDS} rounds the machine never ran on time");
}
