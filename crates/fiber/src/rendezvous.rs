//! Where the workers of a runtime stand still, so that somebody can look at the stacks of their fibers.
//!
//! Algorithm: one word counts; while it is odd a round is under way, which belongs to the one who made it odd. A worker that sees
//! that between two fibers writes the round's number beside its own name, and waits until the word is another one. Who has
//! called them waits for these numbers, for a limited time, looks at the fibers of the workers that have come, and adds one
//! to the word.
//!
//! Races:
//! * A number is a promise for one round: a worker that comes late, or that has not yet gone since the last round, has left the
//!   number of a round that is over, and does not count.
//! * What a worker did to its fibers it did before it wrote the number, and what it does next it does after it has read that the
//!   round is over; so nobody runs a fiber that is looked at.
//! * The word is also the lock among those who call. A worker's thread that would call during the round of another one is at rest
//!   too: it comes itself. So two workers that call never wait for each other.
//! * A worker that sleeps is called at its bell after the word was made odd; see [`Bell`](crate::inbox::Bell).

use std::time::Duration;

use weft_sync::Futex;
use weft_sync::face::atomic::{AtomicU32, Ordering};

/// A worker that runs. Rounds under way have odd numbers, so this is none, nor is the next one.
const AWAY: u32 = 0;
/// A worker that has ended.
const GONE: u32 = 2;

pub(crate) struct Rendezvous {
    /// Odd while the workers are called.
    round: Futex,
    /// How often a worker has come.
    arrivals: Futex,
    /// For each worker the last round that it came to.
    workers: Box<[AtomicU32]>,
}

/// The workers that have come, as long as one looks.
pub(crate) struct Present<'a> {
    rendezvous: &'a Rendezvous,
    round: u32,
}

impl Rendezvous {
    pub(crate) fn new(workers: usize) -> Self {
        let workers = (0..workers).map(|_| AtomicU32::new(AWAY)).collect();
        Self { round: Futex::new(0), arrivals: Futex::new(0), workers }
    }

    /// Whether the workers are called.
    #[inline(always)]
    pub(crate) fn is_called(&self) -> bool {
        is_under_way(self.round.load(Ordering::Relaxed))
    }

    /// The calling thread, which is that of `worker`, runs nothing until the round is over.
    #[cold]
    pub(crate) fn come(&self, worker: usize) {
        let round = self.round.load(Ordering::Relaxed);
        if !is_under_way(round) {
            return;
        }
        self.workers[worker].store(round, Ordering::Release);
        self.arrivals.fetch_add(1, Ordering::Release);
        self.arrivals.wake_all();
        self.wait_out(round);
    }

    /// The worker will never run anything again.
    pub(crate) fn leave(&self, worker: usize) {
        self.workers[worker].store(GONE, Ordering::Release);
        self.arrivals.fetch_add(1, Ordering::Release);
        self.arrivals.wake_all();
    }

    /// Calls the workers with `ring`, waits until all have come or no time is `left`, and has `look` look at the fibers of those
    /// that have. `here` is the worker whose thread this is.
    pub(crate) fn call<R>(
        &self,
        here: Option<usize>,
        ring: impl FnOnce(),
        left: impl Fn() -> Option<Duration>,
        look: impl FnOnce(&Present<'_>) -> R,
    ) -> R {
        /// Lets the workers go, also if the look panics.
        struct Over<'a>(&'a Futex, u32);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(self.1.wrapping_add(1), Ordering::Release);
                self.0.wake_all();
            }
        }
        let round = self.begin(here);
        let _over = Over(&self.round, round);
        ring();
        let present = Present { rendezvous: self, round };
        self.wait_for_all(&present, left);
        look(&present)
    }

    /// Makes the word odd, when nobody else has; returns the round.
    fn begin(&self, here: Option<usize>) -> u32 {
        let mut now = self.round.load(Ordering::Relaxed);
        loop {
            if is_under_way(now) {
                match here {
                    Some(worker) => self.come(worker),
                    None => self.wait_out(now),
                }
                now = self.round.load(Ordering::Relaxed);
                continue;
            }
            let round = now.wrapping_add(1);
            match self.round.compare_exchange(now, round, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    if let Some(worker) = here {
                        self.workers[worker].store(round, Ordering::Relaxed);
                    }
                    return round;
                }
                Err(other) => now = other,
            }
        }
    }

    fn wait_for_all(&self, present: &Present<'_>, left: impl Fn() -> Option<Duration>) {
        loop {
            let arrivals = self.arrivals.load(Ordering::Acquire);
            if present.absent().is_none() {
                return;
            }
            let Some(left) = left() else { return };
            self.arrivals.wait(arrivals, Some(left));
        }
    }

    fn wait_out(&self, round: u32) {
        while self.round.load(Ordering::Acquire) == round {
            self.round.wait(round, None);
        }
    }
}

impl Present<'_> {
    /// Whether this worker has come. What it did before is seen, and it does nothing more during the look.
    pub(crate) fn has(&self, worker: usize) -> bool {
        let came = self.rendezvous.workers[worker].load(Ordering::Acquire);
        came == self.round || came == GONE
    }

    /// A worker that has not come, if there is one.
    pub(crate) fn absent(&self) -> Option<usize> {
        (0..self.rendezvous.workers.len()).find(|&worker| !self.has(worker))
    }
}

fn is_under_way(round: u32) -> bool {
    round % 2 == 1
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::inbox::Bell;
    use loom::sync::Arc;
    use weft_sync::Parker;
    use weft_sync::face::UnsafeCell;
    use weft_sync::face::atomic::AtomicBool;
    use weft_sync::models::model;

    /// A runtime whose workers have a fiber each, which is a number that they change while they run it.
    struct World {
        rendezvous: Rendezvous,
        fibers: Vec<UnsafeCell<u32>>,
        bell: Bell,
        is_ended: AtomicBool,
    }

    // SAFETY: loom's cells find out whether the fibers are shared as the rendezvous promises.
    unsafe impl Sync for World {}
    // SAFETY: as above.
    unsafe impl Send for World {}

    impl World {
        fn new(workers: usize) -> (Arc<Self>, Parker) {
            let (bell, parker) = Bell::new();
            let fibers = (0..workers).map(|_| UnsafeCell::new(0)).collect();
            let is_ended = AtomicBool::new(false);
            (Arc::new(Self { rendezvous: Rendezvous::new(workers), fibers, bell, is_ended }), parker)
        }

        fn run(&self, worker: usize) {
            // SAFETY: loom finds who looks at the same time.
            self.fibers[worker].with_mut(|fiber| unsafe { *fiber += 1 });
        }

        /// Looks at the fibers of the workers that have come; returns how many have.
        fn look(&self, here: Option<usize>, left: impl Fn() -> Option<Duration>) -> usize {
            let look = |present: &Present<'_>| {
                let came = (0..self.fibers.len()).filter(|&worker| present.has(worker));
                // SAFETY: as above.
                came.map(|worker| self.fibers[worker].with(|fiber| unsafe { *fiber })).count()
            };
            self.rendezvous.call(
                here,
                || {
                    self.bell.ring();
                },
                left,
                look,
            )
        }

        /// A worker that runs its fiber so many times, and looks in between.
        fn work(&self, worker: usize, times: usize) {
            for _ in 0..times {
                self.run(worker);
                if self.rendezvous.is_called() {
                    self.rendezvous.come(worker);
                }
            }
            self.rendezvous.leave(worker);
        }
    }

    const NO_TIME: fn() -> Option<Duration> = || None;
    const TIME: fn() -> Option<Duration> = || Some(Duration::MAX);

    #[test]
    fn nobody_runs_a_fiber_that_is_looked_at() {
        model(3, || {
            let (world, _) = World::new(1);
            let theirs = world.clone();
            let worker = loom::thread::spawn(move || theirs.work(0, 2));
            // The second round may begin before the worker has gone on from the first.
            world.look(None, NO_TIME);
            world.look(None, NO_TIME);
            worker.join().unwrap();
        });
    }

    #[test]
    fn two_who_look_take_turns_and_the_worker_comes_to_both() {
        model(2, || {
            let (world, _) = World::new(1);
            let (theirs, other) = (world.clone(), world.clone());
            let worker = loom::thread::spawn(move || theirs.work(0, 1));
            let looks = loom::thread::spawn(move || other.look(None, TIME));
            assert_eq!(world.look(None, TIME), 1);
            assert_eq!(looks.join().unwrap(), 1);
            worker.join().unwrap();
        });
    }

    #[test]
    fn two_workers_that_look_do_not_wait_for_each_other() {
        model(2, || {
            let (world, _) = World::new(2);
            let theirs = world.clone();
            let other = loom::thread::spawn(move || {
                theirs.run(1);
                assert_eq!(theirs.look(Some(1), TIME), 2);
                theirs.run(1);
                theirs.rendezvous.leave(1);
            });
            world.run(0);
            assert_eq!(world.look(Some(0), TIME), 2);
            world.run(0);
            world.rendezvous.leave(0);
            other.join().unwrap();
        });
    }

    #[test]
    fn a_worker_that_sleeps_comes_and_sleeps_again() {
        model(3, || {
            let (world, parker) = World::new(1);
            let theirs = world.clone();
            let worker = loom::thread::spawn(move || {
                while !theirs.is_ended.load(Ordering::Acquire) {
                    if theirs.rendezvous.is_called() {
                        theirs.rendezvous.come(0);
                    }
                    theirs.bell.set();
                    if !theirs.rendezvous.is_called() && !theirs.is_ended.load(Ordering::Acquire) {
                        parker.park();
                    }
                    theirs.bell.clear();
                }
                theirs.rendezvous.leave(0);
            });
            assert_eq!(world.look(None, TIME), 1);
            world.is_ended.store(true, Ordering::Release);
            world.bell.ring();
            worker.join().unwrap();
        });
    }
}
