//! Why a connection was closed, reset or refused (section 16).

use std::fmt;

/// A REASON code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Reason(pub u16);

impl Reason {
    /// Not said.
    pub const NONE: Self = Self(0);
    /// Nobody listens on this port.
    pub const REFUSED: Self = Self(1);
    /// No such connection.
    pub const UNKNOWN: Self = Self(2);
    /// Aborted by its user.
    pub const ABORT: Self = Self(3);
    /// The process ended.
    pub const DIED: Self = Self(4);
    /// Expiry.
    pub const IDLE: Self = Self(5);
    /// No acknowledgement.
    pub const GAVE_UP: Self = Self(6);
    /// No progress, reader too slow.
    pub const STALLED: Self = Self(7);
    /// A rule of the specification was broken.
    pub const PROTOCOL: Self = Self(8);
    /// Datagram meets stream.
    pub const SERVICE: Self = Self(9);
    /// A TLV or its value was refused; the detail is its type.
    pub const OPTION: Self = Self(10);
    /// VER is not supported.
    pub const VERSION: Self = Self(11);
    /// A message above the announced limit.
    pub const TOO_BIG: Self = Self(12);
    /// No memory, or no place in a queue.
    pub const NO_ROOM: Self = Self(13);
    /// Forbidden by policy.
    pub const FORBIDDEN: Self = Self(14);
    /// Ordinary close, only in FIN.
    pub const DONE: Self = Self(15);
    /// The node goes down.
    pub const LEAVING: Self = Self(16);
    /// A number was acknowledged that was never sent.
    pub const FALSE_ACK: Self = Self(17);
    /// Reserved for section 15.
    pub const KEYS: Self = Self(18);
    /// COOKIE bad or too old.
    pub const COOKIE: Self = Self(19);

    /// The code that `value` on the wire stands for.
    #[must_use]
    pub const fn from_wire(value: u16) -> Self {
        // [CDP-ERR-1] an unknown REASON is taken as code 0
        if value <= Self::COOKIE.0 { Self(value) } else { Self::NONE }
    }

    /// The name that section 16 gives the code, or `none` for one that it does not name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        const NAMES: [&str; 20] = [
            "none",
            "refused",
            "unknown",
            "abort",
            "died",
            "idle",
            "gave up",
            "stalled",
            "protocol",
            "service",
            "option",
            "version",
            "too big",
            "no room",
            "forbidden",
            "done",
            "leaving",
            "false ACK",
            "keys",
            "cookie",
        ];
        NAMES[Self::from_wire(self.0).0 as usize]
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [CDP-ERR-1] An unknown REASON is taken as code 0.
    #[test]
    fn unknown_codes_become_none() {
        assert_eq!(Reason::from_wire(19), Reason::COOKIE);
        for unknown in [20, 32_767, 32_768, u16::MAX] {
            assert_eq!(Reason::from_wire(unknown), Reason::NONE);
        }
    }

    #[test]
    fn names_are_those_of_section_16() {
        assert_eq!(Reason::GAVE_UP.to_string(), "gave up");
        assert_eq!(Reason::COOKIE.to_string(), "cookie");
        assert_eq!(Reason(999).to_string(), "none");
    }
}
