//! A set of numbers, kept as the ranges it consists of.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of numbers counted from the open of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    /// Start to end, neither touching nor overlapping.
    ranges: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Adds `number`; tells whether it was new.
    pub fn insert(&mut self, number: u64) -> bool {
        let before = self.ranges.range(..=number).next_back().map(|(&start, &end)| (start, end));
        if before.is_some_and(|(_, end)| number < end) {
            return false;
        }
        let end = self.ranges.remove(&(number + 1)).unwrap_or(number + 1);
        match before {
            Some((start, touching)) if touching == number => self.ranges.insert(start, end),
            _ => self.ranges.insert(number, end),
        };
        true
    }

    /// Whether `number` is in the set.
    #[must_use]
    pub fn contains(&self, number: u64) -> bool {
        self.ranges.range(..=number).next_back().is_some_and(|(_, &end)| number < end)
    }

    /// The first number that is missing.
    #[must_use]
    pub fn contiguous(&self) -> u64 {
        self.ranges.get(&0).copied().unwrap_or(0)
    }

    /// The numbers of the set at or after `from`, in order.
    pub fn from(&self, from: u64) -> impl Iterator<Item = u64> + '_ {
        self.ranges.iter().flat_map(move |(&start, &end)| Range { start: start.max(from), end })
    }

    /// The greatest number, if there is any.
    #[must_use]
    pub fn last(&self) -> Option<u64> {
        self.ranges.last_key_value().map(|(_, end)| end - 1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use weft_des::Random;

    use super::*;

    #[test]
    fn it_agrees_with_a_plain_set() {
        let mut random = Random::from_seed(3);
        let (mut ranges, mut plain) = (Ranges::default(), BTreeSet::new());
        for _ in 0..400 {
            let number = random.below(300);
            assert_eq!(ranges.insert(number), plain.insert(number));
            assert_eq!(ranges.contiguous(), (0..).find(|n| !plain.contains(n)).unwrap());
            assert_eq!(ranges.last(), plain.last().copied());
        }
        assert!((0..301).all(|n| ranges.contains(n) == plain.contains(&n)));
        assert!(ranges.from(77).eq(plain.range(77..).copied()));
    }
}
