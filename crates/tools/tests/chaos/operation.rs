//! What a survivor does with its connection, how that ends, and when.

use std::thread;
use std::time::{Duration, Instant};

use weft_socket::{CloseError, ConnectError, EndReason, Node, RecvError, SendError, Service, Socket};

use crate::case::{Case, State};
use crate::pattern::{self, BLOCK};

/// The longest that anything may take that is not measured.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// How an operation of the survivor ended, and when. No reason: the connection goes on.
pub(crate) type End = (Option<EndReason>, Instant);

/// What one kill came to.
pub(crate) struct Kill {
    /// From the kill, or from when the survivor could be answered or did something, until it knew or went on.
    pub(crate) informed: Duration,
    /// What it was told.
    pub(crate) reason: Option<EndReason>,
}

impl Kill {
    pub(crate) fn since(begin: Instant, (reason, end): End) -> Self {
        Self { informed: end.saturating_duration_since(begin), reason }
    }
}

pub(crate) fn in_background<T: Send + 'static>(
    socket: &Socket,
    act: impl FnOnce(&Socket) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let socket = socket.clone();
    thread::spawn(move || act(&socket))
}

/// Sends until `is_enough` or the end, and how many bytes that were.
pub(crate) fn send_until(socket: &Socket, is_enough: impl Fn() -> bool) -> (End, u64) {
    let mut place = 0;
    while !is_enough() {
        match socket.send(&pattern::bytes(place, BLOCK)) {
            Ok(len) => place += len as u64,
            Err(SendError::Ended(ended)) => return ((Some(ended.reason), Instant::now()), place),
            Err(error) => panic!("{error}"),
        }
    }
    ((None, Instant::now()), place)
}

/// Reads to the end, and how many bytes that were, each of which was right. The end of file is [`EndReason::Done`].
pub(crate) fn receive_all(socket: &Socket) -> (End, u64) {
    let mut buffer = vec![0; 2 * BLOCK];
    let mut bytes = 0;
    loop {
        match socket.recv(&mut buffer) {
            Ok(0) | Err(RecvError::EndOfFile) => return ((Some(EndReason::Done), Instant::now()), bytes),
            Ok(len) => {
                assert!(pattern::is_right(bytes, &buffer[..len]), "wrong bytes from the {bytes}th on");
                bytes += len as u64;
            }
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
pub(crate) fn expect_all_of(socket: &Socket, bytes: u64) {
    let arrived = socket.stats().bytes_received;
    // Messages have heads, and the last may have lacked a part.
    let most = if socket.service() == Service::Stream { 0 } else { 2 * BLOCK as u64 };
    assert!(bytes > 0 && arrived - bytes <= most, "{bytes} of {arrived} bytes were read");
}

/// Sends and takes back a good deal; when the first of it came, or the reason why not.
pub(crate) fn exchange(socket: &Socket, begin: u64) -> Result<Instant, EndReason> {
    let sender = in_background(socket, move |socket| {
        for block in 0..EXCHANGE_BLOCKS {
            // The reader learns of the end as well.
            let _ = socket.send(&pattern::bytes(begin + block * BLOCK as u64, BLOCK));
        }
    });
    let mut first = None;
    let mut buffer = vec![0; BLOCK];
    let mut at = 0;
    while at < EXCHANGE_BYTES {
        match socket.recv(&mut buffer) {
            Ok(len) => {
                assert!(pattern::is_right(begin + at, &buffer[..len]), "what came back is not what was sent");
                first.get_or_insert_with(Instant::now);
                at += len as u64;
            }
            Err(RecvError::Ended(ended)) => {
                let _ = sender.join();
                return Err(ended.reason);
            }
            Err(error) => panic!("{error}"),
        }
    }
    sender.join().expect("the sender");
    Ok(first.expect("something came"))
}

const EXCHANGE_BLOCKS: u64 = 12;
/// What [`exchange`] sends.
pub(crate) const EXCHANGE_BYTES: u64 = EXCHANGE_BLOCKS * BLOCK as u64;

pub(crate) fn finish_connect(socket: &Socket) -> End {
    let reason = match socket.connect_finish() {
        Ok(()) => None,
        Err(ConnectError::Refused { reason, .. }) => Some(reason),
        Err(ConnectError::Absent(_)) => Some(EndReason::Refused),
        Err(ConnectError::TimedOut { .. }) => Some(EndReason::GaveUp),
        other => panic!("{other:?}"),
    };
    (reason, Instant::now())
}

/// [CDP-ST-39] [CDP-ST-40] A close that nobody answers is unconfirmed, which is no error. Whether it was confirmed.
pub(crate) fn close(socket: &Socket) -> (End, bool) {
    let (reason, is_confirmed) = match socket.close() {
        Ok(result) => (result.reason, result.confirmed),
        Err(CloseError::Ended(ended)) => (ended.reason, false),
        Err(error) => panic!("{error}"),
    };
    ((Some(reason), Instant::now()), is_confirmed)
}

pub(crate) fn expect_state(socket: &Socket, state: &str) {
    wait_until(state, || socket.stats().state == state);
}

pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain: {what}");
        thread::sleep(Duration::from_micros(500));
    }
}

/// Waits until data flow from `socket`, or none may any more as its peer has no room.
pub(crate) fn wait_until_sent(socket: &Socket, state: State) {
    if state == State::Sending {
        return wait_until("it sends", || socket.stats().bytes_acked > 200_000);
    }
    wait_until("the window is closed", || {
        let stats = socket.stats();
        stats.send_window == 0 && stats.in_flight == 0
    });
}

/// Half-open connections of the listeners of `node`.
pub(crate) fn half_open(node: &Node) -> usize {
    node.stats().listeners.iter().map(|listener| listener.half_open).sum()
}

/// Sockets, table entries, budget, ports of the node. What it was is over, and has left nothing.
pub(crate) fn expect_nothing_left(node: &Node, case: Case) {
    let begin = Instant::now();
    loop {
        let stats = node.stats();
        if stats.connections.is_empty() && stats.listeners.is_empty() && stats.promised_bytes == 0 {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{case}: left behind {stats:?}");
        thread::sleep(Duration::from_millis(2));
    }
}
