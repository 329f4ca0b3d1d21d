//! Searches per second of the socket table, by number of threads and scheme (the paper's figure 9, for the table alone).
//!
//! ```text
//! cargo run --release -p weft-engine --example table_scaling -- [THREADS_MAX] [CONNECTIONS] [LISTS] [MILLISECONDS]
//! ```
//!
//! Receiving threads search for random connections as fast as they can, while one more thread, timer and user in one,
//! removes and inserts a connection every 100 µs, so that their number fluctuates as in the paper's experiment. Rates
//! are by the processor time that a thread used, so that other programs on the machine disturb them little; with more
//! threads than processors they count as if each had its own. Each figure is the median of five runs; the spread is the
//! distance between the slowest and the fastest.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use weft_base::{Address, FlowKey, NodeId, Port};
use weft_engine::table::{Keyed, Limits, Scheme, Table};

const RUNS: usize = 5;
const CHURN_PAUSE: Duration = Duration::from_micros(100);

/// A connection, of which only the flow matters.
#[repr(align(8))]
struct Entry(FlowKey);

impl Keyed for Entry {
    fn flow(&self) -> &FlowKey {
        &self.0
    }
}

struct Experiment {
    threads_max: usize,
    connections: u32,
    lists: usize,
    duration: Duration,
}

fn main() -> std::io::Result<()> {
    let mut numbers = std::env::args().skip(1).map(|argument| argument.parse::<u32>());
    let mut next = |default| numbers.next().unwrap_or(Ok(default));
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
    let processors = u32::try_from(processors).unwrap_or(u32::MAX);
    let (Ok(threads_max), Ok(connections), Ok(lists), Ok(millis)) =
        (next(processors), next(128), next(64), next(200))
    else {
        eprintln!("table_scaling: every argument is a number: THREADS_MAX CONNECTIONS LISTS MILLISECONDS");
        std::process::exit(2);
    };
    let experiment = Experiment {
        threads_max: threads_max.max(1) as usize,
        connections: connections.max(1),
        lists: lists as usize,
        duration: Duration::from_millis(millis.into()),
    };
    experiment.print(&mut std::io::stdout().lock(), processors)
}

impl Experiment {
    fn print(&self, out: &mut impl Write, processors: u32) -> std::io::Result<()> {
        let Self { connections, lists, duration, .. } = self;
        writeln!(
            out,
            "{connections} connections in {lists} lists, {processors} processors, {duration:?} a run"
        )?;
        writeln!(out, "million searches a second (speed-up; spread of {RUNS} runs)")?;
        write!(out, "{:>7}", "threads")?;
        Scheme::ALL.iter().try_for_each(|scheme| write!(out, "  {:>26}", scheme.name()))?;
        writeln!(out)?;
        let mut single = [0.0; Scheme::ALL.len()];
        for threads in self.thread_counts() {
            write!(out, "{threads:>7}")?;
            for (scheme, single) in Scheme::ALL.into_iter().zip(&mut single) {
                let mut rates: Vec<f64> = (0..RUNS).map(|_| self.rate(scheme, threads)).collect();
                rates.sort_by(f64::total_cmp);
                let (rate, spread) = (rates[RUNS / 2], rates[RUNS - 1] - rates[0]);
                if threads == 1 {
                    *single = rate;
                }
                write!(out, "  {rate:>8.2} ({:>6.2}x; {:>6.2})", rate / *single, spread)?;
                out.flush()?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    /// 1, 2, 4 and so on, and the greatest.
    fn thread_counts(&self) -> impl Iterator<Item = usize> {
        let doubled = std::iter::successors(Some(1), |count| Some(count * 2));
        doubled.take_while(|&count| count < self.threads_max).chain([self.threads_max])
    }

    /// Millions of searches a second of one run.
    fn rate(&self, scheme: Scheme, threads: usize) -> f64 {
        let limits = Limits { lists: self.lists, ..Limits::default() };
        let table = scheme.table([0x57; 16], limits);
        for number in 0..self.connections {
            table
                .insert(Arc::new(Entry(flow(number))))
                .expect("the flows differ, and the table is large enough");
        }
        let (start, is_over) = (Barrier::new(threads + 1), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let searchers: Vec<_> = (0..threads)
                .map(|thread| {
                    let (table, start, is_over) = (&*table, &start, &is_over);
                    scope.spawn(move || {
                        start.wait();
                        self.search(table, thread, is_over)
                    })
                })
                .collect();
            start.wait();
            self.churn(&*table);
            is_over.store(true, Ordering::Relaxed);
            searchers.into_iter().map(|searcher| searcher.join().expect("a searcher does not panic")).sum()
        })
    }

    /// One receiving thread, and its rate.
    fn search(&self, table: &dyn Table<Entry>, thread: usize, is_over: &AtomicBool) -> f64 {
        // A full-period generator; each thread begins elsewhere.
        let mut random = thread as u64 * 0x9E37_79B9_7F4A_7C15;
        let (begin, mut searches) = (processor_time(), 0_u32);
        while !is_over.load(Ordering::Relaxed) {
            for _ in 0..64 {
                random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
                let number = u32::try_from(((random >> 32) * u64::from(self.connections)) >> 32).unwrap_or(0);
                std::hint::black_box(table.find(&flow(number)));
            }
            searches += 64;
        }
        f64::from(searches) / (processor_time() - begin).as_secs_f64() / 1e6
    }

    /// Timer and user in one: until the run is over, connections go and come.
    fn churn(&self, table: &dyn Table<Entry>) {
        let begin = Instant::now();
        for number in (0..self.connections).cycle() {
            if begin.elapsed() >= self.duration {
                return;
            }
            if let Some(value) = table.remove(&flow(number)) {
                table.insert(value).expect("there is room for what was just removed");
            }
            std::thread::sleep(CHURN_PAUSE);
        }
    }
}

/// What this thread has used of a processor: the first number of its scheduler statistics, in nanoseconds.
fn processor_time() -> Duration {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux with /proc");
    let nanos = statistics.split_whitespace().next().and_then(|number| number.parse().ok());
    Duration::from_nanos(nanos.expect("a number of nanoseconds"))
}

fn flow(number: u32) -> FlowKey {
    let end = |node, port| Address {
        node: NodeId::new(node).expect("a node number in range"),
        port: Port::new(port).expect("a port above 0"),
    };
    let port = u16::try_from(number % 50_000).unwrap_or(0) + 1_024;
    FlowKey { local: end(1, 7), remote: end(2 + number / 50_000, port) }
}
