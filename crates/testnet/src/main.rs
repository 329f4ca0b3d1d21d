//! Runs seeds of the test network and prints what came of them.
//!
//! ```text
//! weft-testnet [--seeds N] [--from FIRST] [--threads N]   runs seeds FIRST..FIRST+N and prints a summary
//! weft-testnet --seed N [--trace] [--plan]                 runs one seed, tells of every event, or prints its plan
//! weft-testnet --sides [--seed N [--trace]] [--seeds N]   the same of networks with I/O nodes between them
//! weft-testnet --model usual|deep                          searches all states of open and close
//! ```
//!
//! Every thirty-second seed runs twice and must give the same trace hash (I10). The exit code is 1 if a seed failed.

use std::process::ExitCode;
use std::{iter, panic, thread};

use weft_testnet::model::{self, Scenario};
use weft_testnet::plan::Plan;
use weft_testnet::report::{Failure, Network, Report};
use weft_testnet::{seeds, sides};

const KNOWN: &str =
    "--seed N, --trace, --plan, --seeds N, --from N, --threads N, --sides, --model usual|deep";

/// What the command line asks for.
#[derive(Debug)]
struct Request {
    seed: Option<u64>,
    trace: bool,
    plan: bool,
    only: Option<Network>,
    from: u64,
    seeds: u64,
    threads: u64,
    scenarios: Vec<Scenario>,
}

fn main() -> ExitCode {
    let request = match parse(std::env::args().skip(1)) {
        Ok(request) => request,
        Err(message) => {
            eprintln!("weft-testnet: {message}");
            return ExitCode::from(2);
        }
    };
    if !request.scenarios.is_empty() {
        return search_all(&request);
    }
    let outcome = match request.seed {
        Some(seed) => run_one(seed, &request),
        None => run_many(&request),
    };
    match outcome {
        Ok(report) => {
            print!("{report}");
            ExitCode::SUCCESS
        }
        Err(failures) => {
            for failure in &failures {
                eprintln!("{failure}");
            }
            let seeds: Vec<String> = failures.iter().map(|failure| failure.seed.to_string()).collect();
            eprintln!("{} seeds failed: {}", seeds.len(), seeds.join(" "));
            ExitCode::FAILURE
        }
    }
}

fn run_one(seed: u64, request: &Request) -> Result<Report, Vec<Failure>> {
    let network = request.only.unwrap_or(Network::Direct);
    match network {
        Network::Direct if request.plan => println!("{:#?}", Plan::draw(seed)),
        Network::Sides if request.plan => println!("{:#?}", sides::plan::Plan::draw(seed)),
        Network::Direct | Network::Sides => {}
    }
    seeds::run(network, seed, request.trace).map_err(|failure| vec![*failure])
}

/// The scenarios are dealt out to the threads.
fn search_all(request: &Request) -> ExitCode {
    let threads = usize::try_from(request.threads).unwrap_or(1).max(1);
    let all = &request.scenarios;
    let outcomes: Vec<bool> = thread::scope(|scope| {
        let shares = (0..threads).map(|share| {
            scope.spawn(move || {
                all.iter().skip(share).step_by(threads).all(|scenario| tell_search(scenario.clone()))
            })
        });
        let shares: Vec<_> = shares.collect();
        shares.into_iter().map(|share| share.join().unwrap_or(false)).collect()
    });
    if outcomes.iter().all(|is_sound| *is_sound) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn tell_search(scenario: Scenario) -> bool {
    let name = scenario.name;
    match model::search(scenario) {
        Ok(found) => {
            println!(
                "{name}: {} states, {} steps, depth {}, none stuck or false",
                found.states, found.steps, found.depth
            );
            true
        }
        Err(found) => {
            eprintln!("{found}");
            false
        }
    }
}

/// What one thread found.
#[derive(Default)]
struct Share {
    report: Report,
    failures: Vec<Failure>,
    has_panicked: bool,
}

/// Runs seed after seed; one that panics is told, and the others run all the same.
fn run_share(numbers: impl Iterator<Item = u64>, only: Option<Network>) -> Share {
    let mut share = Share::default();
    for seed in numbers {
        match panic::catch_unwind(|| seeds::run_all(iter::once(seed), only)) {
            Ok((report, failures)) => {
                share.report.merge(&report);
                share.failures.extend(failures);
            }
            Err(_) => {
                eprintln!("seed {seed} panicked, see above; repeat it with --seed {seed}");
                share.has_panicked = true;
            }
        }
    }
    share
}

/// The seeds are dealt out to the threads, which share nothing; the report does not depend on how many there are.
fn run_many(request: &Request) -> Result<Report, Vec<Failure>> {
    let threads = request.threads.max(1);
    let outcomes: Vec<Share> = thread::scope(|scope| {
        let shares: Vec<_> = (0..threads)
            .map(|share| {
                let all = request.from..request.from + request.seeds;
                let numbers = all.filter(move |seed| seed % threads == share);
                let only = request.only;
                scope.spawn(move || run_share(numbers, only))
            })
            .collect();
        // Panics are caught seed by seed.
        shares.into_iter().filter_map(|share| share.join().ok()).collect()
    });
    let mut has_panicked = (outcomes.len() as u64) < threads;
    let mut report = Report::default();
    let mut failures = Vec::new();
    for share in outcomes {
        report.merge(&share.report);
        failures.extend(share.failures);
        has_panicked |= share.has_panicked;
    }
    if failures.is_empty() && !has_panicked { Ok(report) } else { Err(failures) }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Request, String> {
    let (from, seeds, threads) = (0, 2_000, 2);
    let scenarios = Vec::new();
    let mut request =
        Request { seed: None, trace: false, plan: false, only: None, from, seeds, threads, scenarios };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--trace" => request.trace = true,
            "--plan" => request.plan = true,
            "--sides" => request.only = Some(Network::Sides),
            "--seed" => request.seed = Some(number(&word, words.next())?),
            "--seeds" => request.seeds = number(&word, words.next())?,
            "--from" => request.from = number(&word, words.next())?,
            "--threads" => request.threads = number(&word, words.next())?,
            "--model" => request.scenarios = scenarios_of(words.next().as_deref())?,
            _ => return Err(format!("\"{word}\" is not known; known are {KNOWN}")),
        }
    }
    Ok(request)
}

fn scenarios_of(word: Option<&str>) -> Result<Vec<Scenario>, String> {
    match word {
        Some("usual") => Ok(Scenario::usual()),
        Some("deep") => Ok(Scenario::deep()),
        _ => Err("--model needs \"usual\" or \"deep\"".to_owned()),
    }
}

fn number(name: &str, word: Option<String>) -> Result<u64, String> {
    let word = word.ok_or_else(|| format!("{name} needs a number"))?;
    word.parse().map_err(|_| format!("{name} needs a number, and \"{word}\" is none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> impl Iterator<Item = String> {
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().into_iter()
    }

    #[test]
    fn a_command_line_is_read() {
        let request = parse(words("--seed 7 --trace")).unwrap();
        assert_eq!((request.seed, request.trace), (Some(7), true));
        assert_eq!(parse(words("")).unwrap().seeds, 2_000);
    }

    #[test]
    fn a_wrong_word_is_named() {
        assert!(parse(words("--sed 7")).unwrap_err().contains("--sed"));
        assert!(parse(words("--seed x")).unwrap_err().contains("\"x\""));
        assert!(parse(words("--model shallow")).unwrap_err().contains("deep"));
    }
}
