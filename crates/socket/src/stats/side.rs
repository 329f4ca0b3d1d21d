//! The I/O nodes between a node and some of its peers, as JSON.

use weft_engine::{IoNodeStats, SideStats};

use super::join;

pub(super) fn side_json(side: &SideStats) -> String {
    let io_nodes = join(side.io_nodes.iter().map(io_node_json));
    format!("{{\"switches\":{},\"io_nodes\":[{io_nodes}]}}", side.switches)
}

fn io_node_json(io_node: &IoNodeStats) -> String {
    format!(
        "{{\"node\":\"{}\",\"at\":\"{}\",\"default\":{},\"demoted\":{},\"packets_sent\":{}}}",
        io_node.node, io_node.at, io_node.is_default, io_node.is_demoted, io_node.packets_sent
    )
}

#[cfg(test)]
mod tests {
    use weft_base::NodeId;

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
            side_json(&side),
            "{\"switches\":2,\"io_nodes\":[{\"node\":\"0x00000b\",\"at\":\"10.1.0.11:64064\",\"default\":true,\
             \"demoted\":false,\"packets_sent\":7}]}"
        );
    }
}
