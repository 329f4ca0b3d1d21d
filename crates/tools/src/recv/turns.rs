//! Who transfers, and who waits for a turn.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Transfers at the same time; others wait until one has ended.
const TRANSFERS_MAX: usize = 16;
/// Transfers that wait; further ones are refused.
const WAITING_MAX: usize = 256;
/// Places that are kept for hosts which have none.
const KEPT_PLACES: usize = 32;

/// Who may transfer, and who waits for that. The lock is held for a look.
#[derive(Default)]
pub(super) struct Turns {
    counts: Mutex<Counts>,
    /// Notified when a transfer has ended.
    ended: Condvar,
}

#[derive(Default)]
struct Counts {
    /// Transfers that run or wait.
    places: usize,
    running: usize,
    /// Both of each host that has any.
    hosts: HashMap<IpAddr, Host>,
}

#[derive(Clone, Copy, Default)]
struct Host {
    places: usize,
    running: usize,
}

impl Counts {
    fn host(&self, host: IpAddr) -> Host {
        self.hosts.get(&host).copied().unwrap_or_default()
    }

    /// The last places are for hosts that have none, so that one that never ends does not keep all others out.
    fn has_place(&self, host: IpAddr) -> bool {
        let kept = if self.host(host).places > 0 { KEPT_PLACES } else { 0 };
        self.places + kept < TRANSFERS_MAX + WAITING_MAX
    }

    /// And so is the last turn.
    fn may_run(&self, host: IpAddr) -> bool {
        self.running + usize::from(self.host(host).running > 0) < TRANSFERS_MAX
    }
}

impl Turns {
    /// A place for one more transfer of `host`.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn place(turns: &Arc<Self>, host: IpAddr) -> Result<Place, String> {
        let mut counts = turns.locked();
        if !counts.has_place(host) {
            return Err(match counts.host(host).places {
                0 => format!("{WAITING_MAX} transfers wait already"),
                own => format!("{own} transfers from this host run or wait already"),
            });
        }
        counts.places += 1;
        counts.hosts.entry(host).or_default().places += 1;
        Ok(Place { turns: turns.clone(), host })
    }

    fn locked(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A transfer that runs or waits, until this goes.
pub(super) struct Place {
    turns: Arc<Turns>,
    host: IpAddr,
}

impl Place {
    /// Waits until this transfer may run.
    pub(super) fn turn(&self) -> Turn<'_> {
        let must_wait = |counts: &mut Counts| !counts.may_run(self.host);
        let waited = self.turns.ended.wait_while(self.turns.locked(), must_wait);
        let mut counts = waited.unwrap_or_else(PoisonError::into_inner);
        counts.running += 1;
        counts.hosts.entry(self.host).or_default().running += 1;
        Turn(self)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.turns.locked();
        counts.places -= 1;
        let host = counts.hosts.entry(self.host).or_default();
        host.places -= 1;
        if host.places == 0 {
            counts.hosts.remove(&self.host);
        }
    }
}

/// A transfer that runs, until this goes.
pub(super) struct Turn<'a>(&'a Place);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut counts = self.0.turns.locked();
        counts.running -= 1;
        counts.hosts.entry(self.0.host).or_default().running -= 1;
        drop(counts);
        // Who of them may run depends on their hosts.
        self.0.turns.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_keeps_no_other_out() {
        let turns = Arc::new(Turns::default());
        let (one, other) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
        let places: Vec<_> = std::iter::from_fn(|| Turns::place(&turns, one).ok()).collect();
        assert_eq!(places.len(), TRANSFERS_MAX + WAITING_MAX - KEPT_PLACES);
        let running: Vec<_> = places[..TRANSFERS_MAX - 1].iter().map(Place::turn).collect();
        assert!(!turns.locked().may_run(one) && turns.locked().may_run(other));
        let place = Turns::place(&turns, other).unwrap();
        let turn = place.turn();
        assert!(!turns.locked().may_run(other));
        drop((turn, running));
        drop((place, places));
        let counts = turns.locked();
        assert_eq!((counts.places, counts.running, counts.hosts.len()), (0, 0, 0));
    }
}
