//! The boundary with C: failures become errno and a sentence, pointers are checked, panics stop here.

use std::cell::RefCell;
use std::ffi::{CString, c_int};
use std::fmt::Display;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use weft_fiber::is_cancellation;
use weft_socket::{AcceptError, CloseError, ConnectError, ListenError, OpenError, RecvError, SendError};

/// Why a call fails: the errno, and the sentence of `cdp_error`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) errno: c_int,
    pub(crate) sentence: String,
}

impl Failure {
    pub(crate) fn new(errno: c_int, sentence: impl Display) -> Self {
        // What merely would wait happens often and is no news: no sentence is composed for it.
        let sentence = if errno == libc::EAGAIN { String::new() } else { sentence.to_string() };
        Self { errno, sentence }
    }

    /// EINVAL with this sentence.
    pub(crate) fn invalid(sentence: impl Display) -> Self {
        Self::new(libc::EINVAL, sentence)
    }

    /// ENOTCONN.
    pub(crate) fn not_connected() -> Self {
        Self::new(libc::ENOTCONN, "the socket is not connected; call cdp_connect first")
    }

    /// There is no descriptor of the operating system.
    #[allow(clippy::needless_pass_by_value)] // the shape that map_err wants
    pub(crate) fn no_descriptor(error: io::Error) -> Self {
        let errno = error.raw_os_error().unwrap_or(libc::EMFILE);
        Self::new(
            errno,
            format!("no descriptor to wait for: {error}; close some, or raise the limit of open files"),
        )
    }
}

/// Each error of the socket room carries its errno (section 16) and its sentence.
macro_rules! failure_from {
    ($($error:ty),+) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                Self::new(error.errno(), error)
            }
        })+
    };
}
failure_from!(OpenError, ListenError, ConnectError, AcceptError, SendError);

impl From<RecvError> for Failure {
    fn from(error: RecvError) -> Self {
        // The end of file has no errno in section 16; a datagram may be empty, so C is told by ENODATA.
        let errno = if error == RecvError::EndOfFile { libc::ENODATA } else { error.errno() };
        Self::new(errno, error)
    }
}

impl From<CloseError> for Failure {
    fn from(error: CloseError) -> Self {
        Self::new(error.errno(), error)
    }
}

/// What C sees as failure in a return value.
pub(crate) trait Returned {
    const FAILED: Self;
}

impl Returned for c_int {
    const FAILED: Self = -1;
}

impl Returned for libc::ssize_t {
    const FAILED: Self = -1;
}

thread_local! {
    static SENTENCE: RefCell<CString> = RefCell::new(CString::default());
}

/// Runs the body of a call from C. A fiber that is cancelled while it waits does not unwind through frames of C.
pub(crate) fn call<T: Returned>(body: impl FnOnce() -> Result<T, Failure>) -> T {
    let outcome = match check_fork() {
        Ok(()) => catch_unwind(AssertUnwindSafe(body)),
        Err(failure) => Ok(Err(failure)),
    };
    let failure = match outcome {
        Ok(Ok(value)) => return value,
        Ok(Err(failure)) => failure,
        Err(payload) if is_cancellation(&*payload) => {
            Failure::new(libc::ECANCELED, "the fiber was cancelled; free what it holds and return")
        }
        Err(_) => {
            Failure::new(libc::EIO, "a defect in this library stopped the call; please report what led to it")
        }
    };
    fail(&failure);
    T::FAILED
}

/// Sets errno and the sentence.
fn fail(failure: &Failure) {
    let sentence = match failure.sentence.as_str() {
        "" => crate::words::errno_words(failure.errno).to_owned(),
        sentence => sentence.replace('\0', " "),
    };
    // A call from a handler at the end of a thread comes after its locals are gone: errno alone must do then.
    let _ = SENTENCE.try_with(|last| last.replace(CString::new(sentence).unwrap_or_default()));
    // SAFETY: the call has no condition.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the location of this thread's errno is valid as long as the thread.
    unsafe { errno.write(failure.errno) };
}

/// The address of this thread's sentence, valid until its next failure.
pub(crate) fn sentence() -> *const std::ffi::c_char {
    SENTENCE.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

static WAS_FORKED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_fork() {
    WAS_FORKED.store(true, Ordering::Relaxed);
}

/// A child of fork has neither the threads nor the locks of its parent: it is told so instead of hanging.
fn check_fork() -> Result<(), Failure> {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: the handler is a function of this library that only stores a flag.
        let _ = unsafe { libc::pthread_atfork(None, None, Some(note_fork)) };
    });
    if WAS_FORKED.load(Ordering::Relaxed) {
        let sentence =
            "the process was forked after its first call of this library; call exec, or fork before it";
        return Err(Failure::new(libc::ENOTSUP, sentence));
    }
    Ok(())
}

/// The value at `pointer`.
///
/// # Safety
/// `pointer` is NULL or points to a readable `T`.
pub(crate) unsafe fn read<T: Copy>(pointer: *const T) -> Result<T, Failure> {
    not_null(pointer)?;
    // SAFETY: not NULL, so a readable `T` by the contract of this function.
    Ok(unsafe { pointer.read_unaligned() })
}

/// Puts `value` at `pointer`.
///
/// # Safety
/// `pointer` is NULL or points to a writable `T`.
pub(crate) unsafe fn write<T>(pointer: *mut T, value: T) -> Result<(), Failure> {
    not_null(pointer)?;
    // SAFETY: not NULL, so a writable `T` by the contract of this function.
    unsafe { pointer.write_unaligned(value) };
    Ok(())
}

/// Copies as much of `value` to `pointer` as `size` bytes hold.
///
/// # Safety
/// `pointer` is NULL or points to `size` writable bytes; `T` has no padding.
pub(crate) unsafe fn write_part<T>(pointer: *mut T, size: usize, value: &T) -> Result<(), Failure> {
    not_null(pointer)?;
    let len = size.min(size_of::<T>());
    // SAFETY: `len` bytes are readable in `value` and, by the contract of this function, writable at `pointer`.
    unsafe { std::ptr::from_ref(value).cast::<u8>().copy_to_nonoverlapping(pointer.cast(), len) };
    Ok(())
}

/// The `len` bytes at `pointer`; NULL is allowed for none.
///
/// # Safety
/// `pointer` is NULL or points to `len` bytes that stay readable and unchanged for `'a`.
pub(crate) unsafe fn bytes<'a>(pointer: *const u8, len: usize) -> Result<&'a [u8], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    not_null(pointer)?;
    check_len(len)?;
    // SAFETY: not NULL and at most isize::MAX, so `len` readable bytes by the contract of this function.
    Ok(unsafe { std::slice::from_raw_parts(pointer, len) })
}

/// The `len` bytes at `pointer`, to write; NULL is allowed for none.
///
/// # Safety
/// `pointer` is NULL or points to `len` bytes that nobody else uses for `'a`.
pub(crate) unsafe fn bytes_mut<'a>(pointer: *mut u8, len: usize) -> Result<&'a mut [u8], Failure> {
    if len == 0 {
        return Ok(&mut []);
    }
    not_null(pointer)?;
    check_len(len)?;
    // SAFETY: not NULL and at most isize::MAX, so `len` writable bytes by the contract of this function.
    unsafe { Ok(std::slice::from_raw_parts_mut(pointer, len)) }
}

/// The text at `pointer`.
///
/// # Safety
/// `pointer` is NULL or points to a text that ends in zero and stays unchanged for `'a`.
pub(crate) unsafe fn text<'a>(pointer: *const std::ffi::c_char) -> Result<&'a str, Failure> {
    not_null(pointer)?;
    // SAFETY: not NULL, so a text by the contract of this function.
    let text = unsafe { std::ffi::CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Failure::invalid("the text is not UTF-8"))
}

fn not_null<T>(pointer: *const T) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(Failure::new(
            libc::EFAULT,
            "a pointer is NULL that must not be; see the comment of the call in cdp.h",
        ));
    }
    Ok(())
}

fn check_len(len: usize) -> Result<(), Failure> {
    if isize::try_from(len).is_err() {
        return Err(Failure::invalid(format!("a length of {len} bytes is more than memory can hold")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    fn errno() -> c_int {
        std::io::Error::last_os_error().raw_os_error().unwrap()
    }

    fn last_sentence() -> String {
        // SAFETY: the sentence is a text of this thread, and nothing fails in between.
        unsafe { CStr::from_ptr(sentence()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_failure_sets_errno_and_the_sentence_of_its_thread() {
        let failed: c_int = call(|| Err(Failure::invalid("five is right out")));
        assert_eq!((failed, errno()), (-1, libc::EINVAL));
        assert_eq!(last_sentence(), "five is right out");
        assert_eq!(std::thread::spawn(last_sentence).join().unwrap(), "");
    }

    #[test]
    fn a_panic_does_not_pass_into_c() {
        let failed: libc::ssize_t = call(|| panic!("a defect, for this test"));
        assert_eq!((failed, errno()), (-1, libc::EIO));
    }

    #[test]
    fn a_call_that_would_wait_has_words_too() {
        let failed: c_int = call(|| Err(SendError::WouldBlock.into()));
        assert_eq!((failed, errno()), (-1, libc::EAGAIN));
        assert!(last_sentence().contains("wait"), "{}", last_sentence());
    }

    #[test]
    fn null_is_refused_where_something_is_needed() {
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { read::<u32>(std::ptr::null()) }.unwrap_err().errno, libc::EFAULT);
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { text(std::ptr::null()) }.unwrap_err().errno, libc::EFAULT);
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { bytes(std::ptr::null(), 0) }, Ok(&[][..]));
        // SAFETY: NULL is allowed.
        assert_eq!(unsafe { bytes(std::ptr::null(), 1) }.unwrap_err().errno, libc::EFAULT);
    }

    #[test]
    fn a_smaller_struct_of_an_older_program_is_filled_as_far_as_it_goes() {
        let mut old = [0_u32; 2];
        // SAFETY: four bytes are writable.
        unsafe { write_part(old.as_mut_ptr().cast::<[u32; 2]>(), 4, &[7, 8]) }.unwrap();
        assert_eq!(old, [7, 0]);
    }
}
