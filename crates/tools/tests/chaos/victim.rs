//! A process beside the survivor: its peer, which is killed, or is told of the loss of the I/O nodes between them.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weft_socket::{Address, NodeId, Options, Port, Service};

use crate::operation::PATIENCE;
use crate::times::Times;

/// What the process does with its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    /// Nothing listens; the place is only taken again.
    Absent,
    /// Does nothing until it is told to, and reads then.
    Hold,
    /// Reads whatever comes.
    Read,
    /// Writes until it is told that this is enough, and closes then.
    Write,
    /// Closes at once.
    Close,
    /// Sends back what it reads.
    Echo,
    /// Begins to connect and hears nothing until it is told to; sends back what it reads then.
    Mute,
}

const ACTS: [(Act, &str); 7] = [
    (Act::Absent, "absent"),
    (Act::Hold, "hold"),
    (Act::Read, "read"),
    (Act::Write, "write"),
    (Act::Close, "close"),
    (Act::Echo, "echo"),
    (Act::Mute, "mute"),
];

/// What a process is to be.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) bind: SocketAddr,
    pub(crate) act: Act,
    pub(crate) service: Service,
    pub(crate) confirm: bool,
    pub(crate) times: Times,
    /// Its number, where its peer calls it by that.
    pub(crate) node: Option<NodeId>,
    /// The path of a cluster file, if it is to be one of its nodes.
    pub(crate) cluster: Option<String>,
    /// Where it connects to, at which place if no cluster says so, and from which port; it listens if this is not given.
    pub(crate) connect: Option<(Address, Option<SocketAddr>, u16)>,
}

/// The port that a process which listens listens on.
pub(crate) const PORT: Port = Port::ECHO;
/// What stands for nothing among the words of a part.
const NONE: &str = "-";

/// A running process; it is killed when this goes.
pub(crate) struct Victim {
    child: Child,
    said: mpsc::Receiver<(String, Instant)>,
    follower: Option<JoinHandle<()>>,
}

impl Victim {
    /// Starts a process and waits until it is ready.
    pub(crate) fn start(part: &Part) -> Self {
        let own = std::env::current_exe().expect("the path of this program");
        let mut child = Command::new(own)
            .arg("victim")
            .args(part.to_words())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let lines = BufReader::new(child.stdout.take().expect("it was asked for")).lines();
        let (sender, said) = mpsc::channel();
        let follower = thread::spawn(move || {
            let stamped = lines.map_while(Result::ok).map(|line| (line, Instant::now()));
            stamped.for_each(|line| sender.send(line).unwrap_or(()));
        });
        let victim = Self { child, said, follower: Some(follower) };
        assert_eq!(victim.line(PATIENCE).0, "ready", "{part:?}");
        victim
    }

    /// The next line that it says, and when it came; empty if it says no more.
    pub(crate) fn line(&self, limit: Duration) -> (String, Instant) {
        match self.said.recv_timeout(limit) {
            Ok(line) => line,
            Err(mpsc::RecvTimeoutError::Disconnected) => (String::new(), Instant::now()),
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("it said nothing for {limit:?}"),
        }
    }

    /// Tells it to go on with its act.
    pub(crate) fn tell(&mut self) {
        let stdin = self.child.stdin.as_mut().expect("it was asked for");
        stdin.write_all(b"go\n").expect("it listens");
    }

    /// Stops the process, all its threads.
    pub(crate) fn stop(&self) {
        self.signal(libc::SIGSTOP);
        // SAFETY: no status is asked for; it returns when the process, which is ours, has stopped.
        assert_eq!(unsafe { libc::waitpid(self.pid(), std::ptr::null_mut(), libc::WUNTRACED) }, self.pid());
    }

    pub(crate) fn resume(&self) {
        self.signal(libc::SIGCONT);
    }

    /// Kills the process and takes what is left of it.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Its last words are of no interest.
        let _ = self.follower.take().map(JoinHandle::join);
    }

    fn signal(&self, signal: i32) {
        // SAFETY: no pointers; the process is ours and has not been waited for.
        assert_eq!(unsafe { libc::kill(self.pid(), signal) }, 0);
    }

    fn pid(&self) -> libc::pid_t {
        libc::pid_t::try_from(self.child.id()).expect("a process number")
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.end();
    }
}

/// Makes this process end when the one that started it does.
pub(crate) fn die_with_parent() {
    // SAFETY: no pointers; it concerns this process alone.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

impl Part {
    pub(crate) fn options(&self) -> Options {
        self.times.options(self.service, self.confirm)
    }

    fn to_words(&self) -> Vec<String> {
        let act = ACTS.iter().find(|(act, _)| *act == self.act).expect("all are listed").1;
        let service = if self.service == Service::Stream { "stream" } else { "datagram" };
        let mut words = vec![
            self.bind.to_string(),
            act.into(),
            service.into(),
            self.confirm.to_string(),
            self.times.name().into(),
            self.node.map_or(0, NodeId::get).to_string(),
            self.cluster.clone().unwrap_or_else(|| NONE.into()),
        ];
        if let Some((address, at, local)) = self.connect {
            words.extend([
                address.node.get().to_string(),
                address.port.get().to_string(),
                at.map_or_else(|| NONE.into(), |at| at.to_string()),
                local.to_string(),
            ]);
        }
        words
    }

    pub(crate) fn from_words(words: &[String]) -> Option<Self> {
        let [bind, act, service, confirm, times, node, cluster, rest @ ..] = words else { return None };
        let connect = match rest {
            [node, port, at, local] => {
                let address =
                    Address { node: NodeId::new(node.parse().ok()?)?, port: Port::new(port.parse().ok()?)? };
                Some((address, at.parse().ok(), local.parse().ok()?))
            }
            _ => None,
        };
        Some(Self {
            bind: bind.parse().ok()?,
            act: ACTS.iter().find(|(_, word)| word == act)?.0,
            service: if service == "stream" { Service::Stream } else { Service::Datagram },
            confirm: confirm == "true",
            times: Times::named(times)?,
            node: NodeId::new(node.parse().ok()?),
            cluster: (cluster != NONE).then(|| cluster.clone()),
            connect,
        })
    }
}
