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

#[derive(Default)]
struct Table {
    entries: HashMap<c_int, Named>,
    /// How many more are promised to those that hold a [`Place`].
    promised: usize,
    last: c_int,
}

/// A descriptor that is there for whoever holds this.
pub(crate) struct Place(());

static TABLE: LazyLock<RwLock<Table>> = LazyLock::new(RwLock::default);

impl Table {
    /// Whether one more may be promised, and now is.
    fn promise(&mut self) -> bool {
        let most = usize::try_from(CDP_DESCRIPTORS_MAX).unwrap_or(usize::MAX);
        let is_free = self.entries.len() + self.promised < most;
        self.promised += usize::from(is_free);
        is_free
    }

    /// The number of one that was promised.
    fn insert(&mut self, named: Named) -> c_int {
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
        if write().promise() {
            Ok(Self(()))
        } else {
            let full = format!("{CDP_DESCRIPTORS_MAX} descriptors are open; close some");
            Err(Failure::new(libc::EMFILE, full))
        }
    }

    /// Gives `named` the descriptor.
    pub(crate) fn fill(self, named: Named) -> c_int {
        let mut table = write();
        table.promised -= 1;
        std::mem::forget(self);
        table.insert(named)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        write().promised -= 1;
    }
}

fn write() -> RwLockWriteGuard<'static, Table> {
    TABLE.write().unwrap_or_else(PoisonError::into_inner)
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
    let mut table = write();
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
    write().entries.remove(&descriptor);
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
        let mut table = Table::default();
        let most = usize::try_from(CDP_DESCRIPTORS_MAX).unwrap();
        assert_eq!((0..2 * most).filter(|_| table.promise()).count(), most);
        table.promised -= 1;
        assert!(table.promise() && !table.promise());
    }
}
