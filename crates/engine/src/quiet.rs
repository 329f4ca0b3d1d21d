//! Connections in QUIET, and how many there may be ([CDP-LIM-12]).

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use weft_base::Instant;
use weft_sync::SpinLock;

use crate::core::Core;
use crate::outbox::Outbox;
use crate::slot::Slot;

/// Entries in the order in which they became quiet. One that went earlier is only noticed when it is the oldest.
#[derive(Debug)]
pub(crate) struct QuietList<T> {
    most: usize,
    oldest_first: SpinLock<VecDeque<Weak<T>>>,
}

impl<T> QuietList<T> {
    /// A list of at most `most` entries, and of one at least.
    pub(crate) fn new(most: usize) -> Self {
        Self { most: most.max(1), oldest_first: SpinLock::default() }
    }

    /// Adds an entry. Gives back the oldest, which is another one, if there are too many now.
    pub(crate) fn push(&self, entry: &Arc<T>) -> Option<Arc<T>> {
        let mut list = self.oldest_first.lock();
        list.push_back(Arc::downgrade(entry));
        while list.front().is_some_and(|oldest| oldest.strong_count() == 0) {
            list.pop_front();
        }
        let oldest = if list.len() > self.most { list.pop_front() } else { None };
        drop(list);
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
