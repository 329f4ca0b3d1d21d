//! The socket table: from a flow to what keeps its connection, under three schemes of locking.
//!
//! A packet that comes in means a search, so searches must not wait for each other; insertions and removals are rare. In
//! the paper the sockets are linked into hash lists; [`Scheme::Epoch`] has arrays. Three schemes, one behaviour, one test
//! suite:
//!
//! | scheme | search | insertion | removal |
//! |---|---|---|---|
//! | [`Scheme::Coarse`] (paper, figure 8a) | spin lock of the list | the same | the same |
//! | [`Scheme::Fine`] (paper, figure 8b) | read lock of the link being followed | write lock of the list head | write locks of two consecutive links |
//! | [`Scheme::Epoch`] | no lock | lock of the shard | lock of the shard |
//!
//! Who does what in the paper (section 4.2): users insert, receivers only search, only the timer removes. Here whoever ends a connection, or
//! makes room for another, removes it as well. Under every scheme
//! each call is safe from any thread; `fine` lets one thread at a time remove, as the paper's one timer does.
//!
//! The paper hashes destination port, source node and source port; here the whole 4-tuple, because a node without a
//! cluster file may answer under several numbers. The hash is SipHash-1-3 with a key of this process, so that nobody
//! outside can choose flows that share a list or a place.
//!
//! Bounds: [`Limits`] gives the lists and the greatest number of entries. `coarse` and `fine` keep their lists for
//! life, as the paper's do; `epoch` has no lists, but arrays of at most eight places for each of the most entries it ever had.

mod coarse;
mod epoch;
mod fine;
mod lists;
mod places;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use weft_base::FlowKey;

pub use self::coarse::Coarse;
pub use self::epoch::Epoch;
pub use self::fine::Fine;

/// What a table keeps: it knows its flow.
pub trait Keyed {
    /// The flow, which never changes.
    fn flow(&self) -> &FlowKey;
}

/// From flows to shared values.
///
/// ```
/// use std::sync::Arc;
/// use weft_base::{Address, FlowKey, NodeId, Port};
/// use weft_engine::table::{InsertError, Keyed, Limits, Scheme};
///
/// struct Entry(FlowKey, u64);
///
/// impl Keyed for Entry {
///     fn flow(&self) -> &FlowKey {
///         &self.0
///     }
/// }
///
/// let end = |node, port| Address { node: NodeId::new(node).unwrap(), port: Port::new(port).unwrap() };
/// let flow = FlowKey { local: end(1, 7), remote: end(2, 49_152) };
/// let key = [0x5A; 16]; // in earnest: 16 random bytes
///
/// let table = Scheme::Epoch.table(key, Limits::default());
/// table.insert(Arc::new(Entry(flow, 1)))?;
/// assert_eq!(table.insert(Arc::new(Entry(flow, 2))), Err(InsertError::Occupied));
/// assert!(table.find(&flow).is_some_and(|entry| entry.1 == 1));
/// assert!(table.remove(&flow).is_some() && table.is_empty());
/// # Ok::<(), InsertError>(())
/// ```
pub trait Table<V: Keyed>: Send + Sync {
    /// The value of `key`.
    fn find(&self, key: &FlowKey) -> Option<Arc<V>>;

    /// Adds `value` under its flow.
    ///
    /// # Errors
    ///
    /// [`InsertError::Occupied`] if the flow has a value, which stays; [`InsertError::Full`] if the table holds as many
    /// entries as it may.
    fn insert(&self, value: Arc<V>) -> Result<(), InsertError>;

    /// Takes the entry of `key` out. A search that is under way may still return its value.
    fn remove(&self, key: &FlowKey) -> Option<Arc<V>>;

    /// Shows every entry that is there during the whole call, and some of those that come or go meanwhile.
    ///
    /// `visit` runs under a lock or holds up frees: it must be short and must not call the table.
    fn for_each(&self, visit: &mut dyn FnMut(&FlowKey, &Arc<V>));

    /// Entries, counted with those that are just being added.
    fn len(&self) -> usize;

    /// Whether there is no entry.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<V: Keyed> fmt::Debug for dyn Table<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Why an entry was not added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InsertError {
    /// The key has a value already.
    Occupied,
    /// The table holds [`Limits::entries_max`] entries.
    Full,
}

impl fmt::Display for InsertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Occupied => "the flow has an entry in the socket table already",
            Self::Full => "the socket table is full",
        })
    }
}

impl std::error::Error for InsertError {}

/// How large a table may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Hash lists, rounded up to a power of two, at most 2^20. A list head is 8 to 16 bytes. For `epoch`, the places of
    /// its arrays to begin with.
    pub lists: usize,
    /// Greatest number of entries (CDP-LIM-A).
    pub entries_max: usize,
}

impl Default for Limits {
    /// 4,096 lists and 262,144 entries.
    fn default() -> Self {
        Self { lists: 1 << 12, entries_max: 1 << 18 }
    }
}

/// How the socket table is locked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Scheme {
    /// The paper's coarse-grain lock: one lock for each list, for every operation.
    Coarse,
    /// The paper's fine-grain lock: a read/write lock for each link.
    Fine,
    /// Searches take no lock; what is removed is freed once no search can see it.
    #[default]
    Epoch,
}

impl Scheme {
    /// Every scheme.
    pub const ALL: [Self; 3] = [Self::Coarse, Self::Fine, Self::Epoch];

    /// An empty table. `hash_key` is random and secret, and best made once for a process.
    #[must_use]
    pub fn table<V: Keyed + Send + Sync + 'static>(
        self,
        hash_key: [u8; 16],
        limits: Limits,
    ) -> Box<dyn Table<V>> {
        match self {
            Self::Coarse => Box::new(Coarse::new(hash_key, limits)),
            Self::Fine => Box::new(Fine::new(hash_key, limits)),
            Self::Epoch => Box::new(Epoch::new(hash_key, limits)),
        }
    }

    /// The name, as settings and reports give it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Coarse => "coarse",
            Self::Fine => "fine",
            Self::Epoch => "epoch",
        }
    }
}
