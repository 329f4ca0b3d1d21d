//! Chunks whose packets are acknowledged, to be filled again; the link may still hold some.
//!
//! What only this core has touched is used again as soon as may be, as its caches have it. Chunks in pages the peer may have read from where
//! they lie, on another core, and to write to what lies in that one's caches takes four times as long as to what both share: so those lie unused
//! until others have taken their place there (decisions 0092, 0094).

use std::collections::VecDeque;

use weft_frame::{FrameBuffer, Pages};

/// Chunks of the heap that are kept, also at rest until that was long: 2 MiB, as much as is in flight on a fast path.
pub(super) const HEAPED_MAX: usize = 32;
/// Chunks in pages that were read there and lie unused before the first of them is filled again: 1 MiB, as much as a second cache has.
pub(super) const COOLING: usize = 16;
/// Those in pages that are kept: to take pages from the system takes longer than to fill them. As many as a send queue of 4 MiB has, and these.
pub(super) const PAGED_MAX: usize = 64 + COOLING;

#[derive(Clone, Debug, Default)]
pub(super) struct Spent {
    /// Those of the heap, of which the last one is filled first.
    heaped: Vec<FrameBuffer>,
    /// Chunks in pages that have come back since one of the heap was wanted.
    paged_since: usize,
    /// Those in pages that nobody else has read there, of which the last one is filled first.
    unread: Vec<FrameBuffer>,
    /// Those in pages that the peer has read there, of which the first one is.
    read: VecDeque<FrameBuffer>,
    /// Where those in pages come from.
    pages: Pages,
}

impl Spent {
    pub(super) fn keep(&mut self, chunk: FrameBuffer) {
        if chunk.is_pages() {
            self.keep_paged(chunk);
            return;
        }
        if self.heaped.len() >= HEAPED_MAX {
            self.heaped.remove(0);
        }
        self.heaped.push(chunk);
    }

    fn keep_paged(&mut self, mut chunk: FrameBuffer) {
        self.paged_since += 1;
        if self.paged_since > HEAPED_MAX {
            // who has come to pages needs these no more
            self.heaped.clear();
        }
        if self.paged() >= PAGED_MAX && self.read.pop_front().is_none() {
            self.unread.remove(0);
        }
        if chunk.take_read() {
            self.read.push_back(chunk);
        } else {
            self.unread.push(chunk);
        }
    }

    /// What is kept at rest: all, but where `are_many` in the process those of the heap go back; and where pages `are_scarce` there are no more
    /// than go back to the system together, and nothing else.
    pub(super) fn rest(&mut self, are_many: bool, are_scarce: bool) {
        if are_many || are_scarce {
            self.heaped.clear();
        }
        if are_scarce {
            self.pages = Pages::default();
            self.read.extend(self.unread.drain(..));
            if let Some(last) = self.read.pop_back() {
                self.read.retain(|chunk| chunk.shares_pages(&last));
                self.read.push_back(last);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.heaped.is_empty() && self.paged() == 0 && self.pages.is_empty()
    }

    /// One of `bytes`, in pages if there are any. Where the process has more than half of those that it may have, one of the heap that was used
    /// before does as well.
    pub(super) fn in_pages(&mut self, bytes: usize) -> FrameBuffer {
        if let Some(at) = self.unread.iter_mut().rposition(|chunk| is_free(chunk, bytes)) {
            return self.unread.remove(at);
        }
        let are_scarce = Pages::are_scarce();
        let is_cool = are_scarce || self.read.len() > COOLING;
        let at = if is_cool { self.read.iter_mut().position(|chunk| is_free(chunk, bytes)) } else { None };
        let again = at.and_then(|at| self.read.remove(at));
        let again = again.or_else(|| if are_scarce { self.reclaim(bytes) } else { None });
        again.unwrap_or_else(|| self.pages.buffer(bytes))
    }

    /// One of `bytes` of the heap that was used before.
    pub(super) fn reclaim(&mut self, bytes: usize) -> Option<FrameBuffer> {
        self.paged_since = 0;
        let at = self.heaped.iter_mut().rposition(|chunk| is_free(chunk, bytes))?;
        Some(self.heaped.remove(at))
    }

    /// Packets have another size from now on.
    pub(super) fn forget_size(&mut self) {
        (self.heaped, self.unread, self.read) = Default::default();
    }

    /// All in pages goes back.
    pub(super) fn forget_pages(&mut self) {
        self.pages = Pages::default();
        self.unread.clear();
        self.read.clear();
    }

    /// Those in pages that are kept.
    pub(super) fn paged(&self) -> usize {
        self.unread.len() + self.read.len()
    }

    #[cfg(test)]
    pub(super) fn heaped(&self) -> usize {
        self.heaped.len()
    }

    /// Whether all chunks in pages go back to the system together.
    #[cfg(test)]
    pub(super) fn shares_pages(&self) -> bool {
        let mut all = self.unread.iter().chain(&self.read);
        all.next().is_none_or(|first| all.all(|chunk| chunk.shares_pages(first)))
    }
}

/// Whether it has `bytes` and the link holds nothing of it; it is empty then.
fn is_free(chunk: &mut FrameBuffer, bytes: usize) -> bool {
    chunk.capacity() == bytes && chunk.try_clear()
}
