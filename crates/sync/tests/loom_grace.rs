//! Nothing is freed while a reader can hold it, and everything is freed in the end.
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use weft_sync::Grace;
use weft_sync::face::atomic::{AtomicPtr, Ordering};
use weft_sync::face::{self, Alive};
use weft_sync::models::model;

struct Object {
    number: u32,
    alive: Alive,
}

impl Object {
    fn boxed(number: u32) -> *mut Self {
        Box::into_raw(Box::new(Self { number, alive: Alive::default() }))
    }
}

/// Owns an object that readers may hold.
struct Garbage(*mut Object);

// SAFETY: it owns a number.
unsafe impl Send for Garbage {}

impl Drop for Garbage {
    fn drop(&mut self) {
        // SAFETY: the grace is over; loom checks it by the mark.
        unsafe { face::free(self.0, |object| &object.alive) };
    }
}

struct Shared {
    current: AtomicPtr<Object>,
    grace: Grace<Garbage>,
}

fn shared() -> Arc<Shared> {
    Arc::new(Shared { current: AtomicPtr::new(Object::boxed(0)), grace: Grace::new() })
}

fn read(shared: &Shared) -> u32 {
    let _reading = shared.grace.read();
    // SAFETY: this thread is counted as a reader; loom checks it by the mark.
    let object = unsafe { &*shared.current.load(Ordering::Acquire) };
    object.alive.check();
    let number = object.number;
    object.alive.check();
    number
}

fn replace(shared: &Shared, number: u32) {
    let old = shared.current.swap(Object::boxed(number), Ordering::AcqRel);
    // SAFETY: nothing leads to the old object.
    unsafe { shared.grace.retire(Garbage(old)) };
}

#[test]
fn a_reader_never_holds_what_was_freed() {
    model(3, || {
        let shared = shared();
        let reader = {
            let shared = shared.clone();
            thread::spawn(move || (read(&shared), read(&shared)))
        };
        replace(&shared, 1);
        let (first, second) = reader.join().unwrap();
        assert!(first <= second, "an old object came back");
        assert!(shared.grace.collect(), "nobody reads any more");
    });
}

#[test]
fn a_reader_never_holds_what_one_of_two_writers_freed() {
    model(2, || {
        let shared = shared();
        let threads = [
            {
                let shared = shared.clone();
                thread::spawn(move || assert!(read(&shared) <= 2))
            },
            {
                let shared = shared.clone();
                thread::spawn(move || replace(&shared, 1))
            },
        ];
        replace(&shared, 2);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(shared.grace.collect(), "nobody reads any more");
    });
}
