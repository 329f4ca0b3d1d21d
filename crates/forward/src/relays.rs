//! The next I/O nodes: which of them are gone, and who carries a packet.
//!
//! Nothing is sent to find out, and nothing is kept of connections. The host of an I/O node that has ended says so of what is
//! sent there; it is then left for a while, after which packets try it again. One that is silent says nothing: so what its
//! sender repeats may go by any of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use weft_base::NodeId;
use weft_route::{Forwarder, Hop, NetworkId, Underlay};

/// All next I/O nodes.
pub(crate) struct Relays {
    relays: BTreeMap<SocketAddr, Relay>,
    /// How long one that is gone is left.
    interval: Duration,
    /// When the last that is left is tried again, in nanoseconds since `began_at`; 0 if none is left.
    left_until: AtomicU64,
    began_at: Instant,
    /// Repeated packets that had a choice.
    repeated: AtomicU32,
}

struct Relay {
    node: NodeId,
    network: NetworkId,
    left_until: AtomicU64,
    refusals: AtomicU64,
}

/// One next I/O node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RelayStats {
    /// Which.
    pub node: NodeId,
    /// The network that leads there.
    pub network: NetworkId,
    /// Its address on that network.
    pub at: SocketAddr,
    /// Its host said lately that nobody is there, and others carry its packets.
    pub is_left: bool,
    /// How often its host said so.
    pub refusals: u64,
}

impl Relays {
    /// The next I/O nodes of `forwarder`, each of which is left for the time `interval` when it is gone.
    pub(crate) fn new(forwarder: &Forwarder, interval: Duration) -> Self {
        let relay = |(node, Hop { network, to: Underlay::Udp(at) })| {
            (at, Relay { node, network, left_until: AtomicU64::new(0), refusals: AtomicU64::new(0) })
        };
        Self {
            relays: forwarder.next_io_nodes().map(relay).collect(),
            interval,
            left_until: AtomicU64::new(0),
            began_at: Instant::now(),
            repeated: AtomicU32::new(0),
        }
    }

    /// Which of `ways`, of which there is one at least, a packet takes.
    ///
    /// [CDP-FWD-7] One that is left carries nothing while there are others. [CDP-FWD-8] A repeated packet goes by each of
    /// the others as likely.
    #[inline]
    pub(crate) fn pick(&self, ways: &[Hop], is_repeated: bool) -> Hop {
        if ways.len() == 1 || (!is_repeated && self.left_until.load(Ordering::Relaxed) == 0) {
            return ways[0];
        }
        self.pick_of_several(ways, is_repeated)
    }

    fn pick_of_several(&self, ways: &[Hop], is_repeated: bool) -> Hop {
        let now = self.moment();
        let is_well = |Hop { to: Underlay::Udp(at), .. }: &&Hop| {
            self.relays.get(at).is_none_or(|relay| relay.left_until.load(Ordering::Relaxed) <= now)
        };
        let mut well = ways.iter().filter(is_well);
        let count = well.clone().count();
        let index = if is_repeated && count > 1 { self.draw() % count } else { 0 };
        *well.nth(index).unwrap_or(&ways[0])
    }

    /// A number that follows from how many were drawn, each remainder as often, without a period that traffic could have.
    fn draw(&self) -> usize {
        let drawn = self.repeated.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9);
        (drawn >> 16) as usize
    }

    /// The host at `to` said that nobody is there.
    #[cold]
    pub(crate) fn note_refusal(&self, to: SocketAddr) {
        let Some(relay) = self.relays.get(&to) else { return };
        relay.refusals.fetch_add(1, Ordering::Relaxed);
        let until = nanos(self.began_at.elapsed() + self.interval);
        relay.left_until.store(until, Ordering::Relaxed);
        self.left_until.fetch_max(until, Ordering::Relaxed);
    }

    /// Nanoseconds since the beginning; if none is left, the end of all time, without a look at the clock.
    fn moment(&self) -> u64 {
        let until = self.left_until.load(Ordering::Relaxed);
        if until == 0 {
            return u64::MAX;
        }
        let now = nanos(self.began_at.elapsed());
        if now >= until {
            // Another may have been left meanwhile; then it stays.
            let _ = self.left_until.compare_exchange(until, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        now
    }

    pub(crate) fn stats(&self) -> Vec<RelayStats> {
        let now = nanos(self.began_at.elapsed());
        let stats = |(&at, relay): (&SocketAddr, &Relay)| RelayStats {
            node: relay.node,
            network: relay.network,
            at,
            is_left: relay.left_until.load(Ordering::Relaxed) > now,
            refusals: relay.refusals.load(Ordering::Relaxed),
        };
        self.relays.iter().map(stats).collect()
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use weft_route::{ClusterFile, Onward};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// I/O node 11, behind which 21, 22 and 23 lead to node 2.
    fn forwarder() -> Forwarder {
        let io = |number: u32| {
            format!(
                "[[node]]\nnumber = {number}\nkind = \"io\"\nat = {{ b = \"10.2.0.{number}\", c = \"10.3.0.{number}\" }}\n"
            )
        };
        let text = format!(
            "networks = [\"a\", \"b\", \"c\"]\n[[node]]\nnumber = 1\nat = {{ a = \"10.1.0.1\" }}\n\
             [[node]]\nnumber = 2\nat = {{ c = \"10.3.0.2\" }}\n[[node]]\nnumber = 11\nkind = \"io\"\n\
             at = {{ a = \"10.1.0.11\", b = \"10.2.0.11\" }}\ndefault-io = 21\n{}{}{}",
            io(21),
            io(22),
            io(23)
        );
        Forwarder::new(NodeId::new(11).unwrap(), ClusterFile::parse(&text).unwrap().cluster)
    }

    fn ways(forwarder: &Forwarder) -> &[Hop] {
        let node = |number| NodeId::new(number).unwrap();
        let from = Underlay::Udp("10.1.0.1:64064".parse().unwrap());
        let onward = forwarder.decide((NetworkId::new(1).unwrap(), from), node(1), node(2), 0).unwrap();
        let Onward::Through(ways) = onward else { panic!("{onward:?}") };
        ways
    }

    fn host(hop: Hop) -> String {
        let Underlay::Udp(at) = hop.to;
        at.ip().to_string()
    }

    fn at(number: u32) -> SocketAddr {
        format!("10.2.0.{number}:64064").parse().unwrap()
    }

    /// [CDP-FWD-7] Who is not there carries nothing until the time is over, or where all are gone.
    #[test]
    fn who_is_gone_is_left_for_a_while() {
        let forwarder = forwarder();
        let ways = ways(&forwarder);
        let relays = Relays::new(&forwarder, HOUR);
        assert_eq!(host(relays.pick(ways, false)), "10.2.0.21");
        relays.note_refusal("10.9.9.9:1".parse().unwrap()); // nobody of ours
        relays.note_refusal(at(21));
        assert_eq!(host(relays.pick(ways, false)), "10.2.0.22");
        relays.note_refusal(at(22));
        assert!((0..50).all(|again| host(relays.pick(ways, again % 2 == 0)) == "10.2.0.23"));
        relays.note_refusal(at(23));
        assert_eq!(host(relays.pick(ways, false)), "10.2.0.21", "somebody has to carry it");
        assert!(relays.stats().iter().all(|relay| relay.is_left && relay.refusals == 1));

        let brief = Relays::new(&forwarder, Duration::ZERO);
        brief.note_refusal(at(21));
        assert_eq!(host(brief.pick(ways, false)), "10.2.0.21", "tried again");
        assert!(brief.stats().iter().all(|relay| !relay.is_left));
        assert_eq!(brief.left_until.load(Ordering::Relaxed), 0);
    }

    /// [CDP-FWD-8] Who was left once, and has been tried again since, carries as many repeated packets as the others.
    #[test]
    fn who_was_left_carries_repeated_packets_again() {
        let forwarder = forwarder();
        let ways = ways(&forwarder);
        let relays = Relays::new(&forwarder, Duration::ZERO);
        [21, 22, 23].into_iter().for_each(|number| relays.note_refusal(at(number)));
        assert_eq!(relays.pick(ways, false), ways[0]);
        let picked: BTreeSet<Hop> = (0..100).map(|_| relays.pick(ways, true)).collect();
        assert!(ways.iter().all(|way| picked.contains(way)), "{picked:?}");
    }

    /// [CDP-FWD-8] What is repeated goes by each of those that are not left as likely, what is sent once by the first.
    #[test]
    fn repeated_packets_spread() {
        let forwarder = forwarder();
        let ways = ways(&forwarder);
        let relays = Relays::new(&forwarder, HOUR);
        let count = |relays: &Relays| {
            let mut counts = [0; 3];
            for round in 0..600 {
                // Others that are not repeated come between, and whoever looks at every third packet sees no period.
                assert_eq!(relays.pick(ways, false), ways[0]);
                let picked = relays.pick(ways, true);
                if round % 2 == 0 {
                    counts[ways.iter().position(|way| *way == picked).unwrap()] += 1;
                }
            }
            counts
        };
        assert!(count(&relays).iter().all(|times| (80..=120).contains(times)), "{:?}", count(&relays));
        relays.note_refusal(at(23));
        let two = count_of_two(&relays, ways);
        assert!(two.iter().all(|times| (250..=350).contains(times)), "{two:?}");
    }

    fn count_of_two(relays: &Relays, ways: &[Hop]) -> [u32; 2] {
        let mut counts = [0; 2];
        for _ in 0..600 {
            let picked = relays.pick(ways, true);
            counts[ways.iter().position(|way| *way == picked).unwrap()] += 1;
        }
        counts
    }
}
