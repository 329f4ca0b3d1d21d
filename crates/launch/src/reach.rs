//! The address of this host that the other ranks are told.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use weft_link::Interface;

use crate::ReachError;

/// Where the other ranks are to reach this host, as its user says it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reach {
    /// By the interface of this name.
    Interface(String),
    /// By an address that shares its first `bits` bits with `base`.
    Network {
        /// The network.
        base: IpAddr,
        /// How many bits of it count.
        bits: u8,
    },
}

impl FromStr for Reach {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || {
            format!("{text:?} is no place; give an interface such as eth0, or a network such as 10.1.0.0/16")
        };
        let Some((base, bits)) = text.split_once('/') else {
            let is_name = !text.is_empty() && !text.contains(char::is_whitespace);
            return if is_name { Ok(Self::Interface(text.to_owned())) } else { Err(refused()) };
        };
        let base: IpAddr = base.parse().map_err(|_| refused())?;
        let bits = bits.parse().ok().filter(|bits| *bits <= width(base)).ok_or_else(refused)?;
        Ok(Self::Network { base, bits })
    }
}

impl std::fmt::Display for Reach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Interface(name) => f.write_str(name),
            Self::Network { base, bits } => write!(f, "{base}/{bits}"),
        }
    }
}

impl Reach {
    /// The address of this host that other ranks are to be told, and that a socket is to be bound to so that what it
    /// sends comes from there.
    ///
    /// `wanted` decides if it is given. Else a job on one host takes the loopback address. Else it is the address of the
    /// interface of the default route, or of the first other interface that is up and no loopback; IPv4 goes before
    /// IPv6, and addresses that mean something on one link only do not count. A host without any takes the loopback
    /// address.
    ///
    /// # Errors
    /// When the kernel does not list its interfaces, or none is as `wanted`.
    pub fn address(wanted: Option<&Self>, is_one_host: bool) -> Result<IpAddr, ReachError> {
        let all = weft_link::interfaces().map_err(ReachError::Interfaces)?;
        let routes = fs::read_to_string("/proc/net/route").unwrap_or_default();
        choose(&all, default_interface(&routes), wanted, is_one_host)
    }

    fn matches(&self, interface: &Interface) -> bool {
        match self {
            Self::Interface(name) => interface.name == *name,
            Self::Network { base, bits } => {
                width(*base) == width(interface.address)
                    && shared_bits(*base, interface.address) >= u32::from(*bits)
            }
        }
    }
}

const fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// How many leading bits of two addresses of one family are the same.
fn shared_bits(a: IpAddr, b: IpAddr) -> u32 {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => 0,
    }
}

fn choose(
    all: &[Interface],
    default: Option<&str>,
    wanted: Option<&Reach>,
    is_one_host: bool,
) -> Result<IpAddr, ReachError> {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let reaches_far = |one: &&Interface| match one.address {
        IpAddr::V4(v4) => !v4.is_link_local(),
        IpAddr::V6(v6) => !v6.is_unicast_link_local(),
    };
    let candidates = all.iter().filter(reaches_far);
    if let Some(wanted) = wanted {
        let found = candidates.filter(|one| wanted.matches(one)).min_by_key(|one| one.address.is_ipv6());
        return found.map(|one| one.address).ok_or_else(|| ReachError::NoSuch(wanted.clone()));
    }
    if is_one_host {
        return Ok(loopback);
    }
    // The minimum is the first of several that are alike.
    let best = candidates
        .filter(|one| !one.is_loopback)
        .min_by_key(|one| (one.address.is_ipv6(), Some(one.name.as_str()) != default));
    Ok(best.map_or(loopback, |one| one.address))
}

/// The interface of the default route with the lowest metric, out of the kernel's table of IPv4 routes.
fn default_interface(routes: &str) -> Option<&str> {
    // Iface Destination Gateway Flags RefCnt Use Metric Mask ...
    let defaults = routes.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [name, "00000000", _, _, _, _, metric, "00000000", ..] = fields.as_slice() else { return None };
        Some((metric.parse::<u32>().ok()?, *name))
    });
    defaults.min_by_key(|(metric, _)| *metric).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, address: &str) -> Interface {
        let address: IpAddr = address.parse().unwrap();
        Interface { name: name.into(), address, mtu: 1500, is_loopback: address.is_loopback() }
    }

    fn host() -> Vec<Interface> {
        let all = [
            ("lo", "127.0.0.1"),
            ("docker0", "172.17.0.1"),
            ("eth0", "10.0.0.7"),
            ("ib0", "10.1.0.7"),
            ("lo", "::1"),
            ("eth0", "2001:db8::7"),
            ("eth0", "fe80::7"),
            ("zero", "169.254.0.9"),
        ];
        all.iter().map(|(name, address)| interface(name, address)).collect()
    }

    fn chosen(wanted: Option<&str>, default: Option<&str>, is_one_host: bool) -> String {
        let wanted = wanted.map(|text| text.parse().unwrap());
        choose(&host(), default, wanted.as_ref(), is_one_host)
            .map_or_else(|e| e.to_string(), |at| at.to_string())
    }

    #[test]
    fn a_job_on_one_host_speaks_over_loopback_and_others_over_the_default_route() {
        assert_eq!(chosen(None, Some("eth0"), true), "127.0.0.1");
        assert_eq!(chosen(None, Some("eth0"), false), "10.0.0.7");
        assert_eq!(chosen(None, None, false), "172.17.0.1");
        assert_eq!(choose(&host()[..1], None, None, false).unwrap().to_string(), "127.0.0.1");
        assert_eq!(choose(&host()[4..7], Some("eth0"), None, false).unwrap().to_string(), "2001:db8::7");
    }

    #[test]
    fn the_user_chooses_an_interface_or_a_network() {
        for is_one_host in [false, true] {
            assert_eq!(chosen(Some("ib0"), Some("eth0"), is_one_host), "10.1.0.7");
            assert_eq!(chosen(Some("10.1.0.0/16"), Some("eth0"), is_one_host), "10.1.0.7");
            assert_eq!(chosen(Some("2001:db8::/32"), Some("eth0"), is_one_host), "2001:db8::7");
            assert_eq!(chosen(Some("lo"), Some("eth0"), is_one_host), "127.0.0.1");
            assert_eq!(chosen(Some("10.0.0.7/32"), None, is_one_host), "10.0.0.7");
        }
        assert!(chosen(Some("eth9"), Some("eth0"), true).contains("eth9"));
        assert!(chosen(Some("192.168.0.0/16"), Some("eth0"), false).contains("192.168.0.0/16"));
    }

    #[test]
    fn a_wish_is_read_as_it_is_written() {
        for text in ["eth0", "10.1.0.0/16", "0.0.0.0/0", "2001:db8::/32"] {
            assert_eq!(text.parse::<Reach>().unwrap().to_string(), text);
        }
        for text in ["", "a b", "10.1.0.0/33", "10.1.0/8", "eth0/8", "10.1.0.0/", "::/129"] {
            assert!(text.parse::<Reach>().unwrap_err().contains("eth0"), "{text}");
        }
    }

    #[test]
    fn the_default_route_with_the_lowest_metric_counts() {
        let head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
        let line = |name: &str, to: &str, metric: u32, mask: &str| {
            format!("{name}\t{to}\t0100000A\t0003\t0\t0\t{metric}\t{mask}\t0\t0\t0\n")
        };
        let routes = [
            head,
            &line("eth1", "0001000A", 0, "00FFFFFF"),
            &line("wlan0", "00000000", 600, "00000000"),
            &line("eth0", "00000000", 100, "00000000"),
            &line("tun0", "00000000", 0, "00000080"),
        ];
        assert_eq!(default_interface(&routes.concat()), Some("eth0"));
        assert_eq!(default_interface(head), None);
        assert_eq!(default_interface(""), None);
    }
}
