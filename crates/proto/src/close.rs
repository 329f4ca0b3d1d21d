//! How a connection ended, for its user.

use weft_wire::Reason;

/// The result of a close (CDP-ST-E).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CloseResult {
    /// Both ends know that the connection is closed: our FIN was acknowledged, or the peer's FIN came first.
    pub confirmed: bool,
    /// Packets we acknowledged but never delivered to our user.
    pub discarded: u32,
    /// Packets of ours that the peer acknowledged but never delivered to its user.
    pub discarded_by_peer: u32,
    /// Packets of ours that were dropped unsent or unacknowledged because the peer closed (row 30).
    pub undelivered: u64,
    /// The REASON that came with the peer's FIN or RST.
    pub reason: Option<Reason>,
}
