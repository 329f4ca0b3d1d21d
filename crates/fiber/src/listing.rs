//! Fibers with their names and states, on request; and the report when all of them wait for each other.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::block::Block;
use crate::frames::{self, Frame, NoFrames};
use crate::runtime::Shared;
use crate::why::Why;

/// Fibers whose frames are looked for: the workers stand still meanwhile.
const FRAMES_TOLD_MAX: usize = 1_000;

/// What a fiber does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// It runs.
    Running,
    /// It waits for its turn.
    Ready,
    /// It waits for something.
    Waiting(Why),
}

/// A fiber at the moment of the listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// Its number.
    pub id: u64,
    /// Its name; empty if it has none.
    pub name: String,
    /// What it does.
    pub state: State,
    /// The address of the object it waits for: fibers with the same one wait for the same.
    pub object: Option<usize>,
    /// Whether a deadline will end its wait.
    pub has_deadline: bool,
    /// The worker it runs on, once it has started.
    pub worker: Option<usize>,
    /// How many wait for its end.
    pub joiners: usize,
    /// For how long it has waited, by the clock of its worker, which is read every 256 switches and when the worker wakes.
    pub waited: Option<Duration>,
    /// The bytes of its stack in use when it was last left, where the switch keeps that (on x86-64).
    pub stack_used: Option<usize>,
    /// The lowest and the highest address of its stack.
    pub stack: (usize, usize),
    /// The calls on its stack, from the innermost 256 outwards, the first of them one of this library; or why they are not here.
    pub frames: Result<Vec<Frame>, NoFrames>,
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = self.stack;
        write!(f, "{:<24} ", title_of(self.id, &self.name))?;
        match self.state {
            State::Running => write!(f, "runs")?,
            State::Ready => write!(f, "is ready")?,
            State::Waiting(why) => write!(f, "waits for {}", why.words())?,
        }
        if let Some(object) = self.object.filter(|&object| object != 0) {
            write!(f, " at {object:#x}")?;
        }
        if let Some(waited) = self.waited {
            write!(f, ", for {waited:.1?}")?;
        }
        if let Some(worker) = self.worker {
            write!(f, ", worker {worker}")?;
        }
        if self.joiners > 0 {
            write!(f, ", {} joiners", self.joiners)?;
        }
        write!(f, ", stack {low:#x}..{high:#x}")?;
        if let Some(used) = self.stack_used {
            write!(f, ", {used} bytes used")?;
        }
        match &self.frames {
            Ok(frames) => show_frames(f, frames),
            // Those that run say so, and stand nowhere.
            Err(NoFrames::NotAsked | NoFrames::Running) => Ok(()),
            Err(why) => write!(f, "\n      no frames: {why}"),
        }
    }
}

/// The innermost calls, a line each, without those of the standard library.
fn show_frames(f: &mut fmt::Formatter<'_>, frames: &[Frame]) -> fmt::Result {
    /// Frames shown of a fiber; a listing is read by people.
    const SHOWN: usize = 8;
    let mut others = frames.iter().filter(|frame| !frame.is_of_std());
    for frame in others.by_ref().take(SHOWN) {
        write!(f, "\n      {frame}")?;
    }
    match others.count() {
        0 => Ok(()),
        more => write!(f, "\n      and {more} more"),
    }
}

/// All fibers of a runtime, waiting for each other: nobody but a thread from outside can wake one.
#[derive(Clone, Debug)]
pub struct Deadlock {
    fibers: Vec<Listed>,
}

impl Deadlock {
    /// The fibers.
    #[must_use]
    pub fn fibers(&self) -> &[Listed] {
        &self.fibers
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Fibers shown; a report is read by people.
        const SHOWN: usize = 50;
        writeln!(f, "deadlock: all {} fibers wait for each other", self.fibers.len())?;
        for fiber in self.fibers.iter().take(SHOWN) {
            writeln!(f, "  {fiber}")?;
        }
        match self.fibers.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => writeln!(f, "  and {more} more"),
        }
    }
}

/// How reports call a fiber: its name, else its number.
pub(crate) fn title(block: &Block) -> String {
    title_of(block.id.load(Ordering::Relaxed), &block.name.get())
}

fn title_of(id: u64, name: &str) -> String {
    let number = number(id);
    if name.is_empty() { number } else { format!("\"{name}\" ({number})") }
}

/// A fiber's number for people: the worker that spawned it, and a count.
pub(crate) fn number(id: u64) -> String {
    format!("{}.{}", id >> 48, id & ((1 << 48) - 1))
}

/// The fibers that live.
pub(crate) fn list(shared: &Shared) -> Vec<Listed> {
    fibers(shared).map(|(fiber, _)| fiber).collect()
}

/// The same, with their frames.
pub(crate) fn list_with_frames(shared: &Shared) -> Vec<Listed> {
    fibers_with_frames(shared).map(|(fiber, _)| fiber).collect()
}

/// The fibers that live, and their blocks. They go on meanwhile.
pub(crate) fn fibers(shared: &Shared) -> impl Iterator<Item = (Listed, &Block)> {
    blocks(shared).filter_map(|block| Some((listed(shared, block)?, block)))
}

/// The same, with the frames of the first 1,000.
pub(crate) fn fibers_with_frames(shared: &Shared) -> impl Iterator<Item = (Listed, &Block)> {
    let (looked_at, others) = shared.look_at_fibers(|present| {
        let mut blocks = blocks(shared);
        let living = blocks.by_ref().filter_map(|block| Some((listed(shared, block)?, block)));
        let looked_at: Vec<_> = living
            .take(FRAMES_TOLD_MAX)
            .map(|(fiber, block)| (fiber, block, shared.returns(block, present)))
            .collect();
        (looked_at, blocks)
    });
    let frames = frames::frames_of(looked_at.iter().map(|(.., returns)| returns.as_deref()));
    let looked_at = looked_at.into_iter().map(|(fiber, block, _)| (fiber, block));
    let told = looked_at.zip(frames).map(|((fiber, block), frames)| (Listed { frames, ..fiber }, block));
    told.chain(others.filter_map(|block| {
        Some((Listed { frames: Err(NoFrames::Beyond), ..listed(shared, block)? }, block))
    }))
}

/// The blocks that have a fiber at the moment of the call.
fn blocks(shared: &Shared) -> impl Iterator<Item = &Block> + use<'_> {
    let mut blocks = Vec::new();
    shared.pool.for_each(|block| {
        if block.id.load(Ordering::Relaxed) != 0 && !block.latch.is_open() {
            blocks.push(block);
        }
    });
    blocks.into_iter()
}

/// The fiber of this block, unless it has ended.
fn listed(shared: &Shared, block: &Block) -> Option<Listed> {
    let id = block.id.load(Ordering::Relaxed);
    if id == 0 || block.latch.is_open() {
        return None;
    }
    let waits_for = block.waits_for();
    let home = block.home.load(Ordering::Relaxed);
    let worker = shared.workers.iter().find(|worker| std::ptr::eq(*worker, home));
    let runs = worker.is_some_and(|worker| std::ptr::eq(worker.running.load(Ordering::Relaxed), block));
    let state = match waits_for {
        Some((why, ..)) => State::Waiting(why),
        None if runs => State::Running,
        None => State::Ready,
    };
    Some(Listed {
        id,
        name: block.name.get(),
        state,
        object: waits_for.map(|(_, object, _)| object),
        has_deadline: waits_for.is_some_and(|(.., has_deadline)| has_deadline),
        worker: worker.map(|worker| worker.index),
        joiners: block.latch.joiners(),
        waited: waits_for.map(|_| shared.clock().saturating_sub(block.waits_since())),
        stack_used: block.stack_used(),
        stack: block.region.bounds(),
        frames: Err(NoFrames::NotAsked),
    })
}

/// The fibers that live, if all of them wait for objects that only fibers give. Their frames are looked for if it seems so.
pub(crate) fn deadlock(shared: &Shared) -> Option<Deadlock> {
    let is_stuck =
        |fiber: &Listed| matches!(fiber.state, State::Waiting(why) if why.is_owned()) && !fiber.has_deadline;
    let are_stuck = |fibers: &[Listed]| !fibers.is_empty() && fibers.iter().all(is_stuck);
    if !are_stuck(&list(shared)) {
        return None;
    }
    let fibers = list_with_frames(shared);
    are_stuck(&fibers).then_some(Deadlock { fibers })
}

impl Shared {
    /// Called by a worker that has found nothing for a while: reports a deadlock, once for each set of fibers.
    pub(crate) fn report_deadlock(&self) {
        let spawned = self.spawned();
        if self.reported.load(Ordering::Relaxed) != spawned
            && let Some(deadlock) = deadlock(self)
            && self.reported.swap(spawned, Ordering::Relaxed) != spawned
        {
            // A panic of the report has been reported itself; it must not end the worker.
            let _ = catch_unwind(AssertUnwindSafe(|| (self.on_deadlock)(&deadlock)));
        }
    }

    /// Prints the listing if a signal has asked for it.
    pub(crate) fn check_signal(&self) {
        if WANTED.load(Ordering::Relaxed) && WANTED.swap(false, Ordering::Relaxed) {
            list_with_frames(self).iter().for_each(|fiber| eprintln!("{fiber}"));
        }
    }
}

static WANTED: AtomicBool = AtomicBool::new(false);

extern "C" fn want(_signal: std::ffi::c_int) {
    WANTED.store(true, Ordering::Relaxed);
}

/// Has the process print its fibers to the standard error when it gets `signal`, such as `SIGUSR1`.
///
/// The listing is of the first runtime that looks, within about 200 ms, or when its fibers next switch.
///
/// # Errors
///
/// What the system says, if the signal cannot be handled.
pub fn list_on_signal(signal: std::ffi::c_int) -> std::io::Result<()> {
    let handler = want as extern "C" fn(std::ffi::c_int);
    // SAFETY: all zeros is a right value of this structure of numbers.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    // On a stack of its own where the thread has one: that of a fiber may be too small for the kernel's frame.
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the structure is right, and the handler only stores a flag.
    let failed = unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
    if failed == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
