//! Several packet sockets that share the frames of one interface (`PACKET_FANOUT`, packet(7)).
//!
//! Which of them gets a frame is up to a small program that the kernel runs: it spreads senders by their Ethernet address, as
//! the kernel's own hashes know no frames of our type. So all that one peer sends comes by one socket, in its order.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::sockopt;

/// Where the last four bytes of the sender's address lie, counted from the start of the frame.
const SENDER_AT: i32 = 8;
/// An odd number without a pattern: 2^32 over the golden ratio.
const SPREAD: u32 = 0x9E37_79B1;

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
    let step = |code: u32, k: u32| -> io::Result<libc::sock_filter> {
        let code = u16::try_from(code).map_err(io::Error::other)?;
        Ok(libc::sock_filter { code, jt: 0, jf: 0, k })
    };
    let mut program = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, (libc::SKF_LL_OFF + SENDER_AT).cast_unsigned())?,
        step(libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K, SPREAD)?,
        step(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 16)?,
        step(libc::BPF_RET | libc::BPF_A, 0)?,
    ];
    let len = u16::try_from(program.len()).map_err(io::Error::other)?;
    let value = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    sockopt::set(socket, libc::SOL_PACKET, libc::PACKET_FANOUT_DATA, &value)
}
