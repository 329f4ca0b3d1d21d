//! What those are to be told whose peer is killed, or who have lost their way to it, and when.

use std::time::Duration;

use weft_socket::EndReason;

use crate::case::{After, Case, Killed, State, Survivor};
use crate::times::{EXPIRY, FIN_GIVE_UP, GIVE_UP, PIN_INTERVAL, SYN_TIME};

/// What a process says that knows of nothing; a short packet leaves its answer no room for the reason (CDP-RST-3).
const UNKNOWN: &[EndReason] = &[EndReason::Unknown, EndReason::None];
/// What a busy machine may add to any time.
const SLACK: Duration = Duration::from_secs(3);
/// How long a connection that lives may stand still: some time-outs of retransmission, each twice as long as the one before.
const STANDSTILL: Duration = Duration::from_secs(1);

/// What the survivor is to learn.
pub(crate) struct Expected {
    /// Any of these; none where nobody is told.
    pub(crate) reasons: &'static [EndReason],
    /// No earlier than.
    pub(crate) least: Duration,
    /// And no later than.
    pub(crate) most: Duration,
}

impl Expected {
    /// Whether it came to that.
    pub(crate) fn holds(&self, told: Option<EndReason>, after: Duration) -> bool {
        let is_right = told.map_or(self.reasons.is_empty(), |reason| self.reasons.contains(&reason));
        is_right && (self.least..=self.most).contains(&after)
    }

    /// The same in the words of a process: a reason, or that its close was confirmed, or that it was not.
    pub(crate) fn holds_in_words(&self, told: &str, after: Duration) -> bool {
        let told =
            if told == "closed" { EndReason::Done.name() } else { told.trim_start_matches("unconfirmed ") };
        let is_right = self.reasons.iter().any(|reason| reason.name() == told);
        is_right && (self.least..=self.most).contains(&after)
    }
}

impl Case {
    /// What the survivor learns, and when: counted from the kill, or from when it is answered or reads or sends again.
    pub(crate) fn expected(self) -> Expected {
        if self.goes_on() {
            return self.expected_of_living();
        }
        if self.killed == Killed::IoNodes {
            // [CDP-ENC-10] What the host of an I/O node says does not concern the peer: it is as if nobody said anything.
            return Self { killed: Killed::Peer, after: After::Darkness, ..self }.expected();
        }
        use EndReason as R;
        let (reasons, least, most): (&[R], Duration, Duration) = match (self.state, self.after) {
            // An answer within a round trip of the next packet, which a timer sends within 250 ms.
            (State::Opening, After::Restart) => (&[R::Refused], Duration::ZERO, Duration::from_millis(250)),
            // A packet may have met the port between the two processes.
            (State::BothOpening, After::Restart) => {
                (&[R::Unknown, R::Refused], Duration::ZERO, Duration::from_millis(250))
            }
            (State::Opening | State::BothOpening, After::Refusal) => {
                (&[R::Refused], Duration::ZERO, Duration::from_millis(250))
            }
            // It began to open before the kill.
            (State::Opening | State::BothOpening, After::Darkness) => {
                (&[R::GaveUp], SYN_TIME / 2, SYN_TIME * 6 / 5)
            }
            // A listener's half-open connection says nothing of its own accord, and nobody waits for it.
            (State::HalfOpen, _) => (&[], Duration::ZERO, SYN_TIME * 6 / 5),
            (State::Idle | State::Receiving, after) => return self.expected_of_silence(after),
            (State::Woken | State::Full, After::Restart) => {
                (UNKNOWN, Duration::ZERO, Duration::from_millis(250))
            }
            (State::Sending | State::Blocked, After::Restart) => {
                (UNKNOWN, Duration::ZERO, Duration::from_millis(250))
            }
            (State::Woken | State::Sending | State::Blocked | State::Full, After::Refusal) => {
                (&[R::Died], Duration::from_millis(500), Duration::from_millis(1_500))
            }
            (State::Woken | State::Sending | State::Blocked, After::Darkness) => {
                // Eight tries may take longer than the time, and a server's EXPIRY comes then.
                (&[R::GaveUp, R::Idle], GIVE_UP * 4 / 5, GIVE_UP * 6 / 5 + Duration::from_millis(250))
            }
            (State::Full, After::Darkness) => return self.expected_of_silence(After::Darkness),
            (State::FinWait | State::HeldFin, After::Restart) => {
                (UNKNOWN, Duration::ZERO, Duration::from_millis(250))
            }
            (State::FinWait | State::HeldFin, After::Refusal | After::Darkness) => {
                (&[R::Done], Duration::ZERO, FIN_GIVE_UP * 6 / 5)
            }
            // An answer to the acknowledgement of the FIN is noted, and changes nothing.
            (State::CloseWait, _) => (&[R::Done, R::Unknown, R::None], Duration::ZERO, Duration::ZERO),
            (State::Quiet, _) => (&[], Duration::ZERO, Duration::from_secs(2)),
        };
        Expected { reasons, least, most: most + SLACK }
    }

    /// What an end learns that has nothing to send: a client by its PINs, a server by EXPIRY.
    fn expected_of_silence(self, after: After) -> Expected {
        use EndReason as R;
        let pin = PIN_INTERVAL * 11 / 10;
        let (reasons, least, most): (&[R], Duration, Duration) = match (self.survivor, after) {
            (Survivor::Client, After::Restart) => (UNKNOWN, Duration::ZERO, pin),
            (Survivor::Client, After::Refusal) => {
                (&[R::Died], Duration::from_millis(900), pin + Duration::from_millis(1_500))
            }
            (Survivor::Client, After::Darkness) => (&[R::Idle], EXPIRY / 2, pin + EXPIRY * 6 / 5),
            // A last acknowledgement may still have met the closed port, or the new process.
            (Survivor::Server, After::Restart) => {
                (&[R::Idle, R::Unknown, R::None], Duration::ZERO, EXPIRY * 6 / 5)
            }
            (Survivor::Server, After::Refusal) => {
                (&[R::Idle, R::Died], Duration::from_millis(900), EXPIRY * 6 / 5)
            }
            (Survivor::Server, After::Darkness) => (&[R::Idle], EXPIRY / 2, EXPIRY * 6 / 5),
        };
        Expected { reasons, least, most: most + SLACK }
    }

    /// No end, and what is closed or was never anybody's business ends as ever.
    fn expected_of_living(self) -> Expected {
        let (reasons, most): (&[EndReason], _) = match self.state {
            State::FinWait | State::HeldFin | State::CloseWait => (&[EndReason::Done], STANDSTILL),
            // QUIET_TIME is that of the short times.
            State::Quiet => (&[], Duration::from_secs(2)),
            State::Opening | State::HalfOpen | State::BothOpening | State::Idle | State::Woken => {
                (&[], STANDSTILL)
            }
            State::Sending | State::Blocked | State::Receiving | State::Full => (&[], STANDSTILL),
        };
        Expected { reasons, least: Duration::ZERO, most: most + SLACK }
    }

    /// What the other end learns when all I/O nodes are gone; `None` where it has no connection to be told of.
    pub(crate) fn expected_of_peer(self) -> Option<Expected> {
        let survivor = match self.survivor {
            Survivor::Client => Survivor::Server,
            Survivor::Server => Survivor::Client,
        };
        let state = match self.state {
            // Its listener goes on.
            State::Opening => return None,
            State::HalfOpen | State::BothOpening => State::Opening,
            State::Idle | State::Woken => State::Idle,
            State::Sending | State::Blocked => State::Receiving,
            State::Receiving => State::Sending,
            State::Full => State::Blocked,
            State::CloseWait => State::FinWait,
            // Its end of file lay there when it went on, or did not come through.
            State::FinWait => {
                let silence = Self { state: State::Idle, survivor, ..self }.expected();
                let reasons = &[EndReason::Done, EndReason::Idle];
                return Some(Expected { reasons, least: Duration::ZERO, ..silence });
            }
            // It has read the end of file.
            State::HeldFin | State::Quiet => {
                return Some(Expected { reasons: &[EndReason::Done], least: Duration::ZERO, most: SLACK });
            }
        };
        Some(Self { state, survivor, ..self }.expected())
    }
}
