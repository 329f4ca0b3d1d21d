//! The peer: it writes its packets by hand, byte by byte where need be.

use std::time::Duration;

use weft_base::{Address, FlowKey, Instant, NodeId, Port, Seq, Service};
use weft_proto::{Config, Connection, Listener, Secret, State, Verdict};
use weft_wire::emit::{data_head, emit_control};
use weft_wire::{Emit, Encapsulation, HEADER_LEN, Header, Kind, Packet, Tlvs};

pub(crate) const MS: Duration = Duration::from_millis(1);

/// The number our peer starts from.
pub(crate) const PEER_ISS: Seq = Seq::new(0x1000);
/// The number the connection under test starts from, just below a wrap of the low 32 bits.
pub(crate) const OWN_ISS: Seq = Seq::new(0x7_FFFF_FFF0);

fn end(node: u32, port: u16) -> Address {
    Address { node: NodeId::new(node).expect("a node"), port: Port::new(port).expect("a port") }
}

/// From the connection under test to the peer.
pub(crate) fn flow() -> FlowKey {
    FlowKey { local: end(1, 1_024), remote: end(2, 50_000) }
}

pub(crate) fn parse(bytes: Vec<u8>) -> Packet {
    Packet::new_checked(bytes.into(), Encapsulation::Udp).expect("a packet of the script is sound")
}

/// One real connection and the peer's side of it.
pub(crate) struct Script {
    pub(crate) now: Instant,
    pub(crate) own: Connection,
    /// The peer's next number.
    pub(crate) seq: Seq,
    /// What the peer acknowledges.
    pub(crate) ack: Seq,
    pub(crate) window: u16,
    sealed: bool,
}

impl Script {
    /// A connection that a listener made, in SYN_RCVD, after its SYN|ACK was taken.
    pub(crate) fn embryo(config: &Config, tlvs: &Tlvs) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let mut listener = Listener::new(now, config, [1; 32]);
        let secret = Secret { iss: OWN_ISS, entropy: 9 };
        let verdict = listener.handle_packet(now, &syn(tlvs), secret, &mut Vec::new());
        let Verdict::Embryo(own) = verdict else { panic!("the SYN was not accepted: {verdict:?}") };
        let mut script = Self::around(now, *own);
        assert_eq!(kinds(&script.take()), [Kind::SynAck]);
        script
    }

    /// A server in ESTABLISHED that has heard from its client; both offered everything.
    pub(crate) fn server(config: &Config) -> Self {
        Self::server_to(config, &generous())
    }

    /// The same with a client whose SYN carries `tlvs`.
    pub(crate) fn server_to(config: &Config, tlvs: &Tlvs) -> Self {
        let mut script = Self::embryo(config, tlvs);
        let probes = script.say(Kind::Ack);
        assert!(probes.iter().all(|packet| packet.kind() == Kind::Pin), "at most a probe of the path MTU");
        assert_eq!(script.own.state(), State::Established);
        while script.own.poll_event().is_some() {}
        script
    }

    /// A client in SYN_SENT whose SYN was taken.
    pub(crate) fn opening(config: &Config) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        let own = Connection::connect(now, flow(), config, Secret { iss: OWN_ISS, entropy: 9 });
        let mut script = Self::around(now, own);
        script.seq = PEER_ISS;
        assert_eq!(kinds(&script.take()), [Kind::Syn]);
        script
    }

    /// A client in ESTABLISHED that has heard from its server.
    pub(crate) fn client(config: &Config) -> Self {
        let mut script = Self::opening(config);
        let answer = script.syn_ack(&generous());
        assert_eq!(kinds(&script.hear(answer)), [Kind::Ack]);
        script.seq = PEER_ISS + 1;
        assert_eq!(script.say(Kind::Ack), []);
        script
    }

    fn around(now: Instant, own: Connection) -> Self {
        Self { now, own, seq: PEER_ISS + 1, ack: OWN_ISS + 1, window: 1_000, sealed: true }
    }

    /// Everything that the connection sends now.
    pub(crate) fn take(&mut self) -> Vec<Packet> {
        let mut packets = Vec::new();
        loop {
            let mut bytes = Vec::new();
            let Some(transmit) = self.own.poll_transmit(self.now, &mut bytes) else { break };
            bytes.extend_from_slice(&transmit.body);
            packets.push(parse(bytes));
            assert!(packets.len() < 10_000, "it never stops");
        }
        // [CDP-HDR-7] a sender that is not forwarding sets CE and HOP to 0
        assert!(packets.iter().all(|packet| !packet.header().ce && packet.header().hop == 0));
        packets
    }

    /// Hands one packet in and takes what comes back.
    pub(crate) fn hear(&mut self, packet: Packet) -> Vec<Packet> {
        self.own.handle_packet(self.now, packet);
        self.take()
    }

    /// A header of the peer with its present numbers.
    pub(crate) fn header(&self, kind: Kind) -> Header {
        let mut header = Header::new(kind, flow().reversed());
        (header.seq, header.ack, header.window) = (self.seq, self.ack.low32(), self.window);
        header
    }

    pub(crate) fn control(&self, header: &Header, tlvs: &Tlvs) -> Packet {
        let mut bytes = Vec::new();
        emit_control(&mut bytes, header, tlvs, &Emit::sealed(self.sealed));
        parse(bytes)
    }

    /// A control packet of the peer without TLVs.
    pub(crate) fn say(&mut self, kind: Kind) -> Vec<Packet> {
        let packet = self.control(&self.header(kind), &Tlvs::default());
        self.hear(packet)
    }

    /// A DAT with number `seq`.
    pub(crate) fn data_at(&self, seq: Seq, eom: bool, body: &[u8]) -> Packet {
        self.data_with(Header { seq, eom, ..self.header(Kind::Data) }, body)
    }

    pub(crate) fn data_with(&self, header: Header, body: &[u8]) -> Packet {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&data_head(&header, body, self.sealed));
        bytes.extend_from_slice(body);
        parse(bytes)
    }

    /// The next DAT in order.
    pub(crate) fn send(&mut self, eom: bool, body: &[u8]) -> Vec<Packet> {
        let packet = self.data_at(self.seq, eom, body);
        self.seq += 1;
        self.hear(packet)
    }

    pub(crate) fn syn_ack(&self, tlvs: &Tlvs) -> Packet {
        self.syn_ack_from(PEER_ISS, tlvs)
    }

    /// The answer of a peer that starts from another number.
    pub(crate) fn syn_ack_from(&self, seq: Seq, tlvs: &Tlvs) -> Packet {
        let header = Header { seq, ..self.header(Kind::SynAck) };
        let mut bytes = Vec::new();
        emit_control(&mut bytes, &header, tlvs, &Emit::default());
        parse(bytes)
    }

    /// A control packet whose TLVs are these bytes, sealed by hand.
    pub(crate) fn raw(&self, kind: Kind, tlvs: &[u8]) -> Packet {
        let length = u16::try_from(HEADER_LEN + tlvs.len()).expect("a short packet");
        let mut bytes = Header { length, ..self.header(kind) }.emit().to_vec();
        bytes.extend_from_slice(tlvs);
        let seal = parse(bytes.clone()).checksum().to_be_bytes();
        bytes[16..20].iter_mut().zip(seal).for_each(|(byte, seal)| *byte ^= seal);
        parse(bytes)
    }

    /// Lets the next timer fire and takes what comes of it.
    pub(crate) fn next_timer(&mut self) -> Vec<Packet> {
        self.now = self.own.poll_timeout().expect("a timer runs");
        self.own.handle_timeout(self.now);
        self.take()
    }

    /// Lets `time` pass with all timers, and takes what comes of it.
    pub(crate) fn pass(&mut self, time: Duration) -> Vec<Packet> {
        let until = self.now + time;
        let mut packets = self.take();
        while self.own.poll_timeout().is_some_and(|due| due <= until) {
            packets.extend(self.next_timer());
        }
        self.now = until;
        packets
    }

    /// Reads one message or chunk.
    pub(crate) fn read(&mut self) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 1 << 20];
        let received = self.own.recv(&mut buffer).ok().filter(|received| !received.end_of_file)?;
        buffer.truncate(received.len);
        Some(buffer)
    }
}

/// A SYN of the peer.
pub(crate) fn syn(tlvs: &Tlvs) -> Packet {
    let mut header = Header::new(Kind::Syn, flow().reversed());
    (header.seq, header.window) = (PEER_ISS, 1_000);
    let mut bytes = Vec::new();
    emit_control(&mut bytes, &header, tlvs, &Emit::default());
    parse(bytes)
}

/// The TLVs of a peer that offers everything.
pub(crate) fn generous() -> Tlvs {
    Tlvs {
        mss: Some(1_444),
        integrity: Some(true),
        sack_ok: true,
        coalesce: true,
        message: Some(1 << 20),
        confirm: true,
        wscale: Some(0),
        ..Tlvs::default()
    }
}

/// The same for a stream.
pub(crate) fn generous_stream() -> Tlvs {
    let mut tlvs = generous();
    tlvs.set_service(Service::Stream);
    tlvs
}

/// What the connection under test is told for datagrams.
pub(crate) fn datagrams() -> Config {
    Config::new(Service::Datagram, 1_444)
}

/// A server of streams whose peer offers everything.
pub(crate) fn stream() -> Script {
    Script::server_to(&Config::new(Service::Stream, 1_444), &generous_stream())
}

pub(crate) fn kinds(packets: &[Packet]) -> Vec<Kind> {
    packets.iter().map(Packet::kind).collect()
}

/// The numbers of sealed packets.
pub(crate) fn numbers(packets: &[Packet]) -> Vec<Seq> {
    packets.iter().map(|packet| packet.seq(true)).collect()
}
