//! `HOST[:PORT]` on the command line: who the peer is and where its packets go.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use weft_base::Port;
use weft_link::Mac;

use crate::exit::{Code, Failure, cause};

/// A host and perhaps a CDP port, as the user wrote them.
///
/// ```
/// use weft_tools::target::Target;
///
/// let target: Target = "node7:1064".parse()?;
/// let port = target.port(|_service| None, weft_base::Port::ECHO).unwrap();
/// assert_eq!((target.host.as_str(), port.get()), ("node7", 1064));
/// let target: Target = "[::1]:7".parse()?;
/// assert_eq!(target.host, "::1");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// The host name or address, without brackets.
    pub host: String,
    /// The CDP port, if one was given.
    port: Option<PortName>,
}

/// A port as the user calls it.
#[derive(Clone, PartialEq, Eq, Debug)]
enum PortName {
    Number(Port),
    /// By a service of the cluster file.
    Service(String),
}

impl Target {
    /// The port; `services` knows those that have names, and `default` is taken where none was given.
    ///
    /// # Errors
    /// [`Code::UnknownHost`] if no service is called so.
    pub fn port(&self, services: impl Fn(&str) -> Option<Port>, default: Port) -> Result<Port, Failure> {
        match &self.port {
            None => Ok(default),
            Some(PortName::Number(port)) => Ok(*port),
            Some(PortName::Service(service)) => services(service).ok_or_else(|| {
                let what = format!("no service is called {service:?}");
                Failure::new(
                    Code::UnknownHost,
                    what,
                    "give a port, or a cluster file that has the service under [services]",
                )
            }),
        }
    }

    /// The underlay address of the host that is named by the Ethernet address of its interface.
    ///
    /// # Errors
    /// [`Code::UnknownHost`] if it is named otherwise.
    pub fn ethernet(&self) -> Result<SocketAddr, Failure> {
        self.host.parse::<Mac>().map(Mac::underlay).map_err(|_| {
            let what = format!("{:?} is no Ethernet address, and --link packet needs one", self.host);
            let next =
                "give that of the peer's interface (`ip link` tells it there), such as 02:00:00:00:00:2a";
            Failure::new(Code::UnknownHost, what, next)
        })
    }

    /// The underlay address of the host at UDP port `udp_port`, of the family of `like` where one is given.
    ///
    /// # Errors
    /// [`Code::UnknownHost`] if the name means nothing here.
    pub fn resolve(&self, udp_port: u16, like: Option<IpAddr>) -> Result<SocketAddr, Failure> {
        let unknown = |why: &str| {
            Failure::new(
                Code::UnknownHost,
                format!("unknown host {:?}: {why}", self.host),
                "check the spelling, or give the host's IP address",
            )
        };
        if self.host.parse::<Mac>().is_ok() {
            return Err(unknown("it is an Ethernet address, which needs --link packet:INTERFACE"));
        }
        let found: Vec<SocketAddr> =
            (self.host.as_str(), udp_port).to_socket_addrs().map_err(|e| unknown(&reason(&e)))?.collect();
        let wanted = found.iter().find(|a| like.is_none_or(|like| like.is_ipv4() == a.is_ipv4()));
        match (wanted, like) {
            (Some(address), _) => Ok(*address),
            (None, Some(like)) => Err(unknown(if like.is_ipv4() {
                "it has no IPv4 address, but this end is bound to one"
            } else {
                "it has no IPv6 address, but this end is bound to one"
            })),
            (None, None) => Err(unknown("the name has no address")),
        }
    }
}

/// The resolver's words; it puts a prefix of its own before them.
fn reason(error: &std::io::Error) -> String {
    let text = cause(error);
    text.strip_prefix("failed to lookup address information: ").unwrap_or(&text).to_lowercase()
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = !self.host.contains(':');
        match (&self.port, bare) {
            (None, _) => f.write_str(&self.host),
            (Some(port), true) => write!(f, "{}:{port}", self.host),
            (Some(port), false) => write!(f, "[{}]:{port}", self.host),
        }
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = |why: &str| format!("{text:?} is not HOST[:PORT]: {why}");
        if text.contains('/') {
            return Err(refused("it is a path"));
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or_else(|| refused("the ] is missing"))?;
                match after {
                    "" => (host, None),
                    _ => {
                        (host, Some(after.strip_prefix(':').ok_or_else(|| refused("a : must follow the ]"))?))
                    }
                }
            }
            // More than one colon and no brackets: an IPv6 address alone.
            None if text.matches(':').count() > 1 => (text, None),
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        if host.is_empty() {
            return Err(refused("the host is missing"));
        }
        let port = port.map(parse_port_name).transpose().map_err(|why| refused(&why))?;
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(port) => port.fmt(f),
            Self::Service(service) => service.fmt(f),
        }
    }
}

/// A port, or the name of a service, which does not begin with a digit.
fn parse_port_name(text: &str) -> Result<PortName, String> {
    if text.starts_with(|first: char| first.is_alphabetic()) && text.parse::<weft_route::Name>().is_ok() {
        return Ok(PortName::Service(text.to_owned()));
    }
    parse_port(text).map(PortName::Number)
}

/// Reads a CDP port.
///
/// # Errors
/// A sentence that names the text and what would be accepted.
pub fn parse_port(text: &str) -> Result<Port, String> {
    let port = text.parse::<u16>().ok().and_then(Port::new);
    port.ok_or_else(|| format!("{text:?} is not a port; give 1 to 65535"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (String, Option<u16>) {
        let target: Target = text.parse().unwrap();
        let port = match target.port {
            Some(PortName::Number(port)) => Some(port.get()),
            _ => None,
        };
        (target.host, port)
    }

    #[test]
    fn hosts_are_read_with_and_without_port() {
        assert_eq!(parts("localhost"), ("localhost".into(), None));
        assert_eq!(parts("10.0.0.7:99"), ("10.0.0.7".into(), Some(99)));
        assert_eq!(parts("fe80::1"), ("fe80::1".into(), None));
        assert_eq!(parts("[::1]:1064"), ("::1".into(), Some(1064)));
        assert_eq!("[::1]:1064".parse::<Target>().unwrap().to_string(), "[::1]:1064");
    }

    #[test]
    fn a_wrong_target_is_refused_with_the_reason() {
        for (text, why) in [
            (":7", "the host is missing"),
            ("host:0", "\"0\" is not a port"),
            ("host:70000", "\"70000\" is not a port"),
            ("host:", "\"\" is not a port"),
            ("[::1", "the ] is missing"),
            ("dir/file", "it is a path"),
        ] {
            let refused = text.parse::<Target>().unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    #[test]
    fn an_unknown_host_is_told_by_name() {
        let target: Target = "no-such-host.invalid".parse().unwrap();
        let failure = target.resolve(64064, None).unwrap_err();
        assert_eq!(failure.code, Code::UnknownHost);
        assert!(failure.to_string().contains("no-such-host.invalid"), "{failure}");
    }

    #[test]
    fn an_ethernet_address_is_a_host_of_a_packet_link_only() {
        for text in ["02:00:00:00:00:2a", "[02:00:00:00:00:2a]:1064"] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.ethernet().unwrap(), Mac([2, 0, 0, 0, 0, 0x2A]).underlay());
            assert!(target.resolve(1, None).unwrap_err().to_string().contains("--link packet"));
        }
        let target: Target = "localhost".parse().unwrap();
        assert!(target.ethernet().unwrap_err().to_string().contains("ip link"));
    }

    #[test]
    fn an_address_of_the_other_family_is_refused() {
        let target: Target = "127.0.0.1".parse().unwrap();
        let like: IpAddr = "::1".parse().unwrap();
        assert!(target.resolve(1, Some(like)).unwrap_err().to_string().contains("IPv6"));
    }
}
