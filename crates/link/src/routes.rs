//! Which interface leads where, as far as their packets differ in size: a host on two networks, one of them with jumbo frames, or one with
//! a tunnel or containers, whose interfaces carry less than its network does (decision 0097).

use std::ffi::CString;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::interface::{self, Interface};

/// The kernel's tables, as this thread's network namespace has them.
const V4: &str = "/proc/thread-self/net/route";
const V6: &str = "/proc/thread-self/net/ipv6_route";
/// A machine with more routes is a router: nobody is told what it carries to each peer.
const ROUTES_MAX: usize = 1_024;
/// Leading bits of an IPv6 address that has an IPv4 one mapped into it.
const PREFIX_V4: u32 = u128::BITS - u32::BITS;
/// Flags of a route that is up, and of one that refuses (linux/route.h).
const UP: u32 = 0x1;
const REJECT: u32 = 0x200;

/// One line of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Route {
    /// What it is for, in bits of an IPv6 address; one of IPv4 is mapped.
    network: u128,
    /// Leading bits of these that count.
    prefix: u32,
    metric: u32,
    /// The largest packet that it carries, in bytes.
    mtu: u32,
}

/// The largest packet that the interface towards a peer carries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Routes {
    /// The best one first.
    routes: Box<[Route]>,
}

impl Routes {
    /// What the kernel's tables say now, of IPv4 the main one; `None` where it makes no difference, as all `interfaces` carry the same, and
    /// where there are too many. An MTU of the route itself, policies and later changes are not in it, nor is of which interface a link-local
    /// address is: an MTU that is too large costs lost probes.
    pub(crate) fn look(interfaces: &[Interface]) -> Option<Self> {
        let mut mtus = interfaces.iter().map(|interface| interface.mtu);
        let first = mtus.next()?;
        if mtus.all(|mtu| mtu == first) {
            return None;
        }
        let probe = interface::control_socket().ok()?;
        let mtu_of = |name: &str| interface::mtu(&CString::new(name).ok()?, &probe);
        let read = |table| fs::read_to_string(table).unwrap_or_default();
        Self::parse(&read(V4), &read(V6), mtu_of)
    }

    fn parse(v4: &str, v6: &str, mtu_of: impl Fn(&str) -> Option<u32>) -> Option<Self> {
        let four = v4.lines().filter_map(|line| route_v4(line, &mtu_of));
        let six = v6.lines().filter_map(|line| route_v6(line, &mtu_of));
        let mut routes: Vec<Route> = four.chain(six).take(ROUTES_MAX + 1).collect();
        // Of two that are alike the kernel takes the first one.
        routes.sort_by_key(|route| (u32::MAX - route.prefix, route.metric));
        (routes.len() <= ROUTES_MAX).then(|| Self { routes: routes.into() })
    }

    /// Bytes of the largest packet that leaves for `peer`; `None` if no route is known. Linear in the number of routes.
    pub(crate) fn mtu_to(&self, peer: IpAddr) -> Option<u32> {
        let least = if peer.to_canonical().is_ipv4() { PREFIX_V4 } else { 0 };
        let peer = bits(peer);
        let leads_there =
            |route: &&Route| route.prefix >= least && shifted(route.network ^ peer, route.prefix) == 0;
        self.routes.iter().find(leads_there).map(|route| route.mtu)
    }
}

/// What is left of `bits` before the first `prefix` end.
fn shifted(bits: u128, prefix: u32) -> u128 {
    bits.checked_shr(u128::BITS - prefix).unwrap_or(0)
}

fn bits(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Interface, destination, gateway, flags, two counters, metric, mask: addresses as the machine's words have them, in hexadecimal digits.
/// What is called MTU behind these is the MSS that TCP is to announce.
fn route_v4(line: &str, mtu_of: impl Fn(&str) -> Option<u32>) -> Option<Route> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [name, destination, _, flags, _, _, metric, mask, ..] = fields[..] else { return None };
    let hexadecimal = |text| u32::from_str_radix(text, 16).ok();
    is_usable(hexadecimal(flags)?).then_some(())?;
    Some(Route {
        network: bits(Ipv4Addr::from(u32::from_be(hexadecimal(destination)?)).into()),
        prefix: PREFIX_V4 + hexadecimal(mask)?.count_ones(),
        metric: metric.parse().ok()?,
        mtu: mtu_of(name)?,
    })
}

/// Destination, its prefix, source, its prefix, gateway, metric, two counters, flags, interface: all but that in hexadecimal digits.
fn route_v6(line: &str, mtu_of: impl Fn(&str) -> Option<u32>) -> Option<Route> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [destination, prefix, _, _, _, metric, _, _, flags, name] = fields[..] else { return None };
    let hexadecimal = |text| u32::from_str_radix(text, 16).ok();
    is_usable(hexadecimal(flags)?).then_some(())?;
    Some(Route {
        network: Ipv6Addr::from_bits(u128::from_str_radix(destination, 16).ok()?).to_bits(),
        prefix: hexadecimal(prefix).filter(|&prefix| prefix <= u128::BITS)?,
        metric: hexadecimal(metric)?,
        mtu: mtu_of(name)?,
    })
}

fn is_usable(flags: u32) -> bool {
    flags & UP != 0 && flags & REJECT == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written on a little-endian machine, as all that Linux has today are, or nearly.
    const TABLE_V4: &str = "\
Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
mgmt	00000000	0100000A	0003	0	0	100	00000000	0	0	0
data	0002000A	00000000	0001	0	0	0	00FFFFFF	0	0	0
mgmt	0000000A	00000000	0001	0	0	0	00FFFFFF	0	0	0
data	0000100A	0102000A	0003	0	0	20	0000F0FF	4000	0	0
mgmt	0000100A	0100000A	0003	0	0	50	0000F0FF	0	0	0
*	0000630A	00000000	0200	0	0	0	0000FFFF	0	0	0
";
    const TABLE_V6: &str = "\
fd000000000000020000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     data
00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     mgmt
00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo
";

    fn mtu_of(name: &str) -> Option<u32> {
        [("mgmt", 1_500), ("data", 9_000), ("lo", 65_536)].iter().find(|of| of.0 == name).map(|of| of.1)
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_peer_has_what_the_longest_route_to_it_carries() {
        let routes = Routes::parse(TABLE_V4, TABLE_V6, mtu_of).unwrap();
        for (peer, mtu) in [
            ("10.0.2.7", 9_000),
            ("::ffff:10.0.2.7", 9_000),
            ("10.0.0.7", 1_500),
            ("10.16.3.1", 9_000),
            ("192.0.2.1", 1_500),
            ("fd00:0:0:2::7", 9_000),
            ("fd00:0:0:3::7", 1_500),
        ] {
            assert_eq!(routes.mtu_to(peer.parse().unwrap()), Some(mtu), "{peer}");
        }
    }

    #[test]
    fn what_no_route_leads_to_and_what_is_no_route_are_nothing() {
        let routes = Routes::parse(TABLE_V4, "", |name| mtu_of(name).filter(|_| name == "data")).unwrap();
        assert_eq!(routes.mtu_to("192.0.2.1".parse().unwrap()), None, "of an interface that is gone");
        assert_eq!(routes.mtu_to("fd00::1".parse().unwrap()), None);
        let routes = Routes::parse("", TABLE_V6, mtu_of).unwrap();
        assert_eq!(
            routes.mtu_to("192.0.2.1".parse().unwrap()),
            None,
            "IPv6 has a default route, IPv4 has none"
        );
        let broken = Routes::parse("data zz\ndata 0 0\n\n", "fd 40\n", mtu_of).unwrap();
        assert_eq!(broken.mtu_to("10.0.2.7".parse().unwrap()), None);
    }

    #[test]
    fn a_router_is_not_asked() {
        let line = "data\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        assert!(Routes::parse(&line.repeat(ROUTES_MAX), "", mtu_of).is_some());
        assert!(Routes::parse(&line.repeat(ROUTES_MAX + 1), "", mtu_of).is_none());
    }

    #[test]
    fn where_all_interfaces_carry_the_same_there_is_nothing_to_tell() {
        let of = |mtu| Interface {
            name: "lo".to_owned(),
            address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            mtu,
            is_loopback: true,
        };
        assert_eq!(Routes::look(&[of(1_500), of(1_500)]), None);
        assert_eq!(Routes::look(&[]), None);
        assert!(Routes::look(&[of(1_500), of(9_000)]).is_some());
    }
}
