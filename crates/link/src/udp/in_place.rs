//! What lies in pages that hold nothing else, and may leave from there: large packets, and groups of smaller ones that the kernel cuts.
//! For either a contest finds out whether a copy is faster (decisions 0046, 0094).

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;

use super::contest::{Contest, Mark, Way};
use super::splice::Splice;
use crate::send_batch::InPages;

/// The way from where packets lie, and what is known of it.
#[derive(Debug, Default)]
pub(super) struct InPlace {
    splice: Splice,
    packets: Mutex<Contest>,
    groups: Mutex<Contest>,
}

impl InPlace {
    /// Whether `pages` are to leave from where they lie; `mark` tells how far the link is. Those that cannot count as well: when they leave by
    /// copies is a part of what this way costs the others.
    pub(super) fn takes(&self, pages: &InPages<'_>, mark: impl FnOnce() -> Mark) -> bool {
        let is_group = pages.count > 1;
        let fits = Splice::takes(pages.bytes, is_group);
        if !fits && !is_group || self.splice.is_refused() {
            return false;
        }
        let contest = if is_group { &self.groups } else { &self.packets };
        // nobody else has it: who is on his way to the peer keeps others off it
        let way = contest.try_lock().map_or(Way::Copied, |mut contest| contest.next(mark));
        way == Way::Spliced && fits
    }

    /// Whether `pages` could leave from where they lie, if their target had a socket.
    pub(super) fn may_take(&self, pages: &InPages<'_>) -> bool {
        Splice::takes(pages.bytes, pages.count > 1) && !self.splice.is_refused()
    }

    /// Sends them by a connected socket. False if there is no such way.
    ///
    /// # Errors
    /// What the socket says, of them or of what was sent before. They were not sent.
    pub(super) fn send(&self, socket: BorrowedFd<'_>, pages: &InPages<'_>) -> io::Result<bool> {
        let is_sent = self.splice.send(socket, pages.bytes)?;
        if is_sent {
            pages.note_read();
        }
        Ok(is_sent)
    }

    /// Whether groups leave from where they lie, so that they had better end where their pages do.
    pub(super) fn takes_groups(&self) -> bool {
        !self.splice.is_refused() && self.groups.try_lock().is_ok_and(|contest| contest.way() == Way::Spliced)
    }
}
