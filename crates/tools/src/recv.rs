//! `weft recv`: takes what `weft send` sends.

mod turns;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use weft_link::UnderlayText;
use weft_socket::{Listener, Socket, Stream};

use crate::exit::{Code, Failure};
use crate::net::{self, ListenPort, LocalNode, NodeFlags, Role, SocketFlags};
use crate::progress::{Progress, Style};
use crate::transfer::destination::Destination;
use crate::transfer::frame::Frame;
use crate::transfer::{self, receiver};
use crate::units::parse_wait;
use crate::{say, signal};
use turns::Turns;

/// How long to wait for the sender's close after the last word.
const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// Receive files and directories from `weft send`
///
/// Takes transfers until Ctrl-C. A file appears under its final name only when it is complete and its BLAKE3 digest is
/// right; until then it is NAME.weft-part, and a repeated transfer goes on from there. A directory that is not complete has a file .weft-part in it. A
/// file that exists and differs is refused.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Directory that files arrive in; it is made if only its last component is missing
    dir: PathBuf,

    /// End after one transfer
    #[arg(long)]
    once: bool,

    /// Let an arriving file take the place of another of its name
    #[arg(long)]
    overwrite: bool,

    /// CDP port to listen on, or a service of the cluster; 0 takes any
    #[arg(long, value_name = "PORT", default_value_t = ListenPort::number(net::TRANSFER_PORT))]
    port: ListenPort,

    /// Silence of the other end after which it is taken for dead; it says something every second
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = parse_wait)]
    silence: Duration,

    /// Print events as JSON lines to standard output
    #[arg(long)]
    pub(crate) json: bool,

    /// Print failures only
    #[arg(long, short)]
    quiet: bool,

    #[command(flatten)]
    node: NodeFlags,
    #[command(flatten)]
    socket: SocketFlags,
}

/// Where a listener listens, for scripts.
#[derive(Serialize)]
pub struct Listening {
    event: &'static str,
    underlay: String,
    #[serde(skip)]
    at: String,
    node: String,
    port: u16,
}

impl Listening {
    /// The place of `listener` on `local`.
    #[must_use]
    pub fn new(local: &LocalNode, listener: &Listener) -> Self {
        Self {
            event: "listening",
            underlay: UnderlayText(local.node.underlay()).to_string(),
            at: net::underlay_text(local.node.underlay()),
            node: local.node.id().to_string(),
            port: listener.local_address().port.get(),
        }
    }

    /// The same for people.
    #[must_use]
    pub fn text(&self) -> String {
        format!("listening on {}, node {}, port {}", self.at, self.node, self.port)
    }
}

/// Runs the command.
///
/// # Errors
/// Whatever keeps it from listening, and with `--once` whatever befell the transfer.
pub fn run(args: &Args) -> Result<(), Failure> {
    let style = &Style::choose(args.json, args.quiet);
    let made = fs::create_dir(&args.dir);
    let destination = Destination::open(&args.dir, args.overwrite).map_err(|failure| match made {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Failure::destination(&args.dir.to_string_lossy(), &error)
        }
        _ => failure,
    })?;
    let destination = Arc::new(destination);
    let local = LocalNode::open(&args.node, Role::Server, "recv")?;
    let options =
        args.socket.transfer_options().recv_timeout(args.silence).send_timeout(transfer::LOOK_INTERVAL);
    let listener =
        local.node.listen(local.port(&args.port)?, &options).map_err(|e| net::listen_failure(&e))?;
    listener.set_accept_timeout(None);
    local.shutdown_on_interrupt(|| {});
    local.join()?;
    announce(&Listening::new(&local, &listener), args, style);
    if args.once {
        let socket = listener.accept().map_err(|e| net::accept_failure(&e))?;
        let result = take(&socket, &destination, style, || ());
        local.shutdown();
        return result;
    }
    signal::serves();
    let turns = Arc::new(Turns::default());
    loop {
        let socket = listener.accept().map_err(|e| net::accept_failure(&e))?;
        let place = match Turns::place(&turns, socket.peer_underlay().ip()) {
            Ok(place) => place,
            Err(what) => {
                refuse(socket, Failure::new(Code::Protocol, what, "repeat the command when some have ended"));
                continue;
            }
        };
        let (destination, its_style, taken) = (destination.clone(), style.clone(), socket.clone());
        let transfer = move || match take(&taken, &destination, &its_style, || place.turn()) {
            Err(failure) if !signal::was_interrupted() => its_style.failure(&failure),
            Ok(()) | Err(_) => {}
        };
        if let Err(error) = thread::Builder::new().name("weft-recv".into()).spawn(transfer) {
            let failure = Failure::thread(&error);
            style.failure(&failure);
            refuse(socket, failure);
        }
    }
}

/// Tells a sender why nothing is taken from it.
fn refuse(socket: Socket, failure: Failure) {
    let Ok(stream) = Stream::try_from(socket) else { return };
    // If it does not hear it, it sees that the connection ends.
    let _ = Frame::Abort(failure).write(&mut &stream);
    stream.close_start();
}

fn announce(listening: &Listening, args: &Args, style: &Style) {
    if matches!(style, Style::Events) {
        say::event(listening);
    }
    style.note(&format!("{}; files go to {:?}", listening.text(), args.dir));
    if !args.once {
        style.note("Ctrl-C ends it");
    }
}

/// One transfer, from the first frame to the close; it waits for its `turn`.
fn take<T>(
    socket: &Socket,
    destination: &Destination,
    style: &Style,
    turn: impl FnOnce() -> T,
) -> Result<(), Failure> {
    let peer = UnderlayText(socket.peer_underlay()).to_string();
    let stream =
        Stream::try_from(socket.clone()).map_err(|error| Failure::new(Code::Other, error.to_string(), ""))?;
    let progress = Progress::new(style, &peer);
    let received = receiver::receive_in_turn(&stream, destination, &progress, turn);
    progress.clear();
    let result = received.map_err(|error| error.into_failure(&peer));
    if result.is_ok() {
        // The sender closes first, when it has read the last frame.
        stream.set_recv_timeout(Some(CLOSE_WAIT));
        let _ = stream.recv(&mut [0; 1]);
    }
    let _ = stream.close_timeout(CLOSE_WAIT);
    let report = result?;
    progress.conclude("received", &report);
    report.result("received")
}
