//! The I/O nodes between a node and some of its peers, and how they do.

use std::net::SocketAddr;

use weft_base::NodeId;

use super::join;

/// The I/O nodes that lead to some of the other nodes (CDP-IO-1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SideStats {
    /// The I/O nodes, in the order in which retransmissions try them.
    pub io_nodes: Vec<IoNodeStats>,
    /// How often the default changed: an I/O node was left, or came back.
    pub switches: u64,
}

/// One I/O node as its user sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoNodeStats {
    /// Its number.
    pub node: NodeId,
    /// Where it is reached.
    pub at: SocketAddr,
    /// Whether first transmissions go through it.
    pub is_default: bool,
    /// Whether it was left because it lost packets, and has not come back.
    pub is_demoted: bool,
    /// Packets sent through it.
    pub packets_sent: u64,
}

impl SideStats {
    pub(crate) fn to_json(&self) -> String {
        let io_nodes = join(self.io_nodes.iter().map(|io_node| io_node.to_json()));
        format!("{{\"switches\":{},\"io_nodes\":[{io_nodes}]}}", self.switches)
    }
}

impl IoNodeStats {
    fn to_json(self) -> String {
        format!(
            "{{\"node\":\"{}\",\"at\":\"{}\",\"default\":{},\"demoted\":{},\"packets_sent\":{}}}",
            self.node, self.at, self.is_default, self.is_demoted, self.packets_sent
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_json() {
        let io_node = IoNodeStats {
            node: NodeId::new(11).unwrap(),
            at: "10.1.0.11:64064".parse().unwrap(),
            is_default: true,
            is_demoted: false,
            packets_sent: 7,
        };
        let side = SideStats { io_nodes: vec![io_node], switches: 2 };
        assert_eq!(
            side.to_json(),
            "{\"switches\":2,\"io_nodes\":[{\"node\":\"0x00000b\",\"at\":\"10.1.0.11:64064\",\"default\":true,\
             \"demoted\":false,\"packets_sent\":7}]}"
        );
    }
}
