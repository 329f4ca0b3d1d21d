//! One end as the wire shows it: what it sends, what reached it, and whether the two agree (I3, I4, I5, form).

mod report;

use std::collections::BTreeMap;

use weft_des::TraceHash;
use weft_wire::{Kind, Packet};

use crate::violation::{Invariant, Violation, ensure};
use crate::watch::opens::Opens;
use crate::watch::ranges::Ranges;

/// What one transmission said, with its numbers counted from the initial numbers of their ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The flag set.
    pub kind: Kind,
    /// Initial number of the sender, if it has a connection or answers a SYN.
    pub iss: Option<u64>,
    /// SEQ, counted from `iss`.
    pub number: u64,
    /// ACK number: the initial number of the end spoken to, and the count from there.
    pub acks: Option<(u64, u64)>,
    /// Right edge granted, counted as the ACK number is; for a SYN from the (unknown) number of the other end.
    pub edge: u64,
    /// Bytes of the data segment.
    pub data_bytes: usize,
}

impl Said {
    /// What an end without a connection says (an echo-form RST).
    #[must_use]
    pub fn without_connection(kind: Kind) -> Self {
        Self { kind, iss: None, number: 0, acks: None, edge: 0, data_bytes: 0 }
    }

    /// Whether it shows that its sender has received the SYN|ACK of `iss`.
    #[must_use]
    pub fn proves(&self, iss: u64) -> bool {
        self.acks.is_some_and(|(irs, count)| irs == iss && count >= 1)
    }
}

/// The watch over one end.
#[derive(Clone, Debug)]
pub struct EndWatch {
    iss: Option<u64>,
    irs: Option<u64>,
    /// Next number to be used, counted from ISS; 0 before the SYN.
    next: u64,
    /// Hash of kind, EOM and data of each number from 1 on (CDP-SEQ-6).
    contents: Vec<u64>,
    fin: Option<u64>,
    /// Greatest right edge that reached this end.
    granted: u64,
    /// Greatest ACK number that reached this end.
    acked: u64,
    /// Numbers that reached this end, by the initial number of their sender.
    arrived: BTreeMap<u64, Ranges>,
    /// Bytes of data among them, each number once.
    arrived_bytes: BTreeMap<u64, u64>,
    /// ACK number and right edge sent last or greatest.
    acknowledges: u64,
    promised: u64,
    reported: Ranges,
    /// It has sent a FARSACK.
    names_far: bool,
    sent: Sent,
}

/// Packets that an end has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Of all kinds.
    pub packets: u64,
    /// DAT and FIN numbers sent for the first time.
    pub numbers: u64,
    /// DAT and FIN packets sent again.
    pub repeated: u64,
    /// Bytes of data sent for the first time.
    pub bytes: u64,
    /// Echo-form RSTs.
    pub echo_resets: u64,
}

impl EndWatch {
    /// An end that calls connect with this initial number.
    #[must_use]
    pub fn of_client(iss: u64) -> Self {
        Self {
            iss: Some(iss),
            irs: None,
            next: 0,
            contents: Vec::new(),
            fin: None,
            granted: 0,
            acked: 0,
            arrived: BTreeMap::new(),
            arrived_bytes: BTreeMap::new(),
            acknowledges: 0,
            promised: 0,
            reported: Ranges::default(),
            names_far: false,
            sent: Sent::default(),
        }
    }

    /// An end that a listener made for the client whose initial number is `irs`; its own shows in its SYN|ACK.
    #[must_use]
    pub fn of_embryo(irs: u64) -> Self {
        let mut watch = Self { iss: None, irs: Some(irs), ..Self::of_client(0) };
        watch.arrived.entry(irs).or_default().insert(0);
        watch
    }

    /// An end that a cookie made: its SYN|ACK, of initial number `iss`, was sent before it existed.
    #[must_use]
    pub fn of_cookie(iss: u64, irs: u64, opens: &Opens) -> Self {
        let mut watch = Self { iss: Some(iss), next: 1, ..Self::of_embryo(irs) };
        watch.granted = 1 + opens.offer(irs).map_or(0, |offer| offer.window);
        watch.promised = 1 + opens.offer(iss).map_or(0, |offer| offer.window);
        watch
    }

    /// Its initial number.
    #[must_use]
    pub fn iss(&self) -> Option<u64> {
        self.iss
    }

    /// The initial number of its peer, once it has shown whom it takes for that.
    #[must_use]
    pub fn irs(&self) -> Option<u64> {
        self.irs
    }

    /// What it has sent.
    #[must_use]
    pub fn sent(&self) -> Sent {
        self.sent
    }

    /// Next number, counted from ISS.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.next
    }

    /// The number of its FIN, if it sent one.
    #[must_use]
    pub fn fin(&self) -> Option<u64> {
        self.fin
    }

    /// Greatest ACK number that reached it.
    #[must_use]
    pub fn acked(&self) -> u64 {
        self.acked
    }

    /// Greatest ACK number that it sent.
    #[must_use]
    pub fn acknowledges(&self) -> u64 {
        self.acknowledges
    }

    /// Numbers of its peer that reached it without a gap.
    #[must_use]
    pub fn arrived_in_order(&self) -> u64 {
        self.irs.and_then(|irs| self.arrived.get(&irs)).map_or(0, Ranges::contiguous)
    }

    /// Bytes of data of its peer that reached it, each number once.
    #[must_use]
    pub fn arrived_bytes(&self) -> u64 {
        self.irs.and_then(|irs| self.arrived_bytes.get(&irs)).copied().unwrap_or(0)
    }

    /// A packet reached this end undamaged.
    pub fn handle_arrival(&mut self, said: &Said) {
        let Some(from) = said.iss else { return };
        if said.kind.takes_number() && self.arrived.entry(from).or_default().insert(said.number) {
            *self.arrived_bytes.entry(from).or_default() += said.data_bytes as u64;
        }
        match said.acks {
            Some((to, count)) if Some(to) == self.iss => {
                self.granted = self.granted.max(said.edge);
                self.acked = self.acked.max(count);
            }
            None if said.kind == Kind::Syn => self.granted = self.granted.max(said.edge),
            _ => {}
        }
    }

    /// This end sends a packet.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn handle_sent(&mut self, packet: &Packet, opens: &Opens) -> Result<Said, Violation> {
        self.sent.packets += 1;
        let header = packet.header();
        ensure(!header.ce && header.hop == 0, Invariant::Form, || "[CDP-HDR-7] CE or HOP is set".into())?;
        match header.kind {
            Kind::EchoReset => {
                self.sent.echo_resets += 1;
                Ok(Said::without_connection(Kind::EchoReset))
            }
            Kind::Syn | Kind::SynAck => self.handle_open(packet),
            Kind::Data | Kind::Fin | Kind::Ack | Kind::Pin | Kind::Reset => self.handle_usual(packet, opens),
        }
    }

    fn handle_open(&mut self, packet: &Packet) -> Result<Said, Violation> {
        let header = packet.header();
        let iss = *self.iss.get_or_insert(packet.seq(false).get());
        ensure(packet.seq(false).get() == iss, Invariant::Form, || "[CDP-SEQ-5] an open without ISS".into())?;
        let window = u64::from(header.window);
        let mut said = Said { iss: Some(iss), edge: 1 + window, ..Said::without_connection(header.kind) };
        if header.kind == Kind::SynAck {
            let irs = self.peer(header.ack)?;
            let count = count_from(irs, header.ack);
            ensure(count == 1, Invariant::Form, || format!("a SYN|ACK that acknowledges {count}"))?;
            said.acks = Some((irs, count));
            self.check_acknowledged(irs, count)?;
        }
        self.promised = self.promised.max(said.edge);
        self.next = self.next.max(1);
        Ok(said)
    }

    fn handle_usual(&mut self, packet: &Packet, opens: &Opens) -> Result<Said, Violation> {
        let header = packet.header();
        let irs = self.peer(header.ack)?;
        let iss = self.iss.ok_or_else(|| form("a packet before SYN or SYN|ACK"))?;
        let seq = packet.seq(opens.is_sealed(iss, irs)).get();
        let number = seq.wrapping_sub(iss);
        if matches!(header.kind, Kind::Data | Kind::Fin) {
            self.check_number(packet, number, opens.offer(irs).map(|offer| offer.mss))?;
        } else {
            let next = self.next;
            ensure(number == next, Invariant::Order, || {
                format!("[CDP-HDR-12] {:?} carries number {number} where SND.NXT is {next}", header.kind)
            })?;
            ensure(!header.rtx, Invariant::Form, || "[CDP-HDR-5] RTX in a packet without number".into())?;
        }
        let count = count_from(irs, header.ack);
        self.check_acknowledged(irs, count)?;
        let scale = opens.scale(iss, irs);
        let edge = count + (u64::from(header.window) << scale);
        if header.kind != Kind::Reset {
            self.check_edge(edge, scale)?;
        }
        if matches!(header.kind, Kind::Ack | Kind::Pin) {
            let may_report = opens.offer(irs).is_some_and(|offer| offer.sack_ok);
            self.check_report(irs, count, &packet.tlvs(), header.kind, may_report)?;
        }
        let data_bytes = packet.payload_len();
        Ok(Said { kind: header.kind, iss: Some(iss), number, acks: Some((irs, count)), edge, data_bytes })
    }

    /// Whom this end takes for its peer: the one whose open reached it and whose numbers the ACK number fits.
    fn peer(&mut self, ack: u32) -> Result<u64, Violation> {
        if let Some(irs) = self.irs {
            return Ok(irs);
        }
        let opened = self.arrived.iter().filter(|(_, numbers)| numbers.contains(0)).map(|(iss, _)| *iss);
        let peer = opened.into_iter().find(|irs| (1..1 << 16).contains(&count_from(*irs, ack)));
        self.irs = peer;
        peer.ok_or_else(|| {
            Violation::new(Invariant::Acknowledged, "an ACK number of an end it never heard of")
        })
    }

    fn check_number(&mut self, packet: &Packet, number: u64, mss: Option<u16>) -> Result<(), Violation> {
        let header = packet.header();
        let content = content_of(packet);
        let len = packet.payload_len();
        ensure(mss.is_some_and(|mss| len <= usize::from(mss)), Invariant::Form, || {
            format!("[CDP-SVC-3] {len} bytes of data for a peer with MSS {mss:?}")
        })?;
        if number < self.next {
            ensure(number >= 1 && self.contents[at(number)] == content, Invariant::Order, || {
                format!("[CDP-SEQ-6] number {number} is sent again with another content")
            })?;
            ensure(header.rtx, Invariant::Form, || format!("[CDP-HDR-5] number {number} again without RTX"))?;
            self.sent.repeated += 1;
            return Ok(());
        }
        let next = self.next;
        ensure(number == next, Invariant::Order, || format!("number {number} is sent when {next} is next"))?;
        ensure(!header.rtx, Invariant::Form, || format!("[CDP-HDR-5] number {number} first sent with RTX"))?;
        ensure(self.fin.is_none(), Invariant::Order, || "[CDP-ST-B] a number after the FIN".into())?;
        let is_fin = header.kind == Kind::Fin;
        // [CDP-WND-6] a DAT stays before SND.EDGE; [CDP-WND-7] a FIN may take SND.EDGE itself
        let limit = self.granted + u64::from(is_fin);
        ensure(number < limit, Invariant::Edge, || {
            format!(
                "{:?} {number} is sent when the right edge that reached this end is {}",
                header.kind, self.granted
            )
        })?;
        self.contents.push(content);
        self.fin = is_fin.then_some(number);
        self.next += 1;
        self.sent.numbers += 1;
        self.sent.bytes += len as u64;
        Ok(())
    }

    fn check_acknowledged(&mut self, irs: u64, count: u64) -> Result<(), Violation> {
        let before = self.acknowledges;
        ensure(count >= before, Invariant::Order, || {
            format!("the ACK number moves back from {before} to {count}")
        })?;
        let arrived = self.arrived.get(&irs).map_or(0, Ranges::contiguous);
        ensure(count <= arrived, Invariant::Acknowledged, || {
            format!("acknowledges {count} when only the numbers before {arrived} have arrived")
        })?;
        self.acknowledges = count;
        Ok(())
    }

    fn check_edge(&mut self, edge: u64, scale: u8) -> Result<(), Violation> {
        // [CDP-WND-4] a scaled window is rounded down, by less than one unit
        let rounded = (1_u64 << scale) - 1;
        ensure(edge + rounded >= self.promised, Invariant::Edge, || {
            format!("[CDP-WND-3] the right edge moves left from {} to {edge} (scale {scale})", self.promised)
        })?;
        self.promised = self.promised.max(edge);
        Ok(())
    }
}

/// Position of a number from 1 on.
fn at(number: u64) -> usize {
    usize::try_from(number - 1).unwrap_or(usize::MAX)
}

/// How far the ACK number is from the initial number; runs stay far below 2^31 numbers.
fn count_from(irs: u64, ack: u32) -> u64 {
    let low = u32::try_from(irs & 0xFFFF_FFFF).unwrap_or(0);
    u64::from(ack.wrapping_sub(low))
}

fn content_of(packet: &Packet) -> u64 {
    let mut hash = TraceHash::new();
    hash.add(u64::from(packet.header().kind == Kind::Fin) << 1 | u64::from(packet.header().eom));
    hash.add_bytes(&packet.payload());
    hash.value()
}

fn form(what: &str) -> Violation {
    Violation::new(Invariant::Form, what)
}

#[cfg(test)]
mod tests;
