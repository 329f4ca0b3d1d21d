//! What a sender announces before it sends: its version, and its manifest, which is checked name by name.

use std::collections::HashSet;
use std::io::Read;
use std::time::Duration;

use super::frame::{Frame, Reader, VERSION};
use super::manifest::{ENTRIES_MAX, Entry, Kind};
use super::{Error, name};
use crate::exit::{Code, Failure};

/// Bytes of names that one manifest may have.
const NAMES_BYTES_MAX: usize = if cfg!(test) { 4 << 20 } else { 256 << 20 };
/// How long a sender may be busy before each part of its manifest, which it has before it connects.
const BEGIN_TIME: Duration = if cfg!(test) { Duration::from_millis(300) } else { Duration::from_secs(60) };

#[expect(clippy::wildcard_enum_match_arm, reason = "every other frame is out of turn")]
pub(super) fn hear_hello(reader: &mut Reader<impl Read>) -> Result<(), Error> {
    match reader.next_frame_within(BEGIN_TIME)? {
        Frame::Hello { version: VERSION } => Ok(()),
        Frame::Hello { version } => {
            Err(Error::Protocol(format!("it has version {version}, and this end has {VERSION}")))
        }
        _ => Err(Error::Protocol("it does not begin with Hello".into())),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "every other frame is out of turn")]
pub(super) fn hear_manifest(reader: &mut Reader<impl Read>) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    let mut names = HashSet::new();
    let mut directories = HashSet::new();
    let mut names_bytes = 0;
    loop {
        let entry = match reader.next_frame_within(BEGIN_TIME)? {
            Frame::Entry(entry) => entry,
            Frame::ManifestEnd { entries: told } if told == entries.len() as u64 => return Ok(entries),
            Frame::Abort(failure) => return Err(Error::Peer(failure)),
            _ => return Err(Error::Protocol("the manifest is broken".into())),
        };
        check_entry(&entry)?;
        names_bytes += entry.name.len();
        if let Kind::Link { target } = &entry.kind {
            names_bytes += target.len();
        }
        if entries.len() >= ENTRIES_MAX {
            return Err(Error::Protocol(format!("the manifest has more than {ENTRIES_MAX} entries")));
        }
        if names_bytes > NAMES_BYTES_MAX {
            let why = format!("the manifest has names and links of more than {NAMES_BYTES_MAX} bytes");
            return Err(Error::Protocol(why));
        }
        let parent = name::parent(&entry.name);
        if !parent.is_empty() && !directories.contains(parent) {
            return Err(Error::Protocol(format!("{:?} lies in no directory", entry.label())));
        }
        if !names.insert(entry.name.clone()) {
            return Err(Error::Protocol(format!("{:?} is there twice", entry.label())));
        }
        if entry.kind == Kind::Directory {
            directories.insert(entry.name.clone());
        }
        entries.push(entry);
    }
}

fn check_entry(entry: &Entry) -> Result<(), Error> {
    let checked = match &entry.kind {
        Kind::Link { target } => name::check(&entry.name).and_then(|_| name::check_link(&entry.name, target)),
        Kind::Directory | Kind::File { .. } => name::check(&entry.name).map(|_| ()),
    };
    checked.map_err(|why| {
        let what = format!("{:?} is refused: {why}", entry.label());
        Failure::new(Code::Protocol, what, "nothing was written; rename it at the sender").into()
    })
}
