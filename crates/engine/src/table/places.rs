//! The array of a shard: places for values, which searches go along while one thread at a time changes them.
//!
//! A place is one word: *empty*, *left* by what was removed, or the pointer to a value with three more bits of its hash, its
//! tag, where an aligned pointer has zeroes. A value lies at the place that its hash says, or at the next after it that was
//! free; so a search goes along the places until it meets its flow or an empty one, and looks only at values of its own tag.
//!
//! What is removed leaves a mark, which no search may stop at, unless the place after it is empty: then it and the marks before
//! it become empty. Values do not move, and between a value and the place that its hash says none becomes empty. So what stays
//! is found, whatever comes and goes meanwhile.

use std::ptr;

use weft_base::FlowKey;
use weft_sync::face::Alive;
use weft_sync::face::atomic::{AtomicPtr, Ordering};

use super::Keyed;

/// Tags. A value is aligned to as many bytes, so that its address has room for one.
pub(super) const TAGS: usize = 8;

/// Places for values, a power of two.
pub(super) struct Places<V> {
    words: Box<[AtomicPtr<V>]>,
    pub(super) alive: Alive,
}

/// What a place holds.
enum Place<V> {
    Empty,
    /// Something was here, and something may lie behind.
    Left,
    /// A value, of which the table owns one reference.
    Value {
        value: *const V,
        tag: usize,
    },
}

impl<V> Place<V> {
    const LEFT: usize = 1;

    #[inline]
    fn of(word: *mut V) -> Self {
        let tag = word.addr() % TAGS;
        match word.addr() - tag {
            0 if tag == 0 => Self::Empty,
            0 => Self::Left,
            _ => Self::Value { value: word.map_addr(|address| address - tag), tag },
        }
    }

    fn into_word(self) -> *mut V {
        match self {
            Self::Empty => ptr::null_mut(),
            Self::Left => ptr::without_provenance_mut(Self::LEFT),
            Self::Value { value, tag } => value.cast_mut().map_addr(|address| address | tag),
        }
    }
}

/// The tag of a hash; the bits above it choose the place.
#[inline]
fn tag(hash: usize) -> usize {
    hash % TAGS
}

impl<V> Places<V> {
    /// Empty places: `count`, a power of two.
    pub(super) fn with(count: usize) -> Box<Self> {
        let words = (0..count).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        Box::new(Self { words, alive: Alive::default() })
    }

    /// Places, empty or not.
    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// Every place, from the one that `hash` says on and round to the one before it.
    #[inline]
    fn along(&self, hash: usize) -> impl Iterator<Item = (usize, Place<V>)> {
        let mask = self.words.len() - 1;
        let first = hash / TAGS;
        (first..=first + mask).map(move |at| (at & mask, self.at(at)))
    }

    /// What lies at a place; places repeat behind the last.
    #[inline]
    fn at(&self, at: usize) -> Place<V> {
        Place::of(self.words[at & (self.words.len() - 1)].load(Ordering::Acquire))
    }

    fn put(&self, at: usize, place: Place<V>) {
        self.words[at].store(place.into_word(), Ordering::Release);
    }

    /// Puts a value that is not there at the first place that is free for it. Tells whether that place was empty.
    pub(super) fn push(&self, hash: usize, value: *const V) -> bool {
        let mut free = self.along(hash).filter(|(_, place)| !matches!(place, Place::Value { .. }));
        // half of the places are empty
        let Some((at, place)) = free.next() else { return false };
        self.put(at, Place::Value { value, tag: tag(hash) });
        matches!(place, Place::Empty)
    }

    /// Takes what lies at a place away, and returns how many places became empty.
    pub(super) fn clear(&self, at: usize) -> usize {
        if !matches!(self.at(at + 1), Place::Empty) {
            self.put(at, Place::Left);
            return 0;
        }
        self.put(at, Place::Empty);
        let mask = self.words.len() - 1;
        let before = (1..=mask).map(|back| at.wrapping_sub(back) & mask);
        let marks = before.take_while(|&at| matches!(self.at(at), Place::Left));
        1 + marks.map(|at| self.put(at, Place::Empty)).count()
    }

    /// All values.
    pub(super) fn values(&self) -> impl Iterator<Item = *const V> {
        (0..self.words.len()).filter_map(|at| match self.at(at) {
            Place::Value { value, .. } => Some(value),
            Place::Empty | Place::Left => None,
        })
    }
}

impl<V: Keyed> Places<V> {
    /// The place and the value of `key`.
    ///
    /// # Safety
    ///
    /// The values that lie here last for as long as the caller uses what it found.
    #[inline]
    pub(super) unsafe fn find(&self, hash: usize, key: &FlowKey) -> Option<(usize, *const V)> {
        for (at, place) in self.along(hash) {
            match place {
                Place::Empty => return None,
                // SAFETY: the caller's promise.
                Place::Value { value, tag: its } if its == tag(hash) && unsafe { &*value }.flow() == key => {
                    return Some((at, value));
                }
                Place::Left | Place::Value { .. } => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::super::tests::{Numbered, flow};
    use super::*;

    /// A hash with few places to begin at, and few tags.
    fn hash(number: u32) -> usize {
        let (home, tag) = (number as usize % 3, number as usize % 2);
        home * TAGS + tag
    }

    proptest! {
        /// However full places are and in whatever order they are left: what stays is found, what was removed is not, and no
        /// mark lies before an empty place, where none is needed.
        #[test]
        fn what_is_removed_hides_nothing(steps in prop::collection::vec((any::<bool>(), 0_u32..12), 1..100)) {
            let values: Vec<_> = (0..12).map(Numbered::new).collect();
            let places = Places::<Numbered>::with(16);
            let (mut present, mut filled) = ([false; 12], 0);
            for (is_insertion, number) in steps {
                let (key, at) = (flow(number), number as usize);
                // SAFETY: the values outlive the places.
                let found = unsafe { places.find(hash(number), &key) };
                prop_assert_eq!(found.map(|(_, value)| value), present[at].then_some(Arc::as_ptr(&values[at])));
                match found {
                    None if is_insertion && filled < 15 => {
                        filled += usize::from(places.push(hash(number), Arc::as_ptr(&values[at])));
                        present[at] = true;
                    }
                    Some((place, _)) if !is_insertion => {
                        filled -= places.clear(place);
                        present[at] = false;
                    }
                    _ => {}
                }
                let is_empty = |at| matches!(places.at(at), Place::Empty);
                prop_assert_eq!((0..16).filter(|&at| !is_empty(at)).count(), filled);
                prop_assert!((0..16).all(|at| !(is_empty(at + 1) && matches!(places.at(at), Place::Left))));
                for (number, value) in (0..12).zip(&values) {
                    // SAFETY: as above.
                    let found = unsafe { places.find(hash(number), &flow(number)) };
                    prop_assert_eq!(found.is_some_and(|(_, found)| found == Arc::as_ptr(value)), present[number as usize]);
                }
            }
        }
    }
}
