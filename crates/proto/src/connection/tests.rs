//! Two machines, virtual time, and a wire that does as told.

use std::time::Duration;

use weft_base::{Address, FlowKey, Instant, NodeId, Port, Seq, Service};
use weft_wire::{Encapsulation, Header, Kind, Packet, Reason};

use super::{Connection, Event};
use crate::{Config, Error, Listener, RecvError, Secret, SendError, State, Verdict, Waited};

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
                self.client.handle_packet(self.now, packet);
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

/// [CDP-ST-1] [CDP-ST-4] [CDP-ST-10] [CDP-ST-16] The three-way open.
#[test]
fn a_client_and_a_listener_open_in_three_packets() {
    let config = Config::new(Service::Stream, 1_444);
    let mut pair = Pair::new(&config, &config);
    pair.collect();
    assert_eq!(kinds(&pair.to_server), [Kind::Syn]);
    pair.settle();
    assert_eq!(events(&mut pair.client), [Event::Connected]);
    assert_eq!(events(pair.server()), [Event::Connected]);
    assert!(pair.client.agreed().sealed, "[CDP-SEAL-6] sealed by default");
}

/// [CDP-SVC-2] [CDP-DG-1] Messages arrive whole, once, in order, with their boundaries, the empty one too.
#[test]
fn messages_keep_their_boundaries() {
    let mut pair = Pair::of(Service::Datagram);
    let messages: Vec<Vec<u8>> = [0, 1, 500, 1_444, 1_445, 100_000, 3].map(|len| vec![7; len]).into();
    for message in &messages {
        assert_eq!(pair.client.send(message), Ok(message.len()));
    }
    pair.settle();
    for message in &messages {
        assert_eq!(&read(pair.server()), message);
    }
    assert_eq!(pair.server().recv(&mut [0]), Err(RecvError::WouldBlock));
}

/// [CDP-STR-1] A stream is its bytes in order, both ways at once.
#[test]
fn a_stream_is_bytes_both_ways() {
    let mut pair = Pair::of(Service::Stream);
    let data: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    let (mut sent, mut got, mut echoed) = (0, Vec::new(), Vec::new());
    let mut buffer = vec![0; 60_000];
    while echoed.len() < data.len() {
        if let Ok(len) = pair.client.send(&data[sent..]) {
            sent += len;
        }
        pair.settle();
        while let Ok(received) = pair.server().recv(&mut buffer) {
            got.extend_from_slice(&buffer[..received.len]);
        }
        if let Ok(len) = pair.server().send(&got) {
            got.drain(..len);
        }
        pair.settle();
        while let Ok(received) = pair.client.recv(&mut buffer) {
            echoed.extend_from_slice(&buffer[..received.len]);
        }
        pair.run(MS, false);
    }
    assert!(echoed == data);
    assert_eq!(pair.client.stats(pair.now).retransmitted, 0);
}

/// [CDP-ST-28] [CDP-ST-30] [CDP-ST-35] [CDP-ST-45] [CDP-ST-49] The two-way close, data first.
/// [CDP-ST-E] Both ends learn the result.
#[test]
fn a_close_sends_what_is_queued_and_is_confirmed() {
    let mut pair = Pair::of(Service::Stream);
    pair.client.send(b"last words").unwrap();
    pair.client.close(pair.now);
    assert_eq!(pair.client.send(b"more"), Err(SendError::Closed), "[CDP-ST-42]");
    pair.settle();
    assert_eq!(pair.client.state(), State::Quiet);
    assert!(pair.client.close_result().unwrap().confirmed);
    assert_eq!(pair.server().state(), State::CloseWait);
    assert_eq!(read(pair.server()), b"last words");
    assert!(pair.server().recv(&mut [0]).unwrap().end_of_file, "[CDP-ST-41]");
    assert_eq!(pair.server().send(b"x"), Err(SendError::Closed), "[CDP-ST-42]");
    let now = pair.now;
    pair.server().close(now);
    assert_eq!(pair.server().state(), State::Quiet);
    pair.run(Duration::from_secs(70), false);
    assert!(pair.client.is_finished() && pair.server().is_finished());
}

/// [CDP-ST-37] [CDP-ST-B] When both close at once neither is stuck.
#[test]
fn a_simultaneous_close_is_confirmed_at_both_ends() {
    let mut pair = Pair::of(Service::Datagram);
    let now = pair.now;
    pair.client.send(b"a").unwrap();
    pair.server().send(b"b").unwrap();
    pair.client.close(now);
    pair.server().close(now);
    pair.settle();
    for connection in [&pair.client, pair.server.as_ref().unwrap()] {
        assert_eq!(connection.state(), State::Quiet);
        let result = connection.close_result().unwrap();
        assert!(result.confirmed);
        // [CDP-ST-36] [CDP-ST-D] what came after the close was acknowledged, discarded and told
        assert_eq!((result.discarded, result.discarded_by_peer), (1, 1));
    }
}

/// [CDP-ST-9] [CDP-ST-27] [CDP-ST-29] [CDP-ERR-2] An abort resets; readable data stays, then the error.
#[test]
fn an_abort_reaches_the_peer_after_its_data() {
    let mut pair = Pair::of(Service::Datagram);
    pair.client.send(b"read me").unwrap();
    pair.settle();
    pair.client.abort(pair.now);
    pair.settle();
    assert_eq!(pair.server().state(), State::Closed);
    assert_eq!(read(pair.server()), b"read me");
    let error = RecvError::Failed(Error::Reset(Reason::ABORT));
    assert_eq!(pair.server().recv(&mut [0]), Err(error));
    assert_eq!(pair.client.error(), Some(Error::Aborted));
}

/// [CDP-ST-3] [CDP-ST-13] Nobody listens: the connect is refused.
#[test]
fn a_refused_open_ends_at_once() {
    let config = Config::new(Service::Stream, 1_444);
    let mut pair = Pair::new(&config, &config);
    pair.collect();
    let syn = pair.to_server.remove(0);
    let reason = crate::refusal_of(&syn).unwrap();
    let mut head = Vec::new();
    assert!(weft_wire::emit::echo_reset(&mut head, &syn, reason, None));
    pair.client.handle_packet(pair.now, parse(head));
    assert_eq!(pair.client.error(), Some(Error::Refused(Reason::REFUSED)));
    assert!(pair.client.is_finished());
}

/// [CDP-SYN-6] Datagram meets stream: EPROTOTYPE.
#[test]
fn services_that_differ_are_refused() {
    let mut pair = Pair::new(&Config::new(Service::Stream, 1_444), &Config::new(Service::Datagram, 1_444));
    pair.settle();
    let error = pair.client.error().unwrap();
    assert_eq!((error, error.errno()), (Error::Refused(Reason::SERVICE), crate::Errno::PrototypeMismatch));
}

/// [CDP-ST-14] An open that nobody answers is repeated with a doubling time and given up after SYN_TIME.
#[test]
fn an_unanswered_open_times_out() {
    let config = Config::new(Service::Stream, 1_444);
    let mut pair = Pair::new(&config, &config);
    let begin = pair.now;
    pair.collect();
    let mut sent = pair.to_server.len();
    pair.to_server.clear();
    while pair.client.error().is_none() {
        pair.now = pair.client.poll_timeout().unwrap();
        pair.client.handle_timeout(pair.now);
        pair.collect();
        for syn in pair.to_server.drain(..) {
            assert!(syn.header().rtx, "[CDP-HDR-5]");
            sent += 1;
        }
    }
    assert_eq!(pair.client.error(), Some(Error::TimedOut(Waited::Open)));
    assert_eq!(pair.now - begin, config.syn_time);
    assert!((15..25).contains(&sent), "{sent} SYNs in 63 s");
}

/// [CDP-ST-11] [CDP-ST-18] [CDP-SYN-13] [CDP-KA-1] Two ends that open to each other at once.
#[test]
fn a_simultaneous_open_makes_one_connection() {
    let config = Config { coalesce: false, ..Config::new(Service::Datagram, 1_444) };
    let now = Instant::from_nanos(5);
    let secret = |iss| Secret { iss: Seq::new(iss), entropy: iss };
    let mut a = Connection::connect(now, flow(), &config, secret(10));
    let mut b =
        Connection::connect(now, flow().reversed(), &Config::new(Service::Datagram, 1_444), secret(20));
    for _ in 0..10 {
        let (from_a, from_b) = (outputs(&mut a, now), outputs(&mut b, now));
        from_a.into_iter().for_each(|packet| b.handle_packet(now, packet));
        from_b.into_iter().for_each(|packet| a.handle_packet(now, packet));
    }
    assert_eq!((a.state(), b.state()), (State::Established, State::Established));
    assert_eq!(a.agreed().coalesce, b.agreed().coalesce);
    assert!(a.is_client() && b.is_client());
    a.send(b"hello").unwrap();
    outputs(&mut a, now).into_iter().for_each(|packet| b.handle_packet(now, packet));
    assert_eq!(read(&mut b), b"hello");
}

/// [CDP-ST-5] [CDP-ST-7] [CDP-CKE-1] [CDP-CKE-5] [CDP-CKE-6] [CDP-CKE-9] Above the threshold a cookie carries the state.
#[test]
fn a_cookie_opens_without_state() {
    let config = Config { embryos_max: 0, ..Config::new(Service::Datagram, 1_444) };
    let mut pair = Pair::new(&config, &config);
    pair.collect();
    let syn = pair.to_server.remove(0);
    pair.deliver_to_server(syn.clone());
    assert!(pair.server.is_none(), "nothing is kept");
    assert!(pair.to_client[0].bytes().len() <= syn.bytes().len(), "[CDP-SYN-4] [CDP-CKE-8]");
    let syn_ack = pair.to_client.remove(0);
    pair.client.handle_packet(pair.now, syn_ack);
    pair.client.send(b"after the cookie").unwrap();
    pair.collect();
    assert_eq!(kinds(&pair.to_server), [Kind::Ack], "only the echo until the server is heard");
    pair.to_server.clear();
    // the echo is lost and repeated (row 26)
    pair.now = pair.client.poll_timeout().unwrap();
    pair.client.handle_timeout(pair.now);
    pair.settle();
    assert_eq!(pair.server().state(), State::Established);
    assert_eq!(read(pair.server()), b"after the cookie");
}

/// [CDP-ST-26] A lost third packet is repaired by the client alone. [CDP-CKE-4] The server repeats nothing.
#[test]
fn a_lost_third_packet_is_repaired_by_a_pin() {
    let config = Config::new(Service::Stream, 1_444);
    let mut pair = Pair::new(&config, &config);
    pair.collect();
    let syn = pair.to_server.remove(0);
    pair.deliver_to_server(syn);
    pair.collect();
    let syn_ack = pair.to_client.remove(0);
    pair.client.handle_packet(pair.now, syn_ack);
    pair.collect();
    pair.to_server.clear();
    let server_due = pair.server().poll_timeout().unwrap();
    pair.now = pair.client.poll_timeout().unwrap();
    assert!(pair.now < server_due);
    pair.client.handle_timeout(pair.now);
    pair.collect();
    assert_eq!(kinds(&pair.to_server), [Kind::Pin]);
    pair.settle();
    assert_eq!(pair.server().state(), State::Established);
}

/// [CDP-SEAL-3] [CDP-SEQ-9] A damaged packet is not current and changes nothing.
#[test]
fn a_damaged_packet_changes_nothing() {
    let mut pair = Pair::of(Service::Datagram);
    pair.client.send(b"payload").unwrap();
    pair.collect();
    let sound = pair.to_server.remove(0);
    for at in 28..sound.bytes().len() {
        let mut bytes = sound.bytes().to_vec();
        bytes[at] ^= 0x10;
        let now = pair.now;
        pair.server().handle_packet(now, parse(bytes));
    }
    assert_eq!(pair.server().recv(&mut [0; 9]), Err(RecvError::WouldBlock));
    let now = pair.now;
    assert_eq!(pair.server().stats(now).not_current, 7);
    pair.server().handle_packet(now, sound);
    assert_eq!(read(pair.server()), b"payload");
}

/// [CDP-WND-6] [CDP-WND-9] [CDP-WND-10] [CDP-WND-11] A reader that does not read stops the sender, which probes by PIN.
#[test]
fn a_closed_window_is_probed_and_opens_again() {
    let client = Config::new(Service::Datagram, 1_444);
    let server = Config { receive_slots: 4, coalesce: false, ..client };
    let mut pair = Pair::open(&client, &server);
    for i in 0..9 {
        pair.client.send(&[i; 1_000]).unwrap();
    }
    pair.run(Duration::from_secs(120), false);
    assert_eq!(pair.client.state(), State::Established, "answered probes are no reason to give up");
    assert!(pair.client.stats(pair.now).pins_sent > 20);
    for i in 0..4 {
        assert_eq!(read(pair.server()), vec![i; 1_000]);
    }
    assert_eq!(pair.server().recv(&mut [0]), Err(RecvError::WouldBlock), "no more than four slots");
    // [CDP-WND-8] the update comes by itself
    pair.settle();
    for i in 4..8 {
        assert_eq!(read(pair.server()), vec![i; 1_000]);
    }
    pair.settle();
    assert_eq!(read(pair.server()), vec![8; 1_000]);
}

/// NO_PROGRESS: a peer that never reads is dropped with REASON 7.
#[test]
fn a_peer_that_never_reads_is_dropped() {
    let client = Config { no_progress: Some(Duration::from_secs(20)), ..Config::new(Service::Stream, 1_444) };
    let server = Config { receive_slots: 2, ..client };
    let mut pair = Pair::open(&client, &server);
    pair.client.send(&[1; 10_000]).unwrap();
    pair.run(Duration::from_secs(30), false);
    assert_eq!(pair.client.error(), Some(Error::TimedOut(Waited::Reader)));
    assert_eq!(pair.server().error(), Some(Error::Reset(Reason::STALLED)));
}

/// [CDP-RTX-1] [CDP-TMR-2] [CDP-ST-32] A silent peer is given up after both time and tries, and not before.
#[test]
fn a_silent_peer_is_given_up() {
    let mut pair = Pair::of(Service::Stream);
    pair.client.send(b"hello").unwrap();
    pair.run(MS * 10, false);
    pair.client.send(b"anyone?").unwrap();
    let begin = pair.now;
    pair.collect();
    pair.to_server.clear();
    pair.run(Duration::from_secs(99), true);
    assert_eq!(pair.client.error(), None);
    pair.run(Duration::from_secs(10), true);
    assert_eq!(pair.client.error(), Some(Error::TimedOut(Waited::Acknowledgement)));
    assert!(pair.now - begin < Duration::from_secs(110));
    let now = pair.now;
    assert!(pair.client.stats(now).timeouts >= 20, "[CDP-TMR-4]");
}

/// [CDP-KA-2] [CDP-KA-4] PINs are sent and answered. [CDP-KA-3] [CDP-KA-5] Silence for EXPIRY drops both ends.
#[test]
fn keep_alive_keeps_and_drops() {
    let mut pair = Pair::of(Service::Stream);
    pair.run(Duration::from_secs(1_000), false);
    assert_eq!((pair.client.state(), pair.server().state()), (State::Established, State::Established));
    let pins = pair.client.stats(pair.now).pins_sent;
    assert!((14..=19).contains(&pins), "{pins} PINs in 1000 s");
    assert_eq!(pair.server().stats(Instant::ZERO).pins_sent, 0, "[CDP-KA-1] only the client");
    pair.run(Duration::from_secs(400), true);
    for connection in [&pair.client, pair.server.as_ref().unwrap()] {
        assert_eq!(connection.error(), Some(Error::TimedOut(Waited::KeepAlive)));
    }
}

/// [CDP-RTX-5] [CDP-SACK-2] One lost packet among many is sent again within a round trip, and alone.
#[test]
fn a_single_loss_is_repaired_by_sack() {
    let mut pair = Pair::of(Service::Stream);
    pair.client.send(&[9; 20 * 1_444]).unwrap();
    pair.collect();
    assert_eq!(pair.to_server.len(), 20);
    pair.to_server.remove(3);
    pair.now += MS;
    pair.settle();
    pair.run(MS, false);
    let stats = pair.client.stats(pair.now);
    assert_eq!((stats.retransmitted, stats.lost, stats.timeouts), (1, 1, 0));
    assert_eq!(read(pair.server()).len(), 20 * 1_444);
}

/// [CDP-RTX-5] Without SACK three duplicate acknowledgements do it.
#[test]
fn a_single_loss_is_repaired_by_duplicate_acknowledgements() {
    let config = Config { sack: false, ..Config::new(Service::Stream, 1_444) };
    let mut pair = Pair::open(&config, &config);
    pair.client.send(&[9; 8 * 1_444]).unwrap();
    pair.collect();
    pair.to_server.remove(2);
    let packets = std::mem::take(&mut pair.to_server);
    for packet in packets {
        // one turn a packet, so that each is acknowledged
        pair.deliver_to_server(packet);
        pair.collect();
    }
    pair.settle();
    let stats = pair.client.stats(pair.now);
    assert_eq!((stats.retransmitted, stats.timeouts, stats.tail_probes), (1, 0, 0));
    assert_eq!(read(pair.server()).len(), 8 * 1_444);
}

/// [CDP-RTX-5] A lost tail is found by a probe, long before the time-out.
#[test]
fn a_lost_tail_is_probed() {
    let mut pair = Pair::of(Service::Stream);
    pair.client.send(b"warm up").unwrap();
    pair.settle();
    pair.run(MS * 5, false);
    pair.client.send(b"lost").unwrap();
    pair.collect();
    pair.to_server.clear();
    pair.run(MS * 2, false);
    let stats = pair.client.stats(pair.now);
    assert_eq!((stats.tail_probes, stats.timeouts), (1, 0));
    assert_eq!(read(pair.server()), b"warm uplost");
}

/// [CDP-MTU-2] [CDP-MTU-3] A larger packet is used once a padded PIN of its size has been answered.
#[test]
fn a_larger_packet_is_proved_first() {
    let config = Config::new(Service::Stream, 8_944);
    let mut pair = Pair::open(&config, &config);
    let stats = pair.client.stats(pair.now);
    assert!(stats.pins_sent > 0);
    assert_eq!(stats.packets_sent, 1 + stats.acks_sent + stats.pins_sent, "a SYN, and each probe counts");
    pair.run(Duration::from_secs(1), false);
    assert_eq!(pair.client.path_stats().mss, 8_944);
}

/// [CDP-WND-3] [CDP-ST-F] While the acknowledgement of a FIN is held back, the right edge does not move back: the parts
/// of an unfinished message need no slots, and take them when it is complete.
#[test]
fn a_held_fin_does_not_move_the_edge_back() {
    let config = Config { confirm: true, receive_slots: 16, ..Config::new(Service::Datagram, 1_444) };
    let mut pair = Pair::open(&config, &config);
    let now = pair.now;
    let edge = |packet: &Packet| packet.header().ack.wrapping_add(u32::from(packet.header().window));
    pair.client.send(&[7; 4_000]).unwrap();
    pair.client.close(now);
    pair.collect();
    let mut parts = std::mem::take(&mut pair.to_server);
    let rest = parts.split_off(2);
    assert_eq!(kinds(&rest), [Kind::Data, Kind::Fin]);
    parts.into_iter().for_each(|packet| pair.deliver_to_server(packet));
    let before = outputs(pair.server(), now).iter().map(edge).max().unwrap();
    rest.into_iter().for_each(|packet| pair.deliver_to_server(packet));
    let answers = outputs(pair.server(), now);
    assert!(
        !answers.is_empty() && answers.iter().all(|packet| edge(packet) >= before),
        "{before} {answers:?}"
    );
}

/// [CDP-ST-F] [CDP-ST-38] [CDP-ST-43] A confirmed close waits until the peer's user has read everything.
#[test]
fn a_confirmed_close_waits_for_the_reader() {
    let config = Config { confirm: true, ..Config::new(Service::Datagram, 1_444) };
    let mut pair = Pair::open(&config, &config);
    pair.client.send(b"must be read").unwrap();
    pair.client.close(pair.now);
    pair.run(Duration::from_secs(100), false);
    assert_eq!(pair.client.state(), State::FinWait, "[CDP-ST-38] PINs restart the FIN give-up");
    assert_eq!(read(pair.server()), b"must be read");
    pair.settle();
    assert_eq!(pair.client.state(), State::Quiet);
    assert!(pair.client.close_result().unwrap().confirmed);
}

/// [CDP-ST-40] A FIN that nobody acknowledges ends unconfirmed, not in an error.
#[test]
fn a_close_without_an_answer_is_unconfirmed() {
    let mut pair = Pair::of(Service::Stream);
    pair.client.close(pair.now);
    pair.collect();
    pair.to_server.clear();
    pair.run(Duration::from_secs(61), true);
    assert_eq!((pair.client.state(), pair.client.error()), (State::Closed, None));
    assert!(!pair.client.close_result().unwrap().confirmed);
}

/// [CDP-RST-5] [CDP-RST-6] A reset that is current but not exact is challenged, not believed.
#[test]
fn an_inexact_reset_is_challenged() {
    let mut pair = Pair::of(Service::Stream);
    let nxt = pair.client.sender.nxt();
    let reset = |seq| {
        let mut header = Header::new(Kind::Reset, flow());
        (header.seq, header.ack) = (seq, Seq::new(78).low32());
        let mut head = Vec::new();
        let options = weft_wire::Emit::sealed(true);
        weft_wire::emit::emit_control(&mut head, &header, &weft_wire::Tlvs::default(), &options);
        parse(head)
    };
    let now = pair.now + Duration::from_secs(1);
    for seq in [nxt + 1, nxt - 1, nxt + 1_000] {
        pair.server().handle_packet(now, reset(seq));
    }
    assert_eq!(pair.server().state(), State::Established);
    // [CDP-LIM-2] three within 10 ms are answered once
    assert_eq!(kinds(&outputs(pair.server(), now)), [Kind::Ack]);
    pair.server().handle_packet(now, reset(nxt));
    assert_eq!(pair.server().error(), Some(Error::Reset(Reason::NONE)));
}

/// [CDP-RST-9] An end without the connection refuses a packet, and the other end believes the echo.
#[test]
fn an_echo_resets_a_connection_whose_peer_forgot_it() {
    let mut pair = Pair::of(Service::Stream);
    pair.client.send(b"still there?").unwrap();
    pair.collect();
    let data = pair.to_server.remove(0);
    let mut head = Vec::new();
    assert!(weft_wire::emit::echo_reset(&mut head, &data, Reason::UNKNOWN, None));
    pair.client.handle_packet(pair.now, parse(head));
    assert_eq!(pair.client.error(), Some(Error::Reset(Reason::UNKNOWN)));
}

/// [CDP-DG-6] A message above the limit is refused and nothing is sent.
#[test]
fn a_message_above_the_limit_is_refused() {
    let client = Config::new(Service::Datagram, 1_444);
    let server = Config { message_bytes: Some(5_000), ..client };
    let mut pair = Pair::open(&client, &server);
    assert_eq!(pair.client.send(&[0; 5_001]), Err(SendError::TooBig(5_000)));
    assert_eq!(pair.client.send(&[0; 5_000]), Ok(5_000));
    pair.settle();
    assert_eq!(read(pair.server()).len(), 5_000);
}

/// [CDP-ST-24] A SYN in a live connection is challenged and resets nothing.
#[test]
fn a_syn_in_a_live_connection_is_challenged() {
    let config = Config::new(Service::Stream, 1_444);
    let mut pair = Pair::new(&config, &config);
    pair.collect();
    let syn = pair.to_server[0].clone();
    pair.settle();
    let now = pair.now + MS * 20;
    pair.server().handle_packet(now, syn);
    assert_eq!(kinds(&outputs(pair.server(), now)), [Kind::Ack]);
    assert_eq!(pair.server().state(), State::Established);
}

/// [CDP-LIM-8] What is in flight counts against the send queue; a refused message raises `Writable` when it fits.
#[test]
fn a_refused_message_is_called_for_when_it_fits() {
    let server = Config::new(Service::Datagram, 1_444);
    let mut pair = Pair::open(&Config { send_bytes: 10_000, ..server.clone() }, &server);
    let now = pair.now;
    events(&mut pair.client);
    pair.client.send(&[1; 4_000]).unwrap();
    pair.to_server = outputs(&mut pair.client, now);
    assert_eq!(pair.client.send(&[2; 7_000]), Err(SendError::WouldBlock), "the first is in flight");
    assert!(!pair.client.is_writable());
    assert_eq!(events(&mut pair.client), [], "and does not fit beside it yet");
    pair.settle();
    pair.run(MS, false);
    assert_eq!(events(&mut pair.client), [Event::Writable]);
    assert_eq!(pair.client.send(&[2; 7_000]), Ok(7_000));
    assert_eq!(pair.client.send(&[3; 20_000]), Err(SendError::WouldBlock), "longer than the queue: alone");
    pair.settle();
    pair.run(MS, false);
    assert_eq!(pair.client.send(&[3; 20_000]), Ok(20_000));
}

/// [CDP-LIM-8] Messages in a packet that is still being filled count against the send queue.
#[test]
fn an_open_packet_counts_against_the_send_queue() {
    let server = Config::new(Service::Datagram, 1_444);
    let mut pair = Pair::open(&Config { send_bytes: 500, ..server.clone() }, &server);
    let taken = (0..1_000).take_while(|_| pair.client.send(&[1; 10]).is_ok()).count();
    assert!((40..=50).contains(&taken), "{taken} messages of 10 bytes in a queue of 500");
}
