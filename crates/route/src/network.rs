//! Networks of a cluster, and sets of them.

/// One network of the underlay: nodes on the same network reach each other directly.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NetworkId(u8);

impl NetworkId {
    /// The network of nodes for which no network was named; every node is on it.
    pub const COMMON: Self = Self(0);
    /// How many networks can be told apart, [`NetworkId::COMMON`] among them.
    pub const COUNT_MAX: usize = 16;

    /// The network with this index, or `None` from [`NetworkId::COUNT_MAX`] on.
    #[must_use]
    pub fn new(index: usize) -> Option<Self> {
        u8::try_from(index).ok().filter(|_| index < Self::COUNT_MAX).map(Self)
    }

    /// All of them.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT_MAX).filter_map(Self::new)
    }

    /// The index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of networks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub(crate) struct NetworkSet(u16);

impl NetworkSet {
    pub(crate) const fn only(network: NetworkId) -> Self {
        Self(1 << network.0)
    }

    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    pub(crate) const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(crate) const fn len(self) -> u32 {
        self.0.count_ones()
    }
}

impl FromIterator<NetworkId> for NetworkSet {
    fn from_iter<T: IntoIterator<Item = NetworkId>>(networks: T) -> Self {
        networks.into_iter().fold(Self::default(), |set, network| set.union(Self::only(network)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_meet_where_they_share_a_network() {
        let network = |index| NetworkId::new(index).unwrap();
        let (a, b): (NetworkSet, NetworkSet) =
            ([1, 2].map(network).into_iter().collect(), [2, 3].map(network).into_iter().collect());
        assert!(a.meets(b) && !a.without(b).meets(b));
        assert_eq!((a.union(b).len(), NetworkId::new(NetworkId::COUNT_MAX)), (3, None));
    }
}
