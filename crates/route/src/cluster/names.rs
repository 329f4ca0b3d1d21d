//! Names of nodes beyond the one that each has, and names of ports.

use weft_base::{NodeId, Port};

use super::{AddError, Cluster};
use crate::Name;

/// Services with a port of their own everywhere ([CDP-ADR-4]).
const WELL_KNOWN: [(&str, Port); 2] = [("discard", Port::DISCARD), ("echo", Port::ECHO)];

impl Cluster {
    /// Lets `node` be found by `name` too.
    ///
    /// # Errors
    /// [`AddError::NameTaken`] if another node is called so.
    pub fn add_name(&mut self, name: Name, node: NodeId) -> Result<(), AddError> {
        match self.names.get(&name) {
            Some(other) if *other != node => Err(AddError::NameTaken(name)),
            _ => {
                self.names.insert(name, node);
                Ok(())
            }
        }
    }

    /// Lets `port` be found by `name`, on any node.
    pub fn add_service(&mut self, name: Name, port: Port) {
        self.services.insert(name, port);
    }

    /// All names of nodes.
    pub fn names(&self) -> impl Iterator<Item = (&Name, NodeId)> {
        self.names.iter().map(|(name, &node)| (name, node))
    }

    /// The names of all services that were added, and of [CDP-ADR-4].
    pub fn services(&self) -> impl Iterator<Item = (&str, Port)> {
        let is_own = |name: &str| self.services.keys().any(|own| own.as_str() == name);
        let own = self.services.iter().map(|(name, &port)| (name.as_str(), port));
        own.chain(WELL_KNOWN.into_iter().filter(move |(name, _)| !is_own(name)))
    }

    /// The port of a service: one that was added, or else `echo` or `discard` ([CDP-ADR-4]).
    #[must_use]
    pub fn service(&self, name: &str) -> Option<Port> {
        self.services().find(|(known, _)| *known == name).map(|(_, port)| port)
    }
}
