//! Messages of several packets, counted against the memory of the process where they take more than the window promises: their
//! parts leave its slots ([CDP-DG-7], [CDP-WND-2]).

use weft_base::Instant;
use weft_proto::State;

use crate::core::Core;
use crate::slot::Live;

/// What is reserved is a multiple of this.
const STEP_BYTES: usize = 64 << 10;

impl Core {
    /// Reserves what the messages of a connection take, or ends it.
    #[inline]
    pub(crate) fn count_messages(&self, live: &mut Live, now: Instant) {
        let bytes = live.connection.bytes_beyond_window();
        if bytes > 0 || live.message_steps > 0 {
            self.reserve_messages(live, bytes.div_ceil(STEP_BYTES), now);
        }
    }

    #[inline(never)]
    fn reserve_messages(&self, live: &mut Live, steps: usize, now: Instant) {
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        // what is reserved is given back when the connection has ended
        if steps == live.message_steps || live.connection.state() != State::Established {
            return;
        }
        let bytes = steps.abs_diff(live.message_steps) as usize * STEP_BYTES;
        if steps < live.message_steps {
            self.budget.release(bytes);
            live.promised_bytes -= bytes;
        } else if self.budget.reserve_bytes(bytes) {
            live.promised_bytes += bytes;
        } else {
            return live.connection.refuse_message(now);
        }
        live.message_steps = steps;
    }
}
