//! The serving end: waits for tests, and offers the echo service for `weft ping`.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use weft_base::Port;
use weft_link::UnderlayText;
use weft_socket::{Listener, Options, Socket, Stream};

use super::Args;
use super::protocol::{
    Answer, Finish, GREETING_BYTES, Greeting, Request, Results, Service, Start, hear, tell,
};
use super::traffic::Flow;
use crate::cpu::CpuTime;
use crate::exit::{Code, Failure, peer_cause};
use crate::net::{self, LocalNode, Role};
use crate::recv::Listening;
use crate::{echo, say, signal, units};

/// Longest wait for the next word of a client, beyond the time of the test.
const PATIENCE: Duration = Duration::from_secs(30);

/// Memory that the tests which go on at one time may take, about.
const TESTS_BYTES_MAX: u64 = 2 << 30;

/// Where load connections find the test that they belong to.
type Tests = Arc<Mutex<HashMap<u64, Sender<(u32, Socket)>>>>;

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let local = LocalNode::open(&args.node, Role::Server, "perf")?;
    local.shutdown_on_interrupt(|| {});
    let listen = |port: u16, options: &Options| {
        local.node.listen(port, options).map_err(|error| net::listen_failure(&error))
    };
    let port = args.port.as_ref().map_or(Ok(net::PERF_PORT), |port| local.port(port))?;
    let datagram_port = port_after(port)?;
    let streams = listen(port, &args.socket.options(weft_base::Service::Stream))?;
    let datagrams = listen(datagram_port, &args.socket.options(weft_base::Service::Datagram))?;
    let echoes = listen(Port::ECHO.get(), &args.socket.options(weft_base::Service::Datagram))?;
    local.join()?;
    let listening = Listening::new(&local, &streams);

    let spawned = spawn(move || echo::serve(&echoes, |_, _| {}));
    spawned.map_err(|error| Failure::thread(&error))?;
    let (ended, tests) = mpsc::channel();
    let server = Server {
        datagram_port: datagrams.local_address().port,
        tests: Tests::default(),
        taken_bytes: Arc::default(),
        ended,
    };
    for listener in [datagrams, streams] {
        let server = server.clone();
        spawn(move || server.serve(&listener)).map_err(|error| Failure::thread(&error))?;
    }
    drop(server);
    if !args.once {
        signal::serves();
    }
    announce(args, &listening);
    for tested in tests {
        // How the only test fails is told with how the command does.
        if !args.once || tested.result.is_ok() {
            tested.tell(args.json);
        }
        if args.once {
            local.shutdown();
            return tested.result.map(|_| ());
        }
    }
    Ok(())
}

/// Where the datagram service is, next to that of streams; 0 is any for both.
fn port_after(port: u16) -> Result<u16, Failure> {
    let refused = |what: &str| Err(Failure::new(Code::Usage, what, "give another --port"));
    match port {
        0 => Ok(0),
        u16::MAX => refused("the datagram service would be on the port after 65535, and there is none"),
        port if port == Port::ECHO.get() || port + 1 == Port::ECHO.get() => {
            refused("CDP port 7 is that of the echo service")
        }
        port => Ok(port + 1),
    }
}

fn announce(args: &Args, listening: &Listening) {
    if args.json {
        say::event(listening);
        return;
    }
    say::remark(&listening.text());
    if !args.once {
        say::remark("Ctrl-C ends it");
    }
}

/// A test that ended.
struct Tested {
    peer: String,
    result: Result<Done, Failure>,
}

/// What a finished test did, as JSON shows it.
#[derive(Serialize)]
struct Done {
    test: Request,
    sent_bytes: u64,
    received_bytes: u64,
    #[serde(flatten)]
    results: Results,
}

impl Tested {
    fn tell(&self, is_json: bool) {
        let peer = &self.peer;
        match (&self.result, is_json) {
            (Ok(done), true) => say::event(&json!({ "event": "test", "peer": peer, "done": done })),
            (Err(failure), true) => {
                say::event(&json!({ "event": "test", "peer": peer, "error": failure.to_string() }));
            }
            (Ok(done), false) => {
                let (sent, received) = (units::bytes(done.sent_bytes), units::bytes(done.received_bytes));
                say::remark(&format!("{peer}: sent {sent}, received {received}"));
            }
            (Err(failure), false) => say::remark(&format!("{peer}: {failure}")),
        }
    }
}

#[derive(Clone)]
struct Server {
    datagram_port: Port,
    tests: Tests,
    /// Memory that the tests take which go on.
    taken_bytes: Arc<AtomicU64>,
    /// Who waits for the end of tests.
    ended: Sender<Tested>,
}

impl Server {
    /// Takes connections, each on a thread of its own.
    fn serve(&self, listener: &Listener) {
        let port = listener.local_address().port;
        for accepted in listener.incoming() {
            let Ok(socket) = accepted else { continue };
            let (server, peer) = (self.clone(), UnderlayText(socket.peer_underlay()).to_string());
            if let Err(error) = spawn(move || server.take(socket, port)) {
                // The connection went with the closure; what it was to do cannot be done.
                let _ = self.ended.send(Tested { peer, result: Err(Failure::thread(&error)) });
            }
        }
    }

    fn take(&self, socket: Socket, port: Port) {
        socket.set_recv_timeout(Some(PATIENCE));
        let Some(greeting) = greeting_of(&socket) else {
            socket.abort();
            return;
        };
        if let Some(index) = greeting.index {
            let test = self.locked().get(&greeting.cookie).cloned();
            // A load connection without a test, or one too many, is closed by dropping it.
            let _ = test.map(|test| test.send((index, socket)));
            return;
        }
        let peer = UnderlayText(socket.peer_underlay()).to_string();
        let Ok(control) = Stream::try_from(socket) else { return };
        let (sender, flows) = mpsc::channel();
        self.locked().insert(greeting.cookie, sender);
        let result = self.test(&control, port, &flows).unwrap_or_else(|error| {
            Err(Failure::new(Code::Lost, format!("the test broke off: {}", peer_cause(&error)), ""))
        });
        self.locked().remove(&greeting.cookie);
        // The client closes first.
        control.set_recv_timeout(Some(Duration::from_secs(2)));
        let _ = control.recv(&mut [0]);
        let _ = control.close_timeout(Duration::from_secs(1));
        // Nobody waits any more when a second test ends.
        let _ = self.ended.send(Tested { peer, result });
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Sender<(u32, Socket)>>> {
        self.tests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One test from request to results; fails within if it is refused.
    fn test(
        &self,
        mut control: &Stream,
        port: Port,
        flows: &Receiver<(u32, Socket)>,
    ) -> io::Result<Result<Done, Failure>> {
        let request: Request = hear(&mut control)?;
        let share = request.check().and_then(|()| Share::take(&self.taken_bytes, request.memory_bytes()));
        if let Err(why) = &share {
            let why = why.clone();
            tell(&mut control, &Answer::Refused { why: why.clone() })?;
            return Ok(Err(Failure::new(Code::Protocol, format!("refused: {why}"), "")));
        }
        let load_port = if request.service == Service::Stream { port } else { self.datagram_port };
        tell(&mut control, &Answer::Ready { port: load_port.get() })?;
        let sockets = gather(flows, request.parallel)?;
        control.set_recv_timeout(Some(Duration::from_millis(request.time_ms) + PATIENCE));
        let stop = Arc::new(AtomicBool::new(false));
        let (cpu_before, started_at) = (CpuTime::now(), Instant::now());
        let (sends, receives) = (request.direction.server_sends(), request.direction.client_sends());
        let flows: io::Result<Vec<Flow>> =
            sockets.into_iter().map(|socket| Flow::start(socket, &request, sends, receives, &stop)).collect();
        let mut flows = match flows {
            Ok(flows) => flows,
            Err(error) => return Ok(Err(Failure::thread(&error))),
        };
        tell(&mut control, &Start {})?;
        let finish = hear::<Finish>(&mut control);
        stop.store(true, Ordering::Relaxed);
        let finish = finish?;
        let elapsed = started_at.elapsed();
        let expected = finish.sent_bytes.iter().chain(std::iter::repeat(&0));
        flows.iter().zip(expected).for_each(|(flow, &bytes)| flow.expect(bytes));
        let connections = flows
            .iter_mut()
            .map(|flow| {
                let (_, send_error) = flow.finish_sending();
                let receive_error = flow.finish_receiving();
                flow.result(send_error.or(receive_error))
            })
            .collect();
        // What was under way at the end is among the bytes, so its work is in the processor time.
        let cpu = CpuTime::now().since(cpu_before, elapsed);
        let results = Results { cpu, connections };
        tell(&mut control, &results)?;
        let (sent_bytes, received_bytes) = super::report::totals(&results.connections);
        Ok(Ok(Done { test: request, sent_bytes, received_bytes, results }))
    }
}

/// What a test takes of the memory for all.
struct Share<'a> {
    of: &'a AtomicU64,
    bytes: u64,
}

impl<'a> Share<'a> {
    fn take(of: &'a AtomicU64, bytes: u64) -> Result<Self, String> {
        let share = Self { of, bytes };
        if of.fetch_add(bytes, Ordering::Relaxed) + bytes > TESTS_BYTES_MAX {
            return Err("too many tests go on; try again when some have ended".to_owned());
        }
        Ok(share)
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("weft-perf".into()).spawn(work).map(drop)
}

fn greeting_of(socket: &Socket) -> Option<Greeting> {
    let mut bytes = [0; GREETING_BYTES];
    match socket.service() {
        weft_base::Service::Datagram => {
            let len = socket.recv(&mut bytes).ok()?;
            Greeting::parse(&bytes[..len])
        }
        weft_base::Service::Stream => {
            let mut stream = Stream::try_from(socket.clone()).ok()?;
            stream.read_exact(&mut bytes).ok()?;
            Greeting::parse(&bytes)
        }
    }
}

/// Waits until all load connections are there, in order of their numbers.
fn gather(flows: &Receiver<(u32, Socket)>, parallel: u32) -> io::Result<Vec<Socket>> {
    let mut sockets = HashMap::new();
    while sockets.len() < parallel as usize {
        let late = || io::Error::new(io::ErrorKind::TimedOut, "not all load connections came");
        let (index, socket) = flows.recv_timeout(PATIENCE).map_err(|_| late())?;
        if index < parallel {
            sockets.insert(index, socket);
        }
    }
    Ok((0..parallel).filter_map(|index| sockets.remove(&index)).collect())
}
