//! Damage on the way: bits, runs of bytes, the length; and the one mark that forwarders may set.

use bytes::Bytes;
use weft_des::Random;

/// One way to spoil a packet. Byte positions are taken modulo its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Some bits turned.
    Bits(Vec<usize>),
    /// A run of bytes overwritten.
    Run {
        /// First byte.
        from: usize,
        /// What is written, never the same as before at its first byte.
        with: Vec<u8>,
    },
    /// Bytes cut from the end.
    Cut(usize),
    /// Bytes added at the end.
    Grow(Vec<u8>),
}

impl Damage {
    /// Draws one for a packet of `len` bytes.
    pub fn draw(random: &mut Random, len: usize) -> Self {
        match random.below(8) {
            0 => Self::Cut(1 + random.index(len)),
            1 => Self::Grow((0..=random.below(16)).map(|_| byte(random)).collect()),
            2 | 3 => {
                let from = random.index(len);
                Self::Run { from, with: (0..=random.below(64)).map(|_| byte(random)).collect() }
            }
            4 => Self::Bits(vec![random.index(28 * 8)]), // in the header
            _ => Self::Bits((0..=random.below(3)).map(|_| random.index(len * 8)).collect()),
        }
    }
}

/// The packet after the damage; it differs from `bytes` outside the bits that forwarders may change.
#[must_use]
pub fn apply(damage: &Damage, bytes: &Bytes) -> Bytes {
    let mut spoiled = bytes.to_vec();
    match damage {
        Damage::Bits(bits) => {
            for bit in bits {
                let at = bit / 8 % spoiled.len();
                spoiled[at] ^= 1 << (bit % 8);
            }
        }
        Damage::Run { from, with } => {
            let room = spoiled.len() - from;
            let with = &with[..with.len().min(room)];
            spoiled[*from..from + with.len()].copy_from_slice(with);
        }
        Damage::Cut(count) => spoiled.truncate(spoiled.len().saturating_sub(*count)),
        Damage::Grow(more) => spoiled.extend_from_slice(more),
    }
    if is_unchanged(&spoiled, bytes) {
        spoiled[4] ^= 0x08; // two turns of one bit, or a run that was there already
    }
    Bytes::from(spoiled)
}

/// The packet with CE set (mask 0x04 of byte 0).
#[must_use]
pub fn marked(bytes: &Bytes) -> Bytes {
    let mut marked = bytes.to_vec();
    if let Some(first) = marked.first_mut() {
        *first |= 0x04;
    }
    Bytes::from(marked)
}

/// Whether the two differ at most under mask 0x07 of byte 0 (CDP-FWD-2).
fn is_unchanged(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one[1..] == other[1..] && one[0] & 0xF8 == other[0] & 0xF8
}

fn byte(random: &mut Random) -> u8 {
    random.next_u64().to_le_bytes()[7]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damage_changes_what_a_receiver_must_notice() {
        let mut random = Random::from_seed(4);
        let packet = Bytes::from(vec![0x10; 40]);
        for _ in 0..10_000 {
            let damage = Damage::draw(&mut random, packet.len());
            let spoiled = apply(&damage, &packet);
            assert!(spoiled.len() != 40 || !is_unchanged(&spoiled, &packet), "{damage:?}");
        }
    }

    #[test]
    fn a_bit_turned_twice_still_counts_as_damage() {
        let packet = Bytes::from(vec![0x10; 40]);
        assert_ne!(apply(&Damage::Bits(vec![9, 9]), &packet), packet);
    }

    #[test]
    fn a_mark_changes_the_one_bit_that_forwarders_may_set() {
        let packet = Bytes::from(vec![0x10; 28]);
        assert!(is_unchanged(&marked(&packet), &packet));
        assert_eq!(marked(&packet)[0], 0x14);
    }
}
