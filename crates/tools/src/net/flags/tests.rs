use super::*;

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    node: NodeFlags,
    #[command(flatten)]
    peer: PeerFlags,
    #[command(flatten)]
    socket: SocketFlags,
}

fn parse(words: &[&str]) -> Result<Line, String> {
    use clap::Parser;
    Line::try_parse_from([&["x"], words].concat()).map_err(|e| e.to_string())
}

#[test]
fn every_socket_option_reaches_the_socket() {
    let line = parse(&[
        "--congestion=fixed:64",
        "--no-integrity",
        "--receive-slots=2048",
        "--send-bytes=1M",
        "--message-bytes=64K",
        "--coalescing=200us",
        "--keepalive=10s/30s",
        "--confirm",
        "--mss=1000",
        "--local-port=5000",
        "--connect-timeout=3s",
        "--close-timeout=4s",
        "--no-progress=7s",
        "--give-up=8s",
        "--ack-delay=2ms",
        "--rto-init=250ms",
        "--accept-limit=9",
    ])
    .unwrap();
    let secs = Duration::from_secs;
    let expected = Options::datagram()
        .congestion(CongestionControl::Fixed { packets: 64 })
        .integrity(false)
        .receive_slots(2048)
        .send_bytes(1 << 20)
        .message_bytes(64 << 10)
        .coalescing(Coalescing::Delay(Duration::from_micros(200)))
        .keepalive(secs(10), secs(30))
        .confirm(true)
        .mss(1000)
        .local_port(5000)
        .connect_timeout(secs(3))
        .close_timeout(secs(4))
        .no_progress(secs(7))
        .give_up(secs(8))
        .ack_delay(Duration::from_millis(2))
        .rto_init(Duration::from_millis(250))
        .accept_limit(9);
    assert_eq!(line.socket.options(Service::Datagram), expected);
}

#[test]
fn what_is_not_given_stays_at_the_default() {
    let line = parse(&[]).unwrap();
    let expected = Options::stream().connect_timeout(Duration::from_secs(10));
    assert_eq!(line.socket.options(Service::Stream), expected);
    assert!(line.node.bind.is_none() && line.node.fault.is_none());
}

#[test]
fn wrong_values_are_refused_with_what_would_be_accepted() {
    for (flag, part) in [
        ("--congestion=reno", "cubic, model, or fixed:PACKETS"),
        ("--congestion=fixed:0", "number of packets"),
        ("--coalescing=2ms", "at most 1ms"),
        ("--keepalive=10s", "10s/30s"),
        ("--keepalive=10s/15s", "twice the interval"),
        ("--message-bytes=4G", "1 to 2147483647 bytes"),
        ("--message-bytes=0", "1 to 2147483647 bytes"),
        ("--send-bytes=0", "a size such as 4M"),
        ("--receive-slots=0", "a whole number from 1 to"),
        ("--mss=100", "from 512 to 65507"),
        ("--node=0", "1 to 0xfffffe"),
        ("--link=eth0", "packet:INTERFACE"),
        ("--bind=nowhere", "give one such as 127.0.0.1:64064"),
        ("--bind=127.0.0.1", "such as 127.0.0.1:64064, or 127.0.0.1:0 for any"),
        ("--bind=::1", "such as [::1]:64064"),
        ("--fault=lose=1%", "one of loss"),
        ("--reach=10.1.0.0/99", "such as 10.1.0.0/16"),
        ("--connect-timeout=soon", "is not a duration"),
    ] {
        let refused = parse(&[flag]).err().unwrap();
        assert!(refused.contains(part), "{flag}: {refused}");
    }
}

#[test]
fn commands_ask_a_launcher_and_nodes_made_within_do_not() {
    use crate::net::LauncherChoice::{Auto, Off};
    assert_eq!(parse(&[]).unwrap().node.job.launcher, Auto);
    assert_eq!(NodeFlags::default().job.launcher, Off);
    let job = parse(&["--launcher=off", "--launcher-wait=2s", "--reach=10.1.0.0/16"]).unwrap().node.job;
    assert_eq!((job.launcher, job.launcher_wait), (Off, Duration::from_secs(2)));
    assert_eq!(job.reach.unwrap().to_string(), "10.1.0.0/16");
}

#[test]
fn the_other_end_is_named_by_host_address_and_node() {
    let port = Port::new(1064).unwrap();
    let host: Target = "127.0.0.1".parse().unwrap();
    let plain =
        parse(&[]).unwrap().peer.target(&host, port, &NodeFlags::default(), &Cluster::default()).unwrap();
    assert_eq!(plain.0, ("127.0.0.1:64064".parse::<SocketAddr>().unwrap(), port).into());
    let line = parse(&["--link=packet:eth0"]).unwrap();
    let by_name = line.peer.target(&host, port, &line.node, &Cluster::default()).unwrap_err().to_string();
    assert!(by_name.contains("no Ethernet address"), "{by_name}");
    let mac: Target = "02:00:00:00:00:2a".parse().unwrap();
    let at = line.peer.target(&mac, port, &line.node, &Cluster::default()).unwrap().1;
    assert_eq!(at, weft_link::Mac([2, 0, 0, 0, 0, 0x2A]).underlay());
    let other: Target = "nowhere.invalid:7".parse().unwrap();
    let peer = parse(&["--peer-underlay=127.0.0.1:9", "--peer-node=18"]).unwrap().peer;
    let address = Address { node: NodeId::new(18).unwrap(), port: Port::ECHO };
    let at: SocketAddr = "127.0.0.1:9".parse().unwrap();
    assert_eq!(
        peer.target(&other, port, &NodeFlags::default(), &Cluster::default()).unwrap(),
        ((address, at).into(), at)
    );
}
