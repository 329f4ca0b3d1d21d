//! The layouts and numbers of `pmix_common.h` that this room uses; they are the same in versions 3 to 5.
//!
//! [`Info`] and [`Value`] grew between versions, at their ends. So neither is ever passed as an array of several.

use std::ffi::{CStr, c_char, c_int, c_void};

/// What a call says: 0 or a negative number.
pub(super) type Status = c_int;

pub(super) const SUCCESS: Status = 0;
pub(super) const ERR_TIMEOUT: Status = -24;
pub(super) const ERR_UNREACH: Status = -25;
pub(super) const ERR_PARTIAL_SUCCESS: Status = -52;
pub(super) const ERR_LOST_CONNECTION: Status = -61;

/// The rank that stands for the job.
pub(super) const RANK_WILDCARD: u32 = u32::MAX - 1;
/// Values for every rank.
pub(super) const GLOBAL: u8 = 3;

pub(super) const BOOL: u16 = 1;
pub(super) const INT: u16 = 6;
pub(super) const UINT32: u16 = 14;
pub(super) const BYTE_OBJECT: u16 = 27;

pub(super) const JOB_SIZE: &CStr = c"pmix.job.size";
pub(super) const LOCAL_SIZE: &CStr = c"pmix.local.size";
pub(super) const COLLECT_DATA: &CStr = c"pmix.collect";
pub(super) const TIMEOUT: &CStr = c"pmix.timeout";

/// `pmix_proc_t`: a rank of a job.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Proc {
    /// The job, up to a zero byte.
    pub(super) nspace: [c_char; 256],
    pub(super) rank: u32,
}

/// `pmix_byte_object_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ByteObject {
    pub(super) bytes: *mut c_void,
    pub(super) size: usize,
}

/// `pmix_value_t`: a type and a union.
#[repr(C)]
pub(super) struct Value {
    pub(super) kind: u16,
    pub(super) data: Data,
}

/// The union of [`Value`]; its largest member has three words.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union Data {
    pub(super) flag: bool,
    pub(super) integer: c_int,
    pub(super) uint32: u32,
    pub(super) bytes: ByteObject,
    pub(super) words: [u64; 3],
}

/// `pmix_info_t`: a wish about how a call is to be done.
#[repr(C)]
pub(super) struct Info {
    pub(super) key: [c_char; 512],
    pub(super) flags: u32,
    pub(super) value: Value,
}

impl Proc {
    /// Another rank of the same job.
    pub(super) const fn of_rank(mut self, rank: u32) -> Self {
        self.rank = rank;
        self
    }

    /// The name of the job.
    pub(super) fn job(&self) -> String {
        let bytes = self.nspace.iter().map(|c| c.cast_unsigned()).take_while(|byte| *byte != 0);
        String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
    }
}

impl Value {
    pub(super) const fn flag(flag: bool) -> Self {
        let mut data = Data { words: [0; 3] };
        data.flag = flag;
        Self { kind: BOOL, data }
    }

    pub(super) const fn integer(integer: c_int) -> Self {
        let mut data = Data { words: [0; 3] };
        data.integer = integer;
        Self { kind: INT, data }
    }

    /// A value that refers to `bytes`, for calls that only read it.
    pub(super) const fn bytes(bytes: &[u8]) -> Self {
        let object = ByteObject { bytes: bytes.as_ptr().cast_mut().cast(), size: bytes.len() };
        let mut data = Data { words: [0; 3] };
        data.bytes = object;
        Self { kind: BYTE_OBJECT, data }
    }
}

impl Info {
    pub(super) fn new(key: &CStr, value: Value) -> Self {
        let mut info = Self { key: [0; 512], flags: 0, value };
        // The last byte stays zero.
        let bytes = key.to_bytes().iter().take(511);
        for (slot, byte) in info.key.iter_mut().zip(bytes) {
            *slot = byte.cast_signed();
        }
        info
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};
    use std::process::Command;

    use super::*;

    const PROGRAM: &str = r#"
#include <stddef.h>
#include <stdio.h>
#include <pmix.h>
#define N(x) printf("%lld ", (long long)(x))
#define S(x) printf("%s ", x)
int main(void) {
    N(sizeof(pmix_proc_t)); N(offsetof(pmix_proc_t, nspace)); N(offsetof(pmix_proc_t, rank));
    N(sizeof(pmix_value_t)); N(offsetof(pmix_value_t, type)); N(offsetof(pmix_value_t, data));
    N(offsetof(pmix_value_t, data.bo.bytes)); N(offsetof(pmix_value_t, data.bo.size)); N(sizeof(pmix_byte_object_t));
    N(sizeof(pmix_info_t)); N(offsetof(pmix_info_t, key)); N(offsetof(pmix_info_t, flags)); N(offsetof(pmix_info_t, value));
    N(sizeof(pmix_status_t)); N(sizeof(pmix_scope_t)); N(sizeof(pmix_data_type_t)); N(sizeof(pmix_rank_t));
    N(PMIX_SUCCESS); N(PMIX_ERR_TIMEOUT); N(PMIX_ERR_UNREACH); N(PMIX_ERR_PARTIAL_SUCCESS); N(PMIX_ERR_LOST_CONNECTION);
    N((pmix_rank_t)(PMIX_RANK_WILDCARD)); N(PMIX_GLOBAL);
    N(PMIX_BOOL); N(PMIX_INT); N(PMIX_UINT32); N(PMIX_BYTE_OBJECT);
    S(PMIX_JOB_SIZE); S(PMIX_LOCAL_SIZE); S(PMIX_COLLECT_DATA); S(PMIX_TIMEOUT);
}
"#;

    fn ours() -> String {
        let data = offset_of!(Value, data);
        let numbers = [
            size_of::<Proc>(),
            offset_of!(Proc, nspace),
            offset_of!(Proc, rank),
            size_of::<Value>(),
            offset_of!(Value, kind),
            data,
            data + offset_of!(ByteObject, bytes),
            data + offset_of!(ByteObject, size),
            size_of::<ByteObject>(),
            size_of::<Info>(),
            offset_of!(Info, key),
            offset_of!(Info, flags),
            offset_of!(Info, value),
            size_of::<Status>(),
            size_of_val(&GLOBAL),
            size_of_val(&BOOL),
            size_of_val(&RANK_WILDCARD),
        ];
        let codes = [SUCCESS, ERR_TIMEOUT, ERR_UNREACH, ERR_PARTIAL_SUCCESS, ERR_LOST_CONNECTION];
        let kinds = [BOOL, INT, UINT32, BYTE_OBJECT];
        let keys = [JOB_SIZE, LOCAL_SIZE, COLLECT_DATA, TIMEOUT];
        let words = numbers.iter().map(ToString::to_string).chain(codes.iter().map(ToString::to_string));
        let words = words.chain([RANK_WILDCARD.to_string(), GLOBAL.to_string()]);
        let words = words.chain(kinds.iter().map(ToString::to_string));
        words.chain(keys.iter().map(|key| key.to_string_lossy().into_owned())).collect::<Vec<_>>().join(" ")
    }

    /// The flags that find the installed header, or `None` if there is none.
    fn header() -> Option<Vec<String>> {
        let output = Command::new("pkg-config").args(["--cflags", "pmix"]).output().ok()?;
        let flags = String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect();
        output.status.success().then_some(flags)
    }

    #[test]
    fn the_layouts_and_numbers_are_those_of_the_installed_header() {
        let Some(flags) = header() else {
            weft_skip::skipped!(
                "pkg-config finds no PMIx header here (Debian: libpmix-dev), so layouts were not compared"
            );
            return;
        };
        let dir = std::env::temp_dir().join(format!("weft-launch-layout-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let (source, program) = (dir.join("layout.c"), dir.join("layout"));
        std::fs::write(&source, PROGRAM).unwrap();
        let built = Command::new("cc").args(flags).arg(&source).arg("-o").arg(&program).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let theirs = Command::new(&program).output().unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(ours(), String::from_utf8_lossy(&theirs.stdout).trim());
    }
}
