//! What a look-up in the engine's socket table costs with few connections and with many: `look_up SCHEME CONNECTIONS`.
//!
//! The table is as large as an engine makes it, and an entry is as large as a connection. Flows are looked up in an order that
//! no processor can foresee, one after the other without other work between them, so a look-up hides behind none. With all
//! of 10^5 connections active each look-up finds the table and the entry outside of every cache, whatever the table; with few
//! active it shows what the others cost that are only there.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use weft_base::{Address, FlowKey, NodeId, Port};
use weft_bench::Report;
use weft_engine::Scheme;
use weft_engine::table::{Keyed, Limits, Table};

/// Bytes of an entry besides its flow: those of the engine's own.
const ENTRY_BYTES: usize = size_of::<weft_engine::Slot>() - size_of::<FlowKey>();
/// Look-ups between two questions for the time.
const LOOK_UPS: u64 = 4_096;

/// An entry as large as a connection, with the flow where a connection has it.
#[repr(C, align(8))]
struct Entry {
    flow: FlowKey,
    rest: [u8; ENTRY_BYTES],
}

impl Keyed for Entry {
    fn flow(&self) -> &FlowKey {
        &self.flow
    }
}

/// Looks up random flows and prints the time for each.
#[derive(Parser)]
struct Arguments {
    /// How the table is locked: coarse, fine or epoch.
    #[arg(value_parser = scheme)]
    scheme: Scheme,
    /// Entries.
    connections: u32,
    /// Entries that are looked up; the others are idle connections [default: all].
    #[arg(long)]
    active: Option<u32>,
    /// Seconds to look up.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Hash lists of the table, instead of as many as an engine has.
    #[arg(long)]
    lists: Option<usize>,
}

fn scheme(name: &str) -> Result<Scheme, String> {
    let known = Scheme::ALL.into_iter().find(|scheme| scheme.name() == name);
    known.ok_or_else(|| "give coarse, fine or epoch".to_owned())
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Some(table) = fill(&arguments) else {
        eprintln!("look_up: no table holds {} connections; give 1 to 262144", arguments.connections);
        return ExitCode::FAILURE;
    };
    let active = arguments.active.unwrap_or(u32::MAX).clamp(1, arguments.connections);
    let nanos = measure(&*table, arguments.connections, active, Duration::from_secs_f64(arguments.seconds));
    Report::new()
        .text("scheme", arguments.scheme.name())
        .count("connections", arguments.connections.into())
        .count("active", active.into())
        .number("ns_per_look_up", nanos)
        .print();
    ExitCode::SUCCESS
}

fn fill(arguments: &Arguments) -> Option<Box<dyn Table<Entry>>> {
    let limits = Limits { lists: arguments.lists.unwrap_or(Limits::default().lists), ..Limits::default() };
    let table = arguments.scheme.table([0x5A; 16], limits);
    for number in 0..arguments.connections {
        table.insert(Arc::new(Entry { flow: flow(number)?, rest: [0; ENTRY_BYTES] })).ok()?;
    }
    (!table.is_empty()).then_some(table)
}

/// The flow of a connection: 1,024 of each remote node.
fn flow(number: u32) -> Option<FlowKey> {
    let port = Port::new(u16::try_from(49_152 + number % 1_024).ok()?)?;
    let remote = Address { node: NodeId::new(NodeId::FIRST_UNREGISTERED + number / 1_024)?, port };
    Some(FlowKey { local: Address { node: NodeId::new(7)?, port: Port::ECHO }, remote })
}

/// Nanoseconds of one look-up, less those of making a flow.
#[allow(clippy::cast_precision_loss)] // counts
fn measure(table: &dyn Table<Entry>, connections: u32, active: u32, time: Duration) -> f64 {
    let each = |of: &dyn Fn(&FlowKey), time: Duration| {
        let (started, mut random, mut done) = (Instant::now(), 1u64, 0u64);
        while started.elapsed() < time {
            for _ in 0..LOOK_UPS {
                // Those that are looked up were added all over the time that the table was filled.
                let number = next(&mut random) % active * (connections / active);
                let Some(flow) = flow(number) else { continue };
                of(&flow);
            }
            done += LOOK_UPS;
        }
        started.elapsed().as_nanos() as f64 / done as f64
    };
    let with = each(&|flow| drop(black_box(table.find(black_box(flow)))), time);
    let without = each(&|flow| _ = black_box(*black_box(flow)), time / 10);
    with - without
}

/// A random number that does not take much time.
fn next(random: &mut u64) -> u32 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    u32::try_from(*random >> 32).unwrap_or(0)
}
