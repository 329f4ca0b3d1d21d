//! The frames of fibers that have left their stacks: who may be looked at, and what the places in them are called.
//!
//! The workers stand still for the look (see [`rendezvous`](crate::rendezvous)), which only writes down where the calls on
//! each stack return to. What the functions are called is looked up when they run again.

use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::block::Block;
use crate::rendezvous::Present;
use crate::runtime::Shared;
use crate::wait::{is_parked, left};
use crate::worker::{self, Worker};

/// Frames of one fiber at most; a deeper one has its innermost.
const FRAMES_MAX: usize = 256;
/// How long a worker is waited for that does not come to the end of a fiber's turn.
const PATIENCE: Duration = Duration::from_secs(1);
/// How functions of this library are called, and the file of this one: without full tables functions have no path.
const OWN: (&str, &str) = ("weft_fiber::", file!());

/// A call on a fiber's stack, at the place where it goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame {
    /// The function, if the program's tables name it; without its path if these are of lines only.
    pub function: Option<String>,
    /// The file and the line, if the program was built with them.
    pub place: Option<(String, u32)>,
    /// The address of the instruction.
    pub address: usize,
}

impl Frame {
    /// Whether it is a function of the standard library, which was built elsewhere.
    pub(crate) fn is_of_std(&self) -> bool {
        self.place.as_ref().is_some_and(|(file, _)| file.starts_with("/rustc/"))
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.function {
            Some(function) => f.write_str(function)?,
            None => write!(f, "{:#x}", self.address)?,
        }
        self.place.as_ref().map_or(Ok(()), |(file, line)| write!(f, " at {file}:{line}"))
    }
}

/// Why a listing has no frames of a fiber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoFrames {
    /// They were not asked for.
    NotAsked,
    /// It has not started, or it is one that roams and does not wait.
    NotStarted,
    /// It runs, or was about to.
    Running,
    /// This worker was busy in a fiber for a whole second: one that may run it, or any if it is ready.
    Busy {
        /// The worker, counted from 0.
        worker: usize,
    },
    /// There are 1,000 fibers before it.
    Beyond,
    /// The switch of this processor, or that for AddressSanitizer, does not say where a stack was left.
    Unknown,
}

impl fmt::Display for NoFrames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked => f.write_str("not asked for"),
            Self::NotStarted => f.write_str("it has not started, or roams and does not wait"),
            Self::Running => f.write_str("it runs, or was about to"),
            Self::Busy { worker } => write!(f, "worker {worker} was busy in a fiber for a second"),
            Self::Beyond => f.write_str("frames are shown of the first 1,000 fibers"),
            Self::Unknown => f.write_str("the switch of stacks that is used here does not know them"),
        }
    }
}

/// Where the calls on a stack return to, innermost first.
pub(crate) type Returns = Vec<usize>;

impl Shared {
    /// Has `look` look at the fibers while as many workers as can stand still.
    pub(crate) fn look_at_fibers<R>(&self, look: impl FnOnce(&Present<'_>) -> R) -> R {
        let here = worker::current().filter(|here| ptr::eq(here.shared(), self)).map(|here| here.index);
        let until = Instant::now() + PATIENCE;
        let ring = || {
            self.workers.iter().for_each(|worker| {
                worker.ring();
            });
        };
        self.rendezvous.call(here, ring, || left(until), look)
    }

    /// Where the calls of a fiber return to.
    pub(crate) fn returns(&self, block: &Block, present: &Present<'_>) -> Result<Returns, NoFrames> {
        self.check_left(block, present)?;
        let mut returns = Vec::with_capacity(FRAMES_MAX);
        // SAFETY: the fiber has left its stack, and those who may resume it have come.
        unsafe { block.context.walk(block.region, &mut returns) }?;
        returns.shrink_to_fit();
        Ok(returns)
    }

    /// Whether `block` has left its stack, and nobody resumes it during the look.
    ///
    /// If all workers have come nobody resumes anything. But a fiber that has called them is still on its stack, and so are
    /// those that run it for their join: these say that they wait, and are not parked.
    fn check_left(&self, block: &Block, present: &Present<'_>) -> Result<(), NoFrames> {
        if let Some(absent) = present.absent() {
            return self.check_parked_at_home(block, present, absent);
        }
        if is_parked(block.node.word()) {
            return Ok(());
        }
        let home = self.home_of(block).filter(|_| block.is_settled.load(Ordering::Acquire));
        let running = home.ok_or(NoFrames::NotStarted)?.running.load(Ordering::Relaxed);
        let may_be_there = ptr::eq(running, block) || block.waits_for().is_some();
        if !running.is_null() && may_be_there { Err(NoFrames::Running) } else { Ok(()) }
    }

    /// The same if only some have come: the fiber must be parked at one of them.
    ///
    /// Races: the block may become another fiber's meanwhile. Its home is asked for before it is known to have come, to know whom to
    /// ask. If the fiber is parked after that, it is at its home, where it stays; or it is a later one, that was parked by
    /// another worker, which had written before that it is its home.
    fn check_parked_at_home(
        &self,
        block: &Block,
        present: &Present<'_>,
        absent: usize,
    ) -> Result<(), NoFrames> {
        let home = self.home_of(block).map(|home| home.index);
        let has_come = home.is_some_and(|home| present.has(home));
        let is_parked = is_parked(block.node.word());
        if !is_parked && !block.is_settled.load(Ordering::Acquire) {
            return Err(NoFrames::NotStarted);
        }
        let is_there = is_parked && has_come && block.is_settled.load(Ordering::Acquire);
        if is_there && self.home_of(block).map(|home| home.index) == home {
            return Ok(());
        }
        Err(NoFrames::Busy { worker: home.filter(|_| !has_come).unwrap_or(absent) })
    }

    fn home_of(&self, block: &Block) -> Option<&Worker> {
        let home = block.home.load(Ordering::Acquire);
        self.workers.iter().find(|worker| ptr::eq(*worker, home))
    }
}

/// The frames behind addresses, each looked up once.
#[derive(Default)]
pub(crate) struct Symbols(HashMap<usize, Vec<Frame>>);

impl Symbols {
    /// The frames that return to these places, innermost first. Of this library's own functions at the inner end only the outermost
    /// is told: the call that the fiber made.
    fn frames(&mut self, returns: &[usize]) -> Vec<Frame> {
        let mut frames = Vec::new();
        returns.iter().for_each(|&at| frames.extend_from_slice(self.look_up(at)));
        let own = frames.iter().take_while(|frame| is_own(frame)).count();
        frames.drain(..own.saturating_sub(1));
        frames
    }

    /// The function at `address`, behind those that the compiler has put into it.
    fn look_up(&mut self, address: usize) -> &[Frame] {
        self.0.entry(address).or_insert_with(|| {
            let mut frames = Vec::new();
            backtrace::resolve(ptr::without_provenance_mut::<c_void>(address), |symbol| {
                let place = symbol.filename().zip(symbol.lineno());
                frames.push(Frame {
                    function: symbol.name().map(|name| format!("{name:#}")),
                    place: place.map(|(file, line)| (file.display().to_string(), line)),
                    address,
                });
            });
            if frames.is_empty() {
                frames.push(Frame { function: None, place: None, address });
            }
            frames
        })
    }
}

/// Whether it is a function of this library.
fn is_own(frame: &Frame) -> bool {
    let name = frame.function.as_deref().unwrap_or_default();
    let folder = OWN.1.trim_end_matches("frames.rs");
    let is_in_folder = |(file, _): &(String, u32)| file.contains(folder);
    name.trim_start_matches('<').starts_with(OWN.0) || frame.place.as_ref().is_some_and(is_in_folder)
}

/// The frames that return to these places, for each fiber. Its own stack may be too small for the search, so a fiber has it made
/// by a thread.
pub(crate) fn frames_of<'a>(
    fibers: impl Iterator<Item = Result<&'a [usize], &'a NoFrames>> + Send,
) -> Vec<Result<Vec<Frame>, NoFrames>> {
    let fibers: Vec<_> = fibers.collect();
    let search = || {
        let mut symbols = Symbols::default();
        fibers.iter().map(|returns| Ok(symbols.frames(returns.map_err(|why| *why)?))).collect()
    };
    if worker::current_block().is_none() {
        return search();
    }
    let searched = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, search);
        thread.ok().map(|thread| thread.join().expect("nothing in the search panics"))
    });
    // Where the system gives no thread the addresses are all there is.
    searched.unwrap_or_else(|| {
        let bare = |&address: &usize| Frame { function: None, place: None, address };
        fibers.iter().map(|returns| Ok(returns.map_err(|why| *why)?.iter().map(bare).collect())).collect()
    })
}
