//! Searches without locks.
//!
//! Algorithm: the table is cut into shards by the hash. A shard is an array of [`Places`], reached through a pointer. A
//! search follows it, and goes along the array until it meets its flow; it touches the line of its place and the line where
//! its value begins, hardly ever more. Who inserts or removes holds the shard's lock, and writes one word. When half of the
//! places are not empty, a new array takes over (the old one may be being read), twice as large if a quarter are values, and
//! one store of the shard's pointer makes it valid.
//!
//! Removed values and old arrays are let go of by [`Grace`] when no search that could see them is left.
//!
//! Races:
//! * A search against an insertion finds the new value or does not; against a removal likewise. What stays is found.
//! * A search against growth uses the old array to its end, or the new one. A value removed from the new array may
//!   still be found in the old one by a search that was under way before: it returns a value that was removed
//!   meanwhile, as any search may. A search that begins after a change sees the new array, for the change was made
//!   after the pointer was stored.
//! * A search counts one more reference to the value that it found. It may, as the table's own is given up only when this
//!   search is over.

use std::mem::ManuallyDrop;
use std::sync::Arc;

use weft_base::FlowKey;
use weft_sync::face;
use weft_sync::face::atomic::{AtomicPtr, Ordering};
use weft_sync::{Grace, Mutex, MutexGuard};

use super::lists::{Count, Hash};
use super::places::{Places, TAGS};
use super::{InsertError, Keyed, Limits, Table};

/// Shards, of which each has its own writer.
const SHARDS: usize = if cfg!(loom) { 1 } else { 16 };

/// Places that are searched without locks.
pub struct Epoch<V> {
    shards: Box<[Shard<V>]>,
    grace: Grace<Garbage<V>>,
    hash: Hash,
    count: Count,
}

/// On its own pair of cache lines: the pointer is read by everybody, all the time.
#[repr(align(128))]
struct Shard<V> {
    places: AtomicPtr<Places<V>>,
    /// Whoever changes the places holds the lock.
    writer: Mutex<Filled>,
}

/// How full an array is.
#[derive(Clone, Copy, Debug, Default)]
struct Filled {
    values: usize,
    /// Places that are not empty: values and what they left.
    places: usize,
}

/// What no search that begins now can reach.
enum Garbage<V> {
    /// The table's reference to a value.
    Value(*const V),
    /// An array without its values.
    Places(*mut Places<V>),
}

// SAFETY: garbage owns an `Arc<V>`, or an array of pointers that it does not follow.
unsafe impl<V: Send + Sync> Send for Garbage<V> {}

impl<V> Drop for Garbage<V> {
    fn drop(&mut self) {
        match *self {
            // SAFETY: the table's reference, of which this is the last use; the grace is over.
            Self::Value(value) => drop(unsafe { Arc::from_raw(value) }),
            // SAFETY: the array came from a box, and the grace is over.
            Self::Places(places) => unsafe { face::free(places, |places| &places.alive) },
        }
    }
}

/// One more reference to a value.
///
/// # Safety
///
/// The value comes from `Arc::into_raw`, and its reference is not given up during the call.
#[inline]
unsafe fn share<V>(value: *const V) -> Arc<V> {
    // SAFETY: the caller's promise.
    unsafe { Arc::increment_strong_count(value) };
    // SAFETY: as above, and the reference was counted.
    unsafe { Arc::from_raw(value) }
}

impl<V: Keyed + Send + Sync> Epoch<V> {
    /// An empty table; see [`super::Scheme::table`].
    #[must_use]
    pub fn new(hash_key: [u8; 16], limits: Limits) -> Self {
        const { assert!(align_of::<V>() >= TAGS, "a tag fits below the address of a value") };
        let count = limits.list_count().div_ceil(SHARDS).max(2);
        let shard = |_| Shard {
            places: AtomicPtr::new(Box::into_raw(Places::with(count))),
            writer: Mutex::new(Filled::default()),
        };
        Self {
            shards: (0..SHARDS).map(shard).collect(),
            grace: Grace::new(),
            hash: Hash::new(hash_key),
            count: Count::new(limits),
        }
    }

    /// The shard of a flow, and what of its hash did not choose the shard.
    #[inline]
    fn shard(&self, key: &FlowKey) -> (&Shard<V>, usize) {
        let hash = self.hash.of(key);
        (&self.shards[hash % SHARDS], hash / SHARDS)
    }

    /// Moves the values of a shard to a new array with room for more, and returns the old one.
    fn renew(&self, shard: &Shard<V>, filled: &mut Filled, old: &Places<V>) -> Garbage<V> {
        let is_crowded = filled.values * 4 >= old.len();
        let new = Places::with(old.len() << usize::from(is_crowded));
        for value in old.values() {
            // SAFETY: the caller holds the shard's lock.
            new.push(self.shard(unsafe { &*value }.flow()).1, value);
        }
        filled.places = filled.values;
        Garbage::Places(shard.places.swap(Box::into_raw(new), Ordering::Release))
    }
}

impl<V> Shard<V> {
    /// The places, for a searcher.
    ///
    /// # Safety
    ///
    /// For as long as the places are used, the caller is counted as a reader, or holds the shard's lock.
    #[inline]
    unsafe fn places(&self) -> &Places<V> {
        // SAFETY: never null, and not freed while the caller reads or holds the lock.
        let places = unsafe { &*self.places.load(Ordering::Acquire) };
        places.alive.check();
        places
    }

    /// The places, for the one that may change them.
    fn locked(&self) -> (MutexGuard<'_, Filled>, &Places<V>) {
        let filled = self.writer.lock();
        // SAFETY: the lock is held, and its guard returned along.
        (filled, unsafe { self.places() })
    }
}

impl<V: Keyed + Send + Sync> Table<V> for Epoch<V> {
    fn find(&self, key: &FlowKey) -> Option<Arc<V>> {
        let (shard, hash) = self.shard(key);
        let _reading = self.grace.read();
        // SAFETY: this thread is counted as a reader.
        let places = unsafe { shard.places() };
        // SAFETY: as above.
        let (_, value) = unsafe { places.find(hash, key) }?;
        // SAFETY: as above, so the table's reference stays for so long.
        Some(unsafe { share(value) })
    }

    fn insert(&self, value: Arc<V>) -> Result<(), InsertError> {
        let (shard, hash) = self.shard(value.flow());
        let (mut filled, mut places) = shard.locked();
        // SAFETY: the shard's lock is held.
        if unsafe { places.find(hash, value.flow()) }.is_some() {
            return Err(InsertError::Occupied);
        }
        self.count.add()?;
        let mut old = None;
        if 2 * (filled.places + 1) > places.len() {
            old = Some(self.renew(shard, &mut filled, places));
            // SAFETY: the shard's lock is held.
            places = unsafe { shard.places() };
        }
        filled.places += usize::from(places.push(hash, Arc::into_raw(value)));
        filled.values += 1;
        drop(filled);
        if let Some(old) = old {
            // SAFETY: the shard's pointer leads to the new places.
            unsafe { self.grace.retire(old) };
        }
        Ok(())
    }

    fn remove(&self, key: &FlowKey) -> Option<Arc<V>> {
        let (shard, hash) = self.shard(key);
        let (mut filled, places) = shard.locked();
        // SAFETY: the shard's lock is held.
        let (at, value) = unsafe { places.find(hash, key) }?;
        // SAFETY: the table's reference is still there.
        let taken = unsafe { share(value) };
        filled.places -= places.clear(at);
        filled.values -= 1;
        drop(filled);
        self.count.subtract();
        // SAFETY: no place leads to the value, except in arrays that were replaced before.
        unsafe { self.grace.retire(Garbage::Value(value)) };
        Some(taken)
    }

    fn for_each(&self, visit: &mut dyn FnMut(&FlowKey, &Arc<V>)) {
        for shard in &self.shards {
            let _reading = self.grace.read();
            // SAFETY: this thread is counted as a reader.
            for value in unsafe { shard.places() }.values() {
                // SAFETY: as above; the table's reference is lent, not taken.
                let value = ManuallyDrop::new(unsafe { Arc::from_raw(value) });
                visit(value.flow(), &value);
            }
        }
    }

    fn len(&self) -> usize {
        self.count.get()
    }
}

impl<V> Drop for Epoch<V> {
    fn drop(&mut self) {
        for shard in &self.shards {
            let places = shard.places.load(Ordering::Relaxed);
            // SAFETY: this thread is alone with the table.
            unsafe { &*places }.values().for_each(|value| drop(Garbage::Value(value)));
            drop(Garbage::Places(places));
        }
    }
}
