//! The name space of a job.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use weft_base::NodeId;
use weft_link::Mac;

use crate::{Card, PlacesError};

/// A rank in the name space of its job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Its node number: rank + 1.
    pub node: NodeId,
    /// Its names: `rank-N`, and the name of its host where no other rank runs there.
    pub names: Vec<String>,
    /// Where it is reached.
    pub at: SocketAddr,
}

/// The node number of `rank`, or `None` for a rank that no job has ([`crate::RANKS_MAX`]).
#[must_use]
pub const fn node_of(rank: u32) -> Option<NodeId> {
    if rank < crate::RANKS_MAX { NodeId::new(rank + 1) } else { None }
}

/// The name of `rank`.
#[must_use]
pub fn rank_name(rank: u32) -> String {
    format!("{RANK}{rank}")
}

const RANK: &str = "rank-";

/// Whether a name is one that a rank has in some job.
#[must_use]
pub fn is_rank_name(name: &str) -> bool {
    name.strip_prefix(RANK).is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The name space out of the cards of all ranks, in the order of ranks, as [`crate::Launch::exchange`] returns them.
///
/// # Errors
/// When a rank gave no card, or one that cannot work: an address that another rank gave too, or a loopback address
/// although ranks run elsewhere.
pub fn places(cards: &[Vec<u8>]) -> Result<Vec<Place>, PlacesError> {
    let cards: Vec<(u32, Card)> = (0..)
        .zip(cards)
        .map(|(rank, bytes)| Ok((rank, Card::parse(bytes).ok_or(PlacesError::NoCard { rank })?)))
        .collect::<Result<_, _>>()?;
    check(&cards)?;
    let mut on_host: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, card) in &cards {
        *on_host.entry(&card.host).or_default() += 1;
    }
    cards
        .iter()
        .map(|(rank, card)| {
            let mut names = vec![rank_name(*rank)];
            // A host that is called like a rank keeps its name to itself.
            if on_host.get(card.host.as_str()) == Some(&1) && !is_rank_name(&card.host) {
                names.push(card.host.clone());
            }
            let node = node_of(*rank).ok_or(PlacesError::NoCard { rank: *rank })?;
            Ok(Place { node, names, at: card.at })
        })
        .collect()
}

fn check(cards: &[(u32, Card)]) -> Result<(), PlacesError> {
    let mut seen: BTreeMap<SocketAddr, u32> = BTreeMap::new();
    let is_spread = cards.windows(2).any(|pair| pair[0].1.domain != pair[1].1.domain);
    for (rank, card) in cards {
        let is_udp = Mac::of_underlay(card.at).is_none();
        if is_udp && (card.at.ip().is_unspecified() || card.at.port() == 0) {
            return Err(PlacesError::Nowhere { rank: *rank, at: card.at });
        }
        if card.at.ip().is_loopback() && is_spread {
            return Err(PlacesError::Loopback { rank: *rank, host: card.host.clone(), at: card.at });
        }
        if let Some(first) = seen.insert(card.at, *rank) {
            return Err(PlacesError::Shared { ranks: [first, *rank], at: card.at });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(host: &str, at: &str) -> Vec<u8> {
        let at = at.parse().unwrap();
        Card { host: host.into(), domain: format!("boot-of-{host}"), at }.emit()
    }

    #[test]
    fn ranks_are_numbered_from_one_and_a_host_of_their_own_gives_them_its_name() {
        let cards = [card("a", "10.0.0.1:40"), card("b", "10.0.0.2:40"), card("a", "10.0.0.1:41")];
        let places = places(&cards).unwrap();
        assert_eq!(places.iter().map(|place| place.node.get()).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(places[0].names, ["rank-0"]);
        assert_eq!(places[1].names, ["rank-1", "b"]);
        assert_eq!(places[2].at, "10.0.0.1:41".parse().unwrap());
    }

    #[test]
    fn no_name_stands_for_two() {
        let cards = [card("rank-1", "10.0.0.1:40"), card("b", "10.0.0.2:40")];
        assert_eq!(places(&cards).unwrap()[0].names, ["rank-0"]);
        let cards = [card("rank-x", "10.0.0.1:40"), card("b", "10.0.0.2:40")];
        assert_eq!(places(&cards).unwrap()[0].names, ["rank-0", "rank-x"]);
    }

    #[test]
    fn loopback_addresses_are_for_those_who_share_a_network_stack() {
        assert!(places(&[card("a", "127.0.0.1:40"), card("a", "127.0.0.1:41")]).is_ok());
        let refused = places(&[card("a", "10.0.0.1:40"), card("b", "127.0.0.1:41")]).unwrap_err();
        assert!(matches!(refused, PlacesError::Loopback { rank: 1, .. }), "{refused}");
        assert!(refused.to_string().contains("127.0.0.1:41"), "{refused}");
    }

    #[test]
    fn cards_that_cannot_work_are_refused_by_rank() {
        let refused = |cards: &[Vec<u8>]| places(cards).unwrap_err().to_string();
        assert!(refused(&[card("a", "10.0.0.1:40"), b"?".to_vec()]).contains("rank 1"));
        let twice = refused(&[card("a", "10.0.0.1:40"), card("b", "10.0.0.1:40")]);
        assert!(twice.contains("ranks 0 and 1"), "{twice}");
        assert!(refused(&[card("a", "0.0.0.0:40")]).contains("rank 0"));
        assert!(refused(&[card("a", "10.0.0.1:0")]).contains("rank 0"));
        let ethernet = Mac([2, 0, 0, 0, 0, 7]).underlay();
        assert!(places(&[card("a", &ethernet.to_string())]).is_ok());
        assert_eq!(places(&[]).unwrap(), []);
    }

    /// [CDP-ADR-8] Only numbers below the unregistered range are given out.
    #[test]
    fn ranks_have_registered_numbers() {
        assert_eq!(node_of(0).map(NodeId::get), Some(1));
        assert!(!node_of(crate::RANKS_MAX - 1).unwrap().is_unregistered());
        assert_eq!(node_of(crate::RANKS_MAX), None);
    }
}
