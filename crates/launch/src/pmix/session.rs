//! One process's membership in a PMIx job, from the first call to the last.

use std::env;
use std::ffi::CStr;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use super::layout::{
    COLLECT_DATA, ERR_LOST_CONNECTION, ERR_PARTIAL_SUCCESS, ERR_TIMEOUT, ERR_UNREACH, Info, JOB_SIZE,
    LOCAL_SIZE, Proc, RANK_WILDCARD, Status, TIMEOUT, Value,
};
use super::library::Pmix;
use crate::launch::{DETECT_TIME, EXCHANGE_BYTES_MAX, FAREWELL_TIME, INQUIRY_TIME, Launcher, RANKS_MAX};
use crate::within::within;
use crate::{DetectError, ExchangeError};

/// Under what a rank's bytes stand.
const KEY: &CStr = c"weft.card";
/// How long the launcher looks for the bytes of one rank, in seconds.
const LOOK_S: i32 = 1;

/// Whether a PMIx launcher started this process.
pub(crate) fn is_offered() -> bool {
    env::var_os("PMIX_NAMESPACE").is_some() && env::var_os("PMIX_RANK").is_some()
}

/// A membership.
#[derive(Debug)]
pub(crate) struct Session {
    pmix: Pmix,
    own: Own,
    pub(crate) rank: u32,
    pub(crate) size: u32,
    /// The PMIx name space of the job.
    pub(crate) job: String,
    pub(crate) is_one_host: bool,
}

/// This rank in the library's form.
#[derive(Clone, Copy)]
struct Own(Proc);

impl std::fmt::Debug for Own {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.0.job(), self.0.rank)
    }
}

/// What a process is told first.
struct Joined {
    own: Proc,
    size: Option<u32>,
    local_size: Option<u32>,
}

impl Session {
    /// The membership of this process.
    pub(crate) fn start() -> Result<Self, DetectError> {
        let pmix = Pmix::load().map_err(DetectError::Library)?;
        let silent = || DetectError::Silent { launcher: Launcher::Pmix, limit: DETECT_TIME };
        let refused = |why| DetectError::Refused { launcher: Launcher::Pmix, why };
        let joined = within(DETECT_TIME, move || join(pmix)).ok_or_else(silent)?;
        let Joined { own, size, local_size } = joined.map_err(|status| refused(pmix.words(status)))?;
        let session = Self {
            pmix,
            own: Own(own),
            rank: own.rank,
            size: size.unwrap_or(0),
            job: own.job(),
            is_one_host: local_size.is_some() && local_size == size,
        };
        // From here on the end of the session is told to the launcher.
        match size {
            Some(size) if size > RANKS_MAX => Err(DetectError::TooLarge(size)),
            Some(size) if own.rank < size => Ok(session),
            _ => Err(refused(format!("it says that this is rank {} of {}", own.rank, session.size))),
        }
    }

    /// Gives every rank the bytes of all.
    pub(crate) fn exchange(&self, own: &[u8], limit: Duration) -> Result<Vec<Vec<u8>>, ExchangeError> {
        let (pmix, me, size, bytes) = (self.pmix, self.own.0, self.size, own.to_vec());
        let traded = within(limit, move || trade(pmix, me, size, &bytes));
        let all = match traded {
            Some(Ok(all)) => all,
            None | Some(Err(ERR_TIMEOUT)) => {
                return Err(ExchangeError::Missing { ranks: self.missing(), size, limit });
            }
            Some(Err(ERR_LOST_CONNECTION | ERR_UNREACH)) => return Err(ExchangeError::Lost(Launcher::Pmix)),
            Some(Err(ERR_PARTIAL_SUCCESS)) => {
                let why = "ranks ended before all had come".to_owned();
                return Err(ExchangeError::Refused { launcher: Launcher::Pmix, why });
            }
            Some(Err(status)) => {
                let why = pmix.words(status);
                return Err(ExchangeError::Refused { launcher: Launcher::Pmix, why });
            }
        };
        match (0..).zip(&all).find(|(_, bytes)| bytes.len() > EXCHANGE_BYTES_MAX) {
            Some((rank, _)) => Err(ExchangeError::Strange { rank }),
            None => Ok(all),
        }
    }

    /// Ranks that have not come to the exchange, as far as it can be found out in a short time.
    fn missing(&self) -> Vec<u32> {
        let (sender, receiver) = mpsc::channel();
        let (pmix, own, size) = (self.pmix, self.own.0, self.size);
        let deadline = Instant::now() + INQUIRY_TIME;
        within(INQUIRY_TIME, move || inquire(pmix, own, size, &sender, deadline));
        receiver.try_iter().collect()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let pmix = self.pmix;
        within(FAREWELL_TIME, move || pmix.finalize());
    }
}

fn join(pmix: Pmix) -> Result<Joined, Status> {
    let own = pmix.init()?;
    let job = own.of_rank(RANK_WILDCARD);
    let number = |key| pmix.number(&job, key).ok().flatten();
    Ok(Joined { own, size: number(JOB_SIZE), local_size: number(LOCAL_SIZE) })
}

fn trade(pmix: Pmix, own: Proc, size: u32, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Status> {
    pmix.publish(KEY, bytes)?;
    pmix.fence(&Info::new(COLLECT_DATA, Value::flag(true)))?;
    let wish = Info::new(TIMEOUT, Value::integer(LOOK_S));
    (0..size).map(|rank| pmix.bytes(&own.of_rank(rank), KEY, &wish)).collect()
}

/// Tells of each rank that has put nothing.
fn inquire(pmix: Pmix, own: Proc, size: u32, missing: &Sender<u32>, deadline: Instant) {
    let wish = Info::new(TIMEOUT, Value::integer(LOOK_S));
    for rank in (0..size).take_while(|_| Instant::now() < deadline) {
        if pmix.bytes(&own.of_rank(rank), KEY, &wish).is_err() && missing.send(rank).is_err() {
            return;
        }
    }
}
