//! `weft demo`: the whole of it on one machine, in one minute.

mod file;
mod io_nodes;
mod measure;
pub mod peer;
pub(crate) mod points;
mod process;
mod rivals;

use std::fs;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use weft_link::Faults;
use weft_socket::CongestionControl;

use crate::exit::{Code, Failure};
use crate::net::{self, LocalNode, NodeFlags, Role, SocketFlags};
use crate::transfer::manifest::{Links, Manifest};
use crate::transfer::name::PART_SUFFIX;
use crate::{plot, say, units};
use file::{Transfer, transfer};
use measure::{Lines, QUICK_SIZES, SIZES, Schedule};
use points::Points;
use process::Peer;

/// The demonstration shall not take longer. A round of measuring takes less than half of it.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Show Weft at work: a file through a bad network, then CDP beside TCP and UDP
///
/// Starts a second process on this machine. A real file goes there over a link that loses, duplicates and reorders
/// packets, and arrives with the right digest. Then CDP, kernel TCP and kernel UDP take turns on a clean link, for messages
/// of 1 to 1472 bytes and for bulk. Writes a plot and a CSV. Takes less than a minute.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// File or directory to send [default: this program itself]
    file: Option<PathBuf>,

    /// What the link does to packets, in both directions
    #[arg(long, value_name = "LIST", default_value = "loss=1%,duplicate=1%,reorder=1%/8")]
    fault: FaultList,

    /// Seed of the faults
    #[arg(long, value_name = "N", default_value_t = 1)]
    fault_seed: u64,

    /// Directory for what arrives, the plot and the CSV
    #[arg(long, value_name = "DIR", default_value = "weft-demo")]
    out: PathBuf,

    /// Measure less: three sizes, one short window each
    #[arg(long)]
    quick: bool,

    /// Only send the file, measure nothing
    #[arg(long)]
    no_measure: bool,

    /// Print the result as one JSON object
    #[arg(long)]
    pub(crate) json: bool,

    /// Instead: a file from one network to another, while the I/O node that carries it is killed
    ///
    /// Makes two networks of network namespaces, with N I/O nodes between, and needs root. Without FILE it makes one of 512 MiB in --out, where what arrived
    /// stays too.
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "2", value_parser = clap::value_parser!(u32).range(2..=9))]
    io_nodes: Option<u32>,

    /// How often the I/O node is killed, each time in a transfer of its own
    #[arg(long, value_name = "N", default_value_t = 1, requires = "io_nodes")]
    kills: u32,

    /// CDP's congestion control: cubic, model, or fixed:PACKETS [default: cubic]
    #[arg(long, value_name = "NAME", value_parser = net::parse_congestion)]
    congestion: Option<CongestionControl>,
}

impl Args {
    fn socket(&self) -> SocketFlags {
        SocketFlags {
            congestion: self.congestion,
            connect_timeout: Duration::from_secs(10),
            ..SocketFlags::default()
        }
    }
}

/// Faults, and how the user wrote them: the second process is given the same words.
#[derive(Clone, Debug)]
struct FaultList {
    text: String,
    faults: Faults,
}

impl FromStr for FaultList {
    type Err = weft_link::ParseFaultsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self { text: text.to_owned(), faults: text.parse()? })
    }
}

/// The result, for scripts.
#[derive(Serialize)]
struct Outcome<'a> {
    file: FileOutcome<'a>,
    windows: &'a [points::Window],
    ratios: Vec<Ratio>,
    csv: Option<&'a Path>,
    svg: Option<&'a Path>,
}

#[derive(Serialize)]
struct FileOutcome<'a> {
    path: &'a Path,
    files: u64,
    bytes: u64,
    seconds: f64,
    blake3: &'a str,
    packets: u64,
    lost: u64,
    duplicated: u64,
    reordered: u64,
    damaged: u64,
    retransmitted: u64,
}

#[derive(Serialize)]
struct Ratio {
    message: String,
    to_tcp: Option<points::Spread>,
    to_udp: Option<points::Spread>,
}

/// Runs the command.
///
/// # Errors
/// When the file does not arrive as it was, or a figure cannot be had.
pub fn run(args: &Args) -> Result<(), Failure> {
    if let Some(io_nodes) = args.io_nodes {
        return io_nodes::run(args, io_nodes);
    }
    let started_at = Instant::now();
    let source = match &args.file {
        Some(path) => path.clone(),
        None => std::env::current_exe().map_err(|error| Failure::source("the program itself", &error))?,
    };
    // What else could be done about it, flags of `weft send` would say.
    let another = |failure| Failure { next: "give another file or directory".to_owned(), ..failure };
    let manifest = Manifest::collect(std::slice::from_ref(&source), Links::Keep).map_err(another)?;
    let received_dir = args.out.join("received");
    prepare(&received_dir, &manifest)?;
    let mut peer = Peer::start(&peer_arguments(args, &received_dir))?;

    let transfer = transfer(args, &manifest, &mut peer)?;
    let received = received_dir.join(name_of(&manifest));
    if !args.json {
        transfer.lines(&received).iter().for_each(|line| say::line(line));
    }
    if args.no_measure {
        if args.json {
            say::json(&outcome(&received, &transfer, &Points::default(), None));
        }
        return Ok(());
    }
    let points = measured(args, &mut peer, started_at)?;
    drop(peer);
    let paths = (args.out.join("throughput.csv"), args.out.join("throughput.svg"));
    write(&paths.0, &points.csv())?;
    let svg =
        plot::throughput(&points).map_err(|why| Failure::new(Code::Other, why, "the CSV has the figures"))?;
    write(&paths.1, &svg)?;
    if args.json {
        say::json(&outcome(&received, &transfer, &points, Some((paths.0.as_path(), paths.1.as_path()))));
        return Ok(());
    }
    say::line("");
    points.table().lines().iter().for_each(|line| say::line(line));
    say::line(&points.remark());
    say::line("");
    say::line(&format!("plot     {}", paths.1.display()));
    say::line(&format!("figures  {}", paths.0.display()));
    say::line(&points.summary());
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| Failure::destination(&path.to_string_lossy(), &error))
}

/// The one name at the top of the manifest.
fn name_of(manifest: &Manifest) -> String {
    manifest.sources.first().map(|source| source.entry.label()).unwrap_or_default()
}

/// Makes the directory, and clears away what an earlier demonstration left of the same file.
fn prepare(received_dir: &Path, manifest: &Manifest) -> Result<(), Failure> {
    let failed = |path: &Path, error: &std::io::Error| Failure::destination(&path.to_string_lossy(), error);
    fs::create_dir_all(received_dir).map_err(|error| failed(received_dir, &error))?;
    for source in &manifest.sources {
        let path = received_dir.join(source.entry.label());
        let mut part = path.clone().into_os_string();
        part.push(PART_SUFFIX);
        for path in [path, PathBuf::from(part)] {
            match fs::symlink_metadata(&path) {
                Ok(found) if !found.is_dir() => {
                    fs::remove_file(&path).map_err(|error| failed(&path, &error))?;
                }
                _ => {}
            }
        }
    }
    Ok(())
}

fn peer_arguments(args: &Args, received_dir: &Path) -> Vec<String> {
    vec![
        received_dir.to_string_lossy().into_owned(),
        "--bind=127.0.0.1:0".to_owned(),
        "--launcher=off".to_owned(),
        "--cluster=none".to_owned(),
        format!("--fault={}", args.fault.text),
        format!("--fault-seed={}", args.fault_seed.wrapping_add(1)),
    ]
}

/// Waits for every window in turn and shows how far it is.
fn measured(args: &Args, peer: &mut Peer, started_at: Instant) -> Result<Points, Failure> {
    let (millis, rounds, sizes) =
        if args.quick { (60, 1, QUICK_SIZES.to_vec()) } else { (120, 5, SIZES.to_vec()) };
    let no_round_after = started_at + TIME_MAX / 2;
    let schedule = Schedule { window: Duration::from_millis(millis), rounds, no_round_after, sizes };
    let flags = NodeFlags { bind: Some(([127, 0, 0, 1], 0).into()), ..NodeFlags::default() };
    let local = LocalNode::open(&flags, Role::Server, "demo-load")?;
    let mut lines = Lines::open(&local.node, &peer.places, &args.socket())?;
    let bar = bar(args, schedule.windows());
    if !args.json {
        say::line(&format!(
            "\nmeasuring over the loopback interface: CDP (packets of {} B), kernel TCP ({}), kernel UDP, in turns of {}",
            lines.mss,
            lines.tcp_control,
            units::duration(schedule.window)
        ));
    }
    let points = measure::measure(&mut lines, peer, &schedule, |window| {
        bar.set_message(format!(
            "{} {}: {}",
            window.contender.name(),
            window.load.label(),
            units::bit_rate(window.mbit_per_second * 1e6)
        ));
        bar.inc(1);
    })?;
    bar.finish_and_clear();
    drop(lines);
    local.shutdown();
    Ok(points)
}

fn bar(args: &Args, windows: u64) -> ProgressBar {
    if args.json || !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len}  {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(windows).with_style(style.progress_chars("━╸─"))
}

fn outcome<'a>(
    path: &'a Path,
    transfer: &'a Transfer,
    points: &'a Points,
    paths: Option<(&'a Path, &'a Path)>,
) -> Outcome<'a> {
    use points::Contender;
    let ratios = points.loads().into_iter().map(|load| Ratio {
        message: load.label(),
        to_tcp: points.ratio(Contender::Tcp, load),
        to_udp: points.ratio(Contender::Udp, load),
    });
    Outcome {
        file: FileOutcome {
            path,
            files: transfer.report.files,
            bytes: transfer.report.bytes,
            seconds: transfer.elapsed.as_secs_f64(),
            blake3: &transfer.report.digest,
            packets: transfer.damage.packets,
            lost: transfer.damage.lost,
            duplicated: transfer.damage.duplicated,
            reordered: transfer.damage.reordered,
            damaged: transfer.damage.damaged,
            retransmitted: transfer.retransmitted,
        },
        windows: &points.windows,
        ratios: ratios.collect(),
        csv: paths.map(|(csv, _)| csv),
        svg: paths.map(|(_, svg)| svg),
    }
}
