//! Two hops between two nodes, of which the second has two I/O nodes and the first does not ask them whether they live.

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod stopwatch;

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::sync::Arc;
    use std::thread;
    use std::time::{Duration, Instant};

    use weft_forward::IoNode;
    use weft_route::{Attachment, ClusterFile, Forwarder, Underlay};
    use weft_socket::link::{Link, Udp};
    use weft_socket::{Node, NodeId, Options, Socket};

    use crate::stopwatch::Stopwatch;

    /// Longest time any wait may take.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Where the nodes of a test are: addresses of this process and the test alone, as others may run the same tests.
    fn at(test: u8, number: u8) -> Ipv4Addr {
        let [.., high, low] = std::process::id().to_be_bytes();
        Ipv4Addr::new(127, 64 | high & 63, low, 100 * test + number)
    }

    /// Node 1, then I/O node 11, then 21 and 22 of which 11 takes 21, then node 2.
    fn cluster(test: u8) -> ClusterFile {
        let [near, far] = [1, 2].map(|number| at(test, number));
        let [near_11, far_11] = [11, 12].map(|number| at(test, number));
        let [near_21, far_21, near_22, far_22] = [21, 31, 22, 32].map(|number| at(test, number));
        let text = format!(
            r#"
        networks = ["a", "b", "c"]
        [services]
        echo-of-numbers = 2000
        [[node]]
        name = "near"
        number = 1
        at = {{ a = "{near}" }}
        [[node]]
        name = "far"
        number = 2
        at = {{ c = "{far}" }}
        [[node]]
        number = 11
        kind = "io"
        at = {{ a = "{near_11}", b = "{far_11}" }}
        default-io = 21
        [[node]]
        number = 21
        kind = "io"
        at = {{ b = "{near_21}", c = "{far_21}" }}
        [[node]]
        number = 22
        kind = "io"
        at = {{ b = "{near_22}", c = "{far_22}" }}
    "#
        );
        ClusterFile::parse(&text).unwrap()
    }

    fn io_node(file: &ClusterFile, number: u32) -> IoNode {
        let (cluster, id) = (file.cluster.clone(), NodeId::new(number).unwrap());
        let open = |&Attachment { network, at: Underlay::Udp(at) }: &Attachment| {
            (network, Arc::new(Udp::bind(at).unwrap()) as Arc<dyn Link>)
        };
        let links = cluster.get(id).unwrap().at.iter().map(open).collect();
        IoNode::start(Forwarder::new(id, cluster), links, Duration::ZERO).unwrap()
    }

    /// A connection from `near` to `far`, whose far end sends back what it receives.
    fn connect(file: &ClusterFile) -> (Node, Node, Socket) {
        let open = |name| Node::builder().cluster(file).named(name).open().unwrap();
        let (near, far) = (open("near"), open("far"));
        let listener = far.listen(2000, &Options::datagram()).unwrap();
        thread::spawn(move || {
            let Ok(peer) = listener.accept() else { return };
            let mut message = [0; 64];
            while let Ok(len) = peer.recv(&mut message) {
                if peer.send(&message[..len]).is_err() {
                    break;
                }
            }
        });
        let socket = near.connect("far:echo-of-numbers", &Options::datagram()).unwrap();
        socket.set_recv_timeout(Some(PATIENCE));
        (near, far, socket)
    }

    /// The longest of so many round trips.
    fn exchange(socket: &Socket, count: u64) -> Duration {
        let watch = Stopwatch::start();
        let round_trip = |number: u64| {
            let begin = watch.ran();
            socket.send(&number.to_le_bytes()).unwrap();
            let mut back = [0; 8];
            assert_eq!(socket.recv(&mut back).unwrap(), 8);
            assert_eq!(u64::from_le_bytes(back), number);
            watch.ran().saturating_sub(begin)
        };
        (0..count).map(round_trip).max().unwrap()
    }

    fn carried(io_node: &IoNode) -> u64 {
        io_node.stats().networks.iter().map(|network| network.departures.packets).sum()
    }

    /// [CDP-FWD-7] The host says at once that nobody is there, so that the other carries all from then on.
    #[test]
    fn a_second_hop_that_ends_is_left_by_the_first() {
        let file = cluster(0);
        let [first, gone, stays] = [11, 21, 22].map(|number| io_node(&file, number));
        let (_near, _far, socket) = connect(&file);
        exchange(&socket, 100);
        assert!(carried(&gone) > 100, "the default of the first carries what it sends");
        drop(gone);
        let pause = exchange(&socket, 100);
        let before = carried(&stays);
        exchange(&socket, 100);
        assert!(carried(&stays) > before + 100);
        // One that was left is tried again now and then, and left again.
        let is_told = || {
            exchange(&socket, 1);
            let relays = first.stats().relays;
            relays.iter().map(|relay| (relay.node.get(), relay.is_left)).eq([(21, true), (22, false)])
        };
        let begin = Instant::now();
        while !is_told() {
            assert!(begin.elapsed() < PATIENCE, "{:?}", first.stats().relays);
        }
        // What was on its way is lost: a time-out or two of a connection whose round trip is known.
        assert!(pause < Duration::from_secs(2), "{pause:?}");
        socket.abort();
    }

    /// [CDP-FWD-8] One that is silent is not noticed; what is sent again gets through by the other.
    #[test]
    fn a_connection_outlives_a_second_hop_that_falls_silent() {
        let file = cluster(1);
        let [_first, silent, _stays] = [11, 21, 22].map(|number| io_node(&file, number));
        let (_near, _far, socket) = connect(&file);
        exchange(&socket, 100);
        drop(silent);
        // Its addresses take what comes, and nobody looks.
        let _grave = [21, 31].map(|number| UdpSocket::bind((at(1, number), 64_064)).unwrap());
        let longest = exchange(&socket, 30);
        println!("the longest of 30 round trips over a silent second hop took {longest:?}");
        socket.abort();
    }
}
