//! Storage of its own for each fiber, as `thread_local!` is for threads.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::block::Block;
use crate::error::NotAFiber;
use crate::worker;

/// The values of one fiber, by the address of their [`FiberLocal`].
pub(crate) struct Locals(Vec<(usize, Box<dyn Any>)>);

/// As many as POSIX asks for, and some more.
const ROUNDS: usize = 8;

impl Locals {
    /// Drops the values of a fiber that ends, last made first. Destructors may make values again, and those are dropped
    /// likewise, for so many rounds; what is made in the last one is lost. What they wait for is not ended by a cancellation.
    #[cold]
    pub(crate) fn drop_all(block: &Block) {
        block.is_shielded.set(true);
        for _ in 0..ROUNDS {
            let locals = block.locals.replace(ptr::null_mut());
            if locals.is_null() {
                return;
            }
            // SAFETY: it came from a box in `of`, and the block does not name it any more.
            let mut locals = unsafe { Box::from_raw(locals) };
            while let Some((_, value)) = locals.0.pop() {
                // Its panic has been reported.
                let dropped = catch_unwind(AssertUnwindSafe(|| drop(value)));
                std::mem::forget(dropped);
            }
        }
        block.locals.set(ptr::null_mut());
    }

    fn find(block: &Block, key: usize) -> Option<*const dyn Any> {
        // SAFETY: null, or from a box in `insert`; only the fiber itself comes here.
        let locals = unsafe { block.locals.get().as_ref() }?;
        let found = locals.0.iter().find(|(address, _)| *address == key)?;
        Some(ptr::from_ref(&*found.1))
    }

    fn insert(block: &Block, key: usize, value: Box<dyn Any>) {
        if block.locals.get().is_null() {
            block.locals.set(Box::into_raw(Box::new(Self(Vec::new()))));
        }
        // SAFETY: not null, from a box, and only the fiber itself comes here.
        unsafe { &mut *block.locals.get() }.0.push((key, value));
    }
}

/// A value that each fiber has for itself, made when it first asks and dropped when it ends.
///
/// ```
/// use std::cell::Cell;
/// static CALLS: weft_fiber::FiberLocal<Cell<u32>> = weft_fiber::FiberLocal::new(|| Cell::new(0));
///
/// weft_fiber::run(|| {
///     CALLS.with(|calls| calls.set(7)).unwrap();
///     let other = weft_fiber::spawn(|| CALLS.with(Cell::get).unwrap()).unwrap();
///     assert_eq!(other.join().unwrap(), 0);
///     assert_eq!(CALLS.with(Cell::get), Ok(7));
/// })?;
/// # Ok::<(), weft_fiber::RunError>(())
/// ```
pub struct FiberLocal<T: 'static> {
    make: fn() -> T,
    // A type without size would let two statics have one address.
    _has_size: u8,
}

impl<T: 'static> FiberLocal<T> {
    /// Storage that `make` fills for each fiber. Put it in a `static`: the values go by its address.
    #[must_use]
    pub const fn new(make: fn() -> T) -> Self {
        Self { make, _has_size: 0 }
    }

    /// Calls `use_it` with the value of the fiber that runs.
    ///
    /// # Errors
    ///
    /// [`NotAFiber`] on a thread that runs no fiber.
    pub fn with<R>(&'static self, use_it: impl FnOnce(&T) -> R) -> Result<R, NotAFiber> {
        let block = worker::current_block().ok_or(NotAFiber)?;
        // SAFETY: the fiber that runs lives.
        let block = unsafe { block.as_ref() };
        let key = ptr::from_ref(self).addr();
        if Locals::find(block, key).is_none() {
            // `make` may itself use storage, also this one: the value it made there stays.
            let made = (self.make)();
            if Locals::find(block, key).is_none() {
                Locals::insert(block, key, Box::new(made));
            }
        }
        let value = Locals::find(block, key).ok_or(NotAFiber)?;
        // SAFETY: the box stays where it is until the fiber ends, which it does not while it runs this.
        let value = unsafe { &*value };
        Ok(use_it(value.downcast_ref::<T>().expect("the address of a static has one type")))
    }
}

impl<T> fmt::Debug for FiberLocal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FiberLocal")
    }
}
