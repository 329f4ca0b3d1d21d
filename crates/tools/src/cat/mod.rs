//! `weft cat`: standard input and output over a connection.

mod input;
mod pump;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use weft_base::{Port, Service};
use weft_link::UnderlayText;
use weft_socket::{CloseResult, ConnectError, Listener, Options, Socket};

use crate::exit::{Code, Failure};
use crate::net::{self, ListenPort, LocalNode, NodeFlags, PeerFlags, Reached, Role, SocketFlags};
use crate::recv::Listening;
use crate::target::Target;
use crate::units::{parse_bytes, parse_duration, parse_wait};
use crate::{echo, say, signal};
use input::{Framing, Input};
use pump::Pump;

/// Connect standard input and output to another node
///
/// Connects to HOST, or waits for a connection with --listen. What standard input says goes there, what comes from there
/// goes to standard output. A connection ends in both directions at once: after the end of the input, `cat` waits until
/// the other end closes or has said nothing for a while (--wait). An input that is empty from the start only listens.
#[derive(clap::Args, Debug)]
#[command(group = clap::ArgGroup::new("where").required(true))]
pub struct Args {
    /// The other end: HOST or HOST:PORT (CDP port 7)
    #[arg(value_name = "HOST[:PORT]", group = "where")]
    target: Option<Target>,

    /// Wait for a connection on this CDP port or service of the cluster; 0 takes any
    #[arg(long, short, value_name = "PORT", group = "where")]
    listen: Option<ListenPort>,

    /// Datagram service: each line is a message, each message a line
    #[arg(long, short)]
    datagram: bool,

    /// With --datagram: messages are blocks of SIZE bytes instead of lines
    #[arg(long, value_name = "SIZE", requires = "datagram", value_parser = parse_block)]
    block: Option<usize>,

    /// Send back whatever comes, on any number of connections, until Ctrl-C
    #[arg(long, requires = "listen", conflicts_with = "target")]
    echo: bool,

    /// Listen again after a connection has ended
    #[arg(long, short, requires = "listen", conflicts_with = "target")]
    keep: bool,

    /// Silence of the other end after which to close, once the input has ended
    #[arg(long, short, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    wait: Duration,

    /// How long a send waits for room [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = parse_wait)]
    send_timeout: Option<Duration>,

    /// How long a receive waits for data [default: for ever]
    #[arg(long, value_name = "TIME", value_parser = parse_wait)]
    recv_timeout: Option<Duration>,

    /// Say on standard error who connected and how it ended
    #[arg(long, short)]
    verbose: bool,

    /// Say it as JSON lines, with the counters of the connection
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    peer: PeerFlags,
    #[command(flatten)]
    node: NodeFlags,
    #[command(flatten)]
    socket: SocketFlags,
}

/// Longest block, in bytes.
const BLOCK_BYTES_MAX: usize = 1 << 30;

fn parse_block(text: &str) -> Result<usize, String> {
    let bytes = usize::try_from(parse_bytes(text)?).ok();
    let bytes = bytes.filter(|bytes| (1..=BLOCK_BYTES_MAX).contains(bytes));
    bytes.ok_or_else(|| format!("{text:?} is no size of a block; give 1 to {BLOCK_BYTES_MAX} bytes"))
}

/// What standard error is told about connections.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event {
    Connected {
        peer: String,
        underlay: String,
    },
    Closed {
        peer: String,
        confirmed: bool,
        discarded_here: u32,
        discarded_by_peer: u32,
        undelivered: u64,
        stats: serde_json::Value,
    },
    Broken {
        peer: String,
        why: String,
        stats: serde_json::Value,
    },
    /// With --echo: a connection that is over, and why if not by a close.
    Echoed {
        peer: String,
        why: Option<String>,
        stats: serde_json::Value,
    },
}

impl Args {
    fn service(&self) -> Service {
        if self.datagram { Service::Datagram } else { Service::Stream }
    }

    fn options(&self) -> Options {
        let mut options = self.socket.options(self.service());
        if let Some(time) = self.send_timeout {
            options = options.send_timeout(time);
        }
        if let Some(time) = self.recv_timeout {
            options = options.recv_timeout(time);
        }
        options
    }

    fn framing(&self) -> Framing {
        match (self.datagram, self.block) {
            (false, _) => Framing::Stream,
            (true, None) => Framing::Lines,
            (true, Some(bytes)) => Framing::Blocks(bytes),
        }
    }

    fn tell(&self, event: &Event, text: &str) {
        if self.json {
            say::json_note(event);
        } else if self.verbose {
            say::note(text);
        }
    }
}

/// Runs the command.
///
/// # Errors
/// When there is no connection, or one breaks.
pub fn run(args: &Args) -> Result<(), Failure> {
    match (&args.target, &args.listen) {
        (Some(target), _) => connect(args, target),
        (None, Some(port)) => listen(args, port),
        (None, None) => Err(Failure::new(Code::Usage, "neither a host nor --listen", "give one of them")),
    }
}

fn connect(args: &Args, target: &Target) -> Result<(), Failure> {
    let Reached { local, peer, at } = net::reach(target, Port::ECHO, &args.peer, &args.node, "cat")?;
    local.shutdown_on_interrupt(|| {});
    let options = args.options();
    let socket = local.node.connect(peer, &options).map_err(|error| {
        if !matches!(error, ConnectError::WrongService { .. }) {
            let port = target.port.as_ref().map_or_else(|| Port::ECHO.to_string(), ToString::to_string);
            return net::no_server(&error, target, at, &format!("`weft cat --listen {port}`"));
        }
        let failure = net::connect_failure(&error);
        let next = if args.datagram { "leave --datagram out" } else { "give --datagram" };
        Failure { next: next.to_owned(), ..failure }
    })?;
    let result = converse(args, &socket, &Arc::new(Input::new(args.framing())));
    local.shutdown();
    result
}

fn listen(args: &Args, port: &ListenPort) -> Result<(), Failure> {
    let local = LocalNode::open(&args.node, Role::Server, "cat")?;
    local.shutdown_on_interrupt(|| {});
    let options = args.options();
    let listener =
        local.node.listen(local.port(port)?, &options).map_err(|error| net::listen_failure(&error))?;
    listener.set_accept_timeout(None);
    local.join()?;
    announce(args, &local, &listener);
    if args.echo || args.keep {
        signal::serves();
    }
    if args.echo {
        let (json, verbose) = (args.json, args.verbose);
        echo::serve(&listener, move |socket, result| {
            let why = result.err().map(|error| error.to_string());
            if json {
                say::json_note(&Event::Echoed {
                    peer: socket.peer_address().to_string(),
                    why,
                    stats: stats_of(socket),
                });
            } else if verbose {
                let why = why.as_deref().unwrap_or("closed");
                say::note(&format!("{}: {why}", UnderlayText(socket.peer_underlay())));
            }
        });
        return Ok(());
    }
    let input = Arc::new(Input::new(args.framing()));
    let mut result = Ok(());
    loop {
        let socket = listener.accept().map_err(|error| net::accept_failure(&error))?;
        if let Err(failure) = std::mem::replace(&mut result, converse(args, &socket, &input)) {
            say::failure(&failure);
        }
        if !args.keep {
            break;
        }
    }
    local.shutdown();
    result
}

fn announce(args: &Args, local: &LocalNode, listener: &Listener) {
    let listening = Listening::new(local, listener);
    if args.json {
        say::json_note(&listening);
    } else {
        say::note(&listening.text());
    }
}

/// Speaks over one connection until it ends, and says how.
fn converse(args: &Args, socket: &Socket, input: &Arc<Input>) -> Result<(), Failure> {
    let peer = socket.peer_address().to_string();
    let underlay = UnderlayText(socket.peer_underlay()).to_string();
    let connected = Event::Connected { peer: peer.clone(), underlay: underlay.clone() };
    args.tell(&connected, &format!("connected with {underlay}, node and port {peer}"));
    let pump = Arc::new(Pump::new(socket.clone(), input.clone(), args.wait));
    let (spoken, sender) = pump.run();
    let closed = socket.close();
    if args.keep
        && let Some(sender) = sender
    {
        // What it did not send is for the next connection.
        let _ = sender.join();
    }
    let stats = stats_of(socket);
    match (spoken, closed) {
        (Ok(()), Ok(result)) => {
            args.tell(&closed_event(&peer, &result, stats), &closed_text(&peer, &result));
            pump.loss(&result).map_or(Ok(()), Err)
        }
        (spoken, closed) => {
            let failure = match (spoken, closed) {
                (Err(failure), _) => failure,
                (Ok(()), Err(error)) => net::close_failure(&error),
                (Ok(()), Ok(_)) => return Ok(()),
            };
            if args.json {
                say::json_note(&Event::Broken { peer, why: failure.to_string(), stats });
            }
            Err(failure)
        }
    }
}

fn stats_of(socket: &Socket) -> serde_json::Value {
    serde_json::from_str(&socket.stats().to_json()).unwrap_or_default()
}

fn closed_event(peer: &str, result: &CloseResult, stats: serde_json::Value) -> Event {
    Event::Closed {
        peer: peer.to_owned(),
        confirmed: result.confirmed,
        discarded_here: result.discarded_here,
        discarded_by_peer: result.discarded_by_peer,
        undelivered: result.undelivered,
        stats,
    }
}

fn closed_text(peer: &str, result: &CloseResult) -> String {
    format!(
        "{peer} closed, {}; packets discarded: {} here, {} there, not delivered: {}",
        if result.confirmed { "confirmed" } else { "unconfirmed" },
        result.discarded_here,
        result.discarded_by_peer,
        result.undelivered
    )
}
