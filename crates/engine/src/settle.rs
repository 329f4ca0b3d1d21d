//! Before a sleep: timers that were put off since they were armed do not end it.
//!
//! A slot is armed for the earliest that was ever due, and looked at then, whatever has become of that: to move its timer with each packet
//! would cost each of them a lock. Who sleeps has the time, and a wake for nothing takes longer than what is done here (decision 0055).

use std::sync::Arc;

use weft_base::Instant;

use crate::core::Core;
use crate::port::{Port, SOON};
use crate::slot::Slot;

/// So many slots are looked at: those of the peers that something just came from.
const SLOTS_MAX: usize = 4;

impl Core {
    /// Puts off timers of the port that are armed for too early, as far as they would end a sleep from `now` on within [`SOON`].
    pub(crate) fn settle_timers(&self, port: &Port, now: Instant) {
        if port.next_timer() > (now + SOON).as_nanos() {
            return;
        }
        for _ in 0..SLOTS_MAX {
            let is_put_off = port
                .first_timer(now, now + SOON)
                .is_some_and(|(slot, due)| self.put_off(port, &slot, due, now));
            if !is_put_off {
                return;
            }
        }
    }

    /// Whether nothing is to be done for the slot at `due`, for which it is armed, and its timer was put off.
    fn put_off(&self, port: &Port, slot: &Arc<Slot>, due: Instant, now: Instant) -> bool {
        let Some(mut live) = slot.try_lock() else { return false };
        let next = live.connection.poll_timeout().filter(|&next| next > due);
        let is_put_off = next.is_some_and(|next| port.put_off(slot, &mut live, next));
        if let Err(wanted) = live.leave() {
            self.work(port, slot, wanted, now);
        }
        is_put_off
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::Ordering;
    use std::thread;
    use std::time::Duration;

    use crate::conversation::{Conversation, LIMIT};
    use crate::waiters::Interest;

    /// Who answers a question each 6 ms is woken for the question, and when his answer is acknowledged, 1 ms later. His timers for either, of 1 and 3 ms,
    /// are put off before they pass.
    #[test]
    fn timers_that_were_put_off_wake_nobody() {
        const QUESTIONS: u64 = 20;
        let Conversation { here, asks, there, answers } = Conversation::open();
        let counters = &there.core().port(0).counters;

        // Before, it was four and more; on a busy machine some come late.
        let few = (0..5).any(|_| {
            let before = counters.sleeps.load(Ordering::Relaxed);
            thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..QUESTIONS {
                        there.recv_within(&answers, &mut [0; 16], Some(LIMIT)).unwrap();
                        there.send(&answers, b"answer").unwrap();
                    }
                });
                for _ in 0..QUESTIONS {
                    here.send(&asks, b"question").unwrap();
                    assert!(here.wait(&asks, Interest::Readable, Some(here.now() + LIMIT)));
                    assert_eq!(here.recv(&asks, &mut [0; 16]).unwrap().len, 6);
                    thread::sleep(Duration::from_millis(6));
                }
            });
            counters.sleeps.load(Ordering::Relaxed) - before <= QUESTIONS * 5 / 2
        });
        assert!(few, "more than {} sleeps for {QUESTIONS} questions", QUESTIONS * 5 / 2);
    }
}
