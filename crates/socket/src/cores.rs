//! How many UDP ports are worth their threads and buffers, by the cores there are (decision 0052).

/// Cores below which one port is as good as several (decision 0109).
const SEVERAL: usize = 2;
/// Ports beyond which more make hardly a difference: of eight peers seven meet one that nobody else has.
const PORTS_ENOUGH: usize = 32;
/// As many connections of one peer have one for themselves.
const SOURCE_PORTS_ENOUGH: usize = 64;
/// With more of them for a core many connections are slower (decision 0109).
const SOURCE_PORTS_PER_CORE: usize = 8;

/// Cores that this process may run on.
pub(crate) fn count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Ports that share the address of a node with many peers.
pub(crate) fn ports(cores: usize) -> usize {
    if cores < SEVERAL { 1 } else { (2 * cores).min(PORTS_ENOUGH) }
}

/// Ports of their own for so many connections to one peer.
pub(crate) fn source_ports(cores: usize, connections: usize) -> usize {
    let enough = (SOURCE_PORTS_PER_CORE * cores).min(SOURCE_PORTS_ENOUGH);
    if cores < SEVERAL || connections < 2 { 0 } else { connections.min(enough) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_core_has_one_port_and_several_have_two_each() {
        assert_eq!([1, 2, 3, 4, 8, 16, 64].map(ports), [1, 4, 6, 8, 16, 32, 32]);
    }

    #[test]
    fn several_connections_have_a_source_port_each_where_there_are_cores_for_them() {
        assert_eq!([1, 2, 8, 100].map(|connections| source_ports(16, connections)), [0, 2, 8, 64]);
        assert_eq!([1, 2, 3, 7, 8].map(|cores| source_ports(cores, 100)), [0, 16, 24, 56, 64]);
        assert_eq!(source_ports(1, 8), 0);
    }
}
