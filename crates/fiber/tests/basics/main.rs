//! What fibers do, one behaviour a test.

#![cfg(not(loom))]

mod frames;
mod joining;
mod leaving;
mod life;
mod runtime;
mod waiting;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use weft_fiber::*;

/// Runs `body` on one worker; its panic is the test's.
fn on_fiber<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    run(body).expect("the body ends well")
}

fn in_a_moment() -> Instant {
    Instant::now() + Duration::from_millis(5)
}
