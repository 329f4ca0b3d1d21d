//! Who runs a turn, and how it begins: what the link has, and what is noted of that.

use weft_base::Instant;

use crate::inflow::Arrived;
use crate::port::{Port, Turn};

/// How often who waits looks at the link in one turn, where nobody else wants the processor. A message that goes to him at once is stamped
/// with the time of the first look.
pub(crate) const WAITERS_LOOKS: u32 = 8;

/// Who runs the turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Runner {
    /// A thread that sends, or looks whether something came.
    User,
    /// A thread that waits, and does nothing else until something came; it looks at the link so often in one turn.
    Waiter(u32),
    /// The service thread.
    Service,
    /// The dedicated worker with this number among those of the port.
    Worker(usize),
}

impl Runner {
    /// How often it looks at the link in one turn.
    #[inline]
    pub(crate) fn looks(self) -> u32 {
        if let Self::Waiter(looks) = self { looks } else { 1 }
    }
}

/// Begins a turn: takes packets from the link, at most so many, and tells how many.
#[inline(always)] // as the parts of a turn: each call more is one that a waiting peer pays for
pub(crate) fn receive(
    port: &Port,
    turn: &mut Turn,
    runner: Runner,
    now: Instant,
    budget: usize,
    place: &mut [u8],
) -> usize {
    turn.batch.set_budget(budget);
    turn.batch.set_looks(runner.looks());
    begin(port, runner, now);
    let count = port.recv(turn, place);
    let (pieces, bytes) = if count > 0 { (turn.batch.pieces(), turn.batch.bytes()) } else { (0, 0) };
    port.inflow.note_turn(count, budget, turn.batch.is_cut());
    let arrived = Arrived { packets: count as u64, pieces: pieces as u64, bytes: bytes as u64 };
    note_arrived(port, turn, runner, arrived, now);
    count
}

/// A turn of `runner` begins.
#[inline]
pub(crate) fn begin(port: &Port, runner: Runner, now: Instant) {
    if matches!(runner, Runner::User | Runner::Waiter(_)) {
        port.note_user_turn(now);
    }
}

/// So much came with a turn.
#[inline]
pub(crate) fn note_arrived(port: &Port, turn: &mut Turn, runner: Runner, arrived: Arrived, now: Instant) {
    port.counters.turns.add(1);
    if arrived.packets > 0 {
        port.counters.busy_turns.add(1);
        if let Runner::Waiter(_) = runner {
            port.counters.waiters_busy_turns.add(1);
        }
        if let Some(has_room) = port.inflow.note(&mut turn.window, arrived, now) {
            turn.batch.note_room(has_room);
        }
        port.note_memory(&turn.batch, now);
    }
}
