//! A job in which this process is a rank: its number and name, where it binds, and who the others are.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use weft_base::NodeId;
use weft_link::Mac;

use crate::{
    Card, DetectError, ExchangeError, Launch, Place, PlacesError, Reach, ReachError, node_of, places,
    rank_name,
};

/// A job of several ranks, of which this process is one.
///
/// First a node is opened that has the [`Job::node`] of this rank and is bound to [`Job::bind`]; who listens does so next,
/// and then [`Job::join`] tells the others where the node is, and this rank where they are.
#[derive(Debug)]
pub struct Job {
    launch: Launch,
    node: NodeId,
    reach: Option<Reach>,
}

/// Why a rank does not know the others.
#[derive(Debug)]
#[non_exhaustive]
pub enum JoinError {
    /// No address can be told to the others.
    Reach(ReachError),
    /// What is bound does not receive what the others would send.
    Family {
        /// What is bound.
        bound: SocketAddr,
        /// What the others would be told.
        told: SocketAddr,
    },
    /// The ranks did not hear of each other.
    Exchange(ExchangeError),
    /// What they told makes no name space.
    Places(PlacesError),
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reach(error) => error.fmt(f),
            Self::Family { bound, told } => write!(
                f,
                "{bound} is bound, which does not receive what other ranks send to {}; bind an address that they reach",
                told.ip()
            ),
            Self::Exchange(error) => error.fmt(f),
            Self::Places(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for JoinError {}

impl Job {
    /// The job of this process; `None` if no launcher started it, or started it alone: an interactive shell under `srun`
    /// is a job of one rank, and its programs are nobody's ranks. What [`Launch::detect`] says of when to call it, holds.
    ///
    /// # Errors
    /// When there is a launcher, and it cannot be asked.
    pub fn find() -> Result<Option<Self>, DetectError> {
        let Some(launch) = Launch::detect()?.filter(|launch| launch.size() > 1) else { return Ok(None) };
        let node = node_of(launch.rank()).ok_or(DetectError::TooLarge(launch.size()))?;
        Ok(Some(Self { launch, node, reach: None }))
    }

    /// Where the others are to reach this host, in place of what is found ([`Reach::address`]).
    #[must_use]
    pub fn with_reach(mut self, reach: Option<Reach>) -> Self {
        self.reach = reach;
        self
    }

    /// The number of this rank's node.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// The rank of this process, from 0.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.launch.rank()
    }

    /// How many ranks the job has.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.launch.size()
    }

    /// Where this rank binds: the address that the others are told, so that what it sends comes from there. Who speaks to
    /// somebody outside of the job needs an address that reaches there, even if the job runs on one host.
    ///
    /// # Errors
    /// When this host has no such address.
    pub fn bind(&self, speaks_outside: bool) -> Result<SocketAddr, ReachError> {
        let is_one_host = self.launch.is_one_host() && !speaks_outside;
        Ok((Reach::address(self.reach.as_ref(), is_one_host)?, 0).into())
    }

    /// Tells the other ranks that this one is at `bound`, waits at most `limit` until all have come, and says who they
    /// are: all ranks in order, this one among them.
    ///
    /// # Errors
    /// When ranks are missing, the launcher fails, or a rank cannot be reached.
    pub fn join(self, bound: SocketAddr, limit: Duration) -> Result<Vec<Place>, JoinError> {
        let at = self.told(bound)?;
        let cards =
            self.launch.exchange(&Card::of_this_host(at).emit(), limit).map_err(JoinError::Exchange)?;
        places(&cards).map_err(JoinError::Places)
    }

    /// What the others are told of a socket at `bound`: an address in place of a wildcard.
    fn told(&self, bound: SocketAddr) -> Result<SocketAddr, JoinError> {
        if !bound.ip().is_unspecified() || Mac::of_underlay(bound).is_some() {
            return Ok(bound);
        }
        let told = SocketAddr::new(self.bind(false).map_err(JoinError::Reach)?.ip(), bound.port());
        if told.is_ipv4() == bound.is_ipv4() { Ok(told) } else { Err(JoinError::Family { bound, told }) }
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", rank_name(self.rank()), self.size())
    }
}
