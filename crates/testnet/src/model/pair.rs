//! Two ends and what is between them: one state of the search, and the steps that may be taken from it.

use std::cell::Cell;
use std::rc::Rc;

use weft_base::{Address, FlowKey, Instant, NodeId, Port, Seq};
use weft_proto::{Connection, Error, Listener, Secret, State};
use weft_wire::Packet;

use super::fingerprint::{Fingerprint, Gatherer};
use super::{Opening, Scenario};
use crate::violation::{Invariant, Violation, ensure};
use crate::watch::ending::{self, Ended};
use crate::watch::opens::Opens;
use crate::watch::wire::{EndWatch, Said};

/// One step of the search. Sides are 0 (the client) and 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The packet at this place arrives; it may arrive again.
    Deliver(usize),
    /// The next timer of this side fires.
    Fire(usize),
    /// The user of this side closes.
    Close(usize),
    /// The user of this side aborts.
    Abort(usize),
    /// The user of this side writes a message.
    Write(usize),
    /// The user of this side reads all there is.
    Read(usize),
    /// The node of the server loses everything.
    Restart,
}

/// One side.
#[derive(Clone, Debug)]
pub(super) struct Side {
    pub(super) connection: Option<Connection>,
    pub(super) watch: EndWatch,
    pub(super) has_closed: bool,
    pub(super) has_aborted: bool,
    pub(super) writes_left: u8,
    pub(super) written: u64,
    pub(super) read: u64,
    pub(super) has_ended: bool,
    /// Connections of this node that have ended or were lost: own and peer's initial numbers.
    pub(super) gone: Vec<(Option<u64>, Option<u64>)>,
    pub(super) made: u8,
    /// A cookie made this connection once more, with the same numbers, after it had ended.
    pub(super) is_again: bool,
    /// Fingerprint of the connection, until something happens to it.
    pub(super) print: Cell<Option<Fingerprint>>,
}

/// A packet in flight.
#[derive(Clone, Debug)]
pub(super) struct Flying {
    pub(super) to: usize,
    pub(super) packet: Packet,
    pub(super) said: Said,
    pub(super) print: u64,
}

/// A state.
#[derive(Clone, Debug)]
pub struct Pair {
    pub(super) scenario: Rc<Scenario>,
    pub(super) now: Instant,
    pub(super) sides: [Side; 2],
    pub(super) listener: Option<Listener>,
    pub(super) opens: Opens,
    /// Packets that may arrive, those sent last at the end.
    pub(super) flight: Vec<Flying>,
    /// No more faults: each packet arrives once, in order.
    pub(super) is_fair: bool,
    pub(super) has_restarted: bool,
}

impl Side {
    pub(super) fn new(writes_left: u8, watch: EndWatch) -> Self {
        Self {
            connection: None,
            watch,
            has_closed: false,
            has_aborted: false,
            writes_left,
            written: 0,
            read: 0,
            has_ended: false,
            gone: Vec::new(),
            made: 0,
            is_again: false,
            print: Cell::new(None),
        }
    }

    pub(super) fn state(&self) -> Option<State> {
        self.connection.as_ref().map(Connection::state)
    }

    /// Whether the machine is there and has not ended.
    fn lives(&self) -> bool {
        self.state().is_some_and(|state| state != State::Closed)
    }

    fn ended(&self) -> Ended {
        Ended {
            state: self.state(),
            error: self.connection.as_ref().and_then(Connection::error),
            result: self.connection.as_ref().and_then(Connection::close_result),
            written: self.written,
            read: self.read,
            fin: self.watch.fin(),
            next: self.watch.next(),
            acked: self.watch.acked(),
            acknowledges: self.watch.acknowledges(),
            arrived: self.watch.arrived_in_order(),
            confirms: self.connection.as_ref().is_some_and(|connection| connection.agreed().confirm),
            aborted: self.has_aborted,
        }
    }
}

impl Pair {
    /// Both nodes before the first packet.
    ///
    /// # Errors
    ///
    /// What the watch finds wrong with the first packets.
    pub fn new(scenario: &Rc<Scenario>) -> Result<Self, Violation> {
        let now = Instant::from_nanos(10_000_000_000);
        let sides = [0, 1].map(|side| Side::new(scenario.writes[side], EndWatch::of_client(0)));
        let listens = scenario.opening != Opening::Simultaneous;
        let mut pair = Self {
            now,
            sides,
            listener: listens.then(|| Listener::new(now, scenario.config(), [7; 32])),
            opens: Opens::default(),
            flight: Vec::new(),
            is_fair: false,
            has_restarted: false,
            scenario: Rc::clone(scenario),
        };
        pair.connect(0)?;
        if !listens {
            pair.connect(1)?;
        }
        Ok(pair)
    }

    fn connect(&mut self, side: usize) -> Result<(), Violation> {
        let secret = self.secret(side);
        let connection = Connection::connect(self.now, flow(side), self.scenario.config(), secret);
        self.sides[side].watch = EndWatch::of_client(secret.iss.get());
        self.sides[side].connection = Some(connection);
        self.drive(side)
    }

    /// Numbers of the next connection of a node: fixed, so that histories that differ only in time agree.
    fn secret(&mut self, side: usize) -> Secret {
        let made = &mut self.sides[side].made;
        *made += 1;
        let iss = (side as u64 + 1) << 60 | u64::from(*made) << 40 | 0xFFFF_FFFE;
        Secret { iss: Seq::new(iss), entropy: 7 }
    }

    /// Whether both connections are over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let over = |side: &Side| side.connection.as_ref().is_none_or(Connection::is_finished);
        self.sides.iter().all(over)
    }

    /// The same state when all that is in flight is lost, and nothing any more after that.
    #[must_use]
    pub fn without_faults(&self) -> Self {
        Self { flight: Vec::new(), is_fair: true, ..self.clone() }
    }

    /// The states of both sides and the packets between them, in words.
    #[must_use]
    pub fn describe(&self) -> String {
        let states: Vec<String> = self.sides.iter().map(|side| format!("{:?}", side.state())).collect();
        let flying: Vec<String> =
            self.flight.iter().map(|flying| format!("→{} {}", flying.to, flying.packet.header())).collect();
        format!("{} | {}", states.join(" "), flying.join(" ; "))
    }

    /// Every step that can be taken.
    #[must_use]
    pub fn steps(&self) -> Vec<Step> {
        let mut steps: Vec<Step> = (0..self.flight.len()).map(Step::Deliver).collect();
        for side in 0..2 {
            let Some(connection) = &self.sides[side].connection else { continue };
            // Keep-alive that is not part of the scenario waits until the fair continuation needs it.
            if connection.poll_timeout().is_some_and(|due| due < self.now + super::LONG / 2) {
                steps.push(Step::Fire(side));
            }
            steps.extend(self.user_steps(side, connection));
        }
        let may_restart = self.scenario.restarts && !self.has_restarted && self.sides[1].connection.is_some();
        steps.extend(may_restart.then_some(Step::Restart));
        steps
    }

    fn user_steps(&self, side: usize, connection: &Connection) -> Vec<Step> {
        let user = &self.sides[side];
        if connection.is_embryo() || user.has_closed || user.state() == Some(State::Closed) {
            return Vec::new();
        }
        let mut steps = Vec::new();
        if self.scenario.closes[side] || user.has_ended {
            steps.push(Step::Close(side));
        }
        if self.scenario.aborts[side] {
            steps.push(Step::Abort(side));
        }
        if user.writes_left > 0 && connection.state() == State::Established {
            steps.push(Step::Write(side));
        }
        if self.scenario.confirms && !user.has_ended && connection.is_readable() {
            steps.push(Step::Read(side));
        }
        steps
    }

    /// The step that a world without faults and with users that finish would take next; `None` when it is over.
    ///
    /// # Errors
    ///
    /// If nothing can happen and it is not over: the state is stuck.
    pub fn fair_step(&self) -> Result<Option<Step>, Violation> {
        if !self.flight.is_empty() {
            return Ok(Some(Step::Deliver(0)));
        }
        if self.is_over() {
            return Ok(None);
        }
        for side in 0..2 {
            let user = &self.sides[side];
            let Some(connection) = &user.connection else { continue };
            let is_usable = !user.has_closed && !connection.is_embryo() && user.lives();
            if is_usable && !user.has_ended && self.scenario.confirms && connection.is_readable() {
                return Ok(Some(Step::Read(side)));
            }
            let is_done = user.has_ended || (side == 0 && connection.state() == State::Established);
            if is_usable && is_done {
                return Ok(Some(Step::Close(side)));
            }
        }
        let due = |side: usize| self.sides[side].connection.as_ref().and_then(Connection::poll_timeout);
        let next = (0..2).filter_map(|side| Some((due(side)?, side))).min();
        let stuck = || Violation::new(Invariant::Liveness, format!("stuck: {}", self.describe()));
        next.map(|(_, side)| Some(Step::Fire(side))).ok_or_else(stuck)
    }

    /// What must hold when both connections are over.
    ///
    /// # Errors
    ///
    /// A result that is not true.
    pub fn check_over(&self) -> Result<(), Violation> {
        for side in 0..2 {
            let (end, peer) = (&self.sides[side], &self.sides[1 - side]);
            if end.connection.is_none() {
                continue;
            }
            ending::check_final(&end.ended())?;
            let names = |side: &Side| (side.watch.iss(), side.watch.irs());
            let (iss, irs) = names(end);
            let is_again = end.is_again || peer.is_again;
            let meet = names(peer) == (irs, iss) && peer.connection.is_some() && !is_again;
            if meet {
                ending::check_honest(&end.ended(), &peer.ended())?;
                ending::check_discarded(&end.ended(), &peer.ended())?;
            }
            let failed = end.connection.as_ref().and_then(Connection::error);
            let own_doing = matches!(failed, Some(Error::Aborted)) && end.has_closed;
            ensure(failed != Some(Error::Aborted) || own_doing, Invariant::Ending, || {
                format!("side {side} says it was aborted here, and nobody did")
            })?;
        }
        Ok(())
    }

    /// The abstraction of this state.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let mut gatherer = Gatherer::new();
        for side in &self.sides {
            let flags = [side.has_closed, side.has_aborted, side.has_ended, side.connection.is_some()];
            let flags = flags.iter().fold(0_u64, |bits, flag| bits << 1 | u64::from(*flag));
            gatherer.number(flags << 32 | u64::from(side.writes_left) << 16 | u64::from(side.made));
            gatherer.number(side.read << 8 | side.gone.len() as u64);
            if let Some(connection) = &side.connection {
                let print = side.print.get().unwrap_or_else(|| {
                    let mut own = Gatherer::new();
                    own.connection(connection);
                    own.finish()
                });
                side.print.set(Some(print));
                gatherer.fingerprint(print);
            }
        }
        gatherer.number(u64::from(self.has_restarted));
        // The order matters within a direction only: by it packets become too old.
        for to in 0..2 {
            let flight = self.flight.iter().filter(|flying| flying.to == to);
            flight.for_each(|flying| gatherer.number(flying.print));
            gatherer.number(to as u64);
        }
        gatherer.finish()
    }
}

fn flow(side: usize) -> FlowKey {
    let node = |number| NodeId::unregistered(number);
    let port = |number| Port::new(number).unwrap_or(Port::ECHO);
    let ends = [Address { node: node(1), port: port(50_000) }, Address { node: node(2), port: port(1_025) }];
    FlowKey { local: ends[side], remote: ends[1 - side] }
}
