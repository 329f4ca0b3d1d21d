//! How a file looks: its length, its opening, and marks of unfinished or local work.

use toml::{Table, Value};

use super::Finding;
use crate::source;
use crate::tree::File;

/// The files that may be long, each with its reason.
pub(super) const LONG_FILES: &str = "xtask/long-files.toml";
/// Lines past which a file is looked at.
const LINES_WARN: usize = 370;
/// Lines past which it must be a test, or listed with a reason.
const LINES_MAX: usize = 600;

/// Lines past which a function is looked at.
const FUNCTION_LINES_WARN: usize = 70;

/// Words that say a thing is not done. Written in two parts, so that this file does not say them itself.
const UNFINISHED: [&str; 7] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("dbg", "!("),
    concat!("HA", "CK:"),
];
/// Beginnings of paths that exist on one machine only.
const LOCAL: [&str; 5] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
    concat!("/tm", "p/plan"),
];

/// The paths that the list of long files in `text` excuses.
pub(super) fn parse_long_files(text: &str) -> Result<Vec<String>, String> {
    let table = text.parse::<Table>().map_err(|error| format!("{LONG_FILES}: cannot be read: {error}"))?;
    let mut paths = Vec::new();
    for (path, reason) in table {
        if reason.as_str().is_none_or(|reason| reason.trim().len() < 10) {
            return Err(format!("{LONG_FILES}: {path} is listed without a reason"));
        }
        paths.push(path);
    }
    Ok(paths)
}

/// Checks the shape of every file; `long` are the files that may be long.
pub(super) fn check(long: &[String], files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        findings.extend(check_length(long, file));
        findings.extend(check_marks(file));
        if file.is_rust() {
            findings.extend(check_rust(file));
        }
        findings.extend(check_decision(file));
        findings.extend(check_manifest(file));
    }
    for path in long {
        let length = files.iter().find(|file| file.path == *path).map(|file| file.text.lines().count());
        if length.is_none_or(|lines| lines <= LINES_MAX) {
            findings.push(Finding::new(LONG_FILES, format!("{path} is no longer long, or no longer there")));
        }
    }
    findings
}

fn check_length(long: &[String], file: &File) -> Option<Finding> {
    let lines = file.text.lines().count();
    if !file.is_rust() || file.is_test() || long.contains(&file.path) || lines <= LINES_WARN {
        return None;
    }
    let finding =
        Finding::new(&file.path, format!("{lines} lines; split it by noun, or give tests their own file"));
    Some(if lines > LINES_MAX { finding } else { finding.into_warning() })
}

fn check_marks(file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let found = |marks: &[&'static str]| marks.iter().find(|mark| line.contains(**mark)).copied();
        if let Some(mark) = found(&UNFINISHED) {
            findings.push(Finding::new(&file.path, format!("`{mark}` marks unfinished work")).at(index + 1));
        }
        if let Some(path) = found(&LOCAL) {
            findings
                .push(Finding::new(&file.path, format!("`{path}` is a path of one machine")).at(index + 1));
        }
    }
    findings
}

fn check_rust(file: &File) -> Vec<Finding> {
    let mut findings = check_functions(file);
    let is_crate_root = ["src/lib.rs", "src/main.rs"].iter().any(|end| file.path.ends_with(end));
    if is_crate_root && !file.text.starts_with("//!") {
        findings.push(Finding::new(&file.path, "does not open with its purpose (`//!`)"));
    }
    for line in source::lines(&file.text) {
        if line.code.trim_start().starts_with("#![allow") {
            let finding = Finding::new(&file.path, "allows a lint for everything; allow it at its one place");
            findings.push(finding.at(line.number));
        }
    }
    findings
}

/// Functions of the product that are long; a table is not, as it is no function.
fn check_functions(file: &File) -> Vec<Finding> {
    let lines = source::lines(&file.text);
    let mut findings = Vec::new();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_test && !file.is_test()) {
        let Some(name) = function_name(&line.code) else { continue };
        let Some(end) = source::block_end(&lines, index) else { continue };
        let length = end + 1 - index;
        if length > FUNCTION_LINES_WARN {
            let text = format!(
                "`{name}` has {length} lines; decisions stay in the parent, work goes to named leaves"
            );
            findings.push(Finding::new(&file.path, text).at(line.number).into_warning());
        }
    }
    findings
}

/// The name of the function that `code` begins.
fn function_name(code: &str) -> Option<&str> {
    let mut words = code.split_whitespace();
    words
        .find(|word| {
            !["pub", "const", "async", "unsafe", "extern", "\"\""].contains(word) && !word.starts_with("pub(")
        })
        .filter(|word| *word == "fn")?;
    words.next()?.split(['(', '<']).next()
}

/// A decision is named by its number, and says whether it holds.
fn check_decision(file: &File) -> Option<Finding> {
    let name = file.path.strip_prefix("docs/adr/")?;
    if name == "README.md" {
        return None;
    }
    let is_numbered =
        name.len() > 5 && name[..4].bytes().all(|b| b.is_ascii_digit()) && name[4..].starts_with('-');
    if !is_numbered {
        return Some(Finding::new(&file.path, "a decision is named NNNN-what-was-decided.md"));
    }
    let says_status = file.text.lines().any(|line| line.starts_with("Status:"));
    (!says_status).then(|| Finding::new(&file.path, "a decision says `Status: …` on a line of its own"))
}

/// Versions stand once, in the workspace.
fn check_manifest(file: &File) -> Vec<Finding> {
    let is_room = file.room().is_some_and(|room| file.path == format!("crates/{room}/Cargo.toml"));
    let Some(table) = is_room.then(|| file.text.parse::<Table>().ok()).flatten() else { return Vec::new() };
    let sections = ["dependencies", "dev-dependencies", "build-dependencies"].into_iter();
    let mut findings = Vec::new();
    for (name, value) in sections.filter_map(|key| table.get(key)?.as_table()).flatten() {
        let is_shared = value.get("workspace").and_then(Value::as_bool) == Some(true);
        if !is_shared {
            findings.push(Finding::new(&file.path, format!("`{name}` is not taken from the workspace")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::file;

    fn complaints(path: &str, text: &str) -> Vec<String> {
        check(&[], &[file(path, text)]).iter().map(ToString::to_string).collect()
    }

    #[track_caller]
    fn assert_one(path: &str, text: &str, part: &str) {
        let found = complaints(path, text);
        assert!(found.len() == 1 && found[0].contains(part), "{found:?} is not one complaint of {part:?}");
    }

    #[test]
    fn a_long_file_is_warned_of_and_a_very_long_one_refused() {
        let lines = |count: usize| "a();\n".repeat(count);
        assert_eq!(complaints("crates/a/src/b.rs", &lines(LINES_WARN)), [""; 0]);
        assert_one("crates/a/src/b.rs", &lines(LINES_WARN + 1), "warning");
        assert_one("crates/a/src/b.rs", &lines(LINES_MAX + 1), "error");
        assert_eq!(complaints("crates/a/src/b/tests.rs", &lines(LINES_MAX + 1)), [""; 0]);
    }

    #[test]
    fn a_reason_excuses_length_until_the_file_is_short_again() {
        let listed = vec!["crates/a/src/b.rs".to_owned()];
        let long = file("crates/a/src/b.rs", &"a();\n".repeat(LINES_MAX + 1));
        assert_eq!(check(&listed, &[long]), []);
        assert_eq!(check(&listed, &[file("crates/a/src/b.rs", "a();\n")])[0].path, LONG_FILES);
    }

    #[test]
    fn a_listing_without_a_reason_is_refused() {
        assert_eq!(parse_long_files("\"a.rs\" = \"one table of states\"\n"), Ok(vec!["a.rs".to_owned()]));
        assert!(parse_long_files("\"a.rs\" = \"\"\n").unwrap_err().contains("a.rs"));
    }

    #[test]
    fn every_mark_of_unfinished_work_is_found() {
        for mark in UNFINISHED {
            assert_one("crates/a/src/b.rs", &format!("a();\n  {mark} later\n"), ":2:");
        }
    }

    #[test]
    fn every_path_of_one_machine_is_found() {
        for path in LOCAL {
            assert_one("docs/a.md", &format!("see {path}x\n"), "one machine");
        }
    }

    #[test]
    fn a_crate_opens_with_its_purpose() {
        assert_one("crates/a/src/lib.rs", "use std::fmt;\n", "purpose");
        assert_eq!(complaints("crates/a/src/lib.rs", "//! Purpose.\n"), [""; 0]);
    }

    #[test]
    fn a_lint_is_not_allowed_for_a_whole_crate() {
        assert_one("crates/a/src/b.rs", "#![allow(missing_docs)]\n", "everything");
    }

    #[test]
    fn a_long_function_is_warned_of() {
        let function = |lines: usize| format!("pub(crate) fn f(\n) {{\n{}}}\n", "a();\n".repeat(lines));
        assert_eq!(complaints("crates/a/src/b.rs", &function(60)), [""; 0]);
        assert_one("crates/a/src/b.rs", &function(80), "`f` has 83 lines");
        assert_eq!(complaints("crates/a/src/b.rs", "trait A {\n  fn f();\n}\n"), [""; 0]);
        assert_eq!(complaints("crates/a/tests/b.rs", &function(80)), [""; 0]);
    }

    #[test]
    fn a_decision_has_a_number_and_a_status() {
        assert_one("docs/adr/why.md", "Status: accepted\n", "NNNN");
        assert_one("docs/adr/0001-why.md", "Because.\n", "Status");
        assert_eq!(complaints("docs/adr/0001-why.md", "Status: accepted\n"), [""; 0]);
    }

    #[test]
    fn a_version_outside_the_workspace_is_found() {
        let text = "[dependencies]\nbytes = \"1\"\nlibc = { workspace = true, features = [\"std\"] }\n";
        assert_one("crates/a/Cargo.toml", text, "`bytes`");
    }
}
