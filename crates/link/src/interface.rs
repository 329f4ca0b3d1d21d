//! The network interfaces of this machine, as far as a link and the doctor need them.

use std::ffi::{CStr, CString};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd};

/// One address of one interface that is up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// The name of the interface.
    pub name: String,
    /// The address.
    pub address: IpAddr,
    /// The largest packet of the interface, in bytes.
    pub mtu: u32,
    /// Whether the interface is a loopback interface.
    pub is_loopback: bool,
}

/// The addresses of the interfaces that are up, in the kernel's order.
///
/// # Errors
/// Those of `getifaddrs`, and of opening a socket.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let probe = control_socket()?;
    let mut list: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: the pointer is to a pointer of ours, which the call fills.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = list;
    // SAFETY: the list is well-formed until it is freed below, and a null pointer ends it.
    while let Some(item) = unsafe { next.as_ref() } {
        next = item.ifa_next;
        found.extend(interface(item, &probe));
    }
    // SAFETY: `getifaddrs` made this list, and no reference into it is left.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

fn interface(item: &libc::ifaddrs, probe: &OwnedFd) -> Option<Interface> {
    let is_up = item.ifa_flags & libc::IFF_UP.cast_unsigned() != 0;
    if !is_up || item.ifa_addr.is_null() {
        return None;
    }
    let address = ip_address(item.ifa_addr)?;
    // SAFETY: the kernel's names end with a zero byte, and the list lives.
    let name = unsafe { CStr::from_ptr(item.ifa_name) };
    let mtu = mtu(name, probe)?;
    let is_loopback = item.ifa_flags & libc::IFF_LOOPBACK.cast_unsigned() != 0;
    Some(Interface { name: name.to_string_lossy().into_owned(), address, mtu, is_loopback })
}

fn ip_address(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: the caller's pointer is to a live address, which begins with its family.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family says that it is this type; it may lie unaligned.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(v6.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// A socket for questions about interfaces.
pub(crate) fn control_socket() -> io::Result<OwnedFd> {
    Ok(socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?.into())
}

/// The largest packet of the interface `name`, in bytes.
pub(crate) fn mtu(name: &CStr, probe: &OwnedFd) -> Option<u32> {
    let mut request = request(name)?;
    // SAFETY: the request lives and is of the type that this question needs.
    if unsafe { libc::ioctl(probe.as_raw_fd(), libc::SIOCGIFMTU as _, &raw mut request) } != 0 {
        return None;
    }
    // SAFETY: the kernel has just written this member.
    u32::try_from(unsafe { request.ifr_ifru.ifru_mtu }).ok()
}

/// An interface as a link on it sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Device {
    pub(crate) index: u32,
    pub(crate) mtu: u32,
    pub(crate) is_up: bool,
    /// Its Ethernet address, if it carries Ethernet.
    pub(crate) ethernet: Option<[u8; 6]>,
}

/// The interface `name`, or `None` if there is none.
pub(crate) fn device(name: &str) -> io::Result<Option<Device>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    let probe = control_socket()?;
    // SAFETY: the name ends with a zero byte.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    let (Some(mtu), 1..) = (mtu(&name, &probe), index) else { return Ok(None) };
    let Some(mut request) = request(&name) else { return Ok(None) };
    // SAFETY: the request lives and is of the type that this question needs.
    if unsafe { libc::ioctl(probe.as_raw_fd(), libc::SIOCGIFFLAGS as _, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just written this member.
    let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
    // SAFETY: as above.
    if unsafe { libc::ioctl(probe.as_raw_fd(), libc::SIOCGIFHWADDR as _, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just written this member.
    let hardware = unsafe { request.ifr_ifru.ifru_hwaddr };
    let [a, b, c, d, e, f, ..] = hardware.sa_data.map(|byte| byte as u8);
    let ethernet = (hardware.sa_family == libc::ARPHRD_ETHER).then_some([a, b, c, d, e, f]);
    Ok(Some(Device { index, mtu, is_up: flags & libc::IFF_UP != 0, ethernet }))
}

/// A request that names the interface, or `None` if the name is longer than names are.
pub(crate) fn request(name: &CStr) -> Option<libc::ifreq> {
    // SAFETY: all bits zero are a value of this type.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let bytes = name.to_bytes();
    if bytes.len() >= request.ifr_name.len() {
        return None;
    }
    for (slot, &byte) in request.ifr_name.iter_mut().zip(bytes) {
        *slot = byte.cast_signed();
    }
    Some(request)
}

/// The interfaces that a socket bound to `local` may use: the one with that address, or for a wildcard address all that are
/// not loopback; all, if there are no others.
pub(crate) fn used_by(local: IpAddr) -> Vec<Interface> {
    let mut all = interfaces().unwrap_or_default();
    let is_v4_loopback = matches!(local, IpAddr::V4(v4) if v4.is_loopback());
    let has_address = |interface: &Interface| interface.address == local;
    let leads_there = |interface: &Interface| interface.is_loopback == is_v4_loopback;
    if all.iter().any(has_address) {
        all.retain(has_address);
    } else if all.iter().any(leads_there) {
        all.retain(leads_there);
    }
    all
}

/// The addresses of this host, to which packets go by a loopback interface whichever interface has them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OwnHost {
    /// In order. That of a link counts whichever link it is of: a peer elsewhere that has it too costs lost probes.
    addresses: Box<[IpAddr]>,
    /// The largest packet between two of them, in bytes.
    pub(crate) mtu: u32,
}

impl OwnHost {
    /// What the interfaces say now, or `None` where no loopback interface is up.
    pub(crate) fn look() -> Option<Self> {
        let all = interfaces().unwrap_or_default();
        let mtu =
            all.iter().filter(|interface| interface.is_loopback).map(|interface| interface.mtu).min()?;
        let mut addresses: Vec<IpAddr> = all.iter().map(|interface| interface.address).collect();
        addresses.sort_unstable();
        Some(Self { addresses: addresses.into(), mtu })
    }

    pub(crate) fn has(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_loopback() || self.addresses.binary_search(&address).is_ok()
    }
}

/// The question whether an interface joins frames that arrive (linux/ethtool.h).
pub(crate) const JOINS: u32 = 0x2B;

/// What an interface answers to an `ethtool` question about one offload, if it does.
pub(crate) fn offload(name: &str, probe: &OwnedFd, command: u32) -> Option<bool> {
    /// `struct ethtool_value`.
    #[repr(C)]
    struct Question {
        command: u32,
        answer: u32,
    }
    let name = CString::new(name).ok()?;
    let mut request = request(&name)?;
    let mut question = Question { command, answer: 0 };
    request.ifr_ifru.ifru_data = (&raw mut question).cast();
    // SAFETY: the request names a question of the layout this call needs, and both live through it.
    let result = unsafe { libc::ioctl(probe.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    (result == 0).then_some(question.answer != 0)
}

/// Whether all of these interfaces say that they join no frames that arrive.
pub(crate) fn join_nothing(interfaces: &[Interface]) -> bool {
    let Ok(probe) = control_socket() else { return false };
    let joins_nothing = |interface: &Interface| offload(&interface.name, &probe, JOINS) == Some(false);
    !interfaces.is_empty() && interfaces.iter().all(joins_nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_found_with_its_mtu() {
        let all = interfaces().unwrap();
        let lo = all.iter().find(|interface| interface.is_loopback && interface.address.is_ipv4()).unwrap();
        assert!(lo.mtu >= 1500, "{lo:?}");
        assert_eq!(used_by(lo.address), std::slice::from_ref(lo));
        assert!(used_by("127.9.9.9".parse().unwrap()).iter().all(|interface| interface.is_loopback));
    }

    #[test]
    fn a_wildcard_address_uses_what_leads_outside_if_anything_does() {
        let all = interfaces().unwrap();
        let used = used_by("0.0.0.0".parse().unwrap());
        let leads_outside = |interface: &Interface| !interface.is_loopback;
        assert!(!used.is_empty());
        assert_eq!(used.iter().all(leads_outside), all.iter().any(leads_outside));
    }

    #[test]
    fn every_address_of_this_host_is_its_own() {
        let host = OwnHost::look().unwrap();
        assert!(interfaces().unwrap().iter().all(|interface| host.has(interface.address)));
        let (own, others) =
            (["127.9.9.9", "::1", "::ffff:127.0.0.1"], ["203.0.113.201", "2001:db8:9::1", "0.0.0.0"]);
        assert!(own.iter().all(|address| host.has(address.parse().unwrap())));
        assert!(!others.iter().any(|address| host.has(address.parse().unwrap())));
    }

    #[test]
    fn what_no_interface_says_is_not_taken_for_a_no() {
        let lo = interfaces().unwrap().into_iter().find(|interface| interface.is_loopback).unwrap();
        assert!(!join_nothing(&[]) && !join_nothing(&[Interface { name: "nosuch0".to_owned(), ..lo }]));
    }

    #[test]
    fn the_loopback_interface_is_a_device_without_an_ethernet_address() {
        let lo = device("lo").unwrap().unwrap();
        assert_eq!((lo.is_up, lo.ethernet), (true, None));
        assert_eq!(device("nosuch0").unwrap(), None);
        assert_eq!(device("abcdefghijklmnop").unwrap(), None);
    }

    #[test]
    fn a_name_that_is_too_long_names_no_interface() {
        assert!(request(c"abcdefghijklmnop").is_none());
        assert!(request(c"lo").is_some());
    }
}
