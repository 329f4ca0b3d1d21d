//! What `recv_message` gives: a message where it lies.

use bytes::Bytes;

/// Two parts of a message, each shorter than this, are laid together: a handle to each would cost more than it brings, and the
/// message buffer is promised in bytes ([CDP-DG-7]).
const SHORT_BYTES: usize = 512;

/// One message, or one chunk of a stream, as it lies in the frames it came in: a loan, not a copy, but for
/// short parts.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Message {
    parts: Vec<Bytes>,
    len: usize,
}

impl Message {
    /// One packet has all of it.
    #[must_use]
    pub fn whole(payload: Bytes) -> Self {
        Self { len: payload.len(), parts: vec![payload] }
    }

    /// Appends a part.
    pub(crate) fn push(&mut self, part: Bytes) {
        self.len += part.len();
        match self.parts.last_mut() {
            _ if part.is_empty() => {}
            Some(last) if last.len().max(part.len()) < SHORT_BYTES => {
                *last = [&last[..], &part].concat().into();
            }
            _ => self.parts.push(part),
        }
    }

    /// Takes away the first parts, as long as `take` takes them; tells how many bytes those had.
    pub(crate) fn take_parts(&mut self, mut take: impl FnMut(&[u8]) -> bool) -> usize {
        let count = self.parts.iter().take_while(|part| take(part)).count();
        let taken = self.parts.drain(..count).map(|part| part.len()).sum();
        self.len -= taken;
        taken
    }

    /// Puts a part before all others.
    pub(crate) fn put_back(&mut self, part: Bytes) {
        self.len += part.len();
        self.parts.insert(0, part);
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the message has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pieces, in order; each is a slice of a received frame, or several short ones laid together.
    #[must_use]
    pub fn parts(&self) -> &[Bytes] {
        &self.parts
    }

    /// Copies as much as fits into `buffer` and tells how much that was.
    pub fn copy_to(&self, buffer: &mut [u8]) -> usize {
        let mut at = 0;
        for part in &self.parts {
            let len = part.len().min(buffer.len() - at);
            buffer[at..at + len].copy_from_slice(&part[..len]);
            at += len;
        }
        at
    }

    /// All bytes in one piece; copies only if there are several.
    #[must_use]
    pub fn into_bytes(mut self) -> Bytes {
        match self.parts.len() {
            1 => self.parts.remove(0),
            _ => self.parts.concat().into(),
        }
    }
}
