//! Several workers at one port: what comes in is dealt to lanes by its flow, and each lane is worked off by one thread at a time.
//!
//! Whoever has the turn takes packets from the link and deals them, which is short, and gives the turn back before it works. So
//! while one thread takes packets in, others check them and hand them to their connections. All packets of a flow share a
//! lane, so that they stay in order; and a worker begins with the lane that is its own, so that a connection mostly stays in the
//! cache of one core (decision 0030).
//!
//! A worker sees to its own lane before it takes more from the link, and to all others when the link brings nothing: then
//! their workers may sleep or wait for a processor. So nobody has to be woken: a worker whose turn brought something comes again,
//! and the last one to do so finds nothing in the link. A user's thread, which may not come again, sees to all lanes at once.
//!
//! Races: a lane is a [`weft_sync::Slot`] whose backlog are the packets, and that hand-over is described there. Packets are
//! counted as waiting from before they are dealt until their connections have seen them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use weft_base::Instant;
use weft_link::Received;
use weft_sync::SlotGuard;
use weft_wire::{Train, flow_hint};

use crate::clock;
use crate::core::Core;
use crate::counters::Drop as Dropped;
use crate::outbox::Outbox;
use crate::port::{Port, TURN_PACKETS, Turn};
use crate::runner::{Runner, receive};
use crate::turn::Intake;

/// Packets that may wait for each worker, in the mean, when more are taken from the link; what does not fit waits there.
const WAITING_MAX: usize = TURN_PACKETS;
/// How long a timer that is due may wait for packets that were dealt: an acknowledgement among them must not lose to it.
const TIMERS_PATIENCE: Duration = Duration::from_millis(1);

type Lane = weft_sync::Slot<Tray, Received>;

/// The packets that a lane is just working off; none while nobody has it.
#[derive(Debug, Default)]
struct Tray {
    packets: Vec<Received>,
    checked: Vec<(Train, SocketAddr)>,
}

/// The lanes of a port.
pub(crate) struct Lanes {
    lanes: Box<[Lane]>,
    waiting: AtomicUsize,
}

impl Lanes {
    /// So many lanes; none for one worker, which needs no other order than that of the link.
    pub(crate) fn of_workers(count: usize) -> Option<Self> {
        // All may be of one flow, and a batch may be larger than asked for, by what the kernel joined.
        let backlog_max = u32::try_from(count * WAITING_MAX + 2 * TURN_PACKETS).unwrap_or(u32::MAX);
        let lanes = (0..count).map(|_| Lane::new(Tray::default(), backlog_max)).collect();
        (count > 1).then_some(Self { lanes, waiting: AtomicUsize::new(0) })
    }

    /// Packets that were dealt and are not worked off.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Whether more may be taken from the link.
    pub(crate) fn have_room(&self) -> bool {
        self.waiting() <= self.lanes.len() * WAITING_MAX
    }

    /// Whether timers that are due at `due` may fire.
    pub(crate) fn let_fire(&self, due: u64, now: Instant) -> bool {
        self.waiting() == 0 || Instant::from_nanos(due) + TIMERS_PATIENCE <= now
    }

    /// Deals packets; the caller has the turn. Tells how many found no room.
    pub(crate) fn deal(&self, packets: &mut Vec<Received>, piles: &mut Piles) -> usize {
        let count = packets.len();
        self.waiting.fetch_add(count, Ordering::Relaxed);
        piles.packets.resize_with(self.lanes.len(), Vec::new);
        // First all heads are read, and nothing else: each is new to this core, and waiting for one does not keep it from the next.
        piles.hints.extend(packets.iter().map(|packet| flow_hint(&packet.bytes)));
        for (packet, hint) in packets.drain(..).zip(piles.hints.drain(..)) {
            // A number below that of the lanes.
            let lane = (u64::from(hint) * self.lanes.len() as u64) >> 32;
            piles.packets[lane as usize].push(packet);
        }
        let mut refused = 0;
        for (lane, pile) in self.lanes.iter().zip(&mut piles.packets) {
            if !pile.is_empty() {
                lane.defer_all(pile);
                refused += pile.drain(..).count();
            }
        }
        self.waiting.fetch_sub(refused, Ordering::Release);
        refused
    }
}

/// Packets that are just being dealt; none are between turns.
#[derive(Default)]
pub(crate) struct Piles {
    hints: Vec<u32>,
    packets: Vec<Vec<Received>>,
}

impl Core {
    /// As [`Core::try_turn_of`], at a port with lanes.
    #[inline(never)]
    pub(crate) fn try_turn_with(
        &self,
        lanes: &Lanes,
        port: &Port,
        runner: Runner,
        now: Instant,
        budget: usize,
    ) -> Option<usize> {
        if let Runner::Worker(number) = runner {
            // What was dealt to a worker goes before what lies in the link.
            let mut out = Outbox::take();
            self.work_lane(port, lanes, number, &mut out);
            out.put_back();
        }
        let mut turn = port.turn.try_lock()?;
        let mut out = Outbox::take();
        let mut count = 0;
        if lanes.have_room() {
            count = receive(port, &mut turn, runner, now, budget, &mut []);
            let Turn { batch, piles, .. } = &mut *turn;
            let refused = lanes.deal(batch.packets_mut(), piles);
            (0..refused).for_each(|_| self.drops.count(Dropped::Backlog));
        }
        self.take_refusals(&mut turn, now, &mut out);
        let due = port.next_timer();
        if due <= now.as_nanos() && lanes.let_fire(due, now) {
            self.fire_timers(port, now, &mut out);
            port.rest(&mut turn.batch, now);
        }
        drop(turn);
        if count == 0 || !matches!(runner, Runner::Worker(_)) {
            count += self.work_lanes(port, lanes, &mut out);
        }
        self.finish(port, &mut out);
        out.put_back();
        Some(count)
    }

    /// Works at lane `number` until nothing waits there, unless another thread does. The caller has no lock. Tells how many
    /// packets that were.
    fn work_lane(&self, port: &Port, lanes: &Lanes, number: usize, out: &mut Outbox) -> usize {
        let lane = &lanes.lanes[number % lanes.lanes.len()];
        if !lane.has_deferred() {
            return 0;
        }
        let mut count = 0;
        let mut wanted = lane.want();
        while let Some(mut held) = wanted {
            count += self.work_tray(port, lanes, &mut held, out);
            wanted = held.leave().err();
        }
        count
    }

    /// The same for all lanes.
    fn work_lanes(&self, port: &Port, lanes: &Lanes, out: &mut Outbox) -> usize {
        (0..lanes.lanes.len()).map(|number| self.work_lane(port, lanes, number, out)).sum()
    }

    fn work_tray(
        &self,
        port: &Port,
        lanes: &Lanes,
        held: &mut SlotGuard<'_, Tray, Received>,
        out: &mut Outbox,
    ) -> usize {
        let Tray { mut packets, mut checked } = std::mem::take(&mut **held);
        let mut worked = 0;
        loop {
            packets.extend(std::iter::from_fn(|| held.next_deferred()).take(TURN_PACKETS));
            let count = packets.len();
            if count == 0 {
                **held = Tray { packets, checked };
                return worked;
            }
            let intake =
                Intake { packets: packets.drain(..), checked: &mut checked, last: &mut None, binding: None };
            self.take_in(port, intake, clock::now(), out);
            self.finish(port, out);
            lanes.waiting.fetch_sub(count, Ordering::Release);
            worked += count;
            // A lane that never runs dry must not keep those asleep for whom something came. Who is woken here and runs a turn
            // finds the lane held, and goes on. Behind the count, as a waker is the user's code and may fail.
            out.give_wakes();
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;

    /// A packet from UDP port `port` whose last byte is `number`; only what names its flow is as in a header.
    fn packet(port: u16, number: u8) -> Received {
        let mut bytes = [0; 29];
        bytes[10..12].copy_from_slice(&port.to_be_bytes());
        bytes[28] = number;
        Received::new(([10, 0, 0, 1], port).into(), BytesMut::from(&bytes[..]))
    }

    /// Deals, and returns what lies in each lane: ports and numbers.
    fn deal(lanes: &Lanes, mut packets: Vec<Received>) -> (usize, Vec<Vec<(u16, u8)>>) {
        let refused = lanes.deal(&mut packets, &mut Piles::default());
        assert!(packets.is_empty());
        let take = |lane: &Lane| {
            let Some(mut held) = lane.want() else { return Vec::new() };
            let packets = std::iter::from_fn(|| held.next_deferred());
            let seen = packets.map(|packet| (packet.from.port(), packet.bytes[28])).collect();
            held.leave().expect("nobody else is here");
            seen
        };
        (refused, lanes.lanes.iter().map(take).collect())
    }

    #[test]
    fn one_worker_has_no_lanes() {
        assert!(Lanes::of_workers(0).is_none() && Lanes::of_workers(1).is_none());
    }

    #[test]
    fn a_flow_has_one_lane_and_stays_in_order() {
        let lanes = Lanes::of_workers(3).unwrap();
        let packets = (0..8).flat_map(|number| (1..=32).map(move |port| packet(port, number))).collect();
        let (refused, dealt) = deal(&lanes, packets);
        assert_eq!((refused, lanes.waiting()), (0, 256));
        for port in 1..=32 {
            let of_port = |lane: &Vec<(u16, u8)>| -> Vec<u8> {
                lane.iter().filter(|packet| packet.0 == port).map(|packet| packet.1).collect()
            };
            let found: Vec<_> = dealt.iter().map(of_port).filter(|found| !found.is_empty()).collect();
            assert_eq!(found, [(0..8).collect::<Vec<u8>>()], "flow {port}");
        }
        assert!(dealt.iter().all(|lane| lane.len() > 256 / 6), "32 flows lie in all of 3 lanes");
    }

    #[test]
    fn what_has_no_header_is_dealt_too() {
        let lanes = Lanes::of_workers(2).unwrap();
        let short = Received::new(([10, 0, 0, 1], 1).into(), BytesMut::from(&[0; 3][..]));
        assert_eq!(lanes.deal(&mut vec![short], &mut Piles::default()), 0);
        assert_eq!(lanes.waiting(), 1);
    }

    #[test]
    fn the_link_waits_while_many_packets_do() {
        let lanes = Lanes::of_workers(2).unwrap();
        let dealt = |count: usize| deal(&lanes, (0..count).map(|_| packet(7, 0)).collect()).0;
        assert!(lanes.have_room());
        assert_eq!(dealt(2 * WAITING_MAX), 0);
        assert!(lanes.have_room());
        assert_eq!(dealt(1), 0);
        assert!(!lanes.have_room(), "nothing was worked off");
    }

    #[test]
    fn a_full_lane_refuses_what_it_has_no_room_for() {
        let lanes = Lanes::of_workers(2).unwrap();
        let max = 2 * WAITING_MAX + 2 * TURN_PACKETS;
        let mut packets = (0..max + 5).map(|_| packet(7, 0)).collect();
        assert_eq!(lanes.deal(&mut packets, &mut Piles::default()), 5);
        assert_eq!(lanes.waiting(), max);
    }

    #[test]
    fn a_timer_waits_for_what_was_dealt_and_not_for_long() {
        let lanes = Lanes::of_workers(2).unwrap();
        let (due, now) = (1_000_000_000, Instant::from_nanos(1_000_000_000));
        assert!(lanes.let_fire(due, now));
        lanes.deal(&mut vec![packet(7, 0)], &mut Piles::default());
        assert!(!lanes.let_fire(due, now));
        assert!(lanes.let_fire(due, now + TIMERS_PATIENCE));
    }
}
