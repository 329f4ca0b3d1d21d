//! I6: what a connection and a listener hold stays within what they were allowed.

use weft_base::Service;
use weft_proto::Config;

use crate::violation::{Invariant, Violation, ensure};

/// What one connection holds, counted outside it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// Bytes accepted from the user and not acknowledged, as the machine says.
    pub unacknowledged_bytes: u64,
    /// The longest single write of the user.
    pub longest_write: u64,
    /// Bytes of data that arrived, each number once.
    pub arrived_bytes: u64,
    /// Bytes its user got or lost by a short buffer.
    pub read_bytes: u64,
    /// Messages its user got.
    pub read_messages: u64,
}

/// Checks one connection against its configuration.
///
/// # Errors
///
/// If it holds more than it may.
pub fn check(config: &Config, held: &Held) -> Result<(), Violation> {
    // [CDP-LIM-8] A message longer than the queue is taken alone. Coalescing adds two bytes for each record; when the limit falls,
    // what waits is cut into packets of at least 512 bytes, of which one of each message may have little (CDP-MTU-7).
    let bytes = (config.send_bytes as u64).max(held.longest_write);
    let send_limit = bytes + 4 * (bytes / 510 + 1);
    ensure(held.unacknowledged_bytes <= send_limit, Invariant::Memory, || {
        format!("{} bytes wait to be acknowledged, allowed are {send_limit}", held.unacknowledged_bytes)
    })?;
    // [CDP-WND-2] each promised slot holds at most one packet; an unfinished message lies outside the slots
    // (CDP-DG-7). What arrived and was neither read nor taken apart is at most that.
    let slots = u64::from(config.receive_slots.max(1)) + 1;
    let message =
        if config.service == Service::Datagram { u64::from(config.message_bytes.unwrap_or(0)) } else { 0 };
    let receive_limit = slots * u64::from(config.link_mss) + 2 * message;
    let unread = held.arrived_bytes.saturating_sub(held.read_bytes + held.read_messages * 2);
    ensure(unread <= receive_limit, Invariant::Memory, || {
        format!("{unread} bytes arrived and are unread, allowed are {receive_limit}")
    })
}

/// Checks one listener: embryos, and connections that wait for `accept`.
///
/// # Errors
///
/// If it holds more than it may.
pub fn check_listener(config: &Config, embryos: usize, ready: usize) -> Result<(), Violation> {
    ensure(embryos <= config.embryos_max, Invariant::Memory, || {
        format!("{embryos} embryos, allowed are {}", config.embryos_max)
    })?;
    // Embryos that existed when the queue filled up may still come in.
    let limit = config.accept_limit + config.embryos_max;
    ensure(ready <= limit, Invariant::Memory, || format!("{ready} wait for accept, allowed are {limit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let mut config = Config::new(Service::Stream, 1_000);
        (config.send_bytes, config.receive_slots) = (5_000, 4);
        (config.embryos_max, config.accept_limit) = (2, 3);
        config
    }

    #[test]
    fn holding_what_is_allowed_passes() {
        let held = Held {
            unacknowledged_bytes: 5_000,
            arrived_bytes: 104_000,
            read_bytes: 100_000,
            ..Held::default()
        };
        assert_eq!(check(&config(), &held), Ok(()));
        assert_eq!(check_listener(&config(), 2, 5), Ok(()));
    }

    #[test]
    fn each_excess_fires() {
        let sender = Held { unacknowledged_bytes: 5_041, ..Held::default() };
        let reader = Held { arrived_bytes: 105_001, read_bytes: 100_000, ..Held::default() };
        for held in [sender, reader] {
            assert_eq!(check(&config(), &held).unwrap_err().invariant, Invariant::Memory);
        }
        assert!(check_listener(&config(), 3, 0).is_err());
        assert!(check_listener(&config(), 0, 6).is_err());
    }
}
