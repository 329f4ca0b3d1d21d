//! Statistics for other programs of the same user, on a Unix socket.
//!
//! A node that was given a name listens on `DIRECTORY/NAME.sock`; whoever connects gets one snapshot as text and the end
//! of file. Who wants to know more writes a word before, and closes that direction; so does who has nothing to ask, or waits
//! a moment longer. A process that was killed leaves its socket behind, which refuses connections; whoever lists the nodes removes
//! it. The text is made by a function the engine's user hands in, since words belong to the face. The directory is
//! `$XDG_RUNTIME_DIR/weft`, or `/tmp/weft-UID` where that cannot be had, and only its owner may enter it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Socket, Type};
use weft_link::{Interest, Waker, wait_for};

/// How long a peer on the control socket is waited for, which is longer than a busy machine stands still, and one that was
/// asked for more than the usual.
const PATIENCE: Duration = Duration::from_secs(5);
const LONG_PATIENCE: Duration = Duration::from_secs(10);
/// How long the thread leaves a socket alone that failed, as it does while the process has no descriptor left.
const PAUSE: Duration = Duration::from_millis(100);
/// How long a question is waited for of those who neither ask nor say that they will not.
const QUESTION_PATIENCE: Duration = Duration::from_secs(1);
/// How long a peer that reads may take for the rest of its answer when the node ends.
const END_PATIENCE: Duration = Duration::from_millis(100);
/// How often it is looked at meanwhile whether that is over.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// The longest question, in bytes.
const QUESTION_BYTES_MAX: u64 = 64;
/// The longest answer that is read, in bytes: some 60,000 connections.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// The longest path of a directory of sockets, in bytes: that of a socket has 107, a slash, a name of 64 and its suffix among them.
const DIRECTORY_BYTES_MAX: usize = 37;
/// What a socket file's name ends with.
const SUFFIX: &str = ".sock";

/// Makes the text of a snapshot. It is given the question; the empty one is for the usual.
pub type Describe = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// A control socket that answers until it is dropped.
pub struct Control {
    path: PathBuf,
    stop: Arc<Waker>,
    peer: Arc<Peer>,
    thread: Option<JoinHandle<()>>,
}

/// Who is being answered now.
#[derive(Default)]
struct Peer(Mutex<Option<UnixStream>>);

impl Peer {
    fn set(&self, stream: Option<UnixStream>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = stream;
    }

    /// It is read from no more, or neither read from nor written to.
    fn end(&self, how: Shutdown) {
        if let Some(stream) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            // One that has gone by itself is as good.
            let _ = stream.shutdown(how);
        }
    }
}

impl Control {
    /// Answers under `name` with what `describe` says.
    ///
    /// # Errors
    /// When the name is no file name or is taken by a node that answers, or the directory is not ours alone.
    pub fn open(name: &str, describe: Describe) -> io::Result<Self> {
        let path = directory()?.join(file_of(name)?);
        let listener = bind(&path, name)?;
        listener.set_nonblocking(true)?;
        let stop = Arc::new(Waker::new()?);
        let peer = Arc::new(Peer::default());
        let (stopped, answered) = (stop.clone(), peer.clone());
        let thread = std::thread::Builder::new()
            .name("weft-stat".into())
            .stack_size(256 << 10)
            .spawn(move || answer_all(&listener, &stopped, &answered, &describe))?;
        Ok(Self { path, stop, peer, thread: Some(thread) })
    }
}

/// Of several nodes that want a name one gets it. A process that died gives it up.
fn bind(path: &Path, name: &str) -> io::Result<UnixListener> {
    let _alone = lock(path.parent().unwrap_or(path))?;
    if path.exists() && !is_left_behind(path)? {
        let why = format!("a node named \"{name}\" answers already; choose another name for the statistics");
        return Err(io::Error::new(io::ErrorKind::AddrInUse, why));
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Held while sockets get and lose their names, so that one which does not listen yet is not taken for one that nobody
/// listens on any more, nor a new one removed in place of an old one.
fn lock(directory: &Path) -> io::Result<File> {
    let directory = File::open(directory)?;
    directory.lock()?;
    Ok(directory)
}

fn answer_all(listener: &UnixListener, stop: &Waker, peer: &Peer, describe: &Describe) {
    loop {
        let mut fds = [listener.as_raw_fd(), stop.fd()].map(Interest::readable);
        let is_told = wait_for(&mut fds, None).is_ok();
        if fds[1].is_ready {
            return;
        }
        match listener.accept() {
            Ok((stream, _)) => {
                peer.set(stream.try_clone().ok());
                answer(stream, describe);
                peer.set(None);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && is_told => {}
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

fn answer(mut stream: UnixStream, describe: &Describe) {
    // A reader that goes away, or does not read, gets no more.
    let _ = stream.set_write_timeout(Some(PATIENCE));
    let question = question(&stream);
    let _ = stream.write_all(describe(&question).as_bytes());
}

/// What a peer asks; empty if it asks nothing, or what no question is.
fn question(stream: &UnixStream) -> String {
    let mut question = String::new();
    let is_asked = stream
        .set_read_timeout(Some(QUESTION_PATIENCE))
        .and_then(|()| stream.take(QUESTION_BYTES_MAX).read_to_string(&mut question));
    is_asked.map(|_| question).unwrap_or_default()
}

impl Drop for Control {
    fn drop(&mut self) {
        // Without the lock somebody who lists may remove the file first.
        let alone = lock(self.path.parent().unwrap_or(&self.path));
        self.stop.wake();
        let _ = std::fs::remove_file(&self.path);
        drop(alone);
        // Some peer may be in the midst of its question, or of its answer.
        let Some(thread) = self.thread.take() else { return };
        let begin = Instant::now();
        while !thread.is_finished() {
            self.peer.end(if begin.elapsed() < END_PATIENCE { Shutdown::Read } else { Shutdown::Both });
            std::thread::sleep(LOOK_EVERY);
        }
        let _ = thread.join();
    }
}

/// The directory of the control sockets; made if it is missing, refused if others may write to it.
///
/// # Errors
/// When there is none that is this user's alone, nor can be made.
pub fn directory() -> io::Result<PathBuf> {
    directory_in(std::env::var_os("XDG_RUNTIME_DIR"))
}

fn directory_in(runtime: Option<OsString>) -> io::Result<PathBuf> {
    let (named, usual) = places(runtime)?;
    named.and_then(|place| own_directory(place).ok()).map_or_else(|| own_directory(usual), Ok)
}

/// Where the sockets may be: below the runtime directory, and otherwise. One that is another user's, as it is after `su`, or none at all,
/// is as one that is not set.
fn places(runtime: Option<OsString>) -> io::Result<(Option<PathBuf>, PathBuf)> {
    let uid = own_uid()?;
    let is_own = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|runtime| runtime.uid() == uid);
    let named = runtime.map(PathBuf::from).filter(|path| path.is_absolute() && is_own(path));
    let named = named.map(|path| path.join("weft"));
    let named = named.filter(|path| path.as_os_str().len() <= DIRECTORY_BYTES_MAX);
    Ok((named, format!("/tmp/weft-{uid}").into()))
}

/// The directories that nodes of this user may be found in: what the runtime directory is may have changed since they began.
fn directories() -> io::Result<Vec<PathBuf>> {
    directory()?;
    let (named, usual) = places(std::env::var_os("XDG_RUNTIME_DIR"))?;
    let all = named.into_iter().chain([usual]);
    Ok(all.filter(|place| is_own_directory(place).unwrap_or(false)).collect())
}

/// Makes it, unless it is there.
fn own_directory(path: PathBuf) -> io::Result<PathBuf> {
    let is_there = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
    let refused =
        |error: io::Error| io::Error::new(error.kind(), format!("cannot make {}: {error}", path.display()));
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(&path)
        .or_else(|error| if is_there(&error) { Ok(()) } else { Err(refused(error)) })?;
    if !is_own_directory(&path)? {
        let why = format!("{} is not a directory of this user alone; remove it", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(path)
}

fn is_own_directory(path: &Path) -> io::Result<bool> {
    let metadata = std::fs::symlink_metadata(path)?;
    Ok(metadata.is_dir() && metadata.uid() == own_uid()? && metadata.mode() & 0o022 == 0)
}

/// The user of this process: the owner of its entry in `/proc`.
fn own_uid() -> io::Result<u32> {
    Ok(std::fs::metadata("/proc/self")?.uid())
}

/// The name of the socket of the node `name`.
fn file_of(name: &str) -> io::Result<String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name.is_empty() || name.len() > 64 || name.starts_with('.') || !name.chars().all(is_plain) {
        let why =
            format!("\"{name}\" cannot name a node's statistics; use up to 64 letters, digits, and - _ .");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(format!("{name}{SUFFIX}"))
}

/// Names of the nodes that answer, in order.
///
/// A process that was killed leaves its socket behind, and the system refuses connections to it: such a file is removed.
///
/// # Errors
/// When the directory cannot be read.
pub fn list() -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for directory in directories()? {
        let _alone = lock(&directory)?;
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            if let Some(name) = entry.file_name().to_str().and_then(|name| name.strip_suffix(SUFFIX))
                && !is_left_behind(&entry.path())?
            {
                names.push(name.to_owned());
            }
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

/// Whether nobody listens on this socket; it is removed then. One that is too busy to answer now lives, and is not waited for: others
/// wait for the lock meanwhile.
fn is_left_behind(path: &Path) -> io::Result<bool> {
    let is_refused = connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if is_refused {
        std::fs::remove_file(path)?;
    }
    Ok(is_refused)
}

/// A connection, if there is room for one more behind those that wait: a process that stands still accepts none.
fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)?;
    socket.set_nonblocking(false)?;
    Ok(socket.into())
}

/// What the node `name` says of itself when it is asked that, or nothing.
///
/// # Errors
/// When no node of that name answers within five seconds, or ten if it is asked something, or it ends meanwhile, or too many wait for
/// its answer already.
pub fn query(name: &str, question: &str) -> io::Result<String> {
    let file = file_of(name)?;
    let mut refused = io::Error::from(io::ErrorKind::NotFound);
    let found = directories()?
        .iter()
        .find_map(|place| connect(&place.join(&file)).map_err(|error| refused = error).ok());
    let mut stream = found.ok_or_else(|| {
        io::Error::new(
            refused.kind(),
            format!("no node named \"{name}\" answers ({refused}); list those that do"),
        )
    })?;
    stream.set_read_timeout(Some(if question.is_empty() { PATIENCE } else { LONG_PATIENCE }))?;
    stream.write_all(question.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut text = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut text)?;
    if text.is_empty() {
        let why = format!("node \"{name}\" ended before it answered; list those that do");
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
