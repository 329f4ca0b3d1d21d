//! The steps of continuous integration, each timed; the list is the whole of it, for people and for robots.

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use crate::limit;
use crate::outcome::SKIPPED;

/// What the whole list may take on two cores from a clean clone.
const BUDGET: Duration = Duration::from_secs(20 * 60);
/// What hangs is ended after this, so that the steps behind it still run.
const STEP_LIMIT: Duration = Duration::from_secs(30 * 60);

/// One step: a name, variables of its own, and a command run in the root.
struct Step {
    name: &'static str,
    variables: &'static [(&'static str, &'static str)],
    command: &'static [&'static str],
}

const fn step(name: &'static str, command: &'static [&'static str]) -> Step {
    Step { name, variables: &[], command }
}

/// A step under the model checker, which needs other flags and so a folder of its own for what it builds.
const fn loom(name: &'static str, command: &'static [&'static str]) -> Step {
    Step { name, variables: &[("RUSTFLAGS", "--cfg loom"), ("CARGO_TARGET_DIR", "target/loom")], command }
}

/// All steps, in order: the cheap ones that fail often first, the README's test command among them.
const STEPS: &[Step] = &[
    step("fmt", &["cargo", "fmt", "--all", "--check"]),
    step("tidy", &["cargo", "xtask", "tidy"]),
    step("spec", &["cargo", "xtask", "spec"]),
    step("test", &["cargo", "test", "--workspace", "--no-fail-fast"]),
    // What is built only where it is asked for.
    step(
        "tracing",
        &["cargo", "test", "--package", "weft-fiber", "--features", "tracing", "--test", "tracing*"],
    ),
    step("clippy", &["cargo", "clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    Step {
        name: "doc",
        variables: &[("RUSTDOCFLAGS", "-D warnings")],
        command: &["cargo", "doc", "--workspace", "--no-deps"],
    },
    // Both at once, and both with the features that the tests of the one ask for: else the checker is built twice.
    loom(
        "loom",
        &["cargo", "test", "--package", "weft-sync", "--package", "weft-fiber", "--lib", "--test", "loom_*"],
    ),
    loom("loom-table", &["cargo", "test", "--package", "weft-engine", "--test", "loom_table"]),
    step("seeds", &["cargo", "run", "--release", "--bin", "weft-testnet", "--", "--seeds", "2000"]),
    // What the tests built does: an optimized command takes longer to link than this takes to run.
    step("demo", &["cargo", "run", "--bin", "weft", "--", "demo", "--quick", "--out", "target/ci-demo"]),
    step("instructions", &["cargo", "xtask", "instructions"]),
    step("install", &["cargo", "xtask", "install", "--prefix", "target/ci-prefix", "--try"]),
    step("dissector", &["bash", "dissector/test.sh"]),
    Step {
        name: "fuzz",
        variables: &[("CARGO_TARGET_DIR", "target/fuzz")],
        command: &["cargo", "check", "--manifest-path", "fuzz/Cargo.toml"],
    },
];

fn shown(step: &Step) -> String {
    let variables = step.variables.iter().map(|(name, value)| format!("{name}=\"{value}\" "));
    variables.chain(std::iter::once(step.command.join(" "))).collect()
}

/// Prints the steps with their commands.
pub(crate) fn list() {
    for step in STEPS {
        println!("{:12} {}", step.name, shown(step));
    }
}

/// Runs the steps named by `names`, or all; goes on after a failure, and fails at the end if any step did.
pub(crate) fn run(root: &Path, names: &[&str]) -> Result<(), String> {
    if let Some(unknown) = names.iter().find(|name| !STEPS.iter().any(|step| step.name == **name)) {
        return Err(format!("ci: no step is called \"{unknown}\"; `cargo xtask ci --list` shows them"));
    }
    let begin = Instant::now();
    let mut table = String::new();
    let mut failed = Vec::new();
    for step in STEPS.iter().filter(|step| names.is_empty() || names.contains(&step.name)) {
        println!("\n=== {}: {}", step.name, shown(step));
        let start = Instant::now();
        let verdict = runs(root, step);
        let line = format!("{:12} {:7} {:7.1} s", step.name, verdict.word(), start.elapsed().as_secs_f64());
        println!("=== {line}");
        table.push_str(&format!("  {line}\n"));
        if verdict == Verdict::Failed {
            failed.push(step.name);
        }
    }
    println!("\nci: {:.1} s of {} s\n{table}", begin.elapsed().as_secs_f64(), BUDGET.as_secs());
    if begin.elapsed() > BUDGET {
        println!("ci: LONGER THAN ITS BUDGET; on two idle cores this is a defect of the list");
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("ci: failed: {}", failed.join(", "))) }
}

/// How a step ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Passed,
    /// It said that it could not do what it is for.
    Skipped,
    Failed,
}

impl Verdict {
    fn of(status: ExitStatus) -> Self {
        match status.code() {
            Some(0) => Self::Passed,
            Some(code) if code == i32::from(SKIPPED) => Self::Skipped,
            _ => Self::Failed,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Passed => "ok",
            Self::Skipped => "SKIPPED",
            Self::Failed => "FAILED",
        }
    }
}

fn runs(root: &Path, step: &Step) -> Verdict {
    let Some((program, arguments)) = step.command.split_first() else { return Verdict::Failed };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root).envs(step.variables.iter().copied());
    match limit::status(&mut command, STEP_LIMIT) {
        Ok(Some(status)) => Verdict::of(status),
        Ok(None) => {
            println!("{}: has not ended after {} s: killed", step.name, STEP_LIMIT.as_secs());
            Verdict::Failed
        }
        Err(error) => {
            println!("{program}: cannot be run: {error}");
            Verdict::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn trial(command: &'static [&'static str]) -> Step {
        step("trial", command)
    }

    #[test]
    fn a_step_fails_with_its_command_and_when_the_command_is_missing() {
        let root = crate::root();
        assert_eq!(runs(&root, &trial(&["true"])), Verdict::Passed);
        assert_eq!(runs(&root, &trial(&["sh", "-c", "exit 77"])), Verdict::Skipped);
        for command in [&["false"][..], &["no-such-program-here"], &[]] {
            assert_eq!(runs(&root, &Step { name: "trial", variables: &[], command }), Verdict::Failed);
        }
    }

    #[test]
    fn an_unknown_step_is_named() {
        assert!(run(&crate::root(), &["nap"]).unwrap_err().contains("\"nap\""));
    }

    #[test]
    fn a_step_is_shown_as_one_would_type_it() {
        let doc = STEPS.iter().find(|step| step.name == "doc").unwrap();
        assert_eq!(shown(doc), "RUSTDOCFLAGS=\"-D warnings\" cargo doc --workspace --no-deps");
    }

    #[test]
    fn the_readme_names_the_command_that_tests() {
        let readme = std::fs::read_to_string(crate::root().join("README.md")).unwrap();
        let test = STEPS.iter().find(|step| step.name == "test").unwrap();
        assert!(readme.contains(&shown(test)), "README.md does not name `{}`", shown(test));
    }

    #[test]
    fn step_names_are_unique() {
        for (index, step) in STEPS.iter().enumerate() {
            assert!(STEPS[..index].iter().all(|other| other.name != step.name), "{}", step.name);
        }
    }
}
