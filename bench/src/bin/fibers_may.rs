//! Table 1 of the SCALE paper on the coroutines of `may`: `fibers_may ROW WAITING ROUNDS`, a line of JSON.

use std::sync::Arc;
use std::time::Instant;

use may::coroutine::{self, JoinHandle, yield_now};
use may::sync::{Mutex, Semphore};
use weft_bench::Report;

const LINKS: u32 = 10;

fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    // SAFETY: the bodies here keep nothing of their thread across a switch, and their frames are small.
    unsafe { coroutine::spawn(body) }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| arguments.get(at).map_or(Ok(1), |text| text.parse::<u32>());
    let (row, waiting, rounds) = (arguments.get(1).cloned().unwrap_or_default(), number(2)?, number(3)?);
    may::config().set_workers(1).set_stack_size(0x1000);
    let theirs = row.clone();
    let measured = spawn(move || {
        let gate = Arc::new(Semphore::new(0));
        for _ in 0..waiting {
            let gate = gate.clone();
            spawn(move || gate.wait());
        }
        yield_now();
        measure(&theirs, rounds)
    });
    let ns = measured.join().map_err(|_| "the coroutine panicked")?;
    let report = Report::new().text("program", "may").text("row", &row);
    report.count("waiting", waiting.into()).number("ns", ns).print();
    std::process::exit(0);
}

fn measure(row: &str, rounds: u32) -> f64 {
    let start = Instant::now();
    match row {
        "mutex" => {
            let mutex = Mutex::new(());
            (0..rounds).for_each(|_| drop(mutex.lock()));
        }
        "semaphore" => {
            let semaphore = Semphore::new(0);
            (0..rounds).for_each(|_| {
                semaphore.post();
                semaphore.wait();
            });
        }
        "yield" => {
            let part = move || (0..rounds / 2).for_each(|_| yield_now());
            let other = spawn(part);
            part();
            other.join().expect("its end");
        }
        "chain" => return chain(rounds),
        "create" => (0..rounds).for_each(|round| {
            assert_eq!(spawn(move || round).join().expect("its value"), round);
        }),
        other => panic!("no row is called {other}"),
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(rounds)
}

fn chain(rounds: u32) -> f64 {
    let laps = rounds / LINKS;
    let turns: Arc<Vec<Semphore>> = Arc::new((0..=LINKS).map(|_| Semphore::new(0)).collect());
    for place in 0..LINKS as usize {
        let turns = turns.clone();
        spawn(move || {
            for lap in 0..laps {
                turns[place].wait();
                let next = place + 1;
                let is_last = next == LINKS as usize && lap + 1 == laps;
                turns[if is_last { next } else { next % LINKS as usize }].post();
            }
        });
    }
    yield_now();
    let start = Instant::now();
    turns[0].post();
    turns[LINKS as usize].wait();
    start.elapsed().as_secs_f64() * 1e9 / f64::from(laps * LINKS)
}
