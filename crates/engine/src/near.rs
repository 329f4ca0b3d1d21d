//! Connections within this host share what may be in flight there, so that what waits for a peer to read it finds room in its socket's buffer
//! (decision 0101).

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use weft_base::Instant;
use weft_link::LinkInfo;

use crate::slot::Live;

/// Bytes that the kernel counts for a large packet.
const PACKET_BYTES: usize = 68 << 10;
/// They take one of so many parts of the buffer.
const PARTS: usize = 2;
/// A span of time is two to the power of so many nanoseconds, 17 ms, in which a stream sends many packets, also one of many.
const SPAN_BITS: u32 = 24;

/// The connections that have large packets in flight within this host.
#[derive(Debug)]
pub(crate) struct Near {
    /// Packets that may be in flight of all of them.
    room: u32,
    /// How many have some now.
    now: AtomicU32,
    span: AtomicU8,
    /// How many had some in this span of time so far, and in the last one.
    lately: AtomicU32,
    before: AtomicU32,
}

/// What is known of one of them.
#[derive(Default, Debug)]
pub(crate) struct Member {
    /// It is counted among those that have some now.
    is_counted: bool,
    /// The last span of time in which it was counted.
    span: u8,
}

impl Near {
    /// The sockets of peers here are taken to have as much room as those of these links.
    pub(crate) fn new<'a>(links: impl Iterator<Item = &'a LinkInfo>) -> Self {
        let bytes = links.map(|info| info.receive_buffer_bytes).min().unwrap_or_default();
        let room = u32::try_from(bytes / PARTS / PACKET_BYTES).unwrap_or(u32::MAX);
        Self { room, now: 0.into(), span: 0.into(), lately: 0.into(), before: 0.into() }
    }

    /// Counts a connection if it is one of them, or is no more, and tells it how many these are.
    #[inline]
    pub(crate) fn share(&self, live: &mut Live, now: Instant) {
        if live.connection.is_near() || live.near.is_counted {
            self.share_with(live, now);
        }
    }

    #[inline(never)] // most connections go to other hosts
    fn share_with(&self, live: &mut Live, now: Instant) {
        if live.connection.has_near_packet() {
            self.count(&mut live.near, now);
        } else {
            self.forget(&mut live.near);
        }
        let lately = self.lately.load(Ordering::Relaxed).max(self.before.load(Ordering::Relaxed));
        live.connection.share_near(self.now.load(Ordering::Relaxed), self.room, lately);
    }

    /// One that has packets in flight.
    fn count(&self, member: &mut Member, now: Instant) {
        if !std::mem::replace(&mut member.is_counted, true) {
            self.now.fetch_add(1, Ordering::Relaxed);
        }
        // what comes round after four seconds may be wrong for one span
        #[allow(clippy::cast_possible_truncation)]
        let span = (now.as_nanos() >> SPAN_BITS) as u8;
        let last = self.span.load(Ordering::Relaxed);
        if span != last
            && self.span.compare_exchange(last, span, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            let count = self.lately.swap(0, Ordering::Relaxed);
            let is_next = span == last.wrapping_add(1);
            self.before.store(if is_next { count } else { 0 }, Ordering::Relaxed);
        }
        if std::mem::replace(&mut member.span, span) != span {
            self.lately.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// It has none in flight, or is over.
    pub(crate) fn forget(&self, member: &mut Member) {
        if std::mem::take(&mut member.is_counted) {
            self.now.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::conversation::{Conversation, LIMIT};
    use crate::waiters::Interest;
    use weft_base::Service;

    #[test]
    fn each_is_counted_once_now_and_once_in_a_span() {
        let (near, mut members) = (Near::new(std::iter::empty()), <[Member; 9]>::default());
        let counts = || [&near.now, &near.lately, &near.before].map(|count| count.load(Ordering::Relaxed));
        for (span, of, expected) in [
            (1, 0..9, [9, 9, 0]),
            (2, 0..4, [4, 4, 9]),
            (2, 2..6, [4, 6, 9]),
            (3, 0..2, [2, 2, 6]),
            (5, 0..1, [1, 1, 0]),
        ] {
            let now = Instant::from_nanos(span << SPAN_BITS);
            members[of.clone()].iter_mut().for_each(|member| (0..3).for_each(|_| near.count(member, now)));
            let (first, last) = (of.start, of.end);
            members[..first].iter_mut().for_each(|member| near.forget(member));
            members[last..].iter_mut().for_each(|member| near.forget(member));
            assert_eq!(counts(), expected, "in span {span}");
        }
        members.iter_mut().for_each(|member| near.forget(member));
        assert_eq!(counts()[0], 0);
    }

    /// A stream within this host that fills large packets is counted, and one that says little is not.
    #[test]
    fn streams_within_this_host_are_counted() {
        let Conversation { here, asks, there, answers } = Conversation::open_of(Service::Stream);
        let carry = |bytes: usize, times: usize| {
            for _ in 0..times {
                let (mut sent, mut read) = (0, 0);
                while read < bytes {
                    sent += here.send(&asks, &vec![7; bytes - sent]).unwrap_or_default();
                    assert!(here.wait(&asks, Interest::Writable, Some(here.now() + LIMIT)));
                    read += there.recv_within(&answers, &mut vec![0; bytes], Some(LIMIT)).unwrap().len;
                }
            }
        };
        let near = &here.core().near;
        carry(64, 50);
        assert_eq!(near.lately.load(Ordering::Relaxed), 0);
        // the first of them find out how large packets may be
        for _ in 0..100 {
            carry(200_000, 1);
            if near.lately.load(Ordering::Relaxed) > 0 {
                return;
            }
        }
        panic!("it was never counted");
    }
}
