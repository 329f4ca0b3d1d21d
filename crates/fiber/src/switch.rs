//! The switch between a worker's stack and a fiber's.
//!
//! There are two of one face: [`native`], whose every jump the processor can foresee, and [`portable`], the one of
//! `corosensei`, for other processors and for AddressSanitizer, which has to be told of each switch.

#[cfg(all(target_arch = "x86_64", not(feature = "sanitizer")))]
mod native;
#[cfg(not(all(target_arch = "x86_64", not(feature = "sanitizer"))))]
mod portable;
#[cfg(all(target_arch = "x86_64", not(feature = "sanitizer")))]
mod walk;

#[cfg(all(target_arch = "x86_64", not(feature = "sanitizer")))]
pub(crate) use native::Context;
#[cfg(not(all(target_arch = "x86_64", not(feature = "sanitizer"))))]
pub(crate) use portable::Context;

/// What a fiber asks of its worker when it leaves its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Command {
    /// Run others first.
    Yield,
    /// Sleep on the block's word.
    Park,
    /// The fiber has ended.
    Exit,
    /// The fiber has come to the end of its stack, and cannot go on.
    Overflow,
}
