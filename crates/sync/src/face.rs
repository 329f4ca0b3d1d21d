//! The face over std and loom: atomics, cells, threads and hints by the same names on both.
//!
//! Everything in this room, and the socket table of `engine`, takes its atomics from here. Another machine (loom
//! today, the virtual-time many-core machine later) is put underneath by changing this file alone.

#[cfg(loom)]
pub use loom::sync::atomic;
#[cfg(not(loom))]
pub use std::sync::atomic;

#[cfg(loom)]
pub use loom::cell::UnsafeCell;
#[cfg(loom)]
pub use loom::sync::Arc;
#[cfg(loom)]
pub use loom::thread;
#[cfg(not(loom))]
pub use std::sync::Arc;
#[cfg(not(loom))]
pub use std::thread;

use atomic::{AtomicUsize, Ordering};

/// A cell that is shared by agreement: whoever dereferences its pointer says why no other thread interferes.
///
/// Loom's cell has the same two methods and checks the agreement.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// A cell with `value`.
    pub const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    /// Calls `f` with a pointer to read through.
    #[inline(always)]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Calls `f` with a pointer to write through.
    #[inline(always)]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

/// Tells the processor that this thread waits for another one; under loom, lets the other one run.
#[inline(always)]
pub fn spin_hint() {
    #[cfg(not(loom))]
    std::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// Adds `count` to `counter`, and lets no later load be taken before the addition is seen by all.
///
/// This is a relaxed addition with a sequentially consistent fence behind it. On x86 the locked addition alone is
/// that fence, and costs half of the two.
#[inline(always)]
pub fn add_then_fence(counter: &AtomicUsize, count: usize) {
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    {
        counter.fetch_add(count, Ordering::SeqCst);
        atomic::compiler_fence(Ordering::SeqCst);
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    {
        counter.fetch_add(count, Ordering::Relaxed);
        atomic::fence(Ordering::SeqCst);
    }
}

/// A small number that this thread has for itself, as long as there are not too many threads.
#[cfg(not(loom))]
#[inline]
pub fn thread_index() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    std::thread_local!(static INDEX: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    INDEX.with(|&index| index)
}

/// A small number that this thread has for itself.
#[cfg(loom)]
pub fn thread_index() -> usize {
    loom::lazy_static!(static ref NEXT: AtomicUsize = AtomicUsize::new(0););
    loom::thread_local!(static INDEX: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    INDEX.with(|&index| index)
}

/// A mark in an object that threads share by pointer. Under loom it tells of a use after the end; otherwise it is
/// nothing.
#[derive(Debug, Default)]
pub struct Alive(#[cfg(loom)] UnsafeCell<bool>);

// SAFETY: it is used by `check` and `end` alone, and loom tells of an `end` beside another use.
#[cfg(loom)]
unsafe impl Sync for Alive {}

impl Alive {
    /// To be called by who is about to use the object.
    ///
    /// # Panics
    ///
    /// Under loom, if the object has ended, or ends at the same time.
    #[inline(always)]
    pub fn check(&self) {
        #[cfg(loom)]
        // SAFETY: loom checks that no thread is in `end`.
        self.0.with(|ended| assert!(!unsafe { *ended }, "used after its end"));
    }

    /// The object has ended.
    ///
    /// # Panics
    ///
    /// If a thread may be using it.
    #[cfg(loom)]
    pub fn end(&self) {
        // SAFETY: loom checks that no thread is in `check`.
        self.0.with_mut(|ended| unsafe { *ended = true });
    }
}

/// Frees an object that was boxed. Under loom it is marked and kept, so that a later use is found.
///
/// # Safety
///
/// `object` comes from `Box::into_raw`, and no thread reaches it any more.
pub unsafe fn free<T>(object: *mut T, alive: impl FnOnce(&T) -> &Alive) {
    // SAFETY: the caller's promise.
    let object = unsafe { Box::from_raw(object) };
    let _ = &alive;
    #[cfg(loom)]
    alive(Box::leak(object)).end();
    #[cfg(not(loom))]
    drop(object);
}

/// A bounded wait: a few dozen looks at what another thread holds, before a lock parks or gives way.
#[derive(Debug, Default)]
pub struct Spin {
    looks: u32,
    yields: u32,
}

impl Spin {
    /// Looks before the wait is over. A look is a `pause`, 10 to 50 ns; one look is enough for loom.
    const LOOKS: u32 = if cfg!(loom) { 1 } else { 100 };
    /// How often it gives way to threads of the same priority.
    #[cfg(not(loom))]
    const YIELDS: u32 = 100;
    #[cfg(not(loom))]
    const NAP: std::time::Duration = std::time::Duration::from_micros(50);

    /// Waits for one look, or says that enough have been taken.
    #[inline]
    pub fn look_again(&mut self) -> bool {
        if self.looks == Self::LOOKS {
            return false;
        }
        self.looks += 1;
        spin_hint();
        true
    }

    /// Gives the processor away when enough looks have been taken: at first to threads of the same priority, and when that did not help
    /// to any, as who is waited for may be one of a lower that this thread keeps from its processor.
    #[cold]
    pub fn give_way(&mut self) {
        self.yields += 1;
        #[cfg(not(loom))]
        if self.yields > Self::YIELDS {
            return std::thread::sleep(Self::NAP);
        }
        thread::yield_now();
    }
}
