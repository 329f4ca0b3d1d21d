//! What hosts say of packets that a group of links sent, where nobody else reads it.
//!
//! The kernel asks no program whom such a message is for: it takes one of all sockets of the address by a hash, those for floods (see
//! `basins`) among them, of which most are not read. So the first link of the group hears these for messages of that kind alone.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use super::basins::Basins;
use super::refusals;
use crate::AnyReadable;
use crate::recv_batch::Refusal;
use crate::sockopt;

/// Sockets that are read in one look.
const SOCKETS_MAX: usize = 16;

/// The sockets of all floods, as far as they have such messages.
#[derive(Debug)]
pub(super) struct Reports(AnyReadable);

impl Reports {
    /// Of these, if there are any and the system has a descriptor.
    pub(super) fn of(basins: &[Basins]) -> Option<Self> {
        let heard = AnyReadable::new().ok().filter(|_| !basins.is_empty())?;
        let mut fds = basins.iter().flat_map(Basins::fds);
        fds.try_for_each(|fd| heard.add_for_errors(fd, u64::try_from(fd).map_err(io::Error::other)?)).ok()?;
        Some(Self(heard))
    }

    /// Readable when there is a message.
    pub(super) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Reads them, and gives the refusals to `give`.
    #[cold]
    pub(super) fn read(&self, mut give: impl FnMut(Refusal)) {
        let mut ready = [0; SOCKETS_MAX];
        let count = self.0.ready(&mut ready).unwrap_or(0);
        for fd in ready[..count].iter().filter_map(|&fd| RawFd::try_from(fd).ok()) {
            refusals::read(fd, &mut give);
            // The kernel may have set the error again while its message was read: nothing else would take it back.
            sockopt::take_error(fd);
        }
    }
}
