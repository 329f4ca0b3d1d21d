//! Connections in QUIET, and how many there may be ([CDP-LIM-12]).

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use weft_base::Instant;
use weft_sync::SpinLock;

use crate::core::Core;
use crate::outbox::Outbox;
use crate::slot::Slot;

/// Entries in the order in which they became quiet. Ones that went earlier are noticed when they are the oldest, or when the list has
/// twice as many as there were of late: each keeps the memory of what went.
#[derive(Debug)]
pub(crate) struct QuietList<T> {
    most: usize,
    entries: SpinLock<Entries<T>>,
}

#[derive(Debug)]
struct Entries<T> {
    oldest_first: VecDeque<Weak<T>>,
    /// How many may be there before it is looked which of them went.
    sweep_at: usize,
}

/// So many are not worth a look.
const SWEEP_MIN: usize = 64;

impl<T> QuietList<T> {
    /// A list of at most `most` entries, and of one at least.
    pub(crate) fn new(most: usize) -> Self {
        let entries = Entries { oldest_first: VecDeque::new(), sweep_at: SWEEP_MIN };
        Self { most: most.max(1), entries: SpinLock::new(entries) }
    }

    /// Adds an entry. Gives back the oldest, which is another one, if there are too many now.
    pub(crate) fn push(&self, entry: &Arc<T>) -> Option<Arc<T>> {
        let mut entries = self.entries.lock();
        let Entries { oldest_first, sweep_at } = &mut *entries;
        oldest_first.push_back(Arc::downgrade(entry));
        while oldest_first.front().is_some_and(|oldest| oldest.strong_count() == 0) {
            oldest_first.pop_front();
        }
        if oldest_first.len() >= *sweep_at {
            oldest_first.retain(|entry| entry.strong_count() > 0);
            *sweep_at = (2 * oldest_first.len()).max(SWEEP_MIN);
        }
        let oldest = if oldest_first.len() > self.most { oldest_first.pop_front() } else { None };
        drop(entries);
        oldest?.upgrade()
    }
}

impl Core {
    /// [CDP-LIM-12] At most so many connections in QUIET; beyond that the oldest is to be freed, once no lock is held.
    pub(crate) fn note_quiet(&self, slot: &Arc<Slot>, out: &mut Outbox) {
        out.crowded_out.extend(self.quiet.push(slot));
    }

    /// Frees a connection before its time in QUIET is over. No lock is held.
    pub(crate) fn free_quiet(&self, slot: &Arc<Slot>, now: Instant, out: &mut Outbox) {
        let mut live = slot.lock();
        live.connection.handle_timeout(now);
        live.connection.forget();
        self.remove(slot, &mut live);
        self.unlock(slot, live, now, out);
    }
}

#[cfg(test)]
mod tests {
    use weft_base::Service;

    use super::*;
    use crate::{Config, Engine, Gather, Interest, Settings, Target};

    #[test]
    fn the_oldest_of_too_many_is_given_back_and_who_went_is_not_counted() {
        let list = QuietList::new(3);
        let entries: Vec<Arc<u32>> = (0..6).map(Arc::new).collect();
        let pushed: Vec<_> = entries.iter().map(|entry| list.push(entry).map(|oldest| *oldest)).collect();
        assert_eq!(pushed, [None, None, None, Some(0), Some(1), Some(2)]);
        drop(entries);
        let fresh: Vec<Arc<u32>> = (10..14).map(Arc::new).collect();
        let pushed: Vec<_> = fresh.iter().map(|entry| list.push(entry).map(|oldest| *oldest)).collect();
        assert_eq!(pushed, [None, None, None, Some(10)]);
    }

    /// As where a program keeps the handle of one that it closed long ago.
    #[test]
    fn one_that_stays_keeps_nobody_elses_memory() {
        let list = QuietList::new(65_536);
        let stays = Arc::new(0);
        list.push(&stays);
        for _ in 0..10_000 {
            list.push(&Arc::new(1));
            assert!(list.entries.lock().oldest_first.len() <= SWEEP_MIN);
        }
    }

    /// [CDP-LIM-12] An engine keeps a bounded number of connections in QUIET, and frees the oldest first.
    #[test]
    fn connections_in_quiet_are_bounded() {
        let bind = "127.0.0.1:0".parse().unwrap();
        let settings = Settings { bind, quiet_max: 3, ..Settings::default() };
        let there = Engine::open(settings.clone()).unwrap();
        let here = Engine::open(settings).unwrap();
        let listening = there.listen(None, Config::new(Service::Stream, there.mss()), Gather::Off).unwrap();
        let target = Target { node: None, at: Some(there.underlay()), port: listening.address().port };
        let mut closed = Vec::new();
        for _ in 0..8 {
            let config = Config::new(Service::Stream, here.mss());
            let slot = here.connect(target, None, config, Gather::Off).unwrap();
            assert!(there.wait_accept(&listening, None));
            let accepted = there.accept(&listening).unwrap();
            here.release(&slot);
            assert!(here.wait(&slot, Interest::Closed, None));
            assert!(there.wait(&accepted, Interest::Readable, None), "the end of file");
            there.release(&accepted);
            closed.push(slot.key());
        }
        closed.drain(..5);
        closed.sort_by_key(|key| key.local);
        for engine in [&here, &there] {
            assert_eq!((engine.stats().quiet, engine.stats().connections.len()), (3, 3));
        }
        let kept: Vec<_> = here.stats().connections.iter().map(|connection| connection.key).collect();
        assert_eq!(kept, closed, "the last three");
    }
}
