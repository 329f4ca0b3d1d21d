//! Packets that a link keeps in order reach their connection in order, whoever has the connection meanwhile.
#![cfg(not(loom))]

use std::sync::Arc;
use std::time::Duration;

use weft_base::{Port, Service};
use weft_engine::congestion::Kind;
use weft_engine::{Config, Engine, Gather, Interest, RecvError, SendError, Settings, Slot, Target, Workers};
use weft_link::{Hub, Link};

const LIMIT: Duration = Duration::from_secs(20);
const CONNECTIONS: u16 = 16;
const MESSAGES: u32 = 2_000;

#[cfg(test)]
fn engine(hub: &Hub, workers: Workers) -> Engine {
    let link: Arc<dyn Link> = Arc::new(hub.endpoint().unwrap());
    Engine::open(Settings { links: vec![link], workers, ..Settings::default() }).unwrap()
}

fn config(engine: &Engine) -> Config {
    // A packet for each message, and fewer in flight than the hub has room for.
    let mut config = Config::new(Service::Datagram, engine.mss());
    (config.coalesce, config.pacing, config.congestion) = (false, false, Kind::Fixed);
    config.congestion_settings.fixed_window = 64;
    config
}

/// Sends all messages on all connections, a few of each in turn.
fn send_all(client: &Engine, slots: &[Arc<Slot>]) {
    for number in 0..MESSAGES {
        for slot in slots {
            while let Err(error) = client.send(slot, &number.to_be_bytes()) {
                assert_eq!(error, SendError::WouldBlock);
                assert!(client.wait(slot, Interest::Writable, Some(client.now() + LIMIT)));
            }
        }
    }
}

fn recv_all(server: &Engine, slot: &Arc<Slot>) {
    let mut buffer = [0; 8];
    for number in 0..MESSAGES {
        loop {
            match server.recv(slot, &mut buffer) {
                Ok(received) => {
                    break assert_eq!((received.len, &buffer[..4]), (4, &number.to_be_bytes()[..]));
                }
                Err(RecvError::WouldBlock) => {
                    assert!(server.wait(slot, Interest::Readable, Some(server.now() + LIMIT)), "at {number}");
                }
                Err(error) => panic!("{error:?}"),
            }
        }
    }
}

#[cfg(test)]
fn transfer(workers: Workers) {
    let hub = Hub::new(1500);
    let (client, server) = (engine(&hub, Workers::default()), engine(&hub, workers));
    let listening = server.listen(Some(Port::ECHO), config(&server), Gather::Off).unwrap();
    let there = Target { node: Some(server.node()), at: Some(server.underlay()), port: Port::ECHO };
    let slots: Vec<_> = (0..CONNECTIONS)
        .map(|_| client.connect(there, None, config(&client), Gather::Off).unwrap())
        .collect();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for slot in &slots {
                assert!(client.wait(slot, Interest::Connected, Some(client.now() + LIMIT)));
            }
            send_all(&client, &slots);
        });
        for _ in 0..CONNECTIONS {
            assert!(server.wait_accept(&listening, Some(server.now() + LIMIT)));
            let slot = server.accept(&listening).unwrap();
            let server = &server;
            scope.spawn(move || recv_all(server, &slot));
        }
    });
    let stats = server.stats();
    let disordered: u64 = stats.connections.iter().map(|slot| slot.counters.out_of_order).sum();
    assert_eq!(disordered, 0, "a link that keeps the order");
    // The last acknowledgements may just be worked off.
    let until = server.now() + LIMIT;
    while server.waiting_packets() > 0 {
        assert!(server.now() < until, "packets lie about");
        std::thread::yield_now();
    }
}

#[test]
fn one_worker_hands_over_what_waited_for_a_busy_slot_first() {
    transfer(Workers { threads: 1, spin: true });
}

#[test]
fn users_hand_over_what_waited_for_a_busy_slot_first() {
    transfer(Workers::default());
}

#[test]
fn workers_that_sleep_share_a_port() {
    transfer(Workers { threads: 3, spin: false });
}

#[test]
fn workers_that_poll_share_a_port() {
    transfer(Workers { threads: 2, spin: true });
}
