//! Three network namespaces in a row, joined by cables: a host, an I/O node and a compute node. Needs the permission to
//! make them; says loudly when it is missing.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Their names. They go with the value.
pub(crate) struct Namespaces {
    pub(crate) host: String,
    pub(crate) io: String,
    pub(crate) compute: String,
}

impl Namespaces {
    /// 10.71.1.1 of the host is joined with 10.71.1.11 of the I/O node, and 10.71.2.11 of that with 10.71.2.2 of the compute
    /// node. No namespace forwards by itself.
    pub(crate) fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let own = format!("{}n{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let name = |role: &str| format!("wf{role}{own}");
        let all = Self { host: name("h"), io: name("i"), compute: name("c") };
        let Self { host, io, compute } = &all;
        let is_made = [host, io, compute].iter().all(|space| run(&format!("ip netns add {space}")))
            && join((host, "10.71.1.1"), (io, "10.71.1.11", "near"))
            && join((compute, "10.71.2.2"), (io, "10.71.2.11", "far"));
        is_made.then_some(all)
    }

    /// As [`Namespaces::new`], where the cable between the host and the I/O node carries frames of `mtu_bytes`.
    #[allow(dead_code, reason = "not every test file asks")]
    pub(crate) fn jumbo(mtu_bytes: usize) -> Option<Self> {
        let all = Self::new()?;
        let is_made = [(&all.host, "eth"), (&all.io, "near")]
            .iter()
            .all(|(space, device)| run(&format!("ip -n {space} link set {device} mtu {mtu_bytes}")));
        is_made.then_some(all)
    }

    /// As [`Namespaces::new`], where the one in the middle is a router, whose way to the compute node carries no frame of more
    /// than `mtu_bytes`. What it says about that is nothing to a socket that looks for the size itself.
    #[allow(dead_code, reason = "not every test file asks")]
    pub(crate) fn routed(mtu_bytes: usize) -> Option<Self> {
        let all = Self::new()?;
        let Self { host, io, compute } = &all;
        let is_made = run(&format!("ip -n {io} link set far mtu {mtu_bytes}"))
            && run(&format!("ip netns exec {io} sysctl -qw net.ipv4.ip_forward=1"))
            && run(&format!("ip -n {host} route add default via 10.71.1.11"))
            && run(&format!("ip -n {compute} route add default via 10.71.2.11"));
        is_made.then_some(all)
    }
}

/// A cable from the only interface of a namespace to the interface of this name at the I/O node.
fn join((end, end_at): (&str, &str), (io, io_at, name): (&str, &str, &str)) -> bool {
    run(&format!("ip link add eth netns {end} type veth peer name {name} netns {io}"))
        && [(end, "eth", end_at), (io, name, io_at)].iter().all(|(space, device, at)| {
            run(&format!("ip -n {space} address add {at}/24 dev {device}"))
                && run(&format!("ip -n {space} link set {device} up"))
        })
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for space in [&self.host, &self.io, &self.compute] {
            let _ = Command::new("ip").args(["netns", "del", space]).output();
        }
    }
}

fn run(command: &str) -> bool {
    let mut words = command.split(' ');
    match Command::new(words.next().unwrap_or_default()).args(words).output() {
        Ok(done) if done.status.success() => true,
        other => {
            weft_skip::skipped!("`{command}` did not work ({other:?}); run as root");
            false
        }
    }
}
