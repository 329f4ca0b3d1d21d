//! A node: tables, listeners, limits, and what has reached it since its last turn.

use std::collections::{BTreeMap, VecDeque};

use weft_base::{FlowKey, Instant, NodeId, Seq};
use weft_des::Random;
use weft_proto::limiter::EchoResetLimiter;
use weft_proto::{Listener, Secret};

use crate::path::Arrival;
use crate::plan::ServicePlan;
use crate::watch::amplification::Books;

/// One node of the network.
#[derive(Debug)]
pub struct Node {
    /// Its number.
    pub id: NodeId,
    /// Whether it runs.
    pub is_up: bool,
    /// It does nothing before this.
    pub suspended_until: Instant,
    /// Packets that wait for its next turn.
    pub inbox: Vec<Arrival>,
    /// Whether a turn is scheduled.
    pub has_turn: bool,
    /// Its connections: index of the end by flow.
    pub table: BTreeMap<FlowKey, usize>,
    /// Its listening ports.
    pub listeners: BTreeMap<u16, Listening>,
    /// Its accounts with peers that have proved nothing.
    pub books: Books,
    /// Its limit of echo-form RSTs.
    pub echo_resets: EchoResetLimiter,
    random: Random,
}

/// One listening port of a node.
#[derive(Debug)]
pub struct Listening {
    /// The machine.
    pub listener: Listener,
    /// Its accept queue: indices of ends.
    pub queue: VecDeque<usize>,
    /// Embryos it has.
    pub embryos: usize,
}

impl Node {
    /// A node that runs and knows nothing.
    #[must_use]
    pub fn new(id: NodeId, mut random: Random) -> Self {
        Self {
            id,
            is_up: true,
            suspended_until: Instant::ZERO,
            inbox: Vec::new(),
            has_turn: false,
            table: BTreeMap::new(),
            listeners: BTreeMap::new(),
            books: Books::default(),
            echo_resets: EchoResetLimiter::new(random.next_u64()),
            random,
        }
    }

    /// Opens a listening port with fresh keys.
    pub fn listen(&mut self, now: Instant, service: &ServicePlan) {
        let mut key = [0; 32];
        for chunk in key.chunks_mut(8) {
            chunk.copy_from_slice(&self.random.next_u64().to_le_bytes());
        }
        let listener = Listener::new(now, &service.config, key);
        self.listeners.insert(service.port, Listening { listener, queue: VecDeque::new(), embryos: 0 });
    }

    /// Loses everything; the accounts go too, as a node that comes back has been sent nothing.
    pub fn crash(&mut self) {
        self.is_up = false;
        self.suspended_until = Instant::ZERO;
        self.inbox.clear();
        self.table.clear();
        self.listeners.clear();
        self.books = Books::default();
    }

    /// Numbers for a new connection.
    pub fn secret(&mut self) -> Secret {
        Secret { iss: Seq::new(self.random.next_u64()), entropy: self.random.next_u64() }
    }
}
