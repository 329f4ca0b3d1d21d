//! `HOST[:PORT]` on the command line, where no cluster and no job has a name for it: where its packets go.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use weft_link::Mac;

use crate::exit::{Code, Failure, cause};

/// A host and perhaps a CDP port, as the user wrote them.
///
/// ```
/// use weft_tools::target::Target;
///
/// let target: Target = "node7:1064".parse()?;
/// assert_eq!((target.host.as_str(), target.to_string()), ("node7", "node7:1064".to_owned()));
/// # Ok::<(), weft_route::ParseAddressError>(())
/// ```
pub use weft_route::AddressText as Target;

/// The underlay address of the host that is named by the Ethernet address of its interface.
///
/// # Errors
/// [`Code::UnknownHost`] if it is named otherwise.
pub fn ethernet(host: &str) -> Result<SocketAddr, Failure> {
    host.parse::<Mac>().map(Mac::underlay).map_err(|_| {
        let what = format!("{host:?} is no Ethernet address, and --link packet needs one");
        let next = "give that of the peer's interface (`ip link` tells it there), such as 02:00:00:00:00:2a";
        Failure::new(Code::UnknownHost, what, next)
    })
}

/// The underlay address of `host` at UDP port `udp_port`, of the family of `like` where one is given.
///
/// # Errors
/// [`Code::UnknownHost`] if the name means nothing here.
pub fn look_up(host: &str, udp_port: u16, like: Option<IpAddr>) -> Result<SocketAddr, Failure> {
    let unknown = |why: &str| {
        Failure::new(
            Code::UnknownHost,
            format!("unknown host {host:?}: {why}"),
            "check the spelling, or give the host's IP address",
        )
    };
    if host.parse::<Mac>().is_ok() {
        return Err(unknown("it is an Ethernet address, which needs --link packet:INTERFACE"));
    }
    let found: Vec<SocketAddr> =
        (host, udp_port).to_socket_addrs().map_err(|e| unknown(&reason(&e)))?.collect();
    match (choose(&found, like), like) {
        (Some(address), _) => Ok(address),
        (None, Some(like)) => {
            let family = if like.is_ipv4() { "IPv4" } else { "IPv6" };
            let what = format!("{host:?} has no {family} address, and this end is bound to one");
            Err(Failure::new(
                Code::UnknownHost,
                what,
                "leave --bind out, or give it an address as the host has one",
            ))
        }
        (None, None) => Err(unknown("the name has no address")),
    }
}

/// The address to take: of the family of `like`, or if there is no such wish of the one that listens by default, IPv4.
fn choose(found: &[SocketAddr], like: Option<IpAddr>) -> Option<SocketAddr> {
    let preferred = weft_socket::preferred_address(found, like.is_none_or(|like| like.is_ipv4()));
    preferred.filter(|address| like.is_none_or(|like| like.is_ipv4() == address.is_ipv4()))
}

/// The resolver's words; it puts a prefix of its own before them.
fn reason(error: &std::io::Error) -> String {
    let text = cause(error);
    text.strip_prefix("failed to lookup address information: ").unwrap_or(&text).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_both_addresses_means_where_servers_listen() {
        let [v6, v4]: [SocketAddr; 2] = ["[::1]:7", "127.0.0.1:7"].map(|at| at.parse().unwrap());
        assert_eq!(choose(&[v6, v4], None), Some(v4));
        assert_eq!(choose(&[v6], None), Some(v6));
        assert_eq!(choose(&[v6, v4], Some(v6.ip())), Some(v6));
        assert_eq!(choose(&[v6], Some(v4.ip())), None);
    }

    #[test]
    fn an_unknown_host_is_told_by_name() {
        let failure = look_up("no-such-host.invalid", 64064, None).unwrap_err();
        assert_eq!(failure.code, Code::UnknownHost);
        assert!(failure.to_string().contains("no-such-host.invalid"), "{failure}");
    }

    #[test]
    fn an_ethernet_address_is_a_host_of_a_packet_link_only() {
        for text in ["02:00:00:00:00:2a", "[02:00:00:00:00:2a]:1064"] {
            let target: Target = text.parse().unwrap();
            assert_eq!(ethernet(&target.host).unwrap(), Mac([2, 0, 0, 0, 0, 0x2A]).underlay());
            assert!(look_up(&target.host, 1, None).unwrap_err().to_string().contains("--link packet"));
        }
        assert!(ethernet("localhost").unwrap_err().to_string().contains("ip link"));
    }

    #[test]
    fn an_address_of_the_other_family_is_refused() {
        let like: IpAddr = "::1".parse().unwrap();
        assert!(look_up("127.0.0.1", 1, Some(like)).unwrap_err().to_string().contains("IPv6"));
    }
}
