//! The work of one packet by the calls of two sockets, without a kernel, to be counted in instructions: `calls COUNT`.
//!
//! What `packets ping` leaves out is in it: the sockets' calls, the engine's turns, locks and look-ups. Two nodes of one
//! process with a link between them that is a copy, and one thread that is the user of both, so that nobody waits.
//! `cargo xtask instructions` counts it.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use weft_base::Port;
use weft_bench::tube::Tube;
use weft_socket::{Node, Options, Target};

/// Sends a message of 64 bytes from one node to another and back, 50 times over, and prints how many packets that were.
#[derive(Parser)]
struct Arguments {
    /// How often to do so.
    count: u64,
}

const ROUND_TRIPS: u64 = 50;
const MESSAGE_BYTES: usize = 64;
const PORT: u16 = 7_000;
/// Addresses of a network that nobody has.
const NODES: [&str; 2] = ["127.79.0.1:1", "127.79.0.2:1"];

fn main() -> ExitCode {
    match run(Arguments::parse().count * ROUND_TRIPS) {
        Ok(packets) => {
            println!("{packets}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("calls: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(round_trips: u64) -> Result<u64, Box<dyn Error>> {
    let [here, there] = NODES;
    let (here, there) = (here.parse()?, there.parse()?);
    let (left, right) = Tube::pair(here, there);
    let (left, right) = (Node::builder().link(Arc::new(left)), Node::builder().link(Arc::new(right)));
    let (left, right) = (left.open()?, right.open()?);
    let options = Options::datagram();
    let listener = right.listen(PORT, &options)?;
    let target = Target::Underlay { at: there, port: Port::new(PORT).ok_or("no port")? };
    let client = left.connect_start(target, &options)?;
    let server = listener.accept()?;
    let (message, mut buffer) = ([0xA5; MESSAGE_BYTES], [0; MESSAGE_BYTES]);
    let mut packets = 0;
    for _ in 0..round_trips {
        for (from, to) in [(&client, &server), (&server, &client)] {
            from.send(&message)?;
            packets += u64::from(to.recv(&mut buffer)? == message.len());
        }
    }
    Ok(packets)
}
