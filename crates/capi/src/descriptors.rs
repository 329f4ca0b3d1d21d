//! The table of descriptors: small numbers for what C cannot hold.
//!
//! A lookup takes a share of the entry and lets go of the table before the call does its work, so a call that waits
//! holds up nobody. Numbers are given out in turn, so that a number just closed is not soon another thing's.

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Arc, LazyLock, PoisonError, RwLock, RwLockWriteGuard};

use crate::boundary::Failure;
use crate::entry::Entry;
use crate::progress::OpenNode;

/// Descriptors a process can have open, which is also the greatest descriptor.
pub const CDP_DESCRIPTORS_MAX: c_int = 65_536;

/// What a descriptor names.
#[derive(Clone)]
pub(crate) enum Named {
    Socket(Arc<Entry>),
    Node(Arc<OpenNode>),
}

/// What has a descriptor.
struct Table<T> {
    entries: HashMap<c_int, T>,
    /// How many more are promised to those that hold a [`Place`].
    promised: usize,
    last: c_int,
}

/// A descriptor that is there for whoever holds this.
pub(crate) struct Place<T: 'static = Named>(&'static RwLock<Table<T>>);

static TABLE: LazyLock<RwLock<Table<Named>>> = LazyLock::new(RwLock::default);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { entries: HashMap::new(), promised: 0, last: 0 }
    }
}

impl<T> Table<T> {
    /// Whether one more may be promised, and now is.
    fn promise(&mut self) -> bool {
        let most = usize::try_from(CDP_DESCRIPTORS_MAX).unwrap_or(usize::MAX);
        let is_free = self.entries.len() + self.promised < most;
        self.promised += usize::from(is_free);
        is_free
    }

    /// The number of one that was promised.
    fn insert(&mut self, named: T) -> c_int {
        loop {
            self.last = if self.last >= CDP_DESCRIPTORS_MAX { 1 } else { self.last + 1 };
            if !self.entries.contains_key(&self.last) {
                self.entries.insert(self.last, named);
                return self.last;
            }
        }
    }
}

impl Place {
    /// EMFILE if no descriptor is left.
    pub(crate) fn reserve() -> Result<Self, Failure> {
        Self::of(&TABLE).ok_or_else(|| {
            Failure::new(libc::EMFILE, format!("{CDP_DESCRIPTORS_MAX} descriptors are open; close some"))
        })
    }
}

impl<T> Place<T> {
    fn of(table: &'static RwLock<Table<T>>) -> Option<Self> {
        let is_promised = write(table).promise();
        is_promised.then(|| Self(table))
    }

    /// Gives `named` the descriptor.
    pub(crate) fn fill(self, named: T) -> c_int {
        let mut table = write(self.0);
        let number = table.insert(named);
        drop(table);
        // The promise is taken back after that, with this place: nobody else gets it between.
        number
    }
}

impl<T> Drop for Place<T> {
    fn drop(&mut self) {
        write(self.0).promised -= 1;
    }
}

fn write<T>(table: &RwLock<Table<T>>) -> RwLockWriteGuard<'_, Table<T>> {
    table.write().unwrap_or_else(PoisonError::into_inner)
}

/// Gives `named` a descriptor; EMFILE if there is none left.
pub(crate) fn insert(named: Named) -> Result<c_int, Failure> {
    Ok(Place::reserve()?.fill(named))
}

fn bad(descriptor: c_int, what: &str) -> Failure {
    Failure::new(libc::EBADF, format!("{descriptor} is not {what} of this library, or it was closed"))
}

/// The socket that `descriptor` names.
pub(crate) fn socket(descriptor: c_int) -> Result<Arc<Entry>, Failure> {
    match TABLE.read().unwrap_or_else(PoisonError::into_inner).entries.get(&descriptor) {
        Some(Named::Socket(entry)) => Ok(entry.clone()),
        Some(Named::Node(_)) | None => Err(bad(descriptor, "a socket")),
    }
}

/// The node that `descriptor` names.
pub(crate) fn node(descriptor: c_int) -> Result<Arc<OpenNode>, Failure> {
    match TABLE.read().unwrap_or_else(PoisonError::into_inner).entries.get(&descriptor) {
        Some(Named::Node(node)) => Ok(node.clone()),
        Some(Named::Socket(_)) | None => Err(bad(descriptor, "a node")),
    }
}

/// Frees `descriptor` if it still names `entry`; of several that try, one is told `true`.
pub(crate) fn remove(descriptor: c_int, entry: &Arc<Entry>) -> bool {
    let mut table = write(&TABLE);
    let is_same =
        matches!(table.entries.get(&descriptor), Some(Named::Socket(other)) if Arc::ptr_eq(entry, other));
    if is_same {
        table.entries.remove(&descriptor);
    }
    is_same
}

/// Frees the descriptor of a node.
pub(crate) fn remove_node(descriptor: c_int) -> Result<Arc<OpenNode>, Failure> {
    let node = node(descriptor)?;
    write(&TABLE).entries.remove(&descriptor);
    Ok(node)
}

/// Every open node.
pub(crate) fn nodes() -> Vec<Arc<OpenNode>> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let nodes = table.entries.values().filter_map(|named| match named {
        Named::Node(node) => Some(node.clone()),
        Named::Socket(_) => None,
    });
    nodes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that is promised is nobody else's, and one that is not used is given back.
    #[test]
    fn no_more_are_promised_than_there_are() {
        let table: &'static RwLock<Table<u8>> = Box::leak(Box::default());
        let most = usize::try_from(CDP_DESCRIPTORS_MAX).unwrap();
        let mut places: Vec<_> = (0..2 * most).filter_map(|_| Place::of(table)).collect();
        assert_eq!(places.len(), most);
        let number = places.pop().unwrap().fill(7);
        assert_eq!(table.read().unwrap().entries[&number], 7);
        assert!(Place::of(table).is_none(), "it is in use");
        places.pop();
        assert!(Place::of(table).is_some(), "one was given back");
        places.clear();
        assert_eq!((table.read().unwrap().promised, table.read().unwrap().entries.len()), (0, 1));
    }
}
