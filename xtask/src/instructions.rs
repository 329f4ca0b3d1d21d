//! What a packet costs in instructions, counted under callgrind and compared with the figures that the tree keeps.
//!
//! A count does not depend on what else the machine does, but on the compiler: figures are kept for one version of it, and
//! with another nothing is compared. It depends on the processor only where code asks which instructions there are.

use std::path::Path;
use std::process::Command;

use toml::{Table, Value};

use crate::outcome::Done;

/// Where the figures are kept.
const KEPT: &str = "bench/instructions.toml";
/// Programs of `bench/src/bin` that are counted, with their scenarios; the last word is under which the figure is kept.
const SCENARIOS: [&str; 5] = ["packets bulk", "packets jumbo", "packets messages", "packets ping", "calls"];
/// The one that has threads which look at a clock now and then: of so many runs the least counts.
const WITH_THREADS: (&str, usize) = ("calls", 5);
/// More than this share above the kept figure is a failure.
const TOLERANCE: f64 = 0.03;
/// Two runs whose difference is counted, so that start and end of the program do not count.
const COUNTS: [u64; 2] = [200, 400];

/// Counts and compares; fails where a packet has become dearer.
pub(crate) fn check(root: &Path) -> Result<Done, String> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("instructions: SKIPPED: valgrind is not installed");
        return Ok(Done::Skipped);
    }
    let path = root.join(KEPT);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{KEPT}: {error}"))?;
    let kept: Table = text.parse().map_err(|error| format!("{KEPT}: {error}"))?;
    let compiler = compiler()?;
    if kept.get("compiler").and_then(Value::as_str) != Some(&compiler) {
        println!("instructions: SKIPPED: {KEPT} was not written with {compiler}");
        return Ok(Done::Skipped);
    }
    let mut dearer = Vec::new();
    for (scenario, counted) in count_all(root)? {
        let before =
            kept.get(scenario).and_then(Value::as_integer).ok_or(format!("{KEPT}: no {scenario}"))?;
        let change = share(counted, before);
        println!("{scenario:10} {counted:6} instructions a packet, {:+.1} % of {before}", change * 100.0);
        if change > TOLERANCE {
            dearer.push(scenario);
        }
    }
    if dearer.is_empty() {
        return Ok(Done::Well);
    }
    Err(format!(
        "a packet costs over {:.0} % more in: {}; make it cheaper, or say why and `cargo xtask instructions --write`",
        TOLERANCE * 100.0,
        dearer.join(", ")
    ))
}

/// Counts, and keeps the figures.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    let mut table = Table::new();
    table.insert("compiler".to_owned(), compiler()?.into());
    for (scenario, counted) in count_all(root)? {
        table.insert(scenario.to_owned(), counted.into());
    }
    let head = "# Instructions a packet costs at both ends together, without the kernel: `cargo xtask instructions --write`.\n";
    std::fs::write(root.join(KEPT), format!("{head}{table}")).map_err(|error| format!("{KEPT}: {error}"))
}

#[allow(clippy::cast_precision_loss)] // thousands
fn share(counted: i64, before: i64) -> f64 {
    counted as f64 / before.max(1) as f64 - 1.0
}

fn compiler() -> Result<String, String> {
    let told = Command::new("rustc").arg("--version").output().map_err(|error| format!("rustc: {error}"))?;
    Ok(String::from_utf8_lossy(&told.stdout).trim().to_owned())
}

fn count_all(root: &Path) -> Result<Vec<(&'static str, i64)>, String> {
    let build = ["build", "--release", "--package", "weft-bench", "--bin", "packets", "--bin", "calls"];
    let built = Command::new("cargo").args(build).current_dir(root).status();
    if !built.is_ok_and(|status| status.success()) {
        return Err("instructions: the programs that are counted cannot be built".to_owned());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), |folder| root.join(folder));
    let folder = target.join("release");
    SCENARIOS.iter().map(|scenario| Ok((name(scenario), per_packet(&folder, scenario)?))).collect()
}

fn name(scenario: &str) -> &str {
    scenario.rsplit(' ').next().unwrap_or(scenario)
}

fn per_packet(folder: &Path, scenario: &str) -> Result<i64, String> {
    let [few, many] = COUNTS;
    let (few, many) = (least(folder, scenario, few)?, least(folder, scenario, many)?);
    let packets = many.packets - few.packets;
    if packets <= 0 {
        return Err(format!("instructions: {scenario} sends no packets"));
    }
    Ok((many.instructions - few.instructions) / packets)
}

struct Count {
    instructions: i64,
    packets: i64,
}

/// The least count of as many runs as the scenario needs.
fn least(folder: &Path, scenario: &str, count: u64) -> Result<Count, String> {
    let runs = if scenario == WITH_THREADS.0 { WITH_THREADS.1 } else { 1 };
    let counts: Vec<Count> = (0..runs).map(|_| run(folder, scenario, count)).collect::<Result<_, _>>()?;
    counts
        .into_iter()
        .min_by_key(|count| count.instructions)
        .ok_or(format!("instructions: {scenario} was not run"))
}

fn run(folder: &Path, scenario: &str, count: u64) -> Result<Count, String> {
    let mut words = scenario.split(' ');
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(folder.join(words.next().unwrap_or_default()))
        .args(words)
        .arg(count.to_string())
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let (told, log) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let packets = told.trim().parse().ok();
    match (output.status.success(), packets, instructions(&log)) {
        (true, Some(packets), Some(instructions)) => Ok(Count { instructions, packets }),
        _ => Err(format!("instructions: {scenario} under valgrind: {}", log.trim())),
    }
}

/// What callgrind says it collected.
fn instructions(log: &str) -> Option<i64> {
    let line = log.lines().find(|line| line.contains("Collected"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_read_from_the_log() {
        let log = "==12== Events    : Ir\n==12== Collected : 60645236\n==12== \n";
        assert_eq!(instructions(log), Some(60_645_236));
        assert_eq!(instructions("==12== killed"), None);
    }

    #[test]
    fn a_share_is_of_what_was_before() {
        assert!(share(103, 100) <= TOLERANCE + 1e-9 && share(104, 100) > TOLERANCE && share(90, 100) < 0.0);
    }

    #[test]
    fn the_kept_figures_can_be_read() {
        let text = std::fs::read_to_string(crate::root().join(KEPT)).unwrap();
        let kept: Table = text.parse().unwrap();
        assert!(SCENARIOS.iter().all(|scenario| kept.get(name(scenario)).is_some_and(Value::is_integer)));
    }
}
