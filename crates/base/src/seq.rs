//! 64-bit sequence numbers in serial order.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A CDP number: the 64-bit sequence number that a SYN, DAT or FIN packet takes.
///
/// [CDP-SEQ-1] `a` is before `b` if `(b − a) mod 2^64` is in `1..2^63 − 1`. There is no `Ord`, because serial
/// order is not transitive; ask [`Seq::is_before`]. [CDP-SEQ-2] After 2^64 − 1 comes 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seq(u64);

impl Seq {
    /// The number `value`.
    #[must_use]
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The 64 bits of the number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The low 32 bits, as the acknowledgement field carries them.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // the low half is what is asked for
    pub const fn low32(self) -> u32 {
        self.0 as u32
    }

    /// Whether this number comes before `other` in serial order.
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        let ahead = other.0.wrapping_sub(self.0);
        ahead >= 1 && ahead < 1 << 63
    }

    /// Whether this number is `other` or comes before it.
    #[must_use]
    pub const fn is_at_or_before(self, other: Self) -> bool {
        self.0 == other.0 || self.is_before(other)
    }

    /// How many numbers lie from `earlier` up to this one, modulo 2^64.
    #[must_use]
    pub const fn distance_from(self, earlier: Self) -> u64 {
        self.0.wrapping_sub(earlier.0)
    }

    /// The later of the two in serial order.
    #[must_use]
    pub const fn later(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }
}

impl Add<u64> for Seq {
    type Output = Self;

    fn add(self, rhs: u64) -> Self {
        Self(self.0.wrapping_add(rhs))
    }
}

impl AddAssign<u64> for Seq {
    fn add_assign(&mut self, rhs: u64) {
        *self = *self + rhs;
    }
}

impl Sub<u64> for Seq {
    type Output = Self;

    fn sub(self, rhs: u64) -> Self {
        Self(self.0.wrapping_sub(rhs))
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [CDP-SEQ-1] Numbers are compared in serial order.
    #[test]
    fn serial_order_holds_across_the_wrap() {
        let last = Seq::new(u64::MAX);
        assert!(last.is_before(Seq::new(0)));
        assert!(!Seq::new(0).is_before(last));
        assert!(!last.is_before(last) && last.is_at_or_before(last));
        assert_eq!(Seq::new(3).distance_from(last), 4);
        assert_eq!(last.later(Seq::new(2)), Seq::new(2));
    }

    /// [CDP-SEQ-1] The range is 1..2^63 − 1: at 2^63 apart neither is before the other.
    #[test]
    fn opposite_numbers_are_not_ordered() {
        let (a, b) = (Seq::new(5), Seq::new(5 + (1 << 63)));
        assert!(!a.is_before(b) && !b.is_before(a));
        assert!(a.is_before(b - 1) && b.is_before(a - 1));
    }

    /// [CDP-SEQ-2] After 2^64 − 1 the next number is 0.
    #[test]
    fn zero_follows_the_last_number() {
        assert_eq!(Seq::new(u64::MAX) + 1, Seq::new(0));
        assert_eq!(Seq::new(0) - 1, Seq::new(u64::MAX));
    }
}
