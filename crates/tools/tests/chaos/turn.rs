//! Which lane kills what, and in which order.

use std::fmt;

use weft_socket::Service;

use crate::case::Case;

/// From one case to the next, so that a few kills are spread over all of them; it shares no factor with their number.
const STRIDE: usize = 89;
/// Lanes that stop a peer for a while when all is killed: for each end, one that sends and one that is idle.
const PAUSING: usize = 4;

/// One of the processes that survive, and its share of all kills.
#[derive(Clone, Copy)]
pub(crate) struct Share {
    pub(crate) lane: usize,
    pub(crate) lanes: usize,
    pub(crate) kills: usize,
}

/// One thing that a lane does.
pub(crate) enum Turn {
    /// Kills; the case and its place among all cases.
    Kill { index: usize, case: Case, service: Service },
    /// Stops its peer for a while.
    Pause,
}

impl Share {
    /// All that the lane does, in order.
    pub(crate) fn turns(self) -> Vec<Turn> {
        let cases = Case::all();
        let kill = |kill: usize| {
            let index = kill * STRIDE % cases.len();
            let is_even = (kill / cases.len() + kill % cases.len()).is_multiple_of(2);
            let service = if is_even { Service::Stream } else { Service::Datagram };
            Turn::Kill { index, case: cases[index], service }
        };
        let mut turns: Vec<Turn> = (self.lane..self.kills).step_by(self.lanes).map(kill).collect();
        if self.lane < PAUSING {
            turns.push(Turn::Pause);
        }
        turns
    }

    pub(crate) fn to_words(self) -> [String; 3] {
        [self.lane, self.lanes, self.kills].map(|number| number.to_string())
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill { case, service, .. } => write!(f, "{case} {service:?}"),
            Self::Pause => f.write_str("a peer that is stopped for a while"),
        }
    }
}
