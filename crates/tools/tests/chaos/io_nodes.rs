//! The two I/O nodes between a survivor and its peer, as processes of the command `weft io-node`.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::case::After;
use crate::census::Census;
use crate::victim::die_with_parent;

/// The number of the survivor in its cluster.
pub(crate) const HERE: u32 = 1;
/// That of its peer.
pub(crate) const THERE: u32 = 2;
/// Networks that an I/O node is on.
const NETWORKS: usize = 2;

/// Both of them, and the cluster that they are in: the survivor is on one network, its peer on the other.
pub(crate) struct IoNodes {
    all: [IoNode; 2],
    /// Cluster files that differ in the default.
    files: [String; 2],
    pub(crate) peer_at: SocketAddr,
    /// The most that the memory of one grew by, in KiB.
    pub(crate) growth_kib: usize,
    _folder: tempfile::TempDir,
}

struct IoNode {
    name: &'static str,
    number: u32,
    at: [SocketAddr; NETWORKS],
    process: Option<Process>,
    /// What takes its packets and says nothing.
    silence: Option<[UdpSocket; NETWORKS]>,
}

struct Process {
    child: Child,
    said: BufReader<ChildStdout>,
    first: Census,
}

impl IoNodes {
    /// Starts two I/O nodes at places that nobody else has.
    pub(crate) fn start(lane: usize) -> Self {
        let at = |index| place(lane, index);
        let io_node = |name, number, first| IoNode {
            name,
            number,
            at: [at(first), at(first + 1)],
            process: None,
            silence: None,
        };
        let all = [io_node("io-a", 11, 2), io_node("io-b", 12, 4)];
        let folder = tempfile::tempdir().expect("a folder");
        let files = [0, 1].map(|default| {
            let path = folder.path().join(format!("{}.toml", all[default].name));
            std::fs::write(&path, cluster(&all, default, at(0), at(1))).expect("a file");
            path.to_str().expect("a plain path").to_owned()
        });
        let mut own = Self { all, files, peer_at: at(1), growth_kib: 0, _folder: folder };
        (0..own.all.len()).for_each(|which| own.restart(which));
        own
    }

    /// The path of the cluster file whose default is this I/O node.
    pub(crate) fn file(&self, default: usize) -> &str {
        &self.files[default]
    }

    /// Which of them has the number.
    pub(crate) fn position(&self, number: u32) -> usize {
        self.all.iter().position(|io_node| io_node.number == number).expect("one of them")
    }

    /// Kills one of them. Its UDP ports are free then, unless nobody is to say so.
    pub(crate) fn kill(&mut self, which: usize, after: After) {
        let io_node = &mut self.all[which];
        let mut process = io_node.process.take().expect("it lives");
        process.child.kill().expect("it lives");
        process.child.wait().expect("it is ours");
        let places = io_node.at.map(|at| UdpSocket::bind(at).expect("its port is free"));
        io_node.silence = (after == After::Darkness).then_some(places);
    }

    /// Starts those again that were killed.
    pub(crate) fn restart_killed(&mut self) {
        for which in 0..self.all.len() {
            if self.all[which].process.is_none() {
                self.restart(which);
            }
        }
    }

    pub(crate) fn restart(&mut self, which: usize) {
        let io_node = &mut self.all[which];
        io_node.silence = None;
        let stat_name = format!("chaos-{}-{}", std::process::id(), io_node.name);
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
        command
            .args(["io-node", "--cluster", &self.files[0], "--node", io_node.name, "--stat-name", &stat_name])
            .arg("--json")
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        // SAFETY: between fork and exec it makes one system call, without pointers.
        unsafe {
            command.pre_exec(|| {
                die_with_parent();
                Ok(())
            })
        };
        let mut child = command.spawn().expect("a process");
        let mut said = BufReader::new(child.stdout.take().expect("it was asked for"));
        assert_eq!(event(&mut said)["event"], "forwarding");
        let first = Census::of(child.id());
        io_node.process = Some(Process { child, said, first });
    }

    /// The process numbers of those that live.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let mut processes: Vec<u32> =
            self.all.iter().filter_map(|io_node| Some(io_node.process.as_ref()?.child.id())).collect();
        processes.sort_unstable();
        processes
    }

    /// Those that live hold what they held at first.
    pub(crate) fn expect_nothing_kept(&mut self) {
        for process in self.all.iter().filter_map(|io_node| io_node.process.as_ref()) {
            let growth = Census::of(process.child.id()).growth_since(process.first, NETWORKS);
            let growth = growth.unwrap_or_else(|why| panic!("an I/O node keeps something: {why}"));
            self.growth_kib = self.growth_kib.max(growth);
        }
    }

    /// Ends them in order. Nothing waits in their queues.
    pub(crate) fn end(mut self) {
        for io_node in &mut self.all {
            let mut process = io_node.process.take().expect("it lives");
            let id = libc::pid_t::try_from(process.child.id()).expect("a process number");
            // SAFETY: no pointers; the process is ours and has not been waited for.
            assert_eq!(unsafe { libc::kill(id, libc::SIGTERM) }, 0);
            let last = event(&mut process.said);
            let networks = last["node"]["networks"].as_array().expect("its networks");
            assert!(networks.iter().all(|network| network["queued"] == 0), "{last}");
            assert!(process.child.wait().expect("it is ours").success());
        }
    }
}

impl Drop for IoNodes {
    fn drop(&mut self) {
        for process in self.all.iter_mut().filter_map(|io_node| io_node.process.as_mut()) {
            // It may have ended by itself.
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

fn event(said: &mut BufReader<ChildStdout>) -> Value {
    let mut line = String::new();
    said.read_line(&mut line).expect("what the I/O node says");
    serde_json::from_str(&line).expect("a line of JSON")
}

fn cluster(io_nodes: &[IoNode; 2], default: usize, here: SocketAddr, there: SocketAddr) -> String {
    let ways = format!("io-nodes = [\"io-a\", \"io-b\"]\ndefault-io = \"{}\"", io_nodes[default].name);
    let mut text = format!(
        "networks = [\"lan\", \"mesh\"]\n\
         [[node]]\nnumber = {HERE}\nat = {{ lan = \"{here}\" }}\n{ways}\n\
         [[node]]\nnumber = {THERE}\nat = {{ mesh = \"{there}\" }}\n{ways}\n"
    );
    for IoNode { name, number, at: [near, far], .. } in io_nodes {
        text += &format!(
            "[[node]]\nname = \"{name}\"\nnumber = {number}\nkind = \"io\"\nat = {{ lan = \"{near}\", mesh = \"{far}\" }}\n"
        );
    }
    text
}

/// An address of the loopback interface that nobody else has: 0 for the survivor, 1 for its peer, then for the I/O nodes.
fn place(lane: usize, index: usize) -> SocketAddr {
    let [.., high, low] = std::os::unix::process::parent_id().to_be_bytes();
    let last = u8::try_from(lane * 6 + index + 1).expect("not so many lanes");
    (Ipv4Addr::new(127, 128 | high & 63, low, last), 64_064).into()
}
