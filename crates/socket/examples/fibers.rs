//! An echo server with a fiber for each connection, and clients that are fibers too: thousands of blocking calls on two
//! threads.
//!
//! `cargo run --release -p weft-socket --example fibers -- 1000`

use std::error::Error;
use std::time::Instant;

use weft_fiber::{JoinHandle, Runtime, spawn};
use weft_socket::{Listener, Node, Options, RecvError, Socket, Target};

const MESSAGES: usize = 100;

type Failure = Box<dyn Error + Send + Sync>;

/// Sends back what comes, until the peer closes.
fn echo(socket: &Socket) -> Result<usize, Failure> {
    let mut buffer = [0; 2048];
    let mut messages = 0;
    loop {
        // These calls wait, but only the fiber: its worker runs others, or looks for packets.
        let len = match socket.recv(&mut buffer) {
            Err(RecvError::EndOfFile) => break,
            result => result?,
        };
        socket.send(&buffer[..len])?;
        messages += 1;
    }
    socket.close()?;
    Ok(messages)
}

/// A fiber for each connection.
fn serve(listener: &Listener, connections: usize) -> Result<usize, Failure> {
    let mut fibers = Vec::new();
    for socket in listener.incoming().take(connections) {
        let socket = socket?;
        fibers.push(spawn(move || echo(&socket))?);
    }
    fibers.into_iter().map(result_of).sum()
}

fn result_of<T>(fiber: JoinHandle<Result<T, Failure>>) -> Result<T, Failure> {
    fiber.join().map_err(|error| error.to_string())?
}

fn ask(node: &Node, target: Target) -> Result<(), Failure> {
    let socket = node.connect(target, &Options::datagram())?;
    let mut buffer = [0; 64];
    for _ in 0..MESSAGES {
        socket.send(b"hello, fiber")?;
        socket.recv(&mut buffer)?;
    }
    socket.close()?;
    Ok(())
}

fn main() -> Result<(), Failure> {
    let connections = std::env::args().nth(1).map_or(Ok(100), |text| text.parse())?;
    let server = Node::builder().bind("127.0.0.1:0".parse()?).open()?;
    let client = Node::builder().bind("127.0.0.1:0".parse()?).open()?;
    let listener = server.listen(7, &Options::datagram().accept_limit(connections))?;
    let target = Target::from((server.underlay(), listener.local_address().port));

    let runtime = Runtime::builder().workers(2).build()?;
    let begin = Instant::now();
    let echoes = runtime.spawn(move || serve(&listener, connections))?;
    let clients = (0..connections).map(|_| {
        let node = client.clone();
        runtime.spawn(move || ask(&node, target))
    });
    for fiber in clients.collect::<Vec<_>>() {
        result_of(fiber?)?;
    }
    let messages = result_of(echoes)?;
    println!("{connections} connections, {messages} messages there and back in {:.1?}", begin.elapsed());
    Ok(())
}
