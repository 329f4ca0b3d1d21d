//! Lines on standard output and standard error, and the one place where JSON is printed.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::OnceLock;

use serde::Serialize;

use crate::exit::{self, Failure};

/// Why remarks and events are not written any more.
static REMARKS_END: OnceLock<io::Error> = OnceLock::new();

/// Writes a line to standard output. When nobody reads it any more, as behind `| head`, the process ends quietly; when it
/// cannot be written for another reason, with that.
pub fn line(text: &str) {
    let Err(error) = write(text) else { return };
    if error.kind() == io::ErrorKind::BrokenPipe {
        exit::end(0);
    }
    let unwritten = Failure::output(&error);
    failure(&unwritten);
    exit::end(unwritten.code.number());
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", shown(text)).and_then(|()| out.flush())
}

/// The text without what would steer a terminal: some of it a peer may have said.
fn shown(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.contains(steers) { text.replace(steers, "\u{FFFD}").into() } else { text.into() }
}

/// Writes a line to standard output, for a command whose work counts for more than what it says of it: when that cannot be
/// written, the work goes on.
pub fn remark(text: &str) {
    if REMARKS_END.get().is_none()
        && let Err(error) = write(text)
    {
        let _ = REMARKS_END.set(error);
    }
}

/// The same with one JSON value.
pub fn event(value: &impl Serialize) {
    remark(&serde_json::to_string(value).unwrap_or_default());
}

/// Whether all remarks and events were written, as far as somebody read them.
///
/// # Errors
/// That standard output could not be written.
pub fn remarks() -> Result<(), Failure> {
    match REMARKS_END.get() {
        Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::output(error)),
        _ => Ok(()),
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
    let _ = writeln!(io::stderr().lock(), "{}", shown(text));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_peer_says_steers_no_terminal() {
        assert_eq!(shown("\u{1b}]0;x\u{7} \u{9b}2J"), "\u{FFFD}]0;x\u{FFFD} \u{FFFD}2J");
        assert!(matches!(shown("two\tcolumns,\ntwo lines: \u{e4}"), Cow::Borrowed(_)));
    }
}
