//! How a task of this program ends.

/// The exit status of what could not be done, as a program that it needs is missing: neither well nor a failure.
pub(crate) const SKIPPED: u8 = 77;

/// A task that did not fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Done {
    /// All of it was done.
    Well,
    /// It has said why not.
    Skipped,
}
