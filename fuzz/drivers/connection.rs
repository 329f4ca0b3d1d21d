//! A program of operations for a client, a listener and what it accepts, over a network that loses, repeats, holds
//! back, damages and forges.
//!
//! Whatever happens, no machine panics or sends without end, every packet is legal and goes to the other end, queues
//! keep their bounds, and once both users have closed both machines end. As long as nobody forged a packet with a
//! right seal, each end reads an exact prefix of what the other sent, with its boundaries.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

use bytes::Bytes;
use weft_base::{Address, FlowKey, Instant, NodeId, Port, Seq, Service};
use weft_proto::{Config, Connection, Listener, RecvError, Secret, SendError, State, Verdict, refusal_of};
use weft_wire::{Encapsulation, JoinedParts, Packet, Reason, Refused, Train, emit};

#[path = "forge.rs"]
mod forge;

/// Most packets that one call may bring out.
const BURST_MAX: usize = 4096;
/// Most packets that wait in one direction; more are lost.
const WIRE_MAX: usize = 512;
/// Most operations of one program.
const STEPS_MAX: usize = 600;
/// Most timers that fire before both ends must be closed.
const TIMERS_MAX: usize = 20_000;
const LIMIT: usize = 16 << 10;

/// Among the flags of a header (CDP-FLG-1).
const EOM: u8 = 0x80;

const CLIENT: usize = 0;
const SERVER: usize = 1;

/// Runs the program `data`.
pub(crate) fn run(data: &[u8]) {
    let mut program = Program { data };
    let mut world = World::new(&mut program);
    for _ in 0..STEPS_MAX {
        let Some(operation) = program.next() else { break };
        world.step(operation, &mut program);
    }
    world.finish();
}

/// Bytes that choose; zero when they are used up.
struct Program<'a> {
    data: &'a [u8],
}

impl<'a> Program<'a> {
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.data.split_first()?;
        self.data = rest;
        Some(first)
    }

    fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.data.split_at(len.min(self.data.len()));
        self.data = rest;
        taken
    }
}

/// What one user sent, and how much of it the other has read.
#[derive(Default)]
struct Stream {
    /// Messages; in stream service one piece for each send.
    sent: Vec<Vec<u8>>,
    read_messages: usize,
    read_bytes: usize,
}

struct World {
    now: Instant,
    config: Config,
    listener: Listener,
    /// The client, and what the listener made for its flow.
    ends: [Option<Connection>; 2],
    /// Packets on their way to each end.
    wires: [VecDeque<Vec<u8>>; 2],
    /// What each end sends.
    streams: [Stream; 2],
    /// What the user at each end has of a message whose end has not come.
    ahead: [Vec<u8>; 2],
    /// Somebody forged, or damaged a packet that carries no seal: contents mean nothing any more.
    tainted: bool,
    draws: u64,
}

fn flow() -> FlowKey {
    let end = |node, port| Address {
        node: NodeId::new(node).expect("a node"),
        port: Port::new(port).expect("a port"),
    };
    FlowKey { local: end(0x01_0203, 49_152), remote: end(0x00_ABCD, 7) }
}

fn configure(program: &mut Program<'_>) -> Config {
    let (bits, more, size) = (program.byte(), program.byte(), program.byte());
    let service = if bits & 1 == 0 { Service::Datagram } else { Service::Stream };
    let mut config = Config::new(service, 512 + u16::from(size) * 4);
    config.integrity = bits & 2 == 0;
    config.coalesce &= bits & 4 == 0;
    config.confirm = bits & 8 != 0;
    config.sack = bits & 16 == 0;
    config.pacing = bits & 32 == 0;
    config.probe_mtu = bits & 64 == 0;
    config.embryos_max = if bits & 128 == 0 { 4 } else { 0 };
    config.congestion = weft_proto::congestion::Kind::ALL[usize::from(more) % 3];
    config.receive_slots = [1, 2, 7, 64][usize::from(more >> 2) % 4];
    config.message_bytes = config.message_bytes.filter(|_| more & 16 == 0).map(|_| 8 << 10);
    config.send_bytes = LIMIT;
    config.accept_limit = 2;
    config
}

impl World {
    fn new(program: &mut Program<'_>) -> Self {
        let config = configure(program);
        let now = Instant::from_nanos(1 << 40);
        let secret = Secret { iss: Seq::new(u64::MAX - u64::from(program.byte() % 8)), entropy: 7 };
        let client = Connection::connect(now, flow(), &config, secret);
        let mut world = Self {
            now,
            listener: Listener::new(now, &config, [9; 32]),
            config,
            ends: [Some(client), None],
            wires: [VecDeque::new(), VecDeque::new()],
            streams: [Stream::default(), Stream::default()],
            ahead: [Vec::new(), Vec::new()],
            tainted: false,
            draws: 0,
        };
        world.drain(CLIENT);
        world
    }

    fn step(&mut self, operation: u8, program: &mut Program<'_>) {
        let end = usize::from(operation >> 7);
        match operation & 0x0F {
            0 => self.send(end, usize::from(program.word()) % (12 << 10)),
            1 => self.send(end, usize::from(program.byte())),
            2 => self.read(end, usize::from(program.word()) % (12 << 10)),
            3 => self.read_loan(end),
            4 => self.deliver(end, 1),
            5 => self.deliver(end, usize::from(program.byte())),
            6 => drop(self.wires[end].pop_front()),
            7 if operation & 0x10 != 0 => self.repeat(end),
            7 => self.reorder(end),
            8 => self.damage(end, program),
            9 => self.wait(Duration::from_micros(u64::from(program.word()) * 40)),
            10 => self.wait_for_timer(),
            11 => self.close(end),
            12 => self.abort(end),
            13 => self.forge(end, program),
            14 => self.inject(end, program),
            _ => {
                self.deliver(CLIENT, WIRE_MAX);
                self.deliver(SERVER, WIRE_MAX);
            }
        }
    }

    fn secret(&mut self) -> Secret {
        self.draws = self.draws.wrapping_add(0x9E37_79B9_7F4A_7C15);
        Secret { iss: Seq::new(self.draws.rotate_left(17)), entropy: self.draws }
    }

    // ── What the users do ─────────────────────────────────────────────────────────────────────────────────────

    fn send(&mut self, end: usize, len: usize) {
        let Some(connection) = &mut self.ends[end] else { return };
        let stream = &mut self.streams[end];
        let first = stream.sent.len() * 31 + end;
        let message: Vec<u8> = (0..len).map(|i| u8::try_from((first + i) % 251).unwrap_or(0)).collect();
        match connection.send(&message) {
            Ok(taken) => {
                let whole = self.config.service == Service::Datagram;
                assert!(taken == len || !whole, "a datagram is taken whole");
                stream.sent.push(message[..taken].to_vec());
            }
            Err(SendError::TooBig(limit)) => assert!(len > limit),
            Err(SendError::WouldBlock | SendError::Closed | SendError::Failed(_)) => {}
        }
        assert!(connection.buffered_bytes() <= LIMIT + (12 << 10), "the send queue is bounded");
        self.drain(end);
    }

    fn read(&mut self, end: usize, room: usize) {
        self.read_rest(end);
        let Some(connection) = &mut self.ends[end] else { return };
        let mut buffer = vec![0; room];
        match connection.recv(&mut buffer) {
            Ok(received) if received.end_of_file => assert_eq!((received.len, received.truncated), (0, 0)),
            Ok(received) => self.check_read(end, &buffer[..received.len], received.truncated),
            Err(RecvError::WouldBlock | RecvError::Closed | RecvError::Failed(_)) => {}
        }
        self.drain(end);
    }

    /// Who has the beginning of a message takes the rest, or puts that back where its end has not come.
    fn read_rest(&mut self, end: usize) {
        let mut message = std::mem::take(&mut self.ahead[end]);
        let ahead = u32::try_from(message.len()).ok().and_then(NonZeroU32::new);
        let Some((connection, ahead)) = self.ends[end].as_mut().zip(ahead) else { return };
        match connection.recv_rest(ahead) {
            Ok(Some(rest)) => {
                message.extend_from_slice(&rest.into_bytes());
                self.check_read(end, &message, 0);
            }
            Ok(None) | Err(_) => connection.put_back(&message),
        }
    }

    fn read_loan(&mut self, end: usize) {
        self.read_rest(end);
        let Some(connection) = &mut self.ends[end] else { return };
        if let Ok(Some(message)) = connection.recv_message() {
            let bytes = message.into_bytes();
            self.check_read(end, &bytes, 0);
        }
        self.drain(end);
    }

    fn check_read(&mut self, reader: usize, bytes: &[u8], truncated: usize) {
        let stream = &mut self.streams[1 - reader];
        if self.tainted {
            return;
        }
        if self.config.service == Service::Datagram {
            let sent = stream.sent.get(stream.read_messages).expect("nothing is read that was not sent");
            assert_eq!((bytes, bytes.len() + truncated), (&sent[..bytes.len()], sent.len()));
            stream.read_messages += 1;
        } else {
            let sent = stream.sent.iter().flatten().skip(stream.read_bytes);
            assert!(sent.take(bytes.len()).eq(bytes), "what is read is what was sent");
            stream.read_bytes += bytes.len();
            assert!(stream.read_bytes <= stream.sent.iter().map(Vec::len).sum());
        }
    }

    fn close(&mut self, end: usize) {
        if let Some(connection) = &mut self.ends[end] {
            connection.close(self.now);
        }
        self.drain(end);
    }

    fn abort(&mut self, end: usize) {
        if let Some(connection) = &mut self.ends[end] {
            connection.abort(self.now);
        }
        self.drain(end);
    }

    // ── What the network does ─────────────────────────────────────────────────────────────────────────────────

    fn deliver(&mut self, end: usize, count: usize) {
        let mut left = count;
        while left > 0 {
            let mut together = self.deliver_parts(end, left);
            if together == 0 {
                together = self.deliver_train(end, left);
            }
            if together == 0 {
                let Some(bytes) = self.wires[end].pop_front() else { break };
                self.arrive(end, &bytes);
            }
            left -= together.max(1);
        }
    }

    /// Packets of one message arrive together, to its end or not, and a user waits with a buffer; tells how many.
    fn deliver_parts(&mut self, end: usize, most: usize) -> usize {
        let flow = if end == CLIENT { flow() } else { flow().reversed() };
        let waits = self.streams[1 - end].read_messages.is_multiple_of(2);
        let Some(connection) = self.ends[end].as_mut().filter(|_| waits) else { return 0 };
        let size = self.wires[end].front().map_or(0, Vec::len);
        let ends =
            |packet: &Vec<u8>| packet.len() < size || packet.get(4).is_some_and(|flags| flags & EOM != 0);
        let most = most.min(self.wires[end].len());
        let count = self.wires[end].iter().take(most).position(ends).map_or(most, |last| last + 1);
        let joined: Vec<u8> = self.wires[end].iter().take(count).flatten().copied().collect();
        let Some(parts) = JoinedParts::new_checked(&joined, size, flow, Encapsulation::Udp) else {
            return 0;
        };
        let mut message = std::mem::take(&mut self.ahead[end]);
        let ahead = message.len();
        message.resize(ahead + LIMIT, 0);
        let taken = connection.take_joined(self.now, &parts, u32::try_from(ahead).unwrap_or(0), |bytes| {
            message.get_mut(ahead..ahead + bytes)
        });
        message.truncate(ahead + taken.unwrap_or(0));
        if taken.is_some() {
            assert_eq!(parts.packets() as usize, count);
            self.wires[end].drain(..count);
        }
        if taken.is_some() && parts.has_end() {
            self.check_read(end, &message, 0);
        } else {
            self.ahead[end] = message;
        }
        self.drain(end);
        taken.map_or(0, |_| count)
    }

    /// Packets that are alike arrive together, where there are two at least; tells how many.
    fn deliver_train(&mut self, end: usize, most: usize) -> usize {
        let expected = if end == CLIENT { flow() } else { flow().reversed() };
        let is_open = |connection: &&mut Connection| connection.state() == State::Established;
        let Some(connection) = self.ends[end].as_mut().filter(is_open) else { return 0 };
        // A user waits with a buffer, or none does.
        let mut buffer = vec![0; [0, 1_000, 100_000][self.streams[1 - end].read_bytes % 3]];
        let size = self.wires[end].front().map_or(0, Vec::len);
        let joined = self.wires[end].iter().take(most).take_while(|packet| packet.len() == size);
        let mut joined = Bytes::from(joined.flatten().copied().collect::<Vec<u8>>());
        let (count, read) = match Train::split_checked(&mut joined, size, Encapsulation::Udp) {
            Ok(mut train) if train.len() > 1 && train.flow() == expected => {
                let count = train.len();
                let read = connection.take_train_by(self.now, &mut train, 0, &mut buffer);
                (count, read)
            }
            Ok(_) | Err(_) => return 0,
        };
        self.wires[end].drain(..count);
        if read > 0 {
            connection.note_read();
            self.check_read(end, &buffer[..read], 0);
        }
        self.drain(end);
        count
    }

    fn reorder(&mut self, end: usize) {
        if let Some(bytes) = self.wires[end].pop_front() {
            self.wires[end].push_back(bytes);
        }
    }

    /// The packet at the front comes once more, behind those that are under way.
    fn repeat(&mut self, end: usize) {
        if self.wires[end].len() < WIRE_MAX {
            let again = self.wires[end].front().cloned();
            self.wires[end].extend(again);
        }
    }

    fn damage(&mut self, end: usize, program: &mut Program<'_>) {
        let (at, mask) = (usize::from(program.word()), program.byte().max(1));
        let Some(mut bytes) = self.wires[end].pop_front() else { return };
        let at = at % bytes.len();
        bytes[at] ^= mask;
        self.tainted |= !self.config.integrity;
        self.arrive(end, &bytes);
    }

    /// The packet at the front once more, changed by somebody who can seal.
    fn forge(&mut self, end: usize, program: &mut Program<'_>) {
        let recipe = program.take(forge::RECIPE_LEN);
        let tail = program.byte();
        let tail = program.take(usize::from(tail) % 80);
        let Some(model) = self.wires[end].front() else { return };
        self.tainted = true;
        if let Some(bytes) = forge::forge(model, self.config.integrity, recipe, tail) {
            self.arrive(end, &bytes);
        }
    }

    /// Any bytes.
    fn inject(&mut self, end: usize, program: &mut Program<'_>) {
        let len = usize::from(program.byte());
        let bytes = program.take(len);
        self.tainted = true;
        self.arrive(end, bytes);
    }

    fn arrive(&mut self, end: usize, bytes: &[u8]) {
        let packet = match Packet::new_checked(Bytes::copy_from_slice(bytes), Encapsulation::Udp) {
            Ok(packet) => packet,
            Err(Refused::Drop(_)) => return,
            Err(Refused::Answer(_, trigger)) => {
                let mut head = Vec::new();
                emit::echo_reset(&mut head, trigger, Reason::VERSION, None);
                return self.put(1 - end, head);
            }
        };
        let expected = if end == CLIENT { flow() } else { flow().reversed() };
        let gives_way = |connection: &Connection| connection.is_finished() || connection.yields_to(&packet);
        if self.ends[end].as_ref().is_some_and(gives_way) {
            self.ends[end] = None;
        }
        match &mut self.ends[end] {
            Some(connection) if packet.flow() == expected => {
                connection.handle_packet(self.now, packet);
                self.drain(end);
            }
            _ if end == SERVER => self.arrive_at_listener(&packet),
            _ => self.refuse(end, &packet, refusal_of(&packet), None),
        }
    }

    fn arrive_at_listener(&mut self, packet: &Packet) {
        let secret = self.secret();
        let mut head = Vec::new();
        match self.listener.handle_packet(self.now, packet, secret, &mut head) {
            Verdict::Drop => {}
            Verdict::Answer => self.put(CLIENT, head),
            Verdict::Refuse(reason, detail) => self.refuse(SERVER, packet, Some(reason), detail),
            Verdict::Embryo(connection) => {
                self.listener.note_ready();
                self.listener.note_accepted();
                self.adopt(*connection);
            }
            Verdict::Established(connection) => {
                self.listener.note_accepted();
                self.adopt(*connection);
            }
        }
    }

    /// Keeps a connection of our flow; what others opened is forgotten. A second connection means that the contents
    /// start anew, so they are not compared.
    fn adopt(&mut self, connection: Connection) {
        if connection.flow() != flow().reversed() {
            return;
        }
        self.tainted |= !self.streams[SERVER].sent.is_empty() || self.streams[CLIENT].read_messages > 0;
        self.tainted |= self.streams[CLIENT].read_bytes > 0;
        self.ends[SERVER] = Some(connection);
        self.ahead[SERVER].clear();
        self.drain(SERVER);
    }

    fn refuse(&mut self, end: usize, packet: &Packet, reason: Option<Reason>, detail: Option<u16>) {
        let mut head = Vec::new();
        if reason.is_some_and(|reason| emit::echo_reset(&mut head, packet, reason, detail)) {
            self.put(1 - end, head);
        }
    }

    fn put(&mut self, end: usize, bytes: Vec<u8>) {
        if self.wires[end].len() < WIRE_MAX {
            self.wires[end].push_back(bytes);
        }
    }

    // ── What time does ────────────────────────────────────────────────────────────────────────────────────────

    fn wait(&mut self, duration: Duration) {
        self.now += duration;
        for end in [CLIENT, SERVER] {
            self.fire(end);
        }
    }

    fn fire(&mut self, end: usize) {
        for _ in 0..BURST_MAX {
            let Some(connection) = &mut self.ends[end] else { return };
            if connection.poll_timeout().is_none_or(|at| at > self.now) {
                return;
            }
            connection.handle_timeout(self.now);
            self.drain(end);
        }
        panic!("a timer fires without end");
    }

    fn wait_for_timer(&mut self) {
        let next = self.ends.iter().flatten().filter_map(Connection::poll_timeout).min();
        if let Some(at) = next {
            self.now = self.now.max(at);
            self.wait(Duration::ZERO);
        }
    }

    /// Puts on the wire all that an end has to say.
    fn drain(&mut self, end: usize) {
        let Some(mut connection) = self.ends[end].take() else { return };
        let mut head = Vec::new();
        let mut count = 0;
        while let Some(transmit) = connection.poll_transmit_in_place(self.now, &mut head, 65_000) {
            let bytes = match connection.frame(&transmit) {
                Some(frame) => frame.to_vec(),
                None => [&head[transmit.head], &transmit.body[..]].concat(),
            };
            for bytes in bytes.chunks(bytes.len() / transmit.packets as usize) {
                let packet = Packet::new_checked(Bytes::copy_from_slice(bytes), Encapsulation::Udp);
                let packet = packet.expect("what is sent is legal");
                assert_eq!(packet.flow(), connection.flow().reversed());
                self.put(1 - end, bytes.to_vec());
            }
            head.clear();
            count += transmit.packets as usize;
            assert!(count < BURST_MAX, "packets without end");
        }
        let events = std::iter::from_fn(|| connection.poll_event()).take(BURST_MAX).count();
        assert!(events < 16, "events without end");
        assert_eq!(connection.is_finished(), connection.state() == State::Closed);
        self.ends[end] = Some(connection);
    }

    /// Both users close, the network is good, and time passes: both machines end.
    fn finish(&mut self) {
        for _ in 0..TIMERS_MAX {
            self.close(CLIENT);
            self.close(SERVER);
            self.deliver(SERVER, WIRE_MAX);
            self.deliver(CLIENT, WIRE_MAX);
            if self.ends.iter().flatten().all(Connection::is_finished) {
                return;
            }
            self.wait_for_timer();
        }
        let states: Vec<_> =
            self.ends.iter().flatten().map(|end| (end.state(), end.poll_timeout())).collect();
        panic!("not closed at {:?}: {states:?}", self.now);
    }
}
