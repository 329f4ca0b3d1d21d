//! What is killed when, and what its peer is to be told.

use std::fmt;
use std::time::Duration;

use weft_socket::{EndReason, Options, Service};

/// Times of section 12, scaled down.
pub(crate) const PIN_INTERVAL: Duration = Duration::from_secs(1);
pub(crate) const EXPIRY: Duration = Duration::from_secs(2);
const SYN_TIME: Duration = Duration::from_secs(2);
const FIN_GIVE_UP: Duration = Duration::from_secs(2);
const GIVE_UP: Duration = Duration::from_millis(1_500);
/// What a process says that knows of nothing; a short packet leaves its answer no room for the reason (CDP-RST-3).
const UNKNOWN: &[EndReason] = &[EndReason::Unknown, EndReason::None];
/// What a busy machine may add to any of them.
const SLACK: Duration = Duration::from_secs(3);

/// What the survivor's end is in when its peer is killed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum State {
    /// SYN_SENT.
    Opening,
    /// SYN_RCVD, made by a listener.
    HalfOpen,
    /// SYN_RCVD, in a simultaneous open.
    BothOpening,
    /// ESTABLISHED, and nobody sends.
    Idle,
    /// The same, and the survivor has something to say afterwards.
    Woken,
    /// ESTABLISHED, the survivor sends.
    Sending,
    /// ESTABLISHED, the survivor has more to send than its peer has room for.
    Blocked,
    /// ESTABLISHED, the survivor receives.
    Receiving,
    /// ESTABLISHED, the survivor has not read what fills its window.
    Full,
    /// FIN_WAIT.
    FinWait,
    /// FIN_WAIT, while the peer's user has not read everything (CONFIRM).
    HeldFin,
    /// CLOSE_WAIT.
    CloseWait,
    /// QUIET.
    Quiet,
}

impl State {
    const ALL: [Self; 13] = [
        Self::Opening,
        Self::HalfOpen,
        Self::BothOpening,
        Self::Idle,
        Self::Woken,
        Self::Sending,
        Self::Blocked,
        Self::Receiving,
        Self::Full,
        Self::FinWait,
        Self::HeldFin,
        Self::CloseWait,
        Self::Quiet,
    ];

    /// As the specification calls it, and what goes on.
    fn name(self) -> &'static str {
        match self {
            Self::Opening => "SYN_SENT",
            Self::HalfOpen => "SYN_RCVD",
            Self::BothOpening => "SYN_RCVD, simultaneous",
            Self::Idle => "ESTABLISHED, idle",
            Self::Woken => "ESTABLISHED, sends afterwards",
            Self::Sending => "ESTABLISHED, sending",
            Self::Blocked => "ESTABLISHED, peer's window closed",
            Self::Receiving => "ESTABLISHED, receiving",
            Self::Full => "ESTABLISHED, own window closed",
            Self::FinWait => "FIN_WAIT",
            Self::HeldFin => "FIN_WAIT, confirm",
            Self::CloseWait => "CLOSE_WAIT",
            Self::Quiet => "QUIET",
        }
    }
}

/// Which end survives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Survivor {
    Client,
    Server,
}

/// What becomes of the place that the killed process leaves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum After {
    /// Another process takes its UDP port at once.
    Restart,
    /// Nobody does: the host says so by ICMP.
    Refusal,
    /// The whole host is gone.
    Darkness,
}

/// One way to die.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Case {
    pub(crate) state: State,
    pub(crate) survivor: Survivor,
    pub(crate) after: After,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let survivor = match self.survivor {
            Survivor::Client => "server killed",
            Survivor::Server => "client killed",
        };
        let after = match self.after {
            After::Restart => "restarted",
            After::Refusal => "port closed",
            After::Darkness => "unreachable",
        };
        let text = format!("{:<34} {survivor:<14} {after}", self.state.name());
        f.pad(&text)
    }
}

/// What the survivor is to learn.
pub(crate) struct Expected {
    /// Any of these; none where nobody is told.
    pub(crate) reasons: &'static [EndReason],
    /// No earlier than.
    pub(crate) least: Duration,
    /// And no later than.
    pub(crate) most: Duration,
}

impl Case {
    /// All of them.
    pub(crate) fn all() -> Vec<Self> {
        let mut cases = Vec::new();
        for state in State::ALL {
            for survivor in [Survivor::Client, Survivor::Server] {
                for after in [After::Restart, After::Refusal, After::Darkness] {
                    let case = Self { state, survivor, after };
                    if case.exists() {
                        cases.push(case);
                    }
                }
            }
        }
        cases
    }

    fn exists(self) -> bool {
        let is_client = self.survivor == Survivor::Client;
        match self.state {
            State::Opening | State::BothOpening => is_client,
            State::HalfOpen => !is_client,
            State::Idle | State::Woken | State::Sending | State::Blocked | State::Receiving | State::Full => {
                true
            }
            State::FinWait | State::HeldFin | State::CloseWait | State::Quiet => true,
        }
    }

    /// What both ends ask for.
    pub(crate) fn options(self, service: Service) -> Options {
        Options::of(service)
            .keepalive(PIN_INTERVAL, EXPIRY)
            .connect_timeout(SYN_TIME)
            .close_timeout(FIN_GIVE_UP)
            .give_up(GIVE_UP)
            .rto_init(Duration::from_millis(50))
            .receive_slots(64)
            .send_bytes(256 << 10)
            .confirm(self.state == State::HeldFin)
    }

    /// What the survivor learns, and when: counted from the kill, or from when it is answered or reads or sends again.
    pub(crate) fn expected(self) -> Expected {
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
            (State::Opening | State::BothOpening, After::Darkness) => {
                (&[R::GaveUp], SYN_TIME * 4 / 5, SYN_TIME * 6 / 5)
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
}
