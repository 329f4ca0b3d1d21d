//! A fiber's life as whoever subscribes to `tracing` sees it.

#![cfg(all(feature = "tracing", not(loom)))]

use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use weft_fiber::{Runtime, Spawn, Waiter};

/// Writes down what happens to the first span.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn add(&self, note: impl Into<String>) {
        self.0.lock().expect("nobody panics with the notes").push(note.into());
    }
}

/// The fields as texts.
#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() != "object" && field.name() != "id" {
            self.0 += &format!(" {}={value:?}", field.name());
        }
    }
}

impl Subscriber for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("weft_fiber")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        span.record(&mut fields);
        self.add(format!("{}{}", span.metadata().name(), fields.0));
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.add(fields.0);
    }

    fn enter(&self, _span: &Id) {
        self.add("enter");
    }

    fn exit(&self, _span: &Id) {
        self.add("exit");
    }

    fn clone_span(&self, id: &Id) -> Id {
        id.clone()
    }
}

#[test]
fn a_fiber_is_a_span_that_is_entered_while_it_runs() {
    let notes = Notes::default();
    tracing::subscriber::set_global_default(notes.clone()).unwrap();
    let runtime = Runtime::new().unwrap();
    let (gate, theirs) = (Waiter::new(), Waiter::new());
    let wait = gate.clone();
    let begun = theirs.clone();
    let body = move || {
        begun.wake();
        wait.wait();
    };
    let fiber = Spawn::new().name("one").spawn_on(&runtime.handle(), body).unwrap();
    theirs.wait();
    while !notes.0.lock().unwrap().iter().any(|note| note == "exit") {
        std::thread::yield_now();
    }
    gate.wake();
    fiber.join().unwrap();
    runtime.shut_down();
    let notes = notes.0.lock().unwrap();
    let waits = " message=waits what=\"an unpark\"";
    assert_eq!(*notes, ["fiber name=\"one\"", "enter", waits, "exit", "enter", "exit"]);
}
