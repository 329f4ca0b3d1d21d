//! How packets come: in runs, which the kernel joins or does not (a flood), or one at a time from one peer, each after a
//! wait or an answer (a ping-pong).

use std::net::SocketAddr;

use super::direct::Mode;

#[cfg(test)]
mod tests;

/// Lone packets in a row from one peer before it is worth a socket of its own.
const RUN: u32 = 32;
/// Packets in a row from one peer, none of them joined with another, before that is a flood, which is worth one as well.
const FLOOD: u32 = 256;
/// Packets in a row from one peer, none of them joined with another, before the next ones are taken to come so as well.
const SINGLES: u32 = 16;
/// Lone packets in a row after which a socket that joins is left for one that does not.
const UNJOINED: u32 = 256;
/// Packets of a flood after which the shared socket shows whether they would be joined by now.
const FLOOD_MAX: u32 = 1 << 16;
/// Packets in a row from one peer before they may go round several sockets.
const ROW: u32 = 256;
/// How often more room is wanted in vain, each time for a millisecond, after that did not help.
const NARROW: u32 = 1_000;
/// Turns of a flood between two looks at the shared socket.
const FLOOD_LOOK_EVERY: u32 = 8;
/// Packets that lay there at once, each of them answered, before they count as a run all the same.
const AT_ONCE_MAX: u32 = 32;
/// Turns between two looks at the shared socket while a peer has its own.
const LOOK_EVERY: u32 = 16;
/// By so many turns a look is put off for turns that brought a packet, which is to be answered first.
const LOOK_LATE: u32 = 48;
/// A packet at the shared socket weighs as much as so many of the peer's.
const OTHERS_WEIGH: u32 = 8;
/// The largest weight that the peer's packets gather.
const WEIGHT_MAX: u32 = 64;
/// Turns in which the second socket is found empty before nothing more can come by it.
const REST_LOOKS: u32 = 8;

/// The rhythm of one socket, kept by whoever receives from it.
#[derive(Default, Debug)]
pub(crate) struct Rhythm {
    /// Whether the last call that looked found the shared socket empty, after one packet, or some that were joined, at most.
    is_sparse: bool,
    partner: Option<SocketAddr>,
    /// Lone packets of the partner, or joined ones after a wait, up to [`RUN`].
    run: u32,
    /// Some of them were joined.
    is_run_joined: bool,
    /// Packets from the partner's own socket since that was last empty.
    at_once: u32,
    /// How many send calls there had been when the last of them came, or the last that were joined.
    sends: u64,
    turns: u32,
    report_turns: u32,
    /// Whoever slept on both sockets found one of them readable.
    is_readable: bool,
    weight: u32,
    /// Packets of the partner in a row that the kernel joined with no other, up to [`FLOOD`].
    singles: u32,
    /// Packets of the partner in a row that were lone though its own socket joins, up to [`UNJOINED`].
    unjoined: u32,
    /// Packets of the partner in a row, up to [`ROW`].
    row: u32,
    /// The kernel has too little room for what comes.
    is_short_of_room: bool,
    /// So often that is not heard.
    narrow: u32,
    /// Packets that the present flood may still bring.
    flood_left: u32,
    /// Packets of the partner that lie in the shared socket come first.
    is_draining: bool,
    /// How often the partner's own socket is yet to be found empty after its end.
    rest_looks: u32,
}

/// What a turn of a flood says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flood {
    GoesOn,
    /// Packets come one at a time now.
    Ebbed,
    /// It is time to see whether the kernel joins packets.
    Over,
}

/// What a packet from the partner's own socket says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// The socket is asked again in the next turn.
    Stop,
    /// It came right behind another: packets come in runs again, which the kernel joins, for all that is known.
    End,
    /// The same, and of late it joined none.
    Flood,
}

impl Rhythm {
    /// Whether a packet at the shared socket is likely to be alone: then nothing is asked behind it.
    #[inline]
    pub(crate) fn is_sparse(&self) -> bool {
        self.is_sparse
    }

    /// The same, of packets that were joined; what comes after them may be right behind.
    #[inline]
    pub(crate) fn take_sparse(&mut self) -> bool {
        std::mem::take(&mut self.is_sparse)
    }

    /// The shared socket is empty, after so many calls in one turn that brought something.
    #[inline]
    pub(crate) fn note_empty(&mut self, calls: usize) {
        self.is_sparse = calls <= 1;
        if calls > 1 {
            (self.run, self.is_run_joined) = (0, false);
        }
    }

    /// A packet came that was likely to be alone. `Some` when its sender is now worth a socket of its own: whether the kernel is to join
    /// packets for it.
    #[inline]
    pub(crate) fn note_lone(&mut self, from: SocketAddr) -> Option<bool> {
        self.is_sparse = false;
        self.meet(from);
        self.run += 1;
        if self.run < RUN {
            return None;
        }
        self.run = 0;
        Some(std::mem::take(&mut self.is_run_joined))
    }

    /// The same of several that were joined and likely to be all there is, after so many send calls. It is a run where they are answered.
    pub(crate) fn note_joined(&mut self, from: SocketAddr, sends: u64) -> Option<bool> {
        if std::mem::replace(&mut self.sends, sends) == sends {
            (self.run, self.is_run_joined) = (0, false);
            return None;
        }
        self.is_run_joined |= self.partner == Some(from);
        self.note_lone(from)
    }

    fn meet(&mut self, from: SocketAddr) {
        if self.partner != Some(from) {
            self.partner = Some(from);
            (self.run, self.singles, self.row, self.is_run_joined) = (0, 0, 0, false);
        }
    }

    /// Whether the kernel has room for what comes now.
    pub(crate) fn note_room(&mut self, has_room: bool) {
        self.is_short_of_room = !has_room && self.narrow == 0;
        if !has_room {
            self.narrow = self.narrow.saturating_sub(1);
        }
    }

    /// Several sockets are no help, for a while.
    pub(crate) fn stay_narrow(&mut self) {
        (self.is_short_of_room, self.narrow) = (false, NARROW);
    }

    /// Whether there is too little room for packets that have come from one peer for long.
    #[inline]
    pub(crate) fn is_short_of_room(&self) -> bool {
        self.is_short_of_room && self.row >= ROW
    }

    /// Packets came that were not alone, `count` of them joined. True when their sender floods, and is worth a socket of
    /// its own.
    #[inline]
    pub(crate) fn note_run(&mut self, from: SocketAddr, count: usize) -> bool {
        self.meet(from);
        self.row = self.row.saturating_add(u32::try_from(count).unwrap_or(ROW)).min(ROW);
        self.singles = if count == 1 { self.singles + 1 } else { 0 };
        let is_flood = self.singles >= FLOOD;
        if is_flood {
            self.singles = 0;
        }
        is_flood
    }

    /// Whether the last packets of the partner were joined with no other.
    pub(crate) fn are_singles(&self) -> bool {
        self.singles >= SINGLES
    }

    /// Whether it is time to read what hosts say, where that comes by sockets of others.
    #[inline]
    pub(crate) fn is_report_look_due(&mut self) -> bool {
        self.report_turns = (self.report_turns + 1) % LOOK_EVERY;
        self.report_turns == 0
    }

    /// The partner has a socket of its own, or several, from now on.
    pub(super) fn begin(&mut self, mode: Mode) {
        (self.run, self.at_once, self.turns, self.weight) = (0, 0, 0, WEIGHT_MAX);
        self.unjoined = 0;
        (self.is_draining, self.is_sparse, self.rest_looks) = (true, false, REST_LOOKS);
        self.is_short_of_room = false;
        self.flood_left = match mode {
            Mode::Flood => FLOOD_MAX,
            // The kernel may join its packets all the time.
            Mode::Wide => u32::MAX,
            Mode::On | Mode::Off | Mode::Ending => 0,
        };
    }

    /// Whether packets of the partner may still lie in the shared socket.
    #[inline]
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// The shared socket holds no more of them.
    pub(crate) fn note_drained(&mut self) {
        self.is_draining = false;
    }

    /// Whether the present flood, which goes round several sockets, has brought nothing yet.
    pub(crate) fn is_flood_unseen(&self) -> bool {
        self.flood_left == u32::MAX
    }

    /// The flood brought `count` packets in one turn.
    #[inline]
    pub(crate) fn note_flood(&mut self, count: usize) -> Flood {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.flood_left = self.flood_left.saturating_sub(count);
        self.weight = self.weight.saturating_add(count).min(WEIGHT_MAX);
        match count {
            0 => {}
            1 => self.run += 1,
            _ => self.run = 0,
        }
        if self.flood_left == 0 {
            self.run = 0;
            Flood::Over
        } else if self.run >= RUN {
            (self.run, self.at_once) = (0, 0);
            Flood::Ebbed
        } else {
            Flood::GoesOn
        }
    }

    /// The flood, or what is taken for one, goes on.
    pub(crate) fn prolong_flood(&mut self) {
        self.flood_left = FLOOD_MAX;
    }

    /// Whether it is time for a look at the shared socket, in a turn of a flood.
    #[inline]
    pub(crate) fn is_flood_look_due(&mut self) -> bool {
        self.turns += 1;
        let is_due = std::mem::take(&mut self.is_readable) || self.turns >= FLOOD_LOOK_EVERY;
        if is_due {
            self.turns = 0;
        }
        is_due
    }

    /// A packet came from the partner's own socket, after so many send calls.
    #[inline]
    pub(crate) fn note_direct(&mut self, sends: u64) -> Next {
        let is_answered = std::mem::replace(&mut self.sends, sends) != sends;
        if self.at_once > 0 && (self.at_once >= AT_ONCE_MAX || !is_answered) {
            return if self.flood_left > 0 { Next::Flood } else { Next::End };
        }
        self.at_once += 1;
        self.weight = (self.weight + 1).min(WEIGHT_MAX);
        Next::Stop
    }

    /// The partner's own socket, for which packets are joined, brought so many. True when they have not been joined for long.
    pub(crate) fn note_joins(&mut self, count: usize) -> bool {
        self.unjoined = if count == 1 { self.unjoined + 1 } else { 0 };
        self.unjoined >= UNJOINED
    }

    /// The partner's own socket is empty.
    #[inline]
    pub(crate) fn note_direct_empty(&mut self) {
        self.at_once = 0;
    }

    /// The partner's own socket is empty after its end. Whether nothing more comes by it.
    pub(crate) fn note_rest_empty(&mut self) -> bool {
        self.rest_looks = self.rest_looks.saturating_sub(1);
        self.rest_looks == 0
    }

    /// Whether it is time for a look at the shared socket, in a turn in which the partner's brought `count` packets.
    #[inline]
    pub(crate) fn is_look_due(&mut self, count: usize) -> bool {
        self.turns += 1;
        let is_others = std::mem::take(&mut self.is_readable) && count == 0;
        let is_due = is_others || self.turns >= if count == 0 { LOOK_EVERY } else { LOOK_EVERY + LOOK_LATE };
        if is_due {
            self.turns = 0;
        }
        is_due
    }

    /// One of the two sockets is readable: if it is not the partner's, the next turn looks at the shared one.
    #[inline]
    pub(crate) fn note_readable(&mut self) {
        self.is_readable = true;
    }

    /// The shared socket brought `count` packets meanwhile. True when they are too many for one peer to be preferred.
    pub(crate) fn note_others(&mut self, count: usize) -> bool {
        let cost = u32::try_from(count).unwrap_or(u32::MAX).saturating_mul(OTHERS_WEIGH);
        self.weight = self.weight.saturating_sub(cost);
        self.weight == 0
    }
}
