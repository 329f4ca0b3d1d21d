//! What the system said of the last packet that it knew no way for.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

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

/// The last one, until somebody asks.
#[derive(Debug, Default)]
pub(super) struct NoWay {
    is_any: AtomicBool,
    last: Mutex<Option<(SocketAddr, i32)>>,
}

impl NoWay {
    /// A packet to `to` failed.
    #[cold]
    pub(super) fn note(&self, to: SocketAddr, error: &io::Error) {
        if let Some(number) = error.raw_os_error().filter(|number| NO_WAY.contains(number)) {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((to, number));
            self.is_any.store(true, Ordering::Release);
        }
    }

    /// Why the last packet to `to` failed, if that was the last to fail so.
    pub(super) fn take(&self, to: SocketAddr) -> Option<io::Error> {
        if !self.is_any.load(Ordering::Acquire) {
            return None;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, number) = last.take_if(|(failed, _)| *failed == to)?;
        self.is_any.store(false, Ordering::Relaxed);
        Some(io::Error::from_raw_os_error(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_once_and_of_who_was_meant() {
        let [to, other] = [7, 8].map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
        let no_way = NoWay::default();
        assert!(no_way.take(to).is_none());
        no_way.note(to, &io::Error::from_raw_os_error(libc::EPERM));
        assert!(no_way.take(to).is_none(), "the next may pass");
        no_way.note(to, &io::Error::from_raw_os_error(libc::ENETUNREACH));
        assert!(no_way.take(other).is_none());
        assert_eq!(no_way.take(to).unwrap().raw_os_error(), Some(libc::ENETUNREACH));
        assert!(no_way.take(to).is_none());
    }
}
