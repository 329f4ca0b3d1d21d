//! Tasks of tokio, one thread at either end.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::runtime::{Builder, Runtime};
use weft_bench::{cpu_seconds, sockets};
use weft_socket::Node;
use weft_socket::asynchronous::{self, AsyncListener, AsyncSocket, keep_going};

use super::{
    Contender, Failure, LAST, Load, MORE, Outcome, PORT, Pace, Sends, Test, any, nanos_since, target,
};

/// Room for what one receive takes.
const PIECE_BYTES: usize = 256 << 10;

/// One end of a connection.
enum End {
    Udp(UdpSocket),
    Tcp(TcpStream),
    Weft(AsyncSocket),
}

impl End {
    async fn send(&mut self, data: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Udp(socket) => drop(socket.send(data).await?),
            Self::Tcp(stream) => stream.write_all(data).await?,
            Self::Weft(socket) => drop(socket.send(data).await?),
        }
        Ok(())
    }

    /// The bytes that came; 0 at the end.
    async fn recv(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        Ok(match self {
            Self::Udp(socket) => socket.recv(buffer).await?,
            Self::Tcp(stream) => stream.read(buffer).await?,
            Self::Weft(socket) => socket.recv(buffer).await?,
        })
    }
}

fn node(contender: Contender, bind: SocketAddr) -> Result<Node, Failure> {
    let node = super::node(bind)?;
    if contender == Contender::WeftProgress {
        tokio::spawn(keep_going(node.progress()?));
    }
    Ok(node)
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_io().build()
}

pub(super) fn serve(contender: Contender, test: Test, address: SocketAddr) -> Result<(), Failure> {
    runtime()?.block_on(async {
        let load = test.load();
        match contender {
            Contender::Udp => {
                let socket = UdpSocket::bind(address).await?;
                let (_, client) = socket.peek_from(&mut [0; 1]).await?;
                socket.connect(client).await?;
                answer(End::Udp(socket), load).await
            }
            Contender::Tcp => {
                let listener = TcpListener::bind(address).await?;
                sockets::answer_by_cubic(&listener);
                loop {
                    let (stream, _) = listener.accept().await?;
                    stream.set_nodelay(load.is_echo)?;
                    told(answer(End::Tcp(stream), load).await);
                }
            }
            Contender::Weft | Contender::WeftProgress => {
                let node = node(contender, address)?;
                let listener = AsyncListener::from(node.listen(PORT.get(), &test.options())?);
                loop {
                    let socket = listener.accept().await?;
                    told(answer(End::Weft(socket), load).await);
                }
            }
        }
    })
}

/// A client that is gone too early is no reason for a server to go.
fn told(outcome: Result<(), Failure>) {
    if let Err(error) = outcome {
        eprintln!("loops: {error}");
    }
}

/// Until the client is gone.
async fn answer(mut end: End, load: Load) -> Result<(), Failure> {
    let mut buffer = vec![0; PIECE_BYTES];
    let (cpu, mut sends) = (cpu_seconds(), Sends::of(load));
    loop {
        let Ok(len @ 1..) = end.recv(&mut buffer).await else { return Ok(()) };
        if load.is_echo {
            end.send(&buffer[..len]).await?;
        } else if sends.note(&buffer[..len]) {
            end.send(&(cpu_seconds() - cpu).to_be_bytes()).await?;
        }
    }
}

pub(super) fn run(
    contender: Contender,
    test: Test,
    address: SocketAddr,
    pace: Pace,
) -> Result<Outcome, Failure> {
    runtime()?.block_on(async {
        let load = test.load();
        let end = match contender {
            Contender::Udp => {
                let socket = UdpSocket::bind(any()).await?;
                socket.connect(address).await?;
                End::Udp(socket)
            }
            Contender::Tcp => {
                let stream = sockets::connect_tcp(address, sockets::CUBIC)?;
                stream.set_nonblocking(true)?;
                let stream = TcpStream::from_std(stream)?;
                stream.set_nodelay(load.is_echo)?;
                End::Tcp(stream)
            }
            Contender::Weft | Contender::WeftProgress => {
                let node = node(contender, any())?;
                End::Weft(asynchronous::connect(&node, target(address), &test.options()).await?)
            }
        };
        if load.is_echo { ask(end, load, pace).await } else { pour(end, load, pace).await }
    })
}

async fn ask(mut end: End, load: Load, pace: Pace) -> Result<Outcome, Failure> {
    let (message, mut buffer) = (vec![MORE; load.bytes], vec![0; load.bytes]);
    let (begin, mut round_trips_ns) = (Instant::now(), Vec::new());
    while begin.elapsed() < pace.time {
        let start = Instant::now();
        end.send(&message).await?;
        let mut len = 0;
        while len < load.bytes {
            len += end.recv(&mut buffer[len..]).await?;
        }
        round_trips_ns.push(nanos_since(start));
        if !pace.pause.is_zero() {
            std::thread::sleep(pace.pause);
        }
    }
    Ok(Outcome { round_trips_ns, ..Outcome::default() })
}

async fn pour(mut end: End, load: Load, pace: Pace) -> Result<Outcome, Failure> {
    let mut message = vec![MORE; load.bytes];
    let (begin, mut sends) = (Instant::now(), 0);
    while begin.elapsed() < pace.time {
        // The clock is not asked for every message.
        for _ in 0..16 {
            end.send(&message).await?;
        }
        sends += 16;
    }
    message[0] = LAST;
    end.send(&message).await?;
    let mut answer = [0; size_of::<f64>()];
    let mut len = 0;
    while len < answer.len() {
        len += end.recv(&mut answer[len..]).await?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let server_cpu_seconds = f64::from_be_bytes(answer);
    Ok(Outcome { sends: sends + 1, seconds, server_cpu_seconds, ..Outcome::default() })
}
