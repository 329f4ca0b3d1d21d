//! What is there already of each entry, found out before anything is written.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use cap_std::fs::{OpenOptions, OpenOptionsExt};

use super::destination::Destination;
use super::frame::Digest;
use super::manifest::{Entry, Kind};
use super::part::Part;
use super::resume::hash_prefix;
use super::{Error, name};
use crate::exit::{Code, Failure};

/// Unfinished files that one transfer goes on with; further ones begin again.
const PARTS_MAX: usize = 64;

/// What the receiver has, by number of the entry.
#[derive(Default)]
pub(super) struct Plan {
    /// Parts that go on, opened and locked.
    pub(super) parts: HashMap<u64, Part>,
    /// Files that exist under their final name and have the right size, by digest.
    pub(super) existing: HashMap<u64, Digest>,
}

/// Looks at the place of each of `entries`.
pub(super) fn survey(destination: &Destination, entries: &[Entry]) -> Result<Plan, Error> {
    let mut survey = Survey { destination, plan: Plan::default() };
    let mut missing_bytes = 0_u64;
    for (index, entry) in (0..).zip(entries) {
        missing_bytes = survey.look_at(index, entry)?.saturating_add(missing_bytes);
    }
    check_room(destination, missing_bytes)?;
    Ok(survey.plan)
}

fn check_room(destination: &Destination, missing_bytes: u64) -> Result<(), Error> {
    // A file system that tells no size, as some of FUSE, tells nothing of what is free.
    let told = rustix::fs::fstatvfs(&destination.dir).ok().filter(|told| told.f_blocks > 0);
    let free_bytes = told.map(|told| told.f_bavail.saturating_mul(told.f_frsize));
    let Some(free_bytes) = free_bytes.filter(|free| *free < missing_bytes) else { return Ok(()) };
    let what = format!(
        "{:?} has {} free, and {} are to come",
        destination.path,
        crate::units::bytes(free_bytes),
        crate::units::bytes(missing_bytes)
    );
    Err(Failure::new(Code::Destination, what, "free some space and repeat the command").into())
}

struct Survey<'a> {
    destination: &'a Destination,
    plan: Plan,
}

impl Survey<'_> {
    /// What is there of one entry; returns the bytes that are missing.
    fn look_at(&mut self, index: u64, entry: &Entry) -> Result<u64, Error> {
        let found = match self.destination.dir.symlink_metadata(OsStr::from_bytes(&entry.name)) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.look_for_part(index, entry),
            Err(error) => return Err(self.destination.failed(entry, &error)),
        };
        match &entry.kind {
            Kind::Directory if found.is_dir() => Ok(0),
            Kind::File { size } if found.is_file() && found.len() == *size => {
                let digest = self.digest_of(entry)?;
                self.plan.existing.insert(index, digest);
                Ok(0)
            }
            Kind::Link { target }
                if found.is_symlink() && self.destination.link_of(entry).as_ref() == Some(target) =>
            {
                Ok(0)
            }
            Kind::File { .. } | Kind::Link { .. } if self.destination.overwrite && !found.is_dir() => {
                self.look_for_part(index, entry)
            }
            Kind::Directory | Kind::File { .. } | Kind::Link { .. } => Err(self.destination.exists(entry)),
        }
    }

    fn digest_of(&self, entry: &Entry) -> Result<Digest, Error> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NOFOLLOW);
        let name = OsStr::from_bytes(&entry.name);
        let mut file =
            self.destination.dir.open_with(name, &options).map_err(|e| self.destination.failed(entry, &e))?;
        let hasher = hash_prefix(&mut file, entry.size()).map_err(|e| self.destination.failed(entry, &e))?;
        Ok(*hasher.finalize().as_bytes())
    }

    fn look_for_part(&mut self, index: u64, entry: &Entry) -> Result<u64, Error> {
        let size = entry.size();
        if size == 0 || self.plan.parts.len() >= PARTS_MAX {
            return Ok(size);
        }
        let Ok(dir) = self.destination.parent(entry) else { return Ok(size) };
        let part_name = name::part_name(entry.file_name().as_bytes());
        match dir.symlink_metadata(OsStr::from_bytes(&part_name)) {
            Ok(found) if found.is_file() && found.len() > 0 => {}
            _ => return Ok(size),
        }
        let mut part = self.destination.part(entry)?;
        let len = part.len;
        if len > size {
            // Of another file, which may be gone on with: it goes when data of this one comes, and nothing is told of it.
            part.leave();
            return Ok(size);
        }
        part.hasher = hash_prefix(part.file_mut(), len).map_err(|e| self.destination.failed(entry, &e))?;
        part.truncate(len).map_err(|e| self.destination.failed(entry, &e))?;
        self.plan.parts.insert(index, part);
        Ok(size - len)
    }
}
