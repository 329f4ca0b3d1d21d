//! The job that a launcher started this process in: its rank is a node, and the other ranks have names.

use std::time::Duration;

use weft_launch::{ExchangeError, Job, JoinError, Place, PlacesError, Reach};
use weft_socket::Node;

use super::{NodeFlags, told};
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

impl NodeFlags {
    /// The job of this process, if these flags let it be in one.
    ///
    /// # Errors
    /// When its launcher cannot be asked, or the flags want another number.
    pub(super) fn job(&self) -> Result<Option<Job>, Failure> {
        if self.job.launcher == LauncherChoice::Off {
            return Ok(None);
        }
        let Some(job) = Job::find().map_err(|error| failure(Code::Other, &error.to_string()))? else {
            return Ok(None);
        };
        match self.number()? {
            Some(node) if node != job.node() => {
                let what = format!("--node {node}, but this is {job} and so node {}", job.node());
                Err(Failure::new(Code::Usage, what, "leave --node out, or give --launcher off"))
            }
            _ => Ok(Some(job.with_reach(self.job.reach.clone()))),
        }
    }
}

/// Tells all ranks where `node` is, and `node` where all ranks are and what they are called; waits for them.
pub(super) fn join(job: Job, node: &Node, wait: Duration) -> Result<Vec<Place>, Failure> {
    let places = job.join(node.underlay(), wait).map_err(|error| join_failure(&error))?;
    for place in places.iter().filter(|place| place.node != node.id()) {
        node.add_peer(place.node, place.at);
        // Names of ranks are plain and each is given once; a host whose name is none is called by its rank.
        place.names.iter().filter_map(|name| name.parse().ok()).for_each(|name| {
            let _ = node.add_name(name, place.node);
        });
    }
    Ok(places)
}

/// A failure with the next step of the error, or to go on without a launcher.
fn failure(code: Code, text: &str) -> Failure {
    let (what, next) = text.split_once("; ").unwrap_or((text, "start the job again"));
    Failure::new(code, what, format!("{next}, or give --launcher off"))
}

fn join_failure(error: &JoinError) -> Failure {
    match error {
        JoinError::Reach(error) => told(Code::Address, error),
        JoinError::Exchange(error) => exchange_failure(error),
        JoinError::Places(error) => places_failure(error),
        JoinError::Family { .. } => {
            let what = told(Code::Address, error).what;
            Failure::new(Code::Address, what, "give --bind with an address, or --reach with a network")
        }
        _ => failure(Code::Other, &error.to_string()),
    }
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
