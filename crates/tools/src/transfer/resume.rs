//! What is there already, and the digest of a prefix, so that an interrupted file goes on where it stopped and only if it is the same
//! file.

use std::collections::HashMap;
use std::io::{self, Read};

use super::frame::Digest;

/// Bytes read and hashed at a time.
const STEP_BYTES: usize = 1 << 20;

/// What the receiver said it has, by entry.
pub(super) type Present = HashMap<u64, Claim>;

pub(super) struct Claim {
    pub(super) len: u64,
    pub(super) digest: Digest,
    /// The file exists under its final name, and this is all of it.
    pub(super) is_final: bool,
}

/// What a comparison found.
pub(super) enum Verified {
    /// The receiver has this very file.
    Same(Digest),
    /// The receiver has so many first bytes; the hasher has taken them.
    Prefix(u64, Box<blake3::Hasher>),
    /// Nothing of use; the file is at its beginning again.
    Nothing,
}

/// A hasher that has taken the next `len` bytes of `file`; a shorter file is an error.
pub(super) fn hash_prefix(file: &mut impl Read, len: u64) -> io::Result<blake3::Hasher> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; STEP_BYTES.min(usize::try_from(len).unwrap_or(STEP_BYTES)).max(1)];
    let mut left = len;
    while left > 0 {
        let step = buffer.len().min(usize::try_from(left).unwrap_or(buffer.len()));
        file.read_exact(&mut buffer[..step])?;
        hasher.update(&buffer[..step]);
        left -= step as u64;
    }
    Ok(hasher)
}

/// The digest of a whole transfer: over index and digest of each file that arrived, in order.
#[derive(Default)]
pub(super) struct Whole(blake3::Hasher);

impl Whole {
    pub(super) fn add(&mut self, index: u64, digest: &[u8; 32]) {
        self.0.update(&index.to_be_bytes());
        self.0.update(digest);
    }

    pub(super) fn digest(&self) -> blake3::Hash {
        self.0.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_has_the_digest_of_its_bytes() {
        let data: Vec<u8> = (0..=255).cycle().take(3_000_000).collect();
        for len in [0, 1, 1 << 20, 2_500_000] {
            let hasher = hash_prefix(&mut data.as_slice(), len as u64).unwrap();
            assert_eq!(hasher.finalize(), blake3::hash(&data[..len]));
        }
    }

    #[test]
    fn a_shorter_file_is_told() {
        let error = hash_prefix(&mut b"abc".as_slice(), 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
