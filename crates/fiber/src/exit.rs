//! Ending a fiber with a value from anywhere below its closure.

use std::any::TypeId;
use std::convert::Infallible;

use crate::error::ExitError;
use crate::worker;

/// What a fiber unwinds with that ends by [`exit`].
pub(crate) struct Exit<T>(pub(crate) T);

/// Ends the fiber that runs, with `value` as its result. Its values are dropped on the way out.
///
/// # Errors
///
/// It returns only if it fails: on a thread that runs no fiber, and if the fiber's closure returns another type.
///
/// ```
/// fn deep_inside() {
///     weft_fiber::exit(7).unwrap();
/// }
/// let result = weft_fiber::run(|| {
///     let child = weft_fiber::spawn(|| {
///         deep_inside();
///         8
///     });
///     child.unwrap().join().unwrap()
/// });
/// assert_eq!(result?, 7);
/// # Ok::<(), weft_fiber::RunError>(())
/// ```
pub fn exit<T: Send + 'static>(value: T) -> Result<Infallible, ExitError> {
    let Some(block) = worker::current_block() else { return Err(ExitError::NotAFiber) };
    // SAFETY: the fiber that runs lives.
    if (unsafe { block.as_ref() }.job.get().value)() != TypeId::of::<T>() {
        return Err(ExitError::OtherType { given: std::any::type_name::<T>() });
    }
    if std::thread::panicking() {
        return Err(ExitError::Unwinding);
    }
    std::panic::resume_unwind(Box::new(Exit(value)));
}
