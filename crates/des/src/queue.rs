//! The event queue and the virtual clock that it carries along.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use weft_base::Instant;

/// Events ordered by (time, sequence), and the time of the one taken last.
///
/// Two events of the same time leave in the order in which they were scheduled, so no order depends on how a heap
/// happens to lie in memory. The clock moves only by [`Queue::pop`] and never back.
#[derive(Clone, Debug)]
pub struct Queue<E> {
    now: Instant,
    scheduled: u64,
    heap: BinaryHeap<Entry<E>>,
}

#[derive(Clone, Debug)]
struct Entry<E> {
    at: Instant,
    sequence: u64,
    event: E,
}

impl<E> Queue<E> {
    /// An empty queue at the origin of time.
    #[must_use]
    pub fn new() -> Self {
        Self { now: Instant::ZERO, scheduled: 0, heap: BinaryHeap::new() }
    }

    /// The virtual time: that of the event taken last.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Events waiting.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Puts `event` at `at`, or at the present if `at` is past: what is overdue happens next, not in the past.
    pub fn schedule(&mut self, at: Instant, event: E) {
        let sequence = self.scheduled;
        self.scheduled += 1;
        self.heap.push(Entry { at: at.max(self.now), sequence, event });
    }

    /// When the next event is due.
    #[must_use]
    pub fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// Takes the next event and moves the clock to it.
    pub fn pop(&mut self) -> Option<E> {
        let entry = self.heap.pop()?;
        self.now = entry.at;
        Some(entry.event)
    }
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// Turned round, as the heap gives its greatest: the earliest is greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn events_leave_in_order_of_time_and_then_of_scheduling() {
        let mut random = Random::from_seed(7);
        let mut queue = Queue::new();
        let mut expected: Vec<(u64, u32)> = Vec::new();
        for number in 0..1_000 {
            let at = random.below(50);
            queue.schedule(Instant::from_nanos(at), number);
            expected.push((at, number));
        }
        expected.sort_by_key(|&(at, _)| at); // a stable sort: scheduling order is kept within a time
        let mut seen = Vec::new();
        while let Some(number) = queue.pop() {
            seen.push((queue.now().as_nanos(), number));
        }
        assert_eq!(seen, expected);
    }

    #[test]
    fn the_clock_never_moves_back_even_for_an_overdue_event() {
        let mut queue = Queue::new();
        queue.schedule(Instant::from_nanos(10), 'a');
        assert_eq!(queue.pop(), Some('a'));
        queue.schedule(Instant::from_nanos(3), 'b');
        assert_eq!(queue.next_at(), Some(Instant::from_nanos(10)));
        assert_eq!((queue.pop(), queue.now()), (Some('b'), Instant::from_nanos(10)));
        assert!(queue.is_empty());
    }
}
