//! The rules of the house that neither rustc, clippy nor rustfmt knows.
//!
//! Each check is a function from the tree's text to findings, so that a test can hand it a tree that breaks the rule.

mod rooms;
mod shape;
mod walls;

use std::fmt;
use std::path::Path;

use crate::tree;

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    line: Option<usize>,
    message: String,
    is_warning: bool,
}

impl Finding {
    fn new(path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, message: message.into(), is_warning: false }
    }

    fn at(mut self, line: usize) -> Self {
        self.line = Some(line);
        self
    }

    fn into_warning(mut self) -> Self {
        self.is_warning = true;
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_warning { "warning" } else { "error" };
        match self.line {
            Some(line) => write!(f, "{kind}: {}:{line}: {}", self.path, self.message),
            None => write!(f, "{kind}: {}: {}", self.path, self.message),
        }
    }
}

/// Checks the tree under `root`, prints what it finds, and fails if anything is more than a warning.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let findings = check(root)?;
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| !finding.is_warning).count();
    println!("tidy: {errors} errors, {} warnings", findings.len() - errors);
    if errors == 0 { Ok(()) } else { Err(format!("tidy: {errors} rules of the house are broken")) }
}

fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let files = tree::read(root)?;
    let rooms = rooms::parse(&tree::find(&files, rooms::TABLE)?.text)?;
    let long = shape::parse_long_files(&tree::find(&files, shape::LONG_FILES)?.text)?;
    let mut findings = rooms::check(&rooms, &files);
    findings.extend(walls::check(&rooms, &files));
    findings.extend(shape::check(&long, &files));
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let findings = check(&crate::root()).unwrap();
        let errors: Vec<String> =
            findings.iter().filter(|finding| !finding.is_warning).map(ToString::to_string).collect();
        assert!(errors.is_empty(), "{}", errors.join("\n"));
    }
}
