//! A mesh of three dimensions, and the way through it in dimension order.

use std::fmt;

/// The place of a node in a mesh: x, y and z, from 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Coordinates(pub [u16; 3]);

impl Coordinates {
    /// Hops to `other` along the edges of the mesh.
    #[must_use]
    pub fn distance(self, other: Self) -> u32 {
        self.0.iter().zip(other.0).map(|(&a, b)| u32::from(a.abs_diff(b))).sum()
    }

    /// The neighbour that a packet for `to` goes to next: first along x until that agrees, then y, then z. `None` at the
    /// destination. Packets that all take the dimensions in one order cannot wait for each other in a circle.
    #[must_use]
    pub fn next_towards(self, to: Self) -> Option<Self> {
        let dimension = self.0.iter().zip(to.0).position(|(&here, there)| here != there)?;
        let mut next = self;
        let step = &mut next.0[dimension];
        *step = if *step < to.0[dimension] { *step + 1 } else { *step - 1 };
        Some(next)
    }
}

impl fmt::Display for Coordinates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.0;
        write!(f, "[{x}, {y}, {z}]")
    }
}

impl fmt::Debug for Coordinates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_takes_one_dimension_after_the_other() {
        let (from, to) = (Coordinates([3, 0, 1]), Coordinates([1, 2, 1]));
        let way: Vec<_> = std::iter::successors(Some(from), |here| here.next_towards(to)).collect();
        assert_eq!(way, [[3, 0, 1], [2, 0, 1], [1, 0, 1], [1, 1, 1], [1, 2, 1]].map(Coordinates));
        assert_eq!(u32::try_from(way.len()).unwrap(), from.distance(to) + 1);
    }

    #[test]
    fn every_way_ends_and_is_a_shortest_one() {
        let all: Vec<_> = (0..64_u16).map(|i| Coordinates([i % 4, i / 4 % 4, i / 16])).collect();
        for (&from, &to) in all.iter().flat_map(|from| all.iter().map(move |to| (from, to))) {
            let way = std::iter::successors(Some(from), |here| here.next_towards(to));
            assert_eq!(way.skip(1).count(), from.distance(to) as usize, "{from} to {to}");
        }
    }
}
