//! Limits that a person can raise: socket buffers, busy polling, locked memory, huge pages.

use std::io;

use super::{Fact, Verdict};

/// Bytes of socket buffer above which no gain was measured.
const BUFFER_BYTES: u64 = 4 << 20;
/// Where the system tells to whom it gives huge pages.
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

pub(super) fn facts() -> Vec<Fact> {
    vec![
        buffer_limit("receive buffer limit", "rmem_max"),
        buffer_limit("send buffer limit", "wmem_max"),
        busy_poll(),
        locked_memory(),
        huge_pages(),
    ]
}

fn buffer_limit(name: &str, key: &str) -> Fact {
    match read_number(&format!("/proc/sys/net/core/{key}")) {
        Err(error) => Fact::unknown(name, error),
        Ok(bytes) => judge_buffer(name, key, bytes),
    }
}

fn judge_buffer(name: &str, key: &str, bytes: u64) -> Fact {
    let value = format!("{} KiB", bytes >> 10);
    if bytes >= BUFFER_BYTES {
        return Fact::good(name, value);
    }
    let verdict = if bytes >= BUFFER_BYTES / 4 { Verdict::Fair } else { Verdict::Poor };
    let remedy =
        format!("bursts of packets are lost when it is full; run sysctl -w net.core.{key}={BUFFER_BYTES}");
    Fact::with(name, value, verdict, remedy)
}

fn busy_poll() -> Fact {
    match read_number("/proc/sys/net/core/busy_read") {
        Err(error) => Fact::unknown("busy polling", error),
        Ok(0) => Fact::good("busy polling", "off; a link that spins asks the device itself"),
        Ok(micros) => Fact::good("busy polling", format!("{micros} us")),
    }
}

fn locked_memory() -> Fact {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a value of ours.
    if unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) } != 0 {
        return Fact::unknown("locked memory", io::Error::last_os_error());
    }
    // UDP locks no memory; it is told for links that map rings.
    let value = match limit.rlim_cur {
        libc::RLIM_INFINITY => "unlimited".to_owned(),
        bytes => format!("{} KiB", bytes >> 10),
    };
    Fact::good("locked memory", value)
}

fn huge_pages() -> Fact {
    match std::fs::read_to_string(HUGE_PAGES) {
        Err(error) => Fact::unknown("huge pages", format!("{HUGE_PAGES}: {error}")),
        Ok(choices) => judge_huge_pages(&choices),
    }
}

/// Of `choices` such as `always [madvise] never` the one in brackets holds.
fn judge_huge_pages(choices: &str) -> Fact {
    let name = "huge pages";
    let chosen = choices.split_whitespace().find_map(|choice| choice.strip_prefix('[')?.strip_suffix(']'));
    match chosen {
        None => Fact::unknown(name, format!("{HUGE_PAGES} holds \"{}\"", choices.trim())),
        Some("never") => {
            let remedy = format!(
                "a stream within a host is a tenth slower without them; run echo madvise > {HUGE_PAGES}"
            );
            Fact::with(name, "never", Verdict::Fair, remedy)
        }
        Some("madvise") => Fact::good(name, "for who asks, as a node does"),
        Some(chosen) => Fact::good(name, chosen),
    }
}

fn read_number(path: &str) -> Result<u64, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    text.trim().parse().map_err(|_| format!("{path} holds \"{}\", which is no number", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_buffer_comes_with_the_command_that_enlarges_it() {
        let fact = judge_buffer("receive buffer limit", "rmem_max", 212_992);
        assert_eq!(fact.verdict, Verdict::Poor);
        assert!(fact.remedy.unwrap().contains("sysctl -w net.core.rmem_max=4194304"));
        assert_eq!(judge_buffer("x", "rmem_max", 2 << 20).verdict, Verdict::Fair);
        assert_eq!(judge_buffer("x", "rmem_max", 4 << 20).verdict, Verdict::Good);
    }

    #[test]
    fn who_gets_no_huge_pages_is_told_how() {
        assert_eq!(judge_huge_pages("[always] madvise never\n").verdict, Verdict::Good);
        assert_eq!(judge_huge_pages("always [madvise] never\n").value, "for who asks, as a node does");
        let never = judge_huge_pages("always madvise [never]\n");
        assert_eq!(never.verdict, Verdict::Fair);
        assert!(never.remedy.unwrap().contains("echo madvise > /sys/"));
        assert_eq!(judge_huge_pages("nothing").verdict, Verdict::Unknown);
    }

    #[test]
    fn what_cannot_be_read_says_which_file() {
        assert!(read_number("/nonexistent").unwrap_err().contains("/nonexistent"));
    }
}
