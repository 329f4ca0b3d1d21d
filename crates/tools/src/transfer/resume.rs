//! The digest of a prefix, so that an interrupted file goes on where it stopped and only if it is the same file.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use super::frame::Frame;

/// Bytes hashed between two looks at the clock.
const STEP_BYTES: usize = 1 << 20;
/// Longest silence on the stream while this end hashes.
const BUSY_INTERVAL: Duration = Duration::from_secs(1);

/// Says `Busy` on a stream now and then, so that the peer does not take long hashing for death.
pub(super) struct Busy<W> {
    stream: W,
    told_at: Instant,
}

impl<W: Write> Busy<W> {
    pub(super) fn new(stream: W) -> Self {
        Self { stream, told_at: Instant::now() }
    }

    fn tell(&mut self) -> io::Result<()> {
        if self.told_at.elapsed() >= BUSY_INTERVAL {
            Frame::Busy.write(&mut self.stream)?;
            self.told_at = Instant::now();
        }
        Ok(())
    }
}

/// Why a prefix has no digest.
pub(super) enum PrefixError {
    /// The file cannot be read, or is shorter.
    File(io::Error),
    /// The peer is gone.
    Stream(io::Error),
}

/// A hasher that has taken the next `len` bytes of `file`.
pub(super) fn hash_prefix(
    file: &mut impl Read,
    len: u64,
    busy: &mut Busy<impl Write>,
) -> Result<blake3::Hasher, PrefixError> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; STEP_BYTES.min(usize::try_from(len).unwrap_or(STEP_BYTES)).max(1)];
    let mut left = len;
    while left > 0 {
        let step = buffer.len().min(usize::try_from(left).unwrap_or(buffer.len()));
        file.read_exact(&mut buffer[..step]).map_err(PrefixError::File)?;
        hasher.update(&buffer[..step]);
        left -= step as u64;
        busy.tell().map_err(PrefixError::Stream)?;
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
            let mut busy = Busy::new(io::sink());
            let hasher = hash_prefix(&mut data.as_slice(), len as u64, &mut busy).ok().unwrap();
            assert_eq!(hasher.finalize(), blake3::hash(&data[..len]));
        }
    }

    #[test]
    fn a_shorter_file_is_told() {
        let mut busy = Busy::new(io::sink());
        let result = hash_prefix(&mut b"abc".as_slice(), 4, &mut busy);
        assert!(matches!(result, Err(PrefixError::File(e)) if e.kind() == io::ErrorKind::UnexpectedEof));
    }
}
