//! The timers of one connection: an enum and an array.

use weft_base::Instant;

/// One documented line each; the names of section 12 in brackets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(crate) enum Timer {
    /// Repeat SYN, SYN|ACK, or the third packet of the open (the SYN timer of rows 14, 20 and 26).
    Syn,
    /// The open has been tried for SYN_TIME.
    SynGiveUp,
    /// A delayed acknowledgement is due (ACK_DELAY).
    Ack,
    /// The oldest number has waited one RTO.
    Retransmit,
    /// The tail of the flight has waited two round trips: probe it (CDP-RTX-5).
    TailProbe,
    /// A number may now be declared lost (the reorder window of CDP-RTX-5).
    Reorder,
    /// The window is closed and data waits (PERSIST).
    Persist,
    /// The pacer lets the next packet go.
    Pace,
    /// A client has been silent for PIN_INTERVAL.
    Pin,
    /// The peer has been silent for EXPIRY.
    Expiry,
    /// A FIN has been tried for FIN_GIVE_UP.
    FinGiveUp,
    /// QUIET ends (QUIET_TIME).
    Quiet,
    /// QUIET ends for good: 60 s in all.
    QuietEnd,
    /// A probe of the path MTU is due or has been lost.
    Mtu,
    /// A closed window has not opened for NO_PROGRESS.
    NoProgress,
}

const COUNT: usize = Timer::NoProgress as usize + 1;

const ALL: [Timer; COUNT] = [
    Timer::Syn,
    Timer::SynGiveUp,
    Timer::Ack,
    Timer::Retransmit,
    Timer::TailProbe,
    Timer::Reorder,
    Timer::Persist,
    Timer::Pace,
    Timer::Pin,
    Timer::Expiry,
    Timer::FinGiveUp,
    Timer::Quiet,
    Timer::QuietEnd,
    Timer::Mtu,
    Timer::NoProgress,
];

/// When each timer fires; [`Instant::MAX`] where it is stopped.
#[derive(Clone, Debug)]
pub(crate) struct Timers {
    due: [Instant; COUNT],
}

impl Default for Timers {
    fn default() -> Self {
        Self { due: [Instant::MAX; COUNT] }
    }
}

impl Timers {
    pub(crate) fn set(&mut self, timer: Timer, due: Instant) {
        self.due[timer as usize] = due;
    }

    pub(crate) fn set_if_stopped(&mut self, timer: Timer, due: Instant) {
        if !self.is_set(timer) {
            self.set(timer, due);
        }
    }

    pub(crate) fn stop(&mut self, timer: Timer) {
        self.set(timer, Instant::MAX);
    }

    pub(crate) fn stop_all(&mut self) {
        self.due = [Instant::MAX; COUNT];
    }

    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.due[timer as usize] != Instant::MAX
    }

    /// The earliest of all, if any is set.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.iter().copied().min().filter(|due| *due != Instant::MAX)
    }

    /// Stops and names one timer that is due by `now`.
    pub(crate) fn take_expired(&mut self, now: Instant) -> Option<Timer> {
        let timer = ALL.into_iter().find(|timer| self.due[*timer as usize] <= now)?;
        self.stop(timer);
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_once_and_the_next_is_the_earliest() {
        let mut timers = Timers::default();
        assert_eq!(timers.next(), None);
        timers.set(Timer::Retransmit, Instant::from_nanos(9));
        timers.set(Timer::Ack, Instant::from_nanos(5));
        assert_eq!(timers.next(), Some(Instant::from_nanos(5)));
        assert_eq!(timers.take_expired(Instant::from_nanos(4)), None);
        assert_eq!(timers.take_expired(Instant::from_nanos(9)), Some(Timer::Ack));
        assert_eq!(timers.take_expired(Instant::from_nanos(9)), Some(Timer::Retransmit));
    }

    #[test]
    fn a_running_timer_keeps_its_time_when_started_again() {
        let mut timers = Timers::default();
        timers.set_if_stopped(Timer::Ack, Instant::from_nanos(5));
        timers.set_if_stopped(Timer::Ack, Instant::from_nanos(7));
        assert_eq!(timers.next(), Some(Instant::from_nanos(5)));
    }
}
