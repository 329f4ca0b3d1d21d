//! Words that a room may not say: clocks, system calls, `unsafe` in pure rooms.

use super::Finding;
use super::rooms::Room;
use crate::source::{self, Line};
use crate::tree::File;

/// A wall: the words that stand on it, and what a room's "may touch" must name for the wall to be open.
struct Wall {
    words: &'static [&'static str],
    opens: &'static [&'static str],
    reason: &'static str,
}

const WALLS: [Wall; 2] = [
    Wall {
        words: &["Instant::now", "SystemTime"],
        opens: &["clock"],
        reason: "reads a clock, which this room is not allowed to",
    },
    Wall {
        words: &["libc::"],
        opens: &["system calls", "foreign functions"],
        reason: "names the C library, which this room is not allowed to",
    },
];

/// Holds the sources of every room against what it may touch.
pub(super) fn check(rooms: &[Room], files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let Some(room) = rooms.iter().find(|room| Some(room.name()) == file.room()) else { continue };
        for line in source::lines(&file.text) {
            findings.extend(
                complaint(room, file, &line).map(|text| Finding::new(&file.path, text).at(line.number)),
            );
        }
    }
    findings
}

fn complaint(room: &Room, file: &File, line: &Line) -> Option<&'static str> {
    if room.is_pure() && !room.is_pure_unsafe() && has_word(&line.code, "unsafe") {
        return Some("`unsafe` in a pure room");
    }
    // Tests of an impure room may look at a clock; those of a pure room may not.
    let is_free = !room.is_pure() && (line.is_test || file.is_test() || is_example(file));
    let is_closed = |wall: &&Wall| !wall.opens.iter().any(|what| room.may_touch(what));
    let closed = WALLS.iter().filter(|_| !is_free).filter(is_closed);
    closed
        .into_iter()
        .find(|wall| wall.words.iter().any(|word| line.code.contains(word)))
        .map(|wall| wall.reason)
}

fn is_example(file: &File) -> bool {
    file.path.contains("/examples/")
}

fn has_word(code: &str, word: &str) -> bool {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word)
}

#[cfg(test)]
mod tests {
    use super::super::rooms;
    use super::*;
    use crate::tree::file;

    const DOCUMENT: &str = "\
| floor | room | purpose | uses | from outside | may touch |
|--|--|--|--|--|--|
| 0 | `wire` | bytes | – | – | nothing |
| 0 | `crc` | sums | – | – | processor instructions |
| 1 | `sync` | locks | – | libc | system calls (futex) |
| 2 | `engine` | turns | – | – | clock, threads, locks |
";

    fn complaints(path: &str, text: &str) -> Vec<String> {
        let rooms = rooms::parse(DOCUMENT).unwrap();
        check(&rooms, &[file(path, text)]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_clock_is_read_only_where_the_table_says_so() {
        let text = "fn f() { let t = std::time::Instant::now(); }";
        assert_eq!(complaints("crates/engine/src/lib.rs", text), [""; 0]);
        assert!(complaints("crates/sync/src/lib.rs", text)[0].contains("reads a clock"));
        assert!(complaints("crates/wire/src/lib.rs", "use std::time::SystemTime;")[0].contains(":1:"));
    }

    #[test]
    fn the_c_library_is_named_only_where_the_table_says_so() {
        let text = "fn f() { libc::close(1) }";
        assert_eq!(complaints("crates/sync/src/lib.rs", text), [""; 0]);
        assert!(complaints("crates/engine/src/lib.rs", text)[0].contains("C library"));
    }

    #[test]
    fn tests_of_impure_rooms_may_look_at_a_clock_and_those_of_pure_rooms_may_not() {
        let text = "#[cfg(test)]\nmod tests {\n  fn f() { Instant::now(); }\n}\n";
        assert_eq!(complaints("crates/sync/src/lib.rs", text), [""; 0]);
        assert_eq!(complaints("crates/wire/src/lib.rs", text).len(), 1);
    }

    #[test]
    fn comments_and_texts_may_say_anything() {
        let text = "// libc::close and unsafe\nconst A: &str = \"Instant::now unsafe\";\n";
        assert_eq!(complaints("crates/wire/src/lib.rs", text), [""; 0]);
    }

    #[test]
    fn unsafe_is_found_in_pure_rooms_only() {
        let text = "fn f() { unsafe { g() } }\nfn unsafe_name() {}\n";
        assert_eq!(complaints("crates/wire/src/lib.rs", text).len(), 1);
        assert_eq!(complaints("crates/sync/src/lib.rs", text), [""; 0]);
    }
}
