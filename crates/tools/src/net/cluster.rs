//! The cluster that a file describes, and which of its nodes this process is.

use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use weft_base::{NodeId, Port};
use weft_route::{ClusterFile, Member, Mode, Name, Underlay};
use weft_socket::{Address, Target as SocketTarget};

use super::NodeFlags;
use crate::exit::{Code, Failure, cause};
use crate::target::Target;
use crate::units::parse_duration;

/// The variable that names a cluster file.
const VARIABLE: &str = "WEFT_CLUSTER";
/// The file that is read if it is there and nothing else was said.
const DEFAULT_PATH: &str = "/etc/weft/cluster.toml";
/// Names that a sentence lists at most.
const LISTED_MAX: usize = 8;

/// Where the names of nodes come from.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "The cluster")]
pub struct ClusterFlags {
    /// File with the nodes, networks, I/O nodes and services of the cluster, or none to go without [default: $WEFT_CLUSTER,
    /// else /etc/weft/cluster.toml if it is there and no launcher started this command]
    ///
    /// Its names stand wherever a HOST does, and its services wherever a port does: `weft send FILE compute-17:storage`.
    #[arg(long, value_name = "FILE", default_value = "auto", hide_default_value = true)]
    pub cluster: ClusterChoice,

    /// Time between two probes of an I/O node that was left because it lost packets [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub io_probe: Option<Duration>,
}

/// Which cluster file is read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ClusterChoice {
    /// None.
    #[default]
    Off,
    /// The one that the environment or the host has.
    Auto,
    /// This one.
    File(PathBuf),
}

impl FromStr for ClusterChoice {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "none" => Self::Off,
            "auto" => Self::Auto,
            path => Self::File(path.into()),
        })
    }
}

/// A node as the user calls it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeName {
    /// By its number.
    Number(NodeId),
    /// By its name in the cluster file.
    Name(Name),
}

impl FromStr for NodeName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with(|first: char| first.is_ascii_digit()) {
            return text
                .parse()
                .map(Self::Number)
                .map_err(|error: weft_base::ParseNodeIdError| error.to_string());
        }
        text.parse().map(Self::Name).map_err(|error: weft_route::ParseNameError| error.to_string())
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

/// A cluster file that was read.
pub struct ThisCluster {
    /// What it says.
    pub file: ClusterFile,
    path: PathBuf,
}

impl ThisCluster {
    /// The file that the user named by a flag or `$WEFT_CLUSTER`.
    ///
    /// # Errors
    /// [`Code::Source`] if it cannot be read, [`Code::Usage`] if it is wrong.
    pub fn named(flags: &ClusterFlags) -> Result<Option<Self>, Failure> {
        let path = match &flags.cluster {
            ClusterChoice::Off => None,
            ClusterChoice::Auto => std::env::var_os(VARIABLE).map(PathBuf::from),
            ClusterChoice::File(path) => Some(path.clone()),
        };
        path.filter(|path| !path.as_os_str().is_empty()).map(|path| Self::read(&path)).transpose()
    }

    /// The file of this host, if it has one and the user did not say otherwise.
    ///
    /// # Errors
    /// As [`ThisCluster::named`].
    pub fn of_host(flags: &ClusterFlags) -> Result<Option<Self>, Failure> {
        let path = Path::new(DEFAULT_PATH);
        if flags.cluster == ClusterChoice::Auto && path.exists() {
            Self::read(path).map(Some)
        } else {
            Ok(None)
        }
    }

    fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.to_string_lossy();
        let text = std::fs::read_to_string(path).map_err(|error| {
            let what = format!("cannot read the cluster file {shown}: {}", cause(&error));
            Failure::new(Code::Source, what, "give another with --cluster FILE")
        })?;
        let file = ClusterFile::parse(&text).map_err(|error| {
            let text = error.to_string();
            let (what, next) = text.split_once("; ").unwrap_or((&text, "correct the file"));
            Failure::new(Code::Usage, format!("{shown}, {what}"), next)
        })?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Which node this process is: the one that the user says, or the only one with an address of this host. `None` in
    /// open mode if there is none.
    ///
    /// # Errors
    /// [`Code::Usage`] if it is not clear.
    pub fn own(&self, wanted: Option<&NodeName>) -> Result<Option<&Member>, Failure> {
        if let Some(wanted) = wanted {
            let found = match wanted {
                NodeName::Number(number) => self.file.cluster.get(*number),
                NodeName::Name(name) => self.file.cluster.find(name.as_str()),
            };
            return match found {
                None if self.file.mode == Mode::Open && matches!(wanted, NodeName::Number(_)) => Ok(None),
                None => Err(self.unknown(&wanted.to_string())),
                found => Ok(found),
            };
        }
        let next = "say which with --node NAME";
        match here(&self.file)?.as_slice() {
            [own] => Ok(Some(own)),
            [] if self.file.mode == Mode::Open => Ok(None),
            [] => {
                let what = format!("no node of {} has an address of this host", self.path.display());
                Err(Failure::new(Code::Usage, what, next))
            }
            several => {
                let what = format!("{} nodes of {} are on this host", several.len(), self.path.display());
                Err(Failure::new(Code::Usage, what, format!("{next}: {}", labels(several.iter().copied()))))
            }
        }
    }

    /// The node and port that `target` names, and where the node is reached; `None` if it may be named otherwise.
    ///
    /// # Errors
    /// [`Code::UnknownHost`] for what no file that is strict names.
    pub fn find(
        &self,
        target: &Target,
        default_port: Port,
    ) -> Result<Option<(SocketTarget, SocketAddr)>, Failure> {
        let number = || self.file.cluster.get(target.host.parse().ok()?);
        let by_address = || {
            let ip: IpAddr = target.host.parse().ok()?;
            self.file.cluster.iter().find(|member| member.is_at_host(Underlay::Udp((ip, 0).into())))
        };
        let port = target.port(|service| self.file.service(service), default_port)?;
        match self.file.cluster.find(&target.host).or_else(number).or_else(by_address) {
            Some(member) => {
                let Underlay::Udp(at) =
                    member.at.first().map_or(Underlay::Udp(([0; 4], 0).into()), |first| first.at);
                Ok(Some((Address { node: member.node, port }.into(), at)))
            }
            None if self.file.mode == Mode::Open => Ok(None),
            None => Err(self.unknown(&target.host)),
        }
    }

    fn unknown(&self, name: &str) -> Failure {
        let what = format!("no node of {} is called {name:?}", self.path.display());
        let next = format!("it has {}; --cluster none goes without it", labels(self.file.cluster.iter()));
        Failure::new(Code::UnknownHost, what, next)
    }
}

/// Some names, and how many more there are.
fn labels<'a>(members: impl Iterator<Item = &'a Member>) -> String {
    let all: Vec<_> = members.map(Member::label).collect();
    let rest = all.len().saturating_sub(LISTED_MAX);
    let listed = all[..all.len() - rest].join(", ");
    if rest > 0 { format!("{listed} and {rest} more") } else { listed }
}

/// The nodes that have an address of this host.
fn here(file: &ClusterFile) -> Result<Vec<&Member>, Failure> {
    let interfaces = weft_link::interfaces().map_err(|error| {
        let what = format!("cannot look at the interfaces of this host: {}", cause(&error));
        Failure::new(Code::Other, what, "say which node this is with --node NAME")
    })?;
    let is_here = |at: IpAddr| at.is_loopback() || interfaces.iter().any(|interface| interface.address == at);
    let members = file.cluster.iter();
    Ok(members.filter(|member| member.at.iter().any(|attachment| is_here(attachment.at.host()))).collect())
}

impl NodeFlags {
    /// The number of this node, where no cluster file gives it.
    ///
    /// # Errors
    /// [`Code::Usage`] if it was named by a name.
    pub fn number(&self) -> Result<Option<NodeId>, Failure> {
        match &self.node {
            None => Ok(None),
            Some(NodeName::Number(number)) => Ok(Some(*number)),
            Some(NodeName::Name(name)) => {
                let what = format!("--node {name}, but no cluster file says which number that is");
                Err(Failure::new(Code::Usage, what, "give the file with --cluster, or a number"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(text: &str) -> ThisCluster {
        ThisCluster { file: ClusterFile::parse(text).unwrap(), path: "cluster.toml".into() }
    }

    /// What a program sets up by itself is no node of the user's cluster.
    #[test]
    fn a_file_is_read_only_where_a_user_may_mean_one() {
        assert_eq!(ClusterFlags::default().cluster, ClusterChoice::Off);
        for (text, choice) in [("none", ClusterChoice::Off), ("auto", ClusterChoice::Auto)] {
            assert_eq!(text.parse(), Ok(choice));
        }
        let missing = ClusterFlags { cluster: "/nowhere/cluster.toml".parse().unwrap(), io_probe: None };
        let refused = ThisCluster::named(&missing).err().unwrap();
        assert!(
            refused.to_string().contains("cannot read the cluster file /nowhere/cluster.toml"),
            "{refused}"
        );
    }

    const TWO: &str = "[services]\nstorage = 2000\n\
        [[node]]\nname = \"near\"\nnumber = 1\nat = \"127.0.0.1:7001\"\n\
        [[node]]\nname = \"far\"\nnumber = 2\nat = \"203.0.113.2\"\n";

    fn find(cluster: &ThisCluster, target: &str) -> Result<Option<String>, String> {
        let found =
            cluster.find(&target.parse().unwrap(), Port::ECHO).map_err(|failure| failure.to_string())?;
        Ok(found.map(|(target, at)| format!("{target:?} {at}")))
    }

    #[test]
    fn a_node_is_called_by_name_number_or_address_and_a_port_by_its_service() {
        let strict = cluster(TWO);
        for target in ["far:storage", "2:2000", "0x2:storage", "203.0.113.2:storage"] {
            let found = find(&strict, target).unwrap().unwrap();
            assert!(
                found.contains("0x000002") && found.contains("2000") && found.ends_with("203.0.113.2:64064"),
                "{found}"
            );
        }
        assert!(find(&strict, "farr").unwrap_err().contains("no node of cluster.toml is called \"farr\""));
        assert!(find(&strict, "far:stor").unwrap_err().contains("no service is called \"stor\""));
        assert_eq!(find(&cluster(&format!("mode = \"open\"\n{TWO}")), "example.org"), Ok(None));
    }

    #[test]
    fn the_node_with_an_address_of_this_host_is_this_one() {
        let both = cluster(TWO);
        assert_eq!(both.own(None).unwrap().map(Member::label).as_deref(), Some("near"));
        assert_eq!(
            both.own(Some(&"far".parse().unwrap())).unwrap().map(Member::label).as_deref(),
            Some("far")
        );
        assert_eq!(both.own(Some(&"2".parse().unwrap())).unwrap().map(Member::label).as_deref(), Some("far"));
        let unknown = both.own(Some(&"nobody".parse().unwrap())).unwrap_err().to_string();
        assert!(unknown.contains("near, far"), "{unknown}");
        let three = format!("{TWO}[[node]]\nname = \"third\"\nnumber = 3\nat = \"127.0.0.1:7003\"\n");
        let unclear = cluster(&three).own(None).unwrap_err().to_string();
        assert!(unclear.contains("near, third"), "{unclear}");
        let elsewhere = "[[node]]\nnumber = 2\nat = \"203.0.113.2\"\n";
        assert!(cluster(elsewhere).own(None).unwrap_err().to_string().contains("--node NAME"));
        assert!(cluster(&format!("mode = \"open\"\n{elsewhere}")).own(None).unwrap().is_none());
    }
}
