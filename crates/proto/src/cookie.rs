//! SYN cookies: a server's state that travels with the client (section 10.2).
//!
//! ```text
//!  0        4       5        6      8             12           14        16       18               34
//!  | slot   | flags | scales | MSS  | MESSAGE     | PIN s      | EXPIRY s| window | MAC (128)       |
//! ```
//!
//! The MAC is SipHash-2-4 with 128 bits over all before it, the 4-tuple and IRS. ISS is a hash under another key of
//! the same, so that cookie and ISS together bind the connection, and a guess of ISS does not help with the MAC.

use std::hash::Hasher;
use std::time::Duration;

use siphasher::sip::SipHasher24;
use siphasher::sip128::{Hasher128, SipHasher24 as SipHasher24Wide};
use weft_base::{FlowKey, Instant, Seq};
use weft_wire::{Cookie, KeepAlive};

use crate::open::Agreed;

const CLAIMS_LEN: usize = 18;
const COOKIE_LEN: usize = CLAIMS_LEN + 16;
/// Length of a time slot.
const SLOT: Duration = Duration::from_secs(64);
/// Longest time for which a cookie is good (CDP-CKE-3).
pub const LIFE_MAX: Duration = Duration::from_secs(128);
/// [CDP-CKE-3] A key is replaced at least once an hour.
const KEY_LIFE: Duration = Duration::from_secs(3_000);

const SEALED: u8 = 0x01;
const COALESCE: u8 = 0x02;
const CONFIRM: u8 = 0x04;
const PEER_SACK: u8 = 0x08;

/// A cookie and the ISS that goes with it.
#[derive(Clone, Debug)]
pub struct Made {
    /// The initial number of the SYN|ACK.
    pub iss: Seq,
    /// The value of its COOKIE.
    pub cookie: Cookie,
}

/// What a good cookie proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proved {
    /// The initial number that the SYN|ACK had.
    pub iss: Seq,
    /// What was agreed.
    pub agreed: Agreed,
    /// The window that the SYN promised, in slots.
    pub window: u16,
}

/// Why a cookie is refused (REASON 19).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CookieError {
    /// It is not one of ours, or for another connection.
    Forged,
    /// It is older than two time slots.
    Late,
}

/// The keys of one listener, the present and the one before.
#[derive(Clone)]
pub struct CookieKeys {
    present: [u8; 32],
    previous: Option<[u8; 32]>,
    since: Instant,
}

impl std::fmt::Debug for CookieKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CookieKeys").field("since", &self.since).finish_non_exhaustive()
    }
}

impl CookieKeys {
    /// `key` is fresh from a cryptographic generator.
    #[must_use]
    pub fn new(now: Instant, key: [u8; 32]) -> Self {
        Self { present: key, previous: None, since: now }
    }

    /// Whether the present key has served its time (CDP-CKE-3).
    #[must_use]
    pub fn is_due(&self, now: Instant) -> bool {
        now - self.since >= KEY_LIFE
    }

    /// Takes a fresh key; cookies of the one before stay good until they are too old.
    pub fn replace(&mut self, now: Instant, key: [u8; 32]) {
        self.previous = Some(std::mem::replace(&mut self.present, key));
        self.since = now;
    }

    /// The cookie and ISS for a SYN of `flow` with initial number `irs` and window `window`.
    #[must_use]
    pub fn make(&self, now: Instant, flow: FlowKey, irs: Seq, agreed: &Agreed, window: u16) -> Made {
        let claims = pack(slot(now), agreed, window);
        let mut cookie = Cookie::new();
        cookie.extend(claims);
        cookie.extend(mac(&self.present, flow, irs, &claims));
        Made { iss: derive_iss(&self.present, flow, irs, &claims), cookie }
    }

    /// Checks a cookie that came back with an ACK of `flow` whose number is `irs` + 1 and whose ACK number is `ack`.
    ///
    /// # Errors
    ///
    /// [`CookieError`]; nothing has been allocated then (CDP-CKE-6).
    pub fn check(
        &self,
        now: Instant,
        flow: FlowKey,
        irs: Seq,
        ack: u32,
        cookie: &[u8],
    ) -> Result<Proved, CookieError> {
        let (claims, tag) = split(cookie).ok_or(CookieError::Forged)?;
        // [CDP-CKE-2] the MAC binds 4-tuple, IRS, options, window and time slot
        let key = [Some(&self.present), self.previous.as_ref()]
            .into_iter()
            .flatten()
            .find(|key| is_equal(&mac(key, flow, irs, claims), tag))
            .ok_or(CookieError::Forged)?;
        let iss = derive_iss(key, flow, irs, claims);
        // [CDP-CKE-6] ACK number = low32(ISS + 1)
        if (iss + 1).low32() != ack {
            return Err(CookieError::Forged);
        }
        // [CDP-CKE-3] this slot or the one before: 64 s at least and 128 s at most
        let made = u32::from_be_bytes([claims[0], claims[1], claims[2], claims[3]]);
        if slot(now).wrapping_sub(made) > 1 {
            return Err(CookieError::Late);
        }
        let (agreed, window) = unpack(claims);
        Ok(Proved { iss, agreed, window })
    }
}

/// Whether the connection that `cookie` speaks of is sealed: needed to read the number of the packet that carries
/// it, and believed only after the MAC.
#[must_use]
pub fn is_sealed(cookie: &[u8]) -> bool {
    split(cookie).is_some_and(|(claims, _)| claims[4] & SEALED != 0)
}

fn slot(now: Instant) -> u32 {
    u32::try_from(now.as_nanos() / 1_000_000_000 / SLOT.as_secs()).unwrap_or(u32::MAX)
}

fn split(cookie: &[u8]) -> Option<(&[u8; CLAIMS_LEN], &[u8])> {
    if cookie.len() == COOKIE_LEN { cookie.split_first_chunk() } else { None }
}

fn pack(slot: u32, agreed: &Agreed, window: u16) -> [u8; CLAIMS_LEN] {
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    let mut claims = [0; CLAIMS_LEN];
    claims[..4].copy_from_slice(&slot.to_be_bytes());
    claims[4] = flag(agreed.sealed, SEALED)
        | flag(agreed.coalesce, COALESCE)
        | flag(agreed.confirm, CONFIRM)
        | flag(agreed.peer_sack, PEER_SACK);
    claims[5] = agreed.receive_scale << 4 | agreed.send_scale;
    claims[6..8].copy_from_slice(&agreed.peer_mss.to_be_bytes());
    claims[8..12].copy_from_slice(&agreed.peer_message.unwrap_or(0).to_be_bytes());
    claims[12..14].copy_from_slice(&agreed.keep_alive.interval_s.to_be_bytes());
    claims[14..16].copy_from_slice(&agreed.keep_alive.expiry_s.to_be_bytes());
    claims[16..].copy_from_slice(&window.to_be_bytes());
    claims
}

fn unpack(claims: &[u8; CLAIMS_LEN]) -> (Agreed, u16) {
    let word = |at: usize| u16::from_be_bytes([claims[at], claims[at + 1]]);
    let message = u32::from(word(8)) << 16 | u32::from(word(10));
    let agreed = Agreed {
        sealed: claims[4] & SEALED != 0,
        coalesce: claims[4] & COALESCE != 0,
        confirm: claims[4] & CONFIRM != 0,
        peer_sack: claims[4] & PEER_SACK != 0,
        receive_scale: claims[5] >> 4,
        send_scale: claims[5] & 0x0F,
        peer_mss: word(6),
        peer_message: (message != 0).then_some(message),
        keep_alive: KeepAlive { interval_s: word(12), expiry_s: word(14) },
    };
    (agreed, word(16))
}

fn mac(key: &[u8; 32], flow: FlowKey, irs: Seq, claims: &[u8]) -> [u8; 16] {
    let mut hasher = SipHasher24Wide::new_with_key(&half(key, 0));
    feed(&mut hasher, flow, irs, claims);
    hasher.finish128().as_bytes()
}

/// [CDP-SEQ-3] A keyed hash of the 4-tuple, IRS and the time slot.
fn derive_iss(key: &[u8; 32], flow: FlowKey, irs: Seq, claims: &[u8]) -> Seq {
    let mut hasher = SipHasher24::new_with_key(&half(key, 16));
    feed(&mut hasher, flow, irs, claims);
    Seq::new(hasher.finish())
}

fn half(key: &[u8; 32], at: usize) -> [u8; 16] {
    std::array::from_fn(|i| key[at + i])
}

fn feed(hasher: &mut impl Hasher, flow: FlowKey, irs: Seq, claims: &[u8]) {
    for end in [flow.local, flow.remote] {
        hasher.write(&end.node.get().to_be_bytes());
        hasher.write(&end.port.get().to_be_bytes());
    }
    hasher.write(&irs.get().to_be_bytes());
    hasher.write(claims);
}

/// Compares without telling by its time where the two differ.
fn is_equal(a: &[u8; 16], b: &[u8]) -> bool {
    b.len() == a.len() && a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weft_base::{Address, NodeId, Port, Service};

    use super::*;
    use crate::config::Config;
    use crate::open::{agree, offer};

    fn flow(port: u16) -> FlowKey {
        let end = |node, port| Address { node: NodeId::new(node).unwrap(), port: Port::new(port).unwrap() };
        FlowKey { local: end(1, 7), remote: end(2, port) }
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn agreed() -> Agreed {
        let config = Config { receive_slots: 1 << 20, ..Config::new(Service::Datagram, 1444) };
        agree(&config, &offer(&config), false)
    }

    /// [CDP-CKE-2] Cookie and ISS bind the 4-tuple, IRS, all options, the window and the time slot.
    #[test]
    fn a_cookie_proves_what_it_was_made_for_and_nothing_else() {
        let keys = CookieKeys::new(at(0), [3; 32]);
        let (irs, agreed) = (Seq::new(99), agreed());
        let made = keys.make(at(0), flow(5), irs, &agreed, 321);
        let ack = (made.iss + 1).low32();
        let proved = keys.check(at(1), flow(5), irs, ack, &made.cookie).unwrap();
        assert_eq!(proved, Proved { iss: made.iss, agreed, window: 321 });

        let forged = Err(CookieError::Forged);
        assert_eq!(keys.check(at(1), flow(6), irs, ack, &made.cookie), forged);
        assert_eq!(keys.check(at(1), flow(5), irs + 1, ack, &made.cookie), forged);
        assert_eq!(keys.check(at(1), flow(5), irs, ack ^ 1, &made.cookie), forged);
        for byte in 0..made.cookie.len() {
            let mut changed = made.cookie.clone();
            changed[byte] ^= 1;
            assert_eq!(keys.check(at(1), flow(5), irs, ack, &changed), forged, "byte {byte}");
        }
        assert_eq!(keys.check(at(1), flow(5), irs, ack, &made.cookie[1..]), forged);
    }

    /// [CDP-CKE-3] Good for at least 64 s and at most 128 s, also across a change of keys.
    #[test]
    fn a_cookie_lives_between_one_and_two_slots() {
        let mut keys = CookieKeys::new(at(0), [3; 32]);
        let irs = Seq::new(99);
        for made_at in [0, 30, 63] {
            let made = keys.make(at(made_at), flow(5), irs, &agreed(), 1);
            let ack = (made.iss + 1).low32();
            assert!(keys.check(at(made_at + 64), flow(5), irs, ack, &made.cookie).is_ok());
            let late = keys.check(at(made_at + 128), flow(5), irs, ack, &made.cookie);
            assert_eq!(late, Err(CookieError::Late));
        }
        assert!(!keys.is_due(at(2_999)) && keys.is_due(at(3_000)), "well within the hour");
        let made = keys.make(at(3_000), flow(5), irs, &agreed(), 1);
        keys.replace(at(3_001), [4; 32]);
        assert!(keys.check(at(3_010), flow(5), irs, (made.iss + 1).low32(), &made.cookie).is_ok());
        keys.replace(at(6_001), [5; 32]);
        assert!(keys.check(at(3_010), flow(5), irs, (made.iss + 1).low32(), &made.cookie).is_err());
    }

    prop_compose! {
        fn any_agreed()(
            flags in any::<[bool; 4]>(),
            scales in (0_u8..=14, 0_u8..=14),
            peer_mss in 512_u16..=65_507,
            message in prop::option::of(1_u32..=(1 << 31) - 1),
            times in any::<(u16, u16)>(),
        ) -> Agreed {
            Agreed {
                sealed: flags[0],
                coalesce: flags[1],
                confirm: flags[2],
                peer_sack: flags[3],
                receive_scale: scales.0,
                send_scale: scales.1,
                peer_mss,
                peer_message: message,
                keep_alive: KeepAlive { interval_s: times.0, expiry_s: times.1 },
            }
        }
    }

    proptest! {
        /// [CDP-CKE-2] Whatever was agreed comes back; a cookie with any one bit changed, or of another listener, is
        /// refused. [CDP-SEQ-3] ISS is a keyed hash: another key, another SYN or another slot gives another.
        #[test]
        fn a_cookie_brings_back_all_that_was_agreed(
            agreed in any_agreed(),
            window in any::<u16>(),
            irs in any::<u64>(),
            seconds in 0_u64..100_000,
            bit in 0..COOKIE_LEN * 8,
        ) {
            let (keys, others) = (CookieKeys::new(at(0), [3; 32]), CookieKeys::new(at(0), [4; 32]));
            let (irs, now) = (Seq::new(irs), at(seconds));
            let made = keys.make(now, flow(5), irs, &agreed, window);
            let ack = (made.iss + 1).low32();
            let proved = keys.check(now, flow(5), irs, ack, &made.cookie);
            prop_assert_eq!(proved, Ok(Proved { iss: made.iss, agreed, window }));
            prop_assert_eq!(is_sealed(&made.cookie), agreed.sealed);

            let mut changed = made.cookie.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(keys.check(now, flow(5), irs, ack, &changed), Err(CookieError::Forged));
            prop_assert_eq!(others.check(now, flow(5), irs, ack, &made.cookie), Err(CookieError::Forged));

            prop_assert_ne!(others.make(now, flow(5), irs, &agreed, window).iss, made.iss);
            prop_assert_ne!(keys.make(now, flow(5), irs + 1, &agreed, window).iss, made.iss);
            prop_assert_ne!(keys.make(at(seconds + 64), flow(5), irs, &agreed, window).iss, made.iss);
        }
    }
}
