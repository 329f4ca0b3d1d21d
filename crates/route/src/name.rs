//! Names of nodes, for people.

use std::fmt;
use std::str::FromStr;

/// A symbolic name. [CDP-ADR-2] Names map to numbers in the cluster file and never travel in packets.
///
/// 1 to 253 characters out of letters, digits, `.`, `_` and `-`, so that `name:port` can be taken apart again. Case
/// matters.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    /// Characters of the longest name: what the domain name system allows.
    pub const LEN_MAX: usize = 253;

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// A text that is not a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseNameError(String);

impl fmt::Display for ParseNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a name of a node; give 1 to 253 letters, digits, '.', '_' or '-'", self.0)
    }
}

impl std::error::Error for ParseNameError {}

impl FromStr for Name {
    type Err = ParseNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
        let length = text.chars().count();
        if (1..=Self::LEN_MAX).contains(&length) && text.chars().all(is_plain) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ParseNameError(text.to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_be_told_from_its_port() {
        assert_eq!("rack3.node-07".parse::<Name>().unwrap().as_str(), "rack3.node-07");
        for text in ["", "a:1", "a b", "a\n", &"x".repeat(254)] {
            let refused = text.parse::<Name>().unwrap_err();
            assert!(refused.to_string().contains("letters"), "{text:?}");
        }
    }
}
