//! What a fiber runs: a closure, its value or its panic, in the control block or, if large, in a box.

use std::any::{Any, TypeId};
use std::mem::needs_drop;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::block::{Block, Ending};
use crate::cancel::Cancelled;
use crate::exit::Exit;

/// Bytes of a closure, or of a value, that are kept in the control block.
pub(crate) const PAYLOAD: usize = 144;

/// The functions for one type of closure.
pub(crate) struct Job {
    /// Runs the closure to its end.
    pub(crate) run: unsafe fn(&Block),
    /// Drops a closure that did not run.
    pub(crate) drop_closure: unsafe fn(&Block),
    /// Drops a value that was not taken.
    drop_value: unsafe fn(&Block),
    /// The type of the value.
    pub(crate) value: fn() -> TypeId,
}

impl Job {
    /// The job of a block that was never used.
    pub(crate) const NONE: Self =
        Self { run: |_| {}, drop_closure: |_| {}, drop_value: |_| {}, value: TypeId::of::<()> };
}

/// The functions for a closure of type `F` that returns a `T`.
pub(crate) struct JobOf<F, T>(F, T);

impl<F: FnOnce() -> T, T: 'static> JobOf<F, T> {
    pub(crate) const JOB: &'static Job = &Job {
        run: Self::run,
        drop_closure: Self::drop_closure,
        drop_value: Self::drop_value,
        value: TypeId::of::<T>,
    };

    /// SAFETY contract: the payload holds an `F`.
    unsafe fn run(block: &Block) {
        // SAFETY: the payload holds an `F`, which is moved out.
        let closure = unsafe { take::<F>(block) };
        match catch_unwind(AssertUnwindSafe(closure)) {
            Ok(value) => end_with(block, value),
            Err(payload) if payload.is::<Cancelled>() => block.ending.set(Ending::Cancelled),
            Err(payload) => match payload.downcast::<Exit<T>>() {
                Ok(exit) => end_with(block, exit.0),
                Err(payload) => {
                    // SAFETY: the payload is empty since the closure was moved out.
                    unsafe { put::<Box<dyn Any + Send>>(block, payload) };
                    block.ending.set(Ending::Panicked);
                }
            },
        }
        if needs_drop::<T>() {
            block.leave_value();
        }
    }

    /// SAFETY contract: the payload holds an `F`.
    unsafe fn drop_closure(block: &Block) {
        // SAFETY: the payload holds an `F`.
        drop(unsafe { take::<F>(block) });
    }

    /// SAFETY contract: the payload holds a `T`.
    unsafe fn drop_value(block: &Block) {
        // SAFETY: the payload holds a `T`.
        drop(unsafe { take::<T>(block) });
    }
}

fn end_with<T>(block: &Block, value: T) {
    // SAFETY: the payload is empty since the closure was moved out.
    unsafe { put(block, value) };
    block.ending.set(Ending::Value);
}

/// Whether a `V` is kept in the block itself.
const fn fits<V>() -> bool {
    size_of::<V>() <= PAYLOAD && align_of::<V>() <= align_of::<u128>()
}

/// Puts `value` into the empty payload.
///
/// # Safety
///
/// The payload is empty, and the block is the caller's.
#[inline]
pub(crate) unsafe fn put<V>(block: &Block, value: V) {
    let place = block.payload.get();
    if fits::<V>() {
        // SAFETY: it is large enough, aligned, and the caller's.
        unsafe { place.cast::<V>().write(value) };
    } else {
        // SAFETY: as above, for a pointer.
        unsafe { place.cast::<*mut V>().write(Box::into_raw(Box::new(value))) };
    }
}

/// Takes the `V` out of the payload.
///
/// # Safety
///
/// The payload holds a `V`, and the block is the caller's.
#[inline]
pub(crate) unsafe fn take<V>(block: &Block) -> V {
    let place = block.payload.get();
    if fits::<V>() {
        // SAFETY: the caller says that it holds a `V`.
        unsafe { place.cast::<V>().read() }
    } else {
        // SAFETY: a large `V` was put as a pointer.
        let boxed = unsafe { place.cast::<*mut V>().read() };
        // SAFETY: the pointer came from a box in `put`.
        *unsafe { Box::from_raw(boxed) }
    }
}

/// A look at the `V` in the payload.
///
/// # Safety
///
/// The payload holds a `V`, and nobody takes it as long as the reference lives.
pub(crate) unsafe fn look<V>(block: &Block) -> &V {
    let place = block.payload.get();
    if fits::<V>() {
        // SAFETY: the caller says that it holds a `V`.
        unsafe { &*place.cast::<V>() }
    } else {
        // SAFETY: a large `V` was put as a pointer.
        let boxed = unsafe { place.cast::<*mut V>().read() };
        // SAFETY: the pointer came from a box in `put`, which lives as long as the payload holds it.
        unsafe { &*boxed }
    }
}

/// Drops what a fiber ended with and nobody took.
#[inline(never)]
pub(crate) fn drop_ending(block: &Block) {
    match block.ending.replace(Ending::Taken) {
        // SAFETY: the ending says what the payload holds.
        Ending::Value => drop_quietly(|| unsafe { (block.job.get().drop_value)(block) }),
        // SAFETY: as above.
        Ending::Panicked => drop_quietly(|| drop(unsafe { take::<Box<dyn Any + Send>>(block) })),
        Ending::None | Ending::Cancelled | Ending::Overflowed | Ending::Taken => {}
    }
}

/// A destructor that panics is the user's; the fiber it belonged to has ended, so the panic has been reported.
fn drop_quietly(drop: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(drop)) {
        std::mem::forget(payload);
    }
}

/// What a panic said.
pub(crate) fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a value".to_owned())
}
