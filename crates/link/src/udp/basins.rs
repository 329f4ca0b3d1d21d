//! Several sockets that hold the flood of one peer together, where the kernel lets a socket hold little.
//!
//! Without privileges that is 416 KiB on most systems: a twelfth of a millisecond at 40 Gbit/s, in which a receiver that sleeps is not
//! awake again. So a group of links has some sockets more, which are not chosen for anybody, and a link that is alone at its address opens them
//! at need. While a peer floods a link and there is too little room, the program of the group (see `group`) has its packets go round [`BASINS`] of these by
//! the number that each carries: stripes of them, now to one and now to another. Who receives reckons the same (see `course`), so what came in order is read in order.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use socket2::Socket;

use super::course;
use super::options::{self, Beside};
use crate::link::{HEADER_BYTES, NUMBER_AT};
use crate::{monotonic_nanos, sockopt, steer};

/// Sockets that one flood goes round, a power of two.
const BASINS: usize = 4;
/// What is left for them of a hash of 32 bits.
const BASIN_SHIFT: u32 = u32::BITS - BASINS.ilog2();
/// Sockets that are there for it. Whether the second socket of a link (see `direct`) counts in its group when it has been connected is up to the
/// version of the kernel, so the program may choose the first four or the last four of these; who receives sees which.
pub(super) const SOCKETS: usize = BASINS + 1;
/// Bytes of a stripe, about as many as leave a sender as one packet.
const STRIPE_BYTES: usize = 64 << 10;
/// Packets of a stripe at most, as a power of two.
const STRIPE_SHIFT_MAX: u32 = 5;
/// How long nothing comes before others may have the sockets.
const IDLE_NS: u64 = 1_000_000_000;
/// Steps of the part of a program that is for one flood.
const STEPS: u8 = 6;

/// The sockets of one flood.
#[derive(Debug)]
pub(super) struct Basins {
    sockets: [Socket; SOCKETS],
    fds: [RawFd; SOCKETS],
    /// Which of its group the first one is, or the second; the others follow.
    first: u32,
    /// How many floods they were for, with this one.
    floods: AtomicU64,
    /// Packets that had found them full before this one.
    overflows_before: AtomicU64,
    /// When something last came, in nanoseconds of the monotonic clock.
    used_at: AtomicU64,
}

impl Basins {
    /// Sockets at `local` for so many floods, where the group has `first` already, or one less.
    pub(super) fn open_all(
        local: SocketAddr,
        buffer_bytes: usize,
        gro: bool,
        first: usize,
        floods: usize,
    ) -> io::Result<Vec<Self>> {
        let firsts = (first..).step_by(SOCKETS).take(floods);
        firsts
            .map(|first| {
                Self::open(local, buffer_bytes, gro, u32::try_from(first).map_err(io::Error::other)?)
            })
            .collect()
    }

    /// Those of one, in which the kernel joins packets if it does in all of the group: it asks one of these by chance whether it is to.
    fn open(local: SocketAddr, buffer_bytes: usize, gro: bool, first: u32) -> io::Result<Self> {
        let open = || {
            let socket = options::open(local, Beside::All)?;
            options::enlarge_buffers(&socket, buffer_bytes);
            options::ask_for_reports(&socket, local.is_ipv6())?;
            if gro {
                options::enable_gro(&socket);
            }
            Ok::<_, io::Error>(socket)
        };
        let sockets = [open()?, open()?, open()?, open()?, open()?];
        let fds = sockets.each_ref().map(AsRawFd::as_raw_fd);
        Ok(Self {
            sockets,
            fds,
            first,
            floods: AtomicU64::new(0),
            overflows_before: AtomicU64::new(0),
            used_at: AtomicU64::new(0),
        })
    }

    /// They are for another flood from now on: for which one.
    pub(super) fn take(&self) -> u64 {
        self.note_used();
        self.overflows_before.store(self.overflows(), Ordering::Relaxed);
        self.floods.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether they are still for this flood.
    pub(super) fn are_for(&self, flood: u64) -> bool {
        self.floods.load(Ordering::Relaxed) == flood
    }

    /// Something came.
    pub(super) fn note_used(&self) {
        self.used_at.store(monotonic_nanos(), Ordering::Relaxed);
    }

    /// Whether nothing has come for long.
    pub(super) fn are_idle(&self) -> bool {
        self.are_idle_for(IDLE_NS)
    }

    /// Whether nothing has come for so many nanoseconds.
    pub(super) fn are_idle_for(&self, nanos: u64) -> bool {
        monotonic_nanos().saturating_sub(self.used_at.load(Ordering::Relaxed)) > nanos
    }

    /// Packets that found them full, since they were opened.
    pub(super) fn overflows(&self) -> u64 {
        self.fds.iter().map(|&fd| sockopt::overflows(fd)).sum()
    }

    /// The same before the present flood.
    pub(super) fn overflows_before(&self) -> u64 {
        self.overflows_before.load(Ordering::Relaxed)
    }

    /// The sockets that have packets, and the numbers of the next of these. `note_error`: one has told of an error, which it tells once,
    /// so that its reports are to be read.
    #[cold]
    pub(super) fn heads(&self, note_error: impl Fn()) -> impl Iterator<Item = (usize, u32)> {
        self.fds.iter().enumerate().filter_map(move |(at, &fd)| {
            let mut head = [0_u8; HEADER_BYTES as usize];
            let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
            // SAFETY: the room lives and has the length given.
            let len = unsafe { libc::recv(fd, head.as_mut_ptr().cast(), head.len(), flags) };
            let Ok(len) = usize::try_from(len) else {
                if io::Error::last_os_error().kind() != io::ErrorKind::WouldBlock {
                    note_error();
                }
                return None;
            };
            let head = head.get(..len)?;
            Some((at, course::number(head, 0)?))
        })
    }

    pub(super) fn fds(&self) -> [RawFd; SOCKETS] {
        self.fds
    }

    /// Bytes that the kernel keeps in those that are chosen.
    pub(super) fn room_bytes(&self) -> usize {
        self.sockets[1..].iter().map(|socket| socket.recv_buffer_size().unwrap_or(0)).sum()
    }

    /// The part of a program for packets whose mark is `mark`, to lie before the rest of it.
    pub(super) fn program(
        &self,
        mark: u32,
        stripe: Stripe,
    ) -> impl Iterator<Item = libc::sock_filter> + use<> {
        let [load, spread, shift, add] = [
            steer::word_at(NUMBER_AT),
            steer::with(libc::BPF_MUL, steer::SPREAD),
            steer::with(libc::BPF_RSH, BASIN_SHIFT),
            steer::with(libc::BPF_ADD, self.first),
        ];
        let to_stripe = steer::with(libc::BPF_RSH, stripe.shift);
        [steer::skip_unless(mark, STEPS), load, to_stripe, spread, shift, add, steer::answer()].into_iter()
    }
}

/// How packets are laid round: those whose numbers differ in the last bits only go to one basin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stripe {
    /// How many bits.
    shift: u32,
}

impl Stripe {
    /// The same number of packets of so many bytes each.
    pub(super) fn of_packets(bytes: usize) -> Self {
        Self { shift: (STRIPE_BYTES / bytes.max(1)).max(1).ilog2().min(STRIPE_SHIFT_MAX) }
    }

    /// Where the packet with this number goes. The program is asked of the first of those that the kernel has joined: whatever their number,
    /// each basin has its turn.
    pub(super) fn basin(self, number: u32) -> usize {
        ((number >> self.shift).wrapping_mul(steer::SPREAD) >> BASIN_SHIFT) as usize
    }

    /// Whether two packets are of the same stripe.
    pub(super) fn is_of_one(self, number: u32, other: u32) -> bool {
        number >> self.shift == other >> self.shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stripe_is_as_large_as_what_leaves_as_one() {
        let packets = |bytes| 1 << Stripe::of_packets(bytes).shift;
        assert_eq!([1_472, 8_972, 65_507, 64, 0].map(packets), [32, 4, 1, 32, 32]);
    }

    /// What ICMP says of a packet sent earlier is told by one call of the socket that hears it, and by no later one.
    #[test]
    fn an_error_that_a_look_at_the_next_packets_takes_away_is_told() {
        let reserved = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let nobody = reserved.local_addr().unwrap();
        drop(reserved);
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        // Each has a port of its own, as the first of the group that would share one is not there.
        let basins = Basins::open(local, 1 << 16, true, 0).unwrap();
        basins.sockets[2].send_to(&[7; 100], &nobody.into()).unwrap();
        crate::wait(&[basins.fds[2]], Some(std::time::Duration::from_secs(60))).unwrap();
        let errors = std::cell::Cell::new(0);
        let heads = || basins.heads(|| errors.set(errors.get() + 1)).count();
        assert_eq!((heads(), errors.get()), (0, 1));
        assert_eq!((heads(), errors.get()), (0, 1), "it is told once");
    }

    /// Whatever the kernel joins, of the first packet of which the program is asked.
    #[test]
    fn no_basin_has_much_more_of_a_flood_than_another() {
        for (packet_bytes, joined) in
            [(1_472, 1), (1_472, 20), (1_472, 32), (1_472, 44), (8_972, 7), (65_507, 1)]
        {
            let stripe = Stripe::of_packets(packet_bytes);
            let per_basin = 12 * (64 << 10) / (joined * packet_bytes);
            for begin in (0..1_000_000).step_by(997) {
                let mut counts = [0_usize; BASINS];
                let firsts = (begin..).step_by(joined).take(per_basin);
                firsts.for_each(|first| counts[stripe.basin(first)] += 1);
                let bytes = counts.iter().max().unwrap() * joined * packet_bytes;
                assert!(
                    bytes < 400 << 10,
                    "{bytes} of 768 KiB, {joined} of {packet_bytes} bytes joined, from {begin}"
                );
            }
        }
    }
}
