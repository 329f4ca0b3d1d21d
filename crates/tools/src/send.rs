//! `weft send`: files and directories to a `weft recv`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use weft_base::Port;
use weft_socket::Stream;

use crate::exit::{Code, Failure};
use crate::net::{self, NodeFlags, PeerFlags, Reached, SocketFlags};
use crate::progress::{Progress, Style};
use crate::target::Target;
use crate::transfer::manifest::{Links, Manifest};
use crate::transfer::{self, sender};
use crate::units::{self, parse_wait};

/// How long to wait for the end of a connection on which everything has been confirmed.
const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// Send files and directories to a `weft recv`
///
/// Each file is checked by a BLAKE3 digest and appears under its final name only when it is complete. An interrupted
/// transfer goes on where it stopped when the command is repeated. Permissions and times are kept.
#[derive(clap::Args, Debug)]
#[command(override_usage = "weft send [OPTIONS] <PATH>... <HOST[:PORT]>")]
pub struct Args {
    /// Files and directories, and last the receiver: HOST or HOST:PORT (CDP port 1064)
    // One list, as options may stand between them.
    #[arg(required = true, value_name = "PATH")]
    what: Vec<OsString>,

    /// What to do with symbolic links inside directories
    #[arg(long, value_enum, default_value_t = Links::Keep)]
    links: Links,

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
    peer: PeerFlags,
    #[command(flatten)]
    node: NodeFlags,
    #[command(flatten)]
    socket: SocketFlags,
}

impl Args {
    /// What is sent, and to whom.
    fn split(&self) -> Result<(Vec<PathBuf>, Target), Failure> {
        let next = "give what to send, and last the receiver: weft send <PATH>... <HOST[:PORT]>";
        let [paths @ .., target] = self.what.as_slice() else {
            return Err(Failure::new(Code::Usage, "nothing is to be sent", next));
        };
        if paths.is_empty() {
            let what = format!("{} is either the receiver or what to send, not both", target.display());
            return Err(Failure::new(Code::Usage, what, next));
        }
        let target = target.to_string_lossy().parse::<Target>();
        let target = target.map_err(|error| Failure::new(Code::Usage, error.to_string(), next))?;
        Ok((paths.iter().map(PathBuf::from).collect(), target))
    }
}

/// Runs the command.
///
/// # Errors
/// Everything that keeps one of the files from arriving.
pub fn run(args: &Args) -> Result<(), Failure> {
    let style = &Style::choose(args.json, args.quiet);
    let (paths, target) = args.split()?;
    let (paths, target) = (&paths, &target);
    let manifest = Manifest::collect(paths, args.links)?;
    for skipped in &manifest.skipped {
        style.note(&format!("weft: {skipped}"));
    }
    let port = Port::new(net::TRANSFER_PORT).unwrap_or(Port::ECHO);
    let Reached { local, peer, at } = net::reach(target, port, &args.peer, &args.node, "send")?;
    let goes_on = "interrupted; repeat the command and it goes on where it stopped";
    local.shutdown_on_interrupt(move || crate::say::note(goes_on));
    let socket = local
        .node
        .connect(
            peer,
            &args.socket.transfer_options().recv_timeout(args.silence).send_timeout(transfer::LOOK_INTERVAL),
        )
        .map_err(|error| net::no_server(&error, target, at, &net::listens("weft recv DIR", target)))?;
    style.note(&format!(
        "sending {}, {} to {target}",
        units::files(manifest.files()),
        units::bytes(manifest.bytes())
    ));
    let stream = Stream::try_from(socket).map_err(|e| Failure::new(Code::Other, e.to_string(), ""))?;
    let progress = Progress::new(style, "");
    let sent = sender::send(&stream, &manifest, &progress);
    progress.clear();
    let report = sent.map_err(|error| error.into_failure(&target.to_string()))?;
    // Everything was confirmed by the receiver itself; the close adds nothing that could matter.
    let _ = stream.close_timeout(CLOSE_WAIT);
    local.shutdown();
    progress.conclude("sent", &report);
    report.result("sent")
}
