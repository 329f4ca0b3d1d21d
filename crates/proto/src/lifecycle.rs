//! The lifecycle of a connection: `(state, event) → state` on one screen.
//!
//! ```text
//!   connect()  SYN>   +----------+ SYN|ACK>  +----------+   listen()  +--------+
//!  CLOSED ----------->| SYN_SENT |---------->| SYN_RCVD |<------------| LISTEN |
//!                     +----+-----+   <SYN    +----+-----+    <SYN     +---+----+
//!             <SYN|ACK ACK>|                      |<ACK or DAT            | <ACK+COOKIE
//!                          |    +-------------+   |                       |
//!                          +--->| ESTABLISHED |<--+-----------------------+
//!                               +---+-----+---+
//!                     close() FIN>  |     |  <FIN in order, ACK>
//!                          +--------+     +---------+
//!                   +------v---+               +----v-------+
//!                   | FIN_WAIT |               | CLOSE_WAIT |
//!                   +------+---+               +----+-------+
//!               <ACK of FIN|    +-------+           | close()
//!                          +--->| QUIET |<----------+
//!                               +---+---+
//!                                   | timer → CLOSED
//! ```
//!
//! LISTEN is [`Listener`](crate::Listener). What an event makes a connection *do* stands with its handler in
//! `connection`; this table says only where it leads.

/// State of a connection (section 10).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum State {
    /// Our SYN is out.
    SynSent,
    /// A SYN has come, our SYN|ACK is out: an embryo, or one half of a simultaneous open.
    SynReceived,
    /// Data flows.
    Established,
    /// We have closed; the FIN is not acknowledged yet.
    FinWait,
    /// The peer has closed; what arrived may be read.
    CloseWait,
    /// Closed at both ends; late packets are still answered.
    Quiet,
    /// Nothing is left.
    Closed,
}

/// What can move a connection from one state to another; rows of section 10.1 in brackets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum Event {
    /// A SYN|ACK that acknowledges our SYN (10, 18).
    SynAck,
    /// A SYN from the peer that we are opening to (11).
    Syn,
    /// The packet that completes the open (16).
    OpenAck,
    /// An accepted RST (13, 19, 27, 39, 44, 47).
    Reset,
    /// The open was refused for its options.
    Refused,
    /// SYN_TIME has passed (14, 20, 26).
    OpenTimeout,
    /// `close()` (15, 28, 45).
    Close,
    /// `abort()`, or a violation by the peer (29).
    Abort,
    /// A FIN has become the next number in order (30, 37).
    FinInOrder,
    /// Our FIN is acknowledged (35).
    FinAcked,
    /// R2, expiry or NO_PROGRESS (32, 33).
    GiveUp,
    /// FIN_GIVE_UP (40).
    FinGiveUp,
    /// QUIET_TIME, pressure on memory, or a packet that takes the place of the connection (CDP-ST-J, 48, 49).
    Forgotten,
}

impl State {
    /// Where `event` leads, or `None` where it means nothing (row 50).
    pub(crate) const fn after(self, event: Event) -> Option<Self> {
        use Event as E;
        use State as S;
        match (self, event) {
            // [CDP-ST-10] [CDP-ST-18] [CDP-ST-K]
            (S::SynSent | S::SynReceived, E::SynAck) => Some(S::Established),
            // [CDP-ST-11]
            (S::SynSent, E::Syn) => Some(S::SynReceived),
            // [CDP-ST-16]
            (S::SynReceived, E::OpenAck) => Some(S::Established),
            // [CDP-ST-13] [CDP-ST-14] [CDP-ST-15]
            (S::SynSent, E::Reset | E::Refused | E::OpenTimeout | E::Close | E::Abort) => Some(S::Closed),
            // [CDP-ST-19] [CDP-ST-20]
            (S::SynReceived, E::Reset | E::Refused | E::OpenTimeout | E::Close | E::Abort) => Some(S::Closed),
            // [CDP-ST-28] [CDP-ST-30]
            (S::Established, E::Close) => Some(S::FinWait),
            (S::Established, E::FinInOrder) => Some(S::CloseWait),
            // [CDP-ST-26] [CDP-ST-27] [CDP-ST-29] [CDP-ST-32] [CDP-ST-33]
            (S::Established, E::Reset | E::OpenTimeout | E::Abort | E::GiveUp) => Some(S::Closed),
            // [CDP-ST-35] [CDP-ST-37]
            (S::FinWait, E::FinAcked) => Some(S::Quiet),
            (S::FinWait, E::FinInOrder) => Some(S::FinWait),
            // [CDP-ST-39] [CDP-ST-40]
            (S::FinWait, E::Reset | E::FinGiveUp | E::Abort) => Some(S::Closed),
            // [CDP-ST-44] [CDP-ST-45]
            (S::CloseWait, E::Reset) => Some(S::CloseWait),
            (S::CloseWait, E::Close | E::Abort) => Some(S::Quiet),
            // [CDP-ST-47] [CDP-ST-J] [CDP-ST-49]
            (S::Quiet, E::Reset) => Some(S::Quiet),
            (S::SynReceived | S::Quiet, E::Forgotten) => Some(S::Closed),
            // [CDP-ST-50]
            _ => None,
        }
    }

    /// Whether the three-way open is over and the connection has not ended.
    #[must_use]
    pub const fn is_synchronized(self) -> bool {
        matches!(self, Self::Established | Self::FinWait | Self::CloseWait | Self::Quiet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [State; 7] = [
        State::SynSent,
        State::SynReceived,
        State::Established,
        State::FinWait,
        State::CloseWait,
        State::Quiet,
        State::Closed,
    ];

    const EVENTS: [Event; 13] = [
        Event::SynAck,
        Event::Syn,
        Event::OpenAck,
        Event::Reset,
        Event::Refused,
        Event::OpenTimeout,
        Event::Close,
        Event::Abort,
        Event::FinInOrder,
        Event::FinAcked,
        Event::GiveUp,
        Event::FinGiveUp,
        Event::Forgotten,
    ];

    fn letter(state: Option<State>) -> char {
        match state {
            Some(State::SynSent) => 's',
            Some(State::SynReceived) => 'r',
            Some(State::Established) => 'E',
            Some(State::FinWait) => 'F',
            Some(State::CloseWait) => 'W',
            Some(State::Quiet) => 'Q',
            Some(State::Closed) => 'C',
            None => '.',
        }
    }

    /// The whole table: a row a state, a column an event, in the order of the two enums.
    /// [CDP-ST-50] Any other event leaves the state as it is.
    /// [CDP-ST-44] A reset does not end CLOSE_WAIT. [CDP-ST-47] Nor QUIET.
    #[test]
    fn the_whole_table() {
        let drawn: Vec<String> = STATES
            .iter()
            .map(|state| EVENTS.iter().map(|event| letter(state.after(*event))).collect())
            .collect();
        let expected = [
            "Er.CCCCC.....",
            "E.ECCCCC....C",
            "...C.CFCW.C..",
            "...C...CFQ.C.",
            "...W..QQ.....",
            "...Q........C",
            ".............",
        ];
        assert_eq!(drawn, expected);
    }
}
