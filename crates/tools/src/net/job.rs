//! The job that a launcher started this process in: its rank is a node, and the other ranks have names.

use std::net::SocketAddr;
use std::time::Duration;

use weft_base::NodeId;
use weft_launch::{Card, DetectError, ExchangeError, Launch, Place, PlacesError, Reach, ReachError};
use weft_link::Mac;
use weft_socket::Node;

use super::NodeFlags;
use crate::exit::{Code, Failure};
use crate::units::parse_duration;

/// Whether a launcher is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum LauncherChoice {
    /// If there is one.
    Auto,
    /// Never.
    #[default]
    Off,
}

/// What this process is to its launcher.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "The job (under mpirun, mpiexec, srun)")]
pub struct JobFlags {
    /// Whether this command is a rank of the job that a launcher (PMIx or PMI) started
    ///
    /// If it is, then so must be one command on every rank: none goes on before all have come. Ranks are called rank-0,
    /// rank-1 and so on, and a host by its name if a single rank runs there. A job of one rank counts as none.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = LauncherChoice::Auto)]
    pub launcher: LauncherChoice,

    /// How long to wait for the other ranks
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub launcher_wait: Duration,

    /// Where the other ranks reach this host: an interface, or a network such as 10.1.0.0/16 [default: by loopback if all
    /// run on one host, else by the interface of the default route]
    #[arg(long, value_name = "WHERE")]
    pub reach: Option<Reach>,
}

/// A job in which this process is a rank.
pub(super) struct Job {
    launch: Launch,
    flags: JobFlags,
}

impl Job {
    /// The job of this process, if `flags` let it be in one.
    pub(super) fn find(flags: &NodeFlags) -> Result<Option<Self>, Failure> {
        if flags.job.launcher == LauncherChoice::Off {
            return Ok(None);
        }
        let launch = Launch::detect().map_err(|error| detect_failure(&error))?;
        // An interactive shell under `srun` is a job of one rank, and its commands are nobody's ranks.
        let Some(launch) = launch.filter(|launch| launch.size() > 1) else { return Ok(None) };
        let job = Self { launch, flags: flags.job.clone() };
        let own = job.node()?;
        match flags.number()? {
            Some(node) if node != own => {
                let what = format!("--node {node}, but this is {} and so node {own}", job.name());
                Err(Failure::new(Code::Usage, what, "leave --node out, or give --launcher off"))
            }
            _ => Ok(Some(job)),
        }
    }

    /// The number of this rank.
    pub(super) fn node(&self) -> Result<NodeId, Failure> {
        weft_launch::node_of(self.launch.rank()).ok_or_else(|| {
            Failure::new(Code::Other, format!("no node is {}", self.name()), "start fewer ranks")
        })
    }

    /// The name of this rank, and of how many it is one.
    fn name(&self) -> String {
        format!("{} of {}", weft_launch::rank_name(self.launch.rank()), self.launch.size())
    }

    /// Where this rank binds if nothing else is said: the address that the others are told, so that what it sends comes
    /// from there. Who speaks to somebody outside of the job needs an address that reaches there.
    pub(super) fn bind(&self, speaks_outside: bool) -> Result<SocketAddr, Failure> {
        let is_one_host = self.launch.is_one_host() && !speaks_outside;
        let ip =
            Reach::address(self.flags.reach.as_ref(), is_one_host).map_err(|error| reach_failure(&error))?;
        Ok((ip, 0).into())
    }

    /// Tells all ranks where `node` is, and `node` where all ranks are; waits for them.
    pub(super) fn join(self, node: &Node) -> Result<Vec<Place>, Failure> {
        let at = self.told(node.underlay())?;
        let (own, wait) = (node.id(), self.flags.launcher_wait);
        let cards = self.launch.exchange(&Card::of_this_host(at).emit(), wait);
        let cards = cards.map_err(|error| exchange_failure(&error))?;
        let places = weft_launch::places(&cards).map_err(|error| places_failure(&error))?;
        for place in places.iter().filter(|place| place.node != own) {
            node.add_peer(place.node, place.at);
        }
        Ok(places)
    }

    /// What the others are told of a socket at `bound`: an address in place of a wildcard.
    fn told(&self, bound: SocketAddr) -> Result<SocketAddr, Failure> {
        if !bound.ip().is_unspecified() || Mac::of_underlay(bound).is_some() {
            return Ok(bound);
        }
        let ip = self.bind(false)?.ip();
        if ip.is_ipv4() == bound.is_ipv4() {
            return Ok((ip, bound.port()).into());
        }
        let what = format!("{bound} is bound, which does not receive what other ranks send to {ip}");
        Err(Failure::new(Code::Address, what, "give --bind with an address, or --reach with a network"))
    }
}

/// A failure with the next step of the error, or to go on without a launcher.
fn failure(code: Code, text: &str) -> Failure {
    let (what, next) = text.split_once("; ").unwrap_or((text, "start the job again"));
    Failure::new(code, what, format!("{next}, or give --launcher off"))
}

fn detect_failure(error: &DetectError) -> Failure {
    failure(Code::Other, &error.to_string())
}

fn exchange_failure(error: &ExchangeError) -> Failure {
    let code = match error {
        ExchangeError::Missing { .. } => Code::NoAnswer,
        ExchangeError::Lost(_) | ExchangeError::Refused { .. } => Code::Lost,
        ExchangeError::Strange { .. } => Code::Protocol,
        ExchangeError::TooLong { .. } | _ => Code::Other,
    };
    failure(code, &error.to_string())
}

fn places_failure(error: &PlacesError) -> Failure {
    let text = error.to_string();
    if matches!(error, PlacesError::Loopback { .. }) {
        let (what, next) = text.split_once("; ").unwrap_or((&text, ""));
        return Failure::new(Code::Address, what, format!("{next} with --reach"));
    }
    let is_strange = matches!(error, PlacesError::NoCard { .. });
    failure(if is_strange { Code::Protocol } else { Code::Address }, &text)
}

fn reach_failure(error: &ReachError) -> Failure {
    let text = error.to_string();
    let (what, next) = text.split_once("; ").unwrap_or((&text, ""));
    Failure::new(Code::Address, what, next)
}
