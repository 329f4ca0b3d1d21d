//! The options of a socket: one row each, holding number, name, range, default and effect.

use std::ffi::c_int;
use std::time::Duration;

use weft_base::limits;
use weft_socket::{Coalescing, CongestionControl, Options, Service};

use crate::boundary::Failure;

/// CUBIC.
pub const CDP_CUBIC: i64 = 1;
/// The controller that models the path.
pub const CDP_MODEL: i64 = 2;
/// A fixed window.
pub const CDP_FIXED: i64 = 3;
/// Each datagram in a packet of its own.
pub const CDP_COALESCE_OFF: i64 = -1;
/// Small datagrams share a packet while the link is busy.
pub const CDP_COALESCE_BUSY: i64 = 0;

/// An option as `cdp.h` has it.
#[derive(Clone, Copy, Debug)]
pub struct OptionRow {
    /// The name of its constant.
    pub name: &'static str,
    /// Its number.
    pub number: c_int,
    /// Least and greatest value; none can be set if the greatest is below the least.
    pub range: (i64, i64),
    /// The value it has when nothing was set.
    pub default: i64,
    /// Whether it can be set only before the socket listens or connects.
    pub is_first: bool,
}

/// Longest time an option can name, in its unit; small enough for any arithmetic on it.
const TIME_MAX: i64 = i32::MAX as i64;
const PACKETS_MAX: i64 = limits::RECEIVE_SLOTS_MAX as i64;
const MESSAGE_MAX: i64 = limits::MESSAGE_BYTES_MAX as i64;
const SEND_MAX: i64 = 1 << 40;
const FIXED_MAX: i64 = limits::IN_FLIGHT_MAX as i64 - 1;

const fn first(name: &'static str, number: c_int, range: (i64, i64), default: i64) -> OptionRow {
    OptionRow { name, number, range, default, is_first: true }
}

const fn any_time(name: &'static str, number: c_int, range: (i64, i64), default: i64) -> OptionRow {
    OptionRow { name, number, range, default, is_first: false }
}

const fn get_only(name: &'static str, number: c_int) -> OptionRow {
    OptionRow { name, number, range: (0, -1), default: 0, is_first: false }
}

pub(crate) const NONBLOCK: c_int = 1;
pub(crate) const SEND_TIMEOUT: c_int = 2;
pub(crate) const RECV_TIMEOUT: c_int = 3;
const CONNECT_TIMEOUT: c_int = 4;
pub(crate) const CLOSE_TIMEOUT: c_int = 5;
const CONGESTION: c_int = 6;
const FIXED_WINDOW: c_int = 7;
const INTEGRITY: c_int = 8;
const RECEIVE_SLOTS: c_int = 9;
const SEND_BYTES: c_int = 10;
const COALESCING: c_int = 11;
const KEEPALIVE_INTERVAL: c_int = 12;
const KEEPALIVE_EXPIRY: c_int = 13;
const MESSAGE_BYTES: c_int = 14;
const CONFIRM: c_int = 15;
const MSS: c_int = 16;
const NO_PROGRESS: c_int = 17;
const ACK_DELAY: c_int = 18;
const RTO_INIT: c_int = 19;
pub(crate) const SERVICE: c_int = 20;
pub(crate) const ERROR: c_int = 21;
const GIVE_UP: c_int = 22;

/// All options, in the order of their numbers, which begin at 1.
pub const OPTIONS: [OptionRow; 22] = [
    any_time("CDP_NONBLOCK", NONBLOCK, (0, 1), 0),
    any_time("CDP_SEND_TIMEOUT", SEND_TIMEOUT, (0, TIME_MAX), 0),
    any_time("CDP_RECV_TIMEOUT", RECV_TIMEOUT, (0, TIME_MAX), 0),
    first("CDP_CONNECT_TIMEOUT", CONNECT_TIMEOUT, (1, TIME_MAX), 63_000),
    first("CDP_CLOSE_TIMEOUT", CLOSE_TIMEOUT, (1, TIME_MAX), 60_000),
    first("CDP_CONGESTION", CONGESTION, (CDP_CUBIC, CDP_FIXED), CDP_CUBIC),
    first("CDP_FIXED_WINDOW", FIXED_WINDOW, (1, FIXED_MAX), 64),
    first("CDP_INTEGRITY", INTEGRITY, (0, 1), 1),
    first("CDP_RECEIVE_SLOTS", RECEIVE_SLOTS, (1, PACKETS_MAX), limits::RECEIVE_SLOTS as i64),
    first("CDP_SEND_BYTES", SEND_BYTES, (1, SEND_MAX), limits::SEND_QUEUE_BYTES as i64),
    first("CDP_COALESCING", COALESCING, (CDP_COALESCE_OFF, 1_000), CDP_COALESCE_BUSY),
    first("CDP_KEEPALIVE_INTERVAL", KEEPALIVE_INTERVAL, (1, u16::MAX as i64), 60),
    first("CDP_KEEPALIVE_EXPIRY", KEEPALIVE_EXPIRY, (1, u16::MAX as i64), 300),
    first("CDP_MESSAGE_BYTES", MESSAGE_BYTES, (1, MESSAGE_MAX), limits::MESSAGE_BYTES as i64),
    first("CDP_CONFIRM", CONFIRM, (0, 1), 0),
    first("CDP_MSS", MSS, (0, limits::MSS_MAX as i64), 0),
    first("CDP_NO_PROGRESS", NO_PROGRESS, (0, TIME_MAX), 300_000),
    first("CDP_ACK_DELAY", ACK_DELAY, (0, 1_000_000), 1_000),
    first("CDP_RTO_INIT", RTO_INIT, (1, 60_000), 250),
    get_only("CDP_SERVICE", SERVICE),
    get_only("CDP_ERROR", ERROR),
    first("CDP_GIVE_UP", GIVE_UP, (1, TIME_MAX), 100_000),
];

/// The row of option `number`; ENOPROTOOPT if there is none.
pub(crate) fn row(number: c_int) -> Result<&'static OptionRow, Failure> {
    let row = OPTIONS.iter().find(|row| row.number == number);
    row.ok_or_else(|| Failure::new(libc::ENOPROTOOPT, format!("{number} is no option; cdp.h lists them")))
}

/// What the user of a socket has set; what was not set keeps the default of the layers below.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    set: [Option<i64>; OPTIONS.len()],
}

impl Values {
    fn index(number: c_int) -> usize {
        usize::try_from(number - 1).unwrap_or(usize::MAX)
    }

    /// The value of option `number`, or its default.
    pub(crate) fn get(&self, number: c_int) -> i64 {
        let default = OPTIONS.get(Self::index(number)).map_or(0, |row| row.default);
        self.chosen(number).unwrap_or(default)
    }

    /// The value of option `number` if it was set.
    fn chosen(&self, number: c_int) -> Option<i64> {
        self.set.get(Self::index(number)).copied().flatten()
    }

    /// Sets option `row` to `value`.
    pub(crate) fn set(&mut self, row: &OptionRow, value: i64) -> Result<(), Failure> {
        let (least, greatest) = row.range;
        if greatest < least {
            return Err(Failure::new(libc::ENOPROTOOPT, format!("{} can be read only", row.name)));
        }
        let is_small_mss = row.number == MSS && (1..i64::from(limits::MSS_MIN)).contains(&value);
        if value < least || value > greatest || is_small_mss {
            let range = if row.number == MSS { "0, or 512".to_owned() } else { least.to_string() };
            return Err(Failure::invalid(format!("{} is {value}; give {range} to {greatest}", row.name)));
        }
        self.set[Self::index(row.number)] = Some(value);
        Ok(())
    }

    /// A time-out in ms, of which 0 is none.
    pub(crate) fn timeout(&self, number: c_int) -> Option<Duration> {
        let ms = u64::try_from(self.get(number)).unwrap_or(0);
        (ms != 0).then(|| Duration::from_millis(ms))
    }

    /// The options of a socket of `service` that binds `port`, with `accept_limit`.
    pub(crate) fn options(&self, service: Service, port: u16, accept_limit: usize) -> Options {
        let mut options = Options::of(service).local_port(port).accept_limit(accept_limit);
        for row in OPTIONS.iter().filter(|row| row.is_first) {
            if let Some(value) = self.chosen(row.number) {
                options = self.apply(options, row.number, value);
            }
        }
        for (number, set) in
            [(SEND_TIMEOUT, Options::send_timeout as SetTime), (RECV_TIMEOUT, Options::recv_timeout)]
        {
            if let Some(timeout) = self.timeout(number) {
                options = set(options, timeout);
            }
        }
        options
    }

    fn apply(&self, options: Options, number: c_int, value: i64) -> Options {
        let count = u64::try_from(value).unwrap_or(0);
        let narrow = u32::try_from(count).unwrap_or(u32::MAX);
        match number {
            CONNECT_TIMEOUT => options.connect_timeout(Duration::from_millis(count)),
            CLOSE_TIMEOUT => options.close_timeout(Duration::from_millis(count)),
            CONGESTION | FIXED_WINDOW => options.congestion(self.congestion()),
            INTEGRITY => options.integrity(value != 0),
            RECEIVE_SLOTS => options.receive_slots(narrow),
            SEND_BYTES => options.send_bytes(usize::try_from(count).unwrap_or(usize::MAX)),
            COALESCING => options.coalescing(match value {
                CDP_COALESCE_OFF => Coalescing::Off,
                CDP_COALESCE_BUSY => Coalescing::WhenBusy,
                _ => Coalescing::Delay(Duration::from_micros(count)),
            }),
            KEEPALIVE_INTERVAL | KEEPALIVE_EXPIRY => {
                let seconds = |number| Duration::from_secs(u64::try_from(self.get(number)).unwrap_or(0));
                options.keepalive(seconds(KEEPALIVE_INTERVAL), seconds(KEEPALIVE_EXPIRY))
            }
            MESSAGE_BYTES => options.message_bytes(narrow),
            CONFIRM => options.confirm(value != 0),
            MSS if value != 0 => options.mss(u16::try_from(count).unwrap_or(u16::MAX)),
            NO_PROGRESS if value == 0 => options.no_progress(Duration::MAX),
            NO_PROGRESS => options.no_progress(Duration::from_millis(count)),
            GIVE_UP => options.give_up(Duration::from_millis(count)),
            ACK_DELAY => options.ack_delay(Duration::from_micros(count)),
            RTO_INIT => options.rto_init(Duration::from_millis(count)),
            _ => options,
        }
    }

    fn congestion(&self) -> CongestionControl {
        match self.get(CONGESTION) {
            CDP_MODEL => CongestionControl::Model,
            CDP_FIXED => CongestionControl::Fixed {
                packets: u32::try_from(self.get(FIXED_WINDOW)).unwrap_or(u32::MAX),
            },
            _ => CongestionControl::Cubic,
        }
    }
}

type SetTime = fn(Options, Duration) -> Options;

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, value: i64) -> Result<Values, Failure> {
        let row = OPTIONS.iter().find(|row| row.name == name).unwrap();
        let mut values = Values::default();
        values.set(row, value)?;
        Ok(values)
    }

    fn options(values: &Values) -> Options {
        values.options(Service::Datagram, 0, 128)
    }

    #[test]
    fn the_table_is_indexed_by_number() {
        for (index, row) in OPTIONS.iter().enumerate() {
            assert_eq!(Values::index(row.number), index, "{}", row.name);
        }
    }

    #[test]
    fn a_value_out_of_range_is_refused_with_its_range() {
        for row in OPTIONS.iter().filter(|row| row.range.0 <= row.range.1) {
            for value in [row.range.0 - 1, row.range.1 + 1] {
                let refused = set(row.name, value).unwrap_err();
                assert_eq!(refused.errno, libc::EINVAL);
                assert!(
                    refused.sentence.contains(row.name)
                        && refused.sentence.contains(&row.range.1.to_string())
                );
            }
            assert_eq!(set(row.name, row.range.1).unwrap().get(row.number), row.range.1);
        }
        assert_eq!(set("CDP_MSS", 511).unwrap_err().errno, libc::EINVAL);
    }

    #[test]
    fn what_can_only_be_read_cannot_be_set() {
        assert_eq!(set("CDP_SERVICE", 1).unwrap_err().errno, libc::ENOPROTOOPT);
        assert_eq!(row(99).unwrap_err().errno, libc::ENOPROTOOPT);
        assert_eq!(row(0).unwrap_err().errno, libc::ENOPROTOOPT);
    }

    #[test]
    fn nothing_set_leaves_the_defaults_below() {
        assert_eq!(options(&Values::default()), Options::datagram());
    }

    #[test]
    fn every_option_of_the_handshake_changes_the_options_below() {
        for row in OPTIONS.iter().filter(|row| row.is_first) {
            // The window shows only where the controller is fixed, and the default only where it is another value.
            let mut values = if row.number == FIXED_WINDOW {
                set("CDP_CONGESTION", CDP_FIXED).unwrap()
            } else {
                Values::default()
            };
            let before = options(&values);
            values.set(row, if row.default == row.range.1 { row.range.0 } else { row.range.1 }).unwrap();
            assert_ne!(options(&values), before, "{}", row.name);
        }
    }

    #[test]
    fn times_are_set_in_their_unit() {
        assert_eq!(
            options(&set("CDP_ACK_DELAY", 250).unwrap()),
            Options::datagram().ack_delay(Duration::from_micros(250))
        );
        assert_eq!(
            options(&set("CDP_RECV_TIMEOUT", 5).unwrap()),
            Options::datagram().recv_timeout(Duration::from_millis(5))
        );
        assert_eq!(
            options(&set("CDP_NO_PROGRESS", 0).unwrap()),
            Options::datagram().no_progress(Duration::MAX)
        );
        assert_eq!(
            options(&set("CDP_KEEPALIVE_INTERVAL", 5).unwrap()),
            Options::datagram().keepalive(Duration::from_secs(5), Duration::from_secs(300))
        );
    }
}
