//! A link made worse on purpose: loss, bursts, duplicates, reordering, delay, damaged and shortened packets.
//!
//! Everything is decided by one random sequence per direction, which the seed fixes. The same seed and the same packets
//! in the same order meet the same fate; only delays and reordering also depend on when the packets come.
//!
//! Lock order: the alarm, then one direction's lane at a time.

mod alarm;
mod lane;
mod random;
mod settings;

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weft_base::Instant;

use crate::link::pass_on;
use crate::{Link, LinkInfo, PollFds, Received, RecvBatch, SendBatch};
use alarm::DueAlarm;
pub use lane::{FaultCounts, WAITING_PACKETS};
use lane::{Lane, Parcel};
pub use settings::{Burst, Faults, ParseFaultsError};

/// How often the device is asked again when every packet it gave was lost here.
const LOST_BATCHES_MAX: usize = 16;
/// When packets that the device did not take are offered to it again.
const RETRY: Duration = Duration::from_millis(1);
/// How long the end of the link waits for packets under way to leave; later ones are lost.
const UNDER_WAY_MAX: Duration = Duration::from_secs(2);

/// A [`Link`] that disturbs the packets of another.
///
/// What was sent is under way, whatever becomes of its sender: to drop the link takes until the delayed packets have left,
/// at most two seconds.
///
/// ```
/// use weft_link::{Fault, Faults, Hub, Link, SendBatch};
///
/// let hub = Hub::new(1500);
/// let (a, b) = (hub.endpoint()?, hub.endpoint()?);
/// let bad = Fault::new(a, 42, "loss=10%,duplicate=1%".parse().unwrap(), Faults::NONE)?;
/// let mut out = SendBatch::new();
/// for _ in 0..1000 {
///     out.push_slice(b.info().local, b"a packet");
/// }
/// bad.send(&mut out)?;
/// let lost = bad.counts().0.lost;
/// assert!((50..150).contains(&lost), "{lost} of 1000 packets lost");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Fault<L: Link> {
    inner: L,
    sending: Mutex<Sending>,
    receiving: Mutex<Lane>,
    alarm: DueAlarm,
    clock: Box<dyn Fn() -> Instant + Send + Sync>,
    /// Whether that clock is the real one, so that sleeping brings the time nearer.
    is_real_time: bool,
}

struct Sending {
    lane: Lane,
    /// Packets whose fate is decided and that the device has not taken yet.
    ready: SendBatch,
}

impl<L: Link> Fault<L> {
    /// Disturbs what `inner` sends as `send` says, and what it receives as `receive` says.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new(inner: L, seed: u64, send: Faults, receive: Faults) -> io::Result<Self> {
        let origin = std::time::Instant::now();
        let clock =
            move || Instant::from_nanos(u64::try_from(origin.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let mut fault = Self::with_clock(inner, seed, send, receive, clock)?;
        fault.is_real_time = true;
        Ok(fault)
    }

    /// As [`Fault::new`], told the time by `clock`.
    ///
    /// With a clock that is not the real one, [`Link::poll_fds`] do not tell that delayed packets are due; ask
    /// [`Link::next_due`]. Nor does the end of the link wait for them.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn with_clock(
        inner: L,
        seed: u64,
        send: Faults,
        receive: Faults,
        clock: impl Fn() -> Instant + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let alarm = DueAlarm::new()?;
        let sending = Sending { lane: Lane::new(seed, send), ready: SendBatch::new() };
        // The two directions draw from sequences of their own.
        let receiving = Mutex::new(Lane::new(!seed, receive));
        Ok(Self {
            inner,
            sending: Mutex::new(sending),
            receiving,
            alarm,
            clock: Box::new(clock),
            is_real_time: false,
        })
    }

    /// From now on disturbs as told here. Packets that wait already keep their time.
    pub fn set(&self, send: Faults, receive: Faults) {
        lock(&self.sending).lane.set(send);
        lock(&self.receiving).set(receive);
    }

    /// What became of the packets: of those sent, and of those received.
    pub fn counts(&self) -> (FaultCounts, FaultCounts) {
        let sent = lock(&self.sending).lane.counts();
        (sent, lock(&self.receiving).counts())
    }

    /// The link that is disturbed.
    pub const fn inner(&self) -> &L {
        &self.inner
    }

    /// Offers the device what waits: packets of earlier calls, and delayed ones that are due.
    fn flush(&self, sending: &mut Sending, now: Instant) -> io::Result<()> {
        let Sending { lane, ready } = sending;
        lane.release_due(now, usize::MAX, |parcel| push_parcel(ready, &parcel));
        if ready.is_empty() { Ok(()) } else { self.inner.send(ready).map(drop) }
    }

    /// Receives from the device until something is left of it, or nothing comes.
    fn receive(&self, lane: &mut Lane, batch: &mut RecvBatch, now: Instant) -> io::Result<()> {
        let before = batch.len();
        lane.release_due(now, batch.room(), |parcel| batch.push(parcel.peer, parcel.bytes));
        for _ in 0..LOST_BATCHES_MAX {
            let kept = batch.len();
            if self.inner.recv(batch)? == 0 {
                break;
            }
            let arrived = batch.packets_mut().split_off(kept);
            lane.disturb_received(now, arrived, batch);
            if batch.len() > before {
                break;
            }
        }
        Ok(())
    }

    /// When the earliest packet is due.
    fn due(&self) -> Option<Instant> {
        let send = self.send_due();
        let receive = lock(&self.receiving).due();
        [send, receive].into_iter().flatten().min()
    }

    /// When the next packet is to leave.
    fn send_due(&self) -> Option<Instant> {
        let sending = lock(&self.sending);
        let retry = (!sending.ready.is_empty()).then(|| (self.clock)() + RETRY);
        [retry, sending.lane.due()].into_iter().flatten().min()
    }

    fn arm(&self) {
        self.alarm.set(|| self.due(), &self.clock);
    }
}

impl<L: Link> Link for Fault<L> {
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        let (now, before) = ((self.clock)(), batch.len());
        would_block_is_fine(self.flush(&mut lock(&self.sending), now))?;
        self.receive(&mut lock(&self.receiving), batch, now)?;
        self.arm();
        Ok(batch.len() - before)
    }

    fn send(&self, batch: &mut SendBatch) -> io::Result<usize> {
        let (now, count) = ((self.clock)(), batch.len());
        let mut sending = lock(&self.sending);
        self.flush(&mut sending, now)?;
        let Sending { lane, ready } = &mut *sending;
        lane.disturb_sent(now, batch, ready);
        batch.clear();
        let result = would_block_is_fine(self.flush(&mut sending, now));
        drop(sending);
        self.arm();
        result.map(|()| count)
    }

    fn info(&self) -> LinkInfo {
        let info = self.inner.info();
        LinkInfo { name: format!("fault({})", info.name), ..info }
    }

    fn poll_fds(&self) -> PollFds {
        let mut fds = self.inner.poll_fds();
        fds.push(self.alarm.fd());
        fds
    }

    fn next_due(&self) -> Option<Duration> {
        let own = self.due().map(|due| due - (self.clock)());
        [own, self.inner.next_due()].into_iter().flatten().min()
    }

    pass_on!(self => self.inner);
}

impl<L: Link> Drop for Fault<L> {
    fn drop(&mut self) {
        let end = (self.clock)() + UNDER_WAY_MAX;
        while self.is_real_time
            && let Some(due) = self.send_due().filter(|due| *due <= end)
        {
            std::thread::sleep(due - (self.clock)());
            // A device that is broken loses what is under way.
            if would_block_is_fine(self.flush(&mut lock(&self.sending), (self.clock)())).is_err() {
                break;
            }
        }
    }
}

/// Packets that the device does not take now wait here, and the caller need not know.
fn would_block_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        other => other,
    }
}

fn push_parcel(batch: &mut SendBatch, parcel: &Parcel) {
    batch.push_copy(parcel.peer, &[&parcel.bytes], parcel.may_fragment);
}

impl Lane {
    /// Decides on the packets that arrived, and puts what is left of them into `batch`.
    fn disturb_received(&mut self, now: Instant, arrived: Vec<Received>, batch: &mut RecvBatch) {
        for Received { from, bytes, .. } in arrived {
            let fate = self.judge(bytes.len());
            let parcel = Parcel { peer: from, bytes, may_fragment: false };
            self.admit(now, parcel, &fate, |parcel| batch.push(parcel.peer, parcel.bytes));
        }
    }

    /// Decides on the packets of `batch`, and puts what is left of them into `ready`.
    fn disturb_sent(&mut self, now: Instant, batch: &SendBatch, ready: &mut SendBatch) {
        for frame in batch.iter() {
            let fate = self.judge(frame.len());
            if fate.is_none() {
                ready.push_copy(frame.to, &[frame.head, frame.body], frame.may_fragment);
                self.release_passed(now, |parcel| push_parcel(ready, &parcel));
                continue;
            }
            let bytes = [frame.head, frame.body].concat()[..].into();
            let parcel = Parcel { peer: frame.to, bytes, may_fragment: frame.may_fragment };
            self.admit(now, parcel, &fate, |parcel| push_parcel(ready, &parcel));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
