//! What the SYN and SYN|ACK packets of a run said, by the initial number of their sender.

use std::collections::BTreeMap;

use weft_base::FlowKey;
use weft_wire::{Kind, Packet};

/// What one end offered or agreed to in its SYN or SYN|ACK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its flow, as its sender keys it.
    pub flow: FlowKey,
    /// SYN, or SYN|ACK with the result.
    pub is_answer: bool,
    /// Window, in slots, unscaled.
    pub window: u64,
    /// INTEGRITY.
    pub sealed: bool,
    /// WSCALE.
    pub scale: Option<u8>,
    /// SACKOK.
    pub sack_ok: bool,
    /// MSS.
    pub mss: u16,
    /// CONFIRM.
    pub confirm: bool,
    /// Bytes of the packet.
    pub len: usize,
}

/// All offers of a run. Initial numbers are random 64-bit numbers, so they name their ends.
#[derive(Clone, Debug, Default)]
pub struct Opens {
    by_number: BTreeMap<u64, Offer>,
}

impl Opens {
    /// Notes a SYN or SYN|ACK that is being sent. The first one of a number counts; repetitions say the same.
    pub fn note(&mut self, packet: &Packet) {
        let tlvs = packet.tlvs();
        let offer = Offer {
            flow: packet.flow().reversed(),
            is_answer: packet.kind() == Kind::SynAck,
            window: u64::from(packet.header().window),
            sealed: tlvs.integrity_or_default(),
            scale: tlvs.wscale,
            sack_ok: tlvs.sack_ok,
            mss: tlvs.mss_or_default(),
            confirm: tlvs.confirm,
            len: packet.bytes().len(),
        };
        let known = self.by_number.entry(packet.seq(false).get()).or_insert_with(|| offer.clone());
        // In a simultaneous open the SYN|ACK follows the SYN of the same number, and tells the result.
        if offer.is_answer && !known.is_answer {
            known.sealed |= offer.sealed;
        }
    }

    /// The offer of the end whose initial number is `iss`.
    #[must_use]
    pub fn offer(&self, iss: u64) -> Option<&Offer> {
        self.by_number.get(&iss)
    }

    /// The initial number of the answer that an end of `flow` sent and whose low half, plus one, is `ack`.
    #[must_use]
    pub fn answer_to(&self, flow: FlowKey, ack: u32) -> Option<u64> {
        let fits = |iss: u64| iss.wrapping_add(1) & 0xFFFF_FFFF == u64::from(ack);
        let mut answers = self.by_number.iter().filter(|(_, offer)| offer.flow == flow);
        answers.find(|(iss, _)| fits(**iss)).map(|(iss, _)| *iss)
    }

    /// Whether the connection between these two ends is sealed (CDP-SYN-7).
    #[must_use]
    pub fn is_sealed(&self, iss: u64, irs: u64) -> bool {
        [iss, irs].iter().any(|number| self.offer(*number).is_some_and(|offer| offer.sealed))
    }

    /// The shift of the windows that the end `iss` sends to the end `irs`.
    #[must_use]
    pub fn scale(&self, iss: u64, irs: u64) -> u8 {
        let own = self.offer(iss).and_then(|offer| offer.scale);
        let theirs = self.offer(irs).and_then(|offer| offer.scale);
        own.zip(theirs).map_or(0, |(own, _)| own)
    }

    /// Whether both asked for the confirmed close.
    #[must_use]
    pub fn confirms(&self, iss: u64, irs: u64) -> bool {
        [iss, irs].iter().all(|number| self.offer(*number).is_some_and(|offer| offer.confirm))
    }
}
