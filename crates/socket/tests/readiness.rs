//! Waiting by descriptors and by futures.

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;

use std::future::Future;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use common::{PATIENCE, Pair, node, pattern, read_exactly, wait_until};
use tokio::io::Interest as TokioInterest;
use tokio::io::unix::AsyncFd;
use weft_socket::asynchronous::{AsyncListener, AsyncSocket, connect};
use weft_socket::link::wait;
use weft_socket::{Interest, Options, Readiness, RecvError, SendError, Socket};

fn is_ready(socket: &Socket, interest: Interest, limit: Duration) -> bool {
    let readiness = socket.readiness(interest).expect("a descriptor");
    wait(&[readiness.as_raw_fd()], Some(limit)).expect("a wait") > 0
}

#[test]
fn a_descriptor_is_readable_exactly_while_data_waits() {
    let pair = Pair::over_udp(&Options::datagram());
    let soon = Duration::from_millis(20);
    assert!(!is_ready(&pair.accepted, Interest::Readable, soon));
    pair.connected.send(b"one").unwrap();
    assert!(is_ready(&pair.accepted, Interest::Readable, PATIENCE));
    assert!(is_ready(&pair.accepted, Interest::Readable, soon), "level-triggered");
    pair.accepted.try_recv(&mut [0; 8]).unwrap();
    assert_eq!(pair.accepted.try_recv(&mut [0; 8]), Err(RecvError::WouldBlock));
    assert!(!is_ready(&pair.accepted, Interest::Readable, soon));
    pair.connected.close_start();
    assert!(is_ready(&pair.accepted, Interest::Readable, PATIENCE), "the end is readable");
}

#[test]
fn a_descriptor_is_writable_exactly_while_there_is_room() {
    let pair = Pair::over_udp(&Options::stream().send_bytes(100_000).receive_slots(16));
    assert!(is_ready(&pair.connected, Interest::Writable, PATIENCE));
    let data = pattern(50_000, 1);
    // What the window of the peer takes makes room again, until it is closed and all that it took is acknowledged.
    let mut sent = 0;
    wait_until("no room is left", || {
        let is_settled = pair.accepted.stats().receive_window == 0 && pair.connected.stats().in_flight == 0;
        if is_ready(&pair.connected, Interest::Writable, Duration::ZERO) {
            sent += pair.connected.try_send(&data).unwrap_or(0);
            return false;
        }
        is_settled
    });
    assert!(!is_ready(&pair.connected, Interest::Writable, Duration::from_millis(20)));
    read_exactly(&pair.accepted, sent);
    assert!(is_ready(&pair.connected, Interest::Writable, PATIENCE));
}

#[test]
fn a_listener_is_readable_while_somebody_waits() {
    let (server, client) = (node(), node());
    let listener = server.listen(0, &Options::stream()).unwrap();
    let readiness = listener.readiness().unwrap();
    let fds = [readiness.as_raw_fd()];
    assert_eq!(wait(&fds, Some(Duration::from_millis(10))).unwrap(), 0);
    let socket =
        client.connect((server.underlay(), listener.local_address().port), &Options::stream()).unwrap();
    assert_eq!(wait(&fds, Some(PATIENCE)).unwrap(), 1);
    drop(listener.try_accept().unwrap());
    assert_eq!(wait(&fds, Some(Duration::from_millis(10))).unwrap(), 0);
    drop(socket);
}

#[test]
fn a_started_connect_becomes_writable() {
    let (server, client) = (node(), node());
    let listener = server.listen(0, &Options::stream()).unwrap();
    let target = (server.underlay(), listener.local_address().port);
    let socket = client.connect_start(target, &Options::stream()).unwrap();
    socket.set_nonblocking(true);
    assert!(is_ready(&socket, Interest::Writable, PATIENCE));
    socket.connect_finish().unwrap();
    let nobody = client.connect_start((server.underlay(), 9.try_into_port()), &Options::stream()).unwrap();
    assert!(is_ready(&nobody, Interest::Writable, PATIENCE), "a failure is a result too");
    nobody.connect_finish().unwrap_err();
}

trait TryIntoPort {
    fn try_into_port(self) -> weft_socket::Port;
}

impl TryIntoPort for u16 {
    fn try_into_port(self) -> weft_socket::Port {
        weft_socket::Port::new(self).expect("not port 0")
    }
}

/// The futures run on a single-threaded runtime beside blocking threads.
#[test]
fn futures_carry_a_stream_on_one_thread() {
    const LEN: usize = 3_000_000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (server, client) = (node(), node());
        let listener = AsyncListener::from(server.listen(0, &Options::stream()).unwrap());
        let target = (server.underlay(), listener.get_ref().local_address().port);
        let data = pattern(LEN, 9);
        let sent = data.clone();
        let writer = tokio::spawn(async move {
            let socket = connect(&client, target, &Options::stream()).await.unwrap();
            assert_eq!(socket.send(&sent).await.unwrap(), LEN);
            let result = socket.close().await.unwrap();
            drop(client);
            result
        });
        let socket = listener.accept().await.unwrap();
        let mut received = Vec::new();
        let mut buffer = vec![0; 100_000];
        loop {
            match socket.recv(&mut buffer).await.unwrap() {
                0 => break,
                len => received.extend_from_slice(&buffer[..len]),
            }
        }
        assert!(received == data);
        assert!(tokio::time::timeout(PATIENCE, writer).await.unwrap().unwrap().confirmed);
    });
}

#[test]
fn futures_are_woken_on_many_threads() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let (server, client) = (node(), node());
        let listener = AsyncListener::from(server.listen(0, &Options::datagram()).unwrap());
        let target = (server.underlay(), listener.get_ref().local_address().port);
        let echo = tokio::spawn(async move {
            for _ in 0..8 {
                let socket = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    while let Ok(message) = socket.recv_message().await {
                        socket.send(&message.to_vec()).await.unwrap();
                    }
                });
            }
        });
        let mut tasks = Vec::new();
        for number in 0..8_u8 {
            let client = client.clone();
            tasks.push(tokio::spawn(async move {
                let socket: AsyncSocket = connect(&client, target, &Options::datagram()).await.unwrap();
                for round in 0..50_u8 {
                    socket.send(&[number, round]).await.unwrap();
                    assert_eq!(socket.recv_message().await.unwrap().to_vec(), [number, round]);
                }
            }));
        }
        for task in tasks {
            tokio::time::timeout(PATIENCE, task).await.unwrap().unwrap();
        }
        echo.await.unwrap();
    });
}

fn watch(readiness: Readiness) -> AsyncFd<Readiness> {
    // SAFETY: `Readiness` owns its descriptor, hands out the same one each time, and closes it only when dropped.
    unsafe { AsyncFd::register_with_interest(readiness, TokioInterest::READABLE) }.expect("a reactor")
}

/// The readiness descriptor under tokio's own reactor.
#[test]
fn tokio_watches_the_descriptor() {
    let pair = Pair::over_udp(&Options::stream().send_bytes(300_000));
    let data = pattern(2_000_000, 4);
    let (sender, sent) = (pair.connected.clone(), data.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let writer = thread::spawn(move || {
        runtime.block_on(async {
            let writable = watch(sender.readiness(Interest::Writable).unwrap());
            let mut at = 0;
            while at < sent.len() {
                let mut guard = writable.readable().await.unwrap();
                match sender.try_send(&sent[at..]) {
                    Ok(len) => at += len,
                    Err(SendError::WouldBlock) => guard.clear_ready(),
                    Err(error) => panic!("{error}"),
                }
            }
        });
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let received = runtime.block_on(async {
        let readable = watch(pair.accepted.readiness(Interest::Readable).unwrap());
        let mut received = Vec::new();
        let mut buffer = vec![0; 65_536];
        while received.len() < data.len() {
            let waited = tokio::time::timeout(PATIENCE, readable.readable()).await;
            let mut guard = waited.expect("woken in time").unwrap();
            match pair.accepted.try_recv(&mut buffer) {
                Ok(len) => received.extend_from_slice(&buffer[..len]),
                Err(RecvError::WouldBlock) => guard.clear_ready(),
                Err(error) => panic!("{error}"),
            }
        }
        received
    });
    assert!(received == data);
    writer.join().unwrap();
}

#[test]
fn a_thread_that_sleeps_is_woken_after_a_long_pause() {
    let pair = Pair::over_udp(&Options::stream());
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..3 {
                thread::sleep(Duration::from_millis(60));
                pair.connected.send(b"x").unwrap();
            }
        });
        assert_eq!(read_exactly(&pair.accepted, 3), b"xxx");
    });
}

#[derive(Default)]
struct Counted(AtomicUsize);

impl Wake for Counted {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// As by time-outs of many tasks, each of which waits for a moment on a connection that says nothing.
#[test]
fn a_future_that_is_dropped_leaves_no_waker_and_its_neighbour_waits_on() {
    let pair = Pair::over_udp(&Options::datagram());
    let socket = AsyncSocket::from(pair.connected.clone());
    let task = Arc::new(Counted::default());
    let waker = Waker::from(task.clone());
    let mut context = Context::from_waker(&waker);
    let mut buffers = [[0; 8]; 2];
    let [one, other] = &mut buffers;
    let mut stays = Box::pin(socket.recv(one));
    assert!(stays.as_mut().poll(&mut context).is_pending());
    let counts = Arc::strong_count(&task);
    let mut goes = Box::pin(socket.recv(other));
    assert!(goes.as_mut().poll(&mut context).is_pending());
    assert!(goes.as_mut().poll(&mut context).is_pending());
    drop(goes);
    assert_eq!(Arc::strong_count(&task), counts);
    pair.accepted.send(b"news").unwrap();
    wait_until("the task is woken", || task.0.load(Ordering::SeqCst) > 0);
    assert!(matches!(stays.as_mut().poll(&mut context), Poll::Ready(Ok(4))));
    drop(stays);
    drop(waker);
    assert_eq!(Arc::strong_count(&task), 1);
}
