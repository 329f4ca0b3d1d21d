//! What became of a connection that was closed.

use crate::EndReason;

/// The result of a close (CDP-ST-E): what the two ends can tell each other about the data that was under way.
///
/// ```
/// # use weft_socket::CloseResult;
/// fn report(result: CloseResult) {
///     if result.is_clean() {
///         println!("everything arrived");
///     } else {
///         println!("{} packets of ours were discarded by the peer", result.discarded_by_peer);
///         println!("{} more did not reach it, as it had closed", result.undelivered);
///     }
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CloseResult {
    /// The peer acknowledged our end of connection, hence every packet before it; or it had closed first, and what it did not take is
    /// [`CloseResult::undelivered`].
    pub confirmed: bool,
    /// Packets we acknowledged but never delivered to our reader (DISCARDED, section 3.1).
    pub discarded_here: u32,
    /// Packets the peer acknowledged but says it never delivered to its reader.
    pub discarded_by_peer: u32,
    /// Packets we sent, or were to send, that were dropped because the peer closed first (CDP-ST-30).
    pub undelivered: u64,
    /// Why the connection ended.
    pub reason: EndReason,
}

impl CloseResult {
    /// Whether everything both ends sent was acknowledged, and nothing was discarded.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.confirmed && self.discarded_here == 0 && self.discarded_by_peer == 0 && self.undelivered == 0
    }
}
