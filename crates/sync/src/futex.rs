//! A word to sleep on.
//!
//! The kernel compares the word with what the sleeper expects and puts it to sleep in one step, so a waker that
//! changes the word first and wakes second is never missed. Under loom the kernel is a mutex and a condition
//! variable with the same promise.

use std::ops::Deref;
use std::time::Duration;

use crate::face::atomic::AtomicU32;

/// A 32-bit atomic word with a queue of sleeping threads (futex(2), private to the process).
#[derive(Debug)]
pub struct Futex {
    word: AtomicU32,
    #[cfg(loom)]
    kernel: (loom::sync::Mutex<()>, loom::sync::Condvar),
}

impl Deref for Futex {
    type Target = AtomicU32;

    #[inline(always)]
    fn deref(&self) -> &AtomicU32 {
        &self.word
    }
}

impl Default for Futex {
    fn default() -> Self {
        Self::new(0)
    }
}

#[cfg(not(loom))]
impl Futex {
    /// A word that holds `value`.
    pub const fn new(value: u32) -> Self {
        Self { word: AtomicU32::new(value) }
    }

    /// Sleeps while the word is `expected`, at most `timeout`; `None` is for ever.
    ///
    /// It may return for no reason at all, so look at the word again.
    #[cold]
    pub fn wait(&self, expected: u32, timeout: Option<Duration>) {
        let timeout = timeout.and_then(timespec);
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word outlives the call, and `timeout` is null or points to a timespec that does. Every way
        // the call can fail (changed word, signal, time-out) is a return that the caller must expect.
        unsafe { libc::syscall(libc::SYS_futex, self.word.as_ptr(), operation, expected, timeout) };
    }

    /// Sleeps while the word is `expected`, at most for `time`, where nobody will wake this thread.
    #[cold]
    pub fn nap(&self, expected: u32, time: Duration) {
        self.wait(expected, Some(time));
    }

    /// Wakes one sleeper, if there is one.
    #[cold]
    pub fn wake_one(&self) {
        self.wake(1);
    }

    /// Wakes every sleeper.
    #[cold]
    pub fn wake_all(&self) {
        self.wake(i32::MAX);
    }

    fn wake(&self, count: i32) {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the kernel takes the address as a key and does not read or write the word.
        unsafe { libc::syscall(libc::SYS_futex, self.word.as_ptr(), operation, count) };
    }
}

/// `timeout` for the kernel; `None`, which is for ever, when its clock cannot count so far.
#[cfg(not(loom))]
fn timespec(timeout: Duration) -> Option<libc::timespec> {
    let tv_sec = libc::time_t::try_from(timeout.as_secs()).ok()?;
    Some(libc::timespec { tv_sec, tv_nsec: libc::c_long::from(timeout.subsec_nanos().cast_signed()) })
}

#[cfg(loom)]
#[allow(missing_docs, clippy::unwrap_used)] // the same methods for a checker, where no lock is ever poisoned
impl Futex {
    pub fn new(value: u32) -> Self {
        Self { word: AtomicU32::new(value), kernel: (loom::sync::Mutex::new(()), loom::sync::Condvar::new()) }
    }

    pub fn wait(&self, expected: u32, _timeout: Option<Duration>) {
        let kernel = self.kernel.0.lock().unwrap();
        if self.word.load(crate::face::atomic::Ordering::Relaxed) == expected {
            drop(self.kernel.1.wait(kernel).unwrap());
        }
    }

    pub fn nap(&self, _expected: u32, _time: Duration) {
        loom::thread::yield_now();
    }

    pub fn wake_one(&self) {
        let _kernel = self.kernel.0.lock().unwrap();
        self.kernel.1.notify_one();
    }

    pub fn wake_all(&self) {
        let _kernel = self.kernel.0.lock().unwrap();
        self.kernel.1.notify_all();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_wait_for_another_value_returns_at_once() {
        Futex::new(1).wait(0, None);
    }

    #[test]
    fn a_wait_ends_with_its_time() {
        Futex::new(0).wait(0, Some(Duration::from_millis(1)));
    }

    #[test]
    fn a_wait_longer_than_the_kernel_can_count_is_for_ever() {
        assert!(timespec(Duration::MAX).is_none());
        assert_eq!(timespec(Duration::new(3, 7)).map(|t| (t.tv_sec, t.tv_nsec)), Some((3, 7)));
    }

    #[test]
    fn a_sleeper_is_woken() {
        let futex = Futex::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while futex.load(Ordering::Acquire) == 0 {
                    futex.wait(0, None);
                }
            });
            futex.store(1, Ordering::Release);
            futex.wake_all();
        });
    }
}
