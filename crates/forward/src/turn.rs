//! One batch: each packet checked, decided on, and put into the queue of the network by which it leaves.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use weft_base::NodeId;
use weft_link::{Link, Received, RecvBatch, Refusal};
use weft_route::{Forwarder, NetworkId, NotForwarded, Onward, PROBE_INTERVAL, Underlay};
use weft_sync::MutexGuard;
use weft_wire::{Header, Transit};

use crate::port::Port;
use crate::queue::Queue;
use crate::relays::Relays;
use crate::{Arrivals, TooFar};

/// Networks, as a set of bits.
pub(crate) type NetworkBits = u16;

/// The bit of `network`.
pub(crate) const fn bit(network: NetworkId) -> NetworkBits {
    1 << network.index()
}

/// What all threads of an I/O node share.
pub(crate) struct Networks {
    pub(crate) forwarder: Forwarder,
    pub(crate) ports: Vec<Port>,
    pub(crate) relays: Relays,
}

impl Networks {
    /// # Errors
    /// When the process has no descriptor left, or two links are for one network.
    pub(crate) fn new(forwarder: Forwarder, links: Vec<(NetworkId, Arc<dyn Link>)>) -> io::Result<Self> {
        let relays = Relays::new(&forwarder, PROBE_INTERVAL);
        let mut networks = Self { forwarder, ports: Vec::new(), relays };
        for (network, link) in links {
            if networks.port(network).is_some() {
                let why = format!("network {} has two links; give it one", network.index());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
            networks.ports.push(Port::new(network, link)?);
        }
        Ok(networks)
    }

    fn port(&self, network: NetworkId) -> Option<&Port> {
        self.ports.iter().find(|port| port.network == network)
    }

    /// Puts the packets of `batch`, which came by `port`, into queues, and tells into which. Those that make a batch are
    /// offered to their links, except to those of the networks `stuck`.
    pub(crate) fn take_in(&self, port: &Port, batch: &mut RecvBatch, mut stuck: NetworkBits) -> NetworkBits {
        let mut arrivals = port.arrivals.lock();
        let mut latest = Latest::default();
        let mut out: Out<'_> = None;
        let mut touched = 0;
        for Received { from, bytes, .. } in batch.drain() {
            arrivals.packets += 1;
            arrivals.bytes += bytes.len() as u64;
            // [CDP-FWD-3], [CDP-SEAL-8] a forwarder does not verify the seal
            let transit = match Transit::check(&bytes, port.encapsulation) {
                Ok(transit) => transit,
                Err(reason) => {
                    arrivals.count_malformed(reason);
                    continue;
                }
            };
            match latest.decide(&self.forwarder, port.network, from, &transit) {
                Ok(onward) => {
                    let hop = match onward {
                        Onward::Directly(hop) => hop,
                        Onward::Through(ways) => self.relays.pick(ways, Transit::is_repeat(bytes[0])),
                    };
                    let Underlay::Udp(to) = hop.to;
                    let Some((onward, queue)) = self.open(&mut out, hop.network) else {
                        arrivals.count_refused(NotForwarded::NoRoute);
                        continue;
                    };
                    let own = bit(onward.network);
                    touched |= own;
                    queue.push(to, bytes, transit.length);
                    if queue.is_batch() && stuck & own == 0 && queue.flush(&*onward.link) {
                        stuck |= own;
                    }
                }
                Err(reason) => self.refuse(&mut arrivals, reason, from, &transit),
            }
        }
        touched
    }

    /// What hosts said of packets that were sent there. [CDP-FWD-7] Only what quotes a packet that somebody forwarded counts.
    #[cold]
    pub(crate) fn take_refusals(&self, batch: &mut RecvBatch) {
        for Refusal { to, head } in batch.drain_refusals() {
            if Header::parse(&head).is_ok_and(|header| header.hop > 0) {
                self.relays.note_refusal(to);
            }
        }
    }

    /// The queue of `network`, which stays locked until a packet leaves by another one. `None` if there is no link.
    fn open<'a, 'b>(&'a self, out: &'b mut Out<'a>, network: NetworkId) -> Option<(&'a Port, &'b mut Queue)> {
        if out.as_ref().is_none_or(|(port, _)| port.network != network) {
            // Never two queues at a time.
            *out = None;
            let port = self.port(network)?;
            *out = Some((port, port.queue.lock()));
        }
        out.as_mut().map(|(port, queue)| (*port, &mut **queue))
    }

    /// [CDP-FWD-4] Counted, and nothing sent in answer.
    #[cold]
    fn refuse(&self, arrivals: &mut Arrivals, reason: NotForwarded, from: SocketAddr, transit: &Transit) {
        arrivals.count_refused(reason);
        if reason == NotForwarded::HopLimit {
            let by = self.forwarder.cluster().io_node_at(from.into()).map(|member| member.node);
            let Transit { source, destination, .. } = *transit;
            arrivals.too_far = Some(TooFar { source, destination, from, by });
        }
    }

    /// Offers the links of these networks what waits for them, and tells which of them take no more now.
    pub(crate) fn flush(&self, networks: NetworkBits) -> NetworkBits {
        let mut stuck = 0;
        for port in self.ports.iter().filter(|port| networks & bit(port.network) != 0) {
            if port.queue.lock().flush(&*port.link) {
                stuck |= bit(port.network);
            }
        }
        stuck
    }
}

/// The queue that the latest packet went into.
type Out<'a> = Option<(&'a Port, MutexGuard<'a, Queue>)>;

/// What was decided on the latest packet: packets come in runs that share it.
#[derive(Default)]
struct Latest<'a>(Option<(Key, Result<Onward<'a>, NotForwarded>)>);

/// What a decision depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    from: SocketAddr,
    source: NodeId,
    destination: NodeId,
    hops: u32,
}

impl<'a> Latest<'a> {
    #[inline]
    fn decide(
        &mut self,
        forwarder: &'a Forwarder,
        network: NetworkId,
        from: SocketAddr,
        &Transit { source, destination, hops, .. }: &Transit,
    ) -> Result<Onward<'a>, NotForwarded> {
        let key = Key { from, source, destination, hops };
        match self.0 {
            Some((of, decision)) if of == key => decision,
            _ => {
                let decision = forwarder.decide((network, from.into()), source, destination, hops);
                self.0 = Some((key, decision));
                decision
            }
        }
    }
}

#[cfg(test)]
mod tests;
