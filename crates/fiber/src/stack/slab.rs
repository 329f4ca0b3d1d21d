//! Many regions in one mapping.

use std::io;
use std::ptr::NonNull;

use corosensei::stack::valgrind::ValgrindStackRegistration;

use super::{PAGE, Region};

/// Linux 6.13; not yet in every C library's headers.
const MADV_GUARD_INSTALL: libc::c_int = 102;
/// A slab is about so large: few mappings, little of them unused.
const SLAB_BYTES: usize = 4 << 20;

/// A mapping that is cut into regions of one size, given out from low to high.
pub(crate) struct Slab {
    base: NonNull<u8>,
    size: usize,
    region_size: usize,
    used: usize,
    /// What valgrind was told of, so that it knows a switch from a wild stack pointer.
    registered: Vec<ValgrindStackRegistration>,
}

// SAFETY: a slab is a range of addresses.
unsafe impl Send for Slab {}

impl Slab {
    /// Maps a slab for regions of `region_size` bytes, at most `count` of them.
    pub(crate) fn map(region_size: usize, count: usize) -> io::Result<Self> {
        let count = (SLAB_BYTES / region_size).clamp(1, count.max(1));
        let size = region_size * count;
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK,
        );
        // SAFETY: a new mapping, anywhere.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), size, protection, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // A huge page would back hundreds of fibers at the first touch. Refusal changes nothing that matters.
        // SAFETY: the mapping is ours.
        unsafe { libc::madvise(base, size, libc::MADV_NOHUGEPAGE) };
        base.expose_provenance();
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mmap returned zero"))?;
        Ok(Self { base, size, region_size, used: 0, registered: Vec::new() })
    }

    /// The next region, with its guard in place; `None` when the slab is used up.
    pub(crate) fn next(&mut self) -> io::Result<Option<Region>> {
        let offset = self.used * self.region_size;
        if offset + self.region_size > self.size {
            return Ok(None);
        }
        // SAFETY: the offset is within the mapping.
        let base = unsafe { self.base.add(offset) };
        guard(base)?;
        self.used += 1;
        let region = Region::new(base, self.region_size);
        self.registered.push(ValgrindStackRegistration::new(base.as_ptr(), self.region_size));
        Ok(Some(region))
    }

    /// The regions given out so far.
    pub(crate) fn regions(&self) -> impl Iterator<Item = Region> {
        // SAFETY: the offsets are within the mapping.
        (0..self.used)
            .map(|at| Region::new(unsafe { self.base.add(at * self.region_size) }, self.region_size))
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and whoever drops a slab has seen that no region of it is in use.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.size) };
    }
}

/// Makes every access to the page at `page` a fault.
fn guard(page: NonNull<u8>) -> io::Result<()> {
    // SAFETY: the page is the lowest of a region that nobody uses yet.
    let installed = unsafe { libc::madvise(page.as_ptr().cast(), PAGE, MADV_GUARD_INSTALL) };
    if installed == 0 {
        return Ok(());
    }
    // SAFETY: as above.
    let protected = unsafe { libc::mprotect(page.as_ptr().cast(), PAGE, libc::PROT_NONE) };
    if protected == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
