//! A peer that is stopped, all its threads, and goes on after a while.

use std::thread;
use std::time::{Duration, Instant};

use weft_socket::{EndReason, Service};

use crate::case::Survivor;
use crate::lane::Lane;
use crate::operation::{EXCHANGE_BYTES, exchange, in_background};
use crate::times::Times;
use crate::victim::Act;

/// What a pause came to.
#[derive(Debug)]
pub(crate) struct Pause {
    /// Whether everything was exchanged; if not, what this end was told, and when.
    pub(crate) outcome: Result<(), (EndReason, Duration)>,
    /// What the other end said then.
    pub(crate) peer: Option<String>,
}

impl Lane {
    /// Stops a peer for a while. Below the expiry nothing is lost; beyond it both ends are told.
    pub(crate) fn pause(&self, survivor: Survivor, times: Times, pause: Duration, is_sending: bool) -> Pause {
        let mut part = self.part(Act::Echo, times, Service::Stream, false);
        let options = part.options();
        let (victim, socket, _listener) = self.open(survivor, &mut part, &options);
        exchange(&socket, 0).expect("it answers");
        victim.stop();
        let begin = Instant::now();
        let waiting = is_sending.then(|| {
            in_background(&socket, move |socket| {
                exchange(socket, EXCHANGE_BYTES).map_err(|reason| (reason, begin.elapsed()))
            })
        });
        let mut told = None;
        while begin.elapsed() < pause {
            // Nothing comes but the end.
            if told.is_none() && !is_sending && socket.is_readable() {
                told = Some(begin.elapsed());
            }
            thread::sleep(Duration::from_millis(2));
        }
        victim.resume();
        let first = waiting.map_or(Ok(()), |thread| thread.join().expect("the exchange").map(drop));
        let again = || exchange(&socket, 2 * EXCHANGE_BYTES).map(drop);
        let outcome =
            first.and_then(|()| again().map_err(|reason| (reason, told.unwrap_or_else(|| begin.elapsed()))));
        let peer = outcome.is_err().then(|| victim.line(times.patience()).0);
        Pause { outcome, peer }
    }
}
