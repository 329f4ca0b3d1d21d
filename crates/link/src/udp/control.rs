//! What the kernel tells beside what arrived.

/// Room for one control message with an integer, aligned as control messages are.
#[repr(C, align(8))]
pub(super) struct Control([u8; 64]);

/// The size of the datagrams that the kernel joined, or `None` if it joined none.
pub(super) fn segment_bytes(message: &libc::msghdr) -> Option<usize> {
    // SAFETY: the kernel filled the control room and set its length.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: the pointer is null or to a control message within the room.
    while let Some(header) = unsafe { next.as_ref() } {
        if header.cmsg_level == libc::SOL_UDP && header.cmsg_type == libc::UDP_GRO {
            // SAFETY: the data of a control message lies behind its header.
            let data = unsafe { libc::CMSG_DATA(header) };
            // SAFETY: the data of UDP_GRO is one integer.
            let segment = unsafe { data.cast::<i32>().read_unaligned() };
            return usize::try_from(segment).ok();
        }
        // SAFETY: `header` lies within `message`.
        next = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    None
}
