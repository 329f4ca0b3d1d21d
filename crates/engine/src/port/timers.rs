//! When the slots of a port are to be looked at, whatever comes in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use weft_base::Instant;
use weft_link::RecvBatch;

use super::Port;
use crate::slot::{Live, Slot};
use crate::wheel::Timer;

/// Timers among which the first is looked for.
const LOOKED_AT_MAX: usize = 32;
/// How long nothing large has come before its memory is given back, up to twice.
const REST: Duration = Duration::from_secs(1);

impl Port {
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

    /// The slot whose timer is due first, and when, if that is after `now` and not after `limit`.
    pub(crate) fn first_timer(&self, now: Instant, limit: Instant) -> Option<(Arc<Slot>, Instant)> {
        let mut wheel = self.wheel.lock();
        let (_, due, slot) = wheel.first(LOOKED_AT_MAX)?;
        let found = (now < due && due <= limit).then(|| (slot.clone(), due));
        self.next_timer.store(self.or_own(due.as_nanos()), Ordering::Relaxed);
        found
    }

    /// Moves the timer of `slot` to later; the caller holds its lock. False if it is not here.
    pub(crate) fn put_off(&self, slot: &Slot, live: &mut Live, due: Instant) -> bool {
        let index = u32::try_from(self.index).unwrap_or(u32::MAX);
        let Some((_, timer)) = live.timer.filter(|(port, _)| *port == index) else { return false };
        let mut wheel = self.wheel.lock();
        let is_moved = wheel.reschedule(timer, due);
        if is_moved {
            // Under the wheel's lock: whoever takes the entry out of it meanwhile says after this that there is none.
            slot.armed.store(due.as_nanos(), Ordering::Relaxed);
        }
        is_moved
    }

    /// When the port itself has something to do, if that is before `due`; all in nanoseconds.
    fn or_own(&self, due: u64) -> u64 {
        [&self.next_probe, &self.next_rest]
            .into_iter()
            .fold(due, |due, own| due.min(own.load(Ordering::Relaxed)))
    }

    /// Sees to it that [`Core::probe_sides`](crate::core::Core::probe_sides) is called by `due`.
    #[cold]
    pub(crate) fn arm_probe(&self, due: Instant) {
        self.arm_own(&self.next_probe, due);
    }

    /// Whether it is time to probe; then it is not until that is armed again.
    pub(crate) fn take_probe(&self, now: Instant) -> bool {
        self.take_own(&self.next_probe, now)
    }

    /// Something came at `now`: the memory that a flood left is given back when it has not been needed for [`REST`].
    #[inline]
    pub(crate) fn note_memory(&self, batch: &RecvBatch, now: Instant) {
        if batch.may_rest() && self.next_rest.load(Ordering::Relaxed) == u64::MAX {
            self.arm_own(&self.next_rest, now + REST);
        }
    }

    /// Gives it back if that is due.
    pub(crate) fn rest(&self, batch: &mut RecvBatch, now: Instant) {
        if self.take_own(&self.next_rest, now) && !batch.rest() {
            self.arm_own(&self.next_rest, now + REST);
        }
    }

    /// For what the port itself is to do by `due`.
    #[cold]
    fn arm_own(&self, next: &AtomicU64, due: Instant) {
        let wheel = self.wheel.lock();
        next.fetch_min(due.as_nanos(), Ordering::Relaxed);
        self.next_timer.fetch_min(due.as_nanos(), Ordering::Relaxed);
        drop(wheel);
        self.end_sleep_by(due);
    }

    /// Whether that is due; then it is not until it is armed again.
    fn take_own(&self, next: &AtomicU64, now: Instant) -> bool {
        let _wheel = self.wheel.lock();
        let is_due = next.load(Ordering::Relaxed) <= now.as_nanos();
        if is_due {
            next.store(u64::MAX, Ordering::Relaxed);
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
        self.next_timer.store(self.or_own(next), Ordering::Relaxed);
        for slot in expired.iter() {
            slot.armed.store(u64::MAX, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::Duration;

    use weft_link::{Link, SendBatch, Udp, UdpOptions};
    use weft_sync::face::Spin;

    use super::*;
    use crate::clock;
    use crate::directory::Way;
    use crate::gather::Gather;
    use crate::port::tests::port;
    use crate::side::tests::connection;

    /// Who puts a timer off and who takes it out of the wheel meanwhile agree on whether there is one: else nobody would ever arm it again.
    #[test]
    fn a_timer_that_is_put_off_as_it_fires_is_not_lost() {
        const SECOND: Duration = Duration::from_secs(1);
        let port = port();
        let way = Way::Direct(port.link.info().local);
        let slot = Arc::new(Slot::new(connection(), way, 0, 0, Gather::Off, None));
        let (is_over, begin) = (AtomicBool::new(false), clock::now());
        let is_armed = || slot.armed.load(Ordering::Relaxed) != u64::MAX;
        let is_lost = thread::scope(|scope| {
            scope.spawn(|| {
                let mut expired = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    port.expire(clock::now() + SECOND, &mut expired);
                    expired.clear();
                }
            });
            // In so many rounds it was in two runs of three; on a busy machine there are fewer.
            let is_lost = (0..1_000_000).take_while(|_| clock::now() - begin < 3 * SECOND).any(|_| {
                let mut live = slot.lock();
                let now = clock::now();
                port.arm(&slot, &mut live, now + 2 * SECOND);
                port.put_off(&slot, &mut live, now);
                assert!(live.leave().is_ok());
                let mut spin = Spin::default();
                while is_armed() && clock::now() - now < 60 * SECOND {
                    if !spin.look_again() {
                        spin.give_way();
                    }
                }
                is_armed()
            });
            is_over.store(true, Ordering::Relaxed);
            is_lost
        });
        assert!(!is_lost, "it is said to be there, and never fires");
    }

    #[test]
    fn what_a_flood_left_is_given_back_when_it_has_been_over_for_a_while() {
        let bind = |options: &UdpOptions| Udp::bind_with("127.0.0.1:0".parse().unwrap(), options).unwrap();
        let sender = bind(&UdpOptions::default());
        let link = Arc::new(bind(&UdpOptions { direct: false, ..UdpOptions::default() }));
        let now = clock::now();
        let port = Port::new(0, link.clone(), now, Duration::ZERO, 0).unwrap();
        let mut batch = RecvBatch::with_budget(1_000);
        let flood = |packets: usize, batch: &mut RecvBatch| {
            for _ in 0..packets {
                let mut out = SendBatch::new();
                out.push_slice(link.info().local, &[7; 60_000]);
                sender.send(&mut out).unwrap();
                weft_link::wait(&link.poll_fds(), None).unwrap();
                link.recv(batch).unwrap();
            }
            assert_eq!(batch.drain().count(), packets);
        };

        flood(20, &mut batch);
        port.note_memory(&batch, now);
        assert_eq!(port.next_timer(), u64::MAX, "a little is kept");

        flood(100, &mut batch);
        port.note_memory(&batch, now);
        assert_eq!(port.next_timer(), (now + REST).as_nanos());
        port.rest(&mut batch, now + REST);
        assert!(batch.may_rest(), "it was in use until now");
        port.rest(&mut batch, now + REST);
        assert!(batch.may_rest(), "it is not time yet");
        port.rest(&mut batch, now + 2 * REST);
        assert!(!batch.may_rest());

        port.expire(now + 2 * REST, &mut Vec::new());
        assert_eq!(port.next_timer(), u64::MAX, "nobody is woken for it again");
    }
}
