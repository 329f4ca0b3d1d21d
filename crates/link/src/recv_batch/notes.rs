//! What a link and who receives from it tell each other beside packets.

use super::{Received, RecvBatch};
use crate::udp::Stripe;

impl RecvBatch {
    /// One of the link's descriptors was readable: a link with two, which looks at one of them now and then only, looks at both before it
    /// next says that there is nothing.
    #[inline]
    pub fn note_readable(&mut self) {
        self.rhythm.note_readable();
    }

    /// Whether the kernel has room for what comes now while nobody looks. Where it has not, a link that can have more of it does.
    pub fn note_room(&mut self, has_room: bool) {
        self.rhythm.note_room(has_room);
    }

    /// The link receives by other descriptors from now on ([`crate::Link::poll_fds`]).
    pub fn note_new_fds(&mut self) {
        self.has_new_fds = true;
    }

    /// Whether that was said since this was last asked.
    #[inline]
    pub fn take_new_fds(&mut self) -> bool {
        std::mem::take(&mut self.has_new_fds)
    }

    /// What came last, which is not taken apart.
    pub(crate) fn last_piece(&self) -> Option<&Received> {
        self.packets.last()
    }

    /// That was the last before a flood goes round several sockets.
    pub(crate) fn begin_course(&mut self, stripe: Stripe) {
        if let Some(last) = self.packets.last() {
            self.course.begin(stripe, last);
        }
    }

    /// That is of a flood that goes round several sockets, and came by this one of them, or before.
    pub(crate) fn note_course(&mut self, socket: Option<usize>) {
        if let Some(last) = self.packets.last() {
            self.course.note(last, socket);
        }
    }
}
