//! How the receiving side scales: `receive SCHEME --threads T --ports P`, packets a second that T threads work off.
//!
//! Machines of the protocol make packets of many connections beforehand; then the engine's workers find them all at their
//! ports at once, and the time until the last is worked off counts, acknowledgements included. Users read, and the machines
//! hear the acknowledgements, while no clock runs. This is the P of the CDP papers, `P = N·t·ρ(t)`, where N packets a second
//! are what one of t threads works off and ρ(t) is what contention leaves of it.

use std::collections::VecDeque;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use clap::Parser;
use weft_base::{Address, FlowKey, NodeId, Port, Seq, Service};
use weft_bench::Report;
use weft_bench::feed::{Feed, Gate};
use weft_engine::{Engine, Gather, Scheme, Settings, Slot, Workers, congestion};
use weft_link::{Link, Received};
use weft_proto::{Config, Connection, RecvError, Secret, State};
use weft_wire::{Encapsulation, Packet};

/// Messages of each connection in a load; fewer than its receive window.
const MESSAGES: usize = 64;
/// Loads before those that count.
const WARM_UP: usize = 3;
/// In which all threads that receive wake.
const AWAKENING: Duration = Duration::from_micros(500);
/// Rounds of packets there and back in which every connection must be open.
const OPENING_ROUNDS: usize = 100;
/// The peer of connection n has this UDP port and n; addresses of a network that nobody has.
const FIRST_PEER: u16 = 20_000;

/// Measures how many packets a second the receiving side works off.
#[derive(Parser)]
struct Arguments {
    /// How the socket table is locked: coarse, fine or epoch.
    #[arg(value_parser = scheme)]
    scheme: Scheme,
    /// Threads that receive.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Ports that packets come in by, at most one for each thread; connections are dealt out to them.
    #[arg(long, default_value_t = 1)]
    ports: usize,
    /// Connections.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=4096))]
    connections: u16,
    /// Bytes of a message, which takes a packet of its own.
    #[arg(long, default_value_t = 64)]
    size: usize,
    /// Packets of one connection that come one after the other.
    #[arg(long, default_value_t = 1)]
    run: usize,
    /// Seconds of work to measure.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
}

fn scheme(name: &str) -> Result<Scheme, String> {
    let known = Scheme::ALL.into_iter().find(|scheme| scheme.name() == name);
    known.ok_or_else(|| "give coarse, fine or epoch".to_owned())
}

fn main() -> ExitCode {
    match measure(&Arguments::parse()) {
        Ok(report) => {
            report.print();
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("receive: {error}");
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::cast_precision_loss)] // a rate
fn measure(arguments: &Arguments) -> Result<Report, Box<dyn Error>> {
    if arguments.ports == 0 || arguments.ports > arguments.threads {
        return Err(format!(
            "{} ports for {} threads; give each a thread",
            arguments.ports, arguments.threads
        )
        .into());
    }
    let mut bench = Bench::open(arguments)?;
    let (mut packets, mut time, started) = (0, Duration::ZERO, Instant::now());
    let wanted = Duration::from_secs_f64(arguments.seconds);
    for number in 0.. {
        let (count, took) = bench.load(arguments)?;
        if number >= WARM_UP {
            packets += count;
            time += took;
        }
        // Making packets takes longer than taking them in.
        if time >= wanted || (number > WARM_UP && started.elapsed() > wanted * 10) {
            break;
        }
    }
    Ok(Report::new()
        .text("scheme", arguments.scheme.name())
        .count("threads", arguments.threads as u64)
        .count("ports", arguments.ports as u64)
        .count("packets", packets)
        .number("packets_per_s", packets as f64 / time.as_secs_f64()))
}

/// One that sends to the engine: a machine of the protocol, and the port that its packets come in by.
struct Peer {
    connection: Connection,
    at: SocketAddr,
    port: usize,
    /// What it has sent that is not handed over yet: packets end to end, and the bytes of each.
    out: (BytesMut, VecDeque<usize>),
}

struct Bench {
    engine: Arc<Engine>,
    gate: Arc<Gate>,
    feeds: Vec<Arc<Feed>>,
    peers: Vec<Peer>,
    slots: Vec<Arc<Slot>>,
}

impl Bench {
    /// An engine with as many connections as wanted, all open.
    fn open(arguments: &Arguments) -> Result<Self, Box<dyn Error>> {
        let local = |port: usize| {
            SocketAddr::from((Ipv4Addr::new(127, 78, 0, 1), u16::try_from(port + 1).unwrap_or(1)))
        };
        let gate = Arc::new(Gate::default());
        let feeds = (0..arguments.ports).map(|port| Feed::new(local(port), gate.clone()).map(Arc::new));
        let feeds = feeds.collect::<Result<Vec<_>, _>>()?;
        let engine = Arc::new(Engine::open(Settings {
            links: feeds.iter().map(|feed| feed.clone() as Arc<dyn Link>).collect(),
            scheme: arguments.scheme,
            workers: Workers { threads: arguments.threads, spin: true },
            linger: Duration::ZERO,
            ..Settings::default()
        })?);
        for feed in &feeds {
            let engine = Arc::downgrade(&engine);
            feed.watch(move || engine.upgrade().map_or(0, |engine| engine.waiting_packets()));
        }
        let config = Config {
            // A message takes a packet of its own, and all of a load go at once.
            coalesce: false,
            pacing: false,
            probe_mtu: false,
            congestion: congestion::Kind::Fixed,
            accept_limit: usize::from(arguments.connections),
            embryos_max: usize::from(arguments.connections),
            ..Config::new(Service::Datagram, engine.mss())
        };
        let listening = engine
            .listen(Some(Port::ECHO), config.clone(), Gather::Off)
            .map_err(|error| format!("{error:?}"))?;
        let server = Address { node: engine.node(), port: Port::ECHO };
        let peers =
            (0..arguments.connections).map(|number| peer(&engine, server, &config, number, arguments.ports));
        let peers = peers.collect::<Option<Vec<_>>>().ok_or("no address")?;
        let mut bench = Self { engine, gate, feeds, peers, slots: Vec::new() };
        for _ in 0..OPENING_ROUNDS {
            bench.deliver(usize::MAX);
            bench.hear();
            bench.slots.extend(std::iter::from_fn(|| bench.engine.accept(&listening)));
            let is_open = bench.peers.iter().all(|peer| peer.connection.state() == State::Established);
            if is_open && bench.slots.len() == bench.peers.len() {
                return Ok(bench);
            }
        }
        Err(format!("only {} of {} connections opened", bench.slots.len(), bench.peers.len()).into())
    }

    /// One load: how many packets it was, and how long the engine had to do with it.
    fn load(&mut self, arguments: &Arguments) -> Result<(u64, Duration), Box<dyn Error>> {
        let message = vec![0xA5; arguments.size];
        let mut sent = 0;
        for peer in &mut self.peers {
            for _ in 0..MESSAGES {
                // A full window leaves the rest to the next load.
                sent += u64::from(peer.connection.send(&message).is_ok());
            }
        }
        let (packets, took) = self.deliver(arguments.run);
        let mut taken = 0;
        for slot in &self.slots {
            loop {
                match self.engine.recv_message(slot) {
                    Ok(Some(_)) => taken += 1,
                    Ok(None) => return Err("a connection has ended".into()),
                    Err(RecvError::WouldBlock) => break,
                    Err(error) => return Err(format!("{error:?}").into()),
                }
            }
        }
        // What the peers hear opens their windows; it is not measured.
        self.hear();
        if taken != sent {
            return Err(format!("{taken} of {sent} messages arrived").into());
        }
        Ok((packets, took))
    }

    /// Hands everything that the peers have to send to the engine, `run` packets of each in turn, and waits until it is
    /// worked off.
    fn deliver(&mut self, run: usize) -> (u64, Duration) {
        let now = self.engine.now();
        for peer in &mut self.peers {
            let mut packet = Vec::new();
            while let Some(transmit) = peer.connection.poll_transmit(now, &mut packet) {
                packet.extend_from_slice(&transmit.body);
                peer.out.0.extend_from_slice(&packet[transmit.head.start..]);
                peer.out.1.push_back(packet.len() - transmit.head.start);
                packet.clear();
            }
        }
        let mut loads: Vec<VecDeque<Received>> = self.feeds.iter().map(|_| VecDeque::new()).collect();
        let mut outs: Vec<(BytesMut, VecDeque<usize>)> =
            self.peers.iter_mut().map(|peer| (peer.out.0.split(), std::mem::take(&mut peer.out.1))).collect();
        while outs.iter().any(|(_, lens)| !lens.is_empty()) {
            for (peer, (bytes, lens)) in self.peers.iter().zip(&mut outs) {
                let some = lens.drain(..run.min(lens.len()));
                loads[peer.port].extend(some.map(|len| Received::new(peer.at, bytes.split_to(len))));
            }
        }
        let count = loads.iter().map(|load| load.len() as u64).sum();
        self.gate.shut();
        for (feed, load) in self.feeds.iter().zip(loads) {
            feed.fill(load);
        }
        std::thread::sleep(AWAKENING);
        let started = self.gate.open();
        let done = self.feeds.iter().map(|feed| feed.wait()).max().unwrap_or(started);
        (count, done - started)
    }

    /// What the engine has sent reaches the peers.
    fn hear(&mut self) {
        let now = self.engine.now();
        for (to, bytes) in self.feeds.iter().flat_map(|feed| feed.take_sent()) {
            let peer = self.peers.get_mut(usize::from(to.port().wrapping_sub(FIRST_PEER)));
            let packet = Packet::new_checked(Bytes::from(bytes), Encapsulation::Simulated);
            if let (Some(peer), Ok(packet)) = (peer, packet) {
                peer.connection.handle_packet(now, packet);
            }
        }
        for peer in &mut self.peers {
            while peer.connection.poll_timeout().is_some_and(|due| due <= now) {
                peer.connection.handle_timeout(now);
            }
            while peer.connection.poll_event().is_some() {}
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // Else a worker that asks could be the one to drop the engine, which waits for its workers.
        self.feeds.iter().for_each(|feed| feed.close());
    }
}

/// The peer of connection `number`, which begins to open it.
fn peer(engine: &Engine, server: Address, config: &Config, number: u16, ports: usize) -> Option<Peer> {
    let node = NodeId::new(u32::from(number) + 1)?;
    let flow = FlowKey { local: Address { node, port: Port::new(50_000)? }, remote: server };
    let secret = Secret { iss: Seq::new(1 << 40), entropy: u64::from(number) };
    let connection = Connection::connect(engine.now(), flow, config, secret);
    let at = (Ipv4Addr::new(127, 78, 0, 2), FIRST_PEER + number).into();
    Some(Peer { connection, at, port: usize::from(number) % ports, out: Default::default() })
}
