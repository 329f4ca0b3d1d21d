//! Whose packets the second socket brings: once that is known, the kernel need not tell it of each one, which saves a tenth of
//! the call.
//!
//! A connected socket takes packets of its peer alone. But it may hold what came in the moment between its binding and its
//! connecting, or what the kernel was just delivering when it was connected to another. That lies in front of all that comes
//! later; so addresses are asked for until many packets of the peer and of nobody else have come. Should one of before come later
//! still, it counts as the peer's, and its connection takes it for one that comes from elsewhere.

use std::net::SocketAddr;

/// Packets of the peer before their addresses are not asked for any more.
const NAMED_MIN: u32 = 1_024;

/// What one who receives knows of it.
#[derive(Default, Debug)]
pub(crate) struct Origin {
    /// Which connecting of the socket this is about.
    connecting: u32,
    peer: Option<SocketAddr>,
    /// Packets of the peer, each with its address, since the last of anybody else; up to [`NAMED_MIN`].
    named: u32,
}

impl Origin {
    /// Whom every packet is from, if that is known, since the socket was connected for the `connecting`th time.
    #[inline]
    pub(super) fn known(&self, connecting: u32) -> Option<SocketAddr> {
        if self.named >= NAMED_MIN && self.connecting == connecting { self.peer } else { None }
    }

    /// A packet came, and the kernel told from where.
    pub(super) fn note(&mut self, connecting: u32, from: SocketAddr) {
        if (self.connecting, self.peer) != (connecting, Some(from)) {
            *self = Self { connecting, peer: Some(from), named: 0 };
        }
        self.named += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        ([10, 0, 0, 1], port).into()
    }

    /// After so many packets of one peer.
    fn origin(count: u32) -> Origin {
        let mut origin = Origin::default();
        (0..count).for_each(|_| origin.note(1, at(7)));
        origin
    }

    #[test]
    fn it_is_known_after_many_packets_of_one_peer() {
        assert_eq!(origin(0).known(0), None);
        assert_eq!(origin(NAMED_MIN - 1).known(1), None);
        assert_eq!(origin(NAMED_MIN).known(1), Some(at(7)));
    }

    #[test]
    fn a_packet_of_another_begins_it_anew() {
        let mut origin = origin(NAMED_MIN - 1);
        origin.note(1, at(8));
        (1..NAMED_MIN).for_each(|_| origin.note(1, at(7)));
        assert_eq!(origin.known(1), None);
        origin.note(1, at(7));
        assert_eq!(origin.known(1), Some(at(7)));
    }

    #[test]
    fn what_was_known_is_not_when_the_socket_was_connected_again() {
        let mut origin = origin(NAMED_MIN);
        assert_eq!(origin.known(2), None);
        origin.note(2, at(7));
        assert_eq!((origin.known(1), origin.known(2)), (None, None));
    }
}
