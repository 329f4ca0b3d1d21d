//! Amounts as people write and read them: bytes, rates, durations.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

/// Longest duration that is taken: 100 years of 365 days. Sums and multiples of such ones are no trouble.
const DURATION_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Bytes with a binary unit and three significant figures, such as `1.50 MiB`.
#[must_use]
pub fn bytes(count: u64) -> String {
    scaled(count as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"])
}

/// Bytes a second with a binary unit, such as `1.50 MiB/s`.
#[must_use]
pub fn byte_rate(bytes_per_second: f64) -> String {
    format!("{}/s", scaled(bytes_per_second, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB"]))
}

/// A rate in decimal bits a second, such as `9.41 Gbit/s`.
#[must_use]
pub fn bit_rate(bits_per_second: f64) -> String {
    scaled(bits_per_second, 1000.0, &["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"])
}

/// A number with a decimal unit prefix, such as `3.02 M`.
#[must_use]
pub fn count(number: f64) -> String {
    scaled(number, 1000.0, &["", "k", "M", "G"]).trim_end().to_owned()
}

/// "1 file" or "n files".
#[must_use]
pub fn files(count: u64) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

fn scaled(mut value: f64, base: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value >= base * 0.9995 && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    let digits = match value {
        _ if unit == 0 => 0,
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {}", units[unit])
}

/// A duration with a fitting unit, such as `12.3 µs`, `4.20 s` or `3 min 05 s`.
#[must_use]
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds >= 3600.0 {
        return format!("{} h {:02} min", time.as_secs() / 3600, time.as_secs() % 3600 / 60);
    }
    if seconds >= 100.0 {
        return format!("{} min {:02} s", time.as_secs() / 60, time.as_secs() % 60);
    }
    let (value, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s if s >= 1e-6 => (s * 1e6, "µs"),
        s => return format!("{:.0} ns", s * 1e9),
    };
    let digits = if value >= 99.95 { 0 } else { 1 + usize::from(value < 9.995) };
    format!("{value:.digits$} {unit}")
}

/// Time left, in whole seconds: more would only flicker.
#[must_use]
pub fn time_left(time: Duration) -> String {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    if seconds < 100 { format!("{seconds} s") } else { duration(Duration::from_secs(seconds)) }
}

/// Reads an amount of bytes: a number with an optional `K`, `M`, `G` or `T` (powers of 1024).
///
/// # Errors
/// A sentence that names the text and what would be accepted.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let refused =
        || format!("{text:?} is not an amount of bytes; give a number such as 1444, 64K, 10M or 2G");
    let trimmed = text.trim_end_matches(['B', 'b', 'i']);
    let (digits, factor) = match trimmed.chars().last() {
        Some('k' | 'K') => (&trimmed[..trimmed.len() - 1], 1 << 10),
        Some('m' | 'M') => (&trimmed[..trimmed.len() - 1], 1 << 20),
        Some('g' | 'G') => (&trimmed[..trimmed.len() - 1], 1 << 30),
        Some('t' | 'T') => (&trimmed[..trimmed.len() - 1], 1_u64 << 40),
        _ => (trimmed, 1),
    };
    let number: u64 = digits.parse().map_err(|_| refused())?;
    number.checked_mul(factor).ok_or_else(refused)
}

/// Reads a duration: a number with `us`, `ms`, `s`, `m` or `h`; a bare number is seconds.
///
/// # Errors
/// A sentence that names the text and what would be accepted.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let refused = || format!("{text:?} is not a duration; give a number such as 10, 1.5s, 200ms or 50us");
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let number: f64 = digits.parse().map_err(|_| refused())?;
    let factor = match unit {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(refused()),
    };
    // No sign is taken above, so what is refused here is too long.
    let time = Duration::try_from_secs_f64(number * factor).unwrap_or(Duration::MAX);
    if time > DURATION_MAX {
        return Err(format!("{text:?} is more than 100 years; give a shorter time, such as 24h"));
    }
    Ok(time)
}

/// Reads a duration that something is waited for, which is not 0.
///
/// # Errors
/// As for [`parse_duration`].
pub fn parse_wait(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err(format!("{text:?} is no time to wait; give one such as 1.5s or 200ms")),
        wait => Ok(wait),
    }
}

/// Reads an address such as `127.0.0.1:64064` or `[::1]:64064`.
///
/// # Errors
/// A sentence that names the text and what would be accepted.
pub fn parse_socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let v6 =
            if text.parse::<std::net::Ipv6Addr>().is_ok() { format!("[{text}]") } else { text.to_owned() };
        match v6.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(_) => format!("{text:?} has no UDP port; give it too, such as {v6}:64064, or {v6}:0 for any"),
            Err(_) => format!("{text:?} is no IP address with a UDP port; give one such as 127.0.0.1:64064"),
        }
    })
}

/// Reads a whole number from `least` to `most`.
///
/// # Errors
/// A sentence that names the text and what would be accepted.
pub fn parse_within<T: FromStr + PartialOrd + Display + Copy>(
    text: &str,
    least: T,
    most: T,
) -> Result<T, String> {
    let number = text.parse().ok().filter(|number| (&least..=&most).contains(&number));
    number.ok_or_else(|| format!("{text:?} is not possible here; give a whole number from {least} to {most}"))
}

/// Reads a share between 0 and 1, written as `0.01` or `1%`.
///
/// # Errors
/// A sentence that names the text and what would be accepted.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let refused = || format!("{text:?} is not a share; give 0 to 1, or a percentage such as 1%");
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map_err(|_| refused())? / 100.0,
        None => text.parse::<f64>().map_err(|_| refused())?,
    };
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(refused()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_three_figures_and_a_unit() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(bytes(10 << 20), "10.0 MiB");
        assert_eq!(bytes((1 << 20) - 1), "1.00 MiB");
        assert_eq!(bit_rate(9.414e9), "9.41 Gbit/s");
        assert_eq!(bit_rate(999_960_000.0), "1.00 Gbit/s");
        assert_eq!(count(3_020_000.0), "3.02 M");
        assert_eq!(count(17.0), "17");
    }

    #[test]
    fn one_file_is_not_called_files() {
        assert_eq!((files(1).as_str(), files(0).as_str()), ("1 file", "0 files"));
    }

    #[test]
    fn durations_have_a_fitting_unit() {
        assert_eq!(duration(Duration::from_nanos(850)), "850 ns");
        assert_eq!(duration(Duration::from_nanos(12_340)), "12.3 µs");
        assert_eq!(duration(Duration::from_millis(4_200)), "4.20 s");
        assert_eq!(duration(Duration::from_secs(185)), "3 min 05 s");
        assert_eq!(duration(Duration::from_secs(7_260)), "2 h 01 min");
        assert_eq!(time_left(Duration::from_millis(37_100)), "38 s");
        assert_eq!(time_left(Duration::from_secs(101)), "1 min 41 s");
    }

    #[test]
    fn amounts_are_read_with_and_without_a_unit() {
        assert_eq!(parse_bytes("1444"), Ok(1444));
        assert_eq!(parse_bytes("64K"), Ok(65_536));
        assert_eq!(parse_bytes("2GiB"), Ok(2 << 30));
        assert!(parse_bytes("many").unwrap_err().contains("\"many\""));
        assert!(parse_bytes("99999999999T").is_err());
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("50us"), Ok(Duration::from_micros(50)));
        assert_eq!(parse_duration("10"), Ok(Duration::from_secs(10)));
        assert!(parse_duration("-1").is_err());
        assert_eq!(parse_duration("876000h"), Ok(DURATION_MAX));
        for text in ["876001h", "10000000000000000000", "1000000000000000000000000"] {
            assert!(parse_duration(text).unwrap_err().contains("more than 100 years"), "{text}");
        }
        assert!(parse_duration("soon").unwrap_err().contains("\"soon\""));
        assert_eq!(parse_share("1%"), Ok(0.01));
        assert_eq!(parse_share("0.25"), Ok(0.25));
        assert!(parse_share("150%").is_err());
    }
}
