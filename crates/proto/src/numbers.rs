//! A set of numbers within a window that moves on: which are held out of order.

use std::collections::VecDeque;

/// Numbers counted from the beginning of the window, which [`NumberSet::advance`] moves. An empty set takes the room of a
/// pointer, as most connections never lose anything.
#[derive(Clone, Debug, Default)]
pub(crate) struct NumberSet(Option<Box<Words>>);

/// Bits in the order of a bitmap on the wire: the top bit of a word comes first.
#[derive(Clone, Debug, Default)]
struct Words {
    /// The last of them has a bit that is in the set.
    words: VecDeque<u64>,
    /// Bits of the first word that lie before the window.
    skip: usize,
}

impl NumberSet {
    /// Whether there is none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|set| set.words.is_empty())
    }

    pub(crate) fn clear(&mut self) {
        if let Some(set) = &mut self.0 {
            set.words.clear();
            set.skip = 0;
        }
    }

    pub(crate) fn insert(&mut self, at: usize) {
        let set = self.0.get_or_insert_default();
        let bit = set.skip + at;
        if set.words.len() <= bit / 64 {
            set.words.resize(bit / 64 + 1, 0);
        }
        set.words[bit / 64] |= top_bit(bit % 64);
    }

    pub(crate) fn remove(&mut self, at: usize) {
        let Some(set) = &mut self.0 else { return };
        let bit = set.skip + at;
        if let Some(word) = set.words.get_mut(bit / 64) {
            *word &= !top_bit(bit % 64);
        }
        while set.words.back() == Some(&0) {
            set.words.pop_back();
        }
        // What lies before the window is in the set no more.
        set.advance(0);
    }

    /// The window begins `count` numbers further on.
    #[inline]
    pub(crate) fn advance(&mut self, count: usize) {
        if let Some(set) = self.0.as_mut().filter(|set| !set.words.is_empty()) {
            set.advance(count);
        }
    }

    /// The 64 numbers from `at` on; the top bit stands for `at`.
    pub(crate) fn word(&self, at: usize) -> u64 {
        let Some(set) = &self.0 else { return 0 };
        let (index, shift) = ((set.skip + at) / 64, (set.skip + at) % 64);
        let word = |index: usize| set.words.get(index).copied().unwrap_or(0);
        if shift == 0 { word(index) } else { word(index) << shift | word(index + 1) >> (64 - shift) }
    }

    /// The last number.
    pub(crate) fn last(&self) -> Option<usize> {
        let set = self.0.as_ref()?;
        let word = set.words.back()?;
        Some(set.words.len() * 64 - 1 - word.trailing_zeros() as usize - set.skip)
    }

    /// The first at or after `from` that is not in the set.
    pub(crate) fn next_absent(&self, from: usize) -> usize {
        let mut at = from;
        loop {
            let run = self.word(at).leading_ones();
            at += run as usize;
            if run < 64 {
                return at;
            }
        }
    }
}

impl Words {
    fn advance(&mut self, count: usize) {
        let bits = self.skip + count;
        self.words.drain(..(bits / 64).min(self.words.len()));
        self.skip = bits % 64;
        if self.words.len() == 1 && self.words[0] << self.skip == 0 {
            self.words.clear();
        }
        if self.words.is_empty() {
            self.skip = 0;
        }
    }
}

/// The numbers of a word from `at` on, in their order.
pub(crate) fn numbers_of(mut word: u64, at: usize) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = word.leading_zeros() as usize;
        (word != 0).then(|| {
            word &= !top_bit(bit);
            at + bit
        })
    })
}

const fn top_bit(at: usize) -> u64 {
    1 << (63 - at)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// It is a set, whatever is put in and however far the window moves.
        #[test]
        fn it_holds_what_was_put_in(steps in prop::collection::vec((0_usize..300, 0_usize..90), 1..80)) {
            let (mut set, mut model) = (NumberSet::default(), BTreeSet::new());
            for (at, count) in steps {
                set.insert(at);
                model.insert(at);
                set.advance(count);
                model = model.into_iter().filter_map(|at: usize| at.checked_sub(count)).collect();
                set.remove(at % 7);
                model.remove(&(at % 7));
                prop_assert_eq!(set.is_empty(), model.is_empty());
                prop_assert_eq!(set.last(), model.last().copied());
                for from in [0, 1, 63, 64, at] {
                    let named = numbers_of(set.word(from), from);
                    prop_assert!(named.eq(model.range(from..from + 64).copied()));
                    let absent = (from..).find(|at| !model.contains(at)).unwrap();
                    prop_assert_eq!(set.next_absent(from), absent);
                }
            }
            set.clear();
            prop_assert!(set.is_empty() && set.last().is_none());
        }
    }
}
