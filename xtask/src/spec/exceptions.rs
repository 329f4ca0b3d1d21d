//! The list of MUSTs that no test cites yet, each with a written reason.

use toml::{Table, Value};

/// Some ids and the one reason for all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exception {
    pub(super) ids: Vec<String>,
    pub(super) reason: String,
}

/// The entries of `text`; one without ids or with a reason of less than ten letters is an error.
pub(super) fn parse(text: &str) -> Result<Vec<Exception>, String> {
    let table =
        text.parse::<Table>().map_err(|error| format!("{}: cannot be read: {error}", super::EXCEPTIONS))?;
    let entries = table.get("exception").and_then(Value::as_array).cloned().unwrap_or_default();
    entries.iter().map(entry).collect()
}

fn entry(value: &Value) -> Result<Exception, String> {
    let ids: Vec<String> = value
        .get("ids")
        .and_then(Value::as_array)
        .map(|ids| ids.iter().filter_map(|id| id.as_str().map(str::to_owned)).collect())
        .unwrap_or_default();
    let reason = value.get("reason").and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    if ids.is_empty() || reason.len() < 10 {
        return Err(format!("{}: an entry needs `ids` and a `reason` in words: {value}", super::EXCEPTIONS));
    }
    Ok(Exception { ids, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_names_ids_and_a_reason() {
        let text = "[[exception]]\nids = [\"CDP-A-1\", \"CDP-A-2\"]\nreason = \"comes with I/O nodes\"\n";
        let found = parse(text).unwrap();
        assert_eq!((found[0].ids.len(), found[0].reason.as_str()), (2, "comes with I/O nodes"));
        assert_eq!(parse(""), Ok(Vec::new()));
    }

    #[test]
    fn an_entry_without_a_reason_or_ids_is_refused() {
        assert!(parse("[[exception]]\nids = [\"CDP-A-1\"]\nreason = \"later\"\n").is_err());
        assert!(parse("[[exception]]\nreason = \"comes with I/O nodes\"\n").is_err());
    }
}
