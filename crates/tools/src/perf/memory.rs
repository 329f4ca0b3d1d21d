//! Memory to send from and to receive into, placed alike in each run.

use std::ops::{Deref, DerefMut};

use weft_socket::Bytes;

/// Bytes of a page. Where a buffer lies in one is no part of what is measured: a message of 64 bytes that the allocator put across
/// two pages made a receiver that copies it a fifth slower, in some runs and not in others.
const PAGE_BYTES: usize = 4096;

/// A buffer that begins with a page.
pub(super) struct Memory {
    bytes: Vec<u8>,
    start: usize,
}

impl Memory {
    /// `len` bytes, all zero.
    pub(super) fn new(len: usize) -> Self {
        let bytes = vec![0; len + PAGE_BYTES];
        let start = bytes.as_ptr().align_offset(PAGE_BYTES).min(PAGE_BYTES);
        let mut memory = Self { bytes, start };
        memory.bytes.truncate(start + len);
        memory
    }

    /// What it holds, to be shared.
    pub(super) fn into_bytes(self) -> Bytes {
        Bytes::from(self.bytes).slice(self.start..)
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_with_a_page_and_stays_there_when_it_is_shared() {
        for len in [0, 1, 64, 4096, 100_000] {
            let mut memory = Memory::new(len);
            assert_eq!((memory.len(), memory.as_ptr() as usize % PAGE_BYTES), (len, 0));
            memory.fill(7);
            let place = memory.as_ptr();
            let shared = memory.into_bytes();
            assert!(shared.as_ptr() == place && shared.iter().eq(std::iter::repeat_n(&7, len)));
        }
    }
}
