//! Bytes that tell their place, so that one which is missing, doubled or moved is seen.

/// What is sent at a time: a message, or a piece of a stream.
pub(crate) const BLOCK: usize = 8_192;

/// The byte at `place`.
fn byte(place: u64) -> u8 {
    let mixed = place.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed.to_be_bytes()[0]
}

/// `len` bytes from `place` on.
pub(crate) fn bytes(place: u64, len: usize) -> Vec<u8> {
    (place..).take(len).map(byte).collect()
}

/// Whether these are the bytes from `place` on.
pub(crate) fn is_right(place: u64, bytes: &[u8]) -> bool {
    (place..).zip(bytes).all(|(place, found)| byte(place) == *found)
}
