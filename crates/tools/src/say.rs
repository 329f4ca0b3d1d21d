//! Lines on standard output and standard error, and the one place where JSON is printed.

use std::io::{self, Write};

use serde::Serialize;

use crate::exit::Failure;

/// Writes a line to standard output. When nobody reads it any more, as behind `| head`, the process ends quietly.
pub fn line(text: &str) {
    let mut out = io::stdout().lock();
    if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Writes one JSON value as a line of standard output.
pub fn json(value: &impl Serialize) {
    // Only maps with odd keys fail, and there are none.
    line(&serde_json::to_string(value).unwrap_or_default());
}

/// Writes a line to standard error.
pub fn note(text: &str) {
    // Where should a complaint about standard error go?
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Writes one JSON value as a line of standard error.
pub fn json_note(value: &impl Serialize) {
    note(&serde_json::to_string(value).unwrap_or_default());
}

/// Writes the sentence of a failure to standard error, as every command does.
pub fn failure(failure: &Failure) {
    note(&format!("weft: {failure}"));
}

/// A failure as JSON shows it.
#[derive(Serialize)]
pub struct FailureEvent<'a> {
    event: &'static str,
    code: u8,
    message: String,
    cause: &'a str,
    next: &'a str,
}

impl<'a> FailureEvent<'a> {
    /// The event of `failure`.
    #[must_use]
    pub fn new(failure: &'a Failure) -> Self {
        Self {
            event: "error",
            code: failure.code.number(),
            message: failure.to_string(),
            cause: &failure.what,
            next: &failure.next,
        }
    }
}
