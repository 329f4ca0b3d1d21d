//! What a process beside the survivor does from its start to its end.

use std::io::Write;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use weft_link::{Fault, Faults, Link, Udp};
use weft_socket::{Node, RecvError, Socket, Target, load_cluster};

use crate::operation::{close, finish_connect, receive_all, send_until};
use crate::pattern::BLOCK;
use crate::victim::{Act, PORT, Part, die_with_parent};

/// What the survivor tells the process.
struct Word(mpsc::Receiver<()>);

impl Word {
    fn wait(&self) {
        self.0.recv().expect("the survivor lives");
    }

    fn is_said(&self) -> bool {
        self.0.try_recv().is_ok()
    }
}

/// The life of the process; it ends with its parent.
///
/// It says that it is ready, then how many bytes it moved and how that ended, then that nothing of it is left.
pub(crate) fn run(words: &[String]) {
    let part = Part::from_words(words).expect("the words of a part");
    die_with_parent();
    let word = listen_to_survivor();
    let (node, fault) = open(&part);
    if part.act == Act::Absent {
        say("ready");
        park();
    }
    let (bytes, how) = live(&part, &node, fault.as_deref(), &word);
    say(&format!("end {bytes} {how}"));
    while !is_empty(&node) {
        thread::sleep(Duration::from_millis(1));
    }
    say("clear");
    park();
}

fn is_empty(node: &Node) -> bool {
    let stats = node.stats();
    stats.connections.is_empty() && stats.listeners.is_empty() && stats.promised_bytes == 0
}

/// The node, and what keeps it from hearing if it begins deaf.
fn open(part: &Part) -> (Node, Option<Arc<Fault<Udp>>>) {
    let udp = Udp::bind(part.bind).expect("the address is free");
    let mut fault = None;
    let link: Arc<dyn Link> = if part.act == Act::Mute {
        let deaf = "loss=100%".parse().expect("a fault");
        fault.insert(Arc::new(Fault::new(udp, 1, Faults::NONE, deaf).expect("a descriptor"))).clone()
    } else {
        Arc::new(udp)
    };
    let mut builder = Node::builder().link(link);
    if let Some(node) = part.node {
        builder = builder.node(node);
    }
    if let Some(path) = &part.cluster {
        builder = builder.cluster(&load_cluster(path).expect("a right cluster file"));
    }
    (builder.open().expect("a node"), fault)
}

/// Opens the connection and does what the part says; bytes moved, and how it ended.
fn live(part: &Part, node: &Node, fault: Option<&Fault<Udp>>, word: &Word) -> (u64, String) {
    let options = part.options();
    let Some((address, at, local)) = part.connect else {
        let listener = node.listen(PORT.get(), &options).expect("the port is free");
        say("ready");
        let socket = listener.accept().expect("the survivor connects");
        return talk(&socket, part.act, word);
    };
    let target = at.map_or(Target::Address(address), |at| Target::Both { address, at });
    let socket = node.connect_start(target, &options.local_port(local)).expect("a way to connect");
    say("ready");
    if let Some(fault) = fault {
        word.wait();
        fault.set(Faults::NONE, Faults::NONE);
    }
    match finish_connect(&socket).0 {
        None => talk(&socket, part.act, word),
        Some(reason) => (0, reason.name().to_owned()),
    }
}

fn talk(socket: &Socket, act: Act, word: &Word) -> (u64, String) {
    let read = || {
        let ((reason, _), bytes) = receive_all(socket);
        (bytes, reason.expect("it is over").name().to_owned())
    };
    let close = |bytes| match close(socket) {
        (_, true) => (bytes, "closed".to_owned()),
        ((reason, _), false) => (bytes, format!("unconfirmed {}", reason.expect("it is over").name())),
    };
    match act {
        Act::Read => read(),
        Act::Hold => {
            word.wait();
            read()
        }
        Act::Write => match send_until(socket, || word.is_said()) {
            ((None, _), bytes) => close(bytes),
            ((Some(reason), _), bytes) => (bytes, reason.name().to_owned()),
        },
        Act::Close => close(0),
        Act::Echo | Act::Mute => echo(socket),
        Act::Absent => unreachable!("it has no connection"),
    }
}

fn echo(socket: &Socket) -> (u64, String) {
    let mut buffer = vec![0; BLOCK];
    let mut bytes = 0;
    loop {
        match socket.recv(&mut buffer) {
            Ok(0) | Err(RecvError::EndOfFile) => return (bytes, "done".to_owned()),
            Ok(len) => {
                // The reader learns of the end as well.
                let _ = socket.send(&buffer[..len]);
                bytes += len as u64;
            }
            Err(RecvError::Ended(ended)) => return (bytes, ended.reason.name().to_owned()),
            Err(error) => panic!("{error}"),
        }
    }
}

fn listen_to_survivor() -> Word {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        std::io::stdin().lines().map_while(Result::ok).for_each(|_| sender.send(()).unwrap_or(()));
        park()
    });
    Word(receiver)
}

fn say(line: &str) {
    println!("{line}");
    std::io::stdout().flush().expect("somebody listens");
}

fn park() -> ! {
    loop {
        thread::park();
    }
}
