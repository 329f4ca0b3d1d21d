//! Searches against insertions, removals and growth, in every interleaving that three threads and a few switches give,
//! under every scheme.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p weft-engine --test loom_table
//! ```
#![cfg(loom)]

use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, Weak};

use loom::thread::{self, JoinHandle};
use weft_base::{Address, FlowKey, NodeId, Port};
use weft_engine::table::{InsertError, Keyed, Limits, Scheme, Table};
use weft_sync::face::Alive;

type Shared = loom::sync::Arc<Tracked>;

/// A table whose values stay in memory until the end of the run, so that a use after their end is found.
struct Tracked {
    table: Box<dyn Table<Value>>,
    values: Mutex<Vec<Weak<Value>>>,
}

struct Value {
    flow: FlowKey,
    port: u16,
    alive: ManuallyDrop<Alive>,
}

impl Keyed for Value {
    fn flow(&self) -> &FlowKey {
        self.alive.check();
        &self.flow
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.alive.end();
    }
}

impl Tracked {
    fn value(&self, port: u16) -> Arc<Value> {
        let value = Arc::new(Value { flow: flow(port), port, alive: ManuallyDrop::default() });
        self.values.lock().unwrap().push(Arc::downgrade(&value));
        value
    }
}

fn flow(port: u16) -> FlowKey {
    let end = |node, port| Address { node: NodeId::new(node).unwrap(), port: Port::new(port).unwrap() };
    FlowKey { local: end(1, 7), remote: end(2, port) }
}

/// A table of one list with the entries 1, 2 and so on; the last one is at its head.
fn table(scheme: Scheme, entries: u16) -> Shared {
    let table = scheme.table([0; 16], Limits { lists: 1, entries_max: 8 });
    let table = Tracked { table, values: Mutex::default() };
    for port in 1..=entries {
        insert(&table, port).unwrap();
    }
    Shared::new(table)
}

fn on_thread<R: 'static>(table: &Shared, part: impl FnOnce(&Tracked) -> R + 'static) -> JoinHandle<R> {
    let table = table.clone();
    thread::spawn(move || part(&table))
}

fn find(table: &Tracked, port: u16) -> Option<u16> {
    table.table.find(&flow(port)).map(|value| value.port)
}

fn insert(table: &Tracked, port: u16) -> Result<(), InsertError> {
    table.table.insert(table.value(port))
}

fn remove(table: &Tracked, port: u16) -> Option<u16> {
    table.table.remove(&flow(port)).map(|value| value.port)
}

fn entries(table: &Tracked) -> Vec<u16> {
    let mut seen = Vec::new();
    table.table.for_each(&mut |key, value| {
        assert_eq!(key.remote.port.get(), value.port);
        seen.push(value.port);
    });
    seen.sort_unstable();
    assert_eq!(seen.len(), table.table.len());
    seen
}

/// Runs `body` under every scheme, with at most so many switches away from a thread that could go on.
fn model(preemptions: usize, body: fn(Scheme)) {
    model_of(&Scheme::ALL, preemptions, body);
}

/// With three threads, two may spin for the third, and loom lets them spin for ever. So `coarse`, which is one spin lock
/// and safe code, is left to the models of two threads.
fn model_of_three(preemptions: usize, body: fn(Scheme)) {
    model_of(&[Scheme::Fine, Scheme::Epoch], preemptions, body);
}

fn model_of(schemes: &[Scheme], preemptions: usize, body: fn(Scheme)) {
    for &scheme in schemes {
        weft_sync::models::model(preemptions, move || body(scheme));
    }
}

#[test]
fn a_search_passes_a_node_that_is_removed_under_it() {
    model(3, |scheme| {
        let table = table(scheme, 3);
        let receiver = on_thread(&table, |table| (find(table, 2), find(table, 1)));
        assert_eq!(remove(&table, 2), Some(2));
        let (removed, stable) = receiver.join().unwrap();
        assert!(removed.is_none_or(|port| port == 2) && stable == Some(1), "{scheme:?}");
        assert_eq!(entries(&table), [1, 3], "{scheme:?}");
    });
}

#[test]
fn a_search_finds_what_stays_while_its_neighbours_come_and_go() {
    model_of_three(2, |scheme| {
        let table = table(scheme, 2);
        let receiver = on_thread(&table, |table| find(table, 1));
        let user = on_thread(&table, |table| insert(table, 3));
        assert_eq!(remove(&table, 2), Some(2));
        assert_eq!(receiver.join().unwrap(), Some(1), "{scheme:?}");
        assert_eq!(user.join().unwrap(), Ok(()), "{scheme:?}");
        assert_eq!(entries(&table), [1, 3], "{scheme:?}");
    });
}

#[test]
fn a_value_that_is_found_is_whole() {
    model(3, |scheme| {
        let table = table(scheme, 0);
        let receiver = on_thread(&table, |table| find(table, 1));
        assert_eq!(insert(&table, 1), Ok(()));
        assert!(receiver.join().unwrap().is_none_or(|port| port == 1), "{scheme:?}");
        assert_eq!(find(&table, 1), Some(1), "{scheme:?}");
    });
}

#[test]
fn of_two_insertions_of_a_flow_one_wins() {
    model(3, |scheme| {
        let table = table(scheme, 1);
        let user = on_thread(&table, |table| insert(table, 2));
        let results = [insert(&table, 2), user.join().unwrap()];
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1, "{scheme:?}");
        assert_eq!(entries(&table), [1, 2], "{scheme:?}");
    });
}

#[test]
fn of_two_removals_of_a_flow_one_wins() {
    model(3, |scheme| {
        let table = table(scheme, 2);
        let other = on_thread(&table, |table| remove(table, 1));
        let results = [remove(&table, 1), other.join().unwrap()];
        assert_eq!(results.iter().flatten().count(), 1, "{scheme:?}");
        assert_eq!(entries(&table), [2], "{scheme:?}");
    });
}

#[test]
fn neighbours_are_removed_and_inserted_at_the_same_time() {
    model_of_three(2, |scheme| {
        let table = table(scheme, 2);
        let user = on_thread(&table, |table| insert(table, 3));
        let other = on_thread(&table, |table| remove(table, 1));
        assert_eq!(remove(&table, 2), Some(2), "{scheme:?}");
        assert_eq!((user.join().unwrap(), other.join().unwrap()), (Ok(()), Some(1)), "{scheme:?}");
        assert_eq!(entries(&table), [3], "{scheme:?}");
    });
}

/// Two entries; the third makes `epoch` grow (the others, with one list, just insert it).
#[test]
fn a_search_finds_what_stays_while_the_table_grows() {
    model(2, |scheme| {
        let table = table(scheme, 2);
        let receiver = on_thread(&table, |table| find(table, 1));
        assert_eq!(insert(&table, 3), Ok(()));
        assert_eq!(remove(&table, 2), Some(2));
        assert_eq!(receiver.join().unwrap(), Some(1), "{scheme:?}");
        assert_eq!(entries(&table), [1, 3], "{scheme:?}");
    });
}
