//! A loop of events of the user's that hears the links and runs the turns itself (decision 0053).
//!
//! What comes wakes the thread of that loop, and no other before it. The service threads stay, for a loop that does something else:
//! while it has run a turn a moment ago they sleep until a timer is due, and else on the links as well, as they do for any who
//! does not come.

use std::io;
use std::sync::{Arc, OnceLock};

use weft_link::AnyReadable;
use weft_sync::Mutex;

use crate::clock;
use crate::core::Core;
use crate::engine::Engine;
use crate::port::Port;
use crate::runner::Runner;

/// Ports that are looked after with one call of [`Engine::make_progress`]; the others keep the descriptor readable.
const PORTS: usize = 32;

/// The loops that attend the ports.
#[derive(Default)]
pub(crate) struct Attendance {
    /// Made for the first, and kept for the next.
    heard: OnceLock<Arc<AnyReadable>>,
    loops: Mutex<usize>,
}

impl Engine {
    /// A loop of the user's attends the ports from now on: it waits for what this gives, which is readable when one of the links has
    /// something, and then calls [`Engine::make_progress`]. Followed by [`Engine::end_attendance`] in the end.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn attend(&self) -> io::Result<Arc<AnyReadable>> {
        let Attendance { heard, loops } = &self.core().attendance;
        let mut loops = loops.lock();
        let heard = match heard.get() {
            Some(heard) => heard,
            None => {
                let fresh = Arc::new(AnyReadable::new()?);
                heard.get_or_init(|| fresh)
            }
        };
        self.core().ports.iter().try_for_each(|port| port.be_heard_by(heard))?;
        *loops += 1;
        self.core().ports.iter().for_each(|port| port.set_attended(true));
        Ok(heard.clone())
    }

    /// A loop that attended the ports ends.
    pub fn end_attendance(&self) {
        let core = self.core();
        let mut loops = core.attendance.loops.lock();
        *loops -= 1;
        if *loops == 0 {
            core.ports.iter().for_each(|port| port.set_attended(false));
        }
    }

    /// Runs a turn at each port whose link has something. Whether there was any such; if not, nothing is left that came
    /// before, but for a flood that the service thread takes in.
    pub fn make_progress(&self) -> bool {
        let core = self.core();
        if let [port] = &*core.ports {
            return core.attend_to(port);
        }
        let mut names = [0; PORTS];
        let ready = core.attendance.heard.get().map_or(Ok(0), |heard| heard.ready(&mut names));
        let ready = &names[..ready.unwrap_or(0)];
        let mut has_come = false;
        for &name in ready {
            has_come |= core.attend_to(core.port(usize::try_from(name).unwrap_or(usize::MAX)));
        }
        has_come
    }
}

impl Core {
    /// Whether something had come. A turn of another thread may have looked at the link before it came, so it is waited for.
    fn attend_to(&self, port: &Port) -> bool {
        loop {
            let now = clock::now();
            if port.is_left_to_service(now) {
                return false;
            }
            port.note_link_ready();
            if let Some(count) = self.try_turn(port, Runner::User, now) {
                return count > 0;
            }
            drop(port.turn.lock());
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use std::os::fd::AsRawFd;
    use std::sync::atomic::Ordering;
    use std::thread;
    use std::time::Duration;

    use weft_base::{Port as Number, Service};

    use super::*;
    use crate::gather::Gather;
    use crate::slot::Slot;
    use crate::{Config, Interest, Settings, Target};

    const PATIENCE: Duration = Duration::from_secs(20);
    const A_MOMENT: Duration = Duration::from_millis(10);

    fn engine(ports: usize) -> Engine {
        let bind = "127.0.0.1:0".parse().unwrap();
        Engine::open(Settings { bind, ports, spin: Duration::ZERO, ..Settings::default() }).unwrap()
    }

    /// `there`, whose clients are engines of their own: each with its end of a connection, and the end there.
    fn with_clients(there: &Engine, count: usize) -> Vec<(Engine, Arc<Slot>, Arc<Slot>)> {
        let config = |engine: &Engine| Config::new(Service::Datagram, engine.mss());
        let listening = there.listen(Some(Number::ECHO), config(there), Gather::WhenBusy).unwrap();
        let client = || {
            let here = engine(1);
            let target = Target { node: None, at: Some(there.underlay()), port: Number::ECHO };
            let asks = here.connect(target, None, config(&here), Gather::WhenBusy).unwrap();
            assert!(there.wait_accept(&listening, Some(there.now() + PATIENCE)));
            (here, asks, there.accept(&listening).unwrap())
        };
        (0..count).map(|_| client()).collect()
    }

    fn is_readable(heard: &AnyReadable, limit: Duration) -> bool {
        weft_link::wait(&[heard.as_raw_fd()], Some(limit)).unwrap() > 0
    }

    /// So many messages there and back: the client blocks in a thread of its own, and there a loop sleeps.
    fn converse(
        there: &Engine,
        heard: &AnyReadable,
        (here, asks, answers): &(Engine, Arc<Slot>, Arc<Slot>),
        rounds: usize,
    ) {
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..rounds {
                    here.send(asks, b"question").unwrap();
                    assert_eq!(here.recv_within(asks, &mut [0; 16], Some(PATIENCE)).unwrap().len, 6);
                }
            });
            for _ in 0..rounds {
                while there.recv(answers, &mut [0; 16]).is_err() {
                    // The service thread may have been first.
                    while !is_readable(heard, A_MOMENT) && !answers.is_ready(Interest::Readable) {}
                    there.make_progress();
                }
                there.send(answers, b"answer").unwrap();
            }
        });
    }

    #[test]
    fn what_comes_wakes_the_loop_and_not_the_service_thread() {
        const ROUNDS: usize = 500;
        let there = engine(1);
        let clients = with_clients(&there, 1);
        let heard = there.attend().unwrap();
        let sleeps = || there.core().port(0).counters.sleeps.load(Ordering::Relaxed);
        let fewest = (0..5).filter_map(|_| {
            let (before, begin) = (sleeps(), clock::now());
            converse(&there, &heard, &clients[0], ROUNDS);
            (clock::now() - begin < Duration::from_millis(150)).then(|| sleeps() - before)
        });
        let Some(fewest) = fewest.min() else {
            return weft_skip::skipped!("the machine is too busy for {ROUNDS} round trips in 150 ms");
        };
        assert!(fewest < ROUNDS as u64 / 2, "{fewest} sleeps of the service thread in {ROUNDS} round trips");
    }

    #[test]
    fn a_loop_that_does_something_else_is_not_waited_for() {
        let there = engine(1);
        let clients = with_clients(&there, 1);
        let (here, asks, answers) = &clients[0];
        let heard = there.attend().unwrap();
        for is_attended in [true, true, false] {
            if !is_attended {
                there.end_attendance();
            }
            converse(&there, &heard, &clients[0], 20);
            here.send(asks, b"question").unwrap();
            let begin = clock::now();
            while !answers.is_ready(Interest::Readable) {
                assert!(clock::now() - begin < PATIENCE, "nobody took it in");
                thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(there.recv(answers, &mut [0; 16]).unwrap().len, 8);
            there.send(answers, b"answer").unwrap();
            assert_eq!(here.recv_within(asks, &mut [0; 16], Some(PATIENCE)).unwrap().len, 6);
        }
    }

    /// A peer in a conversation has a socket of its own at the link, and the shared one is looked at now and then only.
    #[test]
    fn nothing_is_left_of_what_came_before_it_says_so() {
        let there = engine(1);
        let clients = with_clients(&there, 2);
        let heard = there.attend().unwrap();
        let (mut rounds, mut late) = (0, 0);
        for _ in 0..20 {
            converse(&there, &heard, &clients[0], 50);
            if there.core().port(0).link.poll_fds().len() == 1 {
                continue;
            }
            let (here, asks, answers) = &clients[1];
            here.send(asks, b"question").unwrap();
            // The service thread may have been first.
            while !is_readable(&heard, A_MOMENT) && !answers.is_ready(Interest::Readable) {}
            while there.make_progress() {}
            rounds += 1;
            late += u32::from(!answers.is_ready(Interest::Readable));
            assert!(there.wait(answers, Interest::Readable, Some(there.now() + PATIENCE)));
            assert_eq!(there.recv(answers, &mut [0; 16]).unwrap().len, 8);
        }
        if rounds < 10 {
            return weft_skip::skipped!(
                "the kernel gives the partner of a conversation no socket of its own"
            );
        }
        // What made the descriptor readable may have been an acknowledgement of the other, before.
        assert!(late <= rounds / 4, "{late} of {rounds} messages lay in the link when nothing was said to");
    }

    #[test]
    fn a_loop_attends_all_ports() {
        let there = engine(4);
        let clients = with_clients(&there, 8);
        let heard = there.attend().unwrap();
        for client in &clients {
            converse(&there, &heard, client, 40);
        }
        let homes: Vec<usize> = clients.iter().map(|(_, _, answers)| answers.home()).collect();
        assert!(homes.iter().any(|&home| home != homes[0]), "all came by one port: {homes:?}");
    }
}
