//! What is to be sent: the list of directories, files and symbolic links below the given paths.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::name;
use crate::exit::{Code, Failure};

/// Most entries of one transfer.
pub const ENTRIES_MAX: usize = 1_000_000;

/// One directory, file or link as the receiver shall have it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Relative name, components joined by `/`.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Permission bits, of which nine are used.
    pub mode: u32,
    /// Time of the last change, seconds since 1970.
    pub mtime_s: i64,
    /// Its fraction, nanoseconds.
    pub mtime_ns: u32,
}

impl Entry {
    /// Whether `metadata` has the time of the last change that the entry has: what was written in place since makes a file that
    /// never was.
    pub(super) fn is_of(&self, metadata: &Metadata) -> bool {
        (self.mtime_s, i64::from(self.mtime_ns)) == (metadata.mtime(), metadata.mtime_nsec())
    }

    /// Bytes of the file; 0 for anything else.
    #[must_use]
    pub const fn size(&self) -> u64 {
        match self.kind {
            Kind::File { size } => size,
            Kind::Directory | Kind::Link { .. } => 0,
        }
    }

    /// The last component of the name.
    #[must_use]
    pub fn file_name(&self) -> &OsStr {
        let start = self.name.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        OsStr::from_bytes(&self.name[start..])
    }

    /// The name for people.
    #[must_use]
    pub fn label(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }
}

/// What an entry is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A directory; entries in it follow.
    Directory,
    /// A regular file of `size` bytes.
    File {
        /// Bytes.
        size: u64,
    },
    /// A symbolic link.
    Link {
        /// What it holds.
        target: Vec<u8>,
    },
}

/// What a sender does with symbolic links inside directories. A link that is itself named is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum Links {
    /// Send the link; one that leads out of its directory is an error.
    #[default]
    Keep,
    /// Send what it leads to.
    Follow,
    /// Leave it out.
    Skip,
}

/// An entry and where its bytes are read.
#[derive(Clone, Debug)]
pub struct Source {
    /// What the receiver is told.
    pub entry: Entry,
    /// The path on this machine.
    pub path: PathBuf,
    /// Device and inode of what was found there.
    identity: (u64, u64),
}

impl Source {
    /// Opens the file, if it is the one that was found. What somebody puts in its place, a link to a file of others say, or a pipe, is not
    /// read, and nobody waits for it.
    pub(super) fn open(&self) -> io::Result<Option<File>> {
        let file = open(&self.path)?;
        let found = file.metadata()?;
        Ok(Some(file).filter(|_| found.is_file() && identity(&found) == self.identity))
    }
}

fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Everything one transfer sends, directories before what they hold.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    /// The entries.
    pub sources: Vec<Source>,
    /// What was left out, one sentence each.
    pub skipped: Vec<String>,
}

impl Manifest {
    /// Lists `paths` and everything below them, and makes sure that each file can be read.
    ///
    /// # Errors
    /// [`Code::Source`] for what cannot be read or sent, [`Code::Usage`] for two paths of one name.
    pub fn collect(paths: &[PathBuf], links: Links) -> Result<Self, Failure> {
        let mut walk = Walk { manifest: Self::default(), links, ancestors: Vec::new() };
        let mut names = HashSet::new();
        for path in paths {
            let name = top_name(path)?;
            if !names.insert(name.clone()) {
                let what = format!("two of the paths are called {:?}", String::from_utf8_lossy(&name));
                return Err(Failure::new(Code::Usage, what, "send them one after the other"));
            }
            let metadata = fs::metadata(path).map_err(|e| failed(path, &e))?;
            walk.add(path, &name, &metadata)?;
        }
        Ok(walk.manifest)
    }

    /// Regular files in it.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.sources.iter().filter(|s| matches!(s.entry.kind, Kind::File { .. })).count() as u64
    }

    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sources.iter().map(|s| s.entry.size()).sum()
    }
}

struct Walk {
    manifest: Manifest,
    links: Links,
    /// Device and inode of the directories above, so that followed links make no loop.
    ancestors: Vec<(u64, u64)>,
}

impl Walk {
    fn add(&mut self, path: &Path, name: &[u8], metadata: &Metadata) -> Result<(), Failure> {
        name::check(name).map_err(|e| refused(path, &e.to_string(), "rename it, or leave it out"))?;
        if self.manifest.sources.len() >= ENTRIES_MAX {
            let what = format!("more than {ENTRIES_MAX} files and directories");
            return Err(Failure::new(Code::Source, what, "send them in several runs, or as one archive"));
        }
        let kind = metadata.file_type();
        if kind.is_dir() {
            self.add_directory(path, name, metadata)
        } else if kind.is_file() {
            open(path).map_err(|e| failed(path, &e))?;
            self.push(path, name.to_vec(), Kind::File { size: metadata.len() }, metadata);
            Ok(())
        } else if self.ancestors.is_empty() {
            Err(refused(path, special(metadata), "give files and directories"))
        } else {
            self.manifest.skipped.push(format!("left out {path:?}: {}", special(metadata)));
            Ok(())
        }
    }

    fn add_directory(&mut self, path: &Path, name: &[u8], metadata: &Metadata) -> Result<(), Failure> {
        let identity = identity(metadata);
        if self.ancestors.contains(&identity) {
            let next =
                if self.links == Links::Follow { "use --links keep or --links skip" } else { "leave it out" };
            return Err(refused(path, "it leads back into itself", next));
        }
        let mut children = fs::read_dir(path)
            .and_then(|list| list.collect::<io::Result<Vec<_>>>())
            .map_err(|e| failed(path, &e))?;
        children.sort_by_key(fs::DirEntry::file_name);
        self.push(path, name.to_vec(), Kind::Directory, metadata);
        self.ancestors.push(identity);
        for child in children {
            let mut child_name = name.to_vec();
            child_name.push(b'/');
            child_name.extend_from_slice(child.file_name().as_bytes());
            self.add_child(&child.path(), child_name)?;
        }
        self.ancestors.pop();
        Ok(())
    }

    fn add_child(&mut self, path: &Path, name: Vec<u8>) -> Result<(), Failure> {
        let metadata = fs::symlink_metadata(path).map_err(|e| failed(path, &e))?;
        if name.ends_with(name::PART_SUFFIX.as_bytes()) {
            self.manifest.skipped.push(format!("left out {path:?}: it belongs to an unfinished transfer"));
            return Ok(());
        }
        if !metadata.is_symlink() {
            return self.add(path, &name, &metadata);
        }
        match self.links {
            Links::Keep => {
                let target =
                    fs::read_link(path).map_err(|e| failed(path, &e))?.as_os_str().as_bytes().to_vec();
                name::check_link(&name, &target).map_err(|_| {
                    let why = format!(
                        "this symbolic link to {:?} leads out of what is sent",
                        String::from_utf8_lossy(&target)
                    );
                    refused(path, &why, "use --links follow to send what it leads to, or --links skip")
                })?;
                self.push(path, name, Kind::Link { target }, &metadata);
                Ok(())
            }
            Links::Follow => {
                let followed = fs::metadata(path).map_err(|e| failed(path, &e))?;
                self.add(path, &name, &followed)
            }
            Links::Skip => {
                self.manifest.skipped.push(format!("left out {path:?}: it is a symbolic link"));
                Ok(())
            }
        }
    }

    fn push(&mut self, path: &Path, name: Vec<u8>, kind: Kind, metadata: &Metadata) {
        let entry = Entry {
            name,
            kind,
            mode: metadata.mode() & 0o777,
            mtime_s: metadata.mtime(),
            mtime_ns: u32::try_from(metadata.mtime_nsec()).unwrap_or(0),
        };
        let identity = identity(metadata);
        self.manifest.sources.push(Source { entry, path: path.to_owned(), identity });
    }
}

/// The name at the receiver of a path on the command line: its last component, also for `.` and `dir/..`.
fn top_name(path: &Path) -> Result<Vec<u8>, Failure> {
    let named = match path.file_name() {
        Some(_) => path.to_owned(),
        None => fs::canonicalize(path).map_err(|e| failed(path, &e))?,
    };
    let name = named.file_name().ok_or_else(|| refused(path, "it has no name", "name something in it"))?;
    Ok(name.as_bytes().to_vec())
}

fn special(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    match () {
        () if kind.is_fifo() => "it is a pipe",
        () if kind.is_socket() => "it is a socket",
        () if kind.is_char_device() || kind.is_block_device() => "it is a device",
        () => "it is neither a file nor a directory",
    }
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::source(&path.to_string_lossy(), error)
}

fn refused(path: &Path, why: &str, next: &str) -> Failure {
    Failure::new(Code::Source, format!("cannot send {path:?}: {why}"), next)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(manifest: &Manifest) -> Vec<String> {
        manifest.sources.iter().map(|s| s.entry.label()).collect()
    }

    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("top/sub")).unwrap();
        fs::write(dir.path().join("top/b"), "bb").unwrap();
        fs::write(dir.path().join("top/sub/a"), "aaa").unwrap();
        symlink("../b", dir.path().join("top/sub/link")).unwrap();
        dir
    }

    #[test]
    fn directories_come_before_what_they_hold_and_names_are_sorted() {
        let dir = tree();
        let manifest = Manifest::collect(&[dir.path().join("top/")], Links::Keep).unwrap();
        assert_eq!(names(&manifest), ["top", "top/b", "top/sub", "top/sub/a", "top/sub/link"]);
        assert_eq!((manifest.files(), manifest.bytes()), (2, 5));
        assert_eq!(manifest.sources[4].entry.kind, Kind::Link { target: b"../b".to_vec() });
    }

    #[test]
    fn links_are_followed_or_left_out_on_request() {
        let dir = tree();
        let paths = [dir.path().join("top")];
        let followed = Manifest::collect(&paths, Links::Follow).unwrap();
        assert_eq!((followed.files(), followed.bytes()), (3, 7));
        let skipped = Manifest::collect(&paths, Links::Skip).unwrap();
        assert_eq!((skipped.files(), skipped.skipped.len()), (2, 1));
    }

    #[test]
    fn a_link_out_of_the_tree_is_an_error_that_says_what_to_do() {
        let dir = tree();
        symlink("/etc/passwd", dir.path().join("top/escape")).unwrap();
        let failure = Manifest::collect(&[dir.path().join("top")], Links::Keep).unwrap_err();
        assert_eq!(failure.code, Code::Source);
        assert!(failure.to_string().contains("--links follow"), "{failure}");
    }

    #[test]
    fn a_loop_of_followed_links_ends() {
        let dir = tree();
        symlink(".", dir.path().join("top/loop")).unwrap();
        let failure = Manifest::collect(&[dir.path().join("top")], Links::Follow).unwrap_err();
        assert!(failure.to_string().contains("leads back into itself"), "{failure}");
    }

    #[test]
    fn missing_special_and_double_sources_are_refused() {
        let dir = tree();
        let missing = Manifest::collect(&[dir.path().join("nothing")], Links::Keep).unwrap_err();
        assert_eq!(missing.code, Code::Source);
        assert!(missing.to_string().contains("no such file"), "{missing}");
        let device = Manifest::collect(&[PathBuf::from("/dev/null")], Links::Keep).unwrap_err();
        assert!(device.to_string().contains("it is a device"), "{device}");
        let paths = [dir.path().join("top/b"), dir.path().join("top/../top/b")];
        assert_eq!(Manifest::collect(&paths, Links::Keep).unwrap_err().code, Code::Usage);
    }
}
