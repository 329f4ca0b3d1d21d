//! A question that is answered at once is acknowledged by its answer.
//!
//! The second packet of a message asks for an acknowledgement at once, and that takes its receiver as long as two packets of the answer
//! that follows it. So where the question before was answered at once, one that is whole and in order leaves its acknowledgement to the
//! answer, or to ACK_DELAY if none comes (decision 0078). A question is a message, or of a stream, which does not tell where one ends, what
//! comes together and is little (decision 0083). Of a message that is not whole yet, and of a stream, as much is left so as the last question
//! had that was answered (decision 0085).

use std::time::Duration;

use weft_base::Instant;

use super::Connection;
use crate::receiver::AckDue;

/// How long after its question came an answer counts as one at once.
const AT_ONCE: Duration = Duration::from_micros(200);

/// Of longer questions the last acknowledgement is no great part of the time, and who sent them has much to do with it, which is better done
/// while the answer is made.
const PACKETS_MAX: u32 = 128;

/// Of what does not tell that it is whole so much is taken for a question, if none of more packets was answered: fewer than a sender may have
/// in flight from the beginning, so that one who waits for room is mostly not mistaken for one who has asked.
const UNFINISHED_MAX: u32 = 24;

/// The same in bytes, if all packets are as large as ours: what its sender keeps until then is better used again soon.
const UNFINISHED_BYTES_MAX: usize = 512 << 10;

/// What comes so long after a question that is left to its answer was held back by its sender, who waits for an acknowledgement: a question
/// was taken for whole that was not.
const APART: Duration = Duration::from_micros(20);

/// How long every question is acknowledged at once then, the first time. Twice as long each time after that: what happens once, as where a
/// connection begins or a sender was kept from its core, is forgotten soon, and who waits again and again for ACK_DELAY does so seldom
/// (decision 0087).
const PAUSE: Duration = Duration::from_millis(16);

/// How often it is doubled: to a second.
const DOUBLINGS_MAX: u8 = 6;

/// After so many questions that were left to their answers, and answered at once, it is halved.
const FINE_MAX: u8 = u8::MAX;

/// The latest question of several packets: when it came last, while it has no answer. One word, as every connection has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Question(Instant);

/// How many packets questions have, and what came of leaving them to their answers.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Asked {
    /// Of the latest those that are acknowledged.
    acknowledged: u8,
    /// Of the last one that was answered at once all.
    answered: u8,
    /// How often the pause was doubled.
    doublings: u8,
    /// Those that were left and answered since.
    fine: u8,
    /// None is left to its answer until the time of the question.
    is_paused: bool,
}

impl Question {
    /// There is none, or no answer came at once.
    pub(super) const NONE: Self = Self(Instant::ZERO);
    /// It was answered at once, so it is worth waiting for an answer to the next.
    const ANSWERED: Self = Self(Instant::MAX);

    /// When it came, if that was just now and nothing was sent since: not even an acknowledgement.
    fn open_since(self, now: Instant, sent_at: Instant) -> Option<Instant> {
        (sent_at < self.0 && self.0 <= now && now - self.0 <= AT_ONCE).then_some(self.0)
    }

    /// Whether it is no question, but the end of a pause, which is to come.
    fn is_pause(self, now: Instant) -> bool {
        now < self.0 && self != Self::ANSWERED
    }
}

impl Asked {
    /// Packets of the latest question, of which so many are not acknowledged.
    fn packets(self, unacknowledged: u32) -> u32 {
        u32::from(self.acknowledged) + unacknowledged
    }

    /// One of so many packets was answered at once, or for `None` was not; so many of these were left to the answer.
    fn note_answer(&mut self, packets: Option<u32>, left: u32) {
        (self.acknowledged, self.answered) = (0, packets.map_or(0, narrow));
        if packets.is_none() || left < 2 {
            return;
        }
        self.fine += 1;
        if self.fine == FINE_MAX {
            (self.fine, self.doublings) = (0, self.doublings.saturating_sub(1));
        }
    }

    /// One was taken for whole that was not: no other is for a while.
    fn pause(&mut self, now: Instant) -> Question {
        let pause = PAUSE * (1 << self.doublings);
        (self.fine, self.doublings) = (0, (self.doublings + 1).min(DOUBLINGS_MAX));
        self.is_paused = true;
        Question(now + pause)
    }
}

fn narrow(packets: u32) -> u8 {
    u8::try_from(packets).unwrap_or(u8::MAX)
}

impl Connection {
    /// Data leaves, and with it the acknowledgement of what came.
    #[inline]
    pub(super) fn note_answer(&mut self, now: Instant) {
        let Question(at) = self.question;
        if at != Instant::ZERO && at <= now {
            let left = self.receiver.dat_since_ack();
            let packets = self.asked.packets(left);
            let is_at_once = now - at <= AT_ONCE && packets <= PACKETS_MAX;
            self.question = if is_at_once { Question::ANSWERED } else { Question::NONE };
            self.asked.note_answer(is_at_once.then_some(packets), left);
        }
    }

    /// An acknowledgement leaves by itself.
    pub(super) fn note_acknowledgement(&mut self) {
        self.asked.acknowledged = narrow(self.asked.packets(self.receiver.dat_since_ack()));
    }

    /// Whether an acknowledgement must go now, where one is due soon or now.
    #[inline(never)] // what comes alone does not get here
    pub(super) fn must_acknowledge(&mut self, now: Instant) -> bool {
        if self.receiver.ack_due() == AckDue::Now {
            return true;
        }
        if self.question.is_pause(now) {
            self.receiver.request_ack();
            return true;
        }
        if self.asked.is_paused {
            // nothing of what came meanwhile was left
            (self.question, self.asked.acknowledged, self.asked.is_paused) = (Question::NONE, 0, false);
        }
        let open_since = self.question.open_since(now, self.sent_at);
        let (inbox, unacknowledged) = (self.receiver.inbox(), self.receiver.dat_since_ack());
        let packets = self.asked.packets(unacknowledged);
        let newest = inbox.newest_packets();
        let is_one_message = !inbox.is_stream() && packets <= newest;
        if !is_one_message && open_since.is_some_and(|since| now - since > APART) {
            self.question = self.asked.pause(now);
            self.receiver.request_ack();
            return true;
        }
        let is_whole = !inbox.is_stream() && !inbox.is_unfinished() && newest <= PACKETS_MAX;
        let may_be_whole = packets <= UNFINISHED_MAX.max(self.asked.answered.into())
            && packets as usize * self.sender.queue.full_bytes(0) <= UNFINISHED_BYTES_MAX
            // nor is its sender soon to wait for room with us
            && u64::from(unacknowledged) <= self.receiver.window();
        let goes_on = open_since.is_some() && (inbox.is_stream() || is_one_message);
        let may_wait = (is_whole || may_be_whole)
            && self.sender.is_idle()
            && (self.question == Question::ANSWERED || goes_on);
        if may_wait {
            self.receiver.await_answer();
        } else {
            self.receiver.request_ack();
        }
        self.question = Question(now);
        !may_wait
    }

    /// What was left to an answer is acknowledged by itself after all. Where that was not whole, its sender has waited for it.
    pub(super) fn note_unanswered(&mut self, now: Instant) {
        let (Question(at), inbox) = (self.question, self.receiver.inbox());
        let is_left = self.sent_at < at && at <= now && !self.asked.is_paused;
        let packets = self.asked.packets(self.receiver.dat_since_ack());
        if is_left && (inbox.is_unfinished() || inbox.is_stream() && packets > UNFINISHED_MAX) {
            self.question = self.asked.pause(now);
        }
    }
}
