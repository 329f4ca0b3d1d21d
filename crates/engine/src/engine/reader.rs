//! A thread that waits for a message takes the parts of a long one as they come (decision 0070).

use std::sync::Arc;
use std::time::Duration;

use weft_base::Instant;
use weft_proto::RecvError;

use super::Engine;
use crate::binding::{Ahead, Place};
use crate::clock;
use crate::progress::Condition;
use crate::slot::{Live, Slot};
use crate::waiters::Interest;

impl Engine {
    /// Waits for what comes, and takes it. Another thread may be there first.
    #[inline(never)]
    pub(super) fn wait_and_take<P: Place>(
        &self,
        slot: &Arc<Slot>,
        place: &mut P,
        timeout: Option<Duration>,
    ) -> Result<P::Taken, RecvError> {
        let deadline = timeout.map(|timeout| clock::now() + timeout);
        let condition = Condition::of_slot(slot, Interest::RestReadable, deadline);
        let (is_there, bound) = place.bind(slot, |binding| {
            binding.let_read(Ahead::Joined);
            self.before_wait(slot);
            self.core.wait(|| slot.home(), condition, Some(binding))
        });
        if let Some(taken) = bound {
            return Ok(taken);
        }
        if place.beginning().is_empty() {
            match self.take(slot, |connection| place.take(connection)) {
                Err(RecvError::WouldBlock) if is_there => {}
                taken => return taken,
            }
        }
        self.take_in_parts(slot, place, deadline)
    }

    /// The same where nothing is there but the beginning of a message, or what another thread has taken: a long message is taken as it comes,
    /// and what has come of it is put back if its end does not come in time.
    #[cold]
    fn take_in_parts<P: Place>(
        &self,
        slot: &Arc<Slot>,
        place: &mut P,
        deadline: Option<Instant>,
    ) -> Result<P::Taken, RecvError> {
        let reader = &mut Reader { engine: self, slot, place };
        let has_begun = !reader.place.beginning().is_empty();
        let mut interest = if has_begun { Interest::RestReadable } else { reader.read_ahead() };
        loop {
            let condition = Condition::of_slot(slot, interest, deadline);
            let (is_there, bound) = reader.place.bind(slot, |binding| {
                if interest == Interest::RestReadable {
                    binding.let_read(Ahead::All);
                }
                self.core.wait(|| slot.home(), condition, Some(binding))
            });
            if let Some(taken) = bound {
                return Ok(taken);
            }
            let is_late = !is_there || condition.is_late(clock::now());
            if !is_late && !slot.is_ready(Interest::RestReadable) {
                // more of the message has come, and is where it is to be
                continue;
            }
            match self.take(slot, |connection| reader.place.take_rest(connection)) {
                Ok(taken) => return Ok(taken),
                Err(RecvError::WouldBlock) if !is_late => interest = reader.read_ahead(),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Who waits for a message, and puts back what has come of it if he leaves without the rest.
struct Reader<'a, P: Place> {
    engine: &'a Engine,
    slot: &'a Arc<Slot>,
    place: &'a mut P,
}

impl<P: Place> Reader<'_, P> {
    /// Takes what has come of a message before its end, and tells what to wait for: the rest; or, where there is no room for that or another
    /// reader has the beginning, for what may be had whole.
    fn read_ahead(&mut self) -> Interest {
        let place = &mut *self.place;
        self.engine.operate(self.slot, |live, _| {
            place.read_ahead(&mut live.connection);
            let is_all = live.connection.bytes_ahead() == 0;
            let is_anothers = live.connection.is_read_ahead() && place.beginning().is_empty();
            if is_all && !is_anothers {
                return Interest::RestReadable;
            }
            put_back(live, place);
            Interest::Readable
        })
    }
}

impl<P: Place> Drop for Reader<'_, P> {
    fn drop(&mut self) {
        if !self.place.beginning().is_empty() {
            self.engine.operate(self.slot, |live, _| put_back(live, self.place));
        }
    }
}

/// A message that is not waited for at `place` any more is as if nothing of it had gone there.
fn put_back<P: Place>(live: &mut Live, place: &mut P) {
    if !place.beginning().is_empty() {
        live.connection.put_back(place.beginning());
        place.forget_beginning();
    }
}
