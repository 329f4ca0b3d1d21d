//! A network of an I/O node: its link, what waits to leave by it, and what came by it.

use std::sync::Arc;

use weft_link::{Link, LinkInfo, Waker};
use weft_route::NetworkId;
use weft_sync::Mutex;
use weft_wire::Encapsulation;

use crate::queue::Queue;
use crate::{Arrivals, NetworkStats};

/// One network. Order of locks: the arrivals of the network whose thread this is, then one queue, then nothing.
pub(crate) struct Port {
    pub(crate) network: NetworkId,
    pub(crate) link: Arc<dyn Link>,
    pub(crate) encapsulation: Encapsulation,
    info: LinkInfo,
    /// Written by the thread of this network.
    pub(crate) arrivals: Mutex<Arrivals>,
    /// Filled and emptied by the threads of the other networks.
    pub(crate) queue: Mutex<Queue>,
    /// Ends the sleep of the thread of this network.
    pub(crate) waker: Waker,
}

impl Port {
    pub(crate) fn new(network: NetworkId, link: Arc<dyn Link>) -> std::io::Result<Self> {
        let info = link.info();
        let encapsulation = match info.encapsulation {
            weft_link::Encapsulation::Udp => Encapsulation::Udp,
            weft_link::Encapsulation::Ethernet => Encapsulation::Ethernet,
            weft_link::Encapsulation::Simulated => Encapsulation::Simulated,
        };
        Ok(Self {
            network,
            link,
            encapsulation,
            queue: Mutex::new(Queue::new(&info)),
            info,
            arrivals: Mutex::default(),
            waker: Waker::new()?,
        })
    }

    pub(crate) fn stats(&self) -> NetworkStats {
        let (departures, queued) = {
            let queue = self.queue.lock();
            (queue.counts, queue.len())
        };
        NetworkStats {
            network: self.network,
            link: self.info.name.clone(),
            local: self.info.local,
            arrivals: *self.arrivals.lock(),
            departures,
            queued,
            counters: self.link.stats(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io;

    use super::*;
    use weft_link::{PollFds, RecvBatch, SendBatch};

    /// A link that brings nothing and takes so many packets; or none, and says that it is broken.
    pub(crate) struct Narrow {
        room: Mutex<Option<usize>>,
        taken: Mutex<Vec<Vec<u8>>>,
    }

    impl Narrow {
        pub(crate) fn new(room: usize) -> Self {
            Self { room: Mutex::new(Some(room)), taken: Mutex::default() }
        }

        pub(crate) fn broken() -> Self {
            Self { room: Mutex::new(None), taken: Mutex::default() }
        }

        pub(crate) fn widen(&self, room: usize) {
            *self.room.lock() = Some(room);
        }
    }

    /// What the link took, whole.
    pub(crate) fn frames(link: &Narrow) -> Vec<Vec<u8>> {
        link.taken.lock().clone()
    }

    impl Link for Narrow {
        fn recv(&self, _: &mut RecvBatch) -> io::Result<usize> {
            Ok(0)
        }

        fn send(&self, batch: &mut SendBatch) -> io::Result<usize> {
            let mut room = self.room.lock();
            let Some(room) = room.as_mut() else { return Err(io::ErrorKind::BrokenPipe.into()) };
            let count = batch.len().min(*room);
            *room -= count;
            let frames = batch.iter().take(count).map(|frame| [frame.head, frame.body].concat());
            self.taken.lock().extend(frames);
            batch.consume(count);
            if batch.is_empty() { Ok(count) } else { Err(io::ErrorKind::WouldBlock.into()) }
        }

        fn info(&self) -> LinkInfo {
            LinkInfo {
                name: "narrow".to_owned(),
                mss: 1472,
                mtu: 1500,
                local: ([127, 0, 0, 1], 9).into(),
                encapsulation: weft_link::Encapsulation::Simulated,
                gso: false,
                gro: false,
                send_buffer_bytes: 0,
                receive_buffer_bytes: 0,
            }
        }

        fn poll_fds(&self) -> PollFds {
            PollFds::new()
        }
    }
}
