//! What the system said of the last packet that it knew no way for.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Errors of a call that tell that no packet can leave for its target: no route, or none from this address, a target that is
/// forbidden, or of another family. Not that a rule dropped one (`EPERM`), which may let the next one pass.
const NO_WAY: [i32; 6] = [
    libc::ENETUNREACH,
    libc::EHOSTUNREACH,
    libc::EACCES,
    libc::EINVAL,
    libc::EADDRNOTAVAIL,
    libc::EAFNOSUPPORT,
];

/// The last one.
#[derive(Debug, Default)]
pub(super) struct NoWay {
    /// How many there were.
    count: AtomicU64,
    last: Mutex<Option<(SocketAddr, i32)>>,
}

impl NoWay {
    /// A packet to `to` failed.
    #[cold]
    pub(super) fn note(&self, to: SocketAddr, error: &io::Error) {
        if let Some(number) = error.raw_os_error().filter(|number| NO_WAY.contains(number)) {
            let mut last = self.lock();
            *last = Some((to, number));
            self.count.fetch_add(1, Ordering::Release);
        }
    }

    /// How many there have been.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Why a packet to `to` failed since there were `before`, if that was the last.
    pub(super) fn since(&self, before: u64, to: SocketAddr) -> Option<io::Error> {
        if self.count() == before {
            return None;
        }
        let (_, number) = self.lock().filter(|(failed, _)| *failed == to)?;
        Some(io::Error::from_raw_os_error(number))
    }

    fn lock(&self) -> MutexGuard<'_, Option<(SocketAddr, i32)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_to_all_who_ask_since_and_of_who_was_meant() {
        let [to, other] = [7, 8].map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
        let no_way = NoWay::default();
        let before = no_way.count();
        assert!(no_way.since(before, to).is_none());
        no_way.note(to, &io::Error::from_raw_os_error(libc::EPERM));
        assert!(no_way.since(before, to).is_none(), "the next may pass");
        no_way.note(to, &io::Error::from_raw_os_error(libc::ENETUNREACH));
        assert!(no_way.since(before, other).is_none());
        for _ in 0..2 {
            assert_eq!(no_way.since(before, to).unwrap().raw_os_error(), Some(libc::ENETUNREACH));
        }
        assert!(no_way.since(no_way.count(), to).is_none(), "nothing is new");
    }
}
