//! Limits on what a packet can make us send (section 13). Beyond a limit the answer is silence.
//!
//! [CDP-LIM-B] A third party must not be able to read a limiter: one that is shared by connections could tell it, by
//! the answers that are missing, whether a packet it forged for somebody else hit a connection. So each limiter here
//! belongs to one connection or draws its allowance at random, or both. Randomness comes from outside as `entropy`.

use std::time::Duration;

use weft_base::{Instant, NodeId, limits};

use crate::jitter::Jitter;

/// The stretch of time over which echo-form RSTs are counted: short, so that one burst does not silence a second.
const ECHO_WINDOW: Duration = Duration::from_millis(100);
/// Windows of that length in a second.
const ECHO_WINDOWS: u32 = 10;
/// Source nodes of which the limiter of echo-form RSTs keeps count: several times as many as it can answer in a
/// window, in sets of `WAYS`.
const NODES_MAX: usize = 1_024;
const WAYS: usize = 4;

/// One challenge per 10 ms and connection, with jitter (CDP-LIM-2).
#[derive(Clone, Debug)]
pub struct ChallengeLimiter {
    next: Instant,
    jitter: Jitter,
}

impl ChallengeLimiter {
    /// A limiter that lets the first challenge go.
    #[must_use]
    pub fn new(entropy: u64) -> Self {
        Self { next: Instant::ZERO, jitter: Jitter::new(entropy) }
    }

    /// Whether a challenge may go now; if so it is counted.
    pub fn allow(&mut self, now: Instant) -> bool {
        if now < self.next {
            return false;
        }
        // [CDP-LIM-B] up to a quarter more, at random
        let quarter = u64::try_from(limits::CHALLENGE_INTERVAL.as_nanos() / 4).unwrap_or(u64::MAX);
        let extra = Duration::from_nanos(self.jitter.next() % quarter);
        // [CDP-LIM-2] one per 10 ms
        self.next = now + limits::CHALLENGE_INTERVAL + extra;
        true
    }
}

/// So many events in each window of time; a window begins with the first event after the one before has ended.
///
/// A source that stays below the limit in every such stretch is never refused. How long a window is, each call says alike:
/// there are many limiters of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RateLimiter {
    ends: Instant,
    left: u32,
}

impl RateLimiter {
    /// A limiter that has its full allowance.
    #[must_use]
    pub const fn new() -> Self {
        Self { ends: Instant::ZERO, left: 0 }
    }

    /// Whether one more event may happen at `now` when `limit` may in a `window`; if so it is counted. The limit is
    /// asked for once a window, so it may be drawn at random.
    pub fn allow(&mut self, now: Instant, window: Duration, limit: impl FnOnce() -> u32) -> bool {
        if now >= self.ends {
            self.ends = now + window;
            self.left = limit();
        }
        let is_allowed = self.left > 0;
        self.left -= u32::from(is_allowed);
        is_allowed
    }

    /// Whether nothing has happened in a window that still lasts.
    const fn is_over(&self, now: Instant) -> bool {
        now.as_nanos() >= self.ends.as_nanos()
    }

    /// Takes back an event that was allowed.
    const fn give_back(&mut self) {
        self.left += 1;
    }
}

/// Answers to PINs of one connection: 100 a second (CDP-LIM-15).
#[derive(Clone, Copy, Debug)]
pub struct PinLimiter(RateLimiter);

impl PinLimiter {
    /// A limiter that has its full allowance. It belongs to one connection, so it needs no jitter ([CDP-LIM-B]) and
    /// answers every PIN of a peer that keeps the limit ([CDP-WND-10]).
    #[must_use]
    pub const fn new() -> Self {
        Self(RateLimiter::new())
    }

    /// Whether one more PIN may be answered now; if so it is counted.
    pub fn allow(&mut self, now: Instant) -> bool {
        self.0.allow(now, Duration::from_secs(1), || limits::PIN_ANSWERS_PER_SECOND)
    }
}

impl Default for PinLimiter {
    fn default() -> Self {
        Self::new()
    }
}

/// Echo-form RSTs of a process: 1,000 a second, and 100 to one source node (CDP-LIM-3).
///
/// Both allowances are drawn anew for each tenth of a second, from three quarters of the limit up to the limit. The
/// table of nodes is of fixed size; a node that finds no room in it gets no answer.
#[derive(Clone, Debug)]
pub struct EchoResetLimiter {
    process: RateLimiter,
    nodes: Box<[Node]>,
    /// Secret of the table's hash, so that nobody can aim at the set of another node.
    salt: u64,
    jitter: Jitter,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    id: Option<NodeId>,
    limiter: RateLimiter,
}

impl EchoResetLimiter {
    /// A limiter that has its full allowance.
    #[must_use]
    pub fn new(entropy: u64) -> Self {
        let mut jitter = Jitter::new(entropy);
        let free = Node { id: None, limiter: RateLimiter::new() };
        Self {
            process: RateLimiter::new(),
            nodes: vec![free; NODES_MAX].into_boxed_slice(),
            salt: jitter.next(),
            jitter,
        }
    }

    /// Whether an RST may go to `source` now; if so it is counted.
    pub fn allow(&mut self, now: Instant, source: NodeId) -> bool {
        let Self { process, nodes, salt, jitter } = self;
        // [CDP-LIM-3] 1,000 per second per process
        if !process.allow(now, ECHO_WINDOW, || draw(limits::ECHO_RST_PER_SECOND / ECHO_WINDOWS, jitter)) {
            return false;
        }
        // [CDP-LIM-3] and 100 per source node
        let limit = || draw(limits::ECHO_RST_PER_NODE_PER_SECOND / ECHO_WINDOWS, jitter);
        let is_allowed =
            find(nodes, *salt, now, source).is_some_and(|node| node.limiter.allow(now, ECHO_WINDOW, limit));
        if !is_allowed {
            process.give_back();
        }
        is_allowed
    }
}

/// The entry of `source`, or one that has not counted anything in a window that still lasts.
///
/// [CDP-LIM-A] The table does not grow: where its set is taken there is none.
fn find(nodes: &mut [Node], salt: u64, now: Instant, source: NodeId) -> Option<&mut Node> {
    let hash = Jitter::new(salt ^ u64::from(source.get())).next();
    let sets = nodes.len() / WAYS;
    let set = usize::try_from(hash >> 32).unwrap_or(0) % sets * WAYS;
    let set = &mut nodes[set..set + WAYS];
    let at = set
        .iter()
        .position(|node| node.id == Some(source))
        .or_else(|| set.iter().position(|node| node.limiter.is_over(now)))?;
    let node = &mut set[at];
    node.id = Some(source);
    Some(node)
}

/// [CDP-LIM-B] An allowance from three quarters of `limit` up to `limit`, at random.
fn draw(limit: u32, jitter: &mut Jitter) -> u32 {
    let less = u64::from(limit / 4) + 1;
    limit - u32::try_from(jitter.next() % less).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn node(number: u32) -> NodeId {
        NodeId::new(number).unwrap()
    }

    /// [CDP-LIM-2] One challenge per 10 ms.
    /// [CDP-LIM-B] The distance between two varies, and differs from one connection to the next.
    #[test]
    fn challenges_keep_a_distance_that_nobody_can_foretell() {
        let times = |entropy| {
            let mut limiter = ChallengeLimiter::new(entropy);
            (0..100_000_u64)
                .map(|us| Instant::from_nanos(us * 10_000))
                .filter(|now| limiter.allow(*now))
                .collect()
        };
        let (a, b): (Vec<Instant>, Vec<Instant>) = (times(1), times(2));
        let gaps: Vec<_> = a.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(
            gaps.iter().all(|gap| (limits::CHALLENGE_INTERVAL..Duration::from_micros(12_510)).contains(gap))
        );
        let mut kinds = gaps.clone();
        kinds.sort_unstable();
        kinds.dedup();
        assert!(kinds.len() > 40, "{} different gaps of {}", kinds.len(), gaps.len());
        assert_ne!(a, b);
    }

    /// [CDP-LIM-15] 100 answers a second. [CDP-WND-10] A peer that keeps to that gets them all.
    #[test]
    fn pins_are_answered_up_to_a_hundred_a_second() {
        let mut limiter = PinLimiter::new();
        assert_eq!((0..250).filter(|_| limiter.allow(ms(5))).count(), 100);
        assert!(!limiter.allow(ms(1_004)));
        assert!((0..1_000).all(|tick| limiter.allow(ms(2_000 + tick * 10))));
    }

    /// [CDP-LIM-3] 100 echo-form RSTs per source node in a second.
    #[test]
    fn one_node_gets_a_tenth_of_the_answers() {
        let mut limiter = EchoResetLimiter::new(7);
        let answered = (0..1_000).filter(|tick| limiter.allow(ms(*tick), node(5))).count();
        assert!((75..=100).contains(&answered), "{answered}");
        assert!(limiter.allow(ms(999), node(6)), "another node is not held to it");
    }

    /// [CDP-LIM-3] 1,000 echo-form RSTs per process in a second, however many nodes ask.
    #[test]
    fn all_nodes_together_get_no_more_than_a_thousand() {
        let mut limiter = EchoResetLimiter::new(7);
        let mut answered = 0;
        for tick in 0..1_000_u64 {
            answered +=
                (1..=50).filter(|n| limiter.allow(ms(tick), node(n + (tick % 10) as u32 * 50))).count();
        }
        assert!((750..=1_000).contains(&answered), "{answered}");
    }

    /// [CDP-LIM-A] The table stays as large as it was made, and still answers nodes it has not seen.
    #[test]
    fn a_flood_of_nodes_neither_grows_the_table_nor_fills_it() {
        let mut limiter = EchoResetLimiter::new(3);
        for tick in 0..500 {
            for n in 0..400 {
                let _ =
                    limiter.allow(ms(tick), node(1 + (u32::try_from(tick).unwrap() * 400 + n) % 0xFF_FFFE));
            }
        }
        assert_eq!(limiter.nodes.len(), NODES_MAX);
        let fresh = (0..60).filter(|n| limiter.allow(ms(700), node(0x80_0000 + n))).count();
        assert!(fresh >= 59, "{fresh} of 60");
    }

    /// [CDP-LIM-B] How many of a burst are answered cannot be foretold.
    #[test]
    fn the_allowance_of_a_process_is_drawn_anew_in_each_window() {
        let mut limiter = EchoResetLimiter::new(11);
        let mut seen: Vec<usize> = (0..40)
            .map(|window| (1..=150).filter(|n| limiter.allow(ms(window * 200), node(*n))).count())
            .collect();
        assert!(seen.iter().all(|answered| (75..=100).contains(answered)), "{seen:?}");
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() > 8, "{seen:?}");
    }

    proptest! {
        /// Whatever the times, a window never sees more than its limit, and a source below the limit is not refused.
        #[test]
        fn no_window_holds_more_than_its_limit(gaps_ms in prop::collection::vec(0_u64..40, 1..300), limit in 1_u32..20) {
            let mut limiter = RateLimiter::new();
            let window = Duration::from_millis(100);
            let mut now = Instant::ZERO;
            let mut allowed = Vec::new();
            let mut asked = Vec::new();
            for gap in gaps_ms {
                now += Duration::from_millis(gap);
                let since = |times: &[Instant]| times.iter().filter(|at| now - **at < window).count();
                let may = limiter.allow(now, window, || limit);
                prop_assert!(may || since(&asked) >= limit as usize);
                asked.push(now);
                if may {
                    allowed.push(now);
                    prop_assert!(since(&allowed) <= 2 * limit as usize);
                }
            }
        }
    }
}
