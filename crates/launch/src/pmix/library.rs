//! The functions of `libpmix.so.2`, as safe as they can be made.

use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use libloading::Library;

use super::layout::{BYTE_OBJECT, GLOBAL, Info, Proc, SUCCESS, Status, UINT32, Value};

/// What every PMIx from version 2 to 5 is called.
const NAME: &str = "libpmix.so.2";

type Init = unsafe extern "C" fn(*mut Proc, *mut Info, usize) -> Status;
type Finalize = unsafe extern "C" fn(*const Info, usize) -> Status;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> Status;
type Commit = unsafe extern "C" fn() -> Status;
type Fence = unsafe extern "C" fn(*const Proc, usize, *const Info, usize) -> Status;
type Get = unsafe extern "C" fn(*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> Status;
type ErrorString = unsafe extern "C" fn(Status) -> *const c_char;

/// The functions. The library stays loaded until the process ends, so they are valid as long as anything is. All of them
/// may be called by any thread at any time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pmix {
    init: Init,
    finalize: Finalize,
    put: Put,
    commit: Commit,
    fence: Fence,
    get: Get,
    error_string: ErrorString,
}

impl Pmix {
    /// Loads the library, or says in the words of the dynamic linker why not.
    pub(super) fn load() -> Result<Self, String> {
        // SAFETY: the constructors of this library set up its own state only.
        let library = unsafe { Library::new(NAME) }.map_err(|error| error.to_string())?;
        // Its threads and exit handlers may outlive every handle to it.
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: these are the types that `pmix.h` declares.
        let init = unsafe { symbol::<Init>(library, c"PMIx_Init") }?;
        // SAFETY: as above.
        let finalize = unsafe { symbol::<Finalize>(library, c"PMIx_Finalize") }?;
        // SAFETY: as above.
        let put = unsafe { symbol::<Put>(library, c"PMIx_Put") }?;
        // SAFETY: as above.
        let commit = unsafe { symbol::<Commit>(library, c"PMIx_Commit") }?;
        // SAFETY: as above.
        let fence = unsafe { symbol::<Fence>(library, c"PMIx_Fence") }?;
        // SAFETY: as above.
        let get = unsafe { symbol::<Get>(library, c"PMIx_Get") }?;
        // SAFETY: as above.
        let error_string = unsafe { symbol::<ErrorString>(library, c"PMIx_Error_string") }?;
        Ok(Self { init, finalize, put, commit, fence, get, error_string })
    }

    /// Joins the job; which rank of which job this is. To be called before all others.
    pub(super) fn init(self) -> Result<Proc, Status> {
        let mut own = Proc { nspace: [0; 256], rank: 0 };
        // SAFETY: `own` lives, and there is no info.
        let status = unsafe { (self.init)(&raw mut own, ptr::null_mut(), 0) };
        succeeded(status).map(|()| own)
    }

    /// Leaves the job.
    pub(super) fn finalize(self) {
        // SAFETY: there is no info. Nothing could be done about a refusal.
        let _ = unsafe { (self.finalize)(ptr::null(), 0) };
    }

    /// Puts `bytes` under `key` for all ranks, and sends it on its way.
    pub(super) fn publish(self, key: &CStr, bytes: &[u8]) -> Result<(), Status> {
        let mut value = Value::bytes(bytes);
        // SAFETY: key and value live; the library copies the value and does not write to it.
        succeeded(unsafe { (self.put)(GLOBAL, key.as_ptr(), &raw mut value) })?;
        // SAFETY: it takes nothing.
        succeeded(unsafe { (self.commit)() })
    }

    /// Waits for all ranks of the job.
    pub(super) fn fence(self, wish: &Info) -> Result<(), Status> {
        // SAFETY: no list of ranks means all of the job; `wish` is one info and lives.
        succeeded(unsafe { (self.fence)(ptr::null(), 0, wish, 1) })
    }

    /// The bytes under `key` of a rank.
    pub(super) fn bytes(self, of: &Proc, key: &CStr, wish: &Info) -> Result<Vec<u8>, Status> {
        let value = self.get(of, key, Some(wish))?;
        // SAFETY: the library made it and gave it away.
        let Value { kind, data } = unsafe { value.read() };
        let mut bytes = Vec::new();
        if kind == BYTE_OBJECT {
            // SAFETY: the type says that this member is the one.
            let object = unsafe { data.bytes };
            if !object.bytes.is_null() {
                // SAFETY: it points to so many bytes.
                bytes =
                    unsafe { std::slice::from_raw_parts(object.bytes.cast::<u8>(), object.size) }.to_vec();
                // SAFETY: values own their bytes, which `malloc` gave.
                unsafe { libc::free(object.bytes) };
            }
        }
        // SAFETY: as above.
        unsafe { libc::free(value.cast::<c_void>()) };
        Ok(bytes)
    }

    /// The number under `key` of a rank or a job; `None` if there is no number.
    pub(super) fn number(self, of: &Proc, key: &CStr) -> Result<Option<u32>, Status> {
        let value = self.get(of, key, None)?;
        // SAFETY: the library made it and gave it away.
        let Value { kind, data } = unsafe { value.read() };
        // SAFETY: as above; a value of another type would leak what it owns, and numbers own nothing.
        unsafe { libc::free(value.cast::<c_void>()) };
        // SAFETY: all members are plain memory, and all of it was read.
        let number = unsafe { data.uint32 };
        Ok((kind == UINT32).then_some(number))
    }

    fn get(self, of: &Proc, key: &CStr, wish: Option<&Info>) -> Result<*mut Value, Status> {
        let mut value = ptr::null_mut();
        let (info, count) = wish.map_or((ptr::null(), 0), |wish| (ptr::from_ref(wish), 1));
        // SAFETY: all of them live, and `info` is `count` infos.
        succeeded(unsafe { (self.get)(of, key.as_ptr(), info, count, &raw mut value) })?;
        if value.is_null() { Err(super::layout::ERR_UNREACH) } else { Ok(value) }
    }

    /// The library's words for a status.
    pub(super) fn words(self, status: Status) -> String {
        // SAFETY: it takes any number and returns a text that is never freed, or null.
        let text = unsafe { (self.error_string)(status) };
        if text.is_null() {
            return format!("status {status}");
        }
        // SAFETY: it is not null, and ends with a zero byte.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

/// The function `name`, in the words of the dynamic linker if there is none.
///
/// # Safety
/// `T` is the type of the function.
unsafe fn symbol<T: Copy>(library: &'static Library, name: &CStr) -> Result<T, String> {
    // SAFETY: the caller's promise.
    let found = unsafe { library.get::<T>(name.to_bytes_with_nul()) };
    found.map(|function| *function).map_err(|error| error.to_string())
}

const fn succeeded(status: Status) -> Result<(), Status> {
    if status == SUCCESS { Ok(()) } else { Err(status) }
}
