//! `weft perf`: throughput between two nodes.

mod client;
mod memory;
mod protocol;
mod report;
mod server;
mod traffic;

use std::time::Duration;

use crate::exit::{Code, Failure};
use crate::net::{ListenPort, NodeFlags, PeerFlags, SocketFlags};
use crate::target::Target;
use crate::units::{parse_bytes, parse_wait};

pub use protocol::ConnectionResult;

/// Measure throughput to a `weft perf --server`
///
/// The server also offers the echo service for `weft ping`, on CDP port 7. Rates are of user data that arrived, in
/// decimal bits a second.
#[derive(clap::Args, Debug)]
#[command(group = clap::ArgGroup::new("role").required(true))]
pub struct Args {
    /// The server: HOST or HOST:PORT (CDP port 1066)
    #[arg(value_name = "HOST[:PORT]", group = "role")]
    target: Option<Target>,

    /// Serve tests until Ctrl-C
    #[arg(long, short = 's', group = "role")]
    server: bool,

    /// With --server: end after one test
    #[arg(long, requires = "server", conflicts_with = "target")]
    once: bool,

    /// CDP port of the server, or a service of the cluster; its datagram service is on the next port [default: 1066]
    #[arg(long, value_name = "PORT")]
    port: Option<ListenPort>,

    /// Measure the datagram service [default: stream]
    #[arg(long, short)]
    datagram: bool,

    /// Bytes of a message or write, 16M at most [default: 1444 for datagrams, 128K for streams]
    #[arg(long, short = 'l', value_name = "SIZE", value_parser = parse_bytes)]
    size: Option<u64>,

    /// How long to send
    #[arg(long, short, value_name = "TIME", default_value = "10s", value_parser = parse_wait)]
    time: Duration,

    /// How much to send over all connections, instead of a time
    #[arg(long, short = 'n', value_name = "SIZE", conflicts_with = "time", value_parser = parse_some)]
    bytes: Option<u64>,

    /// Connections at the same time, 128 at most
    #[arg(long, short = 'P', value_name = "N", default_value_t = 1)]
    parallel: u32,

    /// Lend what is sent to the transport and take what arrives where it lies, without copies
    #[arg(long, short = 'Z')]
    zerocopy: bool,

    /// The server sends, the client receives
    #[arg(long, short = 'R', conflicts_with = "bidir")]
    reverse: bool,

    /// Both send at the same time
    #[arg(long)]
    bidir: bool,

    /// Time between two lines
    #[arg(long, short, value_name = "TIME", default_value = "1s", value_parser = parse_wait)]
    interval: Duration,

    /// Print one JSON object with everything at the end; a server prints one a test
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    peer: PeerFlags,
    #[command(flatten)]
    node: NodeFlags,
    #[command(flatten)]
    socket: SocketFlags,
}

fn parse_some(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        0 => Err(format!("{text:?} is nothing to send; give a size such as 1G")),
        bytes => Ok(bytes),
    }
}

/// Runs the command.
///
/// # Errors
/// When there is no server, or a test breaks off.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.target {
        Some(target) => client::run(args, target),
        None if args.server => server::run(args),
        None => Err(Failure::new(Code::Usage, "neither a host nor --server", "give one of them")),
    }
}
