//! A thread that waits for a message takes the parts of a long one as they come (decision 0070).

use std::sync::Arc;
use std::time::Duration;

use weft_proto::RecvError;

use super::Engine;
use crate::binding::Place;
use crate::clock;
use crate::progress::Condition;
use crate::slot::{Live, Slot};
use crate::waiters::Interest;

impl Engine {
    /// Waits for what comes, and takes it. Another thread may be there first. Of a long message the beginning is taken as it comes, and put
    /// back if its end does not come in time.
    #[inline(never)]
    pub(super) fn wait_and_take<P: Place>(
        &self,
        slot: &Arc<Slot>,
        place: &mut P,
        timeout: Option<Duration>,
    ) -> Result<P::Taken, RecvError> {
        let deadline = timeout.map(|timeout| clock::now() + timeout);
        let reader = &mut Reader { engine: self, slot, place };
        let mut interest = Interest::RestReadable;
        loop {
            let condition = Condition { waiters: &slot.waiters, interest, deadline };
            let (is_there, bound) = reader.place.bind(slot, |binding| {
                if interest == Interest::RestReadable {
                    binding.let_read_ahead();
                }
                self.before_wait(slot);
                self.core.wait(|| slot.home(), condition, Some(binding))
            });
            if let Some(taken) = bound {
                return Ok(taken);
            }
            if is_there && !slot.is_ready(Interest::RestReadable) {
                // it is the beginning of a message that has come
                continue;
            }
            match self.take(slot, |connection| reader.place.take_rest(connection)) {
                Ok(taken) => return Ok(taken),
                Err(RecvError::WouldBlock) if is_there => interest = self.read_ahead(slot, reader.place),
                Err(error) => return Err(error),
            }
            self.doze_in_flood(slot);
        }
    }

    /// Takes what has come of a message before its end, and tells what to wait for: the rest; or the whole, where the place has no room for more, or what
    /// comes behind it, where another reader has its beginning.
    #[cold]
    fn read_ahead<P: Place>(&self, slot: &Arc<Slot>, place: &mut P) -> Interest {
        self.operate(slot, |live, _| {
            place.read_ahead(&mut live.connection);
            let is_all = live.connection.bytes_ahead() == 0;
            if is_all && live.connection.is_read_ahead() != place.beginning().is_empty() {
                return Interest::RestReadable;
            }
            put_back(live, place);
            Interest::Readable
        })
    }
}

/// Who waits for a message, and puts back what has come of it if he leaves without the rest.
struct Reader<'a, P: Place> {
    engine: &'a Engine,
    slot: &'a Arc<Slot>,
    place: &'a mut P,
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
