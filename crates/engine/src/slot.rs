//! The table entry of a connection: lock, machine, backlog, waiters.
//!
//! Lock order: a slot's `live` lock is taken alone or under a port's turn or lane; never two of them at once. Under it only the
//! short locks of backlog, waiters, wheel, directory, sides, the quiet list and a link's group are taken. It is never held across a call of the link, but for
//! a lone answer (see `answer`) and what links are told of peers that come and go, nor while a waiter is woken; a thread of the engine that sleeps may be called.
//!
//! Who finds the slot busy leaves its packets in the backlog, and the holder sees to them before it leaves: the hand-over
//! of [`weft_sync::Slot`]. So each lock ends in [`Core::unlock`](crate::core::Core::unlock), unless a `want` follows, or
//! the packet that was looked at takes the ordinary way to the same slot (see `binding`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use weft_base::{FlowKey, Instant, Service};
use weft_proto::{Connection, State};
use weft_sync::{Look, SlotGuard};
use weft_wire::Train;

use crate::claim;
use crate::directory::Way;
use crate::gather::Gather;
use crate::listening::Listening;
use crate::near::Member;
use crate::side::{Run, Side};
use crate::stats::Contact;
use crate::table::Keyed;
use crate::waiters::{Interest, Waiters};
use crate::wheel::Timer;

/// Packets that a busy slot may have left to it; beyond that the turn waits for the lock, and the link's queue fills.
const BACKLOG_MAX: u32 = 4_096;

/// The connection and what belongs under its lock.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) connection: Connection,
    /// Where packets to the peer go, unless I/O nodes lie between.
    pub(crate) to: SocketAddr,
    /// The I/O nodes between.
    pub(crate) side: Option<Arc<Side>>,
    /// The path of the last packet, where I/O nodes lie between.
    sent_by: u8,
    /// Messages taken since, that gather for common packets.
    pub(crate) is_gathering: bool,
    /// The rest of a large send waits for the next.
    pub(crate) is_corked: bool,
    /// How many gathered since the last transmission, and whether they keep coming.
    pub(crate) gathered: u32,
    pub(crate) is_busy: bool,
    /// The user received something since the last transmission: what he sends next is an answer.
    pub(crate) has_read: bool,
    /// The user found the send queue full and has not been told of room since.
    pub(crate) is_blocked: bool,
    /// No handle is left: the slot goes when the connection is over.
    pub(crate) is_released: bool,
    /// The listener still counts it among its half-open connections.
    pub(crate) is_embryo: bool,
    /// It was counted in QUIET.
    pub(crate) is_quiet: bool,
    /// As one of those that have large packets in flight within this host.
    pub(crate) near: Member,
    /// Where the peer may be now.
    pub(crate) moving: Option<Box<Moving>>,
    /// The port whose link was told where its packets come from.
    pub(crate) noted_at: Option<u16>,
    /// The port in whose wheel it has an entry, which may have fired since.
    pub(crate) timer: Option<(u32, Timer)>,
    /// What is reserved for messages of several packets. See `messages`.
    pub(crate) message_steps: u32,
    /// Bytes of receive memory to give back, those included: when nothing more comes, and the rest when that is read.
    pub(crate) promised_bytes: usize,
}

/// A packet of the peer came from another address than it had, which is asked whether the peer is there.
#[derive(Debug)]
pub(crate) struct Moving {
    pub(crate) to: SocketAddr,
    pub(crate) asked_at: Instant,
}

impl Live {
    fn new(connection: Connection, way: Way, promised_bytes: usize) -> Self {
        let (to, side) = match way {
            Way::Direct(at) => (at, None),
            Way::Side(side) => (side.default_at(), Some(side)),
        };
        Self {
            is_embryo: connection.is_embryo(),
            is_released: false,
            connection,
            to,
            side,
            sent_by: 0,
            is_gathering: false,
            is_corked: false,
            gathered: 0,
            is_busy: false,
            has_read: false,
            is_blocked: false,
            is_quiet: false,
            near: Member::default(),
            moving: None,
            noted_at: None,
            timer: None,
            promised_bytes,
            message_steps: 0,
        }
    }

    /// The receive memory that is given back now, as nothing more comes: all but what is still to be read.
    pub(crate) fn take_unneeded(&mut self) -> usize {
        let unread = if self.is_released { 0 } else { self.connection.unread_bytes_max() };
        let unneeded = self.promised_bytes.saturating_sub(unread);
        self.message_steps = 0;
        self.promised_bytes -= unneeded;
        unneeded
    }

    /// Where packets go that take path `path`, and now do, so many more of `run`.
    #[inline]
    pub(crate) fn send_by(&mut self, path: u8, packets: u32, run: &mut Run) -> SocketAddr {
        let Some(side) = &self.side else {
            return if path == 0 {
                self.to
            } else {
                self.moving.as_ref().map_or(self.to, |moving| moving.to)
            };
        };
        // last words follow the peer, and say nothing of what went before
        if self.connection.state() != State::Closed {
            self.sent_by = path;
        }
        side.send_by(path, packets, run)
    }

    /// The path that a packet from there came by, where the connection sends to it.
    #[inline]
    pub(crate) fn path_from(&self, from: SocketAddr) -> Option<u8> {
        match &self.side {
            None => (from == self.to).then_some(0),
            Some(side) => side.path_from(from),
        }
    }

    /// [CDP-TMR-3] When and by which way the two ends last had to do with each other.
    pub(crate) fn last_contact(&self, now: Instant) -> Contact {
        let connection = &self.connection;
        let sent = self.side.as_ref().map(|side| side.io_node(self.sent_by));
        let heard = self.side.as_ref().zip(connection.heard_by()).map(|(side, path)| side.io_node(path));
        Contact {
            silence: connection.silence(now),
            sent_to: sent.map_or(self.to, |(_, at)| at),
            sent_through: sent.map(|(node, _)| node),
            heard_through: heard.map(|(node, _)| node),
        }
    }

    /// Where packets to the peer go at present.
    pub(crate) fn peer_at(&self) -> SocketAddr {
        self.side.as_ref().map_or(self.to, |side| side.default_at())
    }
}

/// What was left at a busy slot, and where it came from.
pub(crate) type Deferred = (Train, SocketAddr);

/// The right to use a slot.
pub(crate) type Guard<'a> = SlotGuard<'a, Live, Deferred>;

/// The table entry of one connection.
///
/// The flow comes first: a look-up, which compares it and counts a reference, touches no other line of the slot.
#[repr(C)]
pub struct Slot {
    key: FlowKey,
    /// When the link last took packets of this slot, in nanoseconds.
    pub(crate) sent_at: AtomicU64,
    /// The port its packets come in by.
    home: AtomicU32,
    pub(crate) transmitting: AtomicU8,
    service: Service,
    /// It is out of the table.
    is_removed: AtomicBool,
    /// The deadline that lies in the wheel, in nanoseconds; `u64::MAX` if none does.
    pub(crate) armed: AtomicU64,
    /// Since when messages gather, in nanoseconds; 0 if none do.
    pub(crate) gathering_since: AtomicU64,
    /// When what is sent may wait for company.
    pub(crate) gather: Gather,
    /// The listener that made it.
    pub(crate) listening: Option<Arc<Listening>>,
    pub(crate) waiters: Waiters,
    live: weft_sync::Slot<Live, Deferred>,
}

/// Retransmission time-outs for which a peer's FIN may come again: the first repetition and the second.
const REPEAT_RTOS: u32 = 3;

impl Slot {
    pub(crate) fn new(
        connection: Connection,
        way: Way,
        home: usize,
        promised_bytes: usize,
        gather: Gather,
        listening: Option<Arc<Listening>>,
    ) -> Self {
        Self {
            key: connection.flow(),
            service: connection.service(),
            is_removed: AtomicBool::new(false),
            live: weft_sync::Slot::new(Live::new(connection, way, promised_bytes), BACKLOG_MAX),
            transmitting: AtomicU8::new(claim::IDLE),
            sent_at: AtomicU64::new(0),
            waiters: Waiters::default(),
            home: AtomicU32::new(u32::try_from(home).unwrap_or(0)),
            armed: AtomicU64::new(u64::MAX),
            gathering_since: AtomicU64::new(0),
            gather,
            listening,
        }
    }

    /// The two ends of the connection.
    #[must_use]
    pub fn key(&self) -> FlowKey {
        self.key
    }

    /// Datagram or stream.
    #[must_use]
    pub fn service(&self) -> Service {
        self.service
    }

    /// Whether a condition holds, without any lock.
    #[must_use]
    pub fn is_ready(&self, interest: Interest) -> bool {
        self.waiters.is_ready(interest)
    }

    /// Where packets to the peer go at present.
    #[must_use]
    pub fn peer_underlay(&self) -> SocketAddr {
        self.look().peer_at()
    }

    /// Until when a peer that has closed may be expected to repeat its FIN, should it not have heard our answer.
    pub(crate) fn answers_until(&self) -> Option<Instant> {
        let live = self.look();
        let connection = &live.connection;
        // A REASON without an error came with a FIN.
        let has_fin = connection.close_result().is_some_and(|result| result.reason.is_some());
        let is_quiet = connection.state() == State::Quiet;
        (is_quiet && has_fin).then(|| connection.heard_at() + connection.path_stats().rto * REPEAT_RTOS)
    }

    pub(crate) fn home(&self) -> usize {
        self.home.load(Ordering::Relaxed) as usize
    }

    pub(crate) fn set_home(&self, port: usize) {
        let port = u32::try_from(port).unwrap_or(0);
        if self.home.load(Ordering::Relaxed) != port {
            self.home.store(port, Ordering::Relaxed);
        }
    }

    /// Whether it is out of the table, or will be in a moment.
    #[inline]
    pub(crate) fn is_removed(&self) -> bool {
        self.is_removed.load(Ordering::Acquire)
    }

    /// Notes that it goes out of the table; the caller holds the lock. True if it did before.
    pub(crate) fn note_removed(&self) -> bool {
        self.is_removed.swap(true, Ordering::AcqRel)
    }

    /// Waits for the lock.
    #[inline]
    pub(crate) fn lock(&self) -> Guard<'_> {
        self.live.lock()
    }

    /// Waits for the lock, to hold it for no longer than it takes to copy a packet, or to [`Guard::stay`].
    #[inline]
    pub(crate) fn lock_briefly(&self) -> Guard<'_> {
        self.live.lock_briefly()
    }

    /// Takes the lock, or says that the slot is busy.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Guard<'_>> {
        self.live.try_lock()
    }

    /// Waits for the lock, to read only.
    pub(crate) fn look(&self) -> Look<'_, Live, Deferred> {
        self.live.look()
    }

    /// Leaves packets for the holder of the lock; gives them back if the backlog is full. A [`Slot::want`] must follow.
    pub(crate) fn defer(&self, train: Train, from: SocketAddr) -> Result<(), Train> {
        self.live.defer((train, from)).map_err(|(train, _)| train)
    }

    /// Asks for the lock for work that lies ready: either the caller gets it, or its holder will do the work.
    #[inline]
    pub(crate) fn want(&self) -> Option<Guard<'_>> {
        self.live.want()
    }
}

impl Keyed for Slot {
    #[inline]
    fn flow(&self) -> &FlowKey {
        &self.key
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("key", &self.key).field("service", &self.service).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An end that is idle is to take 2 KiB; the user's handle and the entries of table, wheel and lists are some 210 bytes.
    #[test]
    fn an_idle_end_takes_no_more_than_it_may() {
        assert!(size_of::<Slot>() <= 1_760, "{} bytes", size_of::<Slot>());
    }
}
