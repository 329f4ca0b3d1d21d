//! A port: a link, the try-lock for its turn, its timers, and who watches over it.
//!
//! Roles. Anybody who holds `turn` runs a turn. At most one thread at a time is the *leader*: the one that sleeps on the
//! link's descriptor. A blocked user thread that cannot lead follows, until it is given the lead or called to take it (see `lead`). The
//! service thread leads when no user thread has run a turn for a while, and makes room for one that wants to. A loop
//! of events that attends the port (see `attendance`) hears the link beside the leader.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use weft_base::Instant;
use weft_link::{Link, LinkInfo, PollFds, RecvBatch};
use weft_sync::{Mutex, SpinLock};
use weft_wire::{Encapsulation, Train};

use crate::counters::Tally;
use crate::inflow::{Inflow, Window};
use crate::lanes::{Lanes, Piles};
use crate::slot::Slot;
use crate::wheel::TimerWheel;

mod absence;
mod alarm;
mod attended;
mod departure;
mod fds;
mod followers;
mod lead;
mod moments;
mod reliance;
mod signal;
mod timers;

use alarm::Alarm;
pub(crate) use alarm::SOON;
use attended::Attended;
use departure::Departure;
use lead::Leadership;
pub(crate) use lead::{LEADERS_PAUSE, Lead, TURNS_AWAITED};
pub(crate) use moments::{MOMENT, Moments};
pub(crate) use reliance::Reliance;
pub(crate) use signal::Signal;

/// Packets one turn takes from the link.
pub(crate) const TURN_PACKETS: usize = 256;

/// What whoever runs the turn owns.
pub(crate) struct Turn {
    pub(crate) batch: RecvBatch,
    /// What passed the checks and has not been handed to its slot; empty between turns.
    pub(crate) checked: Vec<(Train, SocketAddr)>,
    /// The connection that the last packet was for: the next is mostly for it too, and needs no look-up.
    pub(crate) last: Option<Arc<Slot>>,
    pub(crate) window: Window,
    pub(crate) piles: Piles,
    /// What there was to wait for of the link.
    link_fds: PollFds,
}

/// What the service thread is doing, so that others know how to call it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Service {
    /// It looks again within a millisecond.
    Napping,
    /// It sleeps until it is called: somebody else leads.
    Deep,
    /// It sleeps on the link.
    Leading,
    /// There is none: dedicated workers run turns, and sleep on the link unless somebody leads.
    Dedicated,
}

/// What a port counted.
#[derive(Debug, Default)]
pub(crate) struct PortCounters {
    /// Under the turn's lock.
    pub(crate) turns: Tally,
    pub(crate) busy_turns: Tally,
    /// Those of threads that wait and poll.
    pub(crate) waiters_busy_turns: Tally,
    /// From several threads, seldom.
    pub(crate) backlogged: AtomicU64,
    pub(crate) sleeps: AtomicU64,
    pub(crate) stuck_drops: AtomicU64,
}

/// A link and its turns.
pub(crate) struct Port {
    pub(crate) index: usize,
    pub(crate) link: Arc<dyn Link>,
    pub(crate) info: LinkInfo,
    pub(crate) encapsulation: Encapsulation,
    pub(crate) turn: Mutex<Turn>,
    /// Where the port has several workers.
    pub(crate) lanes: Option<Lanes>,
    wheel: SpinLock<TimerWheel<Arc<Slot>>>,
    /// Who slept on the link's descriptors has found one readable, since the last turn.
    is_link_ready: AtomicBool,
    /// When the wheel wants to be looked at, in nanoseconds.
    next_timer: AtomicU64,
    /// When I/O nodes that were left are to be probed, in nanoseconds; under the wheel's lock.
    next_probe: AtomicU64,
    /// When memory of packets that came is to be given back, in nanoseconds; under the wheel's lock.
    next_rest: AtomicU64,
    /// Until when the leader sleeps, in nanoseconds; 0 while it is awake.
    sleeps_until: AtomicU64,
    /// Ends the leader's sleep.
    signal: Arc<Signal>,
    alarm: Alarm,
    leadership: Leadership,
    pub(crate) moments: Moments,
    attended: Attended,
    departure: Departure,
    /// Until when it is left to the service thread to take in a flood, in nanoseconds; 0 while it is not.
    left_until: AtomicU64,
    service: AtomicU32,
    service_waker: SpinLock<Option<weft_sync::Unparker>>,
    /// Somebody waits who runs no turns: a task, or a descriptor in somebody's `epoll`.
    pub(crate) is_watched: AtomicBool,
    /// When a user thread last ran a turn, in nanoseconds.
    pub(crate) user_turn_at: AtomicU64,
    /// Until when one dozes that then looks, in nanoseconds.
    dozes_until: AtomicU64,
    /// When one last sent much, in nanoseconds: see `deference`.
    pub(crate) much_sent_at: AtomicU64,
    /// The same, or 0 if a thread has fallen asleep since: the leader may have to take over.
    served_at: AtomicU64,
    /// When a thread that polls had let others run, in nanoseconds.
    offered_at: AtomicU64,
    /// Until when leaders stay at the link, as others have been seen not to serve it, in nanoseconds.
    distrusted_until: AtomicU64,
    /// The leader leaves the link to threads that run turns.
    is_napping: AtomicBool,
    /// Longest spin at present, in nanoseconds: see `progress`.
    pub(crate) spin_ns: AtomicU64,
    /// Slots in which messages gather for common packets.
    pub(crate) gathering: SpinLock<Vec<Arc<Slot>>>,
    /// Since when messages gather in one burst, in nanoseconds.
    pub(crate) gathers_since: AtomicU64,
    /// Until when the service thread watches over them closely, in nanoseconds.
    pub(crate) watches_gathering_until: AtomicU64,
    pub(crate) inflow: Inflow,
    pub(crate) counters: PortCounters,
}

impl Port {
    pub(crate) fn new(
        index: usize,
        link: Arc<dyn Link>,
        now: Instant,
        spin: Duration,
        workers: usize,
    ) -> std::io::Result<Self> {
        let (info, link_fds) = (link.info(), link.poll_fds());
        Ok(Self {
            index,
            encapsulation: encapsulation(&info),
            inflow: Inflow::new(info.receive_buffer_bytes),
            info,
            link,
            turn: Mutex::new(Turn {
                batch: RecvBatch::with_budget(TURN_PACKETS),
                checked: Vec::new(),
                last: None,
                window: Window::new(now),
                piles: Piles::default(),
                link_fds,
            }),
            lanes: Lanes::of_workers(workers),
            wheel: SpinLock::new(TimerWheel::new(now)),
            is_link_ready: AtomicBool::new(false),
            next_timer: AtomicU64::new(u64::MAX),
            next_probe: AtomicU64::new(u64::MAX),
            next_rest: AtomicU64::new(u64::MAX),
            sleeps_until: AtomicU64::new(0),
            signal: Arc::new(Signal::new()?),
            alarm: Alarm::new()?,
            leadership: Leadership::default(),
            moments: Moments::default(),
            attended: Attended::default(),
            departure: Departure::default(),
            left_until: AtomicU64::new(0),
            service: AtomicU32::new(Service::Napping as u32),
            service_waker: SpinLock::default(),
            is_watched: AtomicBool::new(false),
            user_turn_at: AtomicU64::new(0),
            dozes_until: AtomicU64::new(0),
            much_sent_at: AtomicU64::new(0),
            served_at: AtomicU64::new(0),
            offered_at: AtomicU64::new(0),
            distrusted_until: AtomicU64::new(0),
            is_napping: AtomicBool::new(false),
            spin_ns: AtomicU64::new(u64::try_from(spin.as_nanos()).unwrap_or(u64::MAX)),
            gathering: SpinLock::default(),
            gathers_since: AtomicU64::new(0),
            watches_gathering_until: AtomicU64::new(0),
            counters: PortCounters::default(),
        })
    }

    /// Takes packets from the link, or some of their data to `place` ([`Link::recv_to`]). Who sleeps on its descriptors is woken if there is a new one.
    pub(crate) fn recv(&self, turn: &mut Turn, place: &mut [u8]) -> usize {
        if self.is_link_ready.load(Ordering::Relaxed) {
            self.is_link_ready.store(false, Ordering::Relaxed);
            turn.batch.note_readable();
        }
        // An error of the link is counted by the link; to the engine it is a link that brings nothing.
        let batch = &mut turn.batch;
        let came = if place.is_empty() { self.link.recv(batch) } else { self.link.recv_to(batch, place) };
        let count = came.unwrap_or(0);
        if turn.batch.take_new_fds() {
            self.note_new_fds(turn);
        }
        count
    }

    /// One of the link's descriptors is readable.
    pub(crate) fn note_link_ready(&self) {
        self.is_link_ready.store(true, Ordering::Relaxed);
    }

    /// The slot goes out of the table. A turn that is under way sees that itself.
    pub(crate) fn forget(&self, slot: &Arc<Slot>) {
        if let Some(mut turn) = self.turn.try_lock()
            && turn.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, slot))
        {
            turn.last = None;
        }
    }

    /// A user thread dozes at `now` for `time`, and then looks.
    pub(crate) fn doze(&self, time: Duration, now: Instant) {
        self.dozes_until.store((now + time).as_nanos(), Ordering::Relaxed);
        weft_link::doze(time);
    }

    /// Until when one does, or did.
    pub(crate) fn dozes_until(&self) -> Instant {
        Instant::from_nanos(self.dozes_until.load(Ordering::Relaxed))
    }

    pub(crate) fn set_service_waker(&self, waker: weft_sync::Unparker) {
        *self.service_waker.lock() = Some(waker);
    }

    pub(crate) fn set_service(&self, doing: Service) {
        self.service.store(doing as u32, Ordering::SeqCst);
    }

    pub(crate) fn service_is(&self, doing: Service) -> bool {
        self.service.load(Ordering::SeqCst) == doing as u32
    }

    /// Ends the nap or the deep sleep of the service thread.
    pub(crate) fn call_service(&self) {
        let waker = self.service_waker.lock().clone();
        if let Some(waker) = waker {
            waker.unpark();
        }
    }

    /// There is something for the service thread to see to: it is woken if it sleeps for longer than a nap.
    pub(crate) fn rouse_service(&self) {
        if self.service_is(Service::Leading) || self.service_is(Service::Dedicated) {
            self.signal.raise();
        } else if self.service_is(Service::Deep) {
            self.call_service();
        }
    }

    /// Somebody waits who runs no turns: the service thread is to look after the port at once, unless a loop does.
    pub(crate) fn watch(&self) {
        if !self.is_attended() && !self.is_watched.swap(true, Ordering::SeqCst) {
            self.call_service();
        }
    }
}

/// What the link calls its encapsulation, in the words of the packets' room.
fn encapsulation(info: &LinkInfo) -> Encapsulation {
    match info.encapsulation {
        weft_link::Encapsulation::Udp => Encapsulation::Udp,
        weft_link::Encapsulation::Ethernet => Encapsulation::Ethernet,
        weft_link::Encapsulation::Simulated => Encapsulation::Simulated,
    }
}

#[cfg(test)]
mod tests {
    use weft_link::Udp;

    use super::*;
    use crate::clock;

    /// A port of its own, with a link to nobody.
    pub(super) fn port() -> Port {
        let link = Arc::new(Udp::bind("127.0.0.1:0".parse().unwrap()).unwrap());
        Port::new(0, link, clock::now(), std::time::Duration::ZERO, 0).unwrap()
    }
}
