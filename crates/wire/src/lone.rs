//! A data packet where the link has it, before anything was taken apart: for who waits for just this one.

use weft_base::{FlowKey, Seq};

use crate::header::HEADER_LEN;
use crate::packet::check_length;
use crate::words::{EOM, Words};
use crate::{Encapsulation, Header, Kind, Packet, seal};

/// A DAT packet of a given flow that says nothing special: sent once, by no forwarder, without ECE.
#[derive(Clone, Copy, Debug)]
pub struct Lone<'a> {
    words: Words,
    payload: &'a [u8],
}

impl<'a> Lone<'a> {
    /// Checks what an underlay handed over as [`Packet::new_checked`](crate::Packet::new_checked) does; `flow` is the flow as its
    /// receiver keys it. `None` for any other packet.
    #[must_use]
    #[inline]
    pub fn new_checked(bytes: &'a [u8], flow: FlowKey, encapsulation: Encapsulation) -> Option<Self> {
        let (head, _) = bytes.split_first_chunk()?;
        let words = Self::plain_words(head, flow)?;
        let length = check_length(head, bytes.len(), encapsulation).ok()?;
        Some(Self { words, payload: &bytes[HEADER_LEN..length] })
    }

    /// The same of a packet whose data segment, which ends it, lies elsewhere than its head.
    #[must_use]
    pub fn of_parts(head: &[u8; HEADER_LEN], payload: &'a [u8], flow: FlowKey) -> Option<Self> {
        let words = Self::plain_words(head, flow)?;
        let len = HEADER_LEN + payload.len();
        (check_length(head, len, Encapsulation::Udp) == Ok(len)).then_some(Self { words, payload })
    }

    /// The head of such a packet, whose length is yet to be checked.
    #[inline]
    fn plain_words(head: &[u8; HEADER_LEN], flow: FlowKey) -> Option<Words> {
        let expected = Header::new(Kind::Data, flow.reversed()).words();
        let words = Words::read(head);
        // [CDP-CHK-1] nothing but LENGTH is left to be checked of a header that is as expected
        let is_plain = words.nodes & !EOM == expected.nodes && words.ports >> 32 == expected.ports >> 32;
        is_plain.then_some(words)
    }

    pub(crate) const fn words(&self) -> Words {
        self.words
    }

    /// The data segment.
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// EOM: the data segment is a whole message, or the end of one.
    #[must_use]
    pub const fn eom(&self) -> bool {
        self.words.is_end()
    }

    /// The low half of the ACK number.
    #[must_use]
    pub const fn ack(&self) -> u32 {
        self.words.ack
    }

    /// Slots counted from the ACK number, not scaled.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // they are the last two bytes
    pub const fn window(&self) -> u16 {
        self.words.ports as u16
    }

    /// The low half of the number, which is never sealed.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // it is what is asked for
    pub const fn seq_low32(&self) -> u32 {
        self.words.seq as u32
    }

    /// The packet for who has its data: the same, with its number and an empty data segment.
    #[must_use]
    pub fn without_data(&self, sealed: bool) -> Option<Packet> {
        let header = Header::parse(&self.words.bytes()).ok()?;
        Some(Packet::unsealed(Header { seq: self.seq(sealed), ..header }))
    }

    /// The number, as [`Packet::seq`](crate::Packet::seq).
    #[must_use]
    #[inline]
    pub fn seq(&self, sealed: bool) -> Seq {
        // [CDP-SEAL-3] what is damaged shows as another number
        let words =
            if sealed { self.words.sealed(seal::checksum(self.words, self.payload)) } else { self.words };
        Seq::new(words.seq)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use weft_base::{Address, NodeId, Port};

    use super::*;
    use crate::Packet;
    use crate::emit::data_head;

    const ENCAPSULATIONS: [Encapsulation; 3] =
        [Encapsulation::Udp, Encapsulation::Ethernet, Encapsulation::Simulated];

    fn flow() -> FlowKey {
        let end = |node, port| Address { node: NodeId::new(node).unwrap(), port: Port::new(port).unwrap() };
        FlowKey { local: end(0x00AB_CDEF, 50_000), remote: end(0x0012_3456, 7) }
    }

    /// The packet of `flow` as its receiver keys it.
    fn packet(eom: bool, body: &[u8]) -> Vec<u8> {
        let mut header = Header::new(Kind::Data, flow().reversed());
        (header.eom, header.window, header.ack) = (eom, 513, 0xFEDC_BA98);
        header.seq = Seq::new(0x0123_4567_89AB_CDEF);
        [&data_head(&header, body, true)[..], body].concat()
    }

    /// What is taken for a plain packet of the flow is one by the checks that all packets go through, and says the same.
    fn assert_agrees(bytes: &[u8], encapsulation: Encapsulation, what: &str) {
        let checked = Packet::new_checked(Bytes::copy_from_slice(bytes), encapsulation).ok();
        let plain = checked.filter(|packet| {
            let Header { kind, ece, rtx, ce, hop, .. } = *packet.header();
            kind == Kind::Data && !(ece || rtx || ce) && hop == 0 && packet.flow() == flow()
        });
        let lone = Lone::new_checked(bytes, flow(), encapsulation);
        assert_eq!(lone.is_some(), plain.is_some(), "{what}");
        if encapsulation == Encapsulation::Udp {
            let parts = bytes.split_first_chunk().and_then(|(head, data)| Lone::of_parts(head, data, flow()));
            let told = |lone: Lone<'_>| (lone.words, lone.payload.to_vec());
            assert_eq!(parts.map(told), lone.map(told), "{what}");
        }
        if let Some((lone, packet)) = lone.zip(plain) {
            let header = packet.header();
            assert_eq!(
                (lone.eom(), lone.window(), lone.ack()),
                (header.eom, header.window, header.ack),
                "{what}"
            );
            assert_eq!(lone.payload(), &packet.payload()[..], "{what}");
            for sealed in [false, true] {
                let seq = packet.seq(sealed);
                assert_eq!((lone.seq(sealed), lone.seq_low32()), (seq, seq.low32()), "{what}");
                let mut rest = lone.without_data(sealed).unwrap();
                assert_eq!((*rest.header(), rest.seq(sealed)), (Header { seq, ..*header }, seq), "{what}");
                assert_eq!((rest.payload_len(), rest.take_payload().len()), (0, 0), "{what}");
            }
        }
    }

    #[test]
    fn it_says_what_the_checked_packet_says() {
        for encapsulation in ENCAPSULATIONS {
            for (eom, len) in [(true, 0), (true, 1), (false, 64), (true, 1_444)] {
                let bytes = packet(eom, &vec![0xA5; len]);
                assert_agrees(&bytes, encapsulation, "as it was sent");
                let lone = Lone::new_checked(&bytes, flow(), encapsulation).unwrap();
                assert_eq!((lone.eom(), lone.payload().len()), (eom, len));
                assert_eq!(lone.seq(true), Seq::new(0x0123_4567_89AB_CDEF));
                assert!(Lone::new_checked(&bytes, flow().reversed(), encapsulation).is_none());
            }
        }
    }

    /// [CDP-HDR-8] to [CDP-HDR-11], [CDP-FLG-1]: whatever came.
    #[test]
    fn it_is_there_where_and_only_where_the_checks_let_a_plain_packet_pass() {
        for encapsulation in ENCAPSULATIONS {
            let whole = packet(true, b"ten bytes.");
            for len in 0..whole.len() {
                assert_agrees(&whole[..len], encapsulation, &format!("{len} bytes of it"));
            }
            for more in 1..30 {
                let padded = [&whole[..], &vec![0; more]].concat();
                assert_agrees(&padded, encapsulation, &format!("{more} bytes behind it"));
            }
            for bit in 0..HEADER_LEN * 8 {
                let mut changed = whole.clone();
                changed[bit / 8] ^= 0x80 >> (bit % 8);
                assert_agrees(&changed, encapsulation, &format!("bit {bit}"));
            }
            for flags in 0..=u8::MAX {
                let mut changed = whole.clone();
                changed[4] = flags;
                assert_agrees(&changed, encapsulation, &format!("flags {flags:#04x}"));
            }
        }
    }
}
