//! Calls into a library that may never return, with a limit to the wait for them.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// What `work` returns, or `None` if that takes longer than `limit` or no thread can be had for it.
///
/// Work that is late goes on in its thread; what it returns then is dropped.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let worker = thread::Builder::new().name("weft-launch".into()).spawn(move || {
        // Nobody waits any more if it is late.
        let _ = sender.send(work());
    });
    worker.ok()?;
    receiver.recv_timeout(limit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_comes_in_time_counts() {
        assert_eq!(within(Duration::from_secs(60), || 7), Some(7));
        let (_keep, never) = mpsc::channel::<()>();
        assert!(within(Duration::from_millis(10), move || never.recv()).is_none());
    }
}
