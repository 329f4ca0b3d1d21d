//! Says aloud that a test, or a part of one, did not run, and why.
//!
//! The test harness keeps to itself what a test prints that passes, so that one which leaves itself out would count as run, and nobody
//! would know. What is said here goes to the error stream directly, which the harness does not hold.
//!
//! This room must not know why anything is left out.
//!
//! ```
//! if std::env::var_os("NO_SUCH_PERMISSION").is_none() {
//!     weft_skip::skipped!("a network namespace cannot be made; run as {}", "root");
//! }
//! ```

use std::fmt::Arguments;
use std::io::{self, Write};
use std::thread;

/// Says that the test of this thread, or a part of it, is left out, with the reason and what to do about it; as `format!`.
#[macro_export]
macro_rules! skipped {
    ($($why:tt)*) => { $crate::skip(format_args!($($why)*)) };
}

/// See [`skipped`].
pub fn skip(why: Arguments<'_>) {
    // The harness names threads after their tests.
    let test = thread::current().name().map_or_else(String::new, |name| format!("{name}: "));
    // In one piece, as others write there too; if it cannot be written nobody listens.
    let _ = io::stderr().write_all(format!("SKIPPED: {test}{why}\n").as_bytes());
}
