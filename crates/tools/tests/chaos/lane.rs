//! A survivor that kills its peers one after another.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use weft_link::{Fault, Faults, Udp};
use weft_socket::{Address, EndReason, Listener, Node, NodeId, Options, Port, Service, Socket, Target};

use crate::case::{After, Case, State, Survivor};
use crate::operation::{
    Kill, PATIENCE, close, expect_all_of, expect_nothing_left, expect_state, finish_connect, half_open,
    in_background, receive_all, send_until, wait_until, wait_until_sent,
};
use crate::times::Times;
use crate::victim::{Act, PORT, Part, Victim};

/// The number that a victim goes by where its peer must know it.
const NUMBER: u32 = 77;
/// The ports of a simultaneous open.
const HERE: u16 = 5_001;
const THERE: u16 = 5_002;

/// The survivor.
pub(crate) struct Lane {
    pub(crate) node: Node,
    link: Arc<Fault<Udp>>,
    pub(crate) victim_at: SocketAddr,
}

impl Lane {
    /// A node whose victims live at `victim_at`.
    pub(crate) fn new(victim_at: SocketAddr) -> Self {
        let udp = Udp::bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let link = Arc::new(Fault::new(udp, 1, Faults::NONE, Faults::NONE).expect("a descriptor"));
        let node = Node::builder().link(link.clone()).open().expect("a node");
        Self { node, link, victim_at }
    }

    /// Brings a connection into the state of `case`, kills the other end, and waits for what this end makes of it.
    pub(crate) fn kill(&self, case: Case, times: Times, service: Service) -> Kill {
        let options = times.options(service, case.confirms());
        let part = self.part(act(case), times, service, case.confirms());
        let kill = match case.state {
            State::Opening => self.kill_opening(case, &part, &options),
            State::HalfOpen => self.kill_half_open(case, part, &options),
            State::BothOpening => self.kill_both_opening(case, part, &options),
            State::Idle | State::Woken | State::Sending | State::Blocked | State::Receiving | State::Full => {
                self.kill_open(case, part, &options)
            }
            State::FinWait | State::HeldFin | State::CloseWait | State::Quiet => {
                self.kill_open(case, part, &options)
            }
        };
        self.link.set(Faults::NONE, Faults::NONE);
        expect_nothing_left(&self.node, case);
        kill
    }

    pub(crate) fn part(&self, act: Act, times: Times, service: Service, confirm: bool) -> Part {
        Part { bind: self.victim_at, act, service, confirm, times, node: None, cluster: None, connect: None }
    }

    fn own_address(&self, port: u16) -> Address {
        self.node.address(Port::new(port).expect("a port"))
    }

    /// The kill itself, and what becomes of the place. The time is when the survivor may be answered.
    fn execute(&self, victim: Victim, after: After, heir: &Part) -> (Instant, Option<Victim>) {
        if after == After::Darkness {
            let gone: Faults = "loss=100%".parse().expect("a fault");
            self.link.set(gone, gone);
        }
        let begin = Instant::now();
        victim.kill();
        if after != After::Restart {
            return (begin, None);
        }
        let heir = Victim::start(&Part { act: Act::Absent, connect: None, ..heir.clone() });
        (Instant::now(), Some(heir))
    }

    fn kill_opening(&self, case: Case, part: &Part, options: &Options) -> Kill {
        let victim = Victim::start(part);
        victim.stop();
        let socket = self.node.connect_start((self.victim_at, PORT), options).expect("a way to connect");
        expect_state(&socket, "SYN_SENT");
        let (begin, _heir) = self.execute(victim, case.after, part);
        Kill::since(begin, finish_connect(&socket))
    }

    fn kill_half_open(&self, case: Case, mut part: Part, options: &Options) -> Kill {
        let listener = self.node.listen(0, options).expect("a free port");
        part.connect = Some((listener.local_address(), Some(self.node.underlay()), 0));
        let victim = Victim::start(&part);
        wait_until("half open", || half_open(&self.node) == 1);
        let (begin, _heir) = self.execute(victim, case.after, &part);
        wait_until("the embryo is gone", || half_open(&self.node) == 0);
        Kill { informed: begin.elapsed(), reason: None }
    }

    fn kill_both_opening(&self, case: Case, mut part: Part, options: &Options) -> Kill {
        let number = NodeId::new(NUMBER).expect("a number");
        part.node = Some(number);
        // That number is remembered for its address.
        part.bind.set_port(self.victim_at.port() + 1);
        part.connect = Some((self.own_address(HERE), Some(self.node.underlay()), THERE));
        let victim = Victim::start(&part);
        let address = Address { node: number, port: Port::new(THERE).expect("a port") };
        let target = Target::Both { address, at: part.bind };
        let options = options.clone().local_port(HERE);
        let socket = self.node.connect_start(target, &options).expect("a way to connect");
        expect_state(&socket, "SYN_RCVD");
        let (begin, _heir) = self.execute(victim, case.after, &part);
        Kill::since(begin, finish_connect(&socket))
    }

    /// A connection whose open is over; gives the victim and the survivor's end.
    pub(crate) fn open(
        &self,
        survivor: Survivor,
        part: &mut Part,
        options: &Options,
    ) -> (Victim, Socket, Option<Listener>) {
        if survivor == Survivor::Client {
            let victim = Victim::start(part);
            let socket = self.node.connect((self.victim_at, PORT), options).expect("it listens");
            return (victim, socket, None);
        }
        let listener = self.node.listen(0, options).expect("a free port");
        part.connect = Some((listener.local_address(), Some(self.node.underlay()), 0));
        let victim = Victim::start(part);
        let socket = listener.accept_timeout(PATIENCE).expect("it connects");
        (victim, socket, Some(listener))
    }

    fn kill_open(&self, case: Case, mut part: Part, options: &Options) -> Kill {
        let (victim, socket, _listener) = self.open(case.survivor, &mut part, options);
        let execute = |victim| self.execute(victim, case.after, &part);
        wait_until("the open is over at both ends", || socket.stats().packets_received > 0);
        match case.state {
            State::Idle => {
                let (begin, _heir) = execute(victim);
                Kill::since(begin, receive_all(&socket).0)
            }
            State::Woken => {
                let (_, _heir) = execute(victim);
                let begin = Instant::now();
                // A probe may have told it already.
                let _ = socket.send(b"are you there?");
                Kill::since(begin, receive_all(&socket).0)
            }
            State::Sending | State::Blocked => {
                let sender = in_background(&socket, |socket| send_until(socket, || false).0);
                wait_until_sent(&socket, case.state);
                let (begin, _heir) = execute(victim);
                Kill::since(begin, sender.join().expect("the sender"))
            }
            State::Receiving => {
                let receiver = in_background(&socket, |socket| receive_all(socket).0);
                wait_until("it receives", || socket.stats().bytes_received > 200_000);
                let (begin, _heir) = execute(victim);
                Kill::since(begin, receiver.join().expect("the receiver"))
            }
            State::Full => {
                wait_until("the window is closed", || socket.stats().receive_window == 0);
                let (_, _heir) = execute(victim);
                let begin = Instant::now();
                let (end, bytes) = receive_all(&socket);
                expect_all_of(&socket, bytes);
                Kill::since(begin, end)
            }
            State::FinWait | State::HeldFin => {
                socket.send(b"the last words").expect("it is open");
                if case.state == State::FinWait {
                    victim.stop();
                }
                socket.close_start();
                expect_state(&socket, "FIN_WAIT");
                let (begin, _heir) = execute(victim);
                Kill::since(begin, close(&socket).0)
            }
            State::CloseWait => {
                assert_eq!(receive_all(&socket).0.0, Some(EndReason::Done), "the end of file");
                expect_state(&socket, "CLOSE_WAIT");
                let (_, _heir) = execute(victim);
                thread::sleep(Duration::from_millis(20));
                assert_eq!(receive_all(&socket).0.0, Some(EndReason::Done), "the end of file still");
                expect_state(&socket, "CLOSE_WAIT");
                let begin = Instant::now();
                Kill::since(begin, close(&socket).0)
            }
            State::Quiet => {
                let result = socket.close_timeout(PATIENCE).expect("it is acknowledged");
                assert!(result.confirmed);
                expect_state(&socket, "QUIET");
                let (begin, _heir) = execute(victim);
                wait_until("QUIET is over", || self.node.stats().connections.is_empty());
                Kill { informed: begin.elapsed(), reason: None }
            }
            State::Opening | State::HalfOpen | State::BothOpening => unreachable!("it is open"),
        }
    }
}

/// What the victim does that `case` needs.
fn act(case: Case) -> Act {
    match case.state {
        State::Sending => Act::Read,
        State::Receiving | State::Full => Act::Write,
        State::CloseWait => Act::Close,
        State::HalfOpen | State::BothOpening => Act::Mute,
        State::Opening | State::Idle | State::Woken | State::Blocked => Act::Hold,
        State::FinWait | State::HeldFin | State::Quiet => Act::Hold,
    }
}
