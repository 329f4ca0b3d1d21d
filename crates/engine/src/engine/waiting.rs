//! Waiting: blocked threads, tasks, descriptors.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use weft_base::Instant;
use weft_link::Waker;

use super::Engine;
use crate::clock;
use crate::listening::Listening;
use crate::port::Port;
use crate::progress::Condition;
use crate::slot::Slot;
use crate::turn::Runner;
use crate::waiters::{Interest, Waiters};

impl Engine {
    /// Blocks until the condition holds, and runs turns meanwhile. False when the deadline passed first.
    #[must_use]
    pub fn wait(&self, slot: &Arc<Slot>, interest: Interest, deadline: Option<Instant>) -> bool {
        if slot.has_gathered() {
            // Who waits sends nothing more that this could wait for.
            self.flush(slot);
        }
        self.core.wait(|| slot.home(), Condition { waiters: &slot.waiters, interest, deadline })
    }

    /// For futures: ready when the condition holds; otherwise the task is woken when it does.
    pub fn poll_ready(&self, slot: &Slot, interest: Interest, context: &mut Context<'_>) -> Poll<()> {
        self.poll_waiters(&slot.waiters, slot.home(), interest, context)
    }

    /// As [`Engine::poll_ready`], for an accept.
    pub fn poll_acceptable(&self, listening: &Listening, context: &mut Context<'_>) -> Poll<()> {
        self.poll_waiters(&listening.waiters, 0, Interest::Readable, context)
    }

    fn poll_waiters(
        &self,
        waiters: &Waiters,
        home: usize,
        interest: Interest,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        if waiters.is_ready(interest) {
            return Poll::Ready(());
        }
        let port = self.core.port(home);
        self.core.try_turn(port, Runner::User, clock::now());
        waiters.register(interest, context.waker());
        if waiters.is_ready(interest) {
            return Poll::Ready(());
        }
        port.watch();
        Poll::Pending
    }

    /// A descriptor that is readable while the condition holds.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn readiness(&self, slot: &Slot, interest: Interest) -> io::Result<Arc<Waker>> {
        let descriptor = slot.waiters.descriptor(interest)?;
        self.core.port(slot.home()).watch();
        Ok(descriptor)
    }

    /// A descriptor that is readable while a connection waits.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn accept_readiness(&self, listening: &Listening) -> io::Result<Arc<Waker>> {
        let descriptor = listening.waiters.descriptor(Interest::Readable)?;
        self.core.ports.iter().for_each(Port::watch);
        Ok(descriptor)
    }

    /// An operation found nothing: whoever watches a descriptor relies on the service thread from now on.
    pub(super) fn note_nothing(&self, slot: &Slot, waiters: &Waiters, interest: Interest) {
        if waiters.has_descriptor(interest) {
            waiters.lower(interest);
            self.core.port(slot.home()).watch();
        }
    }
}
