//! The receiving half: which numbers have come, what is in order, and what is held until it is; `answers` tells the peer.

mod answers;

use std::collections::VecDeque;

use bytes::Bytes;
use weft_base::Seq;
use weft_wire::{Reason, Segments};

use crate::inbox::{Inbox, Rules};
use crate::numbers::NumberSet;
pub(crate) use answers::AckDue;

/// Least value of RCV.MAX (section 1, "Variables of a connection").
const MAX_WINDOW_MIN: u64 = 64;

/// Where a number stands against the window (CDP-SEQ-8 to -11).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Before RCV.NXT: it has been received.
    Before,
    /// In the window.
    Within,
    /// RCV.EDGE or the number after it.
    AtEdge,
    /// Not current, but within 2^30 of RCV.NXT.
    Near,
    /// Not current at all.
    Far,
}

impl Place {
    pub(crate) fn is_current(self) -> bool {
        matches!(self, Self::Before | Self::Within | Self::AtEdge)
    }
}

/// What storing a DAT brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stored {
    /// Data has become readable.
    pub(crate) readable: bool,
    /// Bytes that came into order.
    pub(crate) bytes: u64,
    /// The packet was held out of order.
    pub(crate) out_of_order: bool,
    /// The packet had been stored before.
    pub(crate) duplicate: bool,
}

#[derive(Clone, Debug)]
struct Arrival {
    payload: Bytes,
    eom: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    nxt: Seq,
    edge: Seq,
    max_window: u64,
    /// The right edge that the peer has been told.
    told_edge: Seq,
    slots: u32,
    scale: u8,
    /// Packets after RCV.NXT: element i is number RCV.NXT + i, and element 0 is never there.
    held: VecDeque<Option<Arrival>>,
    held_count: u32,
    /// The numbers after RCV.NXT that SACK and FARSACK name, a FIN among them.
    named: NumberSet,
    /// Where the next FARSACK begins, if that is further than SACK reaches.
    next_piece: Seq,
    inbox: Inbox,
    /// A FIN that has come: its number.
    fin: Option<Seq>,
    /// Nothing is delivered any more; what comes is acknowledged and counted (rows 36 and 46).
    discarding: bool,
    discarded: u32,
    ack_due: AckDue,
    dat_since_ack: u32,
    ce_count: u32,
    ce_last: bool,
    ece_due: bool,
}

impl Receiver {
    pub(crate) fn new(irs: Seq, slots: u32, rules: Rules) -> Self {
        let nxt = irs + 1;
        let slots = slots.max(1);
        let edge = nxt + u64::from(slots.min(u32::from(u16::MAX)));
        Self {
            nxt,
            edge,
            max_window: edge.distance_from(nxt).max(MAX_WINDOW_MIN),
            told_edge: edge,
            slots,
            scale: 0,
            held: VecDeque::new(),
            held_count: 0,
            named: NumberSet::default(),
            next_piece: nxt,
            inbox: Inbox::new(rules),
            fin: None,
            discarding: false,
            discarded: 0,
            ack_due: AckDue::No,
            dat_since_ack: 0,
            ce_count: 0,
            ce_last: false,
            ece_due: false,
        }
    }

    /// What the open agreed on: the shift of our windows and coalescing.
    pub(crate) fn configure(&mut self, scale: u8, coalesce: bool) {
        self.scale = scale;
        self.inbox.set_coalesce(coalesce);
    }

    pub(crate) fn nxt(&self) -> Seq {
        self.nxt
    }

    pub(crate) fn edge(&self) -> Seq {
        self.edge
    }

    /// Whether a DAT with number `s` is the one that is waited for, with nothing behind it and nothing to say of it but that
    /// it came.
    #[inline]
    pub(crate) fn is_next(&self, s: Seq) -> bool {
        s == self.nxt && s.is_before(self.edge) && self.held.is_empty() && self.fin.is_none() && !self.ce_last
    }

    pub(crate) fn max_window(&self) -> u64 {
        self.max_window
    }

    pub(crate) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// For a reader that is ahead: what it takes leaves no slot.
    pub(crate) fn inbox_mut(&mut self) -> &mut Inbox {
        &mut self.inbox
    }

    /// See [`Inbox::bytes_beyond`]. The window promises a slot to what is held as well.
    #[inline]
    pub(crate) fn bytes_beyond_window(&self, packet_bytes: u16) -> usize {
        self.inbox.bytes_beyond(self.slots.saturating_sub(self.held_count), packet_bytes)
    }

    pub(crate) fn discarded(&self) -> u32 {
        self.discarded
    }

    /// [CDP-SEQ-8] current is RCV.NXT − RCV.MAX ≤ s ≤ RCV.EDGE + 1, in serial order.
    pub(crate) fn place(&self, s: Seq) -> Place {
        let low = self.nxt - self.max_window;
        let span = (self.edge + 1).distance_from(low);
        if s.distance_from(low) <= span {
            return match s {
                s if s.is_before(self.nxt) => Place::Before,
                s if s.is_before(self.edge) => Place::Within,
                _ => Place::AtEdge,
            };
        }
        // [CDP-SEQ-10] near is within 2^30 of RCV.NXT, on either side
        let near = s.distance_from(self.nxt).min(self.nxt.distance_from(s)) <= 1 << 30;
        if near { Place::Near } else { Place::Far }
    }

    /// Stores a DAT whose number is [`Place::Within`] (row 21); `Err` is a violation by the peer.
    #[inline(always)] // what comes alone is what somebody waits for: no call more for the sake of what comes together
    pub(crate) fn store(&mut self, s: Seq, eom: bool, payload: Bytes) -> Result<Stored, Reason> {
        // [CDP-COA-5] checked before the packet is acknowledged
        if !self.discarding {
            self.inbox.check(eom, &payload)?;
        }
        if s == self.nxt && self.held.is_empty() {
            self.note_data(false);
            let bytes = self.deliver(eom, payload)?;
            self.nxt += 1;
            self.named.advance(1);
            return Ok(Stored { readable: !self.discarding, bytes, ..Stored::default() });
        }
        if s == self.nxt { self.fill_gap(eom, payload) } else { Ok(self.hold(s, eom, &payload)) }
    }

    /// How many DAT with the numbers from RCV.NXT on may be stored at once: none where there is anything to be seen to before.
    #[inline]
    pub(crate) fn room_in_order(&self) -> u32 {
        let is_plain = self.held.is_empty() && self.fin.is_none() && !self.discarding && !self.ce_last;
        if is_plain && self.nxt.is_before(self.edge) {
            u32::try_from(self.window()).unwrap_or(u32::MAX)
        } else {
            0
        }
    }

    /// Stores DAT with the numbers from RCV.NXT on that came together, no more than [`Receiver::room_in_order`] and without CE, where
    /// the one before was stored just now. The data of the first `read` of them, of a stream, the user has; the others are `segments`.
    pub(crate) fn store_in_order(&mut self, eom: bool, read: u32, segments: Segments) -> Result<(), Reason> {
        if !self.inbox.is_stream() {
            for payload in segments {
                self.store(self.nxt, eom, payload)?;
            }
            return Ok(());
        }
        let count = read + segments.len();
        // [CDP-ACK-8] every second DAT at once
        self.dat_since_ack += count - 1;
        self.note_data(false);
        self.inbox.push_segments(segments);
        self.nxt += u64::from(count);
        self.named.advance(count as usize);
        if read > 0 {
            self.read(|_| ());
        }
        Ok(())
    }

    /// Whether the data of the DAT that [`Receiver::is_next`] is of may go to the user at once: all before it was read, and it is whole.
    #[inline]
    pub(crate) fn hands_over(&self, eom: bool, bytes: usize) -> bool {
        !self.discarding && self.inbox.hands_over(eom, bytes)
    }

    /// The data of a DAT went to the user.
    #[inline]
    pub(crate) fn note_handed_over(&mut self) {
        self.note_in_order(1);
        self.read(|_| ());
    }

    /// The data of so many DAT that came together, which is so many bytes of a message and maybe its end, went to its reader.
    pub(crate) fn note_ahead(&mut self, packets: u32, bytes: usize, is_end: bool) {
        self.note_in_order(packets);
        self.inbox.note_ahead(packets, bytes, is_end);
    }

    #[inline]
    fn note_in_order(&mut self, packets: u32) {
        self.dat_since_ack += packets - 1;
        self.note_data(false);
        self.nxt += u64::from(packets);
    }

    /// Whether what so many DAT with the numbers from RCV.NXT on have of a message may go to the user at once, who has the first `ahead` bytes of
    /// it, and has read all before.
    pub(crate) fn hands_over_parts(&self, packets: u32, ahead: u32, bytes: usize) -> bool {
        self.room_in_order() >= packets && self.inbox.hands_over_parts(ahead, bytes)
    }

    /// The number after RCV.NXT − 1 came while later ones were held.
    fn fill_gap(&mut self, eom: bool, payload: Bytes) -> Result<Stored, Reason> {
        // [CDP-ACK-8] a packet that fills a gap is acknowledged at once
        self.note_data(true);
        let mut bytes = self.deliver(eom, payload)?;
        let before = self.nxt;
        self.nxt += 1;
        self.held.pop_front();
        while let Some(Some(_)) = self.held.front() {
            let Some(Some(arrival)) = self.held.pop_front() else { break };
            self.held_count -= 1;
            bytes += self.deliver(arrival.eom, arrival.payload)?;
            self.nxt += 1;
        }
        if self.held_count == 0 {
            self.held.clear();
        }
        self.named.advance(usize::try_from(self.nxt.distance_from(before)).unwrap_or(usize::MAX));
        Ok(Stored { readable: !self.discarding, bytes, ..Stored::default() })
    }

    fn hold(&mut self, s: Seq, eom: bool, payload: &[u8]) -> Stored {
        // [CDP-ACK-8] a packet that leaves a gap, or a duplicate, is acknowledged at once
        self.note_data(true);
        let at = usize::try_from(s.distance_from(self.nxt)).unwrap_or(usize::MAX);
        if self.held.len() <= at {
            self.held.resize(at + 1, None);
        }
        // [CDP-SEQ-13] a packet stored once is not replaced
        if self.held[at].is_some() {
            return Stored { duplicate: true, ..Stored::default() };
        }
        // a copy of its own size: a held packet must not pin the large frame it came in (CDP-WND-2)
        let payload = if self.discarding { Bytes::new() } else { Bytes::copy_from_slice(payload) };
        self.held[at] = Some(Arrival { payload, eom });
        self.held_count += 1;
        self.named.insert(at);
        Stored { out_of_order: true, ..Stored::default() }
    }

    fn deliver(&mut self, eom: bool, payload: Bytes) -> Result<u64, Reason> {
        if self.discarding {
            self.discarded = self.discarded.wrapping_add(1);
            return Ok(0);
        }
        let bytes = payload.len() as u64;
        self.inbox.push(eom, payload)?;
        Ok(bytes)
    }

    /// Keeps a FIN; it takes effect by [`Receiver::take_fin`].
    pub(crate) fn store_fin(&mut self, s: Seq) {
        // [CDP-ACK-8] a FIN is acknowledged at once
        self.ack_due = AckDue::Now;
        // [CDP-SEQ-13] the first one stored for a number stays
        let fin = *self.fin.get_or_insert(s);
        if self.nxt.is_before(fin) {
            self.named.insert(usize::try_from(fin.distance_from(self.nxt)).unwrap_or(usize::MAX));
        }
    }

    /// [CDP-ST-A] A FIN takes effect only in order: RCV.NXT passes over it once.
    pub(crate) fn take_fin(&mut self) -> bool {
        if self.fin != Some(self.nxt) {
            return false;
        }
        self.nxt += 1;
        self.end();
        true
    }

    /// Nothing follows what is in order: drops what was held for it, and [CDP-DG-10] the parts of a message whose end will not come,
    /// which are counted.
    pub(crate) fn end(&mut self) {
        self.held = VecDeque::new();
        self.held_count = 0;
        self.named.clear();
        self.discarded = self.discarded.wrapping_add(self.inbox.clear_open());
    }

    /// Drops unread data, counts it, and delivers nothing any more (rows 28 and 45).
    pub(crate) fn discard(&mut self) {
        self.discarding = true;
        self.discarded = self.discarded.wrapping_add(self.inbox.clear());
        for arrival in self.held.iter_mut().flatten() {
            arrival.payload = Bytes::new();
        }
    }

    /// Reads through `read`, and asks for a window update if enough slots became free.
    pub(crate) fn read<T>(&mut self, read: impl FnOnce(&mut Inbox) -> T) -> T {
        let result = read(&mut self.inbox);
        // [CDP-WND-8] when the edge can move by max(2 slots, a quarter of the window), or by the whole window
        let step = 2.max(self.slots / 4).min(self.slots);
        let free = u64::from(self.slots.saturating_sub(self.inbox.slots_used()));
        let gain = (self.nxt + free).distance_from(self.told_edge);
        if gain >= u64::from(step) && gain < 1 << 62 {
            self.ack_due = AckDue::Now;
        }
        result
    }

    /// Whether the last moment of silence makes a difference: nothing waits to be read.
    pub(crate) fn is_drained(&self) -> bool {
        self.inbox.is_empty()
    }

    /// Slots granted beyond what has arrived.
    pub(crate) fn window(&self) -> u64 {
        self.edge.distance_from(self.nxt)
    }
}
