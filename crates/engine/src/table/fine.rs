//! The paper's fine-grain scheme (section 4.3, figure 8b).
//!
//! Algorithm: a read/write lock on every link: on the list head, and in every node on its pointer to the next one.
//! (The lock of the socket's own data is the caller's, behind the `Arc`.)
//! * A search read-locks the head, then goes from link to link, read-locking the next before it lets go of the last.
//!   Any number of searches share a list.
//! * An insertion write-locks the head, and nothing else, for new sockets go first. While it holds the head it looks
//!   through the list as a search does, so that no key is there twice (the paper leaves that to its callers).
//! * A removal write-locks two consecutive links: the one that points to the node, and the node's own. Only one
//!   thread at a time removes, the paper's timer; here a lock sees to it.
//!
//! Lock order: the timer's lock, then links from the head onwards. Everybody locks links in list order, so there is
//! no circle. (The paper argues from the timer's being alone in holding two; searches here hold two for a moment,
//! since a node's memory is given back when it is removed.)
//!
//! Races:
//! * A search against a removal: who holds the lock of the link to a node can use the node, because the removal needs
//!   that lock to write. Who has moved on holds the lock of the node's own link, which the removal needs as well. So
//!   when it has both, no thread is at the node, and none can get there.
//! * A removal against an insertion: the timer finds the place under read locks that it does not keep. Nobody else
//!   removes, so the node before is still there; but at the head an insertion may have come between. The timer looks
//!   again under the write lock, and goes on from there.

use std::ptr;
use std::sync::Arc;

use weft_base::FlowKey;
use weft_sync::face::{self, Alive};
use weft_sync::{Mutex, RwLock, RwLockReadGuard};

use super::lists::{Count, Hash};
use super::{InsertError, Keyed, Limits, Table};

/// Hash lists with a read/write lock on each link.
pub struct Fine<V> {
    lists: Box<[RwLock<Link<V>>]>,
    /// Held by the one thread that removes.
    timer: Mutex<()>,
    hash: Hash,
    count: Count,
}

/// A pointer to a node of the list, or null at its end.
struct Link<V>(*mut Node<V>);

struct Node<V> {
    key: FlowKey,
    value: Arc<V>,
    next: RwLock<Link<V>>,
    alive: Alive,
}

// SAFETY: a link owns the list behind it, whose nodes own an `Arc<V>` each; threads share both.
unsafe impl<V: Send + Sync> Send for Link<V> {}
// SAFETY: as above; the pointer is followed under the rules at the top of this file.
unsafe impl<V: Send + Sync> Sync for Link<V> {}

impl<V> Link<V> {
    const END: Self = Self(ptr::null_mut());

    /// The node behind the link.
    ///
    /// # Safety
    ///
    /// For as long as the reference is used, the caller holds the lock of this link, or of the node's own link, or
    /// the timer's lock.
    unsafe fn node<'a>(&self) -> Option<&'a Node<V>> {
        // SAFETY: null, or a node that the caller's lock keeps from being removed.
        let node = unsafe { self.0.as_ref() }?;
        node.alive.check();
        Some(node)
    }
}

impl<V> Fine<V> {
    /// An empty table; see [`super::Scheme::table`].
    #[must_use]
    pub fn new(hash_key: [u8; 16], limits: Limits) -> Self {
        Self {
            lists: (0..limits.list_count()).map(|_| RwLock::new(Link::END)).collect(),
            timer: Mutex::new(()),
            hash: Hash::new(hash_key),
            count: Count::new(limits),
        }
    }

    #[inline]
    fn list(&self, key: &FlowKey) -> &RwLock<Link<V>> {
        &self.lists[self.hash.of(key) & (self.lists.len() - 1)]
    }
}

/// A walk along a list under read locks. It holds the lock of the link to the node that it gave last.
struct Walk<'a, V> {
    link: RwLockReadGuard<'a, Link<V>>,
    /// The node whose own link that is; none at the head.
    from: Option<&'a Node<V>>,
}

impl<'a, V> Walk<'a, V> {
    fn from(link: &'a RwLock<Link<V>>) -> Self {
        Self { link: link.read(), from: None }
    }

    /// The node that the walk is at, to be used until it goes on.
    fn node(&self) -> Option<&Node<V>> {
        self.from.inspect(|from| from.alive.check());
        // SAFETY: the walk holds the lock of the link, and the reference borrows the walk.
        unsafe { self.link.node() }
    }

    fn next(&mut self) {
        // SAFETY: the lock of the link is held until the lock of the node's own link is; that one then stands for it.
        let node: Option<&'a Node<V>> = unsafe { self.link.node() };
        if let Some(node) = node {
            self.link = node.next.read();
            self.from = Some(node);
        }
    }

    /// Goes on to the node of `key`, if there is one.
    fn find(&mut self, key: &FlowKey) -> Option<&Node<V>> {
        while self.node()?.key != *key {
            self.next();
        }
        self.node()
    }
}

impl<V: Keyed + Send + Sync> Table<V> for Fine<V> {
    fn find(&self, key: &FlowKey) -> Option<Arc<V>> {
        Walk::from(self.list(key)).find(key).map(|node| node.value.clone())
    }

    fn insert(&self, value: Arc<V>) -> Result<(), InsertError> {
        let key = *value.flow();
        let mut head = self.list(&key).write();
        // SAFETY: the lock of the head is held, and to write.
        if let Some(first) = unsafe { head.node() }
            && (first.key == key || Walk::from(&first.next).find(&key).is_some())
        {
            return Err(InsertError::Occupied);
        }
        self.count.add()?;
        let next = RwLock::new(Link(head.0));
        head.0 = Box::into_raw(Box::new(Node { key, value, next, alive: Alive::default() }));
        Ok(())
    }

    fn remove(&self, key: &FlowKey) -> Option<Arc<V>> {
        let _timer = self.timer.lock();
        let mut before = self.list(key);
        loop {
            let link = Link(before.read().0);
            // SAFETY: the timer's lock is held.
            let node = unsafe { link.node() }?;
            if node.key != *key {
                before = &node.next;
                continue;
            }
            let mut to_node = before.write();
            if to_node.0 != link.0 {
                continue; // something was inserted before it
            }
            let mut to_next = node.next.write();
            to_node.0 = std::mem::replace(&mut to_next.0, ptr::null_mut());
            let value = node.value.clone();
            drop((to_next, to_node));
            // SAFETY: no link leads to the node, and both locks were held at once, so no thread is left at it.
            unsafe { face::free(link.0, |node| &node.alive) };
            self.count.subtract();
            return Some(value);
        }
    }

    fn for_each(&self, visit: &mut dyn FnMut(&FlowKey, &Arc<V>)) {
        for list in &self.lists {
            let mut walk = Walk::from(list);
            while let Some(node) = walk.node() {
                visit(&node.key, &node.value);
                walk.next();
            }
        }
    }

    fn len(&self) -> usize {
        self.count.get()
    }
}

impl<V> Drop for Fine<V> {
    fn drop(&mut self) {
        for list in &self.lists {
            let mut next = list.read().0;
            while !next.is_null() {
                // SAFETY: the table is gone, so this thread is alone with its nodes, each of which came from a box.
                let node = unsafe { Box::from_raw(next) };
                next = node.next.read().0;
            }
        }
    }
}
