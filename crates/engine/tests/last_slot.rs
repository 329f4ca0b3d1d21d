//! A port remembers the connection of its last packet, so that the next needs no look-up; and no longer than that is there. An engine
//! ends with its last handle, wherever that goes.
#![cfg(not(loom))]

use std::sync::{Arc, Mutex, Weak, mpsc};
use std::task::{Context, Poll, Wake};
use std::time::Duration;

use weft_base::{Port, Service};
use weft_engine::congestion::Kind;
use weft_engine::{Config, Engine, Gather, Interest, Listening, Settings, Slot, Target};
use weft_link::{Hub, Link};

const LIMIT: Duration = Duration::from_secs(10);

struct Ends {
    client: Engine,
    server: Engine,
    listening: Arc<Listening>,
}

#[cfg(test)]
impl Ends {
    fn new() -> Self {
        let hub = Hub::new(1500);
        let engine = || {
            let link: Arc<dyn Link> = Arc::new(hub.endpoint().unwrap());
            Engine::open(Settings { links: vec![link], ..Settings::default() }).unwrap()
        };
        let (client, server) = (engine(), engine());
        let listening = server.listen(Some(Port::ECHO), config(&server), Gather::Off).unwrap();
        Self { client, server, listening }
    }

    /// A connection that has carried a message to the server.
    fn talk(&self, local: Option<Port>) -> (Arc<Slot>, Arc<Slot>) {
        let there =
            Target { node: Some(self.server.node()), at: Some(self.server.underlay()), port: Port::ECHO };
        let here = self.client.connect(there, local, config(&self.client), Gather::Off).unwrap();
        assert!(self.client.wait(&here, Interest::Connected, Some(self.client.now() + LIMIT)));
        assert!(self.server.wait_accept(&self.listening, Some(self.server.now() + LIMIT)));
        let there = self.server.accept(&self.listening).unwrap();
        self.client.send(&here, b"a message").unwrap();
        assert!(self.server.wait(&there, Interest::Readable, Some(self.server.now() + LIMIT)));
        let mut buffer = [0; 16];
        self.server.recv(&there, &mut buffer).unwrap();
        assert_eq!(&buffer[..9], b"a message");
        (here, there)
    }
}

fn config(engine: &Engine) -> Config {
    Config { congestion: Kind::Cubic, ..Config::new(Service::Datagram, engine.mss()) }
}

/// Aborts and lets go of a slot, of which nobody else knows.
fn end(engine: &Engine, slot: Arc<Slot>) -> Weak<Slot> {
    engine.abort(&slot);
    engine.release(&slot);
    let weak = Arc::downgrade(&slot);
    drop(slot);
    weak
}

fn is_gone(slot: &Weak<Slot>) -> bool {
    (0..1_000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        slot.strong_count() == 0
    })
}

#[test]
fn a_port_keeps_no_connection_that_is_over() {
    let ends = Ends::new();
    let (here, there) = ends.talk(None);
    let there = end(&ends.server, there);
    assert!(is_gone(&there), "who ended it");
    ends.client.release(&here);
    let here = Arc::downgrade(&{ here });
    assert!(is_gone(&here), "who was told so");
}

#[test]
fn a_packet_of_the_same_flow_goes_to_the_connection_that_has_it_now() {
    let ends = Ends::new();
    let local = Port::new(50_000);
    for _ in 0..3 {
        let (here, there) = ends.talk(local);
        end(&ends.client, here);
        assert!(ends.server.wait(&there, Interest::Closed, Some(ends.server.now() + LIMIT)));
        end(&ends.server, there);
    }
}

/// Has the last handle of an engine, and lets go of it when it is woken.
struct Last {
    engine: Mutex<Option<Engine>>,
    ended: mpsc::Sender<Option<String>>,
}

impl Wake for Last {
    fn wake(self: Arc<Self>) {
        let engine = self.engine.lock().expect("no panic").take();
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(engine)))
            .map(|()| self.ended.send(std::thread::current().name().map(str::to_owned)));
    }
}

/// A task may be polled, and end, where it is woken.
#[test]
fn a_thread_of_an_engine_may_end_it() {
    let Ends { client, server, listening } = Ends::new();
    let there = Target { node: Some(server.node()), at: Some(server.underlay()), port: Port::ECHO };
    let here = client.connect(there, None, config(&client), Gather::Off).unwrap();
    assert!(client.wait(&here, Interest::Connected, Some(client.now() + LIMIT)));
    assert!(server.wait_accept(&listening, Some(server.now() + LIMIT)));
    let there = server.accept(&listening).unwrap();
    let (ended, end) = mpsc::channel();
    let last = Arc::new(Last { engine: Mutex::new(None), ended });
    let waker = last.clone().into();
    assert_eq!(
        server.poll_ready(&there, Interest::Readable, &mut Context::from_waker(&waker)),
        Poll::Pending
    );
    *last.engine.lock().unwrap() = Some(server);
    client.send(&here, b"a message").unwrap();
    let thread = end.recv_timeout(LIMIT).expect("an end of the engine");
    assert_eq!(thread.as_deref(), Some("weft-0"), "nobody else was there to take the message in");
}
