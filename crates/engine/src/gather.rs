//! Small sends gather for a moment while the link is busy with the last ones.
//!
//! A send costs a system call and a packet, or nothing but a copy if it joins others. So, if the last data of the
//! connection left less than [`QUANTUM`] ago, what is sent gathers in the connection's queue, until a batch has come
//! together or the quantum is over: the pacing of packets that are not full. The quantum is longer while many gather in
//! it. The first message on an idle connection never waits, nor does one that answers what was just received.
//!
//! Of a large send on a busy stream the rest that is less than a batch waits likewise, for the next send to fill it: else
//! each send would end in a packet that is not full, and after it no run of equal packets would fill a batch. It is not
//! watched closely, as the next acknowledgement or nap of the service thread sends it. Nor is what gathers of a stream whose user
//! asks for no delay: [CDP-COA-7] is about datagrams (decision 0096).
//!
//! What gathered leaves with the next send after the quantum, with the next receive or turn of the connection, with
//! [`Engine::flush`](crate::Engine::flush), or by the service thread, which is called once per burst and then watches: the
//! longer the burst, in which the sends themselves see to it, the seldomer, as each look may take the processor from who sends.
//! So what is last waits for an eighth of its burst at most, and never longer than about [`WATCH_NAP_MAX`] + [`QUANTUM_BUSY`], or
//! than [`WATCH_NAP_MAX`] + [`DELAY_MAX`] where the user asks for a delay: the 1 ms of [CDP-COA-7].
//!
//! Races:
//! * Listed slot against a sleep without limit: the service thread first says how it will sleep, then looks at the list
//!   once more; whoever adds to the list looks afterwards at how it sleeps, and wakes it. The list's lock decides which of
//!   the two sees the other.
//! * A slot stays listed while a burst goes on, so that it is added once: the thread that takes it off and the one that
//!   gathers anew exchange one word, and who finds it taken off adds it again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weft_base::{Instant, Service};
use weft_proto::State;

use crate::clock;
use crate::core::Core;
use crate::outbox::Outbox;
use crate::port::Port;
use crate::slot::{Live, Slot};

/// When what is sent may wait for company.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Gather {
    /// Never.
    Off,
    /// While the link is busy with what the connection sent a moment ago.
    #[default]
    WhenBusy,
    /// Likewise, and moreover each send for so long; more than 1 ms is taken as 1 ms ([CDP-COA-7]).
    Delay(Duration),
}

impl Gather {
    /// How long a send may wait although nothing is under way.
    fn delay(self) -> Duration {
        match self {
            Self::Off | Self::WhenBusy => Duration::ZERO,
            Self::Delay(delay) => delay.min(DELAY_MAX),
        }
    }
}

/// [CDP-COA-7] The longest time that a user may ask for, less what the watch may add.
const DELAY_MAX: Duration = Duration::from_millis(1).saturating_sub(WATCH_NAP_MAX);

/// How long after a transmission small sends gather.
pub(crate) const QUANTUM: Duration = Duration::from_micros(5);
/// The same while sends keep coming.
const QUANTUM_BUSY: Duration = Duration::from_micros(40);
/// So many that gathered in one quantum keep coming.
const KEEP_COMING: u32 = 8;
/// While they do, one of so many looks at the clock; the others join those that gather already.
const LOOK_EVERY: u32 = 8;
/// Bytes that are a batch: they leave at once.
const BATCH_BYTES: usize = 48 << 10;
/// Bytes of a stream, or of a message that is sent in parts, that may wait for their first transmission.
const UNSENT_BYTES_MAX: usize = 256 << 10;
/// Bytes of a stream that make a batch of full packets; less waits for more while sends come one after the other.
const CORK_BYTES: usize = 63 << 10;
/// How long after a transmission the rest of a stream waits for that.
const CORK_TIME: Duration = Duration::from_micros(20);
/// How often the service thread looks while messages gather, in a short burst and in a long one.
const WATCH_NAP: Duration = Duration::from_micros(60);
const WATCH_NAP_MAX: Duration = Duration::from_micros(480);
/// A look is put off for such a part of the burst's age.
const WATCH_PART: u32 = 8;
/// How long it keeps looking after the last burst.
const WATCH_TIME: Duration = Duration::from_millis(2);

/// Whether the service thread is to look closely.
pub(crate) fn is_watching(port: &Port, now: Instant) -> bool {
    port.watches_gathering_until.load(Ordering::Relaxed) > now.as_nanos()
}

/// How long until the service thread looks at what gathers.
pub(crate) fn watch_nap(port: &Port, now: Instant) -> Duration {
    let burst = now - Instant::from_nanos(port.gathers_since.load(Ordering::Relaxed));
    (burst / WATCH_PART).clamp(WATCH_NAP, WATCH_NAP_MAX)
}

/// When a thread of the engine that sleeps is to look at what gathers; `None` if nothing does.
pub(crate) fn next_look(port: &Port, now: Instant) -> Option<Instant> {
    let has_gathered = is_watching(port, now) || !port.gathering.lock().is_empty();
    has_gathered.then(|| now + watch_nap(port, now))
}

/// Puts the slot into the port's list, unless it is there.
#[inline]
fn list(port: &Port, slot: &Arc<Slot>, now: Instant) {
    if slot.gathering_since.swap(now.as_nanos(), Ordering::Relaxed) != LISTED {
        port.gathering.lock().push(slot.clone());
        port.rouse_service();
    }
}

/// Whether what was just sent on the connection may gather; the caller holds the lock.
#[inline]
pub(crate) fn may_gather(slot: &Slot, live: &Live) -> bool {
    let connection = &live.connection;
    let (waiting, _) = connection.waiting();
    if waiting >= BATCH_BYTES || connection.state() != State::Established {
        return false;
    }
    match slot.gather {
        Gather::Off => false,
        // [CDP-COA-7] not the first, and not for long
        Gather::WhenBusy => {
            !live.is_dialogue() && (live.joins_many() || clock::about() - slot.sent_at() < live.quantum())
        }
        // [CDP-COA-7] what the user asked for
        Gather::Delay(_) => !slot.has_gathered_for(clock::about(), slot.gather.delay()),
    }
}

/// How much of a stream must wait before it leaves: a batch while sends come one after the other.
#[inline]
pub(crate) fn cork(slot: &Slot, live: &Live, now: Instant) -> usize {
    let is_busy = slot.service() == Service::Stream
        && slot.gather != Gather::Off
        && now - slot.sent_at() < CORK_TIME
        && !live.is_dialogue();
    if is_busy { CORK_BYTES } else { 0 }
}

/// How many bytes of a stream may be taken now, so that what waits to be sent stays in the processor's cache; `None`
/// where only the connection's own limits count. What is in flight does not count: that is up to the windows.
#[inline]
pub(crate) fn room(slot: &Slot, live: &Live) -> Option<usize> {
    let is_open = live.connection.state() == State::Established;
    (is_open && slot.service() == Service::Stream)
        .then(|| UNSENT_BYTES_MAX.saturating_sub(live.connection.waiting().0))
}

/// Whether there is room again for a sender that found none: half of it, so that it is not woken for every packet.
pub(crate) fn has_room(slot: &Slot, live: &Live) -> bool {
    room(slot, live).is_none_or(|room| room >= UNSENT_BYTES_MAX / 2)
}

/// Whether a sender that waits for room goes on with its message: as with a stream, at half.
#[inline]
pub(crate) fn has_room_for_part(live: &Live) -> bool {
    !live.connection.is_mid_message() || live.connection.waiting().0 <= UNSENT_BYTES_MAX / 2
}

impl Core {
    /// Notes that what was sent gathers at the slot, and calls the service thread once per burst of messages.
    #[inline]
    pub(crate) fn note_gathering(&self, slot: &Arc<Slot>, live: &mut Live) {
        live.gathered = live.gathered.saturating_add(1);
        if std::mem::replace(&mut live.is_gathering, true) {
            return;
        }
        let now = clock::now();
        let port = self.port(slot.home());
        if slot.service() == Service::Stream && slot.gather == Gather::WhenBusy {
            list(port, slot, now);
            return;
        }
        let watched = port.watches_gathering_until.swap((now + WATCH_TIME).as_nanos(), Ordering::Relaxed);
        list(port, slot, now);
        if watched < now.as_nanos() {
            port.gathers_since.store(now.as_nanos(), Ordering::Relaxed);
            port.call_service();
        }
    }

    /// Before a transmission: what waits for a full batch leaves when that has come together, or the last one is long ago.
    #[inline]
    pub(crate) fn ease_cork(&self, slot: &Slot, live: &mut Live, now: Instant) {
        if !live.is_corked {
            return;
        }
        let is_late = now - slot.sent_at() >= CORK_TIME;
        live.set_cork(if is_late { 0 } else { CORK_BYTES });
    }

    /// After a transmission: what still waits for a full batch is listed for the service thread.
    #[inline]
    pub(crate) fn note_rest(&self, slot: &Arc<Slot>, live: &mut Live, now: Instant) {
        if !live.is_corked || live.connection.waiting().0 == 0 || live.is_gathering {
            return;
        }
        live.is_gathering = true;
        list(self.port(slot.home()), slot, now);
    }

    /// Sends what gathered for too long. Called by the threads of the engine.
    pub(crate) fn flush_gathered(&self, port: &Port, now: Instant) {
        if !is_watching(port, now) && port.gathering.lock().is_empty() {
            return;
        }
        let slots: Vec<Arc<Slot>> = port.gathering.lock().clone();
        let mut out = Outbox::take();
        for slot in slots {
            if slot.has_gathered_for(now, slot.gather.delay().max(QUANTUM)) {
                self.pump_if_free(&slot, now, &mut out);
            }
        }
        self.finish(port, &mut out);
        out.put_back();
        let mut listed = port.gathering.lock();
        if !is_watching(port, now) || listed.len() > LISTED_MAX {
            // The burst is over, or others keep it up: nobody is listed for whom nothing gathers, and the next one lists itself anew.
            listed.retain(|slot| {
                slot.gathering_since
                    .compare_exchange(LISTED, 0, Ordering::Relaxed, Ordering::Relaxed)
                    .is_err()
            });
        }
    }
}

/// In the port's list, with nothing gathered at present.
pub(crate) const LISTED: u64 = 1;
/// Not in the list, as the connection has a timer for what waits: the third packet of an open.
const OWING: u64 = 2;
/// So many may be in it while a burst goes on, whether anything gathers for them or not.
const LISTED_MAX: usize = 64;

impl Live {
    /// New data of the stream waits for so much; see [`Connection::cork`](weft_proto::Connection::cork).
    pub(crate) fn set_cork(&mut self, bytes: usize) {
        self.is_corked = bytes > 0;
        self.connection.cork(bytes);
    }

    /// The user answers what was just received, and nothing else of his is under way.
    fn is_dialogue(&self) -> bool {
        self.has_read && self.connection.buffered_bytes() == self.connection.waiting().0
    }

    /// Many came within the last quantum, and others gather now: one message more leaves with them.
    fn joins_many(&self) -> bool {
        self.is_busy && self.is_gathering && !self.gathered.is_multiple_of(LOOK_EVERY)
    }

    fn quantum(&self) -> Duration {
        if self.is_busy { QUANTUM_BUSY } else { QUANTUM }
    }

    /// What gathered leaves now.
    pub(crate) fn note_transmit(&mut self) {
        self.is_busy = std::mem::take(&mut self.gathered) >= KEEP_COMING;
        self.is_gathering = false;
        self.has_read = false;
    }
}

impl Slot {
    /// The third packet of the open waits for what the user says.
    pub(crate) fn note_owing(&self) {
        let _ = self.gathering_since.compare_exchange(0, OWING, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// It has left.
    pub(crate) fn note_confirmed(&self) {
        let _ = self.gathering_since.compare_exchange(OWING, 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether anything gathers, or the third packet of the open waits.
    pub(crate) fn has_gathered(&self) -> bool {
        self.gathering_since.load(Ordering::Relaxed) > LISTED
    }

    /// Whether messages gather since at least `time`.
    fn has_gathered_for(&self, now: Instant, time: Duration) -> bool {
        let since = self.gathering_since.load(Ordering::Relaxed);
        since > OWING && now - Instant::from_nanos(since) >= time
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::conversation::Conversation;

    /// A third packet that waits is nothing that gathers: what is sent then may wait for as long as the user asked.
    #[test]
    fn a_third_packet_that_waits_keeps_nothing_from_gathering() {
        let Conversation { asks, .. } = Conversation::open();
        asks.gathering_since.store(0, Ordering::Relaxed);
        asks.note_owing();
        assert!(asks.has_gathered() && !asks.has_gathered_for(clock::now(), Duration::ZERO));
        asks.note_confirmed();
        assert!(!asks.has_gathered());
        asks.gathering_since.store(LISTED, Ordering::Relaxed);
        asks.note_owing();
        assert!(!asks.has_gathered(), "the list is for others to change");
    }

    /// A stream whose writes end in little more than a packet holds is not watched for that.
    #[test]
    fn what_gathers_of_a_stream_is_not_watched_and_messages_are() {
        for (service, is_watched) in [(Service::Stream, false), (Service::Datagram, true)] {
            let Conversation { here, asks, .. } = Conversation::open_of(service);
            let (core, port) = (here.core(), here.core().port(0));
            let mut live = asks.lock();
            live.is_gathering = false;
            let before = clock::now();
            core.note_gathering(&asks, &mut live);
            assert_eq!(is_watching(port, before), is_watched, "{service:?}");
            // nobody sends it while it is held here
            assert!(asks.has_gathered() && !port.gathering.lock().is_empty());
        }
    }

    /// Connections that end while others keep a burst up are not kept for it.
    #[test]
    fn a_burst_that_goes_on_lists_few_for_whom_nothing_gathers() {
        let Conversation { here, asks, .. } = Conversation::open();
        let (core, port) = (here.core(), here.core().port(0));
        for _ in 0..10 * LISTED_MAX {
            let now = clock::now();
            port.watches_gathering_until.store(u64::MAX, Ordering::Relaxed);
            asks.gathering_since.store(0, Ordering::Relaxed);
            list(port, &asks, now);
            asks.gathering_since.store(LISTED, Ordering::Relaxed);
            core.flush_gathered(port, now);
        }
        let listed = port.gathering.lock().len();
        assert!(listed <= LISTED_MAX, "{listed} times");
    }
}
