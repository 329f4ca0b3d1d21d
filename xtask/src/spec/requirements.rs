//! The requirements of the specification: bulleted sentences, rows of the state table, limits.

use std::collections::BTreeSet;
use std::fmt;

/// One requirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Requirement {
    /// Such as `CDP-HDR-3`.
    pub(super) id: String,
    /// Its sentence, or the cells of its row.
    pub(super) text: String,
    /// Whether it says MUST or MUST NOT; rows of normative tables always do.
    pub(super) is_must: bool,
    /// Line of the document, from 1.
    pub(super) line: usize,
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.id, self.text)
    }
}

/// The last cell of the state table's head; its rows are cited as `CDP-ST-n`.
const STATE_TABLE: &str = "MUST do → next state";

/// The requirements in `text`, in its order; an id given twice is an error.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, String> {
    let mut requirements = Vec::new();
    let mut is_state_table = false;
    for (index, line) in text.lines().enumerate() {
        let found = match cells(line) {
            Some(cells) => {
                is_state_table = is_state_table || cells.last() == Some(&STATE_TABLE);
                row(&cells, is_state_table)
            }
            None => {
                is_state_table = false;
                sentence(line)
            }
        };
        requirements.extend(found.map(|(id, text, is_must)| Requirement {
            id,
            text,
            is_must,
            line: index + 1,
        }));
    }
    let mut seen = BTreeSet::new();
    match requirements.iter().find(|requirement| !seen.insert(&requirement.id)) {
        Some(twice) => Err(format!("{}:{}: {} is given twice", super::DOCUMENT, twice.line, twice.id)),
        None if requirements.is_empty() => Err(format!("{}: holds no requirement", super::DOCUMENT)),
        None => Ok(requirements),
    }
}

fn sentence(line: &str) -> Option<(String, String, bool)> {
    let (id, text) = line.strip_prefix("- **[")?.split_once("]** ")?;
    let is_must = text.split(|c: char| !c.is_alphanumeric()).any(|word| word == "MUST");
    Some((id.to_owned(), text.to_owned(), is_must))
}

fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split(" | ").map(str::trim).collect())
}

fn row(cells: &[&str], is_state_table: bool) -> Option<(String, String, bool)> {
    let (first, rest) = cells.split_first()?;
    let is_number = !first.is_empty() && first.bytes().all(|b| b.is_ascii_digit());
    let id = match is_number && is_state_table {
        true => format!("CDP-ST-{first}"),
        false if first.starts_with("CDP-LIM-") => (*first).to_owned(),
        false => return None,
    };
    Some((id, rest.join(" | "), true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, bool)> {
        parse(text).unwrap().into_iter().map(|r| (r.id, r.is_must)).collect()
    }

    #[test]
    fn a_sentence_with_two_musts_is_one_requirement() {
        let text = "- **[CDP-A-1]** X MUST go and MUST NOT stay.\n- **[CDP-A-B]** X SHOULD go.\n";
        assert_eq!(found(text), [("CDP-A-1".to_owned(), true), ("CDP-A-B".to_owned(), false)]);
    }

    #[test]
    fn rows_of_the_state_table_and_limits_are_requirements_and_other_rows_are_not() {
        let text = "\
| Code | Name |
|--|--|
| 7 | stalled |

| n | State | Event | MUST do → next state |
|--|--|--|--|
| 7 | LISTEN | ACK | create → ESTABLISHED |

| Code | Name |
| 8 | other |
| CDP-LIM-3 | echo-form RST | 100 | silence |
";
        assert_eq!(found(text), [("CDP-ST-7".to_owned(), true), ("CDP-LIM-3".to_owned(), true)]);
    }

    #[test]
    fn an_id_given_twice_is_an_error() {
        let text = "- **[CDP-A-1]** X MUST go.\n- **[CDP-A-1]** Y MUST go.\n";
        assert!(parse(text).unwrap_err().contains(":2: CDP-A-1"));
    }

    #[test]
    fn the_specification_is_read_whole() {
        let path = crate::root().join(super::super::DOCUMENT);
        let requirements = parse(&std::fs::read_to_string(path).unwrap()).unwrap();
        let rows =
            requirements.iter().filter(|r| r.id.starts_with("CDP-ST-") && r.text.contains(" | ")).count();
        let limits =
            requirements.iter().filter(|r| r.id.starts_with("CDP-LIM-") && r.text.contains(" | ")).count();
        assert_eq!((rows, limits), (50, 16));
        for id in ["CDP-HDR-1", "CDP-ST-A", "CDP-ST-50", "CDP-LIM-16", "CDP-LIM-B", "CDP-ERR-2"] {
            assert!(requirements.iter().any(|r| r.id == id && r.is_must), "{id}");
        }
        assert!(requirements.iter().any(|r| r.id == "CDP-CC-2" && !r.is_must));
    }
}
