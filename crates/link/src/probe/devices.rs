//! Network interfaces: MTU and offloads.

use std::os::fd::OwnedFd;

use super::{Fact, Verdict};
use crate::interface::{self, Interface};
use crate::packet::{self, OpenError};
use crate::{Ethernet, Link};

/// `ethtool` questions about one offload each (linux/ethtool.h).
const OFFLOADS: [(&str, u32); 3] = [
    ("tx-checksumming", 0x16),
    ("generic-segmentation-offload", 0x23),
    ("generic-receive-offload", interface::JOINS),
];

/// The usual MTU of Ethernet, above which packets cost less.
const ETHERNET_MTU: u32 = 1_500;

pub(super) fn facts() -> Vec<Fact> {
    let mut all = match interface::interfaces() {
        Ok(all) => all,
        Err(error) => return vec![Fact::unknown("interfaces", error)],
    };
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all.dedup_by(|a, b| a.name == b.name);
    let Ok(socket) = interface::control_socket() else { return all.iter().map(mtu).collect() };
    let may_be_packet = packet::permission().is_ok();
    let of = |device: &Interface| {
        let link = (may_be_packet && !device.is_loopback).then(|| packet_link(&device.name));
        [Some(mtu(device)), Some(offloads(device, &socket)), link].into_iter().flatten()
    };
    all.iter().flat_map(of).collect()
}

/// Whether a packet link could be opened on an interface, and if not, why; UDP works all the same.
fn packet_link(device: &str) -> Fact {
    let name = format!("packet link on {device}");
    match Ethernet::open(device) {
        Ok(link) => {
            let value = format!(
                "available, {} bytes of data a packet; taken with --link packet:{device} at both ends",
                link.info().mss
            );
            Fact::good(name, value)
        }
        Err(error @ OpenError::InUse(_)) => Fact::good(name, error.to_string()),
        Err(error) => {
            let text = error.to_string();
            let (why, remedy) = text.split_once("; ").unwrap_or((&text, ""));
            Fact::with(name, why, Verdict::Fair, remedy.to_owned())
        }
    }
}

fn mtu(device: &Interface) -> Fact {
    let (name, value) = (format!("mtu of {}", device.name), format!("{} bytes", device.mtu));
    if device.is_loopback || device.mtu > ETHERNET_MTU {
        return Fact::good(name, value);
    }
    let remedy = format!(
        "where every device on the way allows it, larger packets cost less: ip link set {} mtu 9000",
        device.name
    );
    Fact::with(name, value, Verdict::Fair, remedy)
}

fn offloads(device: &Interface, socket: &OwnedFd) -> Fact {
    let name = format!("offloads of {}", device.name);
    let answers: Vec<_> = OFFLOADS
        .iter()
        .map(|&(word, command)| (word, interface::offload(&device.name, socket, command)))
        .collect();
    if answers.iter().any(|(_, answer)| answer.is_none()) {
        return Fact::unknown(name, "the interface does not tell");
    }
    let off: Vec<&str> =
        answers.iter().filter(|(_, is_on)| *is_on == Some(false)).map(|(word, _)| *word).collect();
    if off.is_empty() {
        return Fact::good(name, "checksums, segmentation and joining are on");
    }
    let switches: String = off.iter().map(|word| format!(" {word} on")).collect();
    let remedy = format!(
        "each packet then costs its own way through the kernel; run ethtool -K {}{switches}",
        device.name
    );
    Fact::with(name, format!("{} off", off.join(", ")), Verdict::Poor, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(name: &str, mtu: u32, is_loopback: bool) -> Interface {
        Interface { name: name.to_owned(), address: [10, 0, 0, 1].into(), mtu, is_loopback }
    }

    #[test]
    fn an_mtu_is_judged_against_ethernets() {
        assert_eq!(mtu(&device("eth0", 9000, false)).verdict, Verdict::Good);
        assert_eq!(mtu(&device("eth0", 1500, false)).verdict, Verdict::Fair);
        assert_eq!(mtu(&device("lo", 1500, true)).verdict, Verdict::Good);
        assert!(mtu(&device("eth7", 1500, false)).remedy.unwrap().contains("eth7"));
    }

    #[test]
    fn an_interface_that_takes_no_packet_link_says_why_and_what_to_do() {
        let fact = packet_link("lo");
        assert!(fact.value.contains("no Ethernet interface") && fact.remedy.unwrap().contains("use UDP"));
    }

    #[test]
    fn an_interface_that_does_not_exist_tells_nothing() {
        let socket = interface::control_socket().unwrap();
        assert_eq!(offloads(&device("nosuch0", 1500, false), &socket).verdict, Verdict::Unknown);
    }
}
