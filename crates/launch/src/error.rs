//! What can go wrong between a process and its launcher, one set per operation.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::{EXCHANGE_BYTES_MAX, Launcher, RANKS_MAX, Reach};

/// Why a launcher that is there cannot be asked.
#[derive(Debug)]
#[non_exhaustive]
pub enum DetectError {
    /// The variables of a PMIx launcher are set, but its library cannot be loaded.
    Library(String),
    /// A variable holds what no launcher writes there.
    Variable {
        /// Its name.
        name: &'static str,
        /// What it holds.
        value: String,
    },
    /// The launcher did not do what it was asked for.
    Refused {
        /// Which launcher.
        launcher: Launcher,
        /// What it was asked for, and what it said.
        why: String,
    },
    /// The launcher said nothing for so long.
    Silent {
        /// Which launcher.
        launcher: Launcher,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The job has more ranks than [`RANKS_MAX`].
    TooLarge(u32),
}

impl fmt::Display for DetectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library(why) => write!(
                f,
                "a PMIx launcher started this process, but its library cannot be loaded: {why}; install libpmix.so.2 \
                 (Debian: libpmix2) where the dynamic linker finds it"
            ),
            Self::Variable { name, value } => {
                write!(f, "{name} is {value:?}, which no launcher says; start the program by its launcher")
            }
            Self::Refused { launcher, why } => {
                write!(
                    f,
                    "the {launcher} launcher of this process cannot be asked: {why}; start the job again"
                )
            }
            Self::Silent { launcher, limit } => {
                write!(
                    f,
                    "the {launcher} launcher of this process said nothing for {limit:?}; start the job again"
                )
            }
            Self::TooLarge(size) => {
                write!(f, "the job has {size} ranks; at most {RANKS_MAX} have a place in its name space")
            }
        }
    }
}

impl std::error::Error for DetectError {}

/// Why the ranks of a job do not know what the others said.
#[derive(Debug)]
#[non_exhaustive]
pub enum ExchangeError {
    /// More bytes than [`EXCHANGE_BYTES_MAX`], or than the launcher takes.
    TooLong {
        /// Bytes that were to be told.
        len: usize,
        /// Bytes that can be told.
        limit: usize,
    },
    /// Not all ranks came in time.
    Missing {
        /// Those that had not come, as far as the launcher tells; empty if it tells of none.
        ranks: Vec<u32>,
        /// Ranks in all.
        size: u32,
        /// How long they were waited for.
        limit: Duration,
    },
    /// The launcher ended, or broke the connection off.
    Lost(Launcher),
    /// The launcher did not do what it was asked for.
    Refused {
        /// Which launcher.
        launcher: Launcher,
        /// What it was asked for, and what it said.
        why: String,
    },
    /// A rank said more than [`EXCHANGE_BYTES_MAX`], or what cannot be read.
    Strange {
        /// Which rank.
        rank: u32,
    },
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { len, limit } => {
                write!(f, "{len} bytes are too many for the other ranks; give at most {limit}")
            }
            Self::Missing { ranks, size, limit } => {
                write!(f, "{} within {limit:?}; ", Missing { ranks, size: *size })?;
                f.write_str("see that every rank of the job runs the same kind of program, and wait longer if they start slowly")
            }
            Self::Lost(launcher) => {
                write!(f, "the {launcher} launcher of this process is gone; start the job again")
            }
            Self::Refused { launcher, why } => {
                write!(
                    f,
                    "the {launcher} launcher of this process gave up: {why}; see its own words, and start the job again"
                )
            }
            Self::Strange { rank } => write!(
                f,
                "rank {rank} told something else than at most {EXCHANGE_BYTES_MAX} bytes; run the same version on all ranks"
            ),
        }
    }
}

impl std::error::Error for ExchangeError {}

/// Who is missing, in words; of many the first few.
struct Missing<'a> {
    ranks: &'a [u32],
    size: u32,
}

/// Missing ranks that are named.
const NAMED_MAX: usize = 8;

impl fmt::Display for Missing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<String> = self.ranks.iter().take(NAMED_MAX).map(u32::to_string).collect();
        let more = self.ranks.len().saturating_sub(NAMED_MAX);
        match (self.ranks, more) {
            ([], _) => write!(f, "not all {} ranks of the job came", self.size),
            ([one], _) => write!(f, "rank {one} of {} did not come", self.size),
            (_, 0) => write!(f, "ranks {} of {} did not come", named.join(", "), self.size),
            (_, more) => {
                write!(f, "ranks {} and {more} more of {} did not come", named.join(", "), self.size)
            }
        }
    }
}

/// Why no address can be told to the others.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReachError {
    /// The kernel does not list the interfaces.
    Interfaces(io::Error),
    /// No address of this host is as wanted.
    NoSuch(Reach),
}

impl fmt::Display for ReachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interfaces(error) => {
                write!(f, "the kernel does not list its interfaces: {error}; give an address to bind")
            }
            Self::NoSuch(wanted) => write!(
                f,
                "no interface of this host that is up has an address in {wanted}; `ip address` shows what there is"
            ),
        }
    }
}

impl std::error::Error for ReachError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Interfaces(error) => Some(error),
            Self::NoSuch(_) => None,
        }
    }
}

/// Why what the ranks told makes no name space.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PlacesError {
    /// A rank told something else than a card.
    NoCard {
        /// Which.
        rank: u32,
    },
    /// A rank gave an address that nobody can send to.
    Nowhere {
        /// Which.
        rank: u32,
        /// The address.
        at: SocketAddr,
    },
    /// A rank gave a loopback address, but ranks run on several hosts.
    Loopback {
        /// Which.
        rank: u32,
        /// Its host.
        host: String,
        /// The address.
        at: SocketAddr,
    },
    /// Two ranks gave the same address.
    Shared {
        /// Which.
        ranks: [u32; 2],
        /// The address.
        at: SocketAddr,
    },
}

impl fmt::Display for PlacesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCard { rank } => {
                write!(f, "rank {rank} is no node of this version; run the same version on all ranks")
            }
            Self::Nowhere { rank, at } => {
                write!(f, "rank {rank} is at {at}, where nobody can send to; bind an address of its host")
            }
            Self::Loopback { rank, host, at } => write!(
                f,
                "rank {rank} on {host} is at {at}, which other hosts do not reach; say by which interface or network \
                 the hosts reach each other"
            ),
            Self::Shared { ranks: [a, b], at } => {
                write!(f, "ranks {a} and {b} are both at {at}; each needs an address of its own")
            }
        }
    }
}

impl std::error::Error for PlacesError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(ranks: &[u32]) -> String {
        let error =
            ExchangeError::Missing { ranks: ranks.to_vec(), size: 40, limit: Duration::from_secs(60) };
        error.to_string()
    }

    #[test]
    fn the_missing_are_named_as_far_as_they_are_known_and_few() {
        assert!(missing(&[]).starts_with("not all 40 ranks of the job came within 60s; "));
        assert!(missing(&[3]).starts_with("rank 3 of 40 did not come within 60s; "));
        assert!(missing(&[3, 5]).starts_with("ranks 3, 5 of 40 did not come"));
        let many: Vec<u32> = (0..20).collect();
        assert!(missing(&many).starts_with("ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 more of 40 did not come"));
    }

    #[test]
    fn a_missing_library_is_told_with_cause_and_remedy() {
        let text = DetectError::Library("no such file".into()).to_string();
        assert!(text.contains("no such file") && text.contains("install libpmix.so.2"), "{text}");
    }
}
