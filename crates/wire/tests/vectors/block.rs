//! Reads the vectors block of the specification.

use std::collections::BTreeMap;

const SPEC: &str = include_str!("../../../../docs/spec/cdp.md");

/// One line of the block, with the bytes below it.
#[derive(Clone, Debug)]
pub(crate) struct Vector {
    pub(crate) name: String,
    pub(crate) verdict: String,
    fields: BTreeMap<String, String>,
    /// `n:hex`, `cut:n` and `add:hex`, in order.
    changes: Vec<(String, String)>,
    bytes: Vec<u8>,
}

impl Vector {
    fn parse(line: &str) -> Self {
        let text = line.split('#').next().unwrap();
        let mut words = text.split_whitespace();
        let (name, verdict) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
        let mut vector =
            Self { name, verdict, fields: BTreeMap::new(), changes: Vec::new(), bytes: Vec::new() };
        for word in words {
            if let Some((key, value)) = word.split_once('=') {
                vector.fields.insert(key.to_owned(), value.to_owned());
            } else {
                let (at, value) = word.split_once(':').unwrap_or_else(|| panic!("{word} in {line}"));
                vector.changes.push((at.to_owned(), value.to_owned()));
            }
        }
        vector
    }

    /// The value of `key`.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.fields.get(key).map(String::as_str)
    }

    /// The value of `key` in hexadecimal.
    pub(crate) fn hex(&self, key: &str) -> Option<u64> {
        self.get(key).map(|text| u64::from_str_radix(text, 16).unwrap())
    }

    /// The value of `key` in decimal.
    pub(crate) fn number(&self, key: &str) -> Option<u32> {
        self.get(key).map(|text| text.parse().unwrap())
    }

    /// The value of `key` as a list of decimal numbers.
    pub(crate) fn list(&self, key: &str) -> Option<Vec<u32>> {
        self.get(key).map(|text| text.split(',').map(|item| item.parse().unwrap()).collect())
    }

    /// The keys that the line gives, so that a test can show that it knows all of them.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(String::as_str)
    }

    fn change(&self, bytes: &mut Vec<u8>) {
        for (what, value) in &self.changes {
            match what.as_str() {
                "cut" => bytes.truncate(value.parse().unwrap()),
                "add" => bytes.extend(hex(value)),
                at => bytes[at.parse::<usize>().unwrap()] = hex(value)[0],
            }
        }
    }
}

/// The whole block, in order.
pub(crate) struct Block {
    pub(crate) vectors: Vec<Vector>,
}

impl Block {
    pub(crate) fn read() -> Self {
        let block = SPEC.split("```vectors\n").nth(1).unwrap().split("```").next().unwrap();
        let mut vectors: Vec<Vector> = Vec::new();
        for line in block.lines() {
            if line.starts_with(' ') {
                vectors.last_mut().unwrap().bytes.extend(hex(line));
            } else {
                vectors.push(Vector::parse(line));
            }
        }
        Self { vectors }
    }

    pub(crate) fn find(&self, name: &str) -> &Vector {
        self.vectors.iter().find(|vector| vector.name == name).unwrap_or_else(|| panic!("no vector {name}"))
    }

    /// The bytes as they come from the underlay.
    pub(crate) fn bytes(&self, vector: &Vector) -> Vec<u8> {
        let mut bytes =
            vector.get("from").map_or_else(|| vector.bytes.clone(), |from| self.bytes(self.find(from)));
        vector.change(&mut bytes);
        assert!(!bytes.is_empty(), "{} has no bytes", vector.name);
        bytes
    }
}

/// Hexadecimal digits, with blanks anywhere.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| u8::try_from(c.to_digit(16).unwrap()).unwrap())
        .collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
