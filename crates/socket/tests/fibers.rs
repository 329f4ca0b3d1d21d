//! Blocking calls on fibers: the fiber waits, and its worker goes on.

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;
#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod stopwatch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{PATIENCE, Pair, loopback, node, on, wait_until};
use stopwatch::{Stopwatch, judge};
use weft_fiber::{JoinError, Runtime, State, Why, park_until, spawn, yield_now};
use weft_socket::link::Hub;
use weft_socket::{AcceptError, ConnectError, EndReason, Node, Options, Port, RecvError, SendError, Socket};

#[cfg(test)]
fn workers(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

#[cfg(test)]
/// Sends back what comes, until the end of file.
fn echo(socket: &Socket) -> usize {
    let mut buffer = [0; 2048];
    let mut messages = 0;
    while let Ok(len @ 1..) = socket.recv(&mut buffer) {
        socket.send(&buffer[..len]).unwrap();
        messages += 1;
    }
    messages
}

#[cfg(test)]
/// Sends so many messages, and waits for each to come back.
fn ask(socket: &Socket, messages: usize) {
    let mut buffer = [0; 64];
    for number in 0..messages {
        let text = format!("message {number}");
        socket.send(text.as_bytes()).unwrap();
        let len = socket.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], text.as_bytes());
    }
}

#[cfg(test)]
/// Waits on the fiber that runs until the other fiber waits for this.
fn until_waits_for(fiber: &weft_fiber::Fiber, runtime: &weft_fiber::Handle, why: Why) {
    let waits = || runtime.list().iter().any(|it| it.id == fiber.id() && it.state == State::Waiting(why));
    wait_until(why.words(), waits);
}

#[test]
fn two_fibers_of_one_worker_talk_with_each_other() {
    for options in [Options::datagram(), Options::stream()] {
        let (server, client) = (node(), node());
        let runtime = workers(1);
        let messages = runtime.run(move || {
            let listener = server.listen(0, &options).unwrap();
            let target = (server.underlay(), listener.local_address().port);
            let echo = spawn(move || {
                let socket = listener.accept().unwrap();
                let messages = echo(&socket);
                assert!(socket.close().unwrap().is_clean());
                messages
            });
            let socket = client.connect(target, &options).unwrap();
            ask(&socket, 500);
            assert!(socket.close().unwrap().is_clean());
            echo.unwrap().join().unwrap()
        });
        assert_eq!(messages.unwrap(), 500);
    }
}

#[test]
fn a_thousand_fibers_each_with_a_connection_share_two_workers() {
    const FIBERS: usize = 1_000;
    let runtime = workers(2);
    let done = Arc::new(AtomicUsize::new(0));
    let count = done.clone();
    let echoed: usize = runtime
        .run(move || {
            let (server, client) = (node(), Arc::new(node()));
            let listener = server.listen(0, &Options::datagram().accept_limit(FIBERS)).unwrap();
            let target = (server.underlay(), listener.local_address().port);
            let server = spawn(move || {
                let accepted = listener.incoming().take(FIBERS).map(Result::unwrap);
                let echoes: Vec<_> = accepted.map(|socket| spawn(move || echo(&socket)).unwrap()).collect();
                echoes.into_iter().map(|echo| echo.join().unwrap()).sum::<usize>()
            });
            let clients: Vec<_> = (0..FIBERS)
                .map(|_| {
                    let (client, count) = (client.clone(), count.clone());
                    spawn(move || {
                        let socket = client.connect(target, &Options::datagram()).unwrap();
                        ask(&socket, 10);
                        socket.close().unwrap();
                        count.fetch_add(1, Ordering::Relaxed);
                    })
                    .unwrap()
                })
                .collect();
            clients.into_iter().for_each(|client| client.join().unwrap());
            server.unwrap().join().unwrap()
        })
        .unwrap();
    assert_eq!((done.load(Ordering::Relaxed), echoed), (FIBERS, 10 * FIBERS));
}

/// A flag that is set however the test ends.
struct SetOnDrop(Arc<AtomicBool>);

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn time_outs_hold_and_others_run_meanwhile() {
    let (server, client) = (node(), node());
    workers(1)
        .run(move || {
            let is_over = SetOnDrop(Arc::new(AtomicBool::new(false)));
            let rounds = Arc::new(AtomicU64::new(0));
            let (theirs, counted) = (is_over.0.clone(), rounds.clone());
            let other = spawn(move || {
                while !theirs.load(Ordering::Relaxed) {
                    counted.fetch_add(1, Ordering::Relaxed);
                    yield_now();
                }
            });
            // On the one worker the other runs only while this one waits; and it does, unless its time is over at once.
            let runs_while = |what: &str, wait: &dyn Fn()| {
                let before = rounds.load(Ordering::Relaxed);
                wait_until(what, || {
                    wait();
                    rounds.load(Ordering::Relaxed) > before
                });
            };
            let limit = Duration::from_millis(30);
            let listener = server.listen(0, &Options::datagram()).unwrap();
            let begin = Instant::now();
            runs_while("accept", &|| {
                assert_eq!(listener.accept_timeout(limit).unwrap_err(), AcceptError::TimedOut(limit));
            });

            let target = (server.underlay(), listener.local_address().port);
            let socket = client.connect(target, &Options::datagram()).unwrap();
            let accepted = listener.accept().unwrap();
            socket.set_recv_timeout(Some(limit));
            runs_while("receive", &|| {
                assert_eq!(socket.recv(&mut [0; 8]).unwrap_err(), RecvError::TimedOut(limit));
            });
            socket.set_send_timeout(Some(limit));
            runs_while("send", &|| {
                let sent = (0..).find_map(|_| socket.send(&[7; 60_000]).err());
                assert_eq!(sent, Some(SendError::TimedOut(limit)));
            });
            assert!(begin.elapsed() >= 3 * limit);

            let silent = std::net::UdpSocket::bind(loopback()).unwrap();
            let options = Options::stream().connect_timeout(limit);
            let target = (silent.local_addr().unwrap(), Port::ECHO);
            runs_while("connect", &|| {
                let failed = client.connect(target, &options).unwrap_err();
                assert!(matches!(failed, ConnectError::TimedOut { .. }), "{failed:?}");
            });
            drop(is_over);
            other.unwrap().join().unwrap();
            drop(accepted);
        })
        .unwrap();
}

#[test]
fn a_cancelled_fiber_leaves_its_wait_and_its_connection_is_reset() {
    let pair = Pair::over_udp(&Options::stream());
    let (accepted, connected) = (pair.accepted.clone(), pair.connected.clone());
    drop(pair.connected);
    let runtime = workers(1);
    let reader =
        runtime.spawn(move || connected.recv(&mut [0; 8]).map_err(|error| error.to_string())).unwrap();
    until_waits_for(reader.fiber(), &runtime.handle(), Why::Readable);
    reader.fiber().cancel();
    assert!(matches!(reader.join(), Err(JoinError::Cancelled)));
    let ended = accepted.recv(&mut [0; 8]).unwrap_err();
    assert!(matches!(&ended, RecvError::Ended(ended) if ended.reason == EndReason::Died), "{ended:?}");
}

#[test]
fn every_call_that_waits_can_be_cancelled() {
    let node = Arc::new(node());
    let pair = Pair::over_udp(&Options::stream());
    let silent = std::net::UdpSocket::bind(loopback()).unwrap();
    let target = (silent.local_addr().unwrap(), Port::ECHO);
    let runtime = workers(1);
    let (theirs, stuck) = (node.clone(), pair.connected);
    let fibers = [
        (Why::Readable, runtime.spawn(move || drop(theirs.listen(0, &Options::stream()).unwrap().accept()))),
        (Why::Connected, runtime.spawn(move || drop(node.connect(target, &Options::stream())))),
        (Why::Writable, runtime.spawn(move || assert!(stuck.send(&vec![0; 64 << 20]).is_err()))),
    ];
    for (why, fiber) in fibers {
        let fiber = fiber.unwrap();
        until_waits_for(fiber.fiber(), &runtime.handle(), why);
        fiber.fiber().cancel();
        assert!(matches!(fiber.join(), Err(JoinError::Cancelled)));
    }
}

#[test]
fn a_close_that_has_begun_goes_on_when_its_fiber_is_cancelled() {
    let hub = Hub::new(1_500);
    let slow = on(Node::builder(), hub.endpoint().unwrap());
    let other = on(Node::builder(), hub.endpoint().unwrap());
    let Pair { accepted, connected, client, .. } = Pair::between(other, slow, &Options::stream());
    // More than the reader has room for, so that the close waits for it.
    connected.set_nonblocking(true);
    let mut most = 0;
    wait_until("the reader has no room", || {
        most += std::iter::from_fn(|| connected.send(&[7; 4096]).ok()).sum::<usize>();
        accepted.stats().receive_window == 0 && connected.stats().in_flight == 0
    });
    most += std::iter::from_fn(|| connected.send(&[7; 4096]).ok()).sum::<usize>();
    connected.set_nonblocking(false);
    let runtime = workers(1);
    let closer = runtime.spawn(move || assert!(connected.close().is_err())).unwrap();
    until_waits_for(closer.fiber(), &runtime.handle(), Why::Closed);
    closer.fiber().cancel();
    assert!(matches!(closer.join(), Err(JoinError::Cancelled)));
    let mut buffer = vec![0; 1 << 16];
    let read = std::iter::from_fn(|| Some(accepted.recv(&mut buffer).unwrap()));
    assert_eq!(read.take_while(|&len| len > 0).sum::<usize>(), most);
    drop(client);
}

#[test]
fn fibers_that_wait_hear_of_the_shutdown_of_their_node() {
    let Pair { server, accepted, connected, listener, client } = Pair::over_udp(&Options::datagram());
    accepted.set_recv_timeout(None);
    let runtime = workers(2);
    let reader =
        runtime.spawn(move || accepted.recv(&mut [0; 8]).map_err(|error| error.to_string())).unwrap();
    let acceptor = runtime.spawn(move || listener.accept().map(drop).unwrap_err()).unwrap();
    for fiber in [reader.fiber(), acceptor.fiber()] {
        until_waits_for(fiber, &runtime.handle(), Why::Readable);
    }
    // On a fiber as well: it must not stop the workers that the others need.
    let late = runtime.run(move || server.shutdown(PATIENCE)).unwrap();
    assert_eq!(acceptor.join().unwrap(), AcceptError::Closed);
    assert!(reader.join().unwrap().is_err());
    assert!(connected.close().is_ok());
    assert_eq!(late, 0);
    drop(client);
}

#[test]
fn a_node_ends_with_its_links_on_a_fiber_while_other_workers_rest() {
    let runtime = workers(2);
    for _ in 0..20 {
        runtime
            .run(|| {
                let (server, client) = (node(), node());
                let at = server.underlay();
                let listener = server.listen(0, &Options::datagram()).unwrap();
                let target = (at, listener.local_address().port);
                let other = spawn(move || {
                    let socket = listener.accept().unwrap();
                    echo(&socket)
                });
                let socket = client.connect(target, &Options::datagram()).unwrap();
                ask(&socket, 3);
                weft_fiber::sleep(Duration::from_millis(2));
                socket.close().unwrap();
                assert_eq!(other.unwrap().join().unwrap(), 3);
                drop((server, client));
                assert!(std::net::UdpSocket::bind(at).is_ok(), "the address is still taken");
            })
            .unwrap();
    }
}

#[test]
fn a_worker_that_sleeps_is_woken_by_packets_and_by_others() {
    judge(|| {
        let Pair { server, accepted, connected, client, .. } = Pair::over_udp(&Options::datagram());
        let runtime = Runtime::builder().spins(10).build().unwrap();
        let echo = runtime.spawn(move || echo(&accepted)).unwrap();
        let (mut asked, mut called) = (Duration::ZERO, Duration::ZERO);
        for round in 0..50 {
            thread::sleep(Duration::from_millis(round % 5));
            let begin = Instant::now();
            ask(&connected, 1);
            asked = asked.max(begin.elapsed());
            // A fiber from elsewhere ends the worker's sleep in the transport.
            let begin = Instant::now();
            assert_eq!(runtime.run(move || round).unwrap(), round);
            called = called.max(begin.elapsed());
        }
        connected.close().unwrap();
        assert_eq!(echo.join().unwrap(), 50);
        drop((server, client));
        // A worker that nobody wakes sleeps for 200 ms.
        let is_right = asked.max(called) < Duration::from_millis(150);
        is_right.then_some(()).ok_or_else(|| format!("the longest took {asked:?} and {called:?}"))
    });
}

#[test]
fn a_message_and_an_unpark_are_not_taken_for_each_other() {
    let Pair { accepted, connected, server, client, .. } = Pair::over_udp(&Options::datagram());
    let runtime = workers(1);
    let fiber = runtime
        .spawn(move || {
            let len = accepted.recv(&mut [0; 8]).unwrap();
            let is_unparked = park_until(Instant::now() + PATIENCE).unwrap();
            let is_again = park_until(Instant::now() + Duration::from_millis(10)).unwrap();
            (len, is_unparked, is_again)
        })
        .unwrap();
    until_waits_for(fiber.fiber(), &runtime.handle(), Why::Readable);
    fiber.fiber().unpark();
    until_waits_for(fiber.fiber(), &runtime.handle(), Why::Readable);
    connected.send(b"four").unwrap();
    assert_eq!(fiber.join().unwrap(), (4, true, false));
    drop((server, client));
}

#[test]
fn a_runtime_that_shuts_down_cancels_detached_fibers_that_wait_for_messages() {
    let Pair { accepted, connected, server, client, .. } = Pair::over_udp(&Options::datagram());
    let runtime = workers(2);
    let handle = runtime.handle();
    let fiber = weft_fiber::Spawn::new()
        .detached()
        .spawn_on(&handle, move || accepted.recv(&mut [0; 8]).is_ok())
        .unwrap();
    until_waits_for(fiber.fiber(), &handle, Why::Readable);
    drop(fiber);
    // One that nobody wakes waits for its time-out.
    let watch = Stopwatch::start();
    runtime.shut_down();
    assert!(watch.ran() < PATIENCE / 2, "it was not woken");
    assert!(connected.recv(&mut [0; 8]).is_err());
    drop((server, client));
}

/// What a fiber ends with and nobody takes is dropped by its worker, which runs no fiber then.
#[test]
fn a_node_that_its_fiber_leaves_behind_ends_on_the_worker() {
    let runtime = workers(1);
    let begins = weft_fiber::Waiter::new();
    let begun = begins.clone();
    let (tell, told) = std::sync::mpsc::channel();
    let fiber = runtime.spawn(move || {
        begun.wait();
        let Pair { server, client, connected, accepted, .. } = Pair::over_udp(&Options::datagram());
        tell.send(server.underlay()).unwrap();
        connected.close().unwrap();
        accepted.close().unwrap();
        (server, client)
    });
    drop(fiber);
    begins.wake();
    let at = told.recv().unwrap();
    wait_until("the node ends", || std::net::UdpSocket::bind(at).is_ok());
}
