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
    parts: Vec<Bytes>,
    len: usize,
}

impl Message {
    /// A message of these parts in order.
    #[must_use]
    pub fn new(parts: Vec<Bytes>) -> Self {
        let len = parts.iter().map(Bytes::len).sum();
        Self { parts, len }
    }

    /// Bytes of the whole message.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the message has no bytes; a legal datagram (CDP-DG-1).
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The parts, in order.
    #[must_use]
    pub fn parts(&self) -> &[Bytes] {
        &self.parts
    }

    /// The parts as slices for a vectored write.
    #[must_use]
    pub fn io_slices(&self) -> Vec<IoSlice<'_>> {
        self.parts.iter().map(|part| IoSlice::new(part)).collect()
    }

    /// The message in one piece: the only part as it is, several parts copied together.
    #[must_use]
    pub fn into_bytes(mut self) -> Bytes {
        match self.parts.len() {
            0 => Bytes::new(),
            1 => self.parts.swap_remove(0),
            _ => Bytes::from(self.to_vec()),
        }
    }

    /// A copy of the message in one piece.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut whole = Vec::with_capacity(self.len);
        for part in &self.parts {
            whole.extend_from_slice(part);
        }
        whole
    }
}

impl IntoIterator for Message {
    type Item = Bytes;
    type IntoIter = std::vec::IntoIter<Bytes>;

    fn into_iter(self) -> Self::IntoIter {
        self.parts.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_one_part_becomes_bytes_without_copying() {
        let part = Bytes::from_static(b"one");
        let address = part.as_ptr();
        assert_eq!(Message::new(vec![part]).into_bytes().as_ptr(), address);
    }

    #[test]
    fn parts_are_joined_in_order() {
        let message = Message::new(vec![Bytes::from_static(b"ab"), Bytes::new(), Bytes::from_static(b"c")]);
        assert_eq!((message.len(), message.to_vec()), (3, b"abc".to_vec()));
        assert_eq!(message.into_bytes(), Bytes::from_static(b"abc"));
    }
}
