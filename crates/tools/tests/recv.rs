//! `weft recv` with more senders than it serves at a time.

#[cfg(test)]
mod support;

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use support::{Server, World};
use weft_base::Port;
use weft_socket::{Node, Options, Stream};
use weft_tools::exit::Code;
use weft_tools::transfer::frame::{Frame, Reader, VERSION};

/// A sender of nothing, which never comes to its end.
#[cfg(test)]
fn begin(node: &Node, server: &Server) -> Stream {
    let there = server.underlay.parse::<SocketAddr>().unwrap();
    let options = Options::stream().recv_timeout(Duration::from_secs(60));
    let port = Port::new(u16::try_from(server.port).unwrap()).unwrap();
    let mut stream = Stream::try_from(node.connect((there, port), &options).unwrap()).unwrap();
    let mut words = Vec::new();
    Frame::Hello { version: VERSION }.write(&mut words).unwrap();
    Frame::ManifestEnd { entries: 0 }.write(&mut words).unwrap();
    stream.write_all(&words).unwrap();
    stream
}

#[test]
fn a_sender_too_many_hears_that_it_waits_and_one_more_is_refused() {
    let world = World::new();
    let to = world.to("");
    let server = Server::start(&["recv", to.to_str().unwrap(), "--port", "0", "--silence", "600s"]);
    let node_at = |host: &str| Node::builder().bind(format!("{host}:0").parse().unwrap()).open().unwrap();
    let (node, other) = (node_at("127.0.0.1"), node_at("127.0.0.2"));
    let running: Vec<_> = (0..15)
        .map(|_| {
            let stream = begin(&node, &server);
            assert_eq!(Reader::new(&stream).next_frame().unwrap(), Frame::PlanEnd);
            stream
        })
        .collect();
    let waiting: Vec<_> = (0..225).map(|_| begin(&node, &server)).collect();
    let mut busy = Vec::new();
    Frame::Busy.write(&mut busy).unwrap();
    for mut stream in &waiting {
        let mut first = vec![0; busy.len()];
        stream.read_exact(&mut first).unwrap();
        assert_eq!(first, busy);
    }
    let refused = begin(&node, &server);
    let Frame::Abort(failure) = Reader::new(&refused).next_frame().unwrap() else { panic!("it is taken") };
    assert_eq!(failure.code, Code::Protocol);
    assert_eq!(
        failure.to_string(),
        "240 transfers from this host run or wait already; repeat the command when some have ended"
    );
    // Another host has the last turn.
    let elsewhere = begin(&other, &server);
    assert_eq!(Reader::new(&elsewhere).next_frame().unwrap(), Frame::PlanEnd);
    // When those that run have gone the others come to their turn.
    drop(running);
    let mut last = waiting.into_iter().next().unwrap();
    let mut reader = Reader::new(&last);
    assert_eq!(reader.next_frame().unwrap(), Frame::PlanEnd);
    let digest = *blake3::hash(b"").as_bytes();
    let mut word = Vec::new();
    Frame::End { digest }.write(&mut word).unwrap();
    last.write_all(&word).unwrap();
    assert_eq!(Reader::new(&last).next_frame().unwrap(), Frame::Complete { digest });
}
