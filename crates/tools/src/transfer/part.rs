//! The temporary file beside the final name: locked, hashed as it grows, and renamed only when it is right.

use std::ffi::{OsStr, OsString};
use std::fs::{File, FileTimes, Metadata, Permissions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, SystemTime};

use cap_std::fs::{Dir, MetadataExt as _, OpenOptions, OpenOptionsExt};

use super::manifest::Entry;
use super::name;

#[cfg(test)]
mod tests;

/// What we may do with a part.
const OWN_MODE: u32 = 0o600;
/// With these another user may write to it.
const OTHERS_WRITE: u32 = 0o022;
/// How often a part is opened that others finish meanwhile.
const TRIES: usize = 8;

/// Why a part did not become a file.
#[derive(Debug)]
pub(super) enum PartError {
    /// The file system refused.
    Io(io::Error),
    /// Another transfer is writing the same file.
    Locked,
    /// Something of the final name appeared meanwhile.
    Exists,
    /// The part is not ours alone: another user made it, or may write to it.
    Foreign,
}

impl From<io::Error> for PartError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// A file in the making.
pub(super) struct Part {
    dir: Dir,
    file: File,
    part_name: OsString,
    file_name: OsString,
    /// Digest of what is in the file so far.
    pub(super) hasher: blake3::Hasher,
    /// Bytes in the file so far.
    pub(super) len: u64,
}

/// Whether nobody else may have written what is there, or may do so later: a name in a shared directory can be taken beforehand.
fn is_ours(there: &Metadata) -> bool {
    there.uid() == rustix::process::geteuid().as_raw() && there.mode() & OTHERS_WRITE == 0
}

impl Part {
    /// Opens the part of `file_name` in `dir`, or makes it. Nobody else can open it while this one lives.
    pub(super) fn open(dir: Dir, file_name: &OsStr) -> Result<Self, PartError> {
        let part_name = OsStr::from_bytes(&name::part_name(file_name.as_bytes())).to_owned();
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
        let mut fresh = options.clone();
        fresh.create_new(true).mode(OWN_MODE);
        let file_name = file_name.to_owned();
        for _ in 0..TRIES {
            let made = dir.open_with(&part_name, &fresh);
            let is_made = made.is_ok();
            let opened = match made {
                // The directory itself is gone.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error.into()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    dir.open_with(&part_name, &options)
                }
                made => made,
            };
            let file = match opened {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    make_writable(&dir, &part_name).map_err(|_| error)?;
                    dir.open_with(&part_name, &options)?.into_std()
                }
                // Who had it has just finished.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?.into_std(),
            };
            if !is_made && !is_ours(&file.metadata()?) {
                return Err(PartError::Foreign);
            }
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(PartError::Locked),
                // Some network file systems have no locks.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
            if is_only_name(&dir, &part_name, &file)? {
                let len = file.metadata()?.len();
                return Ok(Self { dir, file, part_name, file_name, hasher: blake3::Hasher::new(), len });
            }
        }
        Err(PartError::Locked)
    }

    /// The file, to read what an earlier transfer left in it.
    pub(super) fn file_mut(&mut self) -> &mut File {
        &mut self.file
    }

    /// Throws away everything after the bytes that the hasher has taken, or everything at all.
    pub(super) fn truncate(&mut self, len: u64) -> io::Result<()> {
        if len == 0 {
            self.hasher = blake3::Hasher::new();
        }
        self.file.set_len(len)?;
        self.file.seek(SeekFrom::Start(len))?;
        self.len = len;
        Ok(())
    }

    /// Appends `data`.
    pub(super) fn write(&mut self, data: &[u8]) -> io::Result<()> {
        self.file.write_all(data)?;
        self.hasher.update(data);
        self.len += data.len() as u64;
        Ok(())
    }

    /// Makes it durable and gives it its final name in one step; `replace` allows to take the place of another file.
    /// The name itself is durable once [`super::destination::Destination::finish_directories`] has run.
    pub(super) fn finish(self, entry: &Entry, replace: bool) -> Result<(), PartError> {
        let mode = entry.mode & 0o777;
        // Whatever interrupts this, who repeats the transfer can open the part.
        let mode_of_part = mode & !OTHERS_WRITE | OWN_MODE;
        self.file.set_permissions(Permissions::from_mode(mode_of_part))?;
        self.file.set_times(times(entry))?;
        self.file.sync_all()?;
        self.rename(replace)?;
        if mode != mode_of_part {
            self.file.set_permissions(Permissions::from_mode(mode))?;
            self.file.sync_all()?;
        }
        Ok(())
    }

    fn rename(&self, replace: bool) -> Result<(), PartError> {
        if replace {
            return Ok(self.dir.rename(&self.part_name, &self.dir, &self.file_name)?);
        }
        // A hard link never replaces anything; file systems without them fall back to look and rename.
        match self.dir.hard_link(&self.part_name, &self.dir, &self.file_name) {
            Ok(()) => Ok(self.dir.remove_file(&self.part_name)?),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(PartError::Exists),
            Err(_) if self.dir.symlink_metadata(&self.file_name).is_ok() => Err(PartError::Exists),
            Err(_) => Ok(self.dir.rename(&self.part_name, &self.dir, &self.file_name)?),
        }
    }

    /// Removes the part of `file_name` if it is a second name of that file, as one who was stopped between the two leaves it.
    pub(super) fn forget_finished(dir: &Dir, file_name: &OsStr) -> io::Result<()> {
        let part_name = OsStr::from_bytes(&name::part_name(file_name.as_bytes())).to_owned();
        match (dir.symlink_metadata(&part_name), dir.symlink_metadata(file_name)) {
            (Ok(part), Ok(file)) if (part.dev(), part.ino()) == (file.dev(), file.ino()) => {
                dir.remove_file(&part_name)
            }
            _ => Ok(()),
        }
    }

    /// Keeps what there is for the next try; an empty part would only be litter.
    pub(super) fn leave(self) {
        if self.len == 0 {
            let _ = self.remove();
        }
    }

    /// Throws the part away.
    pub(super) fn remove(self) -> io::Result<()> {
        self.dir.remove_file(&self.part_name)
    }
}

/// Makes a part writable that has the mode of a read-only file already, as an earlier version left it when it was
/// killed; if it has another name it is finished, and its mode is right: it loses this one.
fn make_writable(dir: &Dir, part_name: &OsStr) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = dir.open_with(part_name, &options)?.into_std();
    file.try_lock()?;
    match file.metadata()?.nlink() {
        1 => file.set_permissions(Permissions::from_mode(OWN_MODE)),
        _ => dir.remove_file(part_name),
    }
}

/// Whether `file`, which is locked, is what `part_name` names, and has no other name. If it has one it is finished, by a transfer that ended
/// before it took this name away: that is done now, as what is written to the one would be written to the other.
fn is_only_name(dir: &Dir, part_name: &OsStr, file: &File) -> io::Result<bool> {
    let own = file.metadata()?;
    let is_named = match dir.symlink_metadata(part_name) {
        Ok(there) => (there.dev(), there.ino()) == (own.dev(), own.ino()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(error),
    };
    if is_named && own.nlink() > 1 {
        dir.remove_file(part_name)?;
    }
    Ok(is_named && own.nlink() == 1)
}

/// The times of `entry` as the standard library wants them.
pub(super) fn times(entry: &Entry) -> FileTimes {
    let whole = Duration::from_secs(entry.mtime_s.unsigned_abs());
    let base = if entry.mtime_s >= 0 {
        SystemTime::UNIX_EPOCH.checked_add(whole)
    } else {
        SystemTime::UNIX_EPOCH.checked_sub(whole)
    };
    let fraction = Duration::from_nanos(u64::from(entry.mtime_ns.min(999_999_999)));
    match base.and_then(|base| base.checked_add(fraction)) {
        Some(modified) => FileTimes::new().set_modified(modified),
        None => FileTimes::new(),
    }
}
