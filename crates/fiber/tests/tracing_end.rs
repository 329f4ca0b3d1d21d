//! What is done to a fiber as its span closes, which is when it ends, is in the books.

#![cfg(all(feature = "tracing", not(loom)))]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use weft_fiber::{DetachError, Fiber, Runtime, Spawn, Waiter};

type Change = fn(&Fiber) -> Result<(), DetachError>;

/// What shall be done to a fiber when the next span closes.
static AT_END: Mutex<Option<(Fiber, Change)>> = Mutex::new(None);

struct Closing(AtomicU64);

impl Subscriber for Closing {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("weft_fiber")
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(self.0.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, _event: &Event<'_>) {}

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}

    fn try_close(&self, _span: Id) -> bool {
        let change = AT_END.lock().expect("nobody panics with it").take();
        if let Some((fiber, change)) = change {
            change(&fiber).expect("it has not ended yet");
        }
        true
    }
}

/// Ends a fiber to which `change` is done meanwhile, and then its runtime, where another fiber goes on for a while. That one must
/// not be cancelled, and the runtime must end.
fn end_a_runtime_after(options: Spawn<'static>, change: Change) {
    let runtime = Runtime::new().expect("a runtime");
    let (gate, theirs) = (Waiter::new(), Waiter::new());
    let (go_on, wait) = (gate.clone(), theirs.clone());
    let attached = runtime.spawn(move || gate.wait()).expect("a fiber");
    let ends = options.spawn_on(&runtime.handle(), move || theirs.wait()).expect("a fiber");
    let fiber = ends.fiber().clone();
    *AT_END.lock().expect("nobody panics with it") = Some((fiber.clone(), change));
    wait.wake();
    while !fiber.is_ended() {
        std::thread::yield_now();
    }
    let (done, is_done) = mpsc::channel();
    let ender = std::thread::spawn(move || {
        drop(runtime);
        done.send(()).expect("somebody waits");
    });
    // Long enough for whoever ends the runtime to look.
    std::thread::sleep(Duration::from_millis(50));
    go_on.wake();
    assert!(attached.join().is_ok(), "an attached fiber was cancelled");
    assert!(
        is_done.recv_timeout(Duration::from_secs(10)).is_ok(),
        "the runtime waits for a fiber that ended"
    );
    ender.join().expect("it has been told");
}

#[test]
fn a_fiber_that_is_detached_or_attached_as_it_ends_is_counted_once() {
    tracing::subscriber::set_global_default(Closing(AtomicU64::new(1))).unwrap();
    end_a_runtime_after(Spawn::new(), Fiber::detach);
    end_a_runtime_after(Spawn::new().detached(), Fiber::attach);
}
