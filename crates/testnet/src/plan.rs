//! What a seed means: nodes, paths, troubles, connections and what their users do.
//!
//! Everything is drawn before the run begins, so that a run is its plan and nothing else, and a plan can be printed.
//! Settings are drawn as a *swarm*: each seed switches each kind of fault on or off before it draws how strong it is,
//! so that faults meet in all combinations and also stay apart.

mod session;
mod trouble;

use std::time::Duration;

use weft_des::Random;
use weft_proto::Config;

use crate::path::PathSettings;
use crate::script::Script;

/// A whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed it was drawn from.
    pub seed: u64,
    /// Whether faults may last longer than the times after which connections give up.
    pub is_long: bool,
    /// When all faults stop.
    pub heals_at: Duration,
    /// The nodes; node i has number i + 1.
    pub nodes: Vec<NodePlan>,
    /// The direction from node i to node j stands at `i * nodes + j`.
    pub paths: Vec<PathSettings>,
    /// Faults that begin or end at a time.
    pub troubles: Vec<(Duration, Trouble)>,
    /// Listening sockets.
    pub services: Vec<ServicePlan>,
    /// Connections.
    pub sessions: Vec<SessionPlan>,
    /// Whether every connection asks for the sealed number, without which damage is not noticed.
    pub is_sealed: bool,
}

/// How a node behaves.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// How long packets wait until the node takes its next turn (0: each packet is a turn).
    pub turn_delay: Duration,
    /// Timers fire up to so much late (at most the clock step G).
    pub timer_late: Duration,
}

/// A listening socket.
#[derive(Clone, Debug)]
pub struct ServicePlan {
    /// Index of its node.
    pub node: usize,
    /// Its port.
    pub port: u16,
    /// Configuration of the listener and of the connections it makes.
    pub config: Config,
}

/// One connection.
#[derive(Clone, Debug)]
pub struct SessionPlan {
    /// Index of the node that connects.
    pub client: usize,
    /// Its port.
    pub client_port: u16,
    /// Whom it connects to.
    pub target: Target,
    /// When.
    pub opens_at: Duration,
    /// Configuration of the connecting end.
    pub config: Config,
    /// What the user of the connecting end does.
    pub client_script: Script,
    /// What the user of the other end does.
    pub server_script: Script,
}

/// Whom a session connects to.
#[derive(Clone, Debug)]
pub enum Target {
    /// A listener: index into [`Plan::services`].
    Service(usize),
    /// A node whose user connects at nearly the same time to us (simultaneous open).
    Peer {
        /// Index of the other node.
        node: usize,
        /// Its port.
        port: u16,
        /// How much later it calls connect.
        later: Duration,
        /// Its configuration.
        config: Box<Config>,
    },
}

/// A fault that begins or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing gets from one node to the other.
    Black {
        /// Index of the path.
        path: usize,
        /// Begins, or ends.
        is_black: bool,
    },
    /// The way becomes longer, or short again.
    Delay {
        /// Index of the path.
        path: usize,
        /// Time added.
        extra: Duration,
    },
    /// Another longest packet.
    Mtu {
        /// Index of the path.
        path: usize,
        /// Bytes.
        mtu_bytes: usize,
    },
    /// The node loses everything it knows and stays away.
    Crash {
        /// Index of the node.
        node: usize,
    },
    /// The node is back, with new keys, new numbers and empty tables.
    Restart {
        /// Index of the node.
        node: usize,
    },
    /// The node does nothing for a while (a suspended process), and then goes on.
    Suspend {
        /// Index of the node.
        node: usize,
        /// For how long.
        time: Duration,
    },
}

impl Plan {
    /// The plan of `seed`.
    #[must_use]
    pub fn draw(seed: u64) -> Self {
        let mut random = Random::stream(seed, 0);
        let is_long = random.chance(0.1);
        let heals_at = if is_long {
            random.duration(Duration::from_secs(60)..Duration::from_secs(400))
        } else {
            random.duration(Duration::from_millis(500)..Duration::from_secs(30))
        };
        let nodes: Vec<NodePlan> = (0..random.range(2..5)).map(|_| node(&mut random)).collect();
        let is_sealed = random.chance(0.7);
        let swarm = trouble::Swarm::draw(&mut random, is_sealed);
        let paths = trouble::paths(&mut random, &swarm, nodes.len());
        let troubles = trouble::schedule(&mut random, &swarm, nodes.len(), heals_at, is_long);
        let off_diagonal = paths.iter().enumerate().filter(|(i, _)| i / nodes.len() != i % nodes.len());
        let slowest = off_diagonal.map(|(_, path)| path.rate_bytes_per_s).min().unwrap_or(0);
        let mut drawing = session::Drawing { random, nodes: nodes.len(), heals_at, is_sealed, slowest };
        let (services, sessions) = drawing.sessions();
        Self { seed, is_long, heals_at, nodes, paths, troubles, services, sessions, is_sealed }
    }

    /// The greatest RTO_MAX of any end.
    #[must_use]
    pub fn rto_max(&self) -> Duration {
        let own = self.sessions.iter().map(|session| session.config.rto_max);
        let served = self.services.iter().map(|service| service.config.rto_max);
        own.chain(served).max().unwrap_or_default()
    }

    /// Whether the plan restarts the node of this index.
    #[must_use]
    pub fn crashes(&self, node: usize) -> bool {
        self.troubles.iter().any(|(_, trouble)| *trouble == Trouble::Crash { node })
    }
}

fn node(random: &mut Random) -> NodePlan {
    NodePlan {
        turn_delay: random.pick(&[Duration::ZERO, Duration::from_micros(20), Duration::from_millis(1)]),
        timer_late: random.pick(&[Duration::ZERO, Duration::from_micros(100), Duration::from_millis(1)]),
    }
}
