//! The process that is killed.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use weft_link::{Fault, Faults, Link, Udp};
use weft_socket::{Address, Node, NodeId, Options, Port, Service, Socket, Target};

/// What the process does with its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    /// Nothing listens; the place is only taken again.
    Absent,
    /// Opens and does nothing more.
    Hold,
    /// Reads whatever comes.
    Read,
    /// Writes for ever.
    Write,
    /// Closes at once.
    Close,
    /// Sends back what it reads.
    Echo,
    /// Begins to connect and hears nothing.
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
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) bind: SocketAddr,
    pub(crate) act: Act,
    pub(crate) service: Service,
    pub(crate) confirm: bool,
    /// Its number, where its peer calls it by that.
    pub(crate) node: Option<NodeId>,
    /// Where it connects to, and from which port; it listens if this is not given.
    pub(crate) connect: Option<(Address, SocketAddr, u16)>,
}

/// The port that a process which listens listens on.
pub(crate) const PORT: Port = Port::ECHO;

/// A running process; it is killed when this goes.
pub(crate) struct Victim {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Victim {
    /// Starts a process and waits until it is ready.
    pub(crate) fn start(part: &Part) -> Self {
        let own = std::env::current_exe().expect("the path of this program");
        let mut child = Command::new(own)
            .arg("victim")
            .args(part.to_words())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let said = BufReader::new(child.stdout.take().expect("it was asked for"));
        let mut victim = Self { child, said };
        assert_eq!(victim.line(), "ready", "{part:?}");
        victim
    }

    /// The next line that it says; empty at its end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).expect("what the process says");
        line.trim_end().to_owned()
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

impl Part {
    fn to_words(self) -> Vec<String> {
        let act = ACTS.iter().find(|(act, _)| *act == self.act).expect("all are listed").1;
        let service = if self.service == Service::Stream { "stream" } else { "datagram" };
        let node = self.node.map_or(0, NodeId::get);
        let mut words = vec![
            self.bind.to_string(),
            act.into(),
            service.into(),
            self.confirm.to_string(),
            node.to_string(),
        ];
        if let Some((address, at, local)) = self.connect {
            words.extend([
                address.node.get().to_string(),
                address.port.get().to_string(),
                at.to_string(),
                local.to_string(),
            ]);
        }
        words
    }

    fn from_words(words: &[String]) -> Option<Self> {
        let [bind, act, service, confirm, node, rest @ ..] = words else { return None };
        let connect = match rest {
            [node, port, at, local] => {
                let address =
                    Address { node: NodeId::new(node.parse().ok()?)?, port: Port::new(port.parse().ok()?)? };
                Some((address, at.parse().ok()?, local.parse().ok()?))
            }
            _ => None,
        };
        Some(Self {
            bind: bind.parse().ok()?,
            act: ACTS.iter().find(|(_, word)| word == act)?.0,
            service: if service == "stream" { Service::Stream } else { Service::Datagram },
            confirm: confirm == "true",
            node: NodeId::new(node.parse().ok()?),
            connect,
        })
    }
}

/// The life of the process; it ends with its parent.
pub(crate) fn run(words: &[String], options: impl Fn(Service, bool) -> Options) {
    let part = Part::from_words(words).expect("the words of a part");
    // SAFETY: no pointers; it concerns this process alone.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let options = options(part.service, part.confirm);
    let deaf: Faults =
        if part.act == Act::Mute { "loss=100%".parse().expect("a fault") } else { Faults::NONE };
    let link = Udp::bind(part.bind).expect("the address is free");
    let link: Arc<dyn Link> = if part.act == Act::Mute {
        Arc::new(Fault::new(link, 1, Faults::NONE, deaf).expect("a descriptor"))
    } else {
        Arc::new(link)
    };
    let mut builder = Node::builder().link(link);
    if let Some(node) = part.node {
        builder = builder.node(node);
    }
    let node = builder.open().expect("a node");
    if part.act == Act::Absent {
        say("ready");
        park();
    }
    match part.connect {
        Some((address, at, local)) => {
            let target = Target::Both { address, at };
            let socket = node.connect_start(target, &options.local_port(local)).expect("a way to connect");
            say("ready");
            if part.act == Act::Mute {
                park();
            }
            socket.connect_finish().expect("the survivor accepts");
            act(&socket, part.act);
        }
        None => {
            let listener = node.listen(PORT.get(), &options).expect("the port is free");
            say("ready");
            act(&listener.accept().expect("the survivor connects"), part.act);
        }
    }
}

fn act(socket: &Socket, act: Act) {
    let mut buffer = vec![7; 8_192];
    let ended = match act {
        Act::Read => loop {
            match socket.recv(&mut buffer) {
                Ok(0) => break "the end of file".to_owned(),
                Ok(_) => {}
                Err(error) => break error.to_string(),
            }
        },
        Act::Write => loop {
            if let Err(error) = socket.send(&buffer) {
                break error.to_string();
            }
        },
        Act::Echo => loop {
            match socket.recv(&mut buffer).map(|len| socket.send(&buffer[..len]).map(|_| len)) {
                Ok(Ok(0)) => break "the end of file".to_owned(),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => break error.to_string(),
                Err(error) => break error.to_string(),
            }
        },
        Act::Close => {
            socket.close_start();
            park()
        }
        Act::Hold | Act::Absent | Act::Mute => park(),
    };
    say(&ended);
    park();
}

fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().expect("somebody listens");
}

fn park() -> ! {
    loop {
        std::thread::park();
    }
}
