//! Where a worker sleeps, and how it is called: at its bell, or in a transport that it drives.
//!
//! Algorithm: the worker says where it will sleep, then sets its bell, and *then* looks for news once more. Who has news
//! makes them visible, takes the bell down, and then asks where the worker sleeps.
//!
//! Races: of the bell's two sides one sees the other (see [`Bell`]), so either the worker finds the news, or it is called. Who
//! takes the bell down sees the place that was said before it was set. A call may come late, when the worker has found the
//! news by itself and sleeps again: it takes the bell down, and nobody else will ring. So a worker whose bell is down is
//! called even if there are no news, and whoever sleeps for it in a transport asks that once it can be woken.

use weft_sync::{Parker, SpinLock};

use crate::inbox::Bell;

/// Where one worker sleeps; `D` is a transport's driver.
pub(crate) struct Place<D> {
    bell: Bell,
    rests_in: SpinLock<Option<D>>,
}

impl<D: Clone> Place<D> {
    /// A place of a worker that is awake, and the worker's side of its bell.
    pub(crate) fn new() -> (Self, Parker) {
        let (bell, parker) = Bell::new();
        (Self { bell, rests_in: SpinLock::new(None) }, parker)
    }

    /// Has the worker sleep, in `driver` if there is one, unless it `has_news`. `sleep` is given what says whether it is
    /// called; once it is, it is not called again before it sleeps anew.
    pub(crate) fn sleep(
        &self,
        driver: Option<&D>,
        has_news: impl Fn() -> bool,
        sleep: impl FnOnce(Option<&D>, &dyn Fn() -> bool),
    ) {
        *self.rests_in.lock() = driver.cloned();
        self.bell.set();
        if !has_news() {
            sleep(driver, &|| !self.bell.is_set() || has_news());
        }
        self.bell.clear();
        let rested_in = self.rests_in.lock().take();
        drop(rested_in);
    }

    /// Wakes the worker if it sleeps, after something was given to it; `wake` ends a rest in a driver. True if it slept.
    #[inline]
    pub(crate) fn call(&self, wake: impl FnOnce(&D)) -> bool {
        let slept = self.bell.ring();
        if slept {
            self.end_rest(wake);
        }
        slept
    }

    #[cold]
    fn end_rest(&self, wake: impl FnOnce(&D)) {
        let driver = self.rests_in.lock().clone();
        if let Some(driver) = driver {
            wake(&driver);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::inbox::Inbox;
    use crate::lane::Lane;
    use crate::queue::tests::{Number, number};
    use loom::sync::Arc;
    use weft_sync::Unparker;
    use weft_sync::face::atomic::{AtomicBool, Ordering, fence};
    use weft_sync::models::model;

    /// The least that a transport does: it keeps who rests in it, and asks for news once it can be woken.
    struct Transport {
        is_led: AtomicBool,
        signal: Unparker,
    }

    impl Transport {
        fn new() -> (Arc<Self>, Parker) {
            let parker = Parker::new();
            (Arc::new(Self { is_led: AtomicBool::new(false), signal: parker.unparker() }), parker)
        }

        fn rest(&self, link: &Parker, is_called: impl Fn() -> bool) {
            self.is_led.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            while !is_called() {
                link.park();
            }
            self.is_led.store(false, Ordering::Relaxed);
        }

        fn wake(&self) {
            fence(Ordering::SeqCst);
            if self.is_led.load(Ordering::Relaxed) {
                self.signal.unpark();
            }
        }
    }

    struct World {
        place: Place<Arc<Transport>>,
        inbox: Inbox<Number>,
        /// Of another worker, which offers what it spawns.
        lane: Lane<Number>,
    }

    impl World {
        fn new() -> (Arc<Self>, Parker) {
            let (place, parker) = Place::new();
            (Arc::new(Self { place, inbox: Inbox::new(), lane: Lane::new() }), parker)
        }

        fn has_news(&self) -> bool {
            !self.inbox.is_empty() || self.lane.len() > 0
        }

        /// Another worker makes a fiber of this one ready.
        fn deliver(&self) {
            self.inbox.push(number(1));
            self.place.call(|transport| transport.wake());
        }

        /// Another worker offers a fiber that it spawned.
        fn offer(&self) {
            self.lane.give(number(1));
            self.place.call(|transport| transport.wake());
        }

        /// As a worker without a fiber does, until it has so many; it sleeps at its bell or in a transport.
        fn wait_for(&self, many: usize, parker: &Parker, transport: Option<(&Arc<Transport>, &Parker)>) {
            let mut found = 0;
            while found < many {
                let (mut sent, mut loot) = (self.inbox.take(), self.lane.steal());
                let came = std::iter::from_fn(|| sent.pop_front().or_else(|| loot.pop_front())).count();
                found += came;
                if came == 0 {
                    let sleep = |_: Option<&Arc<Transport>>, is_called: &dyn Fn() -> bool| match transport {
                        Some((transport, link)) => transport.rest(link, is_called),
                        None => parker.park(),
                    };
                    self.place.sleep(transport.map(|(driver, _)| driver), || self.has_news(), sleep);
                }
            }
        }
    }

    #[test]
    fn a_worker_at_its_bell_hears_of_what_others_spawn_and_wake() {
        model(2, || {
            let (world, parker) = World::new();
            let (waker, spawner) = (world.clone(), world.clone());
            let others =
                [loom::thread::spawn(move || waker.deliver()), loom::thread::spawn(move || spawner.offer())];
            world.wait_for(2, &parker, None);
            others.into_iter().for_each(|other| other.join().unwrap());
        });
    }

    #[test]
    fn a_worker_that_rests_in_a_transport_hears_of_what_others_spawn_and_wake() {
        model(2, || {
            let (world, parker) = World::new();
            let (transport, link) = Transport::new();
            let (waker, spawner) = (world.clone(), world.clone());
            let others =
                [loom::thread::spawn(move || waker.deliver()), loom::thread::spawn(move || spawner.offer())];
            world.wait_for(2, &parker, Some((&transport, &link)));
            others.into_iter().for_each(|other| other.join().unwrap());
        });
    }
}
