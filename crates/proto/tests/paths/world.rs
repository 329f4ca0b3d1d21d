//! Two ends with several I/O nodes between them, some of which fail.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use weft_base::{Address, FlowKey, Instant, NodeId, Port, Seq, Service};
use weft_proto::congestion::{Kind, Settings};
use weft_proto::{Config, Connection, Listener, PathReport, Paths, Secret, Verdict};
use weft_wire::{Encapsulation, Packet};

/// Data in one packet, in bytes.
pub(crate) const MSS: u16 = 1_444;
pub(crate) const MS: Duration = Duration::from_millis(1);

/// What an I/O node does to packets, each direction by itself: 0 towards the receiver, 1 towards the sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    /// Packets per second.
    pub(crate) rate: u64,
    /// One way.
    pub(crate) delay: Duration,
    /// Packets that wait at most.
    pub(crate) buffer: u64,
    pub(crate) is_dead: [bool; 2],
    pub(crate) loss_per_mille: u64,
    /// Longest packet that it takes whole, in bytes. It cuts a longer one where sender and forwarder may: one that is sent
    /// again and exceeds the limit of its path (CDP-MTU-6).
    pub(crate) mtu: usize,
}

impl Member {
    /// 100,000 packets a second, and a queue of 256 of them, or as long as the way.
    pub(crate) fn at(delay: Duration) -> Self {
        let rate = 100_000;
        let held = u64::try_from(delay.as_micros()).unwrap() * 2 * rate / 1_000_000;
        Self { rate, delay, buffer: held.max(256), is_dead: [false; 2], loss_per_mille: 0, mtu: usize::MAX }
    }

    pub(crate) fn dead(self) -> Self {
        Self { is_dead: [true; 2], ..self }
    }
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) kind: Kind,
    pub(crate) connections: u16,
    /// Data in one packet that both ends' own links carry, in bytes; above [`MSS`] it is looked for.
    pub(crate) mss: u16,
    pub(crate) members: Vec<Member>,
    /// When a member becomes another.
    pub(crate) faults: Vec<(Duration, usize, Member)>,
    /// Bytes that the sender keeps waiting; 0 for one message after another, each answered before the next.
    pub(crate) ahead: usize,
    /// How long it goes on.
    pub(crate) time: Duration,
    pub(crate) seed: u64,
}

/// What was seen of one end's set of I/O nodes.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) at: Duration,
    pub(crate) end: usize,
    pub(crate) to: u8,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Bytes that reached readers, in each millisecond.
    pub(crate) received: Vec<u64>,
    /// The longest time without anything for a reader, from the first fault on, of all connections.
    pub(crate) pause: Duration,
    /// The RTO of the first connection's sender at the first fault.
    pub(crate) rto: Duration,
    pub(crate) changes: Vec<Change>,
    /// Data packets given to the failed member after the first fault, while it was the sender's default.
    pub(crate) windows: Vec<u32>,
    /// The longest data segment that each member carried after the first fault and that was sent once, in bytes.
    pub(crate) longest: Vec<usize>,
    pub(crate) is_whole: bool,
}

impl Outcome {
    /// Bytes per millisecond within a stretch of time.
    pub(crate) fn goodput(&self, from: Duration, to: Duration) -> f64 {
        let (from, to) = (from.as_millis() as usize, to.as_millis() as usize);
        self.received[from..to].iter().sum::<u64>() as f64 / (to - from) as f64
    }
}

/// Stands in for the table that all connections to one side share: [CDP-IO-5].
struct Set {
    counts: Vec<u32>,
    lost_at: Vec<Instant>,
    default: u8,
}

impl Set {
    /// Takes in what a connection reports; tells whether the default changed.
    fn handle(&mut self, now: Instant, report: PathReport) -> bool {
        let path = usize::from(report.path);
        if report.was_cleared {
            self.counts[path] = 0;
        }
        self.counts[path] += report.lost;
        if report.lost > 0 {
            self.lost_at[path] = now;
        }
        if report.path != self.default || self.counts[path] < 3 {
            return false;
        }
        let n = self.counts.len();
        let others = (1..n).map(|step| (path + step) % n);
        let next = others.clone().find(|at| self.counts[*at] == 0);
        let next = next.or_else(|| others.min_by_key(|at| self.lost_at[*at])).unwrap();
        self.counts[next] = 0;
        self.default = u8::try_from(next).unwrap();
        true
    }

    fn paths(&self) -> Paths {
        Paths::new(u8::try_from(self.counts.len()).unwrap(), self.default).unwrap()
    }
}

struct Flow {
    listener: Listener,
    ends: [Option<Box<Connection>>; 2],
    wake: [Instant; 2],
    written: u64,
    read: u64,
    read_at: Instant,
    pause: Duration,
}

enum Happening {
    Arrive { path: u8, packet: Packet },
    Wake,
    Fault(usize, Member),
}

struct Event {
    key: (Instant, u64),
    flow: usize,
    end: usize,
    what: Happening,
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl Eq for Event {}
impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

struct World {
    scene: Scene,
    dice: Dice,
    now: Instant,
    free_at: Vec<[Instant; 2]>,
    events: BinaryHeap<Reverse<Event>>,
    order: u64,
    flows: Vec<Flow>,
    sets: [Set; 2],
    has_failed: bool,
    outcome: Outcome,
}

pub(crate) fn run(scene: &Scene) -> Outcome {
    let n = scene.members.len();
    let set = || Set { counts: vec![0; n], lost_at: vec![Instant::ZERO; n], default: 0 };
    let mut world = World {
        dice: Dice(scene.seed),
        now: Instant::ZERO,
        free_at: vec![[Instant::ZERO; 2]; n],
        events: BinaryHeap::new(),
        order: 0,
        flows: Vec::new(),
        sets: [set(), set()],
        has_failed: false,
        outcome: Outcome {
            received: vec![0; scene.time.as_millis() as usize + 1],
            pause: Duration::ZERO,
            rto: Duration::ZERO,
            changes: Vec::new(),
            windows: Vec::new(),
            longest: vec![0; n],
            is_whole: true,
        },
        scene: scene.clone(),
    };
    for (at, member, becomes) in scene.faults.clone() {
        world.push(Instant::ZERO + at, 0, 0, Happening::Fault(member, becomes));
    }
    for index in 0..scene.connections {
        world.open(index);
    }
    let end = Instant::ZERO + scene.time;
    while world.step(end) {}
    for flow in &mut world.flows {
        flow.pause = flow.pause.max(end - flow.read_at);
        assert!(flow.ends.iter().flatten().all(|end| end.error().is_none()), "no error reaches a user");
    }
    world.outcome.pause = world.flows.iter().map(|flow| flow.pause).max().unwrap();
    world.outcome
}

impl World {
    fn open(&mut self, index: u16) {
        let config = Config {
            congestion: self.scene.kind,
            receive_slots: 4_096,
            congestion_settings: Settings { fixed_window: 64, ..Settings::default() },
            probe_mtu: self.scene.mss > MSS,
            ..Config::new(Service::Stream, self.scene.mss)
        };
        let end = |node, port| Address { node: NodeId::new(node).unwrap(), port: Port::new(port).unwrap() };
        let key = FlowKey { local: end(1, 50_000 + index), remote: end(2, 7) };
        let secret = Secret { iss: Seq::new(self.dice.next()), entropy: self.dice.next() };
        let mut client = Connection::connect(self.now, key, &config, secret);
        client.set_paths(self.now, self.sets[0].paths());
        self.flows.push(Flow {
            listener: Listener::new(self.now, &config, [9; 32]),
            ends: [Some(Box::new(client)), None],
            wake: [Instant::MAX; 2],
            written: 0,
            read: 0,
            read_at: Instant::ZERO,
            pause: Duration::ZERO,
        });
        self.turn(usize::from(index), 0);
    }

    fn push(&mut self, at: Instant, flow: usize, end: usize, what: Happening) {
        self.order += 1;
        self.events.push(Reverse(Event { key: (at, self.order), flow, end, what }));
    }

    fn step(&mut self, until: Instant) -> bool {
        let Some(Reverse(Event { key: (at, _), flow, end, what })) = self.events.pop() else { return false };
        if at > until {
            return false;
        }
        self.now = at;
        match what {
            Happening::Fault(member, becomes) => return self.fail(member, becomes),
            Happening::Wake => {
                self.flows[flow].wake[end] = Instant::MAX;
                if let Some(connection) = &mut self.flows[flow].ends[end] {
                    connection.handle_timeout(at);
                }
            }
            Happening::Arrive { path, packet } => self.arrive(flow, end, path, packet),
        }
        self.turn(flow, end);
        true
    }

    fn fail(&mut self, member: usize, becomes: Member) -> bool {
        self.scene.members[member] = becomes;
        if !self.has_failed {
            self.has_failed = true;
            self.outcome.rto = self.flows[0].ends[0].as_ref().unwrap().path_stats().rto;
            for flow in &mut self.flows {
                flow.pause = Duration::ZERO;
            }
        }
        true
    }

    fn arrive(&mut self, index: usize, end: usize, path: u8, packet: Packet) {
        let (now, flow) = (self.now, &mut self.flows[index]);

        if let Some(connection) = &mut flow.ends[end] {
            return connection.handle_packet_by(now, packet, path);
        }
        let secret = Secret { iss: Seq::new(5), entropy: 6 };
        let verdict = flow.listener.handle_packet(now, &packet, secret, &mut Vec::new());
        if let Verdict::Embryo(mut made) | Verdict::Established(mut made) = verdict {
            made.set_paths(now, self.sets[end].paths());
            made.note_came_by(path);
            flow.ends[end] = Some(made);
        }
    }

    /// Reads, writes, lets go what may go, and passes reports on.
    fn turn(&mut self, index: usize, end: usize) {
        let now = self.now;
        self.use_socket(index, end);
        let Some(connection) = &mut self.flows[index].ends[end] else { return };
        let mut changed = None;
        while let Some(report) = connection.take_path_report() {
            if self.sets[end].handle(now, report) {
                changed = Some(self.sets[end].default);
            }
        }
        if let Some(to) = changed {
            self.outcome.changes.push(Change { at: now - Instant::ZERO, end, to });
            for other in 0..self.flows.len() {
                if let Some(connection) = &mut self.flows[other].ends[end] {
                    connection.set_paths(now, self.sets[end].paths());
                    self.outcome.windows.push(connection.path_stats().congestion_window);
                }
                if other != index {
                    self.send(other, end);
                }
            }
        }
        self.send(index, end);
    }

    fn use_socket(&mut self, index: usize, end: usize) {
        let (now, ahead) = (self.now, self.scene.ahead);
        let flow = &mut self.flows[index];
        let Some(connection) = &mut flow.ends[end] else { return };
        if end == 0 {
            let room = |connection: &Connection| connection.buffered_bytes() < ahead.max(1);
            while room(connection) {
                let block: Vec<u8> = (0..1_000_u64).map(|at| byte(flow.written + at)).collect();
                let Ok(taken) = connection.send(&block) else { break };
                flow.written += taken as u64;
            }
            return;
        }
        let mut buffer = [0; 1 << 14];
        while let Ok(got) = connection.recv(&mut buffer) {
            let is_right = (flow.read..).zip(&buffer[..got.len]).all(|(at, read)| byte(at) == *read);
            self.outcome.is_whole &= is_right;
            flow.read += got.len as u64;
            flow.pause = flow.pause.max(now - flow.read_at);
            flow.read_at = now;
            let slot = (now - Instant::ZERO).as_millis() as usize;
            self.outcome.received[slot] += got.len as u64;
        }
    }

    fn send(&mut self, index: usize, end: usize) {
        let now = self.now;
        let flow = &mut self.flows[index];
        let Some(connection) = &mut flow.ends[end] else { return };
        let mut packets = Vec::new();
        let mut head = Vec::new();
        while let Some(transmit) = connection.poll_transmit(now, &mut head) {
            let bytes = [&head[transmit.head], &transmit.body[..]].concat();
            let packet = Packet::new_checked(bytes.into(), Encapsulation::Simulated).unwrap();
            let mtu = self.scene.members[usize::from(transmit.path)].mtu;
            let may_be_cut = transmit.may_fragment && packet.header().rtx;
            if self.has_failed && !packet.header().rtx {
                let longest = &mut self.outcome.longest[usize::from(transmit.path)];
                *longest = (*longest).max(packet.payload_len());
            }
            if packet.bytes().len() <= mtu || may_be_cut {
                packets.push((transmit.path, packet));
            }
            head.clear();
        }
        if let Some(due) = connection.poll_timeout().filter(|due| *due < flow.wake[end]) {
            flow.wake[end] = due;
            self.push(due.max(now), index, end, Happening::Wake);
        }
        for (path, packet) in packets {
            self.carry(index, end, path, packet);
        }
    }

    fn carry(&mut self, flow: usize, end: usize, path: u8, packet: Packet) {
        let member = self.scene.members[usize::from(path)];
        let free_at = &mut self.free_at[usize::from(path)][end];
        let waiting = (*free_at - self.now).as_nanos() * u128::from(member.rate) / 1_000_000_000;
        if waiting >= u128::from(member.buffer) {
            return;
        }
        // [CDP-FWD-5] CE from half full
        let packet = if waiting * 2 > u128::from(member.buffer) { marked(&packet) } else { packet };
        *free_at = (*free_at).max(self.now) + Duration::from_nanos(1_000_000_000 / member.rate);
        let at = *free_at + member.delay;
        if !member.is_dead[end] && self.dice.next() % 1_000 >= member.loss_per_mille {
            self.push(at, flow, 1 - end, Happening::Arrive { path, packet });
        }
    }
}

fn marked(packet: &Packet) -> Packet {
    let mut bytes = packet.bytes().to_vec();
    bytes[0] |= 0x04;
    Packet::new_checked(bytes.into(), Encapsulation::Simulated).unwrap()
}

/// The byte at a place of the stream.
fn byte(at: u64) -> u8 {
    at.wrapping_mul(0x9E37_79B9).to_be_bytes()[4]
}

/// SplitMix64: a run is repeated by its seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
