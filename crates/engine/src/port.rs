//! A port: a link, the try-lock for its turn, its timers, and who watches over it.
//!
//! Roles. Anybody who holds `turn` runs a turn. At most one thread at a time is the *leader*: the one that sleeps on the
//! link's descriptor. A blocked user thread that cannot lead waits in `followers` until a leader leaves. The service thread
//! leads when no user thread has run a turn for a while, and makes room for one that wants to.

use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::task;
use std::time::Duration;

use weft_base::Instant;
use weft_link::{Interest as LinkInterest, Link, LinkInfo, RecvBatch, Waker};
use weft_sync::{Mutex, SpinLock};
use weft_wire::{Encapsulation, Packet};

use crate::counters::Tally;
use crate::inflow::{Inflow, Window};
use crate::lanes::{Lanes, Piles};
use crate::slot::{Live, Slot};
use crate::wheel::{Timer, TimerWheel};

/// Packets one turn takes from the link.
pub(crate) const TURN_PACKETS: usize = 256;
/// How long a leader leaves the link to threads that run turns, before it looks whether they did: for up to twice as long a
/// packet may lie there, or a timer be due, after such a thread has gone back to its own work.
pub(crate) const LEADERS_NAP: Duration = Duration::from_micros(250);

/// What whoever runs the turn owns.
pub(crate) struct Turn {
    pub(crate) batch: RecvBatch,
    /// What passed the checks and has not been handed to its slot; empty between turns.
    pub(crate) checked: Vec<(Packet, SocketAddr)>,
    /// The connection that the last packet was for: the next is mostly for it too, and needs no look-up.
    pub(crate) last: Option<Arc<Slot>>,
    pub(crate) window: Window,
    pub(crate) piles: Piles,
    second_fd: Option<RawFd>,
}

/// What the service thread is doing, so that others know how to call it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Service {
    /// It looks again within a millisecond.
    Napping,
    /// It sleeps until it is called: somebody else leads.
    Deep,
    /// It sleeps on the link; or there is none, and dedicated workers do.
    Leading,
}

/// What a port counted.
#[derive(Debug, Default)]
pub(crate) struct PortCounters {
    /// Under the turn's lock.
    pub(crate) turns: Tally,
    pub(crate) busy_turns: Tally,
    /// From several threads, seldom.
    pub(crate) backlogged: AtomicU64,
    pub(crate) sleeps: AtomicU64,
    pub(crate) stuck_drops: AtomicU64,
}

/// What ends the sleep of a leader: a descriptor, written at most once until the leader took notice.
///
/// Races: a thread may be held up between the flag and the write, while the leader, awake for another reason, lowers the
/// flag. Its write then comes without a flag, so what the leader's sleep says of the descriptor counts as well.
#[derive(Debug)]
pub(crate) struct Signal {
    waker: Waker,
    is_raised: AtomicBool,
}

impl Signal {
    pub(crate) fn raise(&self) {
        if !self.is_raised.swap(true, Ordering::SeqCst) {
            self.waker.wake();
        }
    }

    /// Takes notice, also of a write that `is_readable` tells of. What raised it is looked at after this.
    fn lower(&self, is_readable: bool) {
        if is_readable || self.is_raised.load(Ordering::SeqCst) {
            self.waker.drain();
            self.is_raised.store(false, Ordering::SeqCst);
        }
    }
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
    /// When the wheel wants to be looked at, in nanoseconds.
    next_timer: AtomicU64,
    /// When I/O nodes that were left are to be probed, in nanoseconds; under the wheel's lock.
    next_probe: AtomicU64,
    /// Until when the leader sleeps, in nanoseconds; 0 while it is awake.
    sleeps_until: AtomicU64,
    /// Ends the leader's sleep.
    signal: Arc<Signal>,
    is_led: AtomicBool,
    followers: SpinLock<Vec<task::Waker>>,
    service: AtomicU32,
    service_waker: SpinLock<Option<weft_sync::Unparker>>,
    /// A user thread wants to lead in place of the service thread, which then naps.
    is_lead_wanted: AtomicBool,
    /// Somebody waits who runs no turns: a task, or a descriptor in somebody's `epoll`.
    pub(crate) is_watched: AtomicBool,
    /// When a user thread last ran a turn, in nanoseconds.
    pub(crate) user_turn_at: AtomicU64,
    /// The same, or 0 if a thread has fallen asleep since: the leader may have to take over.
    served_at: AtomicU64,
    /// The leader leaves the link to threads that run turns.
    is_napping: AtomicBool,
    /// Longest spin at present, in nanoseconds: see `progress`.
    pub(crate) spin_ns: AtomicU64,
    /// Slots in which messages gather for common packets.
    pub(crate) gathering: SpinLock<Vec<Arc<Slot>>>,
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
        let info = link.info();
        Ok(Self {
            index,
            encapsulation: encapsulation(&info),
            info,
            link,
            turn: Mutex::new(Turn {
                batch: RecvBatch::with_budget(TURN_PACKETS),
                checked: Vec::new(),
                last: None,
                window: Window::new(now),
                piles: Piles::default(),
                second_fd: None,
            }),
            lanes: Lanes::of_workers(workers),
            wheel: SpinLock::new(TimerWheel::new(now)),
            next_timer: AtomicU64::new(u64::MAX),
            next_probe: AtomicU64::new(u64::MAX),
            sleeps_until: AtomicU64::new(0),
            signal: Arc::new(Signal { waker: Waker::new()?, is_raised: AtomicBool::new(false) }),
            is_led: AtomicBool::new(false),
            followers: SpinLock::default(),
            service: AtomicU32::new(Service::Napping as u32),
            service_waker: SpinLock::default(),
            is_lead_wanted: AtomicBool::new(false),
            is_watched: AtomicBool::new(false),
            user_turn_at: AtomicU64::new(0),
            served_at: AtomicU64::new(0),
            is_napping: AtomicBool::new(false),
            spin_ns: AtomicU64::new(u64::try_from(spin.as_nanos()).unwrap_or(u64::MAX)),
            gathering: SpinLock::default(),
            watches_gathering_until: AtomicU64::new(0),
            inflow: Inflow::default(),
            counters: PortCounters::default(),
        })
    }

    /// Takes packets from the link. Who sleeps on its descriptors is woken if there is a new one.
    pub(crate) fn recv(&self, turn: &mut Turn) -> usize {
        // An error of the link is counted by the link; to the engine it is a link that brings nothing.
        let count = self.link.recv(&mut turn.batch).unwrap_or(0);
        let second_fd = self.link.second_fd();
        if second_fd != turn.second_fd {
            turn.second_fd = second_fd;
            self.signal.raise();
        }
        count
    }

    /// The slot goes out of the table. A turn that is under way sees that itself.
    pub(crate) fn forget(&self, slot: &Arc<Slot>) {
        if let Some(mut turn) = self.turn.try_lock()
            && turn.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, slot))
        {
            turn.last = None;
        }
    }

    // ── Timers ────────────────────────────────────────────────────────────────────────────────────────────────

    /// Sees to it that `slot` is looked at by `due`; the caller holds its lock. Costs nothing if the wheel looks at it
    /// earlier anyway: nothing will be due then, and it is armed again.
    #[inline]
    pub(crate) fn arm(&self, slot: &Arc<Slot>, live: &mut Live, due: Instant) {
        if due.as_nanos() < slot.armed.load(Ordering::Relaxed) {
            self.arm_earlier(slot, live, due);
        }
    }

    #[cold]
    fn arm_earlier(&self, slot: &Arc<Slot>, live: &mut Live, due: Instant) {
        let mut wheel = self.wheel.lock();
        slot.armed.store(due.as_nanos(), Ordering::Relaxed);
        let index = u32::try_from(self.index).unwrap_or(u32::MAX);
        let known = live.timer.filter(|(port, _)| *port == index);
        if !known.is_some_and(|(_, timer)| wheel.reschedule(timer, due)) {
            live.timer = Some((index, wheel.schedule(slot.clone(), due)));
        }
        self.next_timer.fetch_min(due.as_nanos(), Ordering::Relaxed);
        drop(wheel);
        self.end_sleep_by(due);
    }

    /// Sees to it that [`Core::probe_sides`](crate::core::Core::probe_sides) is called by `due`.
    #[cold]
    pub(crate) fn arm_probe(&self, due: Instant) {
        let wheel = self.wheel.lock();
        self.next_probe.fetch_min(due.as_nanos(), Ordering::Relaxed);
        self.next_timer.fetch_min(due.as_nanos(), Ordering::Relaxed);
        drop(wheel);
        self.end_sleep_by(due);
    }

    /// Whether it is time to probe; then it is not until that is armed again.
    pub(crate) fn take_probe(&self, now: Instant) -> bool {
        let _wheel = self.wheel.lock();
        let is_due = self.next_probe.load(Ordering::Relaxed) <= now.as_nanos();
        if is_due {
            self.next_probe.store(u64::MAX, Ordering::Relaxed);
        }
        is_due
    }

    fn end_sleep_by(&self, due: Instant) {
        fence(Ordering::SeqCst);
        if due.as_nanos() < self.sleeps_until.load(Ordering::Relaxed) {
            self.signal.raise();
        }
    }

    /// Forgets a timer that may have fired.
    pub(crate) fn disarm(&self, timer: Timer) {
        let slot = self.wheel.lock().cancel(timer);
        drop(slot);
    }

    /// When a timer is due next, in nanoseconds; `u64::MAX` for never.
    #[inline]
    pub(crate) fn next_timer(&self) -> u64 {
        self.next_timer.load(Ordering::Relaxed)
    }

    /// Slots whose timer may be due by `now`, into `expired`.
    pub(crate) fn expire(&self, now: Instant, expired: &mut Vec<Arc<Slot>>) {
        let mut wheel = self.wheel.lock();
        wheel.advance(now, |slot| expired.push(slot));
        let next = wheel.next_due().map_or(u64::MAX, Instant::as_nanos);
        self.next_timer.store(next.min(self.next_probe.load(Ordering::Relaxed)), Ordering::Relaxed);
        for slot in expired.iter() {
            slot.armed.store(u64::MAX, Ordering::Relaxed);
        }
    }

    // ── The leader ────────────────────────────────────────────────────────────────────────────────────────────

    /// What ends the leader's sleep.
    pub(crate) fn signal(&self) -> &Arc<Signal> {
        &self.signal
    }

    /// Takes the lead, unless somebody has it.
    pub(crate) fn try_lead(&self) -> Option<Lead<'_>> {
        let taken = self.is_led.compare_exchange(false, true, Ordering::SeqCst, Ordering::SeqCst);
        taken.is_ok().then(|| Lead { port: self })
    }

    pub(crate) fn is_led(&self) -> bool {
        self.is_led.load(Ordering::SeqCst)
    }

    /// Waits for the lead: `waker` is woken when it is free. Try [`Port::try_lead`] again afterwards. If the leader naps
    /// because the caller ran turns, it is woken.
    pub(crate) fn follow(&self, waker: task::Waker) {
        self.followers.lock().push(waker);
        self.served_at.store(0, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.is_napping.load(Ordering::Relaxed) {
            self.signal.raise();
        }
    }

    /// A user thread runs a turn.
    #[inline]
    pub(crate) fn note_user_turn(&self, now: Instant) {
        self.user_turn_at.store(now.as_nanos(), Ordering::Relaxed);
        self.served_at.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Whether a user thread has run a turn after `at`, and none has fallen asleep since.
    pub(crate) fn is_served_since(&self, at: Instant) -> bool {
        self.served_at.load(Ordering::Relaxed) > at.as_nanos()
    }

    pub(crate) fn unfollow(&self, waker: &task::Waker) {
        self.followers.lock().retain(|other| !other.will_wake(waker));
    }

    // ── The service thread ────────────────────────────────────────────────────────────────────────────────────

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
        if self.service_is(Service::Leading) {
            self.signal.raise();
        } else if self.service_is(Service::Deep) {
            self.call_service();
        }
    }

    /// Somebody waits who runs no turns: the service thread is to look after the port at once.
    pub(crate) fn watch(&self) {
        if !self.is_watched.swap(true, Ordering::SeqCst) {
            self.call_service();
        }
    }

    /// A user thread begins to wait: the service thread is to leave the link to it.
    pub(crate) fn ask_for_lead(&self) {
        if self.service_is(Service::Leading) && !self.is_lead_wanted.swap(true, Ordering::SeqCst) {
            self.signal.raise();
        }
    }

    pub(crate) fn take_lead_wanted(&self) -> bool {
        self.is_lead_wanted.swap(false, Ordering::SeqCst)
    }
}

/// The right to sleep on the link.
pub(crate) struct Lead<'a> {
    port: &'a Port,
}

impl Lead<'_> {
    /// Sleeps until the link has packets, somebody signals, a timer is due, or `limit` is reached. `is_called` is asked
    /// once more after others can see that this thread sleeps.
    pub(crate) fn sleep(&self, now: Instant, limit: Option<Instant>, is_called: impl Fn() -> bool) {
        let port = self.port;
        let mut until = limit.map_or(u64::MAX, Instant::as_nanos);
        if let Some(due) = port.link.next_due() {
            until = until.min((now + due).as_nanos());
        }
        port.sleeps_until.store(until.min(port.next_timer()), Ordering::SeqCst);
        fence(Ordering::SeqCst);
        until = until.min(port.next_timer());
        let own = port.signal.waker.fd();
        let mut fds = [own; 3].map(LinkInterest::readable);
        if !is_called() {
            port.counters.sleeps.fetch_add(1, Ordering::Relaxed);
            let timeout = (until != u64::MAX).then(|| Instant::from_nanos(until).saturating_since(now));
            // A link without a descriptor (a plain loopback) calls the waker's owner through `next_due` only.
            fds[1].fd = port.link.poll_fd().unwrap_or(own);
            fds[2].fd = port.link.second_fd().unwrap_or(own);
            // An error would come back at once; the caller's loop then polls, which is slow but right.
            let _ = weft_link::wait_for(&mut fds, timeout);
        }
        port.sleeps_until.store(0, Ordering::SeqCst);
        port.signal.lower(fds[0].is_ready);
    }

    /// Leaves the link to threads that run turns: sleeps for a while, until somebody signals, one of them falls asleep, or
    /// `limit` is reached. False if nobody serves the link any more: then there is no nap.
    pub(crate) fn nap(&self, now: Instant, limit: Option<Instant>) -> bool {
        let port = self.port;
        let limit = limit.map_or(LEADERS_NAP, |limit| limit.saturating_since(now).min(LEADERS_NAP));
        let mut own = [LinkInterest::readable(port.signal.waker.fd())];
        port.is_napping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let is_served = port.served_at.load(Ordering::Relaxed) != 0;
        if is_served {
            let _ = weft_link::wait_for(&mut own, Some(limit));
        }
        port.is_napping.store(false, Ordering::Relaxed);
        port.signal.lower(own[0].is_ready);
        is_served
    }
}

impl Drop for Lead<'_> {
    /// Hands the lead to a thread that waits for it. That one may be leaving just now, so the service thread, if it
    /// relied on this leader, is called in any case: it never sleeps deeply while nobody leads.
    fn drop(&mut self) {
        self.port.is_led.store(false, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let follower = self.port.followers.lock().pop();
        if let Some(follower) = follower {
            follower.wake();
        }
        if self.port.service_is(Service::Deep) {
            self.port.call_service();
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

    /// A thread held up between the flag and the write of a signal writes after the leader took the flag down.
    #[test]
    fn a_late_signal_ends_one_sleep_and_not_every_other() {
        let link = Arc::new(Udp::bind("127.0.0.1:0".parse().unwrap()).unwrap());
        let port = Port::new(0, link, clock::now(), Duration::ZERO, 0).unwrap();
        let lead = port.try_lead().unwrap();
        port.signal.waker.wake();
        lead.sleep(clock::now(), None, || false);

        let (begin, limit) = (clock::now(), Duration::from_millis(20));
        lead.sleep(begin, Some(begin + limit), || false);
        assert!(clock::now() - begin >= limit, "woken again by the same signal");
    }

    #[test]
    fn a_thread_that_falls_asleep_ends_the_leaders_nap() {
        let link = Arc::new(Udp::bind("127.0.0.1:0".parse().unwrap()).unwrap());
        let port = Port::new(0, link, clock::now(), Duration::ZERO, 0).unwrap();
        let lead = port.try_lead().unwrap();
        let begin = clock::now();
        let later = begin + Duration::from_nanos(1);
        assert!(!lead.nap(begin, None), "nobody has run a turn");

        port.note_user_turn(later);
        assert!(port.is_served_since(begin) && !port.is_served_since(later));
        assert!(lead.nap(begin, None));

        port.is_napping.store(true, Ordering::Relaxed); // as another thread sees it meanwhile
        port.follow(task::Waker::noop().clone());
        assert!(port.signal.is_raised.load(Ordering::Relaxed), "the leader is woken");
        assert!(!port.is_served_since(begin));
        assert!(!lead.nap(begin, None), "it takes over");
    }
}
