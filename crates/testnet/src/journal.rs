//! What happened: the trace hash, the last events for a failure report, and a line each for who wants to see them.

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use weft_base::Instant;
use weft_des::TraceHash;
use weft_wire::{Encapsulation, Packet};

use crate::plan::Trouble;

/// Events kept for a failure report.
const KEPT: usize = 80;

/// One thing that happened.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A node put a packet on the way.
    Sent {
        /// Index of the node.
        node: usize,
        /// The packet.
        bytes: Bytes,
    },
    /// A packet reached a node.
    Arrived {
        /// Index of the node.
        node: usize,
        /// The packet.
        bytes: Bytes,
        /// It was damaged on the way.
        is_damaged: bool,
    },
    /// A timer of an end fired.
    Fired {
        /// Index of the end.
        end: usize,
    },
    /// An end came into being.
    Opened {
        /// Index of the end.
        end: usize,
        /// Index of its node.
        node: usize,
    },
    /// An event of a connection.
    Raised {
        /// Index of the end.
        end: usize,
        /// The event.
        event: weft_proto::Event,
    },
    /// A fault begins or ends.
    Trouble(Trouble),
    /// All faults stop.
    Healed,
}

/// The record of a run.
pub struct Journal {
    hash: TraceHash,
    last: VecDeque<(Instant, Entry)>,
    events: u64,
    prints: bool,
}

impl Journal {
    /// An empty one. With `prints` every entry also goes to standard output.
    #[must_use]
    pub fn new(prints: bool) -> Self {
        Self { hash: TraceHash::new(), last: VecDeque::with_capacity(KEPT), events: 0, prints }
    }

    /// Adds an entry.
    pub fn note(&mut self, now: Instant, entry: Entry) {
        self.events += 1;
        self.hash.add(now.as_nanos());
        entry.add_to(&mut self.hash);
        if self.prints {
            println!("{}", Line(now, &entry));
        }
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back((now, entry));
    }

    /// The hash of all entries.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash.value()
    }

    /// How many entries there were.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// The last entries, a line each.
    #[must_use]
    pub fn tail(&self) -> String {
        self.last.iter().map(|(at, entry)| format!("  {}\n", Line(*at, entry))).collect()
    }
}

impl Entry {
    fn add_to(&self, hash: &mut TraceHash) {
        match self {
            Self::Sent { node, bytes } => {
                hash.add(*node as u64);
                hash.add_bytes(bytes);
            }
            Self::Arrived { node, bytes, .. } => {
                hash.add(0x100 + *node as u64);
                // The bytes were added when they were sent, unless they changed; their end tells copies apart.
                hash.add_bytes(&bytes[bytes.len().saturating_sub(16)..]);
            }
            Self::Fired { end } => hash.add(0x1_0000 + *end as u64),
            Self::Opened { end, node } => hash.add(0x2_0000 + (*end as u64) * 16 + *node as u64),
            Self::Raised { end, event } => hash.add(0x3_0000 + (*end as u64) * 16 + *event as u64),
            Self::Trouble(trouble) => hash.add_bytes(format!("{trouble:?}").as_bytes()),
            Self::Healed => hash.add(0x4_0000),
        }
    }
}

struct Line<'a>(Instant, &'a Entry);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ", self.0)?;
        match self.1 {
            Entry::Sent { node, bytes } => write!(f, "node {node} sends {}", Shown(bytes)),
            Entry::Arrived { node, bytes, is_damaged } => {
                let damaged = if *is_damaged { " (damaged)" } else { "" };
                write!(f, "node {node} gets  {}{damaged}", Shown(bytes))
            }
            Entry::Fired { end } => write!(f, "end {end}: a timer fires"),
            Entry::Opened { end, node } => write!(f, "end {end} begins at node {node}"),
            Entry::Raised { end, event } => write!(f, "end {end}: {event:?}"),
            Entry::Trouble(trouble) => write!(f, "trouble: {trouble:?}"),
            Entry::Healed => write!(f, "all faults stop"),
        }
    }
}

struct Shown<'a>(&'a Bytes);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Packet::new_checked(self.0.clone(), Encapsulation::Simulated) {
            Ok(packet) => {
                write!(f, "{}", packet.header())?;
                if packet.kind().has_tlvs() && packet.tlvs() != weft_wire::Tlvs::default() {
                    let tlvs = format!("{:?}", packet.tlvs());
                    let said = tlvs.split([',', '{', '}']).filter(|part| {
                        !part.contains("None") && !part.contains("false") && part.contains(':')
                    });
                    write!(f, " [{}]", said.map(str::trim).collect::<Vec<_>>().join(", "))?;
                }
                Ok(())
            }
            Err(refused) => write!(f, "{} bytes, no packet: {}", self.0.len(), refused.reason().name()),
        }
    }
}
