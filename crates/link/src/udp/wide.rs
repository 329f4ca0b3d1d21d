//! A link one of whose peers floods it, with packets that go round several sockets (see `basins`).

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use super::Udp;
use super::basins::{Basins, SOCKETS, Stripe};
use super::direct::Mode;
use super::group::{Group, Tenure};
use super::recv::{Arrival, ERRORS_MAX};
use super::rhythm::Flood;
use crate::RecvBatch;

/// How long nothing comes by these sockets from the beginning on before that is the end: either there is no flood any more, or the kernel has
/// them somewhere else in its group than was reckoned, as where another process has a copy of earlier ones.
const DOUBT_NS: u64 = 10_000_000;

/// These sockets.
#[derive(Clone, Debug)]
pub(super) struct Wide {
    /// The link's own; or one that is there for this flood, where the link is alone at its address: who is not flooded is
    /// spared the program.
    group: Arc<Group>,
    tenure: Tenure,
    /// Packets that had found these full before.
    overflows: u64,
    /// They are looked at now and then only: nobody sleeps on them any more, and they may be closed.
    is_over: bool,
}

impl Wide {
    pub(super) fn basins(&self) -> &Basins {
        &self.group.basins()[self.tenure.index]
    }

    /// To wait for.
    pub(super) fn fds(&self) -> Option<[RawFd; SOCKETS]> {
        self.has_them().then(|| self.basins().fds())
    }

    /// Bytes that the kernel keeps in them.
    pub(super) fn room_bytes(&self) -> Option<usize> {
        self.has_them().then(|| self.basins().room_bytes())
    }

    /// Whether anything may come by them.
    fn has_them(&self) -> bool {
        !self.is_over && self.basins().are_for(self.tenure.flood)
    }

    /// Packets that have found them full while they were for this flood.
    pub(super) fn overflows(&self) -> u64 {
        let basins = self.basins();
        let by_now =
            if basins.are_for(self.tenure.flood) { basins.overflows() } else { basins.overflows_before() };
        by_now.saturating_sub(self.overflows)
    }
}

impl Udp {
    /// The sockets that a flood goes round now, or has gone round.
    pub(super) fn wide(&self) -> Option<Wide> {
        match self.direct.mode() {
            Mode::Wide | Mode::Ending => self.lock_wide().clone(),
            Mode::Off | Mode::On | Mode::Flood => None,
        }
    }

    /// The same, unless another link has them, as nothing had come for long: then nothing more does.
    pub(super) fn own_wide(&self, batch: &mut RecvBatch) -> Option<Wide> {
        let wide = self.wide()?;
        if wide.basins().are_for(wide.tenure.flood) {
            return Some(wide);
        }
        self.note_wide_empty(batch);
        self.leave_wide();
        self.direct.set_mode(Mode::Off);
        None
    }

    fn lock_wide(&self) -> MutexGuard<'_, Option<Wide>> {
        self.wide.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What comes from who sent the last packets goes round several sockets, if there are any.
    #[cold]
    pub(super) fn begin_wide(&self, batch: &mut RecvBatch) {
        let Some(last) = batch.last_piece().filter(|_| self.is_narrow) else {
            return batch.rhythm.stay_narrow();
        };
        let stripe = Stripe::of_packets(last.size);
        let begin = |group: Arc<Group>| {
            let tenure = group.begin_flood(&self.socket, last.from, stripe)?;
            let overflows = group.basins()[tenure.index].overflows_before();
            Some(Wide { group, tenure, overflows, is_over: false })
        };
        match self.group.clone().or_else(|| self.group_for_flood().ok()).and_then(begin) {
            Some(wide) => {
                *self.lock_wide() = Some(wide);
                self.direct.set_mode(Mode::Wide);
                batch.rhythm.begin(Mode::Wide);
                batch.begin_course(stripe);
                batch.note_new_fds();
            }
            None => {
                self.leave_group();
                batch.rhythm.stay_narrow();
            }
        }
    }

    /// Of a link that is alone at its address.
    fn group_for_flood(&self) -> io::Result<Arc<Group>> {
        self.socket.set_reuse_port(true)?;
        self.direct.share_port(true)?;
        // The second socket may be one of the group since it was bound.
        let bound = 1 + usize::from(self.direct.fd().is_some());
        let basins = Basins::open_all(self.local, self.buffer_bytes, self.gro, bound, 1);
        self.direct.share_port(false)?;
        let basins = basins?;
        Group::share(&self.socket, 1, basins).map(Arc::new)
    }

    /// Such a link is alone again.
    fn leave_group(&self) {
        if self.group.is_none() {
            // Others of this user may join it if this fails, and get nothing.
            let _ = self.socket.set_reuse_port(false);
        }
    }

    /// The peer's packets. What the shared socket holds of them came before.
    pub(super) fn recv_wide(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        let Some(wide) = self.own_wide(batch) else { return self.recv_shared(batch) };
        let mut count = self.recv_earlier(batch)?;
        if count > 0 {
            batch.note_course(None);
        }
        // Others come before it, as it may leave no room for them; and what the second socket got when it was last used.
        if batch.rhythm.is_flood_look_due() {
            count += self.recv_others(batch)? + self.recv_until_empty(batch)?.0;
            if self.direct.mode() != Mode::Wide {
                return Ok(count);
            }
        }
        let (of_flood, is_empty) = self.recv_basins(wide.basins(), batch)?;
        count += of_flood;
        if of_flood > 0 {
            wide.basins().note_used();
        }
        let is_in_vain = is_empty && batch.rhythm.is_flood_unseen() && wide.basins().are_idle_for(DOUBT_NS);
        if batch.course.is_lost() || is_in_vain {
            batch.rhythm.stay_narrow();
            self.end_wide();
        } else if batch.rhythm.note_flood(of_flood) != Flood::GoesOn {
            self.end_wide();
        }
        Ok(count)
    }

    /// Reads the sockets that a flood goes round until they are empty, which is told, or the batch full.
    ///
    /// They are found empty one after the other, with nothing between: so none has a packet that came before one that was read.
    pub(super) fn recv_basins(&self, basins: &Basins, batch: &mut RecvBatch) -> io::Result<(usize, bool)> {
        let (mut count, mut errors, mut empty) = (0, 0, 0);
        if batch.course.is_astray() {
            batch.course.note_heads(self.heads(basins));
        }
        let mut at = batch.course.socket();
        while batch.room() > 0 && errors < ERRORS_MAX {
            match self.recv_joined(basins.fds()[at], batch)? {
                Arrival::Nothing => {
                    empty += 1;
                    if empty == SOCKETS {
                        batch.course.note_drained();
                        return Ok((count, true));
                    }
                    at = (at + 1) % SOCKETS;
                }
                Arrival::Again => errors += 1,
                Arrival::Packets(more, _) => {
                    (count, empty) = (count + more, 0);
                    batch.note_course(Some(at));
                    if batch.course.is_astray() {
                        batch.course.note_heads(self.heads(basins));
                    }
                    at = batch.course.socket();
                }
            }
        }
        Ok((count, false))
    }

    /// What lies first in these.
    fn heads(&self, basins: &Basins) -> impl Iterator<Item = (usize, u32)> {
        basins.heads(|| self.has_reports.store(true, Ordering::Relaxed))
    }

    /// The peer's packets come to the shared socket again. What lies in the others is still to be read.
    #[cold]
    pub(super) fn end_wide(&self) {
        if self.wide().is_some_and(|wide| wide.group.end_flood(&self.socket, wide.tenure)) {
            self.direct.set_mode(Mode::Ending);
        }
    }

    /// The others have been found empty since.
    pub(super) fn note_wide_empty(&self, batch: &mut RecvBatch) {
        if let Some(wide) = &mut *self.lock_wide()
            && !wide.is_over
        {
            wide.is_over = true;
            batch.note_new_fds();
        }
    }

    /// Nothing more comes by the others.
    pub(super) fn leave_wide(&self) {
        let left = self.lock_wide().take();
        if let Some(wide) = left {
            self.counters.receive_overflows.add(usize::try_from(wide.overflows()).unwrap_or(usize::MAX));
            wide.group.leave(wide.tenure);
            drop(wide);
            self.leave_group();
        }
    }
}
