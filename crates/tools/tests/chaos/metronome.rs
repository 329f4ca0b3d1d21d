//! Whether this machine runs on time: a thread that sleeps a little and notes how late it wakes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// From one beat to the next.
const BEAT: Duration = Duration::from_millis(5);
/// A beat that is later than this says that the machine stood still: less is nothing to the times of [`crate::times`].
const BOUND: Duration = Duration::from_millis(200);

/// It beats until it is dropped, and says on standard output at once how many milliseconds a beat was late by.
pub(crate) struct Metronome {
    is_over: Arc<AtomicBool>,
    beating: Option<JoinHandle<()>>,
}

impl Metronome {
    pub(crate) fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let beating = thread::spawn({
            let is_over = is_over.clone();
            move || beat(&is_over)
        });
        Self { is_over, beating: Some(beating) }
    }
}

fn beat(is_over: &AtomicBool) {
    let mut last = Instant::now();
    while !is_over.load(Ordering::SeqCst) {
        thread::sleep(BEAT);
        let late = last.elapsed().saturating_sub(BEAT);
        last = Instant::now();
        if late > BOUND {
            println!("late {}", late.as_millis());
        }
    }
}

impl Drop for Metronome {
    /// The beat that is due is still waited for: who failed as the machine stood still may wake before it.
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = self.beating.take().map(JoinHandle::join);
    }
}
