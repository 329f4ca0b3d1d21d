//! What the schemes share: the keyed hash, the number of lists, the count of entries.

use weft_base::{Address, FlowKey};
use weft_sync::face::atomic::{AtomicUsize, Ordering};

use super::{InsertError, Limits};

/// Greatest number of lists of a table.
const LISTS_MAX: usize = 1 << 20;

/// From flows to numbers that nobody without the key can foretell: SipHash-1-3 of 16 bytes, the local and the remote
/// end as one little-endian word each.
///
/// Written out here because a search is little more than its hash: for two words it takes half the time of the general
/// function, against which it is tested.
pub(super) struct Hash([u64; 4]);

impl Hash {
    pub(super) fn new(key: [u8; 16]) -> Self {
        let half = |from: usize| u64::from_le_bytes(std::array::from_fn(|index| key[from + index]));
        let (k0, k1) = (half(0), half(8));
        Self([
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ])
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // some bits of a hash are a hash
    pub(super) fn of(&self, flow: &FlowKey) -> usize {
        self.words(word(flow.local), word(flow.remote)) as usize
    }

    #[inline]
    pub(super) fn words(&self, first: u64, second: u64) -> u64 {
        const LENGTH: u64 = 16 << 56;
        let mut v = self.0;
        for word in [first, second, LENGTH] {
            v[3] ^= word;
            round(&mut v);
            v[0] ^= word;
        }
        v[2] ^= 0xff;
        for _ in 0..3 {
            round(&mut v);
        }
        v[0] ^ v[1] ^ v[2] ^ v[3]
    }
}

/// An end as 40 bits: node and port.
#[inline]
pub(super) fn word(address: Address) -> u64 {
    u64::from(address.node.get()) << 16 | u64::from(address.port.get())
}

#[inline(always)]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hash(<key>)") // which is a secret
    }
}

impl Limits {
    /// The number of lists as a power of two in bounds.
    pub(super) fn list_count(self) -> usize {
        self.lists.clamp(1, LISTS_MAX).next_power_of_two()
    }
}

/// Counts entries against their limit.
#[derive(Debug)]
pub(super) struct Count {
    entries: AtomicUsize,
    max: usize,
}

impl Count {
    pub(super) fn new(limits: Limits) -> Self {
        Self { entries: AtomicUsize::new(0), max: limits.entries_max }
    }

    /// Adds an entry before it is linked; give it back if it does not come to that.
    pub(super) fn add(&self) -> Result<(), InsertError> {
        if self.entries.fetch_add(1, Ordering::Relaxed) < self.max {
            return Ok(());
        }
        self.subtract();
        Err(InsertError::Full)
    }

    pub(super) fn subtract(&self) {
        self.entries.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }
}
