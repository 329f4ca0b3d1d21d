//! Which names are spelled much like one that is unknown.

use std::fmt;

/// Names that are told at most.
const TOLD_MAX: usize = 3;

/// The names closest to `wanted`, the closest first; those that a slip of the pen cannot explain are left out.
pub(crate) fn near<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let wanted: Vec<char> = wanted.chars().flat_map(char::to_lowercase).collect();
    let slips_max = wanted.len() / 3 + 1;
    let mut close: Vec<(usize, &str)> =
        names.map(|name| (slips(&wanted, name), name)).filter(|(slips, _)| *slips <= slips_max).collect();
    close.sort_unstable();
    close.into_iter().take(TOLD_MAX).map(|(_, name)| name.to_owned()).collect()
}

/// How many characters have to be put in, left out, exchanged, or swapped with their neighbour to make `name`,
/// whatever its case, of `wanted`, which is in small letters.
fn slips(wanted: &[char], name: &str) -> usize {
    let name: Vec<char> = name.chars().flat_map(char::to_lowercase).collect();
    // Rows of the table of all beginnings of `wanted` against all of `name`; the last two are kept.
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=name.len()).collect();
    for (i, &w) in wanted.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &n) in name.iter().enumerate() {
            let mut least = (last[j] + usize::from(w != n)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && w == name[j - 1] && wanted[i - 1] == n {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[name.len()]
}

/// What may have been meant, or else to look again.
pub(crate) struct NearText<'a>(pub(crate) &'a [String]);

impl fmt::Display for NearText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("; check the spelling"),
            [only] => write!(f, "; did you mean {only}?"),
            several => write!(f, "; did you mean one of {}?", several.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(a: &str, b: &str) -> usize {
        slips(&a.chars().collect::<Vec<_>>(), b)
    }

    #[test]
    fn a_slip_is_a_character_more_less_other_or_swapped() {
        for (a, b, slips) in [
            ("", "", 0),
            ("io-1", "io-1", 0),
            ("io-1", "io-11", 1),
            ("io1", "io-1", 1),
            ("io-1", "io-2", 1),
            ("compute-71", "compute-17", 1),
            ("", "abc", 3),
            ("login", "storage", 6),
        ] {
            assert_eq!((count(a, b), count(b, a)), (slips, slips), "{a} {b}");
        }
    }

    #[test]
    fn the_closest_are_told_and_far_ones_are_not() {
        let names = ["login", "storage-2", "storage-1", "io-1"];
        assert_eq!(near("LOGIN", names.into_iter()), ["login"]);
        assert_eq!(near("storage1", names.into_iter()), ["storage-1", "storage-2"]);
        assert_eq!(near("elsewhere", names.into_iter()), [""; 0]);
        let many: Vec<String> = (0..9).map(|n| format!("node-{n}")).collect();
        assert_eq!(near("node-x", many.iter().map(String::as_str)), ["node-0", "node-1", "node-2"]);
    }
}
