//! Lines of PMI-1: `cmd=NAME KEY=VALUE ...`.

/// Bytes of the longest line that is read; the longest legal ones hold a table's name, a key and a value of 1,024 bytes.
pub(crate) const LINE_BYTES_MAX: usize = 4096;

/// A line of the launcher, taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Line {
    command: String,
    fields: Vec<(String, String)>,
}

impl Line {
    /// Takes a line apart; `None` without a command. Words that are no `KEY=VALUE` are passed over: messages have spaces.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split_whitespace().filter_map(|word| word.split_once('='));
        let ("cmd", command) = fields.next()? else { return None };
        let fields = fields.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        Some(Self { command: command.to_owned(), fields })
    }

    /// What the launcher does with this line.
    pub(crate) fn command(&self) -> &str {
        &self.command
    }

    /// The value of the first field `key`.
    pub(crate) fn field(&self, key: &str) -> Option<&str> {
        self.fields.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The number in the field `key`.
    pub(crate) fn number(&self, key: &str) -> Option<u32> {
        self.field(key)?.parse().ok()
    }

    /// Whether what was asked for was done; an answer without a verdict says yes.
    pub(crate) fn is_done(&self) -> bool {
        self.field("rc").is_none_or(|code| code == "0")
    }
}

/// Bytes as a value, which may hold neither spaces nor `=`.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of such a value.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    let digit = |c: u8| u8::try_from(char::from(c).to_digit(16)?).ok();
    pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect()
}

/// Whether `PMI_process_mapping` puts all ranks on one host: `(vector,(FIRST HOST,HOSTS,RANKS EACH),...)`.
pub(crate) fn is_one_host(mapping: &str) -> bool {
    let Some(blocks) = mapping.strip_prefix("(vector,").and_then(|rest| rest.strip_suffix(')')) else {
        return false;
    };
    let numbers: Option<Vec<u32>> =
        blocks.split(',').map(|word| word.trim_matches(['(', ')']).parse().ok()).collect();
    let Some(numbers) = numbers else { return false };
    let (blocks, rest) = numbers.as_chunks::<3>();
    rest.is_empty() && blocks.iter().all(|[first, hosts, _]| *first == 0 && *hosts == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_taken_apart() {
        let line = Line::parse("cmd=get_result rc=0 msg=success value=7765").unwrap();
        assert_eq!((line.command(), line.field("value"), line.is_done()), ("get_result", Some("7765"), true));
        let line = Line::parse("cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024").unwrap();
        assert_eq!((line.number("vallen_max"), line.number("none")), (Some(1024), None));
        let line = Line::parse("cmd=get_result rc=-1 msg=key weft not found value=unknown").unwrap();
        assert_eq!((line.is_done(), line.field("value")), (false, Some("unknown")));
    }

    #[test]
    fn what_is_no_line_is_none() {
        for text in ["", " ", "rc=0", "init", "mcmd=spawn", "\u{0}"] {
            assert_eq!(Line::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn any_bytes_survive_as_a_value() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(&hex(&bytes)), Some(bytes));
        assert_eq!(unhex(""), Some(vec![]));
        for text in ["7", "7g", "+7", "unknown", "é"] {
            assert_eq!(unhex(text), None, "{text}");
        }
    }

    #[test]
    fn a_mapping_tells_whether_there_is_one_host() {
        for text in ["(vector,(0,1,1))", "(vector,(0,1,16))", "(vector,(0,1,4),(0,1,2))"] {
            assert!(is_one_host(text), "{text}");
        }
        for text in
            ["", "(vector,(0,2,1))", "(vector,(0,1,4),(1,1,4))", "(vector,(0,1))", "unknown", "(vector,)"]
        {
            assert!(!is_one_host(text), "{text}");
        }
    }
}
