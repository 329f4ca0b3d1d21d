//! One suite for every scheme: what a table does does not depend on how it is locked.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use proptest::prelude::*;
use weft_base::{Address, NodeId, Port};

use super::*;

const KEY: [u8; 16] = *b"sixteen key byte";

pub(super) fn flow(number: u32) -> FlowKey {
    let port = Port::new(u16::try_from(number % 60_000).unwrap() + 1).unwrap();
    let local = Address { node: NodeId::new(1).unwrap(), port: Port::ECHO };
    FlowKey { local, remote: Address { node: NodeId::new(2 + number / 60_000).unwrap(), port } }
}

/// A value that is a number.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Numbered {
    flow: FlowKey,
    number: usize,
}

impl Numbered {
    /// With the flow of its number.
    pub(super) fn new(number: u32) -> Arc<Self> {
        Self::of(flow(number), number as usize)
    }

    fn of(flow: FlowKey, number: usize) -> Arc<Self> {
        Arc::new(Self { flow, number })
    }
}

impl Keyed for Numbered {
    fn flow(&self) -> &FlowKey {
        &self.flow
    }
}

/// A table of each scheme; few lists, so that they are long and grow.
fn tables<V: Keyed + Send + Sync + 'static>(
    lists: usize,
    entries_max: usize,
) -> impl Iterator<Item = (&'static str, Box<dyn Table<V>>)> {
    let limits = Limits { lists, entries_max };
    Scheme::ALL.into_iter().map(move |scheme| (scheme.name(), scheme.table(KEY, limits)))
}

#[test]
fn what_was_inserted_is_found_until_it_is_removed() {
    for (name, table) in tables(4, 100) {
        for number in 0..100 {
            assert_eq!(table.insert(Numbered::new(number)), Ok(()), "{name}");
        }
        for number in 0..100 {
            assert_eq!(table.find(&flow(number)), Some(Numbered::new(number)), "{name}");
        }
        assert_eq!(table.remove(&flow(50)), Some(Numbered::new(50)), "{name}");
        assert!(table.find(&flow(50)).is_none() && table.remove(&flow(50)).is_none(), "{name}");
        assert_eq!(table.len(), 99, "{name}");
    }
}

#[test]
fn every_part_of_the_flow_counts() {
    let other = |change: fn(&mut FlowKey)| {
        let mut key = flow(7);
        change(&mut key);
        key
    };
    let keys = [
        flow(7),
        other(|key| key.local.node = NodeId::new(9).unwrap()),
        other(|key| key.local.port = Port::CONTROL),
        other(|key| key.remote.node = NodeId::new(9).unwrap()),
        other(|key| key.remote.port = Port::CONTROL),
        flow(7).reversed(),
    ];
    for (name, table) in tables(1, 100) {
        for (number, key) in keys.iter().enumerate() {
            assert_eq!(table.insert(Numbered::of(*key, number)), Ok(()), "{name}");
        }
        for (number, key) in keys.iter().enumerate() {
            assert_eq!(table.find(key).map(|value| value.number), Some(number), "{name}");
        }
    }
}

#[test]
fn a_flow_has_one_entry() {
    for (name, table) in tables(1, 10) {
        for number in [1, 2, 3] {
            table.insert(Numbered::new(number)).unwrap();
        }
        for number in [1, 2, 3] {
            let other = Numbered::of(flow(number), 0);
            assert_eq!(table.insert(other), Err(InsertError::Occupied), "{name}");
            assert_eq!(table.find(&flow(number)), Some(Numbered::new(number)), "{name}");
        }
        assert_eq!(table.len(), 3, "{name}");
    }
}

/// [CDP-LIM-A] The table holds no more entries than its limit says.
#[test]
fn a_full_table_refuses_until_an_entry_goes() {
    for (name, table) in tables(4, 3) {
        for number in 0..3 {
            table.insert(Numbered::new(number)).unwrap();
        }
        assert_eq!(table.insert(Numbered::new(3)), Err(InsertError::Full), "{name}");
        assert_eq!(table.insert(Numbered::new(0)), Err(InsertError::Occupied), "{name}");
        table.remove(&flow(1)).unwrap();
        assert_eq!(table.insert(Numbered::new(3)), Ok(()), "{name}");
        assert_eq!(table.len(), 3, "{name}");
    }
}

#[test]
fn a_removed_value_is_let_go_of_and_so_are_all_in_the_end() {
    for (name, table) in tables(1, 1_000) {
        let dropped = Arc::new(AtomicUsize::new(0));
        for number in 0..500 {
            table.insert(Value::new(number, &dropped)).unwrap();
        }
        for number in 0..250 {
            drop(table.remove(&flow(number)));
        }
        assert_eq!(dropped.load(Ordering::Relaxed), 250, "{name}");
        drop(table);
        assert_eq!(dropped.load(Ordering::Relaxed), 500, "{name}");
    }
}

#[test]
fn a_long_list_is_dropped_without_recursion() {
    for (_, table) in tables(1, 20_000) {
        // The scheme that grows has no lists; the other two have one.
        for number in 0..3_000 {
            table.insert(Numbered::new(number)).unwrap();
        }
        std::thread::Builder::new().stack_size(64 << 10).spawn(move || drop(table)).unwrap().join().unwrap();
    }
}

proptest! {
    #[test]
    fn the_hash_is_siphash_1_3(key: [u8; 16], first: u64, second: u64) {
        let mut bytes = first.to_le_bytes().to_vec();
        bytes.extend(second.to_le_bytes());
        let reference = siphasher::sip::SipHasher13::new_with_key(&key).hash(&bytes);
        prop_assert_eq!(lists::Hash::new(key).words(first, second), reference);
    }
}

#[test]
fn the_hash_depends_on_its_key_and_spreads_neighbours() {
    let lists = |key| {
        let hash = lists::Hash::new(key);
        (0..4_096).map(|number| hash.of(&flow(number)) % 64).collect::<Vec<_>>()
    };
    assert_ne!(lists(KEY), lists([0; 16]));
    let mut sizes = [0; 64];
    lists(KEY).into_iter().for_each(|list| sizes[list] += 1);
    // 64 expected; five standard deviations are 40.
    assert!(sizes.iter().all(|size| (24..=104).contains(size)), "{sizes:?}");
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Insert(u32),
    Find(u32),
    Remove(u32),
    Walk,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (0_u32..64).prop_map(Operation::Insert),
        4 => (0_u32..64).prop_map(Operation::Find),
        2 => (0_u32..64).prop_map(Operation::Remove),
        1 => Just(Operation::Walk),
    ]
}

/// Does the same to the table and to a map, and compares the answers.
fn apply(
    operation: Operation,
    table: &dyn Table<Numbered>,
    model: &mut BTreeMap<FlowKey, usize>,
    step: usize,
) {
    match operation {
        Operation::Insert(number) => {
            let expected = match model.get(&flow(number)) {
                Some(_) => Err(InsertError::Occupied),
                None if model.len() == 48 => Err(InsertError::Full),
                None => Ok(()),
            };
            assert_eq!(table.insert(Numbered::of(flow(number), step)), expected);
            if expected.is_ok() {
                model.insert(flow(number), step);
            }
        }
        Operation::Find(number) => {
            assert_eq!(
                table.find(&flow(number)).map(|value| value.number),
                model.get(&flow(number)).copied()
            );
        }
        Operation::Remove(number) => {
            assert_eq!(table.remove(&flow(number)).map(|value| value.number), model.remove(&flow(number)));
        }
        Operation::Walk => {
            let mut seen = BTreeMap::new();
            table.for_each(&mut |key, value| assert_eq!(seen.insert(*key, value.number), None));
            assert_eq!(seen, *model);
        }
    }
    assert_eq!(table.len(), model.len());
}

proptest! {
    #[test]
    fn a_table_does_what_a_map_does(operations in prop::collection::vec(operation(), 1..300)) {
        for (_, table) in tables(2, 48) {
            let mut model = BTreeMap::new();
            for (step, operation) in operations.iter().enumerate() {
                apply(*operation, &*table, &mut model, step);
            }
        }
    }
}

/// A value that tells whether it was used after its end.
struct Value {
    flow: FlowKey,
    number: u32,
    is_valid: AtomicBool,
    dropped: Arc<AtomicUsize>,
}

impl Value {
    fn new(number: u32, dropped: &Arc<AtomicUsize>) -> Arc<Self> {
        let is_valid = AtomicBool::new(true);
        Arc::new(Self { flow: flow(number), number, is_valid, dropped: dropped.clone() })
    }
}

impl Keyed for Value {
    fn flow(&self) -> &FlowKey {
        assert!(self.is_valid.load(Ordering::Relaxed), "used after its end");
        &self.flow
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        assert!(self.is_valid.swap(false, Ordering::Relaxed), "dropped twice");
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// A small generator, for threads must not share one.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        u32::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// Inserters, removers, searchers and walkers over one set of flows. Flows above `churned` stay in the table all the
/// time, and must be found by every search and every walk.
fn stress(table: &dyn Table<Value>, seed: u64) -> (usize, usize) {
    let (churned, stable, rounds) = (64, 64, 4_000);
    let (dropped, inserted) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let insert = |number| {
        let result = table.insert(Value::new(number, &dropped));
        inserted.fetch_add(1, Ordering::Relaxed); // the value was made, and must be dropped in any case
        result
    };
    (churned..churned + stable).for_each(|number| insert(number).unwrap());
    let balance = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let mut random = Random(seed ^ thread);
            let (insert, balance) = (&insert, &balance);
            scope.spawn(move || {
                for _ in 0..rounds {
                    if insert(random.below(churned)).is_ok() {
                        balance.fetch_add(1, Ordering::Relaxed);
                    }
                    if table.remove(&flow(random.below(churned))).is_some() {
                        balance.fetch_sub(1, Ordering::Relaxed);
                    }
                }
            });
            let mut random = Random(seed ^ (thread + 2));
            scope.spawn(move || {
                for round in 0..rounds {
                    let number = random.below(churned + stable);
                    let found = table.find(&flow(number));
                    assert!(number < churned || found.is_some(), "a search missed {number}");
                    if let Some(found) = found {
                        assert!(found.number == number && found.is_valid.load(Ordering::Relaxed));
                    }
                    if round % 64 == 0 {
                        let mut seen = 0;
                        table.for_each(&mut |_, value| seen += u32::from(value.number >= churned));
                        assert_eq!(seen, stable, "a walk missed some");
                    }
                }
            });
        }
    });
    // What a search held up is freed by the next writer.
    insert(churned + stable).unwrap();
    table.remove(&flow(churned + stable)).unwrap();
    assert_eq!(table.len(), balance.into_inner() + stable as usize);
    (inserted.into_inner(), dropped.load(Ordering::Relaxed))
}

#[test]
fn no_entry_is_lost_doubled_or_used_after_its_end_among_threads() {
    for seed in 1..=4_u64 {
        for (name, table) in tables(1, 1_000) {
            println!("scheme {name}, seed {seed}");
            let (inserted, dropped) = stress(&*table, seed);
            assert_eq!(inserted, dropped + table.len(), "values are kept by the table or dropped");
        }
    }
}
