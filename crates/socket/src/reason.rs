//! Why a connection ended, as the specification numbers it (section 16).

use std::fmt;

/// Linux errno numbers, as section 16 and `cdp.h` use them.
pub mod errno {
    /// Permission denied.
    pub const EACCES: i32 = 13;
    /// Broken pipe.
    pub const EPIPE: i32 = 32;
    /// Invalid argument.
    pub const EINVAL: i32 = 22;
    /// Try again.
    pub const EAGAIN: i32 = 11;
    /// Not a message.
    pub const EBADMSG: i32 = 74;
    /// Protocol error.
    pub const EPROTO: i32 = 71;
    /// Message too long.
    pub const EMSGSIZE: i32 = 90;
    /// Protocol wrong type for socket.
    pub const EPROTOTYPE: i32 = 91;
    /// Protocol not supported.
    pub const EPROTONOSUPPORT: i32 = 93;
    /// Address already in use.
    pub const EADDRINUSE: i32 = 98;
    /// Cannot assign requested address.
    pub const EADDRNOTAVAIL: i32 = 99;
    /// Network is down.
    pub const ENETDOWN: i32 = 100;
    /// Connection reset by peer.
    pub const ECONNRESET: i32 = 104;
    /// No buffer space available.
    pub const ENOBUFS: i32 = 105;
    /// Socket is not connected.
    pub const ENOTCONN: i32 = 107;
    /// Connection timed out.
    pub const ETIMEDOUT: i32 = 110;
    /// Connection refused.
    pub const ECONNREFUSED: i32 = 111;
    /// No route to host.
    pub const EHOSTUNREACH: i32 = 113;
    /// Operation already in progress.
    pub const EALREADY: i32 = 114;
    /// Operation now in progress.
    pub const EINPROGRESS: i32 = 115;
}

/// A REASON code (specification section 16).
///
/// ```
/// use weft_socket::EndReason;
///
/// assert_eq!(EndReason::from_code(3), EndReason::Aborted);
/// assert_eq!(EndReason::from_code(4711), EndReason::None); // CDP-ERR-1
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[non_exhaustive]
pub enum EndReason {
    /// 0: not said.
    #[default]
    None,
    /// 1: nobody listens on this port.
    Refused,
    /// 2: no such connection.
    Unknown,
    /// 3: aborted by its user.
    Aborted,
    /// 4: the process ended.
    Died,
    /// 5: expired, nothing was heard for too long.
    Idle,
    /// 6: gave up, no acknowledgement.
    GaveUp,
    /// 7: no progress, the reader was too slow.
    Stalled,
    /// 8: a rule of the specification was broken.
    Protocol,
    /// 9: datagram met stream.
    Service,
    /// 10: a TLV or its value was refused.
    Option,
    /// 11: version not supported.
    Version,
    /// 12: a message above the announced limit.
    TooBig,
    /// 13: no memory or queue for it.
    NoRoom,
    /// 14: forbidden by policy.
    Forbidden,
    /// 15: ordinary close.
    Done,
    /// 16: the node goes down.
    Leaving,
    /// 17: a number was acknowledged that was never sent.
    FalseAck,
    /// 18: reserved for keys.
    Keys,
    /// 19: the cookie was bad or too old.
    Cookie,
}

/// Code, reason, name, what it says in a sentence, errno at the receiver.
const TABLE: [(u16, EndReason, &str, &str, i32); 20] = {
    use EndReason as R;
    use errno as e;
    [
        (0, R::None, "none", "the peer gave no reason", e::ECONNRESET),
        (1, R::Refused, "refused", "nobody listens on that port", e::ECONNREFUSED),
        (2, R::Unknown, "unknown", "the peer does not know the connection", e::ECONNRESET),
        (3, R::Aborted, "abort", "its user aborted it", e::ECONNRESET),
        (4, R::Died, "died", "the peer's process ended", e::ECONNRESET),
        (5, R::Idle, "idle", "nothing was heard for longer than the keep-alive expiry", e::ETIMEDOUT),
        (6, R::GaveUp, "gave up", "what was sent was not acknowledged in time", e::ETIMEDOUT),
        (7, R::Stalled, "stalled", "the reader made no progress", e::ETIMEDOUT),
        (8, R::Protocol, "protocol", "a rule of the protocol was broken", e::EPROTO),
        (9, R::Service, "service", "one end is a stream and the other a datagram socket", e::EPROTOTYPE),
        (10, R::Option, "option", "an option was refused", e::EPROTONOSUPPORT),
        (11, R::Version, "version", "the peer speaks another version", e::EPROTONOSUPPORT),
        (12, R::TooBig, "too big", "a message was above the announced limit", e::EMSGSIZE),
        (13, R::NoRoom, "no room", "the receiving end has no memory left for it", e::ECONNREFUSED),
        (14, R::Forbidden, "forbidden", "a policy forbids it", e::EACCES),
        (15, R::Done, "done", "it was closed", 0),
        (16, R::Leaving, "leaving", "the node goes down", e::ENETDOWN),
        (17, R::FalseAck, "false ack", "something was acknowledged that was never sent", e::EPROTO),
        (18, R::Keys, "keys", "keys do not match", e::EBADMSG),
        (19, R::Cookie, "cookie", "the handshake took too long and its cookie expired", e::ECONNREFUSED),
    ]
};

impl EndReason {
    /// The reason with this code; an unknown code is [`EndReason::None`] (CDP-ERR-1).
    #[must_use]
    pub fn from_code(code: u16) -> Self {
        TABLE.get(usize::from(code)).map_or(Self::None, |row| row.1)
    }

    fn row(self) -> &'static (u16, Self, &'static str, &'static str, i32) {
        TABLE.iter().find(|row| row.1 == self).unwrap_or(&TABLE[0])
    }

    /// The code on the wire.
    #[must_use]
    pub fn code(self) -> u16 {
        self.row().0
    }

    /// The name in section 16.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// The errno that section 16 gives for it; 0 for an ordinary close.
    #[must_use]
    pub fn errno(self) -> i32 {
        self.row().4
    }
}

impl fmt::Display for EndReason {
    /// A clause that fits after "because".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_indexed_by_code() {
        for (index, row) in TABLE.iter().enumerate() {
            assert_eq!(usize::from(row.0), index);
            assert_eq!(EndReason::from_code(row.0).code(), row.0);
        }
    }

    /// [CDP-ERR-1] An unknown REASON is taken as code 0.
    #[test]
    fn unknown_codes_are_none() {
        assert_eq!(EndReason::from_code(20), EndReason::None);
        assert_eq!(EndReason::from_code(40_000).errno(), errno::ECONNRESET);
    }
}
