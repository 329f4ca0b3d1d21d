//! The asking end: sets a test up, watches it, and reports.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weft_base::Port;
use weft_socket::{Node, Options, Socket, Stream, Target as SocketTarget};

use super::Args;
use super::protocol::{
    Answer, Direction, Finish, Greeting, Request, Results, Service, Start, VERSION, hear, tell,
};
use super::report::{Interval, Report, Test};
use super::traffic::Flow;
use crate::cpu::CpuTime;
use crate::exit::{Code, Failure, peer_cause};
use crate::net::{self, ListenPort, NodeFlags, Reached};
use crate::target::Target;
use crate::{say, signal};

/// Longest wait for the next word of the server while nothing runs.
const PATIENCE: Duration = Duration::from_secs(30);
/// Silence after which the server is asked for a sign of life: one that only sends is silent when it has died, and nothing that
/// leaves this end would meet its absence.
const ASK_INTERVAL: Duration = Duration::from_secs(1);
/// How often the test looks whether it is over.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

pub(super) fn run(args: &Args, target: &Target) -> Result<(), Failure> {
    let request = request(args);
    request.check().map_err(|why| Failure::new(Code::Usage, why, "look at `weft perf --help`"))?;
    let target = &with_port_of(args, target);
    let default_port = Port::new(net::PERF_PORT).unwrap_or(Port::ECHO);
    let connections = usize::try_from(args.parallel).unwrap_or(usize::MAX);
    let node = NodeFlags { connections, ..args.node.clone() };
    let Reached { local, peer, at } = net::reach(target, default_port, &args.peer, &node, "perf")?;
    let client = Client { args, node: &local.node, peer, at, target, request };
    let report = client.test();
    local.shutdown();
    let (report, is_interrupted) = report?;
    if args.json {
        say::json(&report);
    } else {
        report.lines().iter().for_each(|line| say::line(line));
    }
    if is_interrupted {
        let what = "the test was interrupted, and its figures are of what it did until then";
        return Err(Failure::new(Code::Interrupted, what, ""));
    }
    match report.first_error() {
        None => Ok(()),
        Some(error) => {
            Err(Failure::new(Code::Lost, format!("{target}: {error}"), "look at both ends, and repeat"))
        }
    }
}

/// The server, with the port that a flag gives if its own text has none.
fn with_port_of(args: &Args, target: &Target) -> Target {
    match (&target.port, &args.port) {
        (None, Some(ListenPort::At(port))) => Target { port: Some(port.clone()), ..target.clone() },
        _ => target.clone(),
    }
}

fn request(args: &Args) -> Request {
    let direction = match (args.reverse, args.bidir) {
        (true, _) => Direction::ToClient,
        (_, true) => Direction::Both,
        _ => Direction::ToServer,
    };
    Request {
        version: VERSION,
        service: if args.datagram { Service::Datagram } else { Service::Stream },
        direction,
        size_bytes: args.size.unwrap_or(if args.datagram { 1444 } else { 128 << 10 }),
        parallel: args.parallel,
        time_ms: u64::try_from(args.time.as_millis()).unwrap_or(u64::MAX),
        bytes: args.bytes.map(|bytes| bytes.div_ceil(u64::from(args.parallel.max(1)))),
        zerocopy: args.zerocopy,
    }
}

struct Client<'a> {
    args: &'a Args,
    node: &'a Node,
    peer: SocketTarget,
    at: SocketAddr,
    target: &'a Target,
    request: Request,
}

impl Client<'_> {
    /// The report, and whether the user has interrupted the test.
    fn test(&self) -> Result<(Report, bool), Failure> {
        // `--local-port` is that of the load.
        let mut options = self.args.socket.options(weft_base::Service::Stream).local_port(0);
        if self.args.socket.keepalive.is_none() {
            options = options.keepalive(ASK_INTERVAL, PATIENCE);
        }
        let socket = self.connect(self.peer, &options)?;
        // until here there is nothing to tell
        let interrupted = signal::interrupted();
        let control = Stream::try_from(socket).map_err(|e| Failure::new(Code::Other, e.to_string(), ""))?;
        control.set_recv_timeout(Some(PATIENCE));
        let cookie = cookie(&control);
        let report = self.talk(&control, cookie, &interrupted);
        let _ = control.close_timeout(Duration::from_secs(1));
        Ok((report?, interrupted.load(Ordering::Relaxed)))
    }

    fn connect(&self, peer: SocketTarget, options: &Options) -> Result<Socket, Failure> {
        let server = net::listens("weft perf --server", self.target);
        self.node
            .connect(peer, options)
            .map_err(|error| net::no_server(&error, self.target, self.at, &server))
    }

    fn talk(&self, mut control: &Stream, cookie: u64, interrupted: &AtomicBool) -> Result<Report, Failure> {
        let strange = |error: std::io::Error| self.strange(&error);
        use std::io::Write;
        control.write_all(&Greeting { cookie, index: None }.emit()).map_err(strange)?;
        tell(&mut control, &self.request).map_err(strange)?;
        let port = match hear(&mut control).map_err(strange)? {
            Answer::Ready { port } => port,
            Answer::Refused { why } => {
                let what = format!("{} refused the test: {why}", self.target);
                return Err(Failure::new(Code::Protocol, what, "ask for something else"));
            }
        };
        let sockets = self.open_flows(cookie, port)?;
        hear::<Start>(&mut control).map_err(strange)?;

        let (cpu_before, started_at) = (CpuTime::now(), Instant::now());
        let stop = Arc::new(AtomicBool::new(false));
        let (sends, receives) =
            (self.request.direction.client_sends(), self.request.direction.server_sends());
        let flows: std::io::Result<Vec<Flow>> = sockets
            .into_iter()
            .map(|socket| Flow::start(socket, &self.request, sends, receives, &stop))
            .collect();
        let mut flows = flows.map_err(|error| Failure::thread(&error))?;
        let mut test = Test::new(&self.request, self.target, &flows[0].socket.stats());
        if !self.args.json {
            test.head().iter().for_each(|line| say::line(line));
        }
        let intervals = self.watch(control, &flows, started_at, interrupted);
        test.note_end(&flows[0].socket.stats());
        stop.store(true, Ordering::Relaxed);
        let sent: Vec<(u64, Option<String>)> = flows.iter_mut().map(Flow::finish_sending).collect();
        let elapsed = started_at.elapsed();
        tell(&mut control, &Finish { sent_bytes: sent.iter().map(|(bytes, _)| *bytes).collect() })
            .map_err(strange)?;
        let there: Results = hear(&mut control).map_err(strange)?;
        let expected = there.connections.iter().map(|other| other.sent_bytes).chain(std::iter::repeat(0));
        flows.iter().zip(expected).for_each(|(flow, bytes)| flow.expect(bytes));
        let connections = flows
            .iter_mut()
            .zip(sent)
            .map(|(flow, (_, send_error))| {
                let receive_error = flow.finish_receiving();
                let result = flow.result(send_error.or(receive_error));
                // Both ends have everything.
                flow.socket.close_start();
                result
            })
            .collect();
        // with the work for what was under way at the end
        let cpu = CpuTime::now().since(cpu_before, elapsed);
        Ok(Report::new(test, intervals, Results { cpu, connections }, there))
    }

    fn strange(&self, error: &std::io::Error) -> Failure {
        let what = format!("{} does not go on with the test: {}", self.target, peer_cause(error));
        if error.kind() == std::io::ErrorKind::InvalidData {
            return Failure::new(
                Code::Protocol,
                what,
                "check that `weft perf --server` of this version runs there",
            );
        }
        Failure::new(Code::Lost, what, "check that `weft perf --server` still runs there")
    }

    fn open_flows(&self, cookie: u64, port: u16) -> Result<Vec<Socket>, Failure> {
        let port = Port::new(port)
            .ok_or_else(|| Failure::new(Code::Protocol, format!("{} names port 0", self.target), ""))?;
        let peer = with_port(self.peer, port);
        let first_port = self.args.socket.local_port.filter(|&port| port != 0);
        if let Some(first) = first_port
            && u32::from(first) + self.request.parallel > u32::from(u16::MAX) + 1
        {
            let what = format!("there are not {} ports from {first} on", self.request.parallel);
            return Err(Failure::new(Code::Usage, what, "give a smaller --local-port"));
        }
        (0_u16..)
            .zip(0..self.request.parallel)
            .map(|(index, _)| {
                let options = self.args.socket.options(self.request.service.socket());
                let port = first_port.map_or(0, |first| first + index);
                let socket = self.connect(peer, &options.local_port(port))?;
                socket
                    .send(&Greeting { cookie, index: Some(index.into()) }.emit())
                    .map_err(|error| net::send_failure(&error))?;
                Ok(socket)
            })
            .collect()
    }

    /// Looks at the counters until the test is over.
    fn watch(
        &self,
        control: &Stream,
        flows: &[Flow],
        started_at: Instant,
        interrupted: &AtomicBool,
    ) -> Vec<Interval> {
        let mut intervals = Vec::new();
        let mut before = Interval::origin(flows);
        let mut due = self.args.interval;
        loop {
            let is_over = interrupted.load(Ordering::Relaxed)
                || match self.request.bytes {
                    None => started_at.elapsed() >= self.request.time(),
                    Some(bytes) => flows.iter().all(|flow| {
                        let to_come = if self.request.direction.server_sends() { bytes } else { 0 };
                        flow.has_sent_all() && flow.received.bytes() >= to_come
                    }),
                }
                || flows.iter().any(Flow::has_broken)
                // The server has nothing to say before this end does: its connection has ended.
                || control.is_readable();
            let elapsed = started_at.elapsed();
            if elapsed >= due || is_over {
                let (interval, now) = Interval::since(&before, flows, elapsed);
                if !is_over || interval.is_worth_a_line() {
                    if !self.args.json {
                        say::line(&interval.line());
                    }
                    intervals.push(interval);
                }
                before = now;
                due += self.args.interval;
            }
            if is_over {
                return intervals;
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }
}

/// A number that names the test: two ports and node numbers differ between any two clients of a server.
fn cookie(control: &Stream) -> u64 {
    let local = control.local_address();
    let time = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| u64::from(time.subsec_nanos()));
    (u64::from(local.node.get()) << 40) | (u64::from(local.port.get()) << 24) ^ time
}

fn with_port(target: SocketTarget, port: Port) -> SocketTarget {
    match target {
        SocketTarget::Address(address) => SocketTarget::Address(weft_socket::Address { port, ..address }),
        SocketTarget::Underlay { at, .. } => SocketTarget::Underlay { at, port },
        SocketTarget::Both { address, at } => {
            SocketTarget::Both { address: weft_socket::Address { port, ..address }, at }
        }
    }
}
