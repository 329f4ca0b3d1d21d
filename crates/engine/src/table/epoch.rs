//! Searches without locks.
//!
//! Algorithm: the table is cut into shards by the hash. A shard is an array of list heads, reached through a pointer;
//! heads and links are atomic pointers, and a search only follows them. Who inserts or removes holds the shard's
//! lock, and changes one pointer: a new node is complete before the head points to it, and a node is removed by making
//! the pointer to it point past it. A shard with half as many entries as lists gets an array of twice the lists with
//! new nodes (the old ones may be being read), and one store of the shard's pointer makes it valid. So a list has
//! hardly ever more than one entry, and a search for one connection touches no other.
//!
//! Removed nodes and old arrays are freed by [`Grace`] when no search that could see them is left.
//!
//! Races:
//! * A search against an insertion finds the new node or does not. Against a removal, it returns the value or not;
//!   standing on the removed node, it still finds the way on, since the node's own link stays as it was.
//! * The link of a removed node may lead to a node removed after it. That one too is freed only when this search is
//!   over, because it was removed while the search was under way.
//! * A search against growth uses the old array to its end, or the new one. An entry removed from the new array may
//!   still be found in the old one by a search that was under way before: it returns a value that was removed
//!   meanwhile, as any search may. A search that begins after a change sees the new array, for the change was made
//!   after the pointer was stored.

use std::ptr;
use std::sync::Arc;

use weft_base::FlowKey;
use weft_sync::face::atomic::{AtomicPtr, Ordering};
use weft_sync::face::{self, Alive};
use weft_sync::{Grace, Mutex, MutexGuard};

use super::lists::{Count, Hash, LISTS_MAX};
use super::{InsertError, Limits, Table};

/// Shards, of which each has its own writer.
const SHARDS: usize = if cfg!(loom) { 1 } else { 16 };

/// Hash lists that are searched without locks.
pub struct Epoch<V> {
    shards: Box<[Shard<V>]>,
    grace: Grace<Garbage<V>>,
    hash: Hash,
    count: Count,
}

/// On its own pair of cache lines: the pointer is read by everybody, all the time.
#[repr(align(128))]
struct Shard<V> {
    lists: AtomicPtr<Lists<V>>,
    /// Entries of this shard; whoever changes the lists holds the lock.
    writer: Mutex<usize>,
}

struct Lists<V> {
    heads: Box<[AtomicPtr<Node<V>>]>,
    alive: Alive,
}

struct Node<V> {
    key: FlowKey,
    value: Arc<V>,
    next: AtomicPtr<Node<V>>,
    alive: Alive,
}

/// What no search that begins now can reach.
enum Garbage<V> {
    Node(*mut Node<V>),
    /// An array with all its nodes.
    Lists(*mut Lists<V>),
}

// SAFETY: garbage owns its nodes, and with them an `Arc<V>` each.
unsafe impl<V: Send + Sync> Send for Garbage<V> {}

impl<V> Drop for Garbage<V> {
    fn drop(&mut self) {
        match *self {
            // SAFETY: the node came from a box, and the grace is over.
            Self::Node(node) => unsafe { face::free(node, |node| &node.alive) },
            Self::Lists(lists) => {
                // SAFETY: the array came from a box, and the grace is over.
                for head in unsafe { &(*lists).heads } {
                    let mut next = head.load(Ordering::Relaxed);
                    // SAFETY: the nodes of an array are freed with it or before, never after.
                    while let Some(node) = unsafe { next.as_ref() } {
                        let node =
                            Self::Node(std::mem::replace(&mut next, node.next.load(Ordering::Relaxed)));
                        drop(node);
                    }
                }
                // SAFETY: as above.
                unsafe { face::free(lists, |lists| &lists.alive) };
            }
        }
    }
}

impl<V> Lists<V> {
    fn with(count: usize) -> Box<Self> {
        let heads = (0..count).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        Box::new(Self { heads, alive: Alive::default() })
    }

    #[inline]
    fn head(&self, hash: usize) -> &AtomicPtr<Node<V>> {
        // The low bits chose the shard.
        &self.heads[(hash / SHARDS) & (self.heads.len() - 1)]
    }

    /// Puts a node first into its list.
    fn push(&self, hash: usize, key: FlowKey, value: Arc<V>) {
        let head = self.head(hash);
        let next = AtomicPtr::new(head.load(Ordering::Relaxed));
        let node = Box::new(Node { key, value, next, alive: Alive::default() });
        head.store(Box::into_raw(node), Ordering::Release);
    }
}

/// Goes along a list from a head or link; gives each link with the node behind it.
///
/// # Safety
///
/// For as long as the nodes are used, the caller is counted as a reader, or holds the shard's lock.
unsafe fn walk<V>(from: &AtomicPtr<Node<V>>) -> impl Iterator<Item = (&AtomicPtr<Node<V>>, &Node<V>)> {
    let mut link = from;
    std::iter::from_fn(move || {
        // SAFETY: null, or a node that is not freed while the caller reads or holds the lock.
        let node = unsafe { link.load(Ordering::Acquire).as_ref() }?;
        node.alive.check();
        Some((std::mem::replace(&mut link, &node.next), node))
    })
}

impl<V: Send + Sync> Epoch<V> {
    /// An empty table; see [`super::Scheme::table`].
    #[must_use]
    pub fn new(hash_key: [u8; 16], limits: Limits) -> Self {
        let lists = || Box::into_raw(Lists::with(limits.list_count().div_ceil(SHARDS)));
        let shard = |_| Shard { lists: AtomicPtr::new(lists()), writer: Mutex::new(0) };
        Self {
            shards: (0..SHARDS).map(shard).collect(),
            grace: Grace::new(),
            hash: Hash::new(hash_key),
            count: Count::new(limits),
        }
    }

    #[inline]
    fn shard(&self, hash: usize) -> &Shard<V> {
        &self.shards[hash % SHARDS]
    }

    /// Replaces the lists of a shard by twice as many, and returns the old ones.
    fn grow(&self, shard: &Shard<V>, old: &Lists<V>) -> Garbage<V> {
        let new = Lists::with(old.heads.len() * 2);
        for head in &old.heads {
            // SAFETY: the caller holds the shard's lock.
            for (_, node) in unsafe { walk(head) } {
                new.push(self.hash.of(&node.key), node.key, node.value.clone());
            }
        }
        Garbage::Lists(shard.lists.swap(Box::into_raw(new), Ordering::Release))
    }
}

impl<V> Shard<V> {
    /// The lists, for a searcher.
    ///
    /// # Safety
    ///
    /// For as long as the lists are used, the caller is counted as a reader, or holds the shard's lock.
    #[inline]
    unsafe fn lists(&self) -> &Lists<V> {
        // SAFETY: never null, and not freed while the caller reads or holds the lock.
        let lists = unsafe { &*self.lists.load(Ordering::Acquire) };
        lists.alive.check();
        lists
    }

    /// The lists, for the one that may change them.
    fn locked(&self) -> (MutexGuard<'_, usize>, &Lists<V>) {
        let entries = self.writer.lock();
        // SAFETY: the lock is held, and its guard returned along.
        (entries, unsafe { self.lists() })
    }
}

impl<V: Send + Sync> Table<V> for Epoch<V> {
    fn find(&self, key: &FlowKey) -> Option<Arc<V>> {
        let hash = self.hash.of(key);
        let shard = self.shard(hash);
        let _reading = self.grace.read();
        // SAFETY: this thread is counted as a reader.
        let lists = unsafe { shard.lists() };
        // SAFETY: as above.
        let mut nodes = unsafe { walk(lists.head(hash)) };
        nodes.find(|(_, node)| node.key == *key).map(|(_, node)| node.value.clone())
    }

    fn insert(&self, key: FlowKey, value: Arc<V>) -> Result<(), InsertError> {
        let hash = self.hash.of(&key);
        let shard = self.shard(hash);
        let (mut entries, mut lists) = shard.locked();
        // SAFETY: the shard's lock is held.
        if unsafe { walk(lists.head(hash)) }.any(|(_, node)| node.key == key) {
            return Err(InsertError::Occupied);
        }
        self.count.add()?;
        let mut old = None;
        if 2 * *entries >= lists.heads.len() && lists.heads.len() < LISTS_MAX / SHARDS {
            old = Some(self.grow(shard, lists));
            // SAFETY: the shard's lock is held.
            lists = unsafe { shard.lists() };
        }
        lists.push(hash, key, value);
        *entries += 1;
        drop(entries);
        if let Some(old) = old {
            // SAFETY: the shard's pointer leads to the new lists.
            unsafe { self.grace.retire(old) };
        }
        Ok(())
    }

    fn remove(&self, key: &FlowKey) -> Option<Arc<V>> {
        let hash = self.hash.of(key);
        let (mut entries, lists) = self.shard(hash).locked();
        // SAFETY: the shard's lock is held.
        let (link, node) = unsafe { walk(lists.head(hash)) }.find(|(_, node)| node.key == *key)?;
        let value = node.value.clone();
        let garbage = link.load(Ordering::Relaxed);
        link.store(node.next.load(Ordering::Relaxed), Ordering::Release);
        *entries -= 1;
        drop(entries);
        self.count.subtract();
        // SAFETY: no link leads to the node, except from nodes that were removed before it.
        unsafe { self.grace.retire(Garbage::Node(garbage)) };
        Some(value)
    }

    fn for_each(&self, visit: &mut dyn FnMut(&FlowKey, &Arc<V>)) {
        for shard in &self.shards {
            let _reading = self.grace.read();
            // SAFETY: this thread is counted as a reader.
            for head in &unsafe { shard.lists() }.heads {
                // SAFETY: as above.
                unsafe { walk(head) }.for_each(|(_, node)| visit(&node.key, &node.value));
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
            drop(Garbage::Lists(shard.lists.load(Ordering::Relaxed)));
        }
    }
}
