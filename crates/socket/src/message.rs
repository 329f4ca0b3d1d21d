//! A message received where it lies.

use std::io::IoSlice;

use bytes::Bytes;

/// A whole datagram, or the next piece of a stream, lent by the receive side without copying.
///
/// The bytes lie in the buffers the link received them in, one part per packet. The buffers go back when the
/// message is dropped, so keep it short or copy it out.
///
/// ```
/// # use weft_socket::Message;
/// # fn digest(message: Message) -> u64 {
/// let mut sum = 0;
/// for part in message.parts() {
///     sum += part.iter().map(|byte| u64::from(*byte)).sum::<u64>();
/// }
/// # sum }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    inner: weft_engine::Message,
}

impl Message {
    pub(crate) fn new(inner: weft_engine::Message) -> Self {
        Self { inner }
    }

    /// Bytes of the whole message.
    #[must_use]
    pub fn len(&self) -> usize {
        self.inner.len()
    }

    /// Whether the message has no bytes; a legal datagram (CDP-DG-1).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// The parts, in order.
    #[must_use]
    pub fn parts(&self) -> &[Bytes] {
        self.inner.parts()
    }

    /// The parts as slices for a vectored write.
    #[must_use]
    pub fn io_slices(&self) -> Vec<IoSlice<'_>> {
        self.parts().iter().map(|part| IoSlice::new(part)).collect()
    }

    /// Copies as much as fits into `buffer` and tells how much that was.
    pub fn copy_to(&self, buffer: &mut [u8]) -> usize {
        self.inner.copy_to(buffer)
    }

    /// The message in one piece: the only part as it is, several parts copied together.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.inner.into_bytes()
    }

    /// A copy of the message in one piece.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.parts().concat()
    }
}
