//! What there is to wait for of a link: it may change while the link receives.

use super::{Port, Turn};

impl Port {
    /// The link receives by other descriptors, and what it has room for may be another. Who sleeps on those that were is woken.
    #[cold]
    pub(super) fn note_new_fds(&self, turn: &mut Turn) {
        self.inflow.set_buffer_bytes(self.link.room_bytes().unwrap_or(self.info.receive_buffer_bytes));
        let before = std::mem::replace(&mut turn.link_fds, self.link.poll_fds());
        let mut gone = before.into_iter().filter(|fd| !turn.link_fds.contains(fd));
        self.signal.raise();
        // Where the kernel has no room for them, the service thread hears them all the same.
        let _ = gone.try_for_each(|fd| self.hear_no_more(fd)).and_then(|()| self.hear_link());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::thread;

    use crate::Interest;
    use crate::conversation::{Conversation, LIMIT};

    /// The kernel's buffers hold less than comes in a doze.
    #[test]
    fn a_port_that_is_flooded_beyond_its_room_gets_more() {
        let Conversation { here, asks, there, answers } = Conversation::open_with_buffers(5_000);
        let port = there.core().port(0);
        let is_wide = || port.link.room_bytes().is_some();
        let end = here.now() + LIMIT;
        thread::scope(|scope| {
            scope.spawn(|| {
                let send = |message: &[u8]| {
                    while here.send(&asks, message).is_err() {
                        assert!(here.wait(&asks, Interest::Writable, Some(end + LIMIT)));
                    }
                };
                while !is_wide() && here.now() < end {
                    send(&[7; 1_000]);
                }
                send(b"");
            });
            while there.recv_within(&answers, &mut [0; 1_000], Some(LIMIT)).unwrap().len > 0 {}
        });
        assert!(is_wide(), "of {} bytes", port.info.receive_buffer_bytes);
        assert_eq!(port.link.room_bytes(), Some(4 * port.info.receive_buffer_bytes));
    }
}
