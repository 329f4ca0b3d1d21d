//! What is killed when.

use std::fmt;

use crate::times::Times;

/// What the survivor's end is in when something is killed.
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

/// What is killed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Killed {
    /// The process at the other end.
    Peer,
    /// The I/O node between the ends that both have as their default; there is another one.
    IoNode,
    /// All I/O nodes between the ends.
    IoNodes,
}

/// What becomes of the place that the killed process leaves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum After {
    /// Another process takes its UDP port at once; for an I/O node another of the same name.
    Restart,
    /// Nobody does: the host says so by ICMP.
    Refusal,
    /// The whole host is gone, or says nothing.
    Darkness,
}

/// One way to die.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Case {
    pub(crate) state: State,
    pub(crate) killed: Killed,
    pub(crate) survivor: Survivor,
    pub(crate) after: After,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let killed = match (self.killed, self.survivor) {
            (Killed::Peer, Survivor::Client) => "server",
            (Killed::Peer, Survivor::Server) => "client",
            (Killed::IoNode, Survivor::Client) => "1 of 2 I/O nodes, at the client",
            (Killed::IoNode, Survivor::Server) => "1 of 2 I/O nodes, at the server",
            (Killed::IoNodes, Survivor::Client) => "both I/O nodes, at the client",
            (Killed::IoNodes, Survivor::Server) => "both I/O nodes, at the server",
        };
        let after = match self.after {
            After::Restart => "restarted",
            After::Refusal => "port closed",
            After::Darkness => "unreachable",
        };
        let text = format!("{:<34} {killed:<31} {after}", self.state.name());
        f.pad(&text)
    }
}

impl Case {
    /// All of them.
    pub(crate) fn all() -> Vec<Self> {
        let mut cases = Vec::new();
        for killed in [Killed::Peer, Killed::IoNode, Killed::IoNodes] {
            for state in State::ALL {
                for survivor in [Survivor::Client, Survivor::Server] {
                    for after in [After::Restart, After::Refusal, After::Darkness] {
                        let case = Self { state, killed, survivor, after };
                        if case.exists() {
                            cases.push(case);
                        }
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

    /// Whether the connection lives, as there is a way for its packets.
    pub(crate) fn goes_on(self) -> bool {
        match self.killed {
            Killed::Peer => false,
            Killed::IoNode => true,
            Killed::IoNodes => self.after == After::Restart,
        }
    }

    /// Whether the ends have agreed on a confirmed close.
    pub(crate) fn confirms(self) -> bool {
        self.state == State::HeldFin
    }

    /// The times that suit it.
    pub(crate) fn times(self) -> Times {
        if self.goes_on() { Times::Lasting } else { Times::Short }
    }
}
