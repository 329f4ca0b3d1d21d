//! Several packet sockets that share the frames of one interface (`PACKET_FANOUT`, packet(7)).
//!
//! Which of them gets a frame is up to a small program that the kernel runs: it spreads senders by their Ethernet address, as
//! the kernel's own hashes know no frames of our type. So all that one peer sends comes by one socket, in its order.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::{sockopt, steer};

/// Where the last four bytes of the sender's address lie, counted from the start of the frame.
const SENDER_AT: i32 = 8;

/// Makes the first socket a group, and the others its members. All of them hear the same frames already.
pub(super) fn join(sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
    let [first, others @ ..] = sockets else { return Ok(()) };
    if others.is_empty() {
        return Ok(());
    }
    // The kernel chooses a number for the group.
    enter(*first, libc::PACKET_FANOUT_FLAG_UNIQUEID, 0)?;
    let told = sockopt::integers(first.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_FANOUT);
    let [group] = told.ok_or_else(io::Error::last_os_error)?;
    set_program(*first)?;
    others.iter().try_for_each(|socket| enter(*socket, 0, group & 0xFFFF))
}

fn enter(socket: BorrowedFd<'_>, flags: u32, group: u32) -> io::Result<()> {
    let value = (libc::PACKET_FANOUT_CBPF | flags) << 16 | group;
    sockopt::set(socket, libc::SOL_PACKET, libc::PACKET_FANOUT, &value)
}

/// The kernel takes the result modulo the number of members.
fn set_program(socket: BorrowedFd<'_>) -> io::Result<()> {
    let [load, multiply, shift] = steer::hash_at(libc::SKF_LL_OFF + SENDER_AT);
    let mut program = [load, multiply, shift, steer::answer()];
    steer::set(socket, libc::SOL_PACKET, libc::PACKET_FANOUT_DATA, &mut program)
}
