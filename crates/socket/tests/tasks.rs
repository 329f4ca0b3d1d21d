//! Tasks of tokio, one of which makes the progress of the node.
#![cfg(feature = "tokio")]

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;

use std::net::SocketAddr;

use common::{PATIENCE, node};
use weft_socket::asynchronous::{AsyncListener, AsyncSocket, connect, keep_going};
use weft_socket::{Node, Options, Port};

const PEERS: u8 = 8;
const ROUNDS: u8 = 100;

/// Sends back what comes until the peer closes.
#[cfg(test)]
async fn answer(socket: AsyncSocket) {
    let mut buffer = [0; 16];
    while let Ok(len @ 1..) = socket.recv(&mut buffer).await {
        socket.send(&buffer[..len]).await.unwrap();
    }
}

/// A conversation with the server. In the midst of it the task that makes the client's progress ends.
#[cfg(test)]
async fn ask(server: (SocketAddr, Port), number: u8) {
    let client: Node = node();
    let progress = tokio::spawn(keep_going(client.progress().unwrap()));
    let socket = connect(&client, server, &Options::datagram()).await.unwrap();
    for round in 0..ROUNDS {
        if round == ROUNDS / 2 {
            progress.abort();
        }
        socket.send(&[number, round]).await.unwrap();
        let mut answer = [0; 16];
        let len = tokio::time::timeout(PATIENCE, socket.recv(&mut answer)).await.unwrap().unwrap();
        assert_eq!(answer[..len], [number, round]);
    }
    assert!(socket.close().await.unwrap().is_clean());
}

#[test]
fn many_tasks_talk_while_one_makes_the_progress_and_after_it() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let server = node();
        let progress = tokio::spawn(keep_going(server.progress().unwrap()));
        let listener = AsyncListener::from(server.listen(0, &Options::datagram()).unwrap());
        let target = (server.underlay(), listener.get_ref().local_address().port);
        let clients: Vec<_> = (0..PEERS).map(|number| tokio::spawn(ask(target, number))).collect();
        for _ in 0..PEERS {
            let socket = tokio::time::timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
            tokio::spawn(answer(socket));
        }
        for client in clients {
            client.await.unwrap();
        }
        assert!(!progress.is_finished());
    });
}

/// Who always finds something leaves the thread to the others now and then.
#[test]
fn a_task_that_is_behind_keeps_no_other_from_its_turn() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let open = || Node::builder().bind("127.0.0.1:0".parse().unwrap()).open().unwrap();
        let (server, client) = (open(), open());
        let listener = AsyncListener::from(server.listen(0, &Options::datagram()).unwrap());
        let target = (server.underlay(), listener.get_ref().local_address().port);
        let socket = connect(&client, target, &Options::datagram()).await.unwrap();
        let accepted = listener.accept().await.unwrap();
        for _ in 0..500 {
            socket.send(b"message").await.unwrap();
        }
        socket.get_ref().flush();
        while accepted.get_ref().stats().bytes_received < 500 * 7 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let turns = std::rc::Rc::new(std::cell::Cell::new(0));
        let theirs = turns.clone();
        let local = tokio::task::LocalSet::new();
        local.spawn_local(async move {
            loop {
                theirs.set(theirs.get() + 1);
                tokio::task::yield_now().await;
            }
        });
        local
            .run_until(async {
                for _ in 0..400 {
                    accepted.recv(&mut [0; 16]).await.unwrap();
                }
            })
            .await;
        assert!(turns.get() >= 5, "{} turns", turns.get());
    });
}

/// A task that keeps a node going does not keep it.
#[test]
fn a_node_ends_although_a_task_keeps_it_going() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let node = Node::builder().bind("127.0.0.1:0".parse().unwrap()).open().unwrap();
        let at = node.underlay();
        let task = tokio::spawn(keep_going(node.progress().unwrap()));
        tokio::task::yield_now().await;
        drop(node);
        Node::builder().bind(at).open().expect("the port is free again");
        task.abort();
    });
}
