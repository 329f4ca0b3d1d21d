//! Ids of requirements in the sources.

use crate::source;
use crate::tree::File;

/// A place that names a requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Citation {
    pub(super) id: String,
    pub(super) path: String,
    pub(super) line: usize,
    /// Whether the place is test code.
    pub(super) is_test: bool,
    /// Whether it claims to keep the requirement: the id stands in brackets, as `[CDP-HDR-5]`. Elsewhere it is a mention.
    pub(super) counts: bool,
}

/// Every naming of an id in the rooms' sources, the dissector and the examples.
pub(super) fn find(files: &[File]) -> Vec<Citation> {
    let mut citations = Vec::new();
    for file in files.iter().filter(|file| is_source(file)) {
        if file.is_rust() {
            for line in source::lines(&file.text) {
                let is_test = line.is_test || file.is_test();
                let found = ids(&line.comment).into_iter().chain(ids(&line.literal));
                citations.extend(found.map(|(id, counts)| citation(file, id, line.number, is_test, counts)));
            }
        } else {
            for (index, line) in file.text.lines().enumerate() {
                let is_test = file.is_test();
                citations
                    .extend(ids(line).into_iter().map(|(id, c)| citation(file, id, index + 1, is_test, c)));
            }
        }
    }
    citations
}

fn citation(file: &File, id: String, line: usize, is_test: bool, counts: bool) -> Citation {
    Citation { id, path: file.path.clone(), line, is_test, counts }
}

fn is_source(file: &File) -> bool {
    let is_code = [".rs", ".lua", ".c", ".h", ".sh", ".py"].iter().any(|end| file.path.ends_with(end));
    is_code && !file.path.starts_with("xtask/")
}

/// The ids in `text`, each with whether it stands in brackets.
fn ids(text: &str) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find("CDP-").map(|at| from + at) {
        let id = id_at(&text[start..]);
        from = start + id.map_or("CDP-".len(), str::len);
        let is_word_start = !text[..start].ends_with(|c: char| c.is_alphanumeric() || c == '-');
        if let Some(id) = id.filter(|_| is_word_start) {
            found.push((id.to_owned(), is_bracketed(&text[..start], &text[from..])));
        }
    }
    found
}

/// The id at the beginning of `text`: `CDP-`, capitals, `-`, and a number or one capital.
fn id_at(text: &str) -> Option<&str> {
    let group = text["CDP-".len()..].bytes().take_while(u8::is_ascii_uppercase).count();
    let dash = "CDP-".len() + group;
    let rest = text[dash..].strip_prefix('-').filter(|_| group > 0)?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let letters = rest.bytes().take_while(u8::is_ascii_uppercase).count();
    let len = if digits > 0 { digits } else { letters };
    let ends = !rest[len..].starts_with(|c: char| c.is_alphanumeric());
    (ends && (digits > 0 || letters == 1)).then(|| &text[..dash + 1 + len])
}

fn is_bracketed(before: &str, after: &str) -> bool {
    let opens = before.rfind('[').is_some_and(|open| before.rfind(']').is_none_or(|close| close < open));
    let closes = after.find(']').is_some_and(|close| after.find('[').is_none_or(|open| close < open));
    opens && closes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::file;

    fn all(path: &str, text: &str) -> Vec<(String, bool, bool)> {
        find(&[file(path, text)]).into_iter().map(|c| (c.id, c.is_test, c.counts)).collect()
    }

    fn cited(id: &str, is_test: bool, counts: bool) -> (String, bool, bool) {
        (id.to_owned(), is_test, counts)
    }

    #[test]
    fn a_bracket_claims_and_a_mention_does_not() {
        let found = all("crates/a/src/lib.rs", "// [CDP-HDR-5] but see CDP-HDR-6 (CDP-ST-A)\n");
        assert_eq!(
            found,
            [
                cited("CDP-HDR-5", false, true),
                cited("CDP-HDR-6", false, false),
                cited("CDP-ST-A", false, false)
            ]
        );
    }

    #[test]
    fn one_bracket_may_hold_several() {
        let found = all("crates/a/src/lib.rs", "/// [CDP-COA-1, CDP-COA-2] lists\n");
        assert_eq!(found, [cited("CDP-COA-1", false, true), cited("CDP-COA-2", false, true)]);
    }

    #[test]
    fn tests_are_told_by_region_and_by_file() {
        let text = "// [CDP-A-1]\n#[cfg(test)]\nmod tests {\n  // [CDP-A-2]\n}\n";
        assert_eq!(
            all("crates/a/src/b.rs", text),
            [cited("CDP-A-1", false, true), cited("CDP-A-2", true, true)]
        );
        assert_eq!(all("crates/a/tests/b.rs", "// [CDP-A-1]"), [cited("CDP-A-1", true, true)]);
        assert_eq!(all("crates/a/tests/b.c", "/* [CDP-A-1] */"), [cited("CDP-A-1", true, true)]);
    }

    #[test]
    fn a_failure_text_of_a_table_may_cite() {
        assert_eq!(all("crates/a/tests/b.rs", "row(\"[CDP-ST-12] x\")"), [cited("CDP-ST-12", true, true)]);
    }

    #[test]
    fn what_is_no_id_is_left_alone() {
        for text in ["CDP-1", "CDP-HDR", "CDP-HDR-", "CDP-HDR-AB", "CDP-HDR-1x", "XCDP-HDR-1", "CDP-n-1"] {
            assert_eq!(ids(text), [], "{text}");
        }
    }

    #[test]
    fn documents_and_this_tool_are_no_sources() {
        assert_eq!(all("docs/a.md", "[CDP-A-1]"), []);
        assert_eq!(all("xtask/src/a.rs", "// [CDP-A-1]"), []);
    }
}
