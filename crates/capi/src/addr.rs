//! Addresses as C holds them, and their text.

use std::ffi::{c_char, c_int};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};

use weft_base::limits::UDP_PORT;
use weft_socket::{Address, NodeId, Port, Target, preferred_address};

use crate::boundary::{self, Failure};
use crate::node;

/// No underlay address: the node is known by its number.
pub const CDP_UNDERLAY_NONE: u16 = 0;
/// The underlay is UDP over IPv4.
pub const CDP_UNDERLAY_IPV4: u16 = 4;
/// The underlay is UDP over IPv6.
pub const CDP_UNDERLAY_IPV6: u16 = 6;

/// `struct cdp_addr`: one end of a connection, and where it is reached; numbers in the byte order of the host.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CdpAddr {
    /// Node number, or 0 for this node (bind) or whichever answers (connect).
    pub node: u32,
    /// CDP port, or 0 for any (bind).
    pub port: u16,
    /// Which kind of underlay address follows.
    pub underlay: u16,
    /// UDP port.
    pub underlay_port: u16,
    /// 0.
    pub reserved: u16,
    /// IPv6 scope, 0 otherwise.
    pub underlay_scope: u32,
    /// The IP address as it travels.
    pub underlay_ip: [u8; 16],
}

impl CdpAddr {
    /// This address with the underlay address `at`.
    pub(crate) fn with_underlay(mut self, at: SocketAddr) -> Self {
        self.underlay_port = at.port();
        match at {
            SocketAddr::V4(at) => {
                self.underlay = CDP_UNDERLAY_IPV4;
                self.underlay_ip[..4].copy_from_slice(&at.ip().octets());
            }
            SocketAddr::V6(at) => {
                self.underlay = CDP_UNDERLAY_IPV6;
                self.underlay_ip = at.ip().octets();
                self.underlay_scope = at.scope_id();
            }
        }
        self
    }

    /// The underlay address, if there is one.
    pub(crate) fn underlay(&self) -> Result<Option<SocketAddr>, Failure> {
        let [a, b, c, d, ..] = self.underlay_ip;
        match self.underlay {
            CDP_UNDERLAY_NONE => Ok(None),
            CDP_UNDERLAY_IPV4 => {
                Ok(Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), self.underlay_port)))
            }
            CDP_UNDERLAY_IPV6 => {
                let ip = Ipv6Addr::from(self.underlay_ip);
                Ok(Some(SocketAddrV6::new(ip, self.underlay_port, 0, self.underlay_scope).into()))
            }
            other => Err(Failure::invalid(format!("{other} is no kind of underlay address; give 0, 4 or 6"))),
        }
    }

    /// The node number, or `None` for 0.
    pub(crate) fn node(&self) -> Result<Option<NodeId>, Failure> {
        match (self.node, NodeId::new(self.node)) {
            (0, _) => Ok(None),
            (_, Some(node)) => Ok(Some(node)),
            (number, None) => {
                Err(Failure::invalid(format!("{number:#x} is not a node number; give 1 to 0xfffffe")))
            }
        }
    }

    /// Where a connect to this address goes.
    pub(crate) fn target(&self) -> Result<Target, Failure> {
        let port = Port::new(self.port).ok_or_else(|| Failure::invalid("port 0 cannot be connected to"))?;
        match (self.node()?, self.underlay()?) {
            (Some(node), Some(at)) => Ok(Target::Both { address: Address { node, port }, at }),
            (Some(node), None) => Ok(Target::Address(Address { node, port })),
            (None, Some(at)) => Ok(Target::Underlay { at, port }),
            (None, None) => Err(Failure::invalid("the address has neither a node nor an underlay address")),
        }
    }

    fn text(&self) -> Result<String, Failure> {
        let node = self.node()?.map(|node| format!("node {node}"));
        let port = (self.port != 0).then(|| format!("port {}", self.port));
        let at = self.underlay()?.map(|at| format!("at {at}"));
        Ok([node, port, at].into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}

impl From<Address> for CdpAddr {
    fn from(address: Address) -> Self {
        Self { node: address.node.get(), port: address.port.get(), ..Self::default() }
    }
}

impl From<Target> for CdpAddr {
    fn from(target: Target) -> Self {
        match target {
            Target::Address(address) => address.into(),
            Target::Underlay { at, port } => Self { port: port.get(), ..Self::default() }.with_underlay(at),
            Target::Both { address, at } => Self::from(address).with_underlay(at),
        }
    }
}

/// Reads `HOST:PORT` into `*addr`; see `cdp.h`.
///
/// # Safety
/// `text` is NULL or a text that ends in zero; `addr` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_resolve(text: *const c_char, underlay_port: u16, addr: *mut CdpAddr) -> c_int {
    boundary::call(|| {
        // SAFETY: by the contract of this function.
        let text = unsafe { boundary::text(text) }?;
        let resolved = resolve(text, if underlay_port == 0 { UDP_PORT } else { underlay_port })?;
        // SAFETY: by the contract of this function.
        unsafe { boundary::write(addr, resolved) }?;
        Ok(0)
    })
}

fn resolve(text: &str, underlay_port: u16) -> Result<CdpAddr, Failure> {
    let refused =
        || Failure::invalid(format!("\"{text}\" is not HOST:PORT; write IPv6 addresses in brackets"));
    let (host, port) = text.rsplit_once(':').ok_or_else(refused)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let port: u16 = port.parse().map_err(|_| refused())?;
    let is_ambiguous = bare.is_none() && host.contains(':');
    if host.is_empty() || port == 0 || is_ambiguous {
        return Err(refused());
    }
    let host = bare.unwrap_or(host);
    let unknown =
        |why: &str| Failure::new(libc::EHOSTUNREACH, format!("host \"{host}\" is not known here: {why}"));
    let found = (host, underlay_port).to_socket_addrs().map_err(|error| unknown(&error.to_string()))?;
    let at = choose(&found.collect::<Vec<_>>()).ok_or_else(|| unknown("the name has no address"))?;
    Ok(CdpAddr { port, ..CdpAddr::default() }.with_underlay(at))
}

/// Of the family that the default node is bound to, or will be, which is IPv4.
fn choose(found: &[SocketAddr]) -> Option<SocketAddr> {
    let is_ipv4 = node::default_slot().as_ref().is_none_or(|open| open.node.underlay().is_ipv4());
    preferred_address(found, is_ipv4)
}

/// Writes an address as text; see `cdp.h`.
///
/// # Safety
/// `addr` is NULL or readable; `text` is NULL or has `len` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_addr_text(addr: *const CdpAddr, text: *mut c_char, len: usize) -> c_int {
    boundary::call(|| {
        // SAFETY: by the contract of this function.
        let whole = unsafe { boundary::read(addr) }?.text()?;
        // SAFETY: by the contract of this function.
        let room = unsafe { boundary::bytes_mut(text.cast(), len) }?;
        if let Some(last) = room.len().checked_sub(1) {
            let taken = whole.len().min(last);
            room[..taken].copy_from_slice(&whole.as_bytes()[..taken]);
            room[taken] = 0;
        }
        c_int::try_from(whole.len()).map_err(Failure::invalid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_and_port_become_an_underlay_address_and_a_port() {
        let addr = resolve("192.0.2.7:1064", 64064).unwrap();
        assert_eq!(
            (addr.node, addr.port, addr.underlay, addr.underlay_port),
            (0, 1064, CDP_UNDERLAY_IPV4, 64064)
        );
        assert_eq!(addr.underlay_ip[..5], [192, 0, 2, 7, 0]);
        let addr = resolve("[::1]:7", 5).unwrap();
        assert_eq!((addr.underlay, addr.underlay_ip[15], addr.underlay_port), (CDP_UNDERLAY_IPV6, 1, 5));
    }

    #[test]
    fn a_name_with_both_addresses_means_the_one_that_the_default_node_reaches() {
        let [v6, v4] = ["[::1]:7", "127.0.0.1:7"].map(|at| at.parse::<SocketAddr>().unwrap());
        assert_eq!(choose(&[v6, v4]), Some(v4));
        assert_eq!(choose(&[v6]), Some(v6));
    }

    #[test]
    fn a_text_of_another_form_is_refused_with_its_words() {
        for text in ["", "host", "host:", "host:0", "host:70000", ":7", "::1:7", "host:x"] {
            let failure = resolve(text, 1).unwrap_err();
            assert_eq!(failure.errno, libc::EINVAL, "{text}");
            assert!(failure.sentence.contains(&format!("\"{text}\"")), "{}", failure.sentence);
        }
    }

    #[test]
    fn an_underlay_address_survives_the_way_to_c_and_back() {
        for text in ["192.0.2.7:9", "[2001:db8::1]:9", "[fe80::1%3]:9"] {
            let at: SocketAddr = text.parse().unwrap();
            assert_eq!(CdpAddr::default().with_underlay(at).underlay().unwrap(), Some(at));
        }
    }

    #[test]
    fn what_is_missing_for_a_connect_is_named() {
        let port = CdpAddr { port: 7, ..CdpAddr::default() };
        assert!(port.target().unwrap_err().sentence.contains("neither"));
        assert!(CdpAddr { node: 5, ..CdpAddr::default() }.target().unwrap_err().sentence.contains("port 0"));
        assert!(CdpAddr { node: 0xFF_FFFF, ..port }.target().unwrap_err().sentence.contains("0xffffff"));
        assert!(CdpAddr { underlay: 5, ..port }.target().unwrap_err().sentence.contains("kind"));
        assert!(matches!(CdpAddr { node: 5, ..port }.target(), Ok(Target::Address(_))));
    }

    #[test]
    fn a_text_is_cut_to_its_room_and_its_length_told() {
        let addr = CdpAddr { node: 5, port: 7, ..CdpAddr::default() }
            .with_underlay("192.0.2.1:64064".parse().unwrap());
        let mut text = [1; 96];
        // SAFETY: the address is readable and the text writable for its length.
        let whole = unsafe { cdp_addr_text(&raw const addr, text.as_mut_ptr(), text.len()) };
        let written: Vec<u8> = text.iter().take_while(|c| **c != 0).map(|c| c.cast_unsigned()).collect();
        assert_eq!(String::from_utf8(written.clone()).unwrap(), "node 0x000005 port 7 at 192.0.2.1:64064");
        assert_eq!(usize::try_from(whole).unwrap(), written.len());
        // SAFETY: as above, with four bytes of room.
        assert_eq!(unsafe { cdp_addr_text(&raw const addr, text.as_mut_ptr(), 4) }, whole);
        assert_eq!(text[3], 0);
    }
}
