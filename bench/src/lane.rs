//! One direction of a long wire, in virtual time: a bottleneck with a queue of bounded length, then a delay.

use std::time::Duration;

/// What a wire is like.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shape {
    /// From one end to the other, without the queue.
    pub delay: Duration,
    /// Bits a second that pass the bottleneck, Ethernet headers included.
    pub bits_per_second: u64,
    /// Bytes that may wait before it; a frame that finds no room is dropped.
    pub queue_bytes: u64,
    /// Frames lost at random before they reach it, of a million.
    pub lost_per_million: u32,
}

/// What became of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Frames that went on.
    pub passed: u64,
    /// Frames dropped as the queue was full.
    pub overflowed: u64,
    /// Frames lost at random.
    pub lost: u64,
}

/// One direction. Times are nanoseconds of any clock.
///
/// ```
/// use weft_bench::lane::{Lane, Shape};
///
/// let delay = std::time::Duration::from_millis(5);
/// let mut lane = Lane::new(Shape { delay, bits_per_second: 8_000_000_000, queue_bytes: 3000, lost_per_million: 0 }, 1);
/// // A byte takes a nanosecond.
/// assert_eq!(lane.admit(0, 1500), Some(5_001_500));
/// assert_eq!(lane.admit(0, 1500), Some(5_003_000));
/// assert_eq!(lane.admit(0, 1500), None);
/// ```
#[derive(Clone, Debug)]
pub struct Lane {
    shape: Shape,
    /// When the last frame that was let in has passed the bottleneck.
    free_at: u64,
    random: u64,
    counts: Counts,
}

impl Lane {
    /// An empty lane; the same `seed` loses the same frames.
    #[must_use]
    pub const fn new(shape: Shape, seed: u64) -> Self {
        Self { shape, free_at: 0, random: seed | 1, counts: Counts { passed: 0, overflowed: 0, lost: 0 } }
    }

    /// When a frame of `bytes` that comes at `now` arrives at the other end; `None` if it never does.
    pub fn admit(&mut self, now: u64, bytes: usize) -> Option<u64> {
        if self.is_unlucky() {
            self.counts.lost += 1;
            return None;
        }
        let start = self.free_at.max(now);
        let waiting = self.bytes_in(start - now);
        if waiting + bytes as u64 > self.shape.queue_bytes {
            self.counts.overflowed += 1;
            return None;
        }
        self.counts.passed += 1;
        self.free_at = start + bytes as u64 * 8_000_000_000 / self.shape.bits_per_second;
        Some(self.free_at + u64::try_from(self.shape.delay.as_nanos()).unwrap_or(u64::MAX / 2))
    }

    /// What became of the frames so far.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Bytes that pass the bottleneck in so many nanoseconds.
    fn bytes_in(&self, nanos: u64) -> u64 {
        let bytes = u128::from(nanos) * u128::from(self.shape.bits_per_second) / 8_000_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX / 2)
    }

    fn is_unlucky(&mut self) -> bool {
        // Xorshift: its upper half is even enough for a share of a million.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 32) % 1_000_000 < u64::from(self.shape.lost_per_million)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        let delay = Duration::from_millis(5);
        Shape { delay, bits_per_second: 1_000_000_000, queue_bytes: 150_000, lost_per_million: 0 }
    }

    #[test]
    fn the_rate_holds_however_fast_frames_come() {
        let mut lane = Lane::new(shape(), 1);
        // Twice as much as passes, for a second.
        let arrivals: Vec<u64> = (0..166_666).filter_map(|at| lane.admit(at * 6_000, 1_500)).collect();
        let counts = lane.counts();
        assert_eq!(arrivals.len() as u64, counts.passed);
        assert!((83_000..84_000).contains(&counts.passed), "{counts:?}");
        assert_eq!(counts.passed + counts.overflowed, 166_666);
        assert!(arrivals.windows(2).all(|pair| pair[1] - pair[0] >= 12_000));
    }

    #[test]
    fn an_empty_queue_delays_by_the_way_alone_and_a_full_one_by_its_length() {
        let mut lane = Lane::new(shape(), 1);
        assert_eq!(lane.admit(1_000_000, 1_500), Some(1_000_000 + 12_000 + 5_000_000));
        let last = (0..200).filter_map(|_| lane.admit(1_000_000, 1_500)).last().unwrap();
        assert_eq!(last, 1_000_000 + 100 * 12_000 + 5_000_000);
    }

    #[test]
    fn about_the_given_share_is_lost_and_the_same_frames_again() {
        let lossy = Shape { lost_per_million: 10_000, queue_bytes: u64::MAX / 4, ..shape() };
        let run = |seed| {
            let mut lane = Lane::new(lossy, seed);
            let lost: Vec<bool> = (0..100_000).map(|at| lane.admit(at * 12_000, 1_500).is_none()).collect();
            (lost, lane.counts().lost)
        };
        let (first, lost) = run(7);
        assert!((800..1_200).contains(&lost), "{lost}");
        assert_eq!(first, run(7).0);
        assert_ne!(first, run(9).0);
    }
}
