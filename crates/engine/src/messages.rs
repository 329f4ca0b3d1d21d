//! Messages of several packets, counted against the memory of the process where they take more than the window promises: their
//! parts leave its slots ([CDP-DG-7], [CDP-WND-2]).

use weft_base::Instant;
use weft_proto::State;

use crate::core::Core;
use crate::slot::Live;

/// What is reserved is a multiple of this; 2^16 of them are more than the longest message ([CDP-LIM-9]).
const STEP_BYTES: u32 = 64 << 10;
/// A connection keeps up to so many more than it needs, so that messages which come and go cost nobody anything.
const KEPT_STEPS: u16 = 4;

impl Core {
    /// Reserves what the messages of a connection take, or ends it.
    #[inline]
    pub(crate) fn count_messages(&self, live: &mut Live, now: Instant) {
        let bytes = live.connection.bytes_beyond_window();
        if bytes > 0 || live.message_steps > KEPT_STEPS {
            self.reserve_messages(live, bytes.div_ceil(STEP_BYTES), now);
        }
    }

    #[inline(never)]
    fn reserve_messages(&self, live: &mut Live, steps: u32, now: Instant) {
        let steps = u16::try_from(steps).unwrap_or(u16::MAX);
        let kept = steps..=steps.saturating_add(KEPT_STEPS);
        // what is reserved is given back when the connection has ended
        if kept.contains(&live.message_steps) || live.connection.state() != State::Established {
            return;
        }
        let bytes = usize::from(steps.abs_diff(live.message_steps)) * STEP_BYTES as usize;
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
