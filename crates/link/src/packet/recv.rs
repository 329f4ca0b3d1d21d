//! Receiving: looks at the ring, and copies what is for us out of it.
//!
//! A slot goes back to the kernel at once, so a slow reader holds none: the copy is the one that the kernel makes for a UDP
//! socket in the receive call.

use std::io;
use std::net::SocketAddr;
use std::sync::{MutexGuard, TryLockError};

use super::ring::Frame;
use super::{Ethernet, Receiver, ethernet, socket};
use crate::{RecvBatch, Shown};

/// Looks in vain between two questions whether the socket has an error: until it is taken, the descriptor seems readable.
const LOOKS_PER_QUESTION: u32 = 1_024;

/// What was taken in one turn.
#[derive(Default)]
struct Taken {
    packets: usize,
    bytes: usize,
}

impl Ethernet {
    pub(super) fn recv_batch(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        // Whoever has the ring takes what is there.
        let Some(mut receiver) = self.try_receiver() else { return Ok(0) };
        let mut taken = Taken::default();
        receiver.ring.await_frame(batch.looks());
        while batch.room() > 0 && receiver.ring.pop(|frame| self.take(frame, batch, &mut taken)).is_some() {}
        batch.end_run();
        if taken.packets > 0 {
            self.count_received(taken.packets, taken.bytes);
        } else {
            self.note_in_vain(&mut receiver);
        }
        Ok(taken.packets)
    }

    pub(super) fn look(&self, looks: u32, take: &mut dyn FnMut(SocketAddr, &[u8]) -> bool) -> Shown {
        let Some(mut receiver) = self.try_receiver() else { return Shown::Nothing };
        if !receiver.ring.await_frame(looks) {
            self.note_in_vain(&mut receiver);
            return Shown::Nothing;
        }
        let taken = receiver.ring.pop_if(|frame| {
            let (source, packet) = ethernet::parse(frame.bytes, self.own).filter(|_| frame.is_whole)?;
            take(source.underlay(), packet).then_some(packet.len())
        });
        match taken {
            Some(bytes) => {
                self.count_received(1, bytes);
                Shown::Taken
            }
            None => Shown::Left,
        }
    }

    /// The ring, unless another thread looks at it.
    #[inline]
    fn try_receiver(&self) -> Option<MutexGuard<'_, Receiver>> {
        match self.receiver.try_lock() {
            Ok(receiver) => Some(receiver),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        }
    }

    #[inline]
    fn count_received(&self, packets: usize, bytes: usize) {
        self.counters.received_packets.add_alone(packets);
        self.counters.received_bytes.add_alone(bytes);
        self.counters.receive_calls.add_alone(1);
    }

    fn note_in_vain(&self, receiver: &mut Receiver) {
        receiver.looks_in_vain = receiver.looks_in_vain.wrapping_add(1);
        if receiver.looks_in_vain.is_multiple_of(LOOKS_PER_QUESTION) {
            self.take_error();
        }
    }

    #[inline]
    fn take(&self, frame: Frame<'_>, batch: &mut RecvBatch, taken: &mut Taken) {
        let Some((source, packet)) = ethernet::parse(frame.bytes, self.own) else { return };
        if !frame.is_whole {
            return self.counters.receive_truncated.add_alone(1);
        }
        batch.push_packet(source.underlay(), packet);
        taken.packets += 1;
        taken.bytes += packet.len();
    }

    /// The interface may be down for a while; what is sent meanwhile is lost, as by any network.
    #[cold]
    fn take_error(&self) {
        if socket::take_error(self.fd()).is_some() {
            self.counters.receive_errors.add(1);
        }
    }
}
