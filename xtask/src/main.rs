//! Checks of the house, one command each: `cargo xtask tidy | spec | ci | instructions | install`.
//!
//! This crate knows the whole tree as text and no room from inside.

mod ci;
mod install;
mod instructions;
mod limit;
mod outcome;
mod source;
mod spec;
mod tidy;
mod tree;
mod trial;

use std::path::PathBuf;
use std::process::ExitCode;

use outcome::{Done, SKIPPED};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy                  compare the tree with the table of rooms and the rules of the house
  spec                  fail if a MUST of docs/spec/cdp.md is cited by no test and excused by no reason
  spec --list           every requirement with where code and tests cite it
  spec --uncited        the requirements that no test, and those that no code, cites
  ci [STEP…]            the steps of continuous integration, tests included; all, or those named
  ci --list             the steps with their commands
  instructions          count what a packet costs, and fail if it is more than bench/instructions.toml says
  instructions --write  count, and write the file
  install --prefix DIR  build and install the C library, header and pkg-config file
  install --prefix DIR --try
                        and compile and run the C example against what was installed, found by pkg-config";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let root = root();
    let outcome = match words.as_slice() {
        ["tidy"] => tidy::run(&root),
        ["spec"] => spec::run(&root, spec::View::Verdict),
        ["spec", "--list"] => spec::run(&root, spec::View::List),
        ["spec", "--uncited"] => spec::run(&root, spec::View::Uncited),
        ["ci", "--list"] => {
            ci::list();
            Ok(())
        }
        ["ci", steps @ ..] => ci::run(&root, steps),
        ["instructions"] => match instructions::check(&root) {
            Ok(Done::Skipped) => return ExitCode::from(SKIPPED),
            Ok(Done::Well) => Ok(()),
            Err(message) => Err(message),
        },
        ["instructions", "--write"] => instructions::write(&root),
        ["install", "--prefix", prefix] => install::run(&root, &PathBuf::from(prefix)).map(|_| ()),
        ["install", "--prefix", prefix, "--try"] => {
            install::run(&root, &PathBuf::from(prefix)).and_then(|installed| trial::run(&root, &installed))
        }
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The repository's root: the folder above this crate.
fn root() -> PathBuf {
    let mut path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    path.pop();
    path
}
