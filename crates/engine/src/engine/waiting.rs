//! Waiting: blocked threads, tasks, descriptors.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use weft_base::Instant;
use weft_link::Waker;

use super::Engine;
use crate::clock;
use crate::listening::Listening;
use crate::port::Port;
use crate::progress::Condition;
use crate::runner::Runner;
use crate::slot::Slot;
use crate::waiters::{self, Interest, Waiters};

/// What [`Engine::ready`] and [`Engine::acceptable`] give.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Ready<'a> {
    engine: &'a Engine,
    waiters: &'a Waiters,
    slot: Option<&'a Slot>,
    interest: Interest,
    ticket: u64,
}

impl Future for Ready<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let home = self.slot.map_or(0, Slot::home);
        self.engine.poll_waiters(self.waiters, home, self.ticket, self.interest, context)
    }
}

impl Drop for Ready<'_> {
    fn drop(&mut self) {
        self.waiters.give_up(self.ticket);
    }
}

impl Engine {
    /// Blocks until the condition holds, and runs turns meanwhile. False when the deadline passed first.
    #[must_use]
    pub fn wait(&self, slot: &Arc<Slot>, interest: Interest, deadline: Option<Instant>) -> bool {
        self.before_wait(slot);
        self.core.wait(|| slot.home(), Condition::of_slot(slot, interest, deadline), None)
    }

    /// Waits until the open is decided; false if the deadline passed first. The caller goes on at once then: what he sends may be the third
    /// packet of the open.
    #[must_use]
    pub fn wait_connected(&self, slot: &Arc<Slot>, deadline: Instant) -> bool {
        self.operate(slot, |live, _| live.connection.join_third());
        self.wait(slot, Interest::Connected, Some(deadline))
    }

    /// Who waits sends nothing more that what gathers, or the third packet of an open, could wait for.
    #[inline]
    pub(super) fn before_wait(&self, slot: &Arc<Slot>) {
        if slot.has_gathered() {
            self.flush(slot);
        }
    }

    /// For futures: ready when the condition holds; otherwise the task is woken when it does.
    pub fn poll_ready(&self, slot: &Slot, interest: Interest, context: &mut Context<'_>) -> Poll<()> {
        self.poll_waiters(&slot.waiters, slot.home(), 0, interest, context)
    }

    /// As [`Engine::poll_ready`], for an accept.
    pub fn poll_acceptable(&self, listening: &Listening, context: &mut Context<'_>) -> Poll<()> {
        self.poll_waiters(&listening.waiters, 0, 0, Interest::Readable, context)
    }

    /// A future that is ready when the condition holds. Dropped before, it leaves nothing behind.
    pub fn ready<'a>(&'a self, slot: &'a Slot, interest: Interest) -> Ready<'a> {
        Ready { engine: self, waiters: &slot.waiters, slot: Some(slot), interest, ticket: waiters::ticket() }
    }

    /// As [`Engine::ready`], for an accept.
    pub fn acceptable<'a>(&'a self, listening: &'a Listening) -> Ready<'a> {
        let (waiters, interest) = (&listening.waiters, Interest::Readable);
        Ready { engine: self, waiters, slot: None, interest, ticket: waiters::ticket() }
    }

    fn poll_waiters(
        &self,
        waiters: &Waiters,
        home: usize,
        ticket: u64,
        interest: Interest,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        if waiters.is_ready(interest) {
            return Poll::Ready(());
        }
        let port = self.core.port(home);
        let now = clock::now();
        if !port.is_left_to_service(now) {
            self.core.try_turn(port, Runner::User, now);
        }
        waiters.register_as(ticket, interest, context.waker());
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
    pub fn readiness(&self, slot: &Arc<Slot>, interest: Interest) -> io::Result<Arc<Waker>> {
        self.before_wait(slot);
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

#[cfg(all(test, not(loom)))]
mod tests {
    use weft_proto::Config;

    use super::*;
    use crate::Target;
    use crate::conversation::{Conversation, LIMIT};
    use crate::gather::Gather;

    /// The third packet of an open may wait for what the user says, but not for a user who waits himself.
    #[test]
    fn who_waits_for_the_peer_confirms_the_open_first() {
        let Conversation { here, asks, there, .. } = Conversation::open();
        let (target, port) = (asks.key().remote, there.underlay());
        let target = Target { node: None, at: Some(port), port: target.port };
        let mut held = 0;
        for _ in 0..1_000 {
            let config = Config::new(asks.service(), here.mss());
            let slot = here.connect(target, None, config, Gather::WhenBusy).unwrap();
            assert!(here.wait_connected(&slot, here.now() + LIMIT));
            // a thread that was kept from the processor may find that it has left by its timer
            held += usize::from(slot.look().connection.owes_third());
            if held.is_multiple_of(2) {
                assert!(!here.wait(&slot, Interest::Readable, Some(here.now())));
            } else {
                here.readiness(&slot, Interest::Readable).unwrap();
            }
            assert!(!slot.look().connection.owes_third() && !slot.has_gathered());
            here.release(&slot);
            if held == 10 {
                return;
            }
        }
        panic!("it waited for the user {held} times only");
    }
}
