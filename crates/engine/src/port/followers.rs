//! Who waits for the lead.

use std::task;

use weft_base::Instant;
use weft_sync::{SpinGuard, SpinLock};

/// A thread that waits for the lead, or for what its leader brings.
struct Follower {
    /// Tells it from the others in the list.
    ticket: u64,
    waker: task::Waker,
    /// When its wait began.
    since: Instant,
    /// It has been given the lead, and has yet to notice.
    has_lead: bool,
}

/// Those of a port, who fell asleep first first. Few ever, so all is found by a look at each.
#[derive(Default)]
pub(super) struct Followers(SpinLock<Vec<Follower>>);

/// What one who follows leaves by. A waker may not know its own clone.
#[must_use = "who follows has to leave"]
pub(crate) struct Ticket(u64);

impl Followers {
    pub(super) fn enter(&self, waker: task::Waker, since: Instant) -> Ticket {
        let mut followers = self.0.lock();
        let ticket = followers.last().map_or(0, |last| last.ticket + 1);
        followers.push(Follower { ticket, waker, since, has_lead: false });
        Ticket(ticket)
    }

    /// Takes a follower out. Whether it has been given the lead.
    pub(super) fn leave(&self, Ticket(ticket): Ticket) -> bool {
        let mut followers = self.0.lock();
        let at = followers.iter().position(|follower| follower.ticket == ticket);
        at.is_some_and(|at| followers.remove(at).has_lead)
    }

    /// Wakes who has waited longest: the others may be woken for themselves in a moment.
    pub(super) fn call(&self) {
        let mut followers = self.0.lock();
        let waker = oldest(&mut followers).map(|oldest| oldest.waker.clone());
        drop(followers);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Gives the lead to who fell asleep last. False if there is nobody.
    pub(super) fn give_to_last(&self) -> bool {
        let mut followers = self.0.lock();
        let heir = followers.last_mut().map(Follower::inherit);
        wake(heir, followers)
    }

    /// Gives the lead to who has waited longest. False if nobody has for longer than since `since`.
    pub(super) fn give_to_older(&self, since: Instant) -> bool {
        let mut followers = self.0.lock();
        let heir = oldest(&mut followers).filter(|heir| heir.since < since).map(Follower::inherit);
        wake(heir, followers)
    }
}

impl Follower {
    fn inherit(&mut self) -> task::Waker {
        self.has_lead = true;
        self.waker.clone()
    }
}

fn oldest<'a>(followers: &'a mut SpinGuard<'_, Vec<Follower>>) -> Option<&'a mut Follower> {
    followers.iter_mut().min_by_key(|follower| follower.since)
}

/// Wakes the heir, if there is one, when the list is free.
fn wake(heir: Option<task::Waker>, followers: SpinGuard<'_, Vec<Follower>>) -> bool {
    drop(followers);
    heir.map(task::Waker::wake).is_some()
}
