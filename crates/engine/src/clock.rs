//! The only clock of the product: monotonic, counted from the first time anybody asked.

use std::sync::OnceLock;

use weft_base::Instant;

static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();

/// Now, on a clock that the wall clock does not move ([CDP-TMR-1]).
///
/// It starts at one second, so that the origin lies before everything and 0 can stand for "never" in atomics.
pub(crate) fn now() -> Instant {
    let origin = ORIGIN.get_or_init(std::time::Instant::now);
    Instant::from_nanos(1_000_000_000) + origin.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [CDP-TMR-1] Time only goes forward.
    #[test]
    fn time_goes_forward_and_never_reads_zero() {
        let first = now();
        assert!(first.as_nanos() > 0);
        assert!(now() >= first);
    }
}
