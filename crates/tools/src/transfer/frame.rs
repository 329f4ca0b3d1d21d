//! The frames of the transfer protocol: a tag, a length of four bytes (big-endian), a body.

use std::io::{self, Write};

use super::manifest::{Entry, Kind};
use crate::exit::{Code, Failure};

mod reader;

pub use reader::Reader;

/// First bytes of `Hello`, so that a stranger is recognised at once.
pub const MAGIC: [u8; 8] = *b"WEFTXFER";
/// Version of this protocol.
pub const VERSION: u16 = 1;
/// Longest body of a `Data` frame, in bytes.
pub const DATA_BYTES_MAX: usize = 1 << 20;
/// Longest body of any other frame, in bytes.
pub const BODY_BYTES_MAX: usize = 16 << 10;
/// Bytes before a body.
pub const HEAD_BYTES: usize = 5;

/// A BLAKE3 digest.
pub type Digest = [u8; 32];

/// One frame. The bytes of `Data` stay in the [`Reader`], see [`Reader::data`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame {
    /// The sender's first word.
    Hello {
        /// The sender's [`VERSION`].
        version: u16,
    },
    /// One line of the manifest.
    Entry(Entry),
    /// The manifest is complete; how many entries it has.
    ManifestEnd {
        /// Entries sent.
        entries: u64,
    },
    /// The receiver has the first `offset` bytes of file `index`, and their digest.
    Have {
        /// Number of the entry in the manifest.
        index: u64,
        /// Bytes present.
        offset: u64,
        /// Digest of those bytes.
        digest: Digest,
    },
    /// A file of that name and size exists at the receiver, with this digest.
    Exists {
        /// Number of the entry in the manifest.
        index: u64,
        /// Digest of the existing file.
        digest: Digest,
    },
    /// The receiver has said what it has.
    PlanEnd,
    /// File `index` follows from byte `offset` on.
    Start {
        /// Number of the entry in the manifest.
        index: u64,
        /// First byte that follows.
        offset: u64,
    },
    /// File `index` need not be sent: what exists is the same.
    Skip {
        /// Number of the entry in the manifest.
        index: u64,
    },
    /// A piece of the current file.
    Data,
    /// The current file is complete; the digest of all of it.
    FileEnd {
        /// Digest of the whole file.
        digest: Digest,
    },
    /// The current file cannot be read on.
    FileFail(Failure),
    /// All files are through; the digest of the whole.
    End {
        /// Digest over all files.
        digest: Digest,
    },
    /// File `index` lies under its final name.
    Done {
        /// Number of the entry in the manifest.
        index: u64,
    },
    /// File `index` was not kept.
    Failed {
        /// Number of the entry in the manifest.
        index: u64,
        /// Why.
        failure: Failure,
    },
    /// Everything is stored; the receiver's digest of the whole.
    Complete {
        /// Digest over all files.
        digest: Digest,
    },
    /// Still here, hashing.
    Busy,
    /// The end of it: why.
    Abort(Failure),
}

impl Frame {
    const fn tag(&self) -> u8 {
        match self {
            Self::Hello { .. } => 0x01,
            Self::Entry(_) => 0x02,
            Self::ManifestEnd { .. } => 0x03,
            Self::Have { .. } => 0x10,
            Self::Exists { .. } => 0x11,
            Self::PlanEnd => 0x12,
            Self::Start { .. } => 0x20,
            Self::Skip { .. } => 0x21,
            Self::Data => TAG_DATA,
            Self::FileEnd { .. } => 0x23,
            Self::FileFail(_) => 0x24,
            Self::End { .. } => 0x25,
            Self::Done { .. } => 0x30,
            Self::Failed { .. } => 0x31,
            Self::Complete { .. } => 0x32,
            Self::Busy => 0x40,
            Self::Abort(_) => 0x41,
        }
    }

    /// Writes the frame. A `Data` frame is written by [`data_head`] and the bytes instead.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn write(&self, stream: &mut impl Write) -> io::Result<()> {
        let mut bytes = vec![self.tag(), 0, 0, 0, 0];
        self.emit_body(&mut bytes);
        let len = u32::try_from(bytes.len() - HEAD_BYTES).unwrap_or(u32::MAX);
        bytes[1..HEAD_BYTES].copy_from_slice(&len.to_be_bytes());
        stream.write_all(&bytes)
    }

    fn emit_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::Hello { version } => {
                out.extend(MAGIC);
                out.extend(version.to_be_bytes());
            }
            Self::Entry(entry) => emit_entry(out, entry),
            Self::ManifestEnd { entries } => out.extend(entries.to_be_bytes()),
            Self::Have { index, offset, digest } => {
                out.extend(index.to_be_bytes());
                out.extend(offset.to_be_bytes());
                out.extend(digest);
            }
            Self::Exists { index, digest } => {
                out.extend(index.to_be_bytes());
                out.extend(digest);
            }
            Self::Start { index, offset } => {
                out.extend(index.to_be_bytes());
                out.extend(offset.to_be_bytes());
            }
            Self::Skip { index } | Self::Done { index } => out.extend(index.to_be_bytes()),
            Self::FileEnd { digest } | Self::End { digest } | Self::Complete { digest } => out.extend(digest),
            Self::Failed { index, failure } => {
                out.extend(index.to_be_bytes());
                emit_failure(out, failure);
            }
            Self::FileFail(failure) | Self::Abort(failure) => emit_failure(out, failure),
            Self::PlanEnd | Self::Data | Self::Busy => {}
        }
    }

    fn parse(tag: u8, body: &[u8]) -> Result<Self, String> {
        let mut body = Body(body);
        let frame = match tag {
            0x01 => match body.array()? {
                MAGIC => Self::Hello { version: u16::from_be_bytes(body.array()?) },
                _ => return Err("it begins with other words".into()),
            },
            0x02 => Self::Entry(parse_entry(&mut body)?),
            0x03 => Self::ManifestEnd { entries: body.number()? },
            0x10 => Self::Have { index: body.number()?, offset: body.number()?, digest: body.array()? },
            0x11 => Self::Exists { index: body.number()?, digest: body.array()? },
            0x12 => Self::PlanEnd,
            0x20 => Self::Start { index: body.number()?, offset: body.number()? },
            0x21 => Self::Skip { index: body.number()? },
            0x23 => Self::FileEnd { digest: body.array()? },
            0x24 => Self::FileFail(body.failure()?),
            0x25 => Self::End { digest: body.array()? },
            0x30 => Self::Done { index: body.number()? },
            0x31 => Self::Failed { index: body.number()?, failure: body.failure()? },
            0x32 => Self::Complete { digest: body.array()? },
            0x40 => Self::Busy,
            0x41 => Self::Abort(body.failure()?),
            _ => return Err(format!("a frame of unknown kind {tag:#04x}")),
        };
        if body.0.is_empty() { Ok(frame) } else { Err(format!("a frame of kind {tag:#04x} is too long")) }
    }
}

const TAG_DATA: u8 = 0x22;

/// The head of a `Data` frame of `len` bytes, at most [`DATA_BYTES_MAX`].
#[must_use]
pub fn data_head(len: usize) -> [u8; HEAD_BYTES] {
    debug_assert!(len <= DATA_BYTES_MAX);
    let [a, b, c, d] = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
    [TAG_DATA, a, b, c, d]
}

fn emit_entry(out: &mut Vec<u8>, entry: &Entry) {
    let (kind, size, target): (u8, u64, &[u8]) = match &entry.kind {
        Kind::Directory => (1, 0, &[]),
        Kind::File { size } => (2, *size, &[]),
        Kind::Link { target } => (3, 0, target),
    };
    out.push(kind);
    out.extend(entry.mode.to_be_bytes());
    out.extend(entry.mtime_s.to_be_bytes());
    out.extend(entry.mtime_ns.to_be_bytes());
    out.extend(size.to_be_bytes());
    out.extend(u16::try_from(entry.name.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend(&entry.name);
    out.extend(target);
}

fn parse_entry(body: &mut Body<'_>) -> Result<Entry, String> {
    let [kind] = body.array()?;
    let mode = u32::from_be_bytes(body.array()?);
    let mtime_s = i64::from_be_bytes(body.array()?);
    let mtime_ns = u32::from_be_bytes(body.array()?);
    let size = body.number()?;
    let name_len = u16::from_be_bytes(body.array()?);
    let name = body.take(usize::from(name_len))?.to_vec();
    let target = body.take(body.0.len())?.to_vec();
    let kind = match kind {
        1 => Kind::Directory,
        2 => Kind::File { size },
        3 => Kind::Link { target },
        _ => return Err(format!("an entry of unknown kind {kind}")),
    };
    Ok(Entry { name, kind, mode, mtime_s, mtime_ns })
}

/// A failure travels as its exit code, what, and next step; the texts are cut to fit a frame.
fn emit_failure(out: &mut Vec<u8>, failure: &Failure) {
    out.push(failure.code.number());
    for text in [&failure.what, &failure.next] {
        let text = &text.as_bytes()[..text.len().min(4096)];
        out.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
        out.extend(text);
    }
}

/// What is left to parse of a body.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or("a frame is too short")?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (taken, rest) = self.0.split_first_chunk().ok_or("a frame is too short")?;
        self.0 = rest;
        Ok(*taken)
    }

    fn number(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_be_bytes)
    }

    fn failure(&mut self) -> Result<Failure, String> {
        let [code] = self.array()?;
        Ok(Failure::new(Code::from_number(code), self.text()?, self.text()?))
    }

    /// A text for the terminal: control characters do not get through.
    fn text(&mut self) -> Result<String, String> {
        let len = u16::from_be_bytes(self.array()?);
        let text = String::from_utf8_lossy(self.take(usize::from(len))?);
        Ok(text.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect())
    }
}

#[cfg(test)]
mod tests;
