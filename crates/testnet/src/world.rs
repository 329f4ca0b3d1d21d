//! The network: real machines, faulty paths, users and checkers, driven by one event queue.
//!
//! It does for each node what the engine does for a process: look up the flow, hand the packet to the connection or
//! the listener, poll the outputs, arm one timer, and run the users. Everything that could differ between two runs of
//! a seed is in the plan or comes from a generator that the seed filled.

mod drive;
mod finish;
mod receive;
mod troubles;

use std::collections::BTreeMap;

use bytes::Bytes;
use weft_base::{Address, FlowKey, Instant, NodeId, Port};
use weft_des::{Queue, Random};
use weft_proto::{Config, Connection};

use crate::content::Content;
use crate::end::{End, Stage};
use crate::journal::{Entry, Journal};
use crate::node::Node;
use crate::path::{Arrival, Frame, Path};
use crate::plan::{Plan, Target, Trouble};
use crate::report::{Failure, Network, Report};
use crate::user::User;
use crate::violation::{Invariant, Violation, ensure};
use crate::watch::opens::Opens;
use crate::watch::reader::ReaderWatch;
use crate::watch::wire::{EndWatch, Said};

/// Events of one run at most; more mean that it goes round in circles (I7).
const EVENTS_MAX: u64 = 4_000_000;

/// What happens at a time.
#[derive(Clone, Debug)]
enum Happening {
    Arrive { node: usize, arrival: Arrival },
    Turn { node: usize },
    Timer { end: usize, at: Instant },
    User { end: usize, at: Instant },
    Open { session: usize, role: usize },
    Accept { node: usize, port: u16 },
    Trouble(Trouble),
    Heal,
    Deadline,
}

/// A run in progress.
pub struct World {
    plan: Plan,
    queue: Queue<Happening>,
    random: Random,
    nodes: Vec<Node>,
    paths: Vec<Path>,
    ends: Vec<End>,
    by_number: BTreeMap<u64, usize>,
    said: Vec<Said>,
    opens: Opens,
    journal: Journal,
    has_healed: bool,
    head: Vec<u8>,
    out: Vec<Arrival>,
    drops: BTreeMap<&'static str, u64>,
}

/// Runs the plan of `seed`. With `prints` every event goes to standard output.
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
    let mut world = World::new(plan, prints);
    match world.run() {
        Ok(()) => Ok(world.report()),
        Err(violation) => Err(Box::new(Failure {
            seed: world.plan.seed,
            network: Network::Direct,
            violation,
            at: world.queue.now(),
            last: world.journal.tail(),
        })),
    }
}

impl World {
    fn new(plan: Plan, prints: bool) -> Self {
        let seed = plan.seed;
        let count = plan.nodes.len();
        let number = |i: usize| NodeId::unregistered(u32::try_from(i).unwrap_or(0));
        let nodes = (0..count).map(|i| Node::new(number(i), Random::stream(seed, 100 + i as u64))).collect();
        let path = |(i, settings): (usize, &_)| {
            Path::new(Clone::clone(settings), Random::stream(seed, 1_000 + i as u64))
        };
        let mut world = Self {
            queue: Queue::new(),
            random: Random::stream(seed, 1),
            nodes,
            paths: plan.paths.iter().enumerate().map(path).collect(),
            ends: Vec::new(),
            by_number: BTreeMap::new(),
            said: Vec::new(),
            opens: Opens::default(),
            journal: Journal::new(prints),
            has_healed: false,
            head: Vec::new(),
            out: Vec::new(),
            drops: BTreeMap::new(),
            plan,
        };
        world.schedule_plan();
        world
    }

    fn schedule_plan(&mut self) {
        for service in &self.plan.services {
            self.nodes[service.node].listen(Instant::ZERO, service);
        }
        for (at, trouble) in &self.plan.troubles {
            self.queue.schedule(Instant::ZERO + *at, Happening::Trouble(trouble.clone()));
        }
        for (session, plan) in self.plan.sessions.iter().enumerate() {
            let at = Instant::ZERO + plan.opens_at;
            self.queue.schedule(at, Happening::Open { session, role: 0 });
            if let Target::Peer { later, .. } = plan.target {
                self.queue.schedule(at + later, Happening::Open { session, role: 1 });
            }
        }
        self.queue.schedule(Instant::ZERO + self.plan.heals_at, Happening::Heal);
    }

    fn run(&mut self) -> Result<(), Violation> {
        let last = Instant::ZERO + self.plan.heals_at + self.time_to_end();
        let mut handled = 0_u64;
        while let Some(happening) = self.queue.pop() {
            handled += 1;
            ensure(handled < EVENTS_MAX, Invariant::Termination, || {
                format!("{EVENTS_MAX} events and no end")
            })?;
            ensure(self.queue.now() <= last, Invariant::Liveness, || self.stragglers())?;
            self.handle(happening)?;
        }
        self.finish()
    }

    fn handle(&mut self, happening: Happening) -> Result<(), Violation> {
        let now = self.queue.now();
        match happening {
            Happening::Arrive { node, arrival } => self.handle_arrival(node, arrival),
            Happening::Turn { node } => return self.take_turn(node),
            Happening::Timer { end, at } => return self.fire(end, at),
            Happening::User { end, at } => return self.wake(end, at),
            Happening::Open { session, role } => return self.open(session, role),
            Happening::Accept { node, port } => return self.accept(node, port),
            Happening::Trouble(trouble) => {
                if !self.has_healed {
                    self.journal.note(now, Entry::Trouble(trouble.clone()));
                    self.trouble(&trouble);
                }
            }
            Happening::Heal => return self.heal(),
            Happening::Deadline => return self.check_deadline(),
        }
        Ok(())
    }

    // ── Opens ─────────────────────────────────────────────────────────────────────────────────────────────────

    fn open(&mut self, session: usize, role: usize) -> Result<(), Violation> {
        let now = self.queue.now();
        let plan = &self.plan.sessions[session];
        let (node, config, flow) = self.way_of(session, role);
        let script = if role == 0 { &plan.client_script } else { &plan.server_script }.clone();
        if !self.nodes[node].is_up {
            return Ok(()); // its user died with it
        }
        if now < self.nodes[node].suspended_until {
            let until = self.nodes[node].suspended_until;
            self.queue.schedule(until, Happening::Open { session, role });
            return Ok(());
        }
        if let Some(&old) = self.nodes[node].table.get(&flow) {
            let yields = self.ends[old].connection.as_ref().is_some_and(Connection::is_over);
            if !yields {
                return Ok(()); // the port is in use: EADDRINUSE
            }
            self.forget(old);
        }
        let secret = self.nodes[node].secret();
        let iss = secret.iss.get();
        let key = self.session_key(session, iss);
        let mut connection = Connection::connect(now, flow, &config, secret);
        if iss & 1 == 0 {
            connection.join_third();
        }
        self.nodes[node].books.open(flow);
        let plan = &self.plan.sessions[session];
        let other = if role == 0 { &plan.server_script } else { &plan.client_script };
        let user = user_of(script, other.writes.clone(), &config, key, role, now);
        let end = self.add(
            node,
            session,
            role,
            flow,
            connection,
            config,
            user,
            EndWatch::of_client(iss),
            Stage::Owned,
        );
        self.by_number.insert(iss, end);
        self.drive(end)
    }

    /// The node, the configuration and the flow of an end that calls connect.
    fn way_of(&self, session: usize, role: usize) -> (usize, Config, FlowKey) {
        let plan = &self.plan.sessions[session];
        let (far, far_port, far_config) = match &plan.target {
            Target::Service(service) => {
                let service = &self.plan.services[*service];
                (service.node, service.port, &service.config)
            }
            Target::Peer { node, port, config, .. } => (*node, *port, config.as_ref()),
        };
        let local = self.address(plan.client, plan.client_port);
        let remote = self.address(far, far_port);
        if role == 0 {
            (plan.client, plan.config.clone(), FlowKey { local, remote })
        } else {
            (far, far_config.clone(), FlowKey { local: remote, remote: local })
        }
    }

    fn address(&self, node: usize, port: u16) -> Address {
        Address { node: self.nodes[node].id, port: Port::new(port).unwrap_or(Port::ECHO) }
    }

    /// The key of the texts of a session, which both users must know: the initial number of the client, or where both
    /// ends connect, and either may be first, a number of the plan.
    fn session_key(&self, session: usize, iss: u64) -> u64 {
        match self.plan.sessions[session].target {
            Target::Service(_) => iss,
            Target::Peer { .. } => self.plan.seed ^ (session as u64) << 48,
        }
    }

    #[allow(clippy::too_many_arguments)] // one for each part of an end; it has no other maker
    fn add(
        &mut self,
        node: usize,
        session: usize,
        role: usize,
        flow: FlowKey,
        connection: Connection,
        config: Config,
        user: User,
        watch: EndWatch,
        stage: Stage,
    ) -> usize {
        let now = self.queue.now();
        let index = self.ends.len();
        self.journal.note(now, Entry::Opened { end: index, node });
        self.nodes[node].table.insert(flow, index);
        let mut end = End {
            node,
            session,
            role,
            flow,
            connection: Some(connection),
            config,
            user,
            watch,
            stage,
            timer_at: None,
            wake_at: None,
            fired_at: (now, 0),
            peer: None,
            mark: None,
            is_listed: true,
        };
        if self.has_healed {
            end.user.hurry();
        }
        self.ends.push(end);
        index
    }

    /// Takes an ended or quiet connection out of its node's table.
    fn forget(&mut self, end: usize) {
        let entry = &mut self.ends[end];
        if let Some(connection) = &mut entry.connection {
            connection.forget();
        }
        entry.is_listed = false;
        let (node, flow) = (entry.node, entry.flow);
        self.note_stage(end);
        self.nodes[node].table.remove(&flow);
    }

    // ── Packets ───────────────────────────────────────────────────────────────────────────────────────────────

    /// Puts a packet on its way. `said` is what the watch made of it.
    fn transmit(
        &mut self,
        node: usize,
        bytes: Bytes,
        flow: FlowKey,
        said: Said,
        may_fragment: bool,
    ) -> Result<(), Violation> {
        let now = self.queue.now();
        self.nodes[node]
            .books
            .handle_sent(flow, bytes.len())
            .map_err(|violation| violation.of(self.nodes[node].id))?;
        self.journal.note(now, Entry::Sent { node, bytes: bytes.clone() });
        let Some(to) = self.nodes.iter().position(|other| other.id == flow.remote.node) else {
            return Ok(());
        };
        let tag = self.said.len();
        self.said.push(said);
        let mut out = std::mem::take(&mut self.out);
        self.paths[node * self.nodes.len() + to].carry(now, &Frame { bytes, may_fragment, tag }, &mut out);
        for arrival in out.drain(..) {
            self.queue.schedule(arrival.at, Happening::Arrive { node: to, arrival });
        }
        self.out = out;
        Ok(())
    }
}

/// A user with its text and the checker for what it will read.
fn user_of(
    script: crate::script::Script,
    theirs: Vec<usize>,
    config: &Config,
    key: u64,
    role: usize,
    now: Instant,
) -> User {
    let text = |role: usize| Content::new(key.wrapping_add(role as u64));
    let watch = ReaderWatch::new(text(1 - role), config.service, theirs);
    User::new(script, config.service, text(role), watch, now)
}
