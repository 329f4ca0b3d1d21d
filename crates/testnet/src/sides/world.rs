//! A run: packets through I/O nodes, users at both ends, one failure after another.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use weft_base::{Address, FlowKey, Instant, NodeId, Port, Seq, Service};
use weft_des::{Queue, Random, TraceHash};
use weft_proto::{Config, Connection, Listener, Secret, State, Transmit, Verdict};
use weft_route::{FORWARDS_MAX, Forwarder, NetworkId, Underlay};
use weft_wire::{Encapsulation, Packet};

use super::Figures;
use super::end::End;
use super::io_node::IoNode;
use super::node::Node;
use super::plan::{Illness, NETWORKS, Plan, Trouble, address, end_number, io_number};
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

    // ── Failures ──────────────────────────────────────────────────────────────────────────────────────────────

    fn trouble(&mut self, index: usize, begins: bool) {
        let now = self.queue.now();
        let Trouble { io_node, what, .. } = self.plan.troubles[index];
        self.say(|| format!("I/O node {io_node}: {what:?} {}", if begins { "begins" } else { "ends" }));
        self.io_nodes[io_node].illness = begins.then_some(what);
        if !begins {
            return;
        }
        *self.figures.troubles.entry(what.name()).or_default() += 1;
        for end in 0..self.ends.len() {
            let Some(sender) = self.other(end) else { continue };
            let is_used = self.nodes[self.ends[sender].node].default_number() == Some(io_number(io_node));
            let is_open =
                self.ends[sender].connection.state() == State::Established && self.ends[end].read > 0;
            // drops are found by and by
            if is_used && is_open && !matches!(what, Illness::Drops(_)) {
                let rto = self.ends[sender].connection.path_stats().rto;
                self.ends[end].watch(now, rto);
            }
        }
    }

    fn look_at_stalls(&mut self) -> Result<(), Violation> {
        let now = self.queue.now();
        for (index, end) in self.ends.iter_mut().enumerate() {
            let period = self.plan.sessions[end.session].period;
            let Some(stall) = end.take_stall(now, period) else { continue };
            if self.prints && stall.pause > stall.limit() {
                println!("              end {index} waited {:.1?}, RTO {:.1?}", stall.pause, stall.rto);
            }
            ensure(stall.pause < stall.limit() * LIMITS_MAX, Invariant::Liveness, || {
                format!("a reader waited {:?} where the RTO is {:?}", stall.pause, stall.rto)
            })?;
            self.figures.stalls.push(stall);
        }
        Ok(())
    }

    /// The other end of the connection.
    fn other(&self, end: usize) -> Option<usize> {
        let flow = self.ends[end].connection.flow();
        let node = self.nodes.iter().position(|node| node.id == flow.remote.node)?;
        self.by_flow.get(&(node, flow.reversed())).copied()
    }

    // ── Users ─────────────────────────────────────────────────────────────────────────────────────────────────

    fn secret(&mut self) -> Secret {
        Secret { iss: Seq::new(self.random.next_u64()), entropy: self.random.next_u64() }
    }

    fn open(&mut self, session: usize) -> Result<(), Violation> {
        let now = self.queue.now();
        let plan = &self.plan.sessions[session];
        let place = |side: usize, index: usize| if side == 0 { index } else { self.plan.ends[0] + index };
        let (near, far) = (place(plan.side, plan.nodes[0]), place(1 - plan.side, plan.nodes[1]));
        let port = |first: u16| {
            let number = first.saturating_add(u16::try_from(session).unwrap_or(u16::MAX));
            Port::new(number).unwrap_or(Port::ECHO)
        };
        let flow = FlowKey {
            local: Address { node: self.nodes[near].id, port: port(50_000) },
            remote: Address { node: self.nodes[far].id, port: port(FIRST_PORT) },
        };
        let congestion = plan.controller;
        let period = plan.period;
        let config = Config { congestion, probe_mtu: false, ..Config::new(Service::Stream, 1_444) };
        let secret = self.secret();
        self.listeners[far].push(Listener::new(now, &config, [7; 32]));
        let mut connection = Connection::connect(now, flow, &config, secret);
        connection.set_paths(now, self.nodes[near].paths()?);
        let end = self.add(near, session, 0, connection);
        self.queue.schedule(now + period, Happening::Write { session });
        self.drive(end)
    }

    fn add(&mut self, node: usize, session: usize, role: u64, connection: Connection) -> usize {
        let key = self.plan.seed << 8 | (session as u64) << 1;
        self.by_flow.insert((node, connection.flow()), self.ends.len());
        self.ends.push(End::new(self.queue.now(), node, session, role, key, connection));
        self.ends.len() - 1
    }

    /// Both users of a session write, and will again.
    fn write(&mut self, session: usize) -> Result<(), Violation> {
        if self.is_calm {
            return Ok(());
        }
        let plan = &self.plan.sessions[session];
        let (writes, period) = (plan.writes, plan.period);
        for end in 0..self.ends.len() {
            let at = &mut self.ends[end];
            let bytes = writes[usize::from(!at.connection.is_client())];
            if at.session == session && bytes > 0 {
                at.write(bytes)?;
                self.drive(end)?;
            }
        }
        self.queue.schedule(self.queue.now() + period, Happening::Write { session });
        Ok(())
    }

    // ── Outputs ───────────────────────────────────────────────────────────────────────────────────────────────

    /// Reads, passes reports on, sends, and arms the timer.
    fn drive(&mut self, end: usize) -> Result<(), Violation> {
        let now = self.queue.now();
        self.ends[end].read_all(now).map_err(|violation| violation.of(format_args!("end {end}")))?;
        let node = self.ends[end].node;
        let mut has_changed = false;
        while let Some(report) = self.ends[end].connection.take_path_report() {
            let srtt = self.ends[end].connection.path_stats().srtt;
            has_changed |= self.nodes[node].handle(now, &report, srtt)?;
        }
        if has_changed {
            self.change_default(node)?;
        }
        self.flush(end)?;
        self.arm(end);
        self.arm_probes(node);
        Ok(())
    }

    /// [CDP-IO-7] All connections of a node learn its new default.
    fn change_default(&mut self, node: usize) -> Result<(), Violation> {
        let now = self.queue.now();
        let paths = self.nodes[node].paths()?;
        self.figures.switches += 1;
        self.say(|| format!("{}: default {}", self.nodes[node].id, paths.default_path()));
        for end in 0..self.ends.len() {
            if self.ends[end].node == node {
                self.ends[end].connection.set_paths(now, paths);
                self.flush(end)?;
                self.arm(end);
            }
        }
        Ok(())
    }

    fn flush(&mut self, end: usize) -> Result<(), Violation> {
        let now = self.queue.now();
        let mut head = Vec::new();
        while let Some(transmit) = self.ends[end].connection.poll_transmit(now, &mut head) {
            self.transmit(end, &transmit, &head)?;
            head.clear();
        }
        while self.ends[end].connection.poll_event().is_some() {}
        Ok(())
    }

    fn transmit(&mut self, end: usize, transmit: &Transmit, head: &[u8]) -> Result<(), Violation> {
        let node = self.ends[end].node;
        let bytes = Bytes::from([&head[transmit.head.clone()], &transmit.body[..]].concat());
        let is_default = usize::from(transmit.path) == self.nodes[node].set.default_member();
        let is_first_data = bytes[4] & 0x08 != 0 && transmit.attempt == 0;
        // [CDP-IO-2] the first transmission goes through the default
        ensure(!is_first_data || is_default, Invariant::Default, || {
            format!("a first transmission by path {}", transmit.path)
        })?;
        self.numbers.0 += u64::from(is_first_data);
        self.numbers.1 += u64::from(transmit.attempt > 0);
        let Some(to) = self.nodes[node].address(transmit.path) else {
            return Err(Violation::new(Invariant::Form, format!("a packet by path {}", transmit.path)));
        };
        let side = usize::from(node >= self.plan.ends[0]);
        let from = address(NETWORKS[side], self.nodes[node].id.get());
        self.carry(self.queue.now(), side, from, to, bytes);
        Ok(())
    }

    /// A packet crosses a network: to an I/O node or to a node.
    fn carry(&mut self, at: Instant, side: usize, from: Underlay, to: Underlay, bytes: Bytes) {
        let at = at + self.plan.delays[side];
        let is = |number: u32| address(NETWORKS[side], number) == to;
        if let Some(io_node) = (0..self.plan.io_nodes).find(|index| is(io_number(*index))) {
            if let Some(network) = NetworkId::new(NETWORKS[side].into()) {
                self.queue.schedule(at, Happening::Pass { io_node, network, from, bytes });
            }
        } else if let Some(node) = self.nodes.iter().position(|node| is(node.id.get())) {
            self.queue.schedule(at, Happening::Arrive { node, from, bytes });
        }
    }

    fn pass(
        &mut self,
        io_node: usize,
        network: NetworkId,
        from: Underlay,
        bytes: &Bytes,
    ) -> Result<(), Violation> {
        let now = self.queue.now();
        let leaving = match self.io_nodes[io_node].forward(now, network, from, bytes) {
            Ok(leaving) => leaving,
            Err(dropped) => {
                *self.figures.dropped.entry(dropped.to_string()).or_default() += 1;
                return Ok(());
            }
        };
        self.figures.forwarded += 1;
        let hops = u32::from(leaving.bytes[0] & 0x03);
        // [CDP-FWD-1] no fourth time; [CDP-FWD-2] nothing else is changed
        ensure(hops == u32::from(bytes[0] & 0x03) + 1 && hops <= FORWARDS_MAX, Invariant::Hops, || {
            format!("a packet is forwarded for the {hops}th time")
        })?;
        ensure(leaving.bytes[1..] == bytes[1..], Invariant::Form, || "a forwarder changed a packet".into())?;
        let side = NETWORKS.iter().position(|side| usize::from(*side) == leaving.hop.network.index());
        if let Some(side) = side {
            let own = address(NETWORKS[side], io_number(io_node));
            self.carry(leaving.at, side, own, leaving.hop.to, leaving.bytes);
        }
        Ok(())
    }

    fn arm(&mut self, end: usize) {
        let at = &mut self.ends[end];
        let Some(due) = at.connection.poll_timeout() else { return };
        let due = due.max(self.queue.now());
        if at.timer_at.is_none_or(|set| due < set) {
            at.timer_at = Some(due);
            self.queue.schedule(due, Happening::Timer { end, at: due });
        }
    }

    // ── Inputs ────────────────────────────────────────────────────────────────────────────────────────────────

    fn arrive(&mut self, node: usize, from: Underlay, bytes: Bytes) -> Result<(), Violation> {
        let now = self.queue.now();
        self.hash.add(now.as_nanos());
        self.hash.add_bytes(&bytes);
        let packet = Packet::new_checked(bytes, Encapsulation::Simulated)
            .map_err(|refused| Violation::new(Invariant::Form, format!("no packet arrives: {refused:?}")))?;
        let path = self.nodes[node].side.position(from).and_then(|path| u8::try_from(path).ok());
        let Some(path) = path else {
            return Err(Violation::new(
                Invariant::Form,
                format!("a packet from {from}, which is no I/O node"),
            ));
        };
        let Some(&end) = self.by_flow.get(&(node, packet.flow())) else {
            return self.accept(node, path, &packet);
        };
        self.ends[end].connection.handle_packet_by(now, packet, path);
        self.drive(end)
    }

    fn accept(&mut self, node: usize, path: u8, packet: &Packet) -> Result<(), Violation> {
        let now = self.queue.now();
        let session = packet.flow().local.port.get().checked_sub(FIRST_PORT).map(usize::from);
        let Some(session) = session.filter(|session| *session < self.plan.sessions.len()) else {
            return Ok(());
        };
        let secret = self.secret();
        let Some(listener) = self.listeners[node].first_mut() else { return Ok(()) };
        let verdict = listener.handle_packet(now, packet, secret, &mut Vec::new());
        let Verdict::Embryo(mut connection) = verdict else { return Ok(()) };
        connection.set_paths(now, self.nodes[node].paths()?);
        connection.note_came_by(path);
        let end = self.add(node, session, 1, *connection);
        self.drive(end)
    }

    // ── Probes ────────────────────────────────────────────────────────────────────────────────────────────────

    fn arm_probes(&mut self, node: usize) {
        let at = &mut self.nodes[node];
        let Some(due) = at.set.next_probe() else { return };
        let due = due.max(self.queue.now());
        if at.probes_at.is_none_or(|set| due < set) {
            at.probes_at = Some(due);
            self.queue.schedule(due, Happening::Probe { node, at: due });
        }
    }

    /// [CDP-IO-6] A connection that is open probes for all.
    fn probe(&mut self, node: usize) -> Result<(), Violation> {
        let now = self.queue.now();
        self.nodes[node].probes_at = None;
        let is_fit = |end: &End| end.node == node && end.connection.state() == State::Established;
        let Some(end) = self.ends.iter().position(is_fit) else { return Ok(()) };
        while let Some(member) = self.nodes[node].set.poll_probe(now) {
            self.ends[end].connection.probe_path(now, u8::try_from(member).unwrap_or(u8::MAX));
        }
        self.drive(end)
    }

    // ── The end ───────────────────────────────────────────────────────────────────────────────────────────────

    /// All I/O nodes have been well for long: every default is back, and everything has arrived.
    fn close_all(&mut self) -> Result<(), Violation> {
        let now = self.queue.now();
        for end in 0..self.ends.len() {
            let written = self.other(end).map_or(0, |other| self.ends[other].written);
            ensure(self.ends[end].read == written, Invariant::Liveness, || {
                format!("end {end} has read {} of {written} bytes", self.ends[end].read)
            })?;
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let is_used = self.ends.iter().any(|end| end.node == index);
            // [CDP-IO-6]
            ensure(!is_used || node.set.default_member() == node.side.default, Invariant::Return, || {
                format!("{} still uses I/O node {}", node.id, node.set.default_member())
            })?;
        }
        for end in 0..self.ends.len() {
            if self.ends[end].connection.is_client() {
                self.ends[end].connection.close(now);
                self.drive(end)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Violation> {
        ensure(self.ends.len() == 2 * self.plan.sessions.len(), Invariant::Liveness, || {
            format!("{} ends of {} connections", self.ends.len(), self.plan.sessions.len())
        })?;
        for (index, end) in self.ends.iter().enumerate() {
            let result = end.connection.close_result();
            ensure(result.is_some_and(|result| result.confirmed), Invariant::Ending, || {
                format!("end {index} closed with {result:?}")
            })?;
        }
        Ok(())
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
