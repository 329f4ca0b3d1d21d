//! One end of a connection in the network: the machine under test, its user, and the watch over it.

use weft_base::{FlowKey, Instant};
use weft_proto::{Connection, Event};

use crate::user::User;
use crate::violation::Violation;
use crate::watch::counters::{self, Seen};
use crate::watch::ending::Ended;
use crate::watch::memory::{self, Held};
use crate::watch::opens::Opens;
use crate::watch::wire::EndWatch;

/// Which listener an end belongs to, and how far its open is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// It called connect, or its user has it.
    Owned,
    /// An embryo of this listening port.
    Embryo(u16),
    /// In the accept queue of this listening port.
    Waiting(u16),
    /// It ended before it was accepted.
    Gone,
}

/// One end of a connection.
#[derive(Clone, Debug)]
pub struct End {
    /// Index of its node.
    pub node: usize,
    /// Index of the session it belongs to.
    pub session: usize,
    /// 0 for the end that connects first, 1 for the other.
    pub role: usize,
    /// Its flow.
    pub flow: FlowKey,
    /// The machine; `None` once its node has crashed.
    pub connection: Option<Connection>,
    /// Its configuration.
    pub config: weft_proto::Config,
    /// Its user.
    pub user: User,
    /// The watch over its packets.
    pub watch: EndWatch,
    /// How far it is.
    pub stage: Stage,
    /// When the timer event that counts is due.
    pub timer_at: Option<Instant>,
    /// When the user's wake-up that counts is due.
    pub wake_at: Option<Instant>,
    /// Timer events in a row without the clock moving.
    pub fired_at: (Instant, u32),
    /// The other end, once it is known.
    pub peer: Option<usize>,
    /// Numbers used when the faults stopped; they must be acknowledged soon after.
    pub mark: Option<u64>,
    /// Whether its machine is still in its node's table.
    pub is_listed: bool,
}

impl End {
    /// Moves all events of the machine to the user and calls `seen` with each.
    pub fn take_events(&mut self, now: Instant, mut seen: impl FnMut(Event)) {
        let Some(connection) = &mut self.connection else { return };
        while let Some(event) = connection.poll_event() {
            seen(event);
            self.user.handle_event(now, event);
        }
    }

    /// Compares the counters and the memory of the machine with what was seen (I6, I11).
    ///
    /// # Errors
    ///
    /// What disagrees.
    pub fn check(&self, now: Instant) -> Result<(), Violation> {
        let Some(connection) = &self.connection else { return Ok(()) };
        let stats = connection.stats(now);
        let seen = Seen {
            sent: self.watch.sent(),
            accepted: self.user.accepted(),
            delivered: self.user.watch().messages() as u64,
            acked: self.watch.acked().saturating_sub(1),
        };
        counters::check(&stats, &seen)?;
        if !connection.state().is_synchronized() || self.user.watch().has_ended() {
            return Ok(());
        }
        let discards = matches!(connection.state(), weft_proto::State::FinWait | weft_proto::State::Quiet);
        let held = Held {
            unacknowledged_bytes: connection.buffered_bytes() as u64,
            longest_write: self.user.script().writes.iter().copied().max().unwrap_or(0) as u64,
            arrived_bytes: if discards { 0 } else { self.watch.arrived_bytes() },
            read_bytes: self.user.watch().bytes(),
            read_messages: self.user.watch().messages() as u64,
        };
        memory::check(&self.config, &held)
    }

    /// How it stands.
    #[must_use]
    pub fn ended(&self, opens: &Opens) -> Ended {
        let pair = self.watch.iss().zip(self.watch.irs());
        Ended {
            state: self.connection.as_ref().map(Connection::state),
            error: self.connection.as_ref().and_then(Connection::error),
            result: self.connection.as_ref().and_then(Connection::close_result),
            written: self.user.written(),
            read: self.user.read(),
            fin: self.watch.fin(),
            next: self.watch.next(),
            acked: self.watch.acked(),
            acknowledges: self.watch.acknowledges(),
            arrived: self.watch.arrived_in_order(),
            confirms: pair.is_some_and(|(iss, irs)| opens.confirms(iss, irs)),
            aborted: self.user.has_aborted(),
        }
    }
}
