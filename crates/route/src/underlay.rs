//! Where a link delivers.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// An address of the underlay, as links name it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Underlay {
    /// An IP address and a UDP port; or an Ethernet address in the form of one (`docs/adr/0012-packet-link.md`).
    Udp(SocketAddr),
}

impl Underlay {
    /// The host, in the form that all its addresses share: an IPv4 peer of a socket of both families shows as
    /// `::ffff:a.b.c.d`.
    #[must_use]
    pub fn host(self) -> IpAddr {
        let Self::Udp(at) = self;
        at.ip().to_canonical()
    }

    /// Whether both are the same host. [CDP-ENC-7] A sender may vary its UDP source port, so ports do not count.
    #[must_use]
    pub fn is_same_host(self, other: Self) -> bool {
        self.host() == other.host()
    }
}

impl From<SocketAddr> for Underlay {
    fn from(address: SocketAddr) -> Self {
        Self::Udp(address)
    }
}

impl fmt::Display for Underlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Udp(address) = self;
        fmt::Display::fmt(address, f)
    }
}

impl fmt::Debug for Underlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Underlay {
        Underlay::Udp(text.parse().unwrap())
    }

    /// [CDP-ENC-7] A sender may vary its UDP source port by connection.
    #[test]
    fn ports_do_not_tell_hosts_apart() {
        assert!(at("10.0.0.2:64064").is_same_host(at("10.0.0.2:9")));
        assert!(!at("10.0.0.2:9").is_same_host(at("10.0.0.3:9")));
    }

    #[test]
    fn an_ipv4_address_is_the_same_in_its_ipv6_form() {
        assert!(at("10.0.0.2:9").is_same_host(at("[::ffff:10.0.0.2]:9")));
        assert!(!at("[::1]:9").is_same_host(at("127.0.0.1:9")));
    }
}
