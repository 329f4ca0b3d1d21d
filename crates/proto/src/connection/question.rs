//! A question that is answered at once is acknowledged by its answer.
//!
//! The second packet of a message asks for an acknowledgement at once, and that takes its receiver as long as two packets of the answer
//! that follows it. So where the question before was answered at once, one that is whole and in order leaves its acknowledgement to the
//! answer, or to ACK_DELAY if none comes (decision 0078). A question is a message, or of a stream, which does not tell where one ends, what
//! comes together and is little (decision 0083).

use std::time::Duration;

use weft_base::Instant;

use super::Connection;
use crate::receiver::AckDue;

/// How long after its question came an answer counts as one at once.
const AT_ONCE: Duration = Duration::from_micros(200);

/// Of longer messages the last acknowledgement is no great part of the time, and who sent them has much to do with it, which is better done
/// while the answer is made.
const PACKETS_MAX: u32 = 128;

/// The same of a stream: fewer than a sender may have in flight from the beginning, so that one who waits for room is mostly not mistaken for
/// one who has asked.
const STREAM_PACKETS_MAX: u32 = 24;

/// What comes so long after a question that is left to its answer was held back by its sender, who waits for an acknowledgement: a question
/// was taken for whole that was not.
const APART: Duration = Duration::from_micros(20);

/// How long every question is acknowledged at once then.
const PAUSE: Duration = Duration::from_secs(1);

/// The latest question of several packets: when it was whole, while it has no answer. One word, as every connection has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Question(Instant);

impl Question {
    /// There is none, or no answer came at once.
    pub(super) const NONE: Self = Self(Instant::ZERO);
    /// It was answered at once, so it is worth waiting for an answer to the next.
    const ANSWERED: Self = Self(Instant::MAX);

    /// When it came, if that was just now and nothing was sent since: not even an acknowledgement.
    fn open_since(self, now: Instant, sent_at: Instant) -> Option<Instant> {
        (sent_at < self.0 && self.0 <= now && now - self.0 <= AT_ONCE).then_some(self.0)
    }

    /// None waits for its answer for a while.
    fn paused(now: Instant) -> Self {
        Self(now + PAUSE)
    }

    fn is_paused(self, now: Instant) -> bool {
        now < self.0 && self != Self::ANSWERED
    }

    /// Data leaves.
    #[inline]
    pub(super) fn note_answer(&mut self, now: Instant) {
        if *self != Self::NONE && self.0 <= now {
            *self = if now - self.0 <= AT_ONCE { Self::ANSWERED } else { Self::NONE };
        }
    }
}

impl Connection {
    /// Whether an acknowledgement must go now, where one is due soon or now.
    #[inline(never)] // what comes alone does not get here
    pub(super) fn must_acknowledge(&mut self, now: Instant) -> bool {
        if self.receiver.ack_due() == AckDue::Now {
            return true;
        }
        let inbox = self.receiver.inbox();
        let is_short = match inbox.is_stream() {
            true => self.receiver.dat_since_ack() <= STREAM_PACKETS_MAX,
            false => inbox.latest_packets().is_some_and(|packets| packets <= PACKETS_MAX),
        };
        let is_question = is_short && self.sender.is_idle();
        let open_since = self.question.open_since(now, self.sent_at);
        if open_since.is_some_and(|since| now - since > APART) {
            self.question = Question::paused(now);
        }
        if self.question.is_paused(now) {
            self.receiver.request_ack();
            return true;
        }
        // more of a stream's question, which was left to an answer a moment ago
        let goes_on = inbox.is_stream() && open_since.is_some();
        let may_wait = is_question && (self.question == Question::ANSWERED || goes_on);
        if may_wait {
            self.receiver.await_answer();
        } else {
            self.receiver.request_ack();
        }
        self.question = if is_question { Question(now) } else { Question::NONE };
        !may_wait
    }
}
