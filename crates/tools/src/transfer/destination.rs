//! The directory that files arrive in, and everything done to it apart from the files themselves.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::Permissions;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt, OpenOptions, OpenOptionsExt};
use rustix::fs::{Access, AtFlags, CWD};

use super::manifest::{Entry, Kind};
use super::part::{Part, PartError, times};
use super::{Error, name};
use crate::exit::{Code, Failure};

/// The directory that files arrive in. Nothing outside of it is ever touched.
pub struct Destination {
    pub(super) dir: Dir,
    pub(super) path: PathBuf,
    pub(super) overwrite: bool,
}

impl Destination {
    /// The existing directory `path`; with `overwrite` an arriving file takes the place of another of its name.
    ///
    /// # Errors
    /// [`Code::Destination`] if it is no directory or not ours to open.
    pub fn open(path: &Path, overwrite: bool) -> Result<Self, Failure> {
        let dir = Dir::open_ambient_dir(path, ambient_authority());
        // Asked now, and not when the first file has been announced.
        let access = Access::WRITE_OK | Access::EXEC_OK;
        let may_write = rustix::fs::accessat(CWD, path, access, AtFlags::EACCESS).map_err(io::Error::from);
        let dir = dir
            .and_then(|dir| may_write.map(|()| dir))
            .map_err(|e| Failure::destination(&path.to_string_lossy(), &e))?;
        Ok(Self { dir, path: path.to_owned(), overwrite })
    }

    pub(super) fn label(&self, entry: &Entry) -> String {
        self.path.join(OsStr::from_bytes(&entry.name)).to_string_lossy().into_owned()
    }

    pub(super) fn failed(&self, entry: &Entry, error: &io::Error) -> Error {
        Failure::destination(&self.label(entry), error).into()
    }

    /// The directory that `entry` lies in.
    pub(super) fn parent(&self, entry: &Entry) -> Result<Dir, Error> {
        let parent = name::parent(&entry.name);
        if parent.is_empty() {
            return self.dir.try_clone().map_err(|e| self.failed(entry, &e));
        }
        self.dir.open_dir(OsStr::from_bytes(parent)).map_err(|e| self.failed(entry, &e))
    }

    /// The refusal to touch what lies where `entry` goes.
    pub(super) fn exists(&self, entry: &Entry) -> Error {
        let is_directory =
            self.dir.metadata(OsStr::from_bytes(&entry.name)).is_ok_and(|there| there.is_dir());
        if is_directory && entry.kind != Kind::Directory {
            let what = format!("{:?} is a directory", self.label(entry));
            return Failure::new(Code::Exists, what, "move it away, no file takes its place").into();
        }
        let what = format!("{:?} exists and differs", self.label(entry));
        // A directory takes no file's place.
        let next = if self.overwrite {
            "move it away"
        } else {
            "move it away, or start `weft recv` with --overwrite"
        };
        Failure::new(Code::Exists, what, next).into()
    }

    pub(super) fn part_failed(&self, entry: &Entry, error: &PartError) -> Error {
        match error {
            PartError::Io(error) => self.failed(entry, error),
            PartError::Exists => self.exists(entry),
            PartError::Locked => {
                let what = format!("another transfer is writing {:?}", self.label(entry));
                Failure::new(Code::Exists, what, "wait until it has ended").into()
            }
            PartError::Foreign => {
                let part = format!("{}{}", self.label(entry), name::PART_SUFFIX);
                let what = format!("{part:?} is another user's, or others may write to it");
                Failure::new(Code::Exists, what, "remove it, or receive into a directory of your own").into()
            }
        }
    }

    /// The part of the file `entry`, made if there is none.
    pub(super) fn part(&self, entry: &Entry) -> Result<Part, Error> {
        Part::open(self.parent(entry)?, entry.file_name()).map_err(|error| match error {
            PartError::Io(error) => {
                Failure::destination(&format!("{}{}", self.label(entry), name::PART_SUFFIX), &error).into()
            }
            PartError::Exists | PartError::Locked | PartError::Foreign => self.part_failed(entry, &error),
        })
    }

    /// What the symbolic link of this name holds, if there is one.
    pub(super) fn link_of(&self, entry: &Entry) -> Option<Vec<u8>> {
        let target = self.dir.read_link_contents(OsStr::from_bytes(&entry.name)).ok()?;
        Some(target.as_os_str().as_bytes().to_vec())
    }

    /// Makes the directories, open only to us until everything is in them. Those that were not there get a marker, so that
    /// who repeats an interrupted transfer knows them.
    pub(super) fn make_directories<'a>(&self, entries: &'a [Entry]) -> Result<Vec<Directory<'a>>, Error> {
        let mut directories = Vec::new();
        for entry in entries.iter().filter(|entry| entry.kind == Kind::Directory) {
            let is_ours = self.make_directory(entry).map_err(|e| self.failed(entry, &e))?;
            directories.push(Directory { entry, is_ours });
        }
        Ok(directories)
    }

    /// Makes one directory. Whether it was not there, or a transfer made it that was interrupted.
    fn make_directory(&self, entry: &Entry) -> io::Result<bool> {
        let mut builder = DirBuilder::new();
        builder.mode(0o700);
        match self.dir.create_dir_with(OsStr::from_bytes(&entry.name), &builder) {
            Ok(()) => {
                let mut options = OpenOptions::new();
                options.write(true).create_new(true).mode(0o600);
                self.dir.open_with(marker_of(entry), &options).map(|_| true)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Ok(self.dir.symlink_metadata(marker_of(entry)).is_ok_and(|marker| marker.is_file()))
            }
            Err(error) => Err(error),
        }
    }

    /// Links come last, so that no file of this transfer can go through one.
    pub(super) fn make_links(&self, entries: &[Entry]) -> Result<(), Error> {
        for entry in entries {
            let Kind::Link { target } = &entry.kind else { continue };
            if self.link_of(entry).as_ref() == Some(target) {
                continue;
            }
            let name = OsStr::from_bytes(&entry.name);
            if self.overwrite {
                // Nothing there is as good.
                let _ = self.dir.remove_file(name);
            }
            match self.dir.symlink(OsStr::from_bytes(target), name) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(self.exists(entry)),
                Err(error) => return Err(self.failed(entry, &error)),
            }
        }
        Ok(())
    }

    /// Gives the directories that are ours their modes and times, the deepest first, and makes the names of everything
    /// that arrived durable.
    ///
    /// Those that something is missing of stay as they are, so that who repeats the transfer can put it there: `missing` are entries.
    pub(super) fn finish_directories(
        &self,
        directories: &[Directory<'_>],
        missing: &[&Entry],
    ) -> Result<(), Error> {
        let mut unfinished = HashSet::new();
        for entry in missing {
            let mut above = name::parent(&entry.name);
            while !above.is_empty() && unfinished.insert(above) {
                above = name::parent(above);
            }
        }
        for directory in directories.iter().rev() {
            if !unfinished.contains(&directory.entry.name[..]) {
                self.finish_directory(directory).map_err(|e| self.failed(directory.entry, &e))?;
            }
        }
        match self.dir.open(".").and_then(|dir| dir.sync_all()) {
            // One that others may only put things into cannot be opened to be made durable.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced.map_err(|e| Failure::destination(&self.path.to_string_lossy(), &e).into()),
        }
    }

    fn finish_directory(&self, &Directory { entry, is_ours }: &Directory<'_>) -> io::Result<()> {
        let dir = self.dir.open(OsStr::from_bytes(&entry.name))?.into_std();
        if is_ours {
            match self.dir.remove_file(marker_of(entry)) {
                // Another transfer of the same directory has ended.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
            dir.set_times(times(entry))?;
            dir.set_permissions(Permissions::from_mode(entry.mode & 0o777))?;
        }
        dir.sync_all()
    }
}

/// A directory of a transfer.
pub(super) struct Directory<'a> {
    entry: &'a Entry,
    /// Its mode and times are for us to set.
    is_ours: bool,
}

/// The file that says of the directory `entry` that it is not finished; no entry has such a name.
fn marker_of(entry: &Entry) -> PathBuf {
    Path::new(OsStr::from_bytes(&entry.name)).join(name::PART_SUFFIX)
}
