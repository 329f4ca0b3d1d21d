//! The cluster file in the words of its text, each value with its place.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use toml::{Spanned, Value};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawFile {
    pub(super) mode: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) networks: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) services: BTreeMap<Spanned<String>, Spanned<i64>>,
    #[serde(default)]
    pub(super) node: Vec<Spanned<RawNode>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawNode {
    pub(super) name: Option<Spanned<String>>,
    pub(super) number: Spanned<i64>,
    pub(super) kind: Option<Spanned<String>>,
    pub(super) at: Spanned<RawAt>,
    pub(super) place: Option<Spanned<Vec<i64>>>,
    #[serde(default)]
    pub(super) io_nodes: Vec<Spanned<Value>>,
    pub(super) default_io: Option<Spanned<Value>>,
}

/// One address, or one for each network.
pub(super) enum RawAt {
    One(String),
    Each(BTreeMap<Spanned<String>, Spanned<String>>),
}

impl<'de> Deserialize<'de> for RawAt {
    // Not derived: the places of values are lost where one of several forms is guessed.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = RawAt;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address, such as \"10.0.0.7\", or one for each network, such as { lan = \"10.0.0.7\" }")
            }

            fn visit_str<E>(self, address: &str) -> Result<RawAt, E> {
                Ok(RawAt::One(address.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawAt, A::Error> {
                Deserialize::deserialize(MapAccessDeserializer::new(map)).map(RawAt::Each)
            }
        }
        deserializer.deserialize_any(Either)
    }
}
