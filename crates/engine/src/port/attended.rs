//! A port that a loop of events of the user's attends (see `attendance`).

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use weft_base::Instant;
use weft_link::AnyReadable;

use super::Port;

/// Who hears the link beside those that sleep on it.
#[derive(Default)]
pub(super) struct Attended {
    by: OnceLock<Arc<AnyReadable>>,
    is_now: AtomicBool,
}

impl Port {
    /// Whether a loop hears the link now, and runs turns for what comes.
    pub(crate) fn is_attended(&self) -> bool {
        self.attended.is_now.load(Ordering::SeqCst)
    }

    /// A loop does from now on, or none does any more. Then whoever relied on it relies on the service thread.
    pub(crate) fn set_attended(&self, is_attended: bool) {
        self.attended.is_now.store(is_attended, Ordering::SeqCst);
        if !is_attended {
            self.watch();
        }
        self.rouse_service();
    }

    /// `heard` is readable when the link has something, from now on.
    pub(crate) fn be_heard_by(&self, heard: &Arc<AnyReadable>) -> io::Result<()> {
        self.attended.by.get_or_init(|| heard.clone());
        self.hear_link()
    }

    /// Whether the service thread takes in a flood by itself: whoever does not wait in a call looks for nothing then, and is woken when
    /// enough has come.
    #[inline]
    pub(crate) fn is_left_to_service(&self, now: Instant) -> bool {
        now.as_nanos() < self.left_until.load(Ordering::Relaxed)
    }

    /// It does from now on, and loops do not hear the link; until then, as it may have no processor; or for `None` it does no more.
    pub(crate) fn leave_to_service(&self, until: Option<Instant>) {
        let was_left = self.left_until.swap(until.map_or(0, Instant::as_nanos), Ordering::Relaxed) > 0;
        let Some(heard) = self.attended.by.get().filter(|_| was_left != until.is_some()) else { return };
        // Descriptors that could be added stay what they are; if not, loops rely on the service thread.
        let _ = match until {
            Some(_) => self.link.poll_fds().into_iter().try_for_each(|fd| heard.remove(fd, self.name())),
            None => self.hear_link(),
        };
    }

    /// This descriptor is not the link's any more.
    pub(super) fn hear_no_more(&self, fd: RawFd) -> io::Result<()> {
        self.attended.by.get().map_or(Ok(()), |heard| heard.remove(fd, self.name()))
    }

    /// What its descriptors are called among those of all ports.
    fn name(&self) -> u64 {
        self.index as u64
    }

    /// The link's descriptors are among those that are heard, where anybody hears them: a second one may be new.
    pub(super) fn hear_link(&self) -> io::Result<()> {
        let is_left = self.left_until.load(Ordering::Relaxed) > 0;
        let Some(heard) = self.attended.by.get().filter(|_| !is_left) else { return Ok(()) };
        self.link.poll_fds().into_iter().try_for_each(|fd| heard.add(fd, self.name()))
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    use super::*;
    use crate::clock;
    use crate::port::tests::port;

    #[test]
    fn loops_hear_nothing_of_a_flood_that_is_left_to_the_service_thread() {
        let (port, heard) = (port(), Arc::new(AnyReadable::new().unwrap()));
        let is_readable = |limit| weft_link::wait(&[heard.as_raw_fd()], Some(limit)).unwrap() > 0;
        port.be_heard_by(&heard).unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.send_to(b"a packet", port.link.info().local).unwrap();
        assert!(is_readable(Duration::from_secs(20)));

        let now = clock::now();
        port.leave_to_service(Some(now + Duration::from_millis(1)));
        assert!(port.is_left_to_service(now) && !port.is_left_to_service(now + Duration::from_millis(1)));
        port.hear_link().unwrap(); // as where the link has another descriptor now
        assert!(!is_readable(Duration::from_millis(20)));
        port.leave_to_service(None);
        assert!(!port.is_left_to_service(now));
        assert!(is_readable(Duration::from_secs(20)));
    }

    #[test]
    fn who_relied_on_a_loop_relies_on_the_service_thread_after_it() {
        let port = port();
        port.set_attended(true);
        port.watch();
        assert!(port.is_attended() && !port.is_watched.load(Ordering::Relaxed));
        port.set_attended(false);
        assert!(!port.is_attended() && port.is_watched.load(Ordering::Relaxed));
    }
}
