//! Table 1 of the SCALE paper on our own fibers: `fibers ROW [--waiting N] [--workers N] [--rounds N]`, a line of JSON.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use clap::{Parser, ValueEnum};
use corosensei::{Coroutine, Yielder};
use weft_bench::Report;
use weft_fiber::{Mutex, Runtime, Semaphore, local, spawn, spawn_local, yield_now};

/// What is measured; the time is that of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Row {
    /// Lock and unlock, uncontended.
    Mutex,
    /// The same among fibers of one thread.
    LocalMutex,
    /// Post and wait, uncontended.
    Semaphore,
    /// The same among fibers of one thread.
    LocalSemaphore,
    /// A switch of stacks alone, one way, as the library below us does it.
    Switch,
    /// A yield of one of two fibers to the other.
    Yield,
    /// A hop in a chain of ten fibers that wait for mutexes: lock, unlock, switch.
    Chain,
    /// The same with mutexes among fibers of one thread.
    LocalChain,
    /// Creating a fiber and joining it.
    Create,
    /// Bytes per fiber of a million that live.
    Memory,
    /// Creating and joining a binary tree of a million fibers, per fiber.
    Tree,
}

#[derive(Parser)]
struct Arguments {
    row: Row,
    /// Other fibers that wait on a semaphore meanwhile.
    #[arg(long, default_value_t = 0)]
    waiting: usize,
    /// Workers of the runtime.
    #[arg(long, default_value_t = 1)]
    workers: usize,
    /// Operations measured.
    #[arg(long, default_value_t = 1_000_000)]
    rounds: u32,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let limit = (1 << 20) + 2 * arguments.waiting;
    let runtime = Runtime::builder().workers(arguments.workers).fiber_limit(limit).build()?;
    let (row, rounds) = (arguments.row, arguments.rounds);
    let (gate, arrived) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let value = runtime.run({
        move || {
            for _ in 0..arguments.waiting {
                let (gate, arrived) = (gate.clone(), arrived.clone());
                let wait = move || {
                    arrived.fetch_add(1, Ordering::Relaxed);
                    gate.wait();
                };
                drop(spawn(wait).expect("a fiber that waits"));
            }
            while arrived.load(Ordering::Relaxed) < arguments.waiting {
                yield_now();
            }
            let value = measure(row, rounds);
            (0..arguments.waiting).for_each(|_| gate.post());
            value
        }
    })?;
    let unit = if row == Row::Memory { "bytes" } else { "ns" };
    let row = row.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
    let report = Report::new().text("program", "weft").text("row", &row);
    report
        .count("waiting", arguments.waiting as u64)
        .count("workers", arguments.workers as u64)
        .number(unit, value)
        .print();
    Ok(())
}

fn measure(row: Row, rounds: u32) -> f64 {
    match row {
        Row::Mutex => mutex(rounds),
        Row::LocalMutex => local_mutex(rounds),
        Row::Semaphore => semaphore(rounds),
        Row::LocalSemaphore => local_semaphore(rounds),
        Row::Switch => switch(rounds),
        Row::Yield => yielding(rounds),
        Row::Chain => chain::<Mutex<()>>(rounds),
        Row::LocalChain => chain::<local::Mutex<()>>(rounds),
        Row::Create => create(rounds),
        Row::Memory => memory(),
        Row::Tree => tree(),
    }
}

/// Nanoseconds per operation.
fn timed(operations: u32, body: impl FnOnce()) -> f64 {
    let start = Instant::now();
    body();
    start.elapsed().as_secs_f64() * 1e9 / f64::from(operations)
}

fn mutex(rounds: u32) -> f64 {
    let mutex = Mutex::new(());
    let mutex = std::hint::black_box(&mutex);
    timed(rounds, || (0..rounds).for_each(|_| drop(mutex.lock())))
}

fn local_mutex(rounds: u32) -> f64 {
    let mutex = local::Mutex::new(());
    timed(rounds, || (0..rounds).for_each(|_| drop(std::hint::black_box(&mutex).lock())))
}

fn semaphore(rounds: u32) -> f64 {
    let semaphore = Semaphore::new(0);
    let semaphore = std::hint::black_box(&semaphore);
    timed(rounds, || {
        (0..rounds).for_each(|_| {
            semaphore.post();
            semaphore.wait();
        });
    })
}

fn local_semaphore(rounds: u32) -> f64 {
    let semaphore = local::Semaphore::new(0);
    timed(rounds, || {
        (0..rounds).for_each(|_| {
            std::hint::black_box(&semaphore).post();
            std::hint::black_box(&semaphore).wait();
        });
    })
}

fn switch(rounds: u32) -> f64 {
    let mut coroutine = Coroutine::new(move |yielder: &Yielder<(), ()>, ()| {
        for _ in 0..rounds / 2 {
            yielder.suspend(());
        }
    });
    timed(rounds, || while coroutine.resume(()).as_yield().is_some() {})
}

fn yielding(rounds: u32) -> f64 {
    let part = move || (0..rounds / 2).for_each(|_| yield_now());
    timed(rounds, || {
        let other = spawn_local(part).expect("a fiber");
        part();
        other.join().expect("its end");
    })
}

/// A mutex of either kind.
trait Lock: 'static {
    type Guard<'a>;
    fn new() -> Self;
    fn lock(&self) -> Self::Guard<'_>;
}

impl Lock for Mutex<()> {
    type Guard<'a> = weft_fiber::MutexGuard<'a, ()>;

    fn new() -> Self {
        Self::new(())
    }

    fn lock(&self) -> Self::Guard<'_> {
        self.lock()
    }
}

impl Lock for local::Mutex<()> {
    type Guard<'a> = local::MutexGuard<'a, ()>;

    fn new() -> Self {
        Self::new(())
    }

    fn lock(&self) -> Self::Guard<'_> {
        self.lock()
    }
}

/// Ten fibers hold a mutex each and wait for their neighbour's; freeing the first sets off the chain, up and down in turn.
fn chain<L: Lock>(rounds: u32) -> f64 {
    const FIBERS: usize = 10;
    let laps = rounds as usize / (FIBERS + 1);
    let locks: Rc<Vec<L>> = Rc::new((0..=FIBERS).map(|_| L::new()).collect());
    let mut held = Some(locks[0].lock());
    let parts: Vec<_> = (0..FIBERS)
        .map(|place| {
            let locks = locks.clone();
            spawn_local(move || {
                let mut held = locks[place + 1].lock();
                for lap in 0..laps {
                    // What is assigned over is unlocked, after its neighbour has been locked.
                    held = locks[place + lap % 2].lock();
                }
                drop(held);
            })
            .expect("a fiber")
        })
        .collect();
    yield_now();
    let ns = timed(u32::try_from(laps * (FIBERS + 1)).unwrap_or(u32::MAX), || {
        for lap in 0..laps {
            held.take();
            held = Some(locks[if lap % 2 == 0 { FIBERS } else { 0 }].lock());
        }
    });
    drop(held);
    parts.into_iter().for_each(|part| part.join().expect("its end"));
    ns
}

fn create(rounds: u32) -> f64 {
    timed(rounds, || {
        (0..rounds).for_each(|round| {
            let child = spawn(move || round).expect("a fiber");
            assert_eq!(child.join().expect("its value"), round);
        });
    })
}

/// Resident memory and page tables of this process, in bytes.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok()).unwrap_or(0.0)
    };
    (field("VmRSS:") + field("VmPTE:")) * 1024.0
}

fn memory() -> f64 {
    const FIBERS: u32 = 1_000_000;
    let (gate, arrived) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let before = resident();
    let fibers: Vec<_> = (0..FIBERS)
        .map(|_| {
            let (gate, arrived) = (gate.clone(), arrived.clone());
            let wait = move || {
                arrived.fetch_add(1, Ordering::Relaxed);
                gate.wait();
            };
            spawn(wait).expect("a fiber")
        })
        .collect();
    let handles = size_of_val(fibers.as_slice());
    while arrived.load(Ordering::Relaxed) < FIBERS as usize {
        yield_now();
    }
    let after = resident();
    (0..FIBERS).for_each(|_| gate.post());
    fibers.into_iter().for_each(|fiber| fiber.join().expect("its end"));
    (after - before - handles as f64) / f64::from(FIBERS)
}

fn tree() -> f64 {
    const DEPTH: u32 = 20;
    let nodes = (1_u32 << DEPTH) - 1;
    timed(nodes, || assert_eq!(node(DEPTH), nodes))
}

/// The number of nodes below and with this one; each is a fiber but the first.
fn node(depth: u32) -> u32 {
    if depth == 1 {
        return 1;
    }
    let child = || spawn(move || node(depth - 1)).expect("a fiber");
    let (left, right) = (child(), child());
    1 + right.join().expect("its value") + left.join().expect("its value")
}
