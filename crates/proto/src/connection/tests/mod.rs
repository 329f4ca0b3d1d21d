//! Two machines, virtual time, and a wire that does as told.

mod answers;
mod closing;
mod data;
mod frames;
mod handover;
mod joined;
mod opening;
mod paths;
mod repair;
mod third;
mod trains;

use std::time::Duration;

use weft_base::{Address, FlowKey, Instant, NodeId, Port, Seq, Service};
use weft_wire::{Emit, Encapsulation, Header, Kind, Packet, Reason};

use super::{Connection, Event};
use crate::congestion::Settings;
use crate::{Config, Error, Listener, RecvError, Secret, SendError, State, Stats, Verdict, Waited};

const MS: Duration = Duration::from_millis(1);

fn end(node: u32, port: u16) -> Address {
    Address { node: NodeId::new(node).unwrap(), port: Port::new(port).unwrap() }
}

fn flow() -> FlowKey {
    FlowKey { local: end(1, 50_000), remote: end(2, 1_024) }
}

/// A client and a server with a listener between them, and all packets that ever crossed.
struct Pair {
    now: Instant,
    client: Connection,
    server: Option<Connection>,
    listener: Listener,
    /// Packets towards the server and towards the client that have not arrived.
    to_server: Vec<Packet>,
    to_client: Vec<Packet>,
    /// What becomes of packets towards the client.
    change: fn(Packet) -> Packet,
}

impl Pair {
    fn new(client: &Config, server: &Config) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let secret = Secret { iss: Seq::new(u64::MAX - 1), entropy: 5 };
        Self {
            now,
            client: Connection::connect(now, flow(), client, secret),
            server: None,
            listener: Listener::new(now, server, [7; 32]),
            to_server: Vec::new(),
            to_client: Vec::new(),
            change: |packet| packet,
        }
    }

    fn open(client: &Config, server: &Config) -> Self {
        let mut pair = Self::new(client, server);
        pair.settle();
        assert_eq!((pair.client.state(), pair.server().state()), (State::Established, State::Established));
        pair
    }

    fn of(service: Service) -> Self {
        let config = Config::new(service, 1_444);
        Self::open(&config, &config)
    }

    fn server(&mut self) -> &mut Connection {
        self.server.as_mut().unwrap()
    }

    /// Takes what both ends have to send.
    fn collect(&mut self) {
        self.to_server.extend(outputs(&mut self.client, self.now));
        if let Some(server) = &mut self.server {
            self.to_client.extend(outputs(server, self.now));
        }
    }

    /// Carries packets to and fro until both ends are silent, without the clock moving.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            self.collect();
            if self.to_server.is_empty() && self.to_client.is_empty() {
                return;
            }
            for packet in std::mem::take(&mut self.to_server) {
                self.deliver_to_server(packet);
            }
            for packet in std::mem::take(&mut self.to_client) {
                self.client.handle_packet(self.now, (self.change)(packet));
            }
        }
        panic!("the two never fall silent");
    }

    fn deliver_to_server(&mut self, packet: Packet) {
        if let Some(server) = &mut self.server {
            server.handle_packet(self.now, packet);
            return;
        }
        let secret = Secret { iss: Seq::new(77), entropy: 6 };
        let mut head = Vec::new();
        match self.listener.handle_packet(self.now, &packet, secret, &mut head) {
            Verdict::Embryo(made) | Verdict::Established(made) => self.server = Some(*made),
            Verdict::Answer => self.to_client.push(parse(head)),
            Verdict::Refuse(reason, detail) => {
                if weft_wire::emit::echo_reset(&mut head, &packet, reason, detail) {
                    self.to_client.push(parse(head));
                }
            }
            Verdict::Drop => {}
        }
    }

    /// Lets both ends' timers fire until `time` has passed; packets are carried unless `lost`.
    fn run(&mut self, time: Duration, lost: bool) {
        let until = self.now + time;
        for _ in 0..100_000 {
            let next = [self.client.poll_timeout(), self.server.as_ref().and_then(Connection::poll_timeout)];
            let Some(due) = next.into_iter().flatten().min().filter(|due| *due <= until) else { break };
            self.now = self.now.max(due);
            self.client.handle_timeout(self.now);
            if let Some(server) = &mut self.server {
                server.handle_timeout(self.now);
            }
            if lost {
                self.collect();
                self.to_server.clear();
                self.to_client.clear();
            } else {
                self.settle();
            }
        }
        self.now = until;
    }
}

fn parse(bytes: Vec<u8>) -> Packet {
    Packet::new_checked(bytes.into(), Encapsulation::Simulated).expect("our own packets are sound")
}

fn outputs(connection: &mut Connection, now: Instant) -> Vec<Packet> {
    let mut packets = Vec::new();
    loop {
        let mut head = Vec::new();
        let Some(transmit) = connection.poll_transmit(now, &mut head) else { return packets };
        head.extend_from_slice(&transmit.body);
        packets.push(parse(head));
        assert!(packets.len() < 100_000, "a connection that never stops");
    }
}

fn events(connection: &mut Connection) -> Vec<Event> {
    std::iter::from_fn(|| connection.poll_event()).collect()
}

fn read(connection: &mut Connection) -> Vec<u8> {
    let mut buffer = vec![0; 1 << 20];
    let received = connection.recv(&mut buffer).unwrap();
    assert!(!received.end_of_file, "the end instead of data");
    buffer.truncate(received.len);
    buffer
}

fn kinds(packets: &[Packet]) -> Vec<Kind> {
    packets.iter().map(Packet::kind).collect()
}
