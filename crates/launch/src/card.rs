//! What a rank tells the others of itself.

use std::net::SocketAddr;

use crate::host;

/// A rank's card: `weft1 HOST DOMAIN IP:PORT` in text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Card {
    /// The name of its host.
    pub host: String,
    /// Stands for the network stack it runs in; loopback addresses mean the same to all who share it.
    pub domain: String,
    /// Where it is reached.
    pub at: SocketAddr,
}

/// What a card begins with; another version of Weft may begin with another.
const MARK: &str = "weft1";

impl Card {
    /// The card of this process, which is reached at `at`.
    #[must_use]
    pub fn of_this_host(at: SocketAddr) -> Self {
        Self { host: host::name(), domain: host::domain(), at }
    }

    /// The bytes to exchange.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        format!("{MARK} {} {} {}", self.host, self.domain, self.at).into_bytes()
    }

    /// Reads what [`Card::emit`] wrote; `None` for anything else.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(bytes).ok()?.split(' ');
        let mut next = || words.next().filter(|word| !word.is_empty());
        if next()? != MARK {
            return None;
        }
        let (host, domain, at) = (next()?.to_owned(), next()?.to_owned(), next()?.parse().ok()?);
        words.next().is_none().then_some(Self { host, domain, at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EXCHANGE_BYTES_MAX;

    #[test]
    fn a_card_is_read_as_it_was_written() {
        for at in ["10.0.0.1:40000", "[fe80::1%2]:40000", "[2001:db8::1]:9"] {
            let card = Card { host: "vm".into(), domain: "ab-4026531840".into(), at: at.parse().unwrap() };
            assert_eq!(Card::parse(&card.emit()), Some(card));
        }
        let bytes = b"weft1 vm ab 10.0.0.1:40000";
        assert_eq!(Card::parse(bytes).unwrap().host, "vm");
    }

    #[test]
    fn what_is_no_card_is_refused() {
        for text in ["", "weft1", "weft2 vm ab 10.0.0.1:1", "weft1 vm ab 10.0.0.1", "weft1 vm  10.0.0.1:1"] {
            assert_eq!(Card::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Card::parse(b"weft1 vm ab 10.0.0.1:1 more"), None);
        assert_eq!(Card::parse(b"weft1 \xFF ab 10.0.0.1:1"), None);
    }

    #[test]
    fn the_card_of_this_host_fits_into_an_exchange() {
        let card =
            Card::of_this_host("[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff%1234567890]:65535".parse().unwrap());
        assert!(card.emit().len() <= EXCHANGE_BYTES_MAX, "{card:?}");
        assert_eq!(Card::parse(&card.emit()), Some(card));
    }
}
