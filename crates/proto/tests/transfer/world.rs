//! One bottleneck, whole connections over it, and ends that are away now and then as threads of a busy host are.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use weft_base::{Address, FlowKey, Instant, NodeId, Port, Seq, Service};
use weft_proto::congestion::Kind;
use weft_proto::{Config, Connection, Listener, Secret, Stats, Verdict};
use weft_wire::{Encapsulation, Packet};

/// Data in one packet, in bytes.
const MSS: u16 = 1_444;

/// What all flows share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// Packets per second; only packets towards the receivers wait for their turn.
    pub(crate) rate: u64,
    /// One way.
    pub(crate) delay: Duration,
    /// Packets that the queue holds.
    pub(crate) buffer: u64,
    /// Packets lost at random in either direction, in a thousand.
    pub(crate) loss_per_mille: u64,
    /// The longest packet that is not cut on the way and not lost, in bytes.
    pub(crate) mtu_bytes: usize,
    /// How long an end is away at a time, at most; at least a tenth of it.
    pub(crate) away: Duration,
    /// How long it is there between two absences, on average.
    pub(crate) there: Duration,
}

impl Path {
    /// 20,000 packets a second, 5 ms each way, a queue as large as the path.
    pub(crate) const FAR: Self = Self {
        rate: 20_000,
        delay: Duration::from_millis(5),
        buffer: 200,
        loss_per_mille: 0,
        mtu_bytes: usize::MAX,
        away: Duration::ZERO,
        there: Duration::from_millis(50),
    };
    /// About 3 Gbit/s over 10 ms: five times as many packets on their way as a SACK can name.
    pub(crate) const WIDE: Self = Self { rate: 250_000, buffer: 2_500, ..Self::FAR };
    /// 100,000 packets a second between neighbours.
    pub(crate) const NEAR: Self =
        Self { rate: 100_000, delay: Duration::from_micros(50), buffer: 500, ..Self::FAR };
}

/// What became of a run.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Packets' worth of data received by each flow while it was counted, as a part of what the path could carry.
    pub(crate) shares: Vec<f64>,
    /// The senders' counters.
    pub(crate) stats: Vec<Stats>,
    /// The largest data segments in use at the end, in bytes.
    pub(crate) mss: Vec<u16>,
    /// The longest time in which nothing reached a reader.
    pub(crate) pause: Duration,
}

impl Outcome {
    pub(crate) fn utilisation(&self) -> f64 {
        self.shares.iter().sum()
    }

    /// Jain's index of fairness: 1 if all flows got the same, 1/n if one got all.
    pub(crate) fn fairness(&self) -> f64 {
        let squares: f64 = self.shares.iter().map(|share| share * share).sum();
        self.utilisation().powi(2) / (self.shares.len() as f64 * squares)
    }
}

/// Time between the beginnings of two flows.
const BETWEEN: Duration = Duration::from_millis(100);

/// Runs one flow of each kind until `time`, each beginning a little after the one before, and counts from `from` on.
pub(crate) fn run(path: Path, kinds: &[Kind], from: Duration, time: Duration, seed: u64) -> Outcome {
    let mut world = World {
        path,
        dice: Dice(seed),
        now: Instant::ZERO,
        free_at: Instant::ZERO,
        events: BinaryHeap::new(),
        order: 0,
        flows: Vec::new(),
        from: Instant::ZERO + from,
    };
    for (index, kind) in kinds.iter().enumerate() {
        let begin = Instant::ZERO + BETWEEN * u32::try_from(index).unwrap();
        while world.step(begin) {}
        world.open(index, *kind);
    }
    let end = Instant::ZERO + time;
    while world.step(end) {}
    let could = (time - from).as_secs_f64() * path.rate as f64 * f64::from(MSS);
    Outcome {
        shares: world.flows.iter().map(|flow| flow.received as f64 / could).collect(),
        stats: world.flows.iter().map(|flow| flow.ends[0].as_ref().unwrap().stats(end)).collect(),
        mss: world.flows.iter().map(|flow| flow.ends[0].as_ref().unwrap().path_stats().mss).collect(),
        pause: world.flows.iter().map(|flow| flow.pause).max().unwrap_or_default(),
    }
}

struct Flow {
    listener: Listener,
    /// The sender and the receiver, and when each may look again.
    ends: [Option<Box<Connection>>; 2],
    away_until: [Instant; 2],
    away_next: [Instant; 2],
    wake: [Instant; 2],
    received: u64,
    heard_at: Instant,
    pause: Duration,
}

/// What happens at one end of one flow. Packets come before the timer of the same moment, as a turn takes them.
enum Happening {
    Arrive(Packet),
    Wake,
}

struct Event {
    /// When, whether it is a timer, and the order in which it was made.
    key: (Instant, bool, u64),
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
    path: Path,
    dice: Dice,
    now: Instant,
    free_at: Instant,
    events: BinaryHeap<Reverse<Event>>,
    order: u64,
    flows: Vec<Flow>,
    from: Instant,
}

impl World {
    fn open(&mut self, index: usize, kind: Kind) {
        let config = Config {
            congestion: kind,
            receive_slots: 32_768,
            send_bytes: 1 << 26,
            ..Config::new(Service::Stream, MSS)
        };
        let end = |node, port| Address { node: NodeId::new(node).unwrap(), port: Port::new(port).unwrap() };
        let local = end(1, 50_000 + u16::try_from(index).unwrap());
        let secret = Secret { iss: Seq::new(self.dice.next()), entropy: self.dice.next() };
        let client = Connection::connect(self.now, FlowKey { local, remote: end(2, 7) }, &config, secret);
        self.flows.push(Flow {
            listener: Listener::new(self.now, &config, [9; 32]),
            ends: [Some(Box::new(client)), None],
            away_until: [Instant::ZERO; 2],
            away_next: [Instant::ZERO; 2],
            wake: [Instant::MAX; 2],
            received: 0,
            heard_at: Instant::ZERO,
            pause: Duration::ZERO,
        });
        self.turn(index, 0);
    }

    fn push(&mut self, at: Instant, flow: usize, end: usize, what: Happening) {
        self.order += 1;
        let key = (at, matches!(what, Happening::Wake), self.order);
        self.events.push(Reverse(Event { key, flow, end, what }));
    }

    /// One end handles all that is there for it at this moment, in one turn.
    fn step(&mut self, until: Instant) -> bool {
        if self.events.peek().is_none_or(|Reverse(next)| next.key.0 > until) {
            self.now = until;
            return false;
        }
        let Some(Reverse(Event { key: (at, _, _), flow, end, what })) = self.events.pop() else {
            return false;
        };
        self.now = at;
        let back = self.back_at(flow, end);
        if back > at {
            self.push(back, flow, end, what);
            return true;
        }
        self.handle(flow, end, what);
        while let Some(Reverse(next)) = self.events.peek()
            && (next.key.0, next.flow, next.end) == (at, flow, end)
        {
            let Some(Reverse(next)) = self.events.pop() else { break };
            self.handle(flow, end, next.what);
        }
        self.turn(flow, end);
        true
    }

    /// When the end is there; now, if it is not away.
    fn back_at(&mut self, flow: usize, end: usize) -> Instant {
        let Path { away, there, .. } = self.path;
        if away.is_zero() {
            return self.now;
        }
        let (share, gap) = (self.dice.next() % 1_000, self.dice.next() % 1_000);
        let flow = &mut self.flows[flow];
        if self.now >= flow.away_next[end] {
            let least = away / 10;
            flow.away_until[end] =
                flow.away_next[end] + least + (away - least) / 1_000 * u32::try_from(share).unwrap();
            flow.away_next[end] =
                self.now.max(flow.away_until[end]) + there / 500 * u32::try_from(gap).unwrap();
        }
        self.now.max(flow.away_until[end])
    }

    fn handle(&mut self, index: usize, end: usize, what: Happening) {
        let flow = &mut self.flows[index];
        match (what, &mut flow.ends[end]) {
            (Happening::Wake, Some(connection)) => {
                flow.wake[end] = Instant::MAX;
                connection.handle_timeout(self.now);
            }
            (Happening::Arrive(packet), Some(connection)) => connection.handle_packet(self.now, packet),
            (Happening::Arrive(packet), None) => {
                let secret = Secret { iss: Seq::new(5), entropy: 6 };
                let mut head = Vec::new();
                let verdict = flow.listener.handle_packet(self.now, &packet, secret, &mut head);
                if let Verdict::Embryo(made) | Verdict::Established(made) = verdict {
                    flow.ends[end] = Some(made);
                }
            }
            (Happening::Wake, None) => {}
        }
    }

    /// Reads, writes, and lets go what may go.
    fn turn(&mut self, index: usize, end: usize) {
        let now = self.now;
        let flow = &mut self.flows[index];
        let Some(connection) = &mut flow.ends[end] else { return };
        if end == 0 {
            while connection.buffered_bytes() < 1 << 25 && connection.send(&[0; 64 * MSS as usize]).is_ok() {}
        } else {
            let mut buffer = [0; 1 << 16];
            let mut bytes = 0;
            while let Ok(got) = connection.recv(&mut buffer) {
                bytes += got.len as u64;
            }
            if bytes > 0 && now >= self.from {
                flow.received += bytes;
                flow.pause = flow.pause.max(now - flow.heard_at.max(self.from));
            }
            if bytes > 0 {
                flow.heard_at = now;
            }
        }
        let mut packets = Vec::new();
        let mut head = Vec::new();
        while let Some(transmit) = connection.poll_transmit(now, &mut head) {
            let bytes = [&head[transmit.head], &transmit.body[..]].concat();
            head.clear();
            if bytes.len() <= self.path.mtu_bytes || transmit.may_fragment {
                packets.push(Packet::new_checked(bytes.into(), Encapsulation::Simulated).unwrap());
            }
        }
        let due = connection.poll_timeout().filter(|due| *due < flow.wake[end]);
        if let Some(due) = due {
            flow.wake[end] = due;
            self.push(due.max(now), index, end, Happening::Wake);
        }
        for packet in packets {
            self.carry(index, end, packet);
        }
    }

    /// One packet through the bottleneck, if it goes towards a receiver, and over the rest of the way.
    fn carry(&mut self, flow: usize, end: usize, packet: Packet) {
        let Path { rate, delay, buffer, loss_per_mille, .. } = self.path;
        let mut at = self.now;
        if end == 0 && packet.payload_len() > 0 {
            let waiting = self.free_at - self.now;
            if waiting.as_nanos() * u128::from(rate) >= u128::from(buffer) * 1_000_000_000 {
                return;
            }
            self.free_at = self.free_at.max(self.now) + Duration::from_nanos(1_000_000_000 / rate);
            at = self.free_at;
        }
        if self.dice.next() % 1_000 >= loss_per_mille {
            self.push(at + delay, flow, 1 - end, Happening::Arrive(packet));
        }
    }
}

/// SplitMix64: a run is repeated by its seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
