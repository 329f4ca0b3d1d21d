//! A fiber's name, short and readable at any time, also while a fault is reported.

use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes of a name that are kept.
pub(crate) const NAME_MAX: usize = 32;

/// Up to 32 bytes, in words that are read and written whole.
pub(crate) struct Name([AtomicU64; NAME_MAX / 8]);

impl Name {
    pub(crate) fn new() -> Self {
        Self([const { AtomicU64::new(0) }; NAME_MAX / 8])
    }

    #[inline(always)]
    pub(crate) fn clear(&self) {
        self.0[0].store(0, Ordering::Relaxed);
    }

    /// Keeps as much of `name` as there is room for, cut between characters.
    pub(crate) fn set(&self, name: &str) {
        let end = (0..=NAME_MAX.min(name.len())).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
        let mut bytes = [0; NAME_MAX];
        bytes[..end].copy_from_slice(&name.as_bytes()[..end]);
        for (word, part) in self.0.iter().zip(bytes.chunks_exact(8)) {
            let part = part.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
            word.store(part, Ordering::Relaxed);
        }
    }

    /// The name; empty if it has none.
    pub(crate) fn get(&self) -> String {
        let bytes: Vec<u8> =
            self.0.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
        if bytes[0] == 0 {
            return String::new();
        }
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(NAME_MAX);
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_as_far_as_there_is_room() {
        let name = Name::new();
        assert_eq!(name.get(), "");
        name.set("worker of part 7");
        assert_eq!(name.get(), "worker of part 7");
        name.set("ä234567890123456789012345678901ö");
        assert_eq!(name.get(), "ä234567890123456789012345678901");
        name.clear();
        assert_eq!(name.get(), "");
    }
}
