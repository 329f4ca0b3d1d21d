//! Ethernet addresses, and how one is written as the underlay address of a peer.

use std::fmt;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::str::FromStr;

/// The address of an Ethernet interface.
///
/// Batches name peers by [`SocketAddr`]. An Ethernet address in that form is the link-local IPv6 address which an interface
/// derives from it (RFC 4291, appendix A), and port 0: no UDP socket has port 0, so that the two underlays are told apart. The
/// interface that leads there is the link's and no part of it.
///
/// ```
/// use weft_link::Mac;
///
/// let mac: Mac = "02:00:00:00:00:2a".parse()?;
/// let at = mac.underlay();
/// assert_eq!(at.to_string(), "[fe80::ff:fe00:2a]:0");
/// assert_eq!(Mac::of_underlay(at), Some(mac));
/// # Ok::<(), weft_link::ParseMacError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

/// The text is no Ethernet address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseMacError(String);

/// The bit of the first byte that says: made up by an administrator.
const LOCAL_BIT: u8 = 0x02;
/// The bit of the first byte that says: a group of interfaces.
const GROUP_BIT: u8 = 0x01;

impl Mac {
    /// The underlay address of the peer that has this address.
    #[inline]
    #[must_use]
    pub fn underlay(self) -> SocketAddr {
        let [a, b, c, d, e, f] = self.0;
        let ip = Ipv6Addr::from([0xFE, 0x80, 0, 0, 0, 0, 0, 0, a ^ LOCAL_BIT, b, c, 0xFF, 0xFE, d, e, f]);
        SocketAddrV6::new(ip, 0, 0, 0).into()
    }

    /// The Ethernet address that `at` stands for, if it stands for one.
    #[inline]
    #[must_use]
    pub fn of_underlay(at: SocketAddr) -> Option<Self> {
        let SocketAddr::V6(v6) = at else { return None };
        match v6.ip().octets() {
            [0xFE, 0x80, 0, 0, 0, 0, 0, 0, a, b, c, 0xFF, 0xFE, d, e, f] if v6.port() == 0 => {
                Some(Self([a ^ LOCAL_BIT, b, c, d, e, f]))
            }
            _ => None,
        }
    }

    /// Whether it is the address of one interface: not broadcast, not multicast.
    #[must_use]
    pub const fn is_unicast(self) -> bool {
        self.0[0] & GROUP_BIT == 0
    }
}

/// An underlay address as a person reads and gives it: that of an Ethernet interface as six bytes, any other as it is.
///
/// ```
/// use weft_link::{Mac, UnderlayText};
///
/// assert_eq!(UnderlayText(Mac([2, 0, 0, 0, 0, 42]).underlay()).to_string(), "02:00:00:00:00:2a");
/// assert_eq!(UnderlayText("192.0.2.7:64064".parse()?).to_string(), "192.0.2.7:64064");
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnderlayText(pub SocketAddr);

impl fmt::Display for UnderlayText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Mac::of_underlay(self.0) {
            Some(mac) => fmt::Display::fmt(&mac, f),
            None => fmt::Display::fmt(&self.0, f),
        }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Mac {
    type Err = ParseMacError;

    fn from_str(text: &str) -> Result<Self, ParseMacError> {
        let refused = || ParseMacError(text.to_owned());
        let mut bytes = [0; 6];
        let mut pairs = text.split(':');
        for byte in &mut bytes {
            let pair = pairs.next().filter(|pair| pair.len() == 2).ok_or_else(refused)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| refused())?;
        }
        if pairs.next().is_some() { Err(refused()) } else { Ok(Self(bytes)) }
    }
}

impl fmt::Display for ParseMacError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no Ethernet address; give six bytes such as 02:00:00:00:00:2a", self.0)
    }
}

impl std::error::Error for ParseMacError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_its_form_as_text_and_as_underlay_address() {
        for text in ["02:00:00:00:00:01", "52:54:00:12:34:56", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00"] {
            let mac: Mac = text.parse().unwrap();
            assert_eq!(mac.to_string(), text);
            assert_eq!(Mac::of_underlay(mac.underlay()), Some(mac));
        }
    }

    /// The example of RFC 4291, appendix A: 34-56-78-9A-BC-DE has the interface identifier 36-56-78-FF-FE-9A-BC-DE.
    #[test]
    fn the_underlay_address_is_the_link_local_one_of_rfc_4291() {
        let at = Mac([0x34, 0x56, 0x78, 0x9A, 0xBC, 0xDE]).underlay();
        assert_eq!(at.to_string(), "[fe80::3656:78ff:fe9a:bcde]:0");
    }

    #[test]
    fn addresses_of_udp_stand_for_no_interface() {
        for text in ["10.0.0.1:0", "[fe80::3656:78ff:fe9a:bcde]:64064", "[fd64::1]:0", "[fe80::1]:0"] {
            assert_eq!(Mac::of_underlay(text.parse().unwrap()), None, "{text}");
        }
    }

    #[test]
    fn groups_are_told_from_interfaces() {
        assert!(Mac([2, 0, 0, 0, 0, 1]).is_unicast());
        assert!(!Mac([0xFF; 6]).is_unicast() && !Mac([0x33, 0x33, 0, 0, 0, 1]).is_unicast());
    }

    #[test]
    fn other_text_is_refused_with_what_would_be_accepted() {
        for text in
            ["", "02:00:00:00:00", "02:00:00:00:00:00:00", "2:0:0:0:0:1", "02:00:00:00:00:zz", "fe80::1"]
        {
            assert!(text.parse::<Mac>().unwrap_err().to_string().contains("02:00:00:00:00:2a"), "{text}");
        }
    }
}
