//! From what people write to the end of a connection: names, numbers, underlay addresses and services of a cluster.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use weft_base::{Address, NodeId, Port, limits};

use crate::near::{NearText, near};
use crate::{AddressText, Cluster, Member, Name, ParseAddressError, PortText};

/// Why a text names no end of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ResolveError {
    /// It is not `HOST[:PORT]`.
    Text(ParseAddressError),
    /// It gives no port.
    NoPort(AddressText),
    /// No node is called so.
    Node(UnknownNode),
    /// No service is called so.
    Service(UnknownService),
}

/// A node that the cluster does not have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownNode {
    /// What was asked for.
    pub wanted: String,
    /// Names of the cluster that are spelled much like it, the closest first.
    pub near: Vec<String>,
}

/// A service that the cluster does not have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownService {
    /// What was asked for.
    pub wanted: Name,
    /// Services that are spelled much like it, the closest first.
    pub near: Vec<String>,
}

impl fmt::Display for UnknownNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no node of the cluster is called {:?}{}", self.wanted, NearText(&self.near))
    }
}

impl fmt::Display for UnknownService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no service is called {:?}{}", self.wanted.as_str(), NearText(&self.near))
    }
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(error) => error.fmt(f),
            Self::NoPort(text) => {
                let with_port = AddressText { port: Some(PortText::Number(Port::ECHO)), ..text.clone() };
                write!(
                    f,
                    "{:?} names no port; add a number or a service, as in {with_port}",
                    text.to_string()
                )
            }
            Self::Node(error) => error.fmt(f),
            Self::Service(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for UnknownNode {}
impl std::error::Error for UnknownService {}
impl std::error::Error for ResolveError {}

impl From<ParseAddressError> for ResolveError {
    fn from(error: ParseAddressError) -> Self {
        Self::Text(error)
    }
}

impl From<UnknownNode> for ResolveError {
    fn from(error: UnknownNode) -> Self {
        Self::Node(error)
    }
}

impl From<UnknownService> for ResolveError {
    fn from(error: UnknownService) -> Self {
        Self::Service(error)
    }
}

impl Cluster {
    /// The end that `NAME:SERVICE` names. A node may also be called by its number or by an underlay address of its own,
    /// and a port by its number.
    ///
    /// # Errors
    /// What is wrong with the text, or what in it is unknown.
    pub fn resolve(&self, text: &str) -> Result<Address, ResolveError> {
        let text: AddressText = text.parse()?;
        let port = self.port(&text)?.ok_or_else(|| ResolveError::NoPort(text.clone()))?;
        Ok(Address { node: self.member(&text.host)?.node, port })
    }

    /// The port of `text`; `None` if it has none.
    ///
    /// # Errors
    /// When no service is called so.
    pub fn port(&self, text: &AddressText) -> Result<Option<Port>, UnknownService> {
        text.port.as_ref().map(|port| self.port_number(port)).transpose()
    }

    /// The port that `text` stands for.
    ///
    /// # Errors
    /// When no service is called so.
    pub fn port_number(&self, text: &PortText) -> Result<Port, UnknownService> {
        match text {
            PortText::Number(port) => Ok(*port),
            PortText::Service(name) => {
                let known = self.services().map(|(name, _)| name);
                let unknown = || UnknownService { wanted: name.clone(), near: near(name.as_str(), known) };
                self.service(name.as_str()).ok_or_else(unknown)
            }
        }
    }

    /// The node that is called `host`: by its name, by its number, or by the underlay address where it, or it alone on
    /// that host, is reached.
    ///
    /// # Errors
    /// When no node is called so, with the names that are close to it.
    pub fn member(&self, host: &str) -> Result<&Member, UnknownNode> {
        let by_number = || self.get(host.parse::<NodeId>().ok()?);
        let found = self.find(host).or_else(by_number).or_else(|| self.at_address(host.parse().ok()?));
        found.ok_or_else(|| self.unknown(host))
    }

    fn at_address(&self, ip: IpAddr) -> Option<&Member> {
        let at = SocketAddr::new(ip, limits::UDP_PORT);
        let mut on_host = self.iter().filter(|member| member.is_at_host(at.into()));
        let alone = || on_host.next().filter(|_| on_host.next().is_none());
        self.at(at.into()).or_else(alone)
    }

    fn unknown(&self, host: &str) -> UnknownNode {
        UnknownNode { wanted: host.to_owned(), near: near(host, self.names().map(|(name, _)| name.as_str())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClusterFile;

    fn cluster() -> Cluster {
        let text = r#"
            [services]
            storage = 2000
            [[node]]
            name = "login"
            number = 1
            at = "10.1.0.1:7001"
            [[node]]
            name = "compute-17"
            number = 117
            at = "10.1.0.17"
            [[node]]
            name = "compute-18"
            number = 118
            at = "10.1.0.18:7001"
            [[node]]
            name = "beside"
            number = 119
            at = "10.1.0.18:7002"
        "#;
        ClusterFile::parse(text).unwrap().cluster
    }

    fn resolve(text: &str) -> Result<(u32, u16), String> {
        let end = cluster().resolve(text).map_err(|error| error.to_string())?;
        Ok((end.node.get(), end.port.get()))
    }

    #[test]
    fn a_node_is_called_by_name_number_or_address_and_a_port_by_its_service() {
        for text in ["compute-17:storage", "compute-17:2000", "117:storage", "0x75:2000", "10.1.0.17:storage"]
        {
            assert_eq!(resolve(text), Ok((117, 2000)), "{text}");
        }
        assert_eq!(resolve("10.1.0.1:7"), Ok((1, 7)), "alone on its host");
        assert_eq!(resolve("login:echo"), Ok((1, 7)), "CDP-ADR-4");
    }

    #[test]
    fn what_is_unknown_is_told_with_what_is_close_to_it() {
        assert_eq!(
            resolve("compute-19:7").unwrap_err(),
            "no node of the cluster is called \"compute-19\"; did you mean one of compute-17, compute-18?"
        );
        assert!(resolve("logn:7").unwrap_err().ends_with("did you mean login?"));
        assert!(resolve("mainframe:7").unwrap_err().ends_with("check the spelling"));
        assert!(resolve("10.1.0.18:7").unwrap_err().contains("\"10.1.0.18\""), "two nodes are there");
        assert_eq!(
            resolve("login:storge").unwrap_err(),
            "no service is called \"storge\"; did you mean storage?"
        );
        assert!(resolve("login:ech").unwrap_err().ends_with("did you mean echo?"));
        assert!(resolve("login").unwrap_err().ends_with("as in login:7"));
        assert!(resolve("::1").unwrap_err().ends_with("as in [::1]:7"));
        assert!(resolve("login:0").unwrap_err().contains("not a port"));
    }

    #[test]
    fn a_node_may_have_further_names_and_none_stands_for_two() {
        let mut cluster = cluster();
        let node = cluster.find("login").unwrap().node;
        cluster.add_name("front".parse().unwrap(), node).unwrap();
        cluster.add_name("front".parse().unwrap(), node).unwrap();
        assert_eq!(cluster.resolve("front:7").unwrap().node, node);
        let taken = cluster.add_name("compute-17".parse().unwrap(), node).unwrap_err();
        assert!(taken.to_string().contains("compute-17"), "{taken}");
    }
}
