//! Table 1 of the SCALE paper on tokio's tasks: `fibers_tokio ROW WAITING ROUNDS [WORKERS]`, a line of JSON.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{Mutex, Semaphore};
use tokio::task::yield_now;
use weft_bench::Report;

const LINKS: u32 = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| arguments.get(at).map_or(Ok(1), |text| text.parse::<u32>());
    let (row, waiting, rounds, workers) =
        (arguments.get(1).cloned().unwrap_or_default(), number(2)?, number(3)?, number(4)?);
    let runtime = match workers {
        1 => tokio::runtime::Builder::new_current_thread().build()?,
        _ => tokio::runtime::Builder::new_multi_thread().worker_threads(workers as usize).build()?,
    };
    let theirs = row.clone();
    let ns = runtime.block_on(async move {
        let gate = Arc::new(Semaphore::new(0));
        for _ in 0..waiting {
            let gate = gate.clone();
            tokio::spawn(async move { gate.acquire().await.map(drop) });
        }
        yield_now().await;
        // On a worker of its own, as the others are.
        tokio::spawn(async move { measure(&theirs, rounds).await }).await
    })?;
    let report = Report::new().text("program", "tokio").text("row", &row);
    report.count("waiting", waiting.into()).count("workers", workers.into()).number("ns", ns).print();
    Ok(())
}

async fn measure(row: &str, rounds: u32) -> f64 {
    let start = Instant::now();
    let operations = match row {
        "mutex" => {
            let mutex = Mutex::new(());
            for _ in 0..rounds {
                drop(mutex.lock().await);
            }
            rounds
        }
        "semaphore" => {
            let semaphore = Semaphore::new(0);
            for _ in 0..rounds {
                semaphore.add_permits(1);
                semaphore.acquire().await.expect("it is open").forget();
            }
            rounds
        }
        "yield" => {
            let part = || async move {
                for _ in 0..rounds / 2 {
                    yield_now().await;
                }
            };
            let other = tokio::spawn(part());
            part().await;
            other.await.expect("its end");
            rounds
        }
        "chain" => return chain(rounds).await,
        "create" => {
            for round in 0..rounds {
                assert_eq!(tokio::spawn(async move { round }).await.expect("its value"), round);
            }
            rounds
        }
        "tree" => node(20).await,
        other => panic!("no row is called {other}"),
    };
    start.elapsed().as_secs_f64() * 1e9 / f64::from(operations)
}

async fn chain(rounds: u32) -> f64 {
    let laps = rounds / LINKS;
    let turns: Arc<Vec<Semaphore>> = Arc::new((0..=LINKS).map(|_| Semaphore::new(0)).collect());
    for place in 0..LINKS as usize {
        let turns = turns.clone();
        tokio::spawn(async move {
            for lap in 0..laps {
                turns[place].acquire().await.expect("it is open").forget();
                let next = place + 1;
                let is_last = next == LINKS as usize && lap + 1 == laps;
                turns[if is_last { next } else { next % LINKS as usize }].add_permits(1);
            }
        });
    }
    yield_now().await;
    let start = Instant::now();
    turns[0].add_permits(1);
    turns[LINKS as usize].acquire().await.expect("it is open").forget();
    start.elapsed().as_secs_f64() * 1e9 / f64::from(laps * LINKS)
}

fn node(depth: u32) -> std::pin::Pin<Box<dyn Future<Output = u32> + Send>> {
    Box::pin(async move {
        if depth == 1 {
            return 1;
        }
        let (left, right) = (tokio::spawn(node(depth - 1)), tokio::spawn(node(depth - 1)));
        1 + left.await.expect("its value") + right.await.expect("its value")
    })
}
