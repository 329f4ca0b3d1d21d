//! A thread that stands still over the end of its time.

#[cfg(test)]
#[allow(dead_code, reason = "each test file uses its part")]
mod common;

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use common::{Pair, on};
use weft_socket::link::{Endpoint, Hub, Link, LinkInfo, PollFds, RecvBatch, SendBatch};
use weft_socket::{Node, Options};

/// The thread that stands still.
const READER: &str = "reader";

/// A device at which [`READER`] stands still at its second look, when it has found nothing there: its first is before it
/// waits. From then on nobody else looks.
struct Standstill {
    device: Endpoint,
    looks: AtomicUsize,
    /// Tells that it stands still, and when it goes on.
    script: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl Link for Standstill {
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        let is_reader = thread::current().name() == Some(READER);
        if !is_reader && script.is_none() {
            return Ok(0);
        }
        let count = self.device.recv(batch)?;
        if is_reader
            && count == 0
            && self.looks.fetch_add(1, Ordering::SeqCst) == 1
            && let Some((tell, go_on)) = script.take()
        {
            tell.send(()).expect("the test waits for it");
            go_on.recv().expect("the test ends it");
        }
        Ok(count)
    }

    fn send(&self, batch: &mut SendBatch) -> io::Result<usize> {
        self.device.send(batch)
    }

    fn info(&self) -> LinkInfo {
        self.device.info()
    }

    fn poll_fds(&self) -> PollFds {
        self.device.poll_fds()
    }
}

/// What lies in the device when a wait is over came in time.
#[test]
fn a_message_that_came_in_time_is_received_however_late_the_thread_looks() {
    let hub = Hub::new(1_500);
    let ((tell, stands), (go_on, goes_on)) = (channel(), channel());
    let device = hub.endpoint().unwrap();
    let script = Mutex::new(Some((tell, goes_on)));
    let device = Standstill { device, looks: AtomicUsize::new(0), script };
    let server = on(Node::builder().linger(Duration::ZERO), device);
    let client = on(Node::builder().linger(Duration::ZERO), hub.endpoint().unwrap());
    let Pair { accepted, connected, server: _server, client: _client, .. } =
        Pair::between(server, client, &Options::stream());
    let limit = Duration::from_millis(50);
    accepted.set_recv_timeout(Some(limit));
    let reader = thread::Builder::new().name(READER.to_owned());
    let reader = reader.spawn(move || accepted.recv(&mut [0; 16])).unwrap();
    stands.recv().unwrap();
    connected.send(b"in time").unwrap();
    connected.flush();
    thread::sleep(2 * limit);
    go_on.send(()).unwrap();
    assert_eq!(reader.join().unwrap(), Ok(7));
}
