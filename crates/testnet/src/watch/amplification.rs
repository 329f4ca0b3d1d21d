//! I9: to a peer that has proved nothing, no more bytes than came from it.

use std::collections::BTreeMap;

use weft_base::FlowKey;

use crate::violation::{Invariant, Violation, ensure};

/// The books of one node: per flow that it did not open itself, until the peer proves that it receives.
#[derive(Clone, Debug, Default)]
pub struct Books {
    flows: BTreeMap<FlowKey, Account>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Account {
    received: u64,
    sent: u64,
    is_validated: bool,
}

impl Books {
    /// This node opens the flow itself, so nobody can make it send by a false source.
    pub fn open(&mut self, flow: FlowKey) {
        self.flows.entry(flow).or_default().is_validated = true;
    }

    /// Bytes came. `proves` is whether they show that the source received an answer of this node.
    pub fn handle_arrival(&mut self, flow: FlowKey, bytes: usize, proves: bool) {
        let account = self.flows.entry(flow).or_default();
        account.received += bytes as u64;
        account.is_validated |= proves;
    }

    /// Bytes go out.
    ///
    /// # Errors
    ///
    /// If they are more than came.
    pub fn handle_sent(&mut self, flow: FlowKey, bytes: usize) -> Result<(), Violation> {
        let account = self.flows.entry(flow).or_default();
        if account.is_validated {
            return Ok(());
        }
        account.sent += bytes as u64;
        // [CDP-CKE-8]
        ensure(account.sent <= account.received, Invariant::Amplification, || {
            format!(
                "{} bytes sent to unproved {:?} for {} received",
                account.sent, flow.remote, account.received
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use weft_base::{Address, NodeId, Port};

    use super::*;

    fn flow() -> FlowKey {
        let end = |node| Address { node: NodeId::new(node).unwrap(), port: Port::new(9).unwrap() };
        FlowKey { local: end(1), remote: end(2) }
    }

    #[test]
    fn it_fires_when_more_goes_out_than_came_in() {
        let mut books = Books::default();
        books.handle_arrival(flow(), 128, false);
        assert_eq!(books.handle_sent(flow(), 100), Ok(()));
        assert_eq!(books.handle_sent(flow(), 29).unwrap_err().invariant, Invariant::Amplification);
    }

    #[test]
    fn a_proof_or_an_own_open_lifts_the_limit() {
        let mut books = Books::default();
        books.handle_arrival(flow(), 28, true);
        assert_eq!(books.handle_sent(flow(), 10_000), Ok(()));
        let mut books = Books::default();
        books.open(flow());
        assert_eq!(books.handle_sent(flow(), 128), Ok(()));
    }
}
