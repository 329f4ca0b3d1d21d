//! Two networks in network namespaces: hosts on one, compute nodes on the other, I/O nodes on both.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::leftovers::{self, Leftovers};
use crate::exit::{Code, Failure, cause};
use crate::signal;

/// Pairs of a host and a compute node.
pub(super) const PAIRS: u32 = 2;
/// What the two networks are called, and the second number of their addresses.
const NETWORKS: [(&str, u32); 2] = [("lan", 1), ("mesh", 2)];
/// The first number of the addresses, which nobody routes.
const PREFIX: &str = "10.77";

/// Namespaces, interfaces and bridges; all of it goes when this value does, or when the user interrupts.
pub(super) struct Testbed {
    leftovers: Leftovers,
    prefix: String,
    io_nodes: u32,
}

/// A node of the testbed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Host(u32),
    Compute(u32),
    Io(u32),
}

impl Role {
    pub(super) fn name(self) -> String {
        match self {
            Self::Host(number) => format!("host-{number}"),
            Self::Compute(number) => format!("compute-{number}"),
            Self::Io(number) => format!("io-{number}"),
        }
    }

    /// The number of the node, and the last one of its addresses.
    fn number(self) -> u32 {
        match self {
            Self::Host(number) => number,
            Self::Compute(number) => 100 + number,
            Self::Io(number) => 10 + number,
        }
    }

    fn networks(self) -> &'static [(&'static str, u32)] {
        match self {
            Self::Host(_) => &NETWORKS[..1],
            Self::Compute(_) => &NETWORKS[1..],
            Self::Io(_) => &NETWORKS,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Host(_) => "host",
            Self::Compute(_) => "compute",
            Self::Io(_) => "io",
        }
    }
}

impl Testbed {
    /// Makes it, with so many I/O nodes.
    ///
    /// # Errors
    /// [`Code::Address`] without the right to make namespaces, or without `ip`.
    pub(super) fn make(io_nodes: u32) -> Result<Self, Failure> {
        if !rustix::process::geteuid().is_root() {
            let what = "namespaces need root, and this is an ordinary user";
            return Err(Failure::new(
                Code::Address,
                what,
                "run it as root, or `weft demo` without --io-nodes",
            ));
        }
        let prefix = format!("weft{}", std::process::id());
        let testbed = Self { leftovers: Leftovers::default(), prefix, io_nodes };
        let leftovers = testbed.leftovers.clone();
        signal::on_interrupt(move || leftovers.remove());
        let switch = testbed.namespace("switch");
        testbed.add(&switch)?;
        for (network, _) in NETWORKS {
            ip(&["-n", &switch, "link", "add", network, "type", "bridge"])?;
            ip(&["-n", &switch, "link", "set", network, "up"])?;
        }
        for role in testbed.roles() {
            testbed.attach(role, &switch)?;
        }
        Ok(testbed)
    }

    pub(super) fn roles(&self) -> Vec<Role> {
        let pairs = (1..=PAIRS).flat_map(|number| [Role::Host(number), Role::Compute(number)]);
        pairs.chain((1..=self.io_nodes).map(Role::Io)).collect()
    }

    fn namespace(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    fn add(&self, namespace: &str) -> Result<(), Failure> {
        self.leftovers.add(leftovers::Kind::Namespace(namespace.to_owned()))?;
        ip(&["netns", "add", namespace])?;
        ip(&["-n", namespace, "link", "set", "lo", "up"])
    }

    /// A namespace for `role`, joined to the bridge of each of its networks.
    fn attach(&self, role: Role, switch: &str) -> Result<(), Failure> {
        let namespace = self.namespace(&role.name());
        self.add(&namespace)?;
        for (network, net) in role.networks() {
            let plug = format!("{}-{net}", role.name());
            ip(&[
                "link", "add", network, "netns", &namespace, "type", "veth", "peer", "name", &plug, "netns",
                switch,
            ])?;
            ip(&["-n", switch, "link", "set", &plug, "master", network, "up"])?;
            let address = format!("{PREFIX}.{net}.{}/24", role.number());
            ip(&["-n", &namespace, "address", "add", &address, "dev", network])?;
            ip(&["-n", &namespace, "link", "set", network, "up"])?;
        }
        Ok(())
    }

    /// `program` with `arguments`, to be started where `role` is.
    pub(super) fn command(&self, role: Role, program: &str, arguments: &[String]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(&role.name()), program]).args(arguments);
        command
    }

    /// The cluster file of it.
    pub(super) fn cluster_file(&self) -> String {
        let mut text = "networks = [\"lan\", \"mesh\"]\n".to_owned();
        for role in self.roles() {
            let at: Vec<_> = role
                .networks()
                .iter()
                .map(|(network, net)| format!("{network} = \"{PREFIX}.{net}.{}\"", role.number()))
                .collect();
            // Writing to a `String` cannot fail.
            let _ = write!(
                text,
                "\n[[node]]\nname = \"{}\"\nnumber = {}\nkind = \"{}\"\nat = {{ {} }}\n",
                role.name(),
                role.number(),
                role.kind(),
                at.join(", ")
            );
        }
        text
    }

    /// A file that is about to be made, and is to go with the rest.
    ///
    /// # Errors
    /// [`Code::Interrupted`] after the user has interrupted.
    pub(super) fn lend(&self, file: PathBuf) -> Result<(), Failure> {
        self.leftovers.add(leftovers::Kind::File(file))
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        self.leftovers.remove();
    }
}

/// Runs `ip`.
fn ip(arguments: &[&str]) -> Result<(), Failure> {
    let next = "install iproute2, and let the kernel make namespaces, bridges and veth pairs";
    let run = Command::new("ip").args(arguments).stdin(Stdio::null()).output();
    let output = run
        .map_err(|error| Failure::new(Code::Address, format!("cannot run `ip`: {}", cause(&error)), next))?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    let what = format!("`ip {}` failed: {}", arguments.join(" "), why.trim());
    Err(Failure::new(Code::Address, what, next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_file_is_one() {
        let testbed = Testbed { leftovers: Leftovers::default(), prefix: "x".to_owned(), io_nodes: 3 };
        let file = weft_socket::ClusterFile::parse(&testbed.cluster_file()).unwrap();
        assert_eq!(file.cluster.iter().count(), 7);
        assert_eq!(file.cluster.find("io-3").map(|io| io.at.len()), Some(2));
    }

    #[test]
    fn interface_names_are_short_enough() {
        // The kernel allows 15 characters.
        for role in [Role::Host(2), Role::Compute(2), Role::Io(9)] {
            assert!(format!("{}-2", role.name()).len() <= 15);
        }
    }
}
