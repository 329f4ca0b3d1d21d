//! `--link`: what carries the packets.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use weft_link::{Mac, UnderlayText};

/// What carries the packets of a node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum LinkChoice {
    /// A UDP socket.
    #[default]
    Udp,
    /// Ethernet frames on the interface of this name.
    Packet(String),
}

impl FromStr for LinkChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "udp" => Ok(Self::Udp),
            Some(("packet", interface)) if !interface.is_empty() => Ok(Self::Packet(interface.to_owned())),
            _ => Err("give udp, or packet:INTERFACE, such as packet:eth0".to_owned()),
        }
    }
}

impl fmt::Display for LinkChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Udp => f.write_str("udp"),
            Self::Packet(interface) => write!(f, "packet:{interface}"),
        }
    }
}

/// An underlay address after the name of the underlay.
#[must_use]
pub fn underlay_text(at: SocketAddr) -> String {
    let underlay = Mac::of_underlay(at).map_or("UDP", |_| "Ethernet");
    format!("{underlay} {}", UnderlayText(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_read_as_it_is_written() {
        for text in ["udp", "packet:eth0"] {
            assert_eq!(text.parse::<LinkChoice>().unwrap().to_string(), text);
        }
        for text in ["", "tcp", "packet", "packet:", "eth0"] {
            assert!(text.parse::<LinkChoice>().unwrap_err().contains("packet:INTERFACE"), "{text}");
        }
    }

    #[test]
    fn people_read_the_address_they_have_to_give() {
        assert_eq!(underlay_text("10.0.0.1:64064".parse().unwrap()), "UDP 10.0.0.1:64064");
        assert_eq!(underlay_text(Mac([2, 0, 0, 0, 0, 7]).underlay()), "Ethernet 02:00:00:00:00:07");
    }
}
