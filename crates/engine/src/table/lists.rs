//! What the schemes share: the keyed hash, the number of lists, the count of entries.

use siphasher::sip::SipHasher13;
use weft_base::{Address, FlowKey};
use weft_sync::face::atomic::{AtomicUsize, Ordering};

use super::{InsertError, Limits};

/// Greatest number of lists of a table.
pub(super) const LISTS_MAX: usize = 1 << 20;

/// From flows to numbers that nobody without the key can foretell.
pub(super) struct Hash(SipHasher13);

impl Hash {
    pub(super) fn new(key: [u8; 16]) -> Self {
        Self(SipHasher13::new_with_key(&key))
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // some bits of a hash are a hash
    pub(super) fn of(&self, flow: &FlowKey) -> usize {
        let mut bytes = [0; 12];
        let (local, remote) = bytes.split_at_mut(6);
        put(local, flow.local);
        put(remote, flow.remote);
        self.0.hash(&bytes) as usize
    }
}

#[inline]
fn put(bytes: &mut [u8], address: Address) {
    bytes[..4].copy_from_slice(&address.node.get().to_le_bytes());
    bytes[4..].copy_from_slice(&address.port.get().to_le_bytes());
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
