//! Receiving: looks at the ring, and copies what is for us out of it.
//!
//! A slot goes back to the kernel at once, so a slow reader holds none: the copy is the one that the kernel makes for a UDP
//! socket in the receive call.

use std::io;
use std::sync::TryLockError;

use super::ring::Frame;
use super::{Ethernet, ethernet, socket};
use crate::RecvBatch;

/// A look at the ring is one at a word in memory, of which so many take the time of a system call that looks.
const LOOKS_PER_LOOK: u32 = 8;
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
        let mut receiver = match self.receiver.try_lock() {
            Ok(receiver) => receiver,
            // Whoever has the ring takes what is there.
            Err(TryLockError::WouldBlock) => return Ok(0),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        };
        let mut taken = Taken::default();
        for _ in LOOKS_PER_LOOK..batch.looks() * LOOKS_PER_LOOK {
            if receiver.ring.has_frame() {
                break;
            }
            std::hint::spin_loop();
        }
        while batch.room() > 0 && receiver.ring.pop(|frame| self.take(frame, batch, &mut taken)).is_some() {}
        batch.end_run();
        if taken.packets > 0 {
            self.counters.received_packets.add_alone(taken.packets);
            self.counters.received_bytes.add_alone(taken.bytes);
            self.counters.receive_calls.add_alone(1);
            return Ok(taken.packets);
        }
        receiver.looks_in_vain = receiver.looks_in_vain.wrapping_add(1);
        if receiver.looks_in_vain.is_multiple_of(LOOKS_PER_QUESTION) {
            self.take_error();
        }
        Ok(0)
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
