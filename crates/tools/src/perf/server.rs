//! The serving end: waits for tests, and offers the echo service for `weft ping`.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use weft_base::Port;
use weft_link::UnderlayText;
use weft_socket::{Listener, Options, Socket, Stream};

use super::Args;
use super::protocol::{
    Answer, Finish, GREETING_BYTES, Greeting, Request, Results, Service, Start, hear, tell,
};
use super::traffic::Flow;
use crate::cpu::CpuTime;
use crate::exit::Failure;
use crate::net::{self, LocalNode, Role};
use crate::recv::Listening;
use crate::{echo, say};

/// Longest wait for the next word of a client, beyond the time of the test.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where load connections find the test that they belong to.
type Tests = Arc<Mutex<HashMap<u64, Sender<(u32, Socket)>>>>;

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let local = LocalNode::open(&args.node, Role::Server, "perf")?;
    local.shutdown_on_interrupt(|| {});
    let listen = |port: u16, options: &Options| {
        local.node.listen(port, options).map_err(|error| net::listen_failure(&error))
    };
    let port = args.port.unwrap_or(net::PERF_PORT);
    let streams = listen(port, &args.socket.options(weft_base::Service::Stream))?;
    let datagram_port = if port == 0 { 0 } else { port.saturating_add(1) };
    let datagrams = listen(datagram_port, &args.socket.options(weft_base::Service::Datagram))?;
    let echoes = listen(Port::ECHO.get(), &args.socket.options(weft_base::Service::Datagram))?;
    local.join()?;
    announce(args, &Listening::new(&local, &streams));

    let tests = Tests::default();
    let server = Server { datagram_port: datagrams.local_address().port, tests };
    thread::spawn(move || echo::serve(&echoes, |_, _| {}));
    if args.once {
        let once = server.clone();
        thread::spawn(move || once.serve(&datagrams, |_| {}));
        let (ended, is_over) = mpsc::channel();
        thread::spawn(move || {
            let ended = Arc::new(Mutex::new(ended));
            server.serve(&streams, move |_| {
                // Nobody waits any more when a second test ends.
                let _ = ended.lock().unwrap_or_else(PoisonError::into_inner).send(());
            });
        });
        let _ = is_over.recv();
        local.shutdown();
        return Ok(());
    }
    let other = server.clone();
    thread::spawn(move || other.serve(&datagrams, |_| {}));
    let quiet = args.json;
    server.serve(&streams, move |line| {
        if !quiet {
            say::line(line);
        }
    });
    Ok(())
}

fn announce(args: &Args, listening: &Listening) {
    if args.json {
        say::json(listening);
    } else {
        say::line(&listening.text());
        say::line("Ctrl-C ends it");
    }
}

#[derive(Clone)]
struct Server {
    datagram_port: Port,
    tests: Tests,
}

impl Server {
    /// Takes connections, each on a thread of its own; `on_test` gets a line about each test that ended.
    fn serve(&self, listener: &Listener, on_test: impl Fn(&str) + Clone + Send + 'static) {
        let port = listener.local_address().port;
        for accepted in listener.incoming() {
            let Ok(socket) = accepted else { continue };
            let (server, on_test) = (self.clone(), on_test.clone());
            thread::spawn(move || server.take(socket, port, on_test));
        }
    }

    fn take(&self, socket: Socket, port: Port, on_test: impl Fn(&str)) {
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
        let peer = UnderlayText(socket.peer_underlay());
        let Ok(control) = Stream::try_from(socket) else { return };
        let (sender, flows) = mpsc::channel();
        self.locked().insert(greeting.cookie, sender);
        let line = match self.test(&control, port, &flows) {
            Ok(line) => format!("{peer}: {line}"),
            Err(error) => format!("{peer}: the test broke off: {error}"),
        };
        self.locked().remove(&greeting.cookie);
        // The client closes first.
        control.set_recv_timeout(Some(Duration::from_secs(2)));
        let _ = control.recv(&mut [0]);
        let _ = control.close_timeout(Duration::from_secs(1));
        on_test(&line);
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Sender<(u32, Socket)>>> {
        self.tests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One test from request to results; a line about it.
    fn test(&self, mut control: &Stream, port: Port, flows: &Receiver<(u32, Socket)>) -> io::Result<String> {
        let request: Request = hear(&mut control)?;
        if let Err(why) = request.check() {
            tell(&mut control, &Answer::Refused { why: why.clone() })?;
            return Ok(format!("refused: {why}"));
        }
        let load_port = if request.service == Service::Stream { port } else { self.datagram_port };
        tell(&mut control, &Answer::Ready { port: load_port.get() })?;
        let sockets = gather(flows, request.parallel)?;
        control.set_recv_timeout(Some(Duration::from_millis(request.time_ms) + PATIENCE));
        let stop = Arc::new(AtomicBool::new(false));
        let (cpu_before, started_at) = (CpuTime::now(), Instant::now());
        let (sends, receives) = (request.direction.server_sends(), request.direction.client_sends());
        let mut flows: Vec<Flow> =
            sockets.into_iter().map(|socket| Flow::start(socket, &request, sends, receives, &stop)).collect();
        tell(&mut control, &Start {})?;
        let finish = hear::<Finish>(&mut control);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let finish = finish?;
        let cpu = CpuTime::now().since(cpu_before, started_at.elapsed());
        let connections = flows
            .iter_mut()
            .zip(finish.sent_bytes.iter().chain(std::iter::repeat(&0)))
            .map(|(flow, &expected)| {
                let (_, send_error) = flow.finish_sending();
                let receive_error = flow.finish_receiving(expected);
                flow.result(send_error.or(receive_error))
            })
            .collect();
        let results = Results { cpu, connections };
        tell(&mut control, &results)?;
        let (sent, received) = super::report::totals(&results.connections);
        Ok(format!("sent {}, received {}", crate::units::bytes(sent), crate::units::bytes(received)))
    }
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
