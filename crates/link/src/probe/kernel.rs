//! The kernel and its processors: version, UDP offloads, raw packets, clock, TCP's controller.

use std::ffi::CStr;
use std::io;

use super::{Fact, Verdict};
use crate::{Link, Udp, packet};

pub(super) fn facts() -> Vec<Fact> {
    let mut facts = vec![version()];
    facts.extend(offloads());
    facts.extend([raw_packets(), processors(), clock_source(), tcp_controller()]);
    facts
}

fn version() -> Fact {
    // SAFETY: all bits zero are a value of this type.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a value of ours.
    if unsafe { libc::uname(&raw mut names) } != 0 {
        return Fact::unknown("kernel", io::Error::last_os_error());
    }
    // SAFETY: the kernel ends the name with a zero byte, and the value lives.
    let release = unsafe { CStr::from_ptr(names.release.as_ptr()) }.to_string_lossy().into_owned();
    match parse_version(&release) {
        None => Fact::unknown("kernel", release),
        Some(version) if version >= (5, 0) => Fact::good("kernel", release),
        Some(_) => {
            let remedy =
                "a kernel of 5.0 or later joins UDP packets on receipt; update the kernel".to_owned();
            Fact::with("kernel", release, Verdict::Poor, remedy)
        }
    }
}

/// The first two numbers of a release such as `6.1.0-13-amd64`.
fn parse_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn offloads() -> Vec<Fact> {
    let info = match Udp::bind(([127, 0, 0, 1], 0).into()) {
        Ok(link) => link.info(),
        Err(error) => return vec![Fact::unknown("udp sockets", error)],
    };
    let told = |name, is_there, remedy: &str| match is_there {
        true => Fact::good(name, "available"),
        false => Fact::with(name, "missing", Verdict::Poor, remedy.to_owned()),
    };
    let kib = |bytes: usize| format!("{} KiB", bytes >> 10);
    vec![
        told(
            "udp segmentation offload",
            info.gso,
            "UDP_SEGMENT needs kernel 4.18 or later; update the kernel",
        ),
        told("udp receive offload", info.gro, "UDP_GRO needs kernel 5.0 or later; update the kernel"),
        Fact::good("send buffer of a link", kib(info.send_buffer_bytes)),
        Fact::good("receive buffer of a link", kib(info.receive_buffer_bytes)),
    ]
}

fn raw_packets() -> Fact {
    let name = "raw ethernet (AF_PACKET)";
    match packet::permission() {
        Ok(()) => Fact::good(name, "permitted"),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let remedy = "only UDP links can be used; give the program CAP_NET_RAW (setcap cap_net_raw+ep FILE) for `--link \
                          packet:INTERFACE`";
            Fact::with(name, "not permitted", Verdict::Fair, remedy.to_owned())
        }
        Err(error) => Fact::unknown(name, error),
    }
}

fn processors() -> Fact {
    match std::thread::available_parallelism() {
        Err(error) => Fact::unknown("processors", error),
        Ok(count) if count.get() > 1 => Fact::good("processors", count.to_string()),
        Ok(count) => {
            let remedy =
                "a node shares its processor with the program it serves; allow the process two".to_owned();
            Fact::with("processors", count.to_string(), Verdict::Fair, remedy)
        }
    }
}

fn clock_source() -> Fact {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    match std::fs::read_to_string(path) {
        Err(error) => Fact::unknown("clock source", format!("{path}: {error}")),
        Ok(text) => {
            let name = text.trim();
            if ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"].contains(&name) {
                return Fact::good("clock source", name);
            }
            let remedy = "reading the time is a system call with this source; boot with clocksource=tsc if it is stable";
            Fact::with("clock source", name, Verdict::Poor, remedy.to_owned())
        }
    }
}

fn tcp_controller() -> Fact {
    let path = "/proc/sys/net/ipv4/tcp_congestion_control";
    match std::fs::read_to_string(path) {
        Ok(text) => Fact::good("tcp controller", text.trim()),
        Err(error) => Fact::unknown("tcp controller", format!("{path}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_the_names_distributions_give() {
        assert_eq!(parse_version("6.1.0-13-amd64"), Some((6, 1)));
        assert_eq!(parse_version("4.18.0"), Some((4, 18)));
        assert_eq!(parse_version("5.15-rc1"), Some((5, 15)));
        assert_eq!(parse_version("linux"), None);
    }
}
