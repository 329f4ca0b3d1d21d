//! This host and its network stack.

use std::fs;

/// Bytes of the longest host name that is told on; Linux allows 64.
const NAME_BYTES_MAX: usize = 64;

/// The name of this host; "host" where it has none that can be told on.
pub(crate) fn name() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = text.trim();
    let is_plain = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(char::is_whitespace);
    if is_plain { name.to_owned() } else { "host".to_owned() }
}

/// What stands for the network stack of this process: the boot of its kernel and the network namespace. The host's name
/// where the kernel does not tell.
pub(crate) fn domain() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    let space = fs::read_link("/proc/self/ns/net").ok();
    let (Some(boot), Some(space)) = (boot, space) else { return name() };
    // net:[4026531840]
    let number: String = space.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    format!("{}-{number}", boot.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_about_this_host_have_no_spaces_and_stay_the_same() {
        for (first, again) in [(name(), name()), (domain(), domain())] {
            assert!(!first.is_empty() && !first.contains(char::is_whitespace), "{first:?}");
            assert_eq!(first, again);
        }
    }
}
