//! The table entry of a connection: lock, machine, backlog, waiters.
//!
//! Lock order: a slot's `live` lock is taken alone or under a port's turn; never two of them at once. Under it only the
//! short locks of backlog, waiters and wheel are taken. It is never held across a system call of the link, nor while
//! anybody is woken.
//!
//! Algorithm of the hand-over: who finds the slot locked leaves the packets in the backlog, raises `wanted`, and tries
//! the lock once more. Who unlocks looks at `wanted` afterwards and, if it is raised, takes the lock again and does the
//! work. Raising and trying, and unlocking and looking, are each separated by a sequentially consistent fence, so one of
//! the two sees the other: nothing is left lying.
//!
//! Transmission keeps the order of numbers although the link is called without the lock: `transmitting` is claimed under
//! the lock by whoever polls packets out, and given back after the link took them. Who finds it claimed marks it, and the
//! claimant polls again.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use weft_base::{FlowKey, Instant, Service};
use weft_proto::Connection;
use weft_sync::{Mutex, MutexGuard, SpinLock};
use weft_wire::Packet;

use crate::listening::Listening;
use crate::waiters::{Interest, Waiters};
use crate::wheel::Timer;

/// Packets that a busy slot may have left to it; beyond that the turn waits for the lock, and the link's queue fills.
const BACKLOG_MAX: usize = 4_096;

/// The connection and what belongs under its lock.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) connection: Connection,
    /// Where packets to the peer go.
    pub(crate) to: SocketAddr,
    /// When the last data left: packing gathers for a moment after it.
    pub(crate) sent_at: Instant,
    /// Messages taken since, that gather for common packets.
    pub(crate) is_gathering: bool,
    /// The user found the send queue full and has not been told of room since.
    pub(crate) is_blocked: bool,
    /// No handle is left: the slot goes when the connection is over.
    pub(crate) is_released: bool,
    /// The listener still counts it among its half-open connections.
    pub(crate) is_embryo: bool,
    /// It was counted in QUIET.
    pub(crate) is_quiet: bool,
    /// It is out of the table.
    pub(crate) is_removed: bool,
    /// Its entry in a port's wheel, which may have fired since.
    pub(crate) timer: Option<(usize, Timer)>,
    /// Bytes of receive memory to give back in the end.
    pub(crate) promised_bytes: usize,
}

/// The table entry of one connection.
pub struct Slot {
    key: FlowKey,
    service: Service,
    live: Mutex<Live>,
    backlog: SpinLock<VecDeque<(Packet, SocketAddr)>>,
    backlog_len: AtomicUsize,
    /// Somebody found the lock taken and left work.
    wanted: AtomicBool,
    transmitting: AtomicU8,
    pub(crate) waiters: Waiters,
    /// The port its packets come in by.
    home: AtomicU32,
    /// The deadline that lies in the wheel, in nanoseconds; `u64::MAX` if none does.
    pub(crate) armed: AtomicU64,
    /// Since when messages gather, in nanoseconds; 0 if none do.
    pub(crate) gathering_since: AtomicU64,
    /// The listener that made it.
    pub(crate) listening: Option<Arc<Listening>>,
}

const IDLE: u8 = 0;
const CLAIMED: u8 = 1;
const CLAIMED_AGAIN: u8 = 2;

impl Slot {
    pub(crate) fn new(
        connection: Connection,
        to: SocketAddr,
        home: usize,
        promised_bytes: usize,
        listening: Option<Arc<Listening>>,
    ) -> Self {
        Self {
            key: connection.flow(),
            service: connection.service(),
            live: Mutex::new(Live {
                is_embryo: connection.is_embryo(),
                is_released: false,
                connection,
                to,
                sent_at: Instant::ZERO,
                is_gathering: false,
                is_blocked: false,
                is_quiet: false,
                is_removed: false,
                timer: None,
                promised_bytes,
            }),
            backlog: SpinLock::default(),
            backlog_len: AtomicUsize::new(0),
            wanted: AtomicBool::new(false),
            transmitting: AtomicU8::new(IDLE),
            waiters: Waiters::default(),
            home: AtomicU32::new(u32::try_from(home).unwrap_or(0)),
            armed: AtomicU64::new(u64::MAX),
            gathering_since: AtomicU64::new(0),
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
        self.live.lock().to
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

    /// Waits for the lock. Let it go by [`Slot::is_wanted`]'s rule.
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock()
    }

    /// Takes the lock, or says that the slot is busy.
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Live>> {
        self.live.try_lock()
    }

    /// Leaves a packet for the holder of the lock; gives it back if the backlog is full.
    pub(crate) fn defer(&self, packet: Packet, from: SocketAddr) -> Result<(), Packet> {
        let mut backlog = self.backlog.lock();
        if backlog.len() >= BACKLOG_MAX {
            return Err(packet);
        }
        backlog.push_back((packet, from));
        self.backlog_len.store(backlog.len(), Ordering::Release);
        Ok(())
    }

    /// Takes the packets that others left; the caller holds the lock.
    pub(crate) fn take_backlog(&self) -> VecDeque<(Packet, SocketAddr)> {
        if self.backlog_len.load(Ordering::Acquire) == 0 {
            return VecDeque::new();
        }
        let mut backlog = self.backlog.lock();
        self.backlog_len.store(0, Ordering::Release);
        std::mem::take(&mut *backlog)
    }

    /// Asks for the lock for work that lies ready: either the caller gets it, or its holder will do the work.
    pub(crate) fn want(&self) -> Option<MutexGuard<'_, Live>> {
        self.wanted.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let live = self.live.try_lock()?;
        self.wanted.store(false, Ordering::Relaxed);
        Some(live)
    }

    /// To be asked after each unlock: whether somebody left work meanwhile. If so, [`Slot::want`] again.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        fence(Ordering::SeqCst);
        self.wanted.load(Ordering::Relaxed)
    }

    /// Claims the right to hand this slot's packets to the link; the caller holds the lock. False if another thread has
    /// it, which then polls again on the caller's behalf.
    #[inline]
    pub(crate) fn claim_transmit(&self) -> bool {
        loop {
            match self.transmitting.compare_exchange(IDLE, CLAIMED, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return true,
                Err(CLAIMED_AGAIN) => return false,
                Err(_) => {
                    let marked = self.transmitting.compare_exchange(
                        CLAIMED,
                        CLAIMED_AGAIN,
                        Ordering::AcqRel,
                        Ordering::Acquire,
                    );
                    if marked != Err(IDLE) {
                        return false;
                    }
                }
            }
        }
    }

    /// Gives the claim back after the link took the packets. True if there may be more to poll.
    #[inline]
    pub(crate) fn release_transmit(&self) -> bool {
        self.transmitting.swap(IDLE, Ordering::AcqRel) == CLAIMED_AGAIN
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("key", &self.key).field("service", &self.service).finish_non_exhaustive()
    }
}
