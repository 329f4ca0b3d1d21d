//! The threads of the engine: one service thread per port, or dedicated workers.
//!
//! The service thread is there so that acknowledgements, retransmissions and timers happen although no user thread is in
//! a call. While user threads run turns it naps, a millisecond at a time, and never sleeps on the link: so the sender of a
//! packet does not pay for its waking, and it does not take the processor from those who work. When no user thread has
//! run a turn for a millisecond it takes the lead itself, and at once when one left data behind that waits for the window
//! (decision 0066). Who dozes is counted on to look when that is over. When one user thread has led for long it sleeps until that one leaves,
//! as a leader looks at the link and at the timers itself (decision 0111). An idle engine therefore runs nothing at all.
//!
//! Who waits for a descriptor, or as a task, runs no turns while he waits, so the service thread leads for him, and dozes through floods
//! as threads do that wait in a call. Where his loop of events attends the port (see `attendance`) it leaves conversations to that.
//!
//! While messages gather for common packets (see `gather`) its naps are short, so that the last ones leave in time. Where users send much
//! for long it does not take the processor from them (see `deference`).

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weft_base::Instant;
use weft_sync::Parker;

use crate::clock;
use crate::core::Core;
use crate::deference::Deference;
use crate::gather::{is_watching, next_look, watch_nap};
use crate::offer::poll_on;
use crate::port::{LEADERS_PAUSE, Port, Service};
use crate::runner::Runner;

/// A user thread that ran a turn this lately is counted on to run the next.
const PRESENCE: Duration = Duration::from_millis(1);
/// A leader that has slept this long is counted on to sleep on.
const DEEP_AFTER: Duration = Duration::from_millis(20);

/// So many turns of a loop in a row are waited for without a pause.
const LOOPS_TURNS_AWAITED: u32 = 2;

/// A turn is seldom longer: who has it then sleeps in it, or waits for a processor.
const LONG_TURN: Duration = Duration::from_micros(200);

/// The loop of the service thread of port `index`.
pub(crate) fn serve(core: &Arc<Core>, index: usize) {
    let port = core.port(index);
    let parker = Parker::new();
    let mut deference = Deference::of_this_thread();
    let mut leader = Leader { number: port.lead_number(), since: clock::now() };
    port.set_service_waker(parker.unparker());
    while !core.is_stopping.load(Ordering::SeqCst) {
        let now = clock::now();
        core.flush_gathered(port, now);
        deference.look(port, now);
        if leader.is_lasting(port, now) {
            sleep_deeply(port, &parker, &mut deference, now);
            // One that was called, as something gathers, naps for a while: it would be called again.
            leader.since = clock::now();
        } else if is_user_present(port, now) {
            port.fill_lead(now);
            nap(port, &parker, now);
        } else if !lead(core, port, &mut deference) {
            stand_by(port, &parker, &mut deference, now);
        }
    }
}

/// The user thread that leads, as this thread saw it whenever it looked.
struct Leader {
    number: u32,
    since: Instant,
}

impl Leader {
    /// Whether one has led for so long that it is counted on to go on.
    fn is_lasting(&mut self, port: &Port, now: Instant) -> bool {
        let number = port.lead_number();
        if number != self.number {
            *self = Self { number, since: now };
        }
        port.is_led() && now - self.since >= DEEP_AFTER
    }
}

fn user_turn_at(port: &Port) -> Instant {
    Instant::from_nanos(port.user_turn_at.load(Ordering::Relaxed))
}

/// Whether a user thread makes progress: it has run a turn lately, or is to.
fn is_user_busy(port: &Port, now: Instant) -> bool {
    now - user_turn_at(port).max(port.dozes_until()) < PRESENCE
}

/// Whether that is enough: nobody waits who depends on this thread, nobody left data behind, and no loop leaves the timers to it.
fn is_user_present(port: &Port, now: Instant) -> bool {
    is_user_busy(port, now)
        && !port.is_watched.load(Ordering::SeqCst)
        && !port.is_attended()
        && !port.is_missed(now)
}

fn nap(port: &Port, parker: &Parker, now: Instant) {
    port.set_service(Service::Napping);
    if is_watching(port, now) {
        parker.park_timeout(watch_nap(port, now));
    } else {
        // Twice as long is soon enough, if something else wakes the processor by then.
        let nap = port.dozes_until() - now + PRESENCE;
        weft_link::with_slack(PRESENCE, || parker.park_timeout(nap));
    }
}

/// Leads until a user thread wants to, or runs turns itself. False if somebody else leads. Where a loop of the user's attends the
/// port, and what comes wakes that one again and again, it sees to the timers alone.
fn lead(core: &Arc<Core>, port: &Port, deference: &mut Deference) -> bool {
    let Some(lead) = port.try_lead() else { return false };
    port.set_service(Service::Leading);
    let (mut heard_at, mut is_left_to_loop, mut kept_out) = (None, false, 0);
    let mut dozed_at = None;
    loop {
        let taken = core.try_turn(port, Runner::Service, clock::now());
        kept_out = if taken.is_some() { 0 } else { kept_out + 1 };
        let now = clock::now();
        if let (Some(_), Some((begin, before))) = (taken, dozed_at.take()) {
            port.inflow.note_doze_for_others(begin, port.inflow.packets() - before, now);
        }
        core.flush_gathered(port, now);
        deference.look(port, now);
        let is_done =
            port.take_lead_wanted() || is_user_present(port, now) || core.is_stopping.load(Ordering::SeqCst);
        if is_done {
            break;
        }
        let is_flooded = port.inflow.is_flooded();
        port.leave_to_service(is_flooded.then(|| now + port.inflow.doze() + PRESENCE));
        if is_flooded {
            if taken.is_none() || !port.inflow.is_behind() {
                dozed_at = Some((now, port.inflow.packets()));
                weft_link::doze(port.inflow.doze());
            }
            continue;
        }
        let look = deference.sleep_until(next_look(port, now), now);
        let is_stopping = || core.is_stopping.load(Ordering::SeqCst);
        core.settle_timers(port, now);
        is_left_to_loop &= port.is_attended() && is_user_busy(port, now);
        if is_left_to_loop {
            lead.sleep_off_link(now, look.unwrap_or(Instant::MAX).min(now + PRESENCE), is_stopping);
        } else if (1..=LOOPS_TURNS_AWAITED).contains(&kept_out) && port.is_attended() {
            // The same packets have woken it, and it is at work.
            std::thread::yield_now();
        } else if kept_out > 0 {
            lead.pause(LEADERS_PAUSE, now, None);
        } else if lead.sleep(now, look, is_stopping) && port.is_attended() {
            // The same packets have woken the loop, and it may be next on this processor.
            std::thread::yield_now();
            let now = clock::now();
            is_left_to_loop = heard_at.replace(now).is_some_and(|before| now - before < PRESENCE);
        }
    }
    port.leave_to_service(None);
    port.is_watched.store(false, Ordering::SeqCst);
    port.set_service(Service::Napping);
    drop(lead);
    true
}

/// Somebody else leads: naps, and after a while sleeps until that one leaves.
fn stand_by(port: &Port, parker: &Parker, deference: &mut Deference, now: Instant) {
    if now - user_turn_at(port) < DEEP_AFTER {
        nap(port, parker, now);
    } else {
        sleep_deeply(port, parker, deference, now);
    }
}

/// Sleeps until the one that leads leaves, or something gathers; naps if it does.
fn sleep_deeply(port: &Port, parker: &Parker, deference: &mut Deference, now: Instant) {
    port.set_service(Service::Deep);
    if next_look(port, now).is_some() {
        nap(port, parker, now);
    } else if port.is_led() {
        deference.end();
        parker.park();
    }
    port.set_service(Service::Napping);
}

/// The loop of dedicated worker `number` of port `index`.
pub(crate) fn work(core: &Arc<Core>, index: usize, number: usize, spin: bool) {
    let port = core.port(index);
    let parker = Parker::new();
    port.set_service_waker(parker.unparker());
    port.set_service(Service::Dedicated);
    let (mut busy_at, mut idle_turns) = (clock::now(), 0_u32);
    while !core.is_stopping.load(Ordering::SeqCst) {
        let taken = core.try_turn(port, Runner::Worker(number), clock::now());
        let now = clock::now();
        core.flush_gathered(port, now);
        match taken {
            Some(count) if count > 0 => (busy_at, idle_turns) = (now, 0),
            Some(_) if spin => {
                idle_turns = idle_turns.wrapping_add(1);
                poll_on(idle_turns);
            }
            // What the one that has the turn deals may be ours in a moment; or it needs this processor.
            None if spin && port.lanes.is_some() && now - busy_at < LONG_TURN => std::thread::yield_now(),
            _ => {
                // The link stays readable while who has the turn or a lane is kept from going on, and to sleep on it takes no time then.
                // Of threads with one real-time priority that one would never get the processor.
                std::thread::yield_now();
                rest(core, port, &parker);
            }
        }
    }
}

/// A worker with nothing to do sleeps on the link, or naps while another does.
fn rest(core: &Arc<Core>, port: &Port, parker: &Parker) {
    let now = clock::now();
    let Some(lead) = port.try_lead() else {
        parker.park_timeout(next_look(port, now).map_or(PRESENCE, |look| look - now));
        return;
    };
    lead.sleep(now, next_look(port, now), || core.is_stopping.load(Ordering::SeqCst));
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;
    use crate::conversation::LIMIT;
    use crate::progress::Condition;
    use crate::waiters::{Interest, Waiters, Wake};
    use crate::{Engine, Settings};

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn who_dozes_is_present_until_it_is_to_look() {
        let settings = Settings { bind: "127.0.0.1:0".parse().unwrap(), ..Settings::default() };
        let engine = Engine::open(settings).unwrap();
        let port = engine.core().port(0);
        let now = clock::now();
        port.note_user_turn(now);
        port.doze(MS, now);
        let is_busy = |after_us| is_user_busy(port, now + Duration::from_micros(after_us));
        assert!(is_busy(1_900) && !is_busy(2_000));
        port.note_user_turn(now + 2 * MS);
        assert!(is_busy(2_900) && !is_busy(3_000));
    }

    /// It naps where threads run turns, unless one of them all leads: that one looks itself.
    #[test]
    fn who_leads_for_long_leaves_nothing_to_the_service_thread() {
        let settings =
            Settings { bind: "127.0.0.1:0".parse().unwrap(), spin: Duration::ZERO, ..Settings::default() };
        let engine = Engine::open(settings).unwrap();
        let (core, port) = (engine.core(), engine.core().port(0));
        let waiters = Waiters::default();
        let (deadline, is_done) = (clock::now() + LIMIT, AtomicBool::new(false));
        let until = |doing: fn(&Port) -> bool| {
            while !doing(port) {
                assert!(clock::now() < deadline);
                thread::sleep(MS);
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    core.try_turn(port, Runner::User, clock::now());
                    thread::sleep(MS / 10);
                }
            });
            scope.spawn(|| {
                let condition = Condition {
                    waiters: &waiters,
                    interest: Interest::Readable,
                    deadline: Some(deadline),
                    slot: None,
                };
                assert!(core.wait(|| 0, condition, None));
            });
            until(|port| port.service_is(Service::Deep));
            let mut wakes = Vec::new();
            waiters.set(Interest::Readable.bit(), 0, &mut wakes);
            wakes.into_iter().for_each(Wake::run);
            until(|port| port.service_is(Service::Napping) && !port.is_led());
            is_done.store(true, Ordering::Relaxed);
        });
    }
}
