//! A survivor that reaches its peer through I/O nodes, which it kills.

use std::thread;
use std::time::{Duration, Instant};

use weft_socket::{EndReason, Listener, Node, NodeId, Options, Port, Service, Socket, load_cluster};

use crate::case::{After, Case, Killed, State, Survivor};
use crate::io_nodes::{HERE, IoNodes, THERE};
use crate::operation::{
    EXCHANGE_BYTES, End, Kill, PATIENCE, close, exchange, expect_nothing_left, expect_state, finish_connect,
    half_open, receive_all, wait_until,
};
use crate::pattern;
use crate::times::Times;
use crate::victim::{Act, PORT, Part, Victim};

/// The ports of a simultaneous open.
const HERE_PORT: u16 = 5_001;
const THERE_PORT: u16 = 5_002;
/// Time between two probes of an I/O node that was left: one that was restarted is soon believed again; or it is not, and no
/// probe keeps an idle connection alive.
const PROBE_INTERVALS: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(5)];
/// Long enough for what is acknowledged late, and for some questions that find nobody.
pub(crate) const MOMENT: Duration = Duration::from_millis(50);
/// What is said before a close.
const LAST_WORDS: usize = 14;

/// The survivor and the I/O nodes.
pub(crate) struct Crossing {
    node: Node,
    pub(crate) io_nodes: IoNodes,
}

/// What a kill came to at both ends.
pub(crate) struct Both {
    /// What the survivor made of it.
    pub(crate) kill: Kill,
    /// What the other end said of its end, and how long after it could have known; nothing if it has no connection.
    pub(crate) peer: Option<(String, Duration)>,
}

/// One connection, and both of its ends.
pub(crate) struct Scene {
    pub(crate) peer: Victim,
    pub(crate) socket: Socket,
    pub(crate) _listener: Option<Listener>,
}

/// What a scene came to.
pub(crate) struct Outcome {
    pub(crate) peer: Victim,
    /// When the peer could have known.
    pub(crate) begin: Instant,
    pub(crate) kill: Kill,
    /// Bytes that the peer is to have moved.
    pub(crate) bytes: u64,
}

impl Crossing {
    pub(crate) fn new(lane: usize) -> Self {
        let io_nodes = IoNodes::start(lane);
        let file = load_cluster(io_nodes.file(0)).expect("a right cluster file");
        let builder = Node::builder().node(number(HERE)).cluster(&file);
        let probe_interval = PROBE_INTERVALS[lane % PROBE_INTERVALS.len()];
        Self { node: builder.io_probe(probe_interval).open().expect("a node"), io_nodes }
    }

    /// Brings a connection into the state of `case`, kills what is between its ends, and waits for what both make of it.
    pub(crate) fn kill(&mut self, case: Case, times: Times, service: Service) -> Both {
        let options = times.options(service, case.confirms());
        let Outcome { peer, begin, kill, bytes } = match case.state {
            State::Opening => self.kill_opening(case, times, &options),
            State::HalfOpen => self.kill_half_open(case, times, &options),
            State::BothOpening => self.kill_both_opening(case, times, &options),
            State::Idle | State::Woken => self.kill_talking(case, times, &options),
            State::Sending | State::Blocked => self.kill_sending(case, times, &options),
            State::Receiving | State::Full => self.kill_receiving(case, times, &options),
            State::FinWait | State::HeldFin => self.kill_in_fin_wait(case, times, &options),
            State::CloseWait => self.kill_in_close_wait(case, times, &options),
            State::Quiet => self.kill_in_quiet(case, times, &options),
        };
        let said = (case.goes_on() || case.state != State::Opening).then(|| {
            let (line, at) = peer.line(times.patience());
            assert_eq!(peer.line(times.patience()).0, "clear", "{case}: {line}");
            (line, at.saturating_duration_since(begin))
        });
        peer.kill();
        if let Some((line, _)) = said.as_ref().filter(|_| case.goes_on() && kill.reason.is_none()) {
            let how = if matches!(act(case), Act::Write | Act::Close) { "closed" } else { "done" };
            assert_eq!(*line, format!("end {bytes} {how}"), "{case}");
        }
        expect_nothing_left(&self.node, case);
        self.io_nodes.expect_nothing_kept();
        self.io_nodes.restart_killed();
        Both { kill, peer: said }
    }

    /// The I/O node that first transmissions go through now.
    fn default(&self) -> usize {
        let stats = self.node.stats();
        let default = stats.sides[0].io_nodes.iter().find(|io_node| io_node.is_default);
        self.io_nodes.position(default.expect("there is one").node.get())
    }

    fn part(&self, case: Case, times: Times, options: &Options) -> Part {
        Part {
            bind: self.io_nodes.peer_at,
            act: act(case),
            service: options.service(),
            confirm: case.confirms(),
            times,
            node: Some(number(THERE)),
            cluster: Some(self.io_nodes.file(self.default()).to_owned()),
            connect: None,
        }
    }

    /// The kill itself, and what becomes of the place. The time is when the survivor may be told, or go on.
    pub(crate) fn execute(&mut self, case: Case) -> Instant {
        let begin = Instant::now();
        let default = self.default();
        let killed = if case.killed == Killed::IoNode { default..=default } else { 0..=1 };
        killed.clone().for_each(|which| self.io_nodes.kill(which, case.after));
        if case.after == After::Restart {
            killed.for_each(|which| self.io_nodes.restart(which));
        }
        if case.killed == Killed::IoNode { begin } else { Instant::now() }
    }

    fn kill_opening(&mut self, case: Case, times: Times, options: &Options) -> Outcome {
        let peer = Victim::start(&self.part(case, times, options));
        peer.stop();
        let socket = self.node.connect_start((number(THERE), PORT), options).expect("a way to connect");
        expect_state(&socket, "SYN_SENT");
        let begin = self.execute(case);
        peer.resume();
        let end = finish_connect(&socket);
        opened(peer, &socket, begin, end)
    }

    fn kill_half_open(&mut self, case: Case, times: Times, options: &Options) -> Outcome {
        let listener = self.node.listen(0, options).expect("a free port");
        let mut part = self.part(case, times, options);
        part.connect = Some((listener.local_address(), None, 0));
        let mut peer = Victim::start(&part);
        wait_until("half open", || half_open(&self.node) == 1);
        let begin = self.execute(case);
        peer.tell();
        if case.goes_on() {
            let socket = listener.accept_timeout(PATIENCE).expect("it connects");
            let end = (None, Instant::now());
            return opened(peer, &socket, begin, end);
        }
        wait_until("the embryo is gone", || half_open(&self.node) == 0);
        Outcome { peer, begin, kill: Kill { informed: begin.elapsed(), reason: None }, bytes: 0 }
    }

    fn kill_both_opening(&mut self, case: Case, times: Times, options: &Options) -> Outcome {
        let mut part = self.part(case, times, options);
        part.connect = Some((self.node.address(port(HERE_PORT)), None, THERE_PORT));
        let mut peer = Victim::start(&part);
        let target = (number(THERE), port(THERE_PORT));
        let socket = self.node.connect_start(target, &options.clone().local_port(HERE_PORT));
        let socket = socket.expect("a way to connect");
        expect_state(&socket, "SYN_RCVD");
        let begin = self.execute(case);
        peer.tell();
        let end = finish_connect(&socket);
        opened(peer, &socket, begin, end)
    }

    /// A connection whose open is over.
    pub(crate) fn open(&self, case: Case, times: Times, options: &Options) -> Scene {
        let mut part = self.part(case, times, options);
        let scene = if case.survivor == Survivor::Client {
            let peer = Victim::start(&part);
            let socket = self.node.connect((number(THERE), PORT), options).expect("it listens");
            Scene { peer, socket, _listener: None }
        } else {
            let listener = self.node.listen(0, options).expect("a free port");
            part.connect = Some((listener.local_address(), None, 0));
            let peer = Victim::start(&part);
            let socket = listener.accept_timeout(PATIENCE).expect("it connects");
            Scene { peer, socket, _listener: Some(listener) }
        };
        wait_until("the open is over at both ends", || scene.socket.stats().packets_received > 0);
        scene
    }

    fn kill_in_fin_wait(&mut self, case: Case, times: Times, options: &Options) -> Outcome {
        let Scene { mut peer, socket, _listener } = self.open(case, times, options);
        let bytes = socket.send(&pattern::bytes(0, LAST_WORDS)).expect("it is open") as u64;
        wait_until("the last words arrive", || socket.stats().in_flight == 0);
        // The answer to a repetition of them is none to the FIN.
        thread::sleep(MOMENT);
        let heard = socket.stats().packets_received;
        let is_held = case.state == State::HeldFin;
        if !is_held {
            peer.stop();
        }
        socket.close_start();
        expect_state(&socket, "FIN_WAIT");
        if is_held {
            wait_until("the FIN is answered", || socket.stats().packets_received > heard);
        }
        let begin = self.execute(case);
        if is_held {
            peer.tell();
        } else {
            peer.resume();
        }
        let (end, is_confirmed) = close(&socket);
        assert_eq!(is_confirmed, case.goes_on(), "{case}");
        Outcome { peer, begin, kill: Kill::since(begin, end), bytes }
    }

    fn kill_in_close_wait(&mut self, case: Case, times: Times, options: &Options) -> Outcome {
        let Scene { peer, socket, _listener } = self.open(case, times, options);
        assert_eq!(receive_all(&socket).0.0, Some(EndReason::Done), "the end of file");
        expect_state(&socket, "CLOSE_WAIT");
        let begin = self.execute(case);
        thread::sleep(Duration::from_millis(20));
        assert_eq!(receive_all(&socket).0.0, Some(EndReason::Done), "the end of file still");
        expect_state(&socket, "CLOSE_WAIT");
        let kill = Kill::since(Instant::now(), close(&socket).0);
        Outcome { peer, begin, kill, bytes: 0 }
    }

    fn kill_in_quiet(&mut self, case: Case, times: Times, options: &Options) -> Outcome {
        let Scene { peer, socket, _listener } = self.open(case, times, options);
        assert!(socket.close_timeout(PATIENCE).expect("it is acknowledged").confirmed);
        expect_state(&socket, "QUIET");
        let begin = self.execute(case);
        wait_until("QUIET is over", || self.node.stats().connections.is_empty());
        Outcome { peer, begin, kill: Kill::since(begin, (None, Instant::now())), bytes: 0 }
    }
}

/// What the peer does that `case` needs.
fn act(case: Case) -> Act {
    match case.state {
        State::Opening | State::Idle | State::Woken => Act::Echo,
        State::HalfOpen | State::BothOpening => Act::Mute,
        State::Sending | State::FinWait | State::Quiet => Act::Read,
        State::Blocked | State::HeldFin => Act::Hold,
        State::Receiving | State::Full => Act::Write,
        State::CloseWait => Act::Close,
    }
}

/// The end of an open; one that is open is used.
fn opened(peer: Victim, socket: &Socket, begin: Instant, end: End) -> Outcome {
    let mut bytes = 0;
    if end.0.is_none() {
        exchange(socket, 0).expect("it goes on");
        bytes = EXCHANGE_BYTES;
    }
    Outcome { peer, begin, kill: Kill::since(begin, end), bytes }
}

fn number(number: u32) -> NodeId {
    NodeId::new(number).expect("a number")
}

fn port(port: u16) -> Port {
    Port::new(port).expect("a port")
}
