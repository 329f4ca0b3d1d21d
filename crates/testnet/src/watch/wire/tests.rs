//! Each rule of the watch is broken once: a watch that stays silent fails here.

use weft_base::{Address, FlowKey, NodeId, Port, Seq};
use weft_wire::{Emit, Encapsulation, FarSack, Header, Sack, Tlvs, emit};

use super::*;

/// Initial numbers of the end under watch and of its peer, close to where 32 and 64 bits wrap.
const ISS: u64 = 0x0123_4567_FFFF_FFFE;
const IRS: u64 = u64::MAX - 1;

fn flow() -> FlowKey {
    let end = |node, port| Address { node: NodeId::new(node).unwrap(), port: Port::new(port).unwrap() };
    FlowKey { local: end(1, 50_000), remote: end(2, 7) }
}

fn parse(bytes: Vec<u8>) -> Packet {
    Packet::new_checked(bytes.into(), Encapsulation::Simulated).unwrap()
}

/// A client that has opened to a peer with 4 slots, and may send.
struct Opened {
    watch: EndWatch,
    opens: Opens,
}

impl Opened {
    fn new() -> Self {
        let mut this = Self { watch: EndWatch::of_client(ISS), opens: Opens::default() };
        let header = Header { seq: Seq::new(ISS), window: 16, ..Header::new(Kind::Syn, flow()) };
        let syn = this.open(&header);
        this.watch.handle_sent(&syn, &this.opens).unwrap();
        let answer = Header {
            seq: Seq::new(IRS),
            ack: low(ISS + 1),
            window: 4,
            ..Header::new(Kind::SynAck, flow().reversed())
        };
        let answer = this.open(&answer);
        let mut peer = EndWatch::of_embryo(ISS);
        let said = peer.handle_sent(&answer, &this.opens).unwrap();
        this.watch.handle_arrival(&said);
        this
    }

    fn open(&mut self, header: &Header) -> Packet {
        let tlvs = Tlvs { mss: Some(1_000), integrity: Some(true), sack_ok: true, ..Tlvs::default() };
        let mut bytes = Vec::new();
        emit::emit_control(&mut bytes, header, &tlvs, &Emit::default());
        let packet = parse(bytes);
        self.opens.note(&packet);
        packet
    }

    /// A packet of the peer with this number arrives.
    fn arrive(&mut self, kind: Kind, number: u64, acks: u64, edge: u64) {
        let acks = Some((ISS, acks));
        self.watch.handle_arrival(&Said { kind, iss: Some(IRS), number, acks, edge, data_bytes: 5 });
    }

    fn data(
        &mut self,
        number: u64,
        change: impl FnOnce(&mut Header),
        body: &[u8],
    ) -> Result<Said, Violation> {
        let mut header = self.header(Kind::Data, number, 1, 16);
        change(&mut header);
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&emit::data_head(&header, body, true));
        bytes.extend_from_slice(body);
        self.watch.handle_sent(&parse(bytes), &self.opens)
    }

    fn control(
        &mut self,
        kind: Kind,
        number: u64,
        ack: u64,
        window: u16,
        tlvs: &Tlvs,
    ) -> Result<Said, Violation> {
        let header = self.header(kind, number, ack, window);
        let mut bytes = Vec::new();
        emit::emit_control(&mut bytes, &header, tlvs, &Emit::sealed(true));
        self.watch.handle_sent(&parse(bytes), &self.opens)
    }

    fn header(&self, kind: Kind, number: u64, ack: u64, window: u16) -> Header {
        let seq = Seq::new(ISS.wrapping_add(number));
        Header { seq, ack: low(IRS.wrapping_add(ack)), window, ..Header::new(kind, flow()) }
    }

    fn ack(&mut self, ack: u64, window: u16, held: &[u32]) -> Result<Said, Violation> {
        let sack = (!held.is_empty()).then(|| Sack::from_held(held.iter().copied()));
        let next = self.watch.next();
        self.control(Kind::Ack, next, ack, window, &Tlvs { sack, ..Tlvs::default() })
    }
}

fn low(number: u64) -> u32 {
    Seq::new(number).low32()
}

fn found(result: Result<Said, Violation>) -> Invariant {
    result.unwrap_err().invariant
}

#[test]
fn an_honest_exchange_passes() {
    let mut end = Opened::new();
    let said = end.data(1, |_| {}, b"one").unwrap();
    assert_eq!((said.number, said.acks, said.edge), (1, Some((IRS, 1)), 17));
    end.data(2, |_| {}, b"two").unwrap();
    end.data(1, |header| header.rtx = true, b"one").unwrap();
    end.arrive(Kind::Data, 1, 2, 6);
    end.arrive(Kind::Data, 3, 2, 6);
    end.ack(2, 16, &[0]).unwrap();
    end.arrive(Kind::Data, 2, 2, 6);
    end.ack(4, 14, &[]).unwrap();
    end.control(Kind::Fin, 3, 4, 14, &Tlvs::default()).unwrap();
    assert_eq!(end.watch.sent(), Sent { packets: 7, numbers: 3, repeated: 1, bytes: 6, echo_resets: 0 });
}

#[test]
fn a_number_beyond_the_edge_fires_and_a_fin_may_take_the_edge() {
    let mut end = Opened::new();
    for number in 1..5 {
        end.data(number, |_| {}, b"x").unwrap();
    }
    assert_eq!(found(end.data(5, |_| {}, b"x")), Invariant::Edge);
    let mut end = Opened::new();
    for number in 1..5 {
        end.data(number, |_| {}, b"x").unwrap();
    }
    assert!(end.control(Kind::Fin, 5, 1, 16, &Tlvs::default()).is_ok());
    assert_eq!(found(end.data(6, |_| {}, b"x")), Invariant::Order, "nothing follows a FIN");
}

#[test]
fn a_gap_and_a_changed_repetition_fire() {
    assert_eq!(found(Opened::new().data(2, |_| {}, b"x")), Invariant::Order);
    let mut end = Opened::new();
    end.data(1, |_| {}, b"one").unwrap();
    assert_eq!(found(end.data(1, |header| header.rtx = true, b"two")), Invariant::Order);
    assert_eq!(
        found(end.data(1, |header| (header.rtx, header.eom) = (true, true), b"one")),
        Invariant::Order
    );
}

#[test]
fn a_wrong_rtx_bit_and_a_long_segment_fire() {
    assert_eq!(found(Opened::new().data(1, |header| header.rtx = true, b"x")), Invariant::Form);
    let mut end = Opened::new();
    end.data(1, |_| {}, b"x").unwrap();
    assert_eq!(found(end.data(1, |_| {}, b"x")), Invariant::Form);
    assert_eq!(found(Opened::new().data(1, |_| {}, &[0; 1_001])), Invariant::Form);
    assert_eq!(found(Opened::new().data(1, |header| header.ce = true, b"x")), Invariant::Form);
}

#[test]
fn an_acknowledgement_of_what_never_arrived_fires() {
    assert_eq!(found(Opened::new().ack(2, 16, &[])), Invariant::Acknowledged);
    let mut end = Opened::new();
    end.arrive(Kind::Data, 2, 1, 5);
    assert_eq!(found(end.ack(3, 16, &[])), Invariant::Acknowledged, "1 is missing");
    assert_eq!(found(Opened::new().ack(1, 16, &[0])), Invariant::Acknowledged, "reported and never arrived");
}

#[test]
fn an_acknowledgement_that_moves_back_fires() {
    let mut end = Opened::new();
    end.arrive(Kind::Data, 1, 1, 5);
    end.ack(2, 15, &[]).unwrap();
    assert_eq!(found(end.ack(1, 16, &[])), Invariant::Order);
}

#[test]
fn an_edge_that_moves_left_fires() {
    let mut end = Opened::new();
    end.ack(1, 16, &[]).unwrap();
    assert_eq!(found(end.ack(1, 15, &[])), Invariant::Edge);
}

#[test]
fn a_forgotten_report_fires() {
    let mut end = Opened::new();
    end.arrive(Kind::Data, 2, 1, 5);
    end.arrive(Kind::Data, 4, 1, 5);
    end.ack(1, 16, &[0, 2]).unwrap();
    assert_eq!(found(end.ack(1, 16, &[0])), Invariant::Acknowledged);
    assert_eq!(found(end.ack(1, 16, &[])), Invariant::Acknowledged);
}

/// [CDP-SACK-7] A FARSACK that is not full leaves nothing out behind it, nor is one left out once there was one.
#[test]
fn a_forgotten_report_far_out_fires() {
    let mut end = Opened::new();
    end.arrive(Kind::Data, 578, 1, 5);
    let mut ack = |words: &[u64]| {
        let far_sack = (!words.is_empty()).then(|| FarSack::new(512, words.iter().copied()));
        let next = end.watch.next();
        end.control(Kind::Ack, next, 1, 16, &Tlvs { far_sack, ..Tlvs::default() })
    };
    ack(&[]).unwrap();
    ack(&[0, 1 << 63]).unwrap();
    assert_eq!(found(ack(&[0])), Invariant::Acknowledged);
    assert_eq!(found(ack(&[])), Invariant::Acknowledged);
    ack(&[0, 1 << 63]).unwrap();
}

#[test]
fn a_packet_without_number_that_does_not_carry_the_next_one_fires() {
    let mut end = Opened::new();
    assert_eq!(found(end.control(Kind::Ack, 2, 1, 16, &Tlvs::default())), Invariant::Order);
    assert_eq!(found(end.control(Kind::Pin, 0, 1, 16, &Tlvs::default())), Invariant::Order);
}
