//! Where the next packet of a flood is to be found that goes round several sockets (see `basins`), kept by whoever receives.

use super::basins::{SOCKETS, Stripe};
use crate::Received;
use crate::link::NUMBER_AT;

/// By so much a packet far from those that were expected weighs more than one that was.
const STRAY_WEIGHS: u32 = 8;
/// More than this is no single flow.
const STRAYS_MAX: u32 = 256;
/// How many numbers from what was expected a packet is far: what is sent again and what follows on a loss is nearer.
const FAR: u32 = 1 << 12;

/// Numbers of a flow, in the order in which they come.
#[derive(Default, Debug)]
pub(crate) struct Course {
    stripe: Stripe,
    /// How many of the sockets lie before the first that is chosen.
    offset: usize,
    /// What is expected next.
    next: u32,
    /// Behind all that came.
    end: u32,
    /// It is unknown where the next one lies: what was expected is lost, or nothing has come yet.
    is_astray: bool,
    strays: u32,
}

impl Course {
    /// These packets came last before a flow goes round several sockets.
    pub(crate) fn begin(&mut self, stripe: Stripe, packets: &Received) {
        let end = numbers(packets).map_or(0, |(_, last)| last.wrapping_add(1));
        *self = Self { stripe, next: end, end, is_astray: true, ..Self::default() };
    }

    /// Which socket the next packet goes to.
    pub(super) fn socket(&self) -> usize {
        (self.stripe.basin(self.next) + self.offset) % SOCKETS
    }

    /// These packets, which follow each other, came by that socket, or by the one that all others come by.
    pub(crate) fn note(&mut self, packets: &Received, socket: Option<usize>) {
        let Some((first, last)) = numbers(packets) else { return };
        if let Some(socket) = socket {
            self.set_offset(socket, first);
        }
        let ahead = first.wrapping_sub(self.next);
        let is_far = ahead.wrapping_add(FAR) > 2 * FAR;
        self.strays = if is_far { self.strays + STRAY_WEIGHS } else { self.strays.saturating_sub(1) };
        let behind = last.wrapping_add(1);
        if is_far {
            (self.next, self.end) = (behind, behind);
        } else if self.stripe.is_of_one(self.next, first) || first == self.next {
            self.next = behind;
        } else if is_before(self.next, first) {
            self.is_astray = true;
        }
        if is_before(self.end, behind) {
            self.end = behind;
        }
    }

    /// Whether it is unknown where the next packet lies: [`Course::note_heads`] is to tell.
    pub(super) fn is_astray(&self) -> bool {
        self.is_astray
    }

    /// These are the next packets of the sockets that have any, and which sockets these are.
    pub(super) fn note_heads(&mut self, heads: impl Iterator<Item = (usize, u32)>) {
        let from = self.next;
        if let Some((socket, first)) = heads.min_by_key(|(_, head)| head.wrapping_sub(from).cast_signed()) {
            self.set_offset(socket, first);
            (self.next, self.is_astray) = (first, false);
        }
    }

    /// The packet with this number came by, or lies in, that socket.
    fn set_offset(&mut self, socket: usize, number: u32) {
        self.offset = (socket + SOCKETS - self.stripe.basin(number)) % SOCKETS;
    }

    /// All that has come has been read.
    pub(super) fn note_drained(&mut self) {
        self.next = self.end;
    }

    /// Whether these are several flows: each is in order then, but they are read in another one than that in which they came.
    pub(super) fn is_lost(&self) -> bool {
        self.strays > STRAYS_MAX
    }
}

/// Whether `number` comes before `other`.
fn is_before(number: u32, other: u32) -> bool {
    number.wrapping_sub(other).cast_signed() < 0
}

/// The numbers of the first and the last of these packets.
fn numbers(packets: &Received) -> Option<(u32, u32)> {
    let last_at = packets.bytes.len().saturating_sub(1) / packets.size.max(1) * packets.size;
    Some((number(&packets.bytes, 0)?, number(&packets.bytes, last_at)?))
}

/// The number of the packet that begins there.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at + NUMBER_AT..)?.first_chunk().copied().map(u32::from_be_bytes)
}
