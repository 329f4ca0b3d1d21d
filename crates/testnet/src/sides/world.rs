//! A run: packets through I/O nodes, users at both ends, one failure after another.

mod carry;
mod drive;
mod failing;
mod finish;
mod users;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use weft_base::{FlowKey, Instant, NodeId};
use weft_des::{Queue, Random, TraceHash};
use weft_proto::Listener;
use weft_route::{Forwarder, NetworkId, Underlay};

use super::Figures;
use super::end::End;
use super::io_node::IoNode;
use super::node::Node;
use super::plan::{Plan, end_number, io_number};
use crate::report::{Failure, Network, Report};
use crate::violation::{Invariant, Violation, ensure};

/// Events of one run at most.
const EVENTS_MAX: u64 = 4_000_000;
/// Time from the last failure until users write no more.
const CALM: Duration = Duration::from_millis(300);
/// A member that was left again and again needs so many answers (`weft_route::IoSet`), and some may be lost.
const PROBES_MAX: u32 = 60;
/// No reader waits longer than this many times [`super::Stall::limit`], whatever fails.
const LIMITS_MAX: u32 = 20;
/// The stall of a failure is looked at for so long.
const WATCHED: Duration = Duration::from_millis(90);
/// Session i is served by this port + i.
const FIRST_PORT: u16 = 2_000;

#[derive(Clone, Debug)]
enum Happening {
    /// At a host or compute node.
    Arrive {
        node: usize,
        from: Underlay,
        bytes: Bytes,
    },
    /// At an I/O node.
    Pass {
        io_node: usize,
        network: NetworkId,
        from: Underlay,
        bytes: Bytes,
    },
    Timer {
        end: usize,
        at: Instant,
    },
    Write {
        session: usize,
    },
    Open {
        session: usize,
    },
    Probe {
        node: usize,
        at: Instant,
    },
    Trouble {
        index: usize,
        begins: bool,
    },
    Watched,
    /// Users write no more.
    Calm,
    /// Every default must be back.
    Close,
}

struct World {
    plan: Plan,
    queue: Queue<Happening>,
    random: Random,
    hash: TraceHash,
    events: u64,
    prints: bool,
    nodes: Vec<Node>,
    io_nodes: Vec<IoNode>,
    listeners: Vec<Vec<Listener>>,
    ends: Vec<End>,
    by_flow: BTreeMap<(usize, FlowKey), usize>,
    is_calm: bool,
    figures: Figures,
    numbers: (u64, u64),
}

/// Runs the plan of `seed`. With `prints` what fails and what changes goes to standard output.
///
/// # Errors
///
/// The first violation, with what is needed to repeat it.
pub fn run(seed: u64, prints: bool) -> Result<Report, Box<Failure>> {
    run_plan(Plan::draw(seed), prints)
}

/// Runs a plan.
///
/// # Errors
///
/// The first violation, with what is needed to repeat it.
pub fn run_plan(plan: Plan, prints: bool) -> Result<Report, Box<Failure>> {
    let seed = plan.seed;
    let failure = |violation, at| {
        Box::new(Failure { seed, network: Network::Sides, violation, at, last: String::new() })
    };
    let mut world = World::new(plan, prints).map_err(|violation| failure(violation, Instant::ZERO))?;
    match world.run() {
        Ok(()) => Ok(world.report()),
        Err(violation) => Err(failure(violation, world.queue.now())),
    }
}

impl World {
    fn new(plan: Plan, prints: bool) -> Result<Self, Violation> {
        let number =
            |number| NodeId::new(number).ok_or_else(|| Violation::new(Invariant::Form, "no such node"));
        let mut nodes = Vec::new();
        for side in 0..2 {
            for index in 0..plan.ends[side] {
                let (id, peer) = (number(end_number(side, index))?, number(end_number(1 - side, 0))?);
                let node = Node::new(id, peer, plan.cluster());
                let mut node =
                    node.ok_or_else(|| Violation::new(Invariant::Form, "no I/O node leads there"))?;
                node.set.set_probe_interval(plan.probe_interval);
                nodes.push(node);
            }
        }
        let mut io_nodes = Vec::new();
        for index in 0..plan.io_nodes {
            let own = number(io_number(index))?;
            let forwarders =
                [plan.cluster(), plan.wrong_cluster()].map(|cluster| Forwarder::new(own, cluster));
            io_nodes.push(IoNode::new(forwarders, Random::stream(plan.seed, 200 + index as u64)));
        }
        let mut queue = Queue::new();
        for (index, trouble) in plan.troubles.iter().enumerate() {
            queue.schedule(Instant::ZERO + trouble.from, Happening::Trouble { index, begins: true });
            queue.schedule(Instant::ZERO + trouble.from + WATCHED, Happening::Watched);
            queue.schedule(Instant::ZERO + trouble.until, Happening::Trouble { index, begins: false });
        }
        for (session, entry) in plan.sessions.iter().enumerate() {
            queue.schedule(Instant::ZERO + entry.opens_at, Happening::Open { session });
        }
        queue.schedule(Instant::ZERO + plan.heals_at + CALM, Happening::Calm);
        Ok(Self {
            queue,
            random: Random::stream(plan.seed, 8),
            hash: TraceHash::new(),
            events: 0,
            prints,
            listeners: nodes.iter().map(|_| Vec::new()).collect(),
            nodes,
            io_nodes,
            ends: Vec::new(),
            by_flow: BTreeMap::new(),
            is_calm: false,
            figures: Figures { runs: 1, ..Figures::default() },
            numbers: (0, 0),
            plan,
        })
    }

    fn run(&mut self) -> Result<(), Violation> {
        while let Some(happening) = self.queue.pop() {
            self.events += 1;
            ensure(self.events < EVENTS_MAX, Invariant::Termination, || format!("{EVENTS_MAX} events"))?;
            self.handle(happening)?;
        }
        self.finish()
    }

    fn handle(&mut self, happening: Happening) -> Result<(), Violation> {
        let now = self.queue.now();
        match happening {
            Happening::Arrive { node, from, bytes } => return self.arrive(node, from, bytes),
            Happening::Pass { io_node, network, from, bytes } => {
                return self.pass(io_node, network, from, &bytes);
            }
            Happening::Timer { end, at } if self.ends[end].timer_at == Some(at) => {
                self.ends[end].timer_at = None;
                self.ends[end].connection.handle_timeout(now);
                return self.drive(end);
            }
            Happening::Open { session } => return self.open(session),
            Happening::Write { session } => return self.write(session),
            Happening::Probe { node, at } if self.nodes[node].probes_at == Some(at) => {
                return self.probe(node);
            }
            Happening::Timer { .. } | Happening::Probe { .. } => {}
            Happening::Trouble { index, begins } => self.trouble(index, begins),
            Happening::Watched => return self.look_at_stalls(),
            Happening::Calm => {
                self.is_calm = true;
                self.queue.schedule(now + self.plan.probe_interval * PROBES_MAX, Happening::Close);
            }
            Happening::Close => return self.close_all(),
        }
        Ok(())
    }

    fn say(&self, what: impl FnOnce() -> String) {
        if self.prints {
            println!("{:>12.3?}  {}", self.queue.now() - Instant::ZERO, what());
        }
    }

    fn report(self) -> Report {
        Report {
            hash: self.hash.value(),
            events: self.events,
            time: self.queue.now() - Instant::ZERO,
            numbers: self.numbers,
            sides: self.figures,
            ..Report::default()
        }
    }
}
