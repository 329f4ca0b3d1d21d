//! Socket addresses as the kernel reads and writes them.

use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// An address in the kernel's form, small enough to make for every group of packets.
#[derive(Clone, Copy)]
pub(super) enum RawAddress {
    V4(libc::sockaddr_in),
    V6(libc::sockaddr_in6),
}

impl RawAddress {
    /// `to` for a socket of IPv6 (`is_v6`), where IPv4 addresses are mapped, or of IPv4.
    #[allow(clippy::cast_possible_truncation)] // address families are small numbers
    pub(super) fn new(to: SocketAddr, is_v6: bool) -> Self {
        match to {
            SocketAddr::V4(v4) if !is_v6 => Self::V4(libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            }),
            SocketAddr::V4(v4) => Self::v6(&SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0)),
            SocketAddr::V6(v6) => Self::v6(&v6),
        }
    }

    #[allow(clippy::cast_possible_truncation)] // address families are small numbers
    fn v6(v6: &SocketAddrV6) -> Self {
        Self::V6(libc::sockaddr_in6 {
            sin6_family: libc::AF_INET6 as libc::sa_family_t,
            sin6_port: v6.port().to_be(),
            sin6_flowinfo: v6.flowinfo(),
            sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
            sin6_scope_id: v6.scope_id(),
        })
    }

    /// Where the address lies; valid as long as this value is not moved.
    pub(super) const fn as_ptr(&self) -> *const libc::sockaddr {
        match self {
            Self::V4(v4) => std::ptr::from_ref(v4).cast(),
            Self::V6(v6) => std::ptr::from_ref(v6).cast(),
        }
    }

    /// Bytes of the address.
    #[allow(clippy::cast_possible_truncation)] // 16 or 28
    pub(super) const fn len(&self) -> libc::socklen_t {
        match self {
            Self::V4(_) => size_of::<libc::sockaddr_in>() as libc::socklen_t,
            Self::V6(_) => size_of::<libc::sockaddr_in6>() as libc::socklen_t,
        }
    }
}

/// Room for the address a packet came from.
pub(super) type Storage = MaybeUninit<libc::sockaddr_in6>;

/// Bytes of that room.
#[allow(clippy::cast_possible_truncation)] // 28
pub(super) const STORAGE_BYTES: libc::socklen_t = size_of::<libc::sockaddr_in6>() as libc::socklen_t;

/// The address in `storage`, of which the kernel wrote `len` bytes; IPv4 addresses that were mapped are IPv4 again.
pub(super) fn parse(storage: &Storage, len: libc::socklen_t) -> Option<SocketAddr> {
    let len = usize::try_from(len).ok()?;
    let raw = storage.as_ptr();
    if len == size_of::<libc::sockaddr_in>() {
        // SAFETY: the kernel wrote as many bytes as this type has, all bits are valid, and the room is aligned to 4.
        let v4 = unsafe { raw.cast::<libc::sockaddr_in>().read() };
        let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
        return Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into());
    }
    if len != size_of::<libc::sockaddr_in6>() {
        return None;
    }
    // SAFETY: as above.
    let v6 = unsafe { raw.read() };
    let (ip, port) = (Ipv6Addr::from(v6.sin6_addr.s6_addr), u16::from_be(v6.sin6_port));
    Some(match ip.to_ipv4_mapped() {
        Some(v4) => SocketAddrV4::new(v4, port).into(),
        None => SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through_the_kernel_form(address: SocketAddr, is_v6: bool) -> Option<SocketAddr> {
        let mut storage = Storage::uninit();
        let raw = RawAddress::new(address, is_v6);
        match raw {
            // SAFETY: the room is larger than this type and aligned for it.
            RawAddress::V4(v4) => unsafe { storage.as_mut_ptr().cast::<libc::sockaddr_in>().write(v4) },
            RawAddress::V6(v6) => drop(storage.write(v6)),
        }
        parse(&storage, raw.len())
    }

    #[test]
    fn addresses_survive_the_kernel_form() {
        for text in ["10.1.2.3:64064", "[fe80::1]:7", "[2001:db8::5]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(through_the_kernel_form(address, address.is_ipv6()), Some(address));
        }
    }

    #[test]
    fn an_ipv4_peer_of_an_ipv6_socket_keeps_its_ipv4_address() {
        let address: SocketAddr = "10.1.2.3:64064".parse().unwrap();
        assert!(matches!(RawAddress::new(address, true), RawAddress::V6(_)));
        assert_eq!(through_the_kernel_form(address, true), Some(address));
    }
}
