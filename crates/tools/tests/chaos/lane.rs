//! One process that survives: it kills its peers one after another, and is looked at after each.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use weft_link::{Fault, Faults, Udp};
use weft_socket::{
    Address, CloseError, ConnectError, EndReason, Listener, Node, NodeId, Options, Port, RecvError,
    SendError, Service, Socket, Target,
};

use crate::case::{After, Case, State, Survivor};
use crate::census::{self, Census};
use crate::victim::{Act, PORT, Part, Victim};

/// The longest that anything may take that is not measured.
const PATIENCE: Duration = Duration::from_secs(20);
/// The number that a victim goes by where its peer must know it.
const NUMBER: u32 = 77;
/// The ports of a simultaneous open.
const HERE: u16 = 5_001;
const THERE: u16 = 5_002;

/// What one kill came to.
pub(crate) struct Kill {
    /// From the kill, or from when the survivor could be answered or did something, until it knew.
    pub(crate) informed: Duration,
    /// What it was told.
    pub(crate) reason: Option<EndReason>,
}

/// The survivor.
pub(crate) struct Lane {
    node: Node,
    link: Arc<Fault<Udp>>,
    victim_at: SocketAddr,
}

/// How an operation of the survivor ended, and when.
type End = (Option<EndReason>, Instant);

impl Lane {
    /// A node whose victims live at `victim_at`.
    pub(crate) fn new(victim_at: SocketAddr) -> Self {
        let udp = Udp::bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let link = Arc::new(Fault::new(udp, 1, Faults::NONE, Faults::NONE).expect("a descriptor"));
        let node = Node::builder().link(link.clone()).open().expect("a node");
        Self { node, link, victim_at }
    }

    /// Brings a connection into the state of `case`, kills the other end, and waits for what this end makes of it.
    pub(crate) fn kill(&self, case: Case, service: Service) -> Kill {
        let options = case.options(service);
        let kill = match case.state {
            State::Opening => self.kill_opening(case, &options),
            State::HalfOpen => self.kill_half_open(case, &options),
            State::BothOpening => self.kill_both_opening(case, &options),
            State::Idle | State::Woken | State::Sending | State::Blocked | State::Receiving | State::Full => {
                self.kill_open(case, &options)
            }
            State::FinWait | State::HeldFin | State::CloseWait | State::Quiet => {
                self.kill_open(case, &options)
            }
        };
        self.link.set(Faults::NONE, Faults::NONE);
        self.expect_nothing_left(case);
        kill
    }

    fn part(&self, act: Act, options: &Options, confirm: bool) -> Part {
        let service = options.service();
        Part { bind: self.victim_at, act, service, confirm, node: None, connect: None }
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
        let heir = Victim::start(&Part { act: Act::Absent, connect: None, ..*heir });
        (Instant::now(), Some(heir))
    }

    fn kill_opening(&self, case: Case, options: &Options) -> Kill {
        let part = self.part(Act::Hold, options, false);
        let victim = Victim::start(&part);
        victim.stop();
        let socket = self.node.connect_start((self.victim_at, PORT), options).expect("a way to connect");
        expect_state(&socket, "SYN_SENT");
        let (begin, _heir) = self.execute(victim, case.after, &part);
        let (reason, end) = finish_connect(&socket);
        Kill { informed: end - begin, reason }
    }

    fn kill_half_open(&self, case: Case, options: &Options) -> Kill {
        let listener = self.node.listen(0, options).expect("a free port");
        let mut part = self.part(Act::Mute, options, false);
        part.connect = Some((listener.local_address(), self.node.underlay(), 0));
        let victim = Victim::start(&part);
        let half_open =
            || self.node.stats().listeners.iter().map(|listener| listener.half_open).sum::<usize>();
        wait_until("half open", || half_open() == 1);
        let (begin, _heir) = self.execute(victim, case.after, &part);
        wait_until("the embryo is gone", || half_open() == 0);
        Kill { informed: begin.elapsed(), reason: None }
    }

    fn kill_both_opening(&self, case: Case, options: &Options) -> Kill {
        let number = NodeId::new(NUMBER).expect("a number");
        let mut part = self.part(Act::Mute, options, false);
        part.node = Some(number);
        // That number is remembered for its address.
        part.bind.set_port(self.victim_at.port() + 1);
        part.connect = Some((self.own_address(HERE), self.node.underlay(), THERE));
        let victim = Victim::start(&part);
        let address = Address { node: number, port: Port::new(THERE).expect("a port") };
        let target = Target::Both { address, at: part.bind };
        let options = options.clone().local_port(HERE);
        let socket = self.node.connect_start(target, &options).expect("a way to connect");
        expect_state(&socket, "SYN_RCVD");
        let (begin, _heir) = self.execute(victim, case.after, &part);
        let (reason, end) = finish_connect(&socket);
        Kill { informed: end - begin, reason }
    }

    /// A connection whose open is over; gives the part, the victim and the survivor's end.
    fn open(&self, case: Case, options: &Options) -> (Part, Victim, Socket, Option<Listener>) {
        let act = match case.state {
            State::Sending => Act::Read,
            State::Receiving | State::Full => Act::Write,
            State::CloseWait => Act::Close,
            State::Idle | State::Woken | State::Blocked | State::FinWait => Act::Hold,
            State::HeldFin | State::Quiet => Act::Hold,
            State::Opening | State::HalfOpen | State::BothOpening => unreachable!("it is open"),
        };
        let mut part = self.part(act, options, case.state == State::HeldFin);
        if case.survivor == Survivor::Client {
            let victim = Victim::start(&part);
            let socket = self.node.connect((self.victim_at, PORT), options).expect("it listens");
            return (part, victim, socket, None);
        }
        let listener = self.node.listen(0, options).expect("a free port");
        part.connect = Some((listener.local_address(), self.node.underlay(), 0));
        let victim = Victim::start(&part);
        let socket = listener.accept_timeout(PATIENCE).expect("it connects");
        (part, victim, socket, Some(listener))
    }

    fn kill_open(&self, case: Case, options: &Options) -> Kill {
        let (part, victim, socket, _listener) = self.open(case, options);
        let execute = |victim| self.execute(victim, case.after, &part);
        wait_until("the open is over at both ends", || socket.stats().packets_received > 0);
        match case.state {
            State::Idle => {
                let (begin, _heir) = execute(victim);
                ended_since(begin, receive_all(&socket).0)
            }
            State::Woken => {
                let (_, _heir) = execute(victim);
                let begin = Instant::now();
                // A probe may have told it already.
                let _ = socket.send(b"are you there?");
                ended_since(begin, receive_all(&socket).0)
            }
            State::Sending | State::Blocked => {
                let sender = in_background(&socket, send_all);
                if case.state == State::Sending {
                    wait_until("it sends", || socket.stats().bytes_acked > 200_000);
                } else {
                    wait_until("the window is closed", || {
                        let stats = socket.stats();
                        stats.send_window == 0 && stats.in_flight == 0
                    });
                }
                let (begin, _heir) = execute(victim);
                ended_since(begin, sender.join().expect("the sender"))
            }
            State::Receiving => {
                let receiver = in_background(&socket, |socket| receive_all(socket).0);
                wait_until("it receives", || socket.stats().bytes_received > 200_000);
                let (begin, _heir) = execute(victim);
                ended_since(begin, receiver.join().expect("the receiver"))
            }
            State::Full => {
                wait_until("the window is closed", || socket.stats().receive_window == 0);
                let (_, _heir) = execute(victim);
                let begin = Instant::now();
                let (end, bytes) = receive_all(&socket);
                expect_all_of(&socket, bytes);
                ended_since(begin, end)
            }
            State::FinWait | State::HeldFin => {
                socket.send(b"the last words").expect("it is open");
                if case.state == State::FinWait {
                    victim.stop();
                }
                socket.close_start();
                expect_state(&socket, "FIN_WAIT");
                let (begin, _heir) = execute(victim);
                ended_since(begin, close(&socket))
            }
            State::CloseWait => {
                assert_eq!(receive_all(&socket).0.0, Some(EndReason::Done), "the end of file");
                expect_state(&socket, "CLOSE_WAIT");
                let (_, _heir) = execute(victim);
                thread::sleep(Duration::from_millis(20));
                assert_eq!(receive_all(&socket).0.0, Some(EndReason::Done), "the end of file still");
                expect_state(&socket, "CLOSE_WAIT");
                let begin = Instant::now();
                ended_since(begin, close(&socket))
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

    /// Sockets, table entries, budget, ports of the node; and processes. What it was is over, and has left nothing.
    fn expect_nothing_left(&self, case: Case) {
        let begin = Instant::now();
        loop {
            let stats = self.node.stats();
            if stats.connections.is_empty() && stats.listeners.is_empty() && stats.promised_bytes == 0 {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "{case}: left behind {stats:?}");
            thread::sleep(Duration::from_millis(2));
        }
        assert!(!census::has_children(), "{case}: a process was left behind");
    }

    /// A peer that is stopped for a while and goes on. Below the expiry nothing is lost; beyond it both ends are told.
    pub(crate) fn pause(&self, survivor: Survivor, pause: Duration, is_sending: bool) -> Pause {
        let case = Case { state: State::Idle, survivor, after: After::Restart };
        let options = case.options(Service::Stream);
        let mut part = self.part(Act::Echo, &options, false);
        let listener = self.node.listen(0, &options).expect("a free port");
        if survivor == Survivor::Server {
            part.connect = Some((listener.local_address(), self.node.underlay(), 0));
        }
        let mut victim = Victim::start(&part);
        let socket = match survivor {
            Survivor::Client => self.node.connect((self.victim_at, PORT), &options).expect("it listens"),
            Survivor::Server => listener.accept_timeout(PATIENCE).expect("it connects"),
        };
        exchange(&socket, 0).expect("it answers");
        victim.stop();
        let begin = Instant::now();
        let waiting =
            is_sending.then(|| in_background(&socket, |socket| (exchange(socket, 1), Instant::now())));
        thread::sleep(pause);
        victim.resume();
        let first = waiting.map_or(Ok(()), |thread| {
            let (result, end) = thread.join().expect("the exchange");
            result.map_err(|reason| (reason, end - begin))
        });
        let outcome = first.and_then(|()| exchange(&socket, 2).map_err(|reason| (reason, begin.elapsed())));
        let peer = outcome.is_err().then(|| victim.line());
        drop((socket, listener));
        victim.kill();
        self.expect_nothing_left(case);
        Pause { outcome, peer }
    }
}

/// What a pause came to.
#[derive(Debug)]
pub(crate) struct Pause {
    /// Whether everything was exchanged; if not, what this end was told, and when.
    pub(crate) outcome: Result<(), (EndReason, Duration)>,
    /// What the other end said then.
    pub(crate) peer: Option<String>,
}

/// Sends and takes back a good deal that differs by `seed`; or the reason why not.
fn exchange(socket: &Socket, seed: u8) -> Result<(), EndReason> {
    let data: Vec<u8> = (0..100_000_u32).map(|at| (at % 251) as u8 ^ seed).collect();
    let sender = socket.clone();
    let sent = data.clone();
    let sender = thread::spawn(move || sender.send(&sent));
    let mut back = vec![0; data.len()];
    let mut at = 0;
    while at < back.len() {
        match socket.recv(&mut back[at..]) {
            Ok(len) => at += len,
            Err(RecvError::Ended(ended)) => {
                let _ = sender.join();
                return Err(ended.reason);
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(sender.join().expect("the sender").is_ok());
    assert!(back == data, "what came back is not what was sent");
    Ok(())
}

fn ended_since(begin: Instant, (reason, end): End) -> Kill {
    Kill { informed: end.saturating_duration_since(begin), reason }
}

fn in_background<T: Send + 'static>(
    socket: &Socket,
    act: impl FnOnce(&Socket) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let socket = socket.clone();
    thread::spawn(move || act(&socket))
}

fn send_all(socket: &Socket) -> End {
    let data = vec![5; 8_192];
    loop {
        match socket.send(&data) {
            Ok(_) => {}
            Err(SendError::Ended(ended)) => return (Some(ended.reason), Instant::now()),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Reads to the end, and how many bytes that were. The end of file is [`EndReason::Done`].
fn receive_all(socket: &Socket) -> (End, u64) {
    let mut buffer = vec![0; 16 << 10];
    let mut bytes = 0;
    loop {
        match socket.recv(&mut buffer) {
            Ok(0) | Err(RecvError::EndOfFile) => return ((Some(EndReason::Done), Instant::now()), bytes),
            Ok(len) => bytes += len as u64,
            Err(RecvError::Ended(ended)) => {
                let is_time_out = matches!(ended.reason, EndReason::Idle | EndReason::GaveUp);
                // [CDP-TMR-3]
                assert_eq!(ended.silent_for.is_some(), is_time_out || ended.reason == EndReason::Died);
                return ((Some(ended.reason), Instant::now()), bytes);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// [CDP-ERR-2] What had arrived stays readable: all of a stream, and all whole messages.
fn expect_all_of(socket: &Socket, bytes: u64) {
    let arrived = socket.stats().bytes_received;
    // Messages have heads, and the last may have lacked a part.
    let most = if socket.service() == Service::Stream { 0 } else { 2 * 8_192 };
    assert!(bytes > 0 && arrived - bytes <= most, "{bytes} of {arrived} bytes were read");
}

fn finish_connect(socket: &Socket) -> End {
    let reason = match socket.connect_finish() {
        Err(ConnectError::Refused { reason, .. }) => reason,
        Err(ConnectError::Absent(_)) => EndReason::Refused,
        Err(ConnectError::TimedOut { .. }) => EndReason::GaveUp,
        other => panic!("{other:?}"),
    };
    (Some(reason), Instant::now())
}

/// [CDP-ST-39] [CDP-ST-40] A close that nobody answers is unconfirmed, which is no error.
fn close(socket: &Socket) -> End {
    let reason = match socket.close() {
        Ok(result) => result.reason,
        Err(CloseError::Ended(ended)) => ended.reason,
        Err(error) => panic!("{error}"),
    };
    (Some(reason), Instant::now())
}

fn expect_state(socket: &Socket, state: &str) {
    wait_until(state, || socket.stats().state == state);
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain: {what}");
        thread::sleep(Duration::from_micros(500));
    }
}

/// What a survivor was given at first and holds in the end.
pub(crate) fn settle(before: Census, after: Census) -> Result<(), String> {
    // The link keeps a second descriptor once single packets went to and fro.
    if after.descriptors > before.descriptors + 1 || after.threads != before.threads {
        return Err(format!("{before:?} at first, {after:?} in the end"));
    }
    Ok(())
}
