//! The thread of one network: takes what its link brings, sends it on, and sleeps when there is nothing to do.
//!
//! It sleeps on the descriptors of its own link, on those of links that took less than there was for them, and on its
//! waker. Who stops the node raises the flag before the waker, and nobody takes that back: a thread which is about to sleep
//! wakes at once.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use smallvec::{SmallVec, smallvec};
use weft_link::{BUDGET_PACKETS, Interest, RecvBatch, wait, wait_for};

use crate::port::Port;
use crate::turn::{NetworkBits, Networks, bit};

/// Looks in vain after which a thread that polls offers the processor.
const YIELD_EVERY: u32 = 16;
/// Descriptors that a thread sleeps on without memory from the heap: its waker, its link's, and those of the networks that are full.
const FEW: usize = 10;
/// How long a thread sleeps on a link that has no descriptor, or is broken.
const NAP: Duration = Duration::from_millis(1);

/// What the thread of `port` owns.
pub(crate) struct Worker<'a> {
    networks: &'a Networks,
    port: &'a Port,
    batch: RecvBatch,
    /// Networks whose links took less than there was for them.
    stuck: NetworkBits,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(networks: &'a Networks, port: &'a Port) -> Self {
        Self { networks, port, batch: RecvBatch::with_budget(BUDGET_PACKETS), stuck: 0 }
    }

    /// Runs until `is_stopping`. After a packet it looks at the link for the time `spin` before it sleeps.
    pub(crate) fn run(&mut self, is_stopping: &AtomicBool, spin: Duration) {
        while !is_stopping.load(Ordering::SeqCst) {
            match self.turn() {
                Ok(0) if self.stuck != 0 || !self.spin(spin) => self.sleep(),
                Ok(_) => {}
                // A link that is broken for now is tried again; it counts its errors.
                Err(_) => std::thread::sleep(NAP),
            }
        }
    }

    /// Forwards until nothing lies in the link and nothing waits to leave, or until `deadline`.
    pub(crate) fn drain(&mut self, deadline: Instant) {
        while Instant::now() < deadline {
            match self.turn() {
                Ok(0) if self.is_drained() => return,
                Ok(0) => std::thread::sleep(NAP),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    /// Packets in, packets out. How many came.
    ///
    /// # Errors
    /// The link is broken.
    pub(crate) fn turn(&mut self) -> io::Result<usize> {
        let count = self.port.link.recv(&mut self.batch)?;
        if self.batch.has_refusals() {
            self.networks.take_refusals(&mut self.batch);
        }
        let mut waiting = self.stuck;
        if count > 0 {
            waiting |= self.networks.take_in(self.port, &mut self.batch, self.stuck);
        }
        self.stuck = self.networks.flush(waiting);
        Ok(count)
    }

    /// Looks at the link for a while. Whether something came.
    fn spin(&mut self, spin: Duration) -> bool {
        if spin.is_zero() {
            return false;
        }
        let end = Instant::now() + spin;
        for round in 1_u32.. {
            match self.turn() {
                Ok(0) if Instant::now() < end => {}
                result => return result.is_ok_and(|count| count > 0),
            }
            // Threads of equal real-time priority run only if this one lets them.
            if round.is_multiple_of(YIELD_EVERY) {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        false
    }

    /// Whether nothing is left. A link that has just brought nothing may have something all the same: of two sockets it
    /// looks at one more often.
    fn is_drained(&self) -> bool {
        let link = &self.port.link;
        let has_more = wait(&link.poll_fds(), Some(Duration::ZERO)).is_ok_and(|ready| ready > 0);
        self.stuck == 0 && !has_more && link.next_due().is_none()
    }

    fn sleep(&self) {
        let mut alarms = Alarms::new(self.port.waker.fd(), self.port.link.next_due());
        alarms.add(self.port.link.poll_fds().into_iter().map(Interest::readable));
        for port in self.networks.ports.iter().filter(|port| self.stuck & bit(port.network) != 0) {
            alarms.add(port.link.send_fd().into_iter().map(Interest::writable));
        }
        alarms.sleep();
    }
}

/// What ends a sleep.
struct Alarms {
    interests: SmallVec<[Interest; FEW]>,
    limit: Option<Duration>,
}

impl Alarms {
    fn new(waker: RawFd, limit: Option<Duration>) -> Self {
        Self { interests: smallvec![Interest::readable(waker)], limit }
    }

    /// Adds the descriptors of a link; without one nothing tells, and the sleep is a nap.
    fn add(&mut self, interests: impl Iterator<Item = Interest>) {
        let count = self.interests.len();
        self.interests.extend(interests);
        if self.interests.len() == count {
            self.limit = Some(self.limit.map_or(NAP, |limit| limit.min(NAP)));
        }
    }

    fn sleep(&mut self) {
        if wait_for(&mut self.interests, self.limit).is_err() {
            std::thread::sleep(NAP);
        }
    }
}
