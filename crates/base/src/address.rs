//! Nodes, ports, and the key of a flow.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

/// A node number, 1..0xFFFFFE, unique in its cluster (CDP-ADR-1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(u32);

impl NodeId {
    /// The least number of the range that nodes without a cluster file choose from (CDP-ADR-8).
    pub const FIRST_UNREGISTERED: u32 = 0x80_0000;
    /// The greatest node number.
    pub const LAST: u32 = 0xFF_FFFE;

    /// The node `number`, or `None` for 0 and for numbers above 0xFFFFFE (CDP-HDR-15).
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        if number == 0 || number > Self::LAST { None } else { Some(Self(number)) }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    /// A node of the unregistered range, chosen by `random` (CDP-ADR-8).
    #[must_use]
    pub const fn unregistered(random: u32) -> Self {
        Self(Self::FIRST_UNREGISTERED + random % (Self::LAST - Self::FIRST_UNREGISTERED + 1))
    }

    /// Whether the number lies in the range of nodes without a cluster file.
    #[must_use]
    pub const fn is_unregistered(self) -> bool {
        self.0 >= Self::FIRST_UNREGISTERED
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not a node number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseNodeIdError(String);

impl fmt::Display for ParseNodeIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\"{}\" is not a node number; give 1 to 0xfffffe in decimal or with 0x in hexadecimal",
            self.0
        )
    }
}

impl std::error::Error for ParseNodeIdError {}

impl FromStr for NodeId {
    type Err = ParseNodeIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => text.parse(),
        };
        number.ok().and_then(Self::new).ok_or_else(|| ParseNodeIdError(text.to_owned()))
    }
}

/// A CDP port, never 0 (CDP-HDR-15).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Port(NonZeroU16);

impl Port {
    /// Node control (CDP-ADR-4).
    pub const CONTROL: Self = Self::from_nonzero(1);
    /// The echo service (CDP-ADR-4).
    pub const ECHO: Self = Self::from_nonzero(7);
    /// What is sent here is thrown away (CDP-ADR-4).
    pub const DISCARD: Self = Self::from_nonzero(9);
    /// The least port for users without permission (CDP-ADR-4).
    pub const FIRST_USER: u16 = 1024;
    /// The least ephemeral port (CDP-ADR-4).
    pub const FIRST_EPHEMERAL: u16 = 49_152;

    const fn from_nonzero(number: u16) -> Self {
        match NonZeroU16::new(number) {
            Some(number) => Self(number),
            None => panic!("port 0 is not a port"),
        }
    }

    /// The port `number`, or `None` for 0.
    #[must_use]
    pub fn new(number: u16) -> Option<Self> {
        NonZeroU16::new(number).map(Self)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One end of a connection: a node and a port on it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// The node.
    pub node: NodeId,
    /// The port on that node.
    pub port: Port,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.node, self.port)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The 4-tuple that identifies a connection (CDP-ADR-3), seen from the end that keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowKey {
    /// This end.
    pub local: Address,
    /// The other end.
    pub remote: Address,
}

impl FlowKey {
    /// The same connection seen from the other end.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { local: self.remote, remote: self.local }
    }
}

impl fmt::Debug for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}<->{}", self.local, self.remote)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [CDP-HDR-15] Node 0 and node 0xFFFFFF do not appear, and port 0 does not appear at all.
    #[test]
    fn reserved_numbers_are_no_nodes_and_no_ports() {
        assert_eq!(NodeId::new(0), None);
        assert_eq!(NodeId::new(0xFF_FFFF), None);
        assert_eq!(NodeId::new(0xFF_FFFE).map(NodeId::get), Some(0xFF_FFFE));
        assert_eq!(Port::new(0), None);
    }

    /// [CDP-ADR-8] Numbers 0x800000..0xFFFFFE are for nodes without a cluster file.
    #[test]
    fn a_random_number_falls_into_the_unregistered_range() {
        for random in [0, 1, 0x7F_FFFE, 0x7F_FFFF, u32::MAX] {
            let node = NodeId::unregistered(random);
            assert!(node.is_unregistered() && node.get() <= NodeId::LAST, "{random:#x} gave {node}");
        }
    }

    #[test]
    fn a_node_is_read_from_decimal_and_hexadecimal() {
        assert_eq!("0xabcd".parse(), Ok(NodeId(0xABCD)));
        assert_eq!("17".parse(), Ok(NodeId(17)));
        let refused = "0xffffff".parse::<NodeId>().unwrap_err();
        assert!(refused.to_string().contains("0xffffff"));
    }
}
