//! The cluster that a file describes, and which of its nodes this process is.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use weft_base::{NodeId, Port};
use weft_route::{Cluster, ClusterFile, Member, Mode, Name, PortText, Underlay, UnknownNode, WhichError};
use weft_socket::{Address, LoadError, OpenError, load_cluster, own_node};

use super::{NodeFlags, told};
use crate::exit::{Code, Failure, cause};
use crate::target::Target;
use crate::units::parse_wait;

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
    #[arg(long, value_name = "TIME", value_parser = parse_wait)]
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
        let file = load_cluster(path).map_err(|error| match &error {
            LoadError::Read { source, .. } => {
                let what = format!("cannot read the cluster file {}: {}", path.display(), cause(source));
                Failure::new(Code::Source, what, "give another with --cluster FILE")
            }
            LoadError::Wrong { .. } => {
                let failure = told(Code::Usage, &error);
                let next = if failure.next.is_empty() { "correct the file".to_owned() } else { failure.next };
                Failure { next, ..failure }
            }
        })?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Which node this process is: the one that the user says, or the only one with an address of this host. `None` in
    /// open mode if there is none.
    ///
    /// # Errors
    /// [`Code::Usage`] if it is not clear, [`Code::UnknownHost`] if there is no such node.
    pub fn own(&self, wanted: Option<&NodeName>) -> Result<Option<&Member>, Failure> {
        let name = wanted.map(NodeName::to_string);
        let failure = |code, what: String| Err(Failure::new(code, what, "say which with --node NAME"));
        match own_node(&self.file, name.as_deref()) {
            Ok(own) => Ok(own.and_then(|own| self.file.cluster.get(own))),
            // A node that an open file does not name may still have a number.
            Err(OpenError::Unknown(_))
                if self.file.mode == Mode::Open && matches!(wanted, Some(NodeName::Number(_))) =>
            {
                Ok(None)
            }
            Err(OpenError::Unknown(unknown)) => Err(self.unknown(&unknown)),
            Err(OpenError::Which(WhichError::Nobody)) => failure(
                Code::Usage,
                format!("no node of {} has an address of this host", self.path.display()),
            ),
            Err(OpenError::Which(WhichError::Several(names))) => {
                let what = format!("{} nodes of {} are on this host", names.len(), self.path.display());
                let next = format!("say which with --node NAME: {}", listed(&names));
                Err(Failure::new(Code::Usage, what, next))
            }
            Err(error) => {
                let told = told(Code::Other, &error);
                failure(told.code, told.what)
            }
        }
    }

    /// The node and port that `target` names, and where the node is reached; `None` if this names no node that the file has.
    ///
    /// # Errors
    /// [`Code::UnknownHost`] for what no file that is strict names.
    pub fn find(
        &self,
        target: &Target,
        default_port: Port,
    ) -> Result<Option<(Address, SocketAddr)>, Failure> {
        let port = port_of(&self.file.cluster, target.port.as_ref(), default_port)?;
        match self.file.cluster.member(&target.host) {
            Ok(member) => {
                let Underlay::Udp(at) =
                    member.at.first().map_or(Underlay::Udp(([0; 4], 0).into()), |first| first.at);
                Ok(Some((Address { node: member.node, port }, at)))
            }
            Err(_) if self.file.mode == Mode::Open => Ok(None),
            Err(unknown) => Err(self.unknown(&unknown)),
        }
    }

    fn unknown(&self, unknown: &UnknownNode) -> Failure {
        let what = format!("no node of {} is called {:?}", self.path.display(), unknown.wanted);
        let has = if unknown.near.is_empty() {
            format!("it has {}", listed(&self.file.cluster.iter().map(Member::label).collect::<Vec<_>>()))
        } else {
            format!("close to it are {}", unknown.near.join(", "))
        };
        Failure::new(Code::UnknownHost, what, format!("{has}; --cluster none goes without the file"))
    }
}

/// The port that `text` stands for, by the services of `cluster` if it is a name, and `default` if there is none.
///
/// # Errors
/// [`Code::UnknownHost`] if no service is called so.
pub(super) fn port_of(cluster: &Cluster, text: Option<&PortText>, default: Port) -> Result<Port, Failure> {
    text.map_or(Ok(default), |text| cluster.port_number(text)).map_err(|unknown| {
        let failure = told(Code::UnknownHost, &unknown);
        let known: Vec<_> = cluster.services().map(|(name, _)| name.to_string()).collect();
        let (code, next) = if !unknown.near.is_empty() {
            return failure;
        } else if known.len() == Cluster::default().services().count() {
            (Code::Usage, "give a port, or a cluster file that has the service under [services]".to_owned())
        } else {
            (Code::UnknownHost, format!("the cluster has {}", listed(&known)))
        };
        Failure::new(code, failure.what, next)
    })
}

/// Some names, and how many more there are.
fn listed(names: &[String]) -> String {
    let (first, rest) = names.split_at(names.len().min(LISTED_MAX));
    let first = first.join(", ");
    if rest.is_empty() { first } else { format!("{first} and {} more", rest.len()) }
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
        let unknown = find(&strict, "farr").unwrap_err();
        assert!(
            unknown.contains("no node of cluster.toml is called \"farr\"; close to it are far"),
            "{unknown}"
        );
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
