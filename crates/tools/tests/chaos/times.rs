//! The times of section 12 that both ends ask for.

use std::time::Duration;

use weft_socket::{Options, Service};

use crate::operation::PATIENCE;

/// Which times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Times {
    /// So short that a connection ends soon when nobody answers.
    Short,
    /// Long enough for a connection that is to live while processes start on a busy machine.
    Lasting,
    /// Those of the specification.
    Specified,
}

pub(crate) const PIN_INTERVAL: Duration = Duration::from_secs(1);
pub(crate) const EXPIRY: Duration = Duration::from_secs(2);
pub(crate) const SYN_TIME: Duration = Duration::from_secs(2);
pub(crate) const FIN_GIVE_UP: Duration = Duration::from_secs(2);
pub(crate) const GIVE_UP: Duration = Duration::from_millis(1_500);
/// All but the first of them for a connection that is to live.
pub(crate) const LASTING: Duration = Duration::from_secs(4);

impl Times {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Short, "short"), (Self::Lasting, "lasting"), (Self::Specified, "specified")];

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(times, _)| *times == self).expect("all are listed").1
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, word)| *word == name).map(|(times, _)| *times)
    }

    /// The longest that anything may take that is not measured.
    pub(crate) fn patience(self) -> Duration {
        if self == Self::Specified { Duration::from_secs(500) } else { PATIENCE }
    }

    pub(crate) fn options(self, service: Service, confirm: bool) -> Options {
        let options = Options::of(service).receive_slots(64).send_bytes(256 << 10).confirm(confirm);
        let (expiry, syn_time, fin_give_up, give_up) = match self {
            Self::Short => (EXPIRY, SYN_TIME, FIN_GIVE_UP, GIVE_UP),
            Self::Lasting => (LASTING, LASTING, LASTING, LASTING),
            Self::Specified => return options,
        };
        options
            .keepalive(PIN_INTERVAL, expiry)
            .connect_timeout(syn_time)
            .close_timeout(fin_give_up)
            .give_up(give_up)
            .rto_init(Duration::from_millis(50))
    }
}
