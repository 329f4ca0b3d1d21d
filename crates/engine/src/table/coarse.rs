//! The paper's coarse-grain scheme (section 4.3, figure 8a).
//!
//! Algorithm: a spin lock on the head of each hash list. Whatever the operation, the thread takes the lock first,
//! spins if another holds it, and holds it until the socket is found, inserted or removed. So searches in one list go
//! one after the other, even for different sockets.
//!
//! Races: none beyond the lock's. One list lock is held at a time, and nothing else is locked under it.

use std::sync::Arc;

use weft_base::FlowKey;
use weft_sync::SpinLock;

use super::lists::{Count, Hash};
use super::{InsertError, Keyed, Limits, Table};

/// Hash lists with one spin lock each.
pub struct Coarse<V> {
    lists: Box<[SpinLock<List<V>>]>,
    hash: Hash,
    count: Count,
}

struct List<V> {
    first: Link<V>,
}

type Link<V> = Option<Box<Node<V>>>;

struct Node<V> {
    key: FlowKey,
    value: Arc<V>,
    next: Link<V>,
}

impl<V> Coarse<V> {
    /// An empty table; see [`super::Scheme::table`].
    #[must_use]
    pub fn new(hash_key: [u8; 16], limits: Limits) -> Self {
        let lists = (0..limits.list_count()).map(|_| SpinLock::new(List { first: None }));
        Self { lists: lists.collect(), hash: Hash::new(hash_key), count: Count::new(limits) }
    }

    #[inline]
    fn list(&self, key: &FlowKey) -> &SpinLock<List<V>> {
        &self.lists[self.hash.of(key) & (self.lists.len() - 1)]
    }
}

impl<V: Keyed + Send + Sync> Table<V> for Coarse<V> {
    fn find(&self, key: &FlowKey) -> Option<Arc<V>> {
        self.list(key).lock().nodes().find(|node| node.key == *key).map(|node| node.value.clone())
    }

    fn insert(&self, value: Arc<V>) -> Result<(), InsertError> {
        let key = *value.flow();
        let mut list = self.list(&key).lock();
        if list.nodes().any(|node| node.key == key) {
            return Err(InsertError::Occupied);
        }
        self.count.add()?;
        let next = list.first.take();
        list.first = Some(Box::new(Node { key, value, next }));
        Ok(())
    }

    fn remove(&self, key: &FlowKey) -> Option<Arc<V>> {
        let mut list = self.list(key).lock();
        let mut link = &mut list.first;
        while link.as_ref()?.key != *key {
            link = &mut link.as_mut()?.next;
        }
        let Node { value, next, .. } = *link.take()?;
        *link = next;
        self.count.subtract();
        Some(value)
    }

    fn for_each(&self, visit: &mut dyn FnMut(&FlowKey, &Arc<V>)) {
        for list in &self.lists {
            list.lock().nodes().for_each(|node| visit(&node.key, &node.value));
        }
    }

    fn len(&self) -> usize {
        self.count.get()
    }
}

impl<V> List<V> {
    fn nodes(&self) -> impl Iterator<Item = &Node<V>> {
        std::iter::successors(self.first.as_deref(), |node| node.next.as_deref())
    }
}

impl<V> Drop for List<V> {
    /// One node after the other, for a list may be longer than the stack is deep.
    fn drop(&mut self) {
        let mut next = self.first.take();
        while let Some(mut node) = next {
            next = node.next.take();
        }
    }
}
