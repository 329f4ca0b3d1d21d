//! `weft demo --io-nodes`: a file crosses from one network to another while the I/O node that carries it is killed.
//!
//! ```text
//!            lan                      mesh
//!   host-1 ───┬──────── io-1 ──────────┬─── compute-1
//!   host-2 ───┴──────── io-2 ──────────┴─── compute-2
//! ```
//!
//! Every node is a process of its own in a network namespace of its own, started with the commands that users have.

mod command;
mod leftovers;
mod outcome;
mod testbed;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use weft_socket::stat;

use super::Args;
use crate::exit::{Code, Failure};
use crate::{say, transfer, units};
use command::Running;
use outcome::{Arrived, Kill, Outcome, Transferred};
use testbed::{PAIRS, Role, Testbed};

/// Bytes of the file that is made where none was given.
const FILE_BYTES: u64 = 512 << 20;
/// The same where many kills are asked for.
const SHORT_FILE_BYTES: u64 = 128 << 20;
/// How long any step may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a file is sent for one kill.
const TRIES_MAX: usize = 5;
/// How often an I/O node that was left is probed here: the default of five seconds is for users with more time.
const IO_PROBE: &str = "50ms";
/// Pause between two looks at a node's counters: not shorter, as the node answers with the processor time of its transfer.
const LOOK: Duration = Duration::from_millis(4);

/// Runs the demonstration.
///
/// # Errors
/// Where namespaces cannot be made, or a file does not arrive as it was.
pub(super) fn run(args: &Args, io_nodes: u32) -> Result<(), Failure> {
    let testbed = Testbed::make(io_nodes)?;
    std::fs::create_dir_all(&args.out)
        .map_err(|error| Failure::destination(&args.out.to_string_lossy(), &error))?;
    let mut demo = Demo::new(args, testbed)?;
    demo.note(&format!(
        "{PAIRS} hosts on one network, {PAIRS} compute nodes on another, {io_nodes} I/O nodes on both; each a process in \
         its own network namespace"
    ));
    let mut outcome = Outcome::default();
    let (calm, others) = demo.round(None)?;
    demo.note(&format!("without a crash: {}", outcome.take(calm)));
    outcome.take_all(others);
    for number in 1..=args.kills {
        let kill = demo.round_with_kill(number, &mut outcome)?;
        outcome.kills.push(kill);
    }
    if args.json {
        say::json(&outcome.json());
    } else {
        outcome.lines().iter().for_each(|line| say::line(line));
    }
    outcome.failures.into_iter().next().map_or(Ok(()), Err)
}

/// The running testbed.
struct Demo {
    is_quiet: bool,
    testbed: Testbed,
    program: String,
    out: PathBuf,
    cluster: PathBuf,
    file: PathBuf,
    io_nodes: Vec<(Role, Option<Running>)>,
    receivers: Vec<Running>,
    /// How long a transfer takes that nothing befalls.
    usual: Duration,
}

impl Demo {
    fn new(args: &Args, testbed: Testbed) -> Result<Self, Failure> {
        let cluster = args.out.join("cluster.toml");
        super::write(&cluster, &testbed.cluster_file())?;
        let program =
            std::env::current_exe().map_err(|error| Failure::source("the program itself", &error))?;
        let file = args.file.clone().unwrap_or_else(|| args.out.join("demo-file"));
        if args.file.is_none() {
            testbed.lend(file.clone())?;
            make_file(&file, if args.kills > 1 { SHORT_FILE_BYTES } else { FILE_BYTES })?;
        }
        let mut demo = Self {
            is_quiet: args.json,
            io_nodes: testbed
                .roles()
                .into_iter()
                .filter(|role| matches!(role, Role::Io(_)))
                .map(|io| (io, None))
                .collect(),
            testbed,
            program: program.to_string_lossy().into_owned(),
            out: args.out.clone(),
            cluster,
            file,
            receivers: Vec::new(),
            usual: Duration::ZERO,
        };
        for index in 0..demo.io_nodes.len() {
            demo.start_io_node(index)?;
        }
        for pair in 1..=PAIRS {
            let dir = args.out.join(Role::Compute(pair).name());
            let arguments = ["--overwrite".to_owned(), dir.to_string_lossy().into_owned()];
            std::fs::create_dir_all(&dir)
                .map_err(|error| Failure::destination(&dir.to_string_lossy(), &error))?;
            let mut receiver = demo.start("recv", Role::Compute(pair), &arguments)?;
            receiver.wait_for("listening", PATIENCE)?;
            demo.receivers.push(receiver);
        }
        Ok(demo)
    }

    fn note(&self, text: &str) {
        if !self.is_quiet {
            say::line(text);
        }
    }

    /// `weft COMMAND` as the node of `role`.
    fn start(&self, command: &str, role: Role, arguments: &[String]) -> Result<Running, Failure> {
        let mut all = vec![command.to_owned(), "--json".to_owned()];
        all.push(format!("--cluster={}", self.cluster.display()));
        all.push(format!("--node={}", role.name()));
        all.push(format!("--stat-name={}", stat_name(role)));
        if command != "io-node" {
            all.push(format!("--io-probe={IO_PROBE}"));
        }
        all.extend_from_slice(arguments);
        Running::start(&role.name(), &mut self.testbed.command(role, &self.program, &all))
    }

    fn start_io_node(&mut self, index: usize) -> Result<(), Failure> {
        let role = self.io_nodes[index].0;
        let mut running = self.start("io-node", role, &[])?;
        running.wait_for("forwarding", PATIENCE)?;
        self.io_nodes[index].1 = Some(running);
        Ok(())
    }

    /// A round with a kill; what became of its files goes to `outcome`.
    fn round_with_kill(&mut self, number: u32, outcome: &mut Outcome) -> Result<Kill, Failure> {
        for _ in 0..TRIES_MAX {
            let mut kill = Kill::default();
            let (first, _) = self.round(Some(&mut kill))?;
            if let Ok(arrived) = &first {
                kill.find_stall(arrived);
            }
            let text = outcome.take(first);
            if kill.is_done() {
                self.note(&format!("kill {number}: {}; {text}", kill.text()));
                return Ok(kill);
            }
            self.note("the file was there before the kill; again");
        }
        let what = format!("the file crossed {TRIES_MAX} times before anything could be killed");
        Err(Failure::new(Code::NoEngine, what, "give a longer file, so that the transfer lasts"))
    }

    /// Sends the file from each host to its compute node; or, if `kill` is given, from the first, whose default I/O node is
    /// killed on the way: alone, for another transfer would take the processors by which the stall is measured. What became of the first pair's file, and of the others'.
    fn round(&mut self, kill: Option<&mut Kill>) -> Result<(Transferred, Vec<Transferred>), Failure> {
        let mut senders = Vec::new();
        let pairs = if kill.is_some() { 1 } else { PAIRS };
        for pair in 1..=pairs {
            // What is there already would not be sent again.
            let arrived =
                self.out.join(Role::Compute(pair).name()).join(self.file.file_name().unwrap_or_default());
            let _ = std::fs::remove_file(arrived);
            let arguments = [self.file.to_string_lossy().into_owned(), Role::Compute(pair).name()];
            senders.push(self.start("send", Role::Host(pair), &arguments)?);
        }
        for sender in &mut senders {
            sender.wait_for("planned", PATIENCE)?;
        }
        let begin = Instant::now();
        if let Some(kill) = kill {
            thread::sleep(self.usual / 3);
            self.kill_default(kill)?;
        }
        let ends = senders.iter_mut().zip(&mut self.receivers);
        let mut transferred =
            ends.map(|(sender, receiver)| finish(sender, receiver)).collect::<Vec<_>>().into_iter();
        let took = begin.elapsed();
        self.usual = if self.usual.is_zero() { took / pairs } else { took.min(self.usual) };
        let first = transferred.next().ok_or_else(|| Failure::new(Code::Other, "no host sends", ""))?;
        Ok((first, transferred.collect()))
    }

    /// Kills the I/O node that the first host uses, waits until the host has left it, and starts it again. Does nothing if the
    /// host has sent all already.
    fn kill_default(&mut self, kill: &mut Kill) -> Result<(), Failure> {
        let name = stat_name(Role::Host(1));
        let Ok(before) = look(&name) else { return Ok(()) };
        let index = default_of(&before).ok_or_else(|| no_side(&name))?;
        kill.rto = Duration::from_nanos(before["connections"][0]["rto_ns"].as_u64().unwrap_or(0));
        (kill.at, kill.left) = (transfer::now(), self.io_nodes[index].0.name());
        if let Some(running) = self.io_nodes[index].1.take() {
            running.kill();
        }
        let after = wait_until(&name, |stats| default_of(stats).is_some_and(|default| default != index))?;
        kill.switched_after = transfer::now().saturating_sub(kill.at);
        if let Some(next) = after.as_ref().and_then(default_of) {
            kill.taken = self.io_nodes[next].0.name();
        }
        self.start_io_node(index)?;
        let again = Instant::now();
        let back = wait_until(&name, |stats| default_of(stats) == Some(index))?;
        kill.back_after = back.map(|_| again.elapsed());
        Ok(())
    }
}

/// Waits for the ends of a transfer, and compares what they say.
fn finish(sender: &mut Running, receiver: &mut Running) -> Transferred {
    let sent = sender.wait_for("done", PATIENCE)?;
    let received = receiver.wait_for("done", PATIENCE)?;
    if sent["blake3"] != received["blake3"] {
        return Err(Failure::new(Code::Digest, "the digests of the two ends differ", "run it again"));
    }
    Ok(Arrived::new(&received))
}

fn stat_name(role: Role) -> String {
    format!("demo-{}-{}", std::process::id(), role.name())
}

/// The index of the default among the I/O nodes that a node uses.
fn default_of(stats: &Value) -> Option<usize> {
    stats["sides"][0]["io_nodes"].as_array()?.iter().position(|io_node| io_node["default"] == true)
}

fn no_side(name: &str) -> Failure {
    Failure::new(Code::Other, format!("{name} uses no I/O node"), "look at it with `weft stat`")
}

fn look(name: &str) -> Result<Value, Failure> {
    let text = stat::query(name).map_err(|error| {
        let what = format!("{name} does not answer: {}", crate::exit::cause(&error));
        Failure::new(Code::NoEngine, what, "give a longer file, so that the transfer lasts")
    })?;
    serde_json::from_str(&text).map_err(|error| Failure::new(Code::Protocol, error.to_string(), ""))
}

/// The counters of a node once they are as wanted; `None` if it ends before.
fn wait_until(name: &str, is_wanted: impl Fn(&Value) -> bool) -> Result<Option<Value>, Failure> {
    let deadline = Instant::now() + PATIENCE;
    while let Ok(stats) = look(name) {
        if is_wanted(&stats) {
            return Ok(Some(stats));
        }
        if Instant::now() > deadline {
            let what = format!("{name} did not change its I/O node within {}", units::duration(PATIENCE));
            return Err(Failure::new(Code::NoAnswer, what, "look at it with `weft stat`"));
        }
        thread::sleep(LOOK);
    }
    Ok(None)
}

/// A file that does not compress, for the demonstration alone.
fn make_file(path: &Path, bytes: u64) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::destination(&path.to_string_lossy(), &error);
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).map_err(failed)?);
    let mut content = blake3::Hasher::new().finalize_xof();
    let mut piece = vec![0; 1 << 20];
    for _ in 0..bytes >> 20 {
        content.fill(&mut piece);
        out.write_all(&piece).map_err(failed)?;
    }
    out.flush().map_err(failed)
}
