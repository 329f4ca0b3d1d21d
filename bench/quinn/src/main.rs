//! Measures QUIC by quinn: `rival_quinn serve ADDRESS`, then `rival_quinn run TEST ADDRESS`.
//!
//! A client opens a connection for each test. Its first stream carries the request as one line and, in the end, what the server
//! counted as one line; the messages take unreliable datagrams or a stream of their own. One line of JSON is printed.

mod connect;

use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::{Parser, Subcommand, ValueEnum};
use quinn::{Connection, ReadError, RecvStream};

use connect::Controller;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Bytes a receiver asks for with one call.
const PIECE_BYTES: usize = 256 << 10;
/// Bytes of the longest line of control.
const LINE_BYTES_MAX: usize = 256;
/// How long a receiver of datagrams waits for late ones after the sender is done.
const LATE: Duration = Duration::from_millis(100);

/// Measures QUIC by quinn.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// MTU of the way in bytes, which packets fill from the first on.
    #[arg(long, global = true, default_value_t = 1_500)]
    mtu: u16,
}

#[derive(Subcommand)]
enum Command {
    /// Answers clients until it is stopped.
    Serve { address: SocketAddr },
    /// Runs one test and prints one line of JSON.
    Run {
        test: Test,
        address: SocketAddr,
        /// Bytes of a message; for a bulk stream give what one write takes, such as 131072.
        #[arg(long, default_value_t = 64)]
        size: usize,
        /// Seconds to send.
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// The congestion controller of what the client sends.
        #[arg(long, default_value = "cubic")]
        controller: Controller,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Test {
    /// One stream, one write for each message, received in large pieces.
    Stream,
    /// Unreliable datagrams, one call for each message.
    Datagram,
}

/// What the receiving side counted.
#[derive(Default)]
struct Tally {
    messages: u64,
    bytes: u64,
    /// From the first to the last.
    seconds: f64,
    cpu_seconds: f64,
}

fn main() -> ExitCode {
    let Arguments { command, mtu } = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let outcome = runtime.block_on(async {
        match command {
            Command::Serve { address } => serve(address, mtu).await,
            Command::Run { test, address, size, seconds, controller } => {
                // A thread of the runtime runs it, as it would run any task of a server.
                let time = Duration::from_secs_f64(seconds);
                tokio::spawn(async move { run(test, address, size.max(1), time, controller, mtu).await })
                    .await?
            }
        }
    });
    outcome.map_or_else(|error| fail(error.as_ref()), |()| ExitCode::SUCCESS)
}

fn fail(error: &dyn Error) -> ExitCode {
    let mut text = format!("rival_quinn: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    eprintln!("{text}");
    ExitCode::FAILURE
}

// ── The server ────────────────────────────────────────────────────────────────────────────────────────────────────

async fn serve(address: SocketAddr, mtu: u16) -> Result<()> {
    let endpoint = connect::endpoint(address, Some(connect::server(mtu)?), mtu)?;
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let answered = async { answer(&incoming.await?).await }.await;
            if let Err(error) = answered {
                eprintln!("rival_quinn: {error}");
            }
        });
    }
    Ok(())
}

/// One test, from its request to what was counted.
async fn answer(connection: &Connection) -> Result<()> {
    let (mut say, mut hear) = connection.accept_bi().await?;
    let mut line = vec![0; LINE_BYTES_MAX];
    let len = hear.read(&mut line).await?.unwrap_or(0);
    let (test, size) = std::str::from_utf8(&line[..len])?.trim().split_once(' ').ok_or("no request")?;
    let size: usize = size.parse()?;
    let cpu = cpu_seconds();
    let mut tally = match <Test as ValueEnum>::from_str(test, false)? {
        Test::Stream => drain_stream(connection.accept_uni().await?, size).await?,
        Test::Datagram => drain_datagrams(connection, &mut hear).await?,
    };
    tally.cpu_seconds = cpu_seconds() - cpu;
    let Tally { messages, bytes, seconds, cpu_seconds } = tally;
    say.write_all(format!("{messages} {bytes} {seconds:.9} {cpu_seconds:.6}").as_bytes()).await?;
    say.finish()?;
    // The client closes when it has the line.
    connection.closed().await;
    Ok(())
}

async fn drain_stream(mut stream: RecvStream, size: usize) -> Result<Tally> {
    let (mut bytes, mut started) = (0, None);
    // Unordered would spare quinn its queue, but a stream is bytes in order, as TCP and Weft deliver them.
    loop {
        match stream.read_chunk(PIECE_BYTES, true).await {
            Ok(Some(chunk)) => bytes += chunk.bytes.len() as u64,
            // The sender ends a stream so, wherever it is.
            Ok(None) | Err(ReadError::Reset(_)) => break,
            Err(error) => return Err(error.into()),
        }
        started = started.or_else(|| Some(Instant::now()));
    }
    let seconds = started.map_or(0.0, |started| started.elapsed().as_secs_f64());
    Ok(Tally { messages: bytes / size as u64, bytes, seconds, cpu_seconds: 0.0 })
}

/// Counts datagrams until the client has ended its stream of control and no late one comes.
async fn drain_datagrams(connection: &Connection, hear: &mut RecvStream) -> Result<Tally> {
    let (mut tally, mut first, mut last, mut is_over) = (Tally::default(), None, Instant::now(), false);
    let mut end = std::pin::pin!(hear.read_to_end(LINE_BYTES_MAX));
    loop {
        let datagram = connection.read_datagram();
        let message = if is_over {
            match tokio::time::timeout(LATE, datagram).await {
                Ok(message) => message?,
                Err(_) => break,
            }
        } else {
            tokio::select! {
                biased;
                message = datagram => message?,
                ended = &mut end => { ended?; is_over = true; continue }
            }
        };
        tally.messages += 1;
        tally.bytes += message.len() as u64;
        // The clock is asked once for many messages; the end is exact to these.
        if tally.messages % 64 == 1 {
            last = Instant::now();
            first = first.or(Some(last));
        }
    }
    tally.seconds = first.map_or(0.0, |first| (last - first).as_secs_f64());
    Ok(tally)
}

// ── The client ────────────────────────────────────────────────────────────────────────────────────────────────────

async fn run(
    test: Test,
    address: SocketAddr,
    size: usize,
    time: Duration,
    controller: Controller,
    mtu: u16,
) -> Result<()> {
    let any: SocketAddr = if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let endpoint = connect::endpoint(any, None, mtu)?;
    let connection = endpoint.connect_with(connect::client(controller, mtu)?, address, "weft")?.await?;
    let (mut say, mut hear) = connection.open_bi().await?;
    let name = test.to_possible_value().ok_or("no name")?;
    say.write_all(format!("{} {size}\n", name.get_name()).as_bytes()).await?;
    let (cpu, message, started) = (cpu_seconds(), Bytes::from(vec![0xA5; size]), Instant::now());
    // A receiver of datagrams that gets to none before the end reads what its buffer holds at once: that is not the rate.
    let (sent, seconds_min) = match test {
        Test::Stream => (send_stream(&connection, &message, time).await?, 1e-9),
        Test::Datagram => {
            let sent = send_datagrams(&connection, &message, time).await?;
            (sent, started.elapsed().as_secs_f64())
        }
    };
    say.finish()?;
    let line = hear.read_to_end(LINE_BYTES_MAX).await?;
    let (client_cpu, packet_bytes) = (cpu_seconds() - cpu, connection.stats().path.current_mtu);
    let words: Vec<f64> = std::str::from_utf8(&line)?
        .split_whitespace()
        .map(str::parse)
        .collect::<std::result::Result<_, _>>()?;
    let [messages, bytes, seconds, server_cpu] = words[..] else { return Err("no result".into()) };
    println!(
        "{{\"test\": \"quinn-{}\", \"size\": {size}, \"controller\": \"{controller:?}\", \"messages_per_s\": {:.3}, \
         \"gbit_per_s\": {:.3}, \"bytes\": {bytes}, \"sent\": {sent}, \"packet_bytes\": {packet_bytes}, \"client_cpu_s\": {client_cpu:.3}, \
         \"server_cpu_s\": {server_cpu:.3}}}",
        name.get_name(),
        messages / seconds.max(seconds_min),
        bytes * 8e-9 / seconds.max(seconds_min),
    );
    connection.close(0u8.into(), b"done");
    endpoint.wait_idle().await;
    Ok(())
}

async fn send_stream(connection: &Connection, message: &Bytes, time: Duration) -> Result<u64> {
    let mut stream = connection.open_uni().await?;
    let (started, mut sent) = (Instant::now(), 0);
    while started.elapsed() < time {
        // The clock is not asked for every message.
        for _ in 0..16 {
            stream.write_all(message).await?;
        }
        sent += 16;
    }
    // What was not delivered in time does not count, however slow the way.
    stream.reset(0u8.into())?;
    Ok(sent)
}

/// Waits for room in the queue: without, quinn would drop the oldest message for each new one.
async fn send_datagrams(connection: &Connection, message: &Bytes, time: Duration) -> Result<u64> {
    let (started, mut sent) = (Instant::now(), 0);
    while started.elapsed() < time {
        for _ in 0..16 {
            connection.send_datagram_wait(message.clone()).await?;
        }
        sent += 16;
    }
    Ok(sent)
}

/// Processor time of this process so far, user and system, in seconds.
fn cpu_seconds() -> f64 {
    // SAFETY: all bits zero are a value of this type.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a value of ours.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    [usage.ru_utime, usage.ru_stime].iter().map(|time| time.tv_sec as f64 + time.tv_usec as f64 / 1e6).sum()
}
