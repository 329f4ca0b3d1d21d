//! The port to listen on, as the user calls it.

use std::fmt;
use std::str::FromStr;

use weft_base::Port;
use weft_route::PortText;

use super::LocalNode;
use super::cluster::port_of;
use crate::exit::Failure;

/// A CDP port to listen on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListenPort {
    /// Any that is free.
    Any,
    /// This one, by its number or by the name of a service.
    At(PortText),
}

impl ListenPort {
    /// The port of this number, and any for 0.
    #[must_use]
    pub fn number(number: u16) -> Self {
        Port::new(number).map_or(Self::Any, |port| Self::At(PortText::Number(port)))
    }
}

impl FromStr for ListenPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "0" {
            return Ok(Self::Any);
        }
        let refused =
            |_| format!("{text:?} is not a port; give 0 to 65535, or the name of a service of the cluster");
        text.parse().map(Self::At).map_err(refused)
    }
}

impl fmt::Display for ListenPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("0"),
            Self::At(port) => port.fmt(f),
        }
    }
}

impl LocalNode {
    /// The number of `port`, and 0 for any.
    ///
    /// # Errors
    /// [`crate::exit::Code::UnknownHost`] if it is a service that the cluster of this node does not have.
    pub fn port(&self, port: &ListenPort) -> Result<u16, Failure> {
        match port {
            ListenPort::Any => Ok(0),
            ListenPort::At(text) => port_of(&self.cluster, Some(text), Port::ECHO).map(Port::get),
        }
    }
}
