//! Ctrl-C and SIGTERM.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit::Code;

/// How long the rest of the program has to end by itself after the farewell.
const GRACE: Duration = Duration::from_millis(500);

/// How long that may take, and how often it is looked at meanwhile.
const FAREWELL_MAX: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Held while the program takes its leave.
static FAREWELL: Mutex<()> = Mutex::new(());

/// Returns when nobody takes the program's leave, which whoever ends it is to wait for, but not for ever: somebody may not read the
/// last words.
pub fn await_farewell() {
    let begin = Instant::now();
    while matches!(FAREWELL.try_lock(), Err(TryLockError::WouldBlock)) && begin.elapsed() < FAREWELL_MAX {
        thread::sleep(LOOK_EVERY);
    }
}

/// Whether the user interrupted the program.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whether the user interrupted the program: then whatever fails only follows from it.
#[must_use]
pub fn was_interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Whether the program serves until it is told to end.
static SERVES: AtomicBool = AtomicBool::new(false);
/// Whether it was told so.
static TERMINATED: AtomicBool = AtomicBool::new(false);

/// The program is one that serves until it is told to end: SIGTERM, as a service manager sends it, is no failure.
pub fn serves() {
    SERVES.store(true, Ordering::SeqCst);
}

/// Whether the program has ended as it is meant to, by a SIGTERM.
#[must_use]
pub fn has_served() -> bool {
    SERVES.load(Ordering::SeqCst) && TERMINATED.load(Ordering::SeqCst)
}

/// Runs `farewell` when the user interrupts the program, and ends it with [`Code::Interrupted`], or well if it [`serves`] and got
/// a SIGTERM, unless it ends by itself soon after.
///
/// Where signals cannot be caught, the operating system's way of ending the program stays.
pub fn on_interrupt(farewell: impl FnOnce() + Send + 'static) {
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return };
    let waiter = thread::Builder::new().name("weft-signals".into()).spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let leave = FAREWELL.lock().unwrap_or_else(PoisonError::into_inner);
            TERMINATED.store(signal == SIGTERM, Ordering::SeqCst);
            INTERRUPTED.store(true, Ordering::SeqCst);
            farewell();
            drop(leave);
            thread::sleep(GRACE);
            let status = if has_served() { 0 } else { Code::Interrupted.number() };
            std::process::exit(status.into());
        }
    });
    drop(waiter);
}

/// The first interrupt from now on, to be waited for later; the second one ends the program at once. Asked for before the program
/// says that it works, as whoever hears that may interrupt it.
///
/// # Errors
/// When signals cannot be caught.
pub fn first() -> io::Result<mpsc::Receiver<()>> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let (first, is_first) = mpsc::channel();
    thread::Builder::new().name("weft-signals".into()).spawn(move || {
        for (count, _) in signals.forever().enumerate() {
            if count > 0 || first.send(()).is_err() {
                std::process::exit(i32::from(Code::Interrupted.number()));
            }
        }
    })?;
    Ok(is_first)
}

/// A flag that the first interrupt raises, for commands that sum up before they end; the second one ends the program.
#[must_use]
pub fn interrupted() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let raised = flag.clone();
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return flag };
    let waiter = thread::Builder::new().name("weft-signals".into()).spawn(move || {
        for _ in signals.forever() {
            if raised.swap(true, Ordering::SeqCst) {
                std::process::exit(i32::from(Code::Interrupted.number()));
            }
        }
    });
    drop(waiter);
    flag
}
