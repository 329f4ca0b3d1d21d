//! Runs the built command as a user would: servers that say where they listen, clients with a time limit.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longest time one command may take.
const LIMIT: Duration = Duration::from_secs(180);

/// What a finished command left.
#[derive(Debug)]
pub(crate) struct Done {
    #[allow(dead_code, reason = "not every test file asks")]
    pub(crate) code: i32,
    pub(crate) out: String,
    #[allow(dead_code, reason = "not every test file asks")]
    pub(crate) err: String,
}

impl Done {
    /// The last line of standard output as JSON.
    #[allow(dead_code, reason = "not every test file asks")]
    pub(crate) fn json(&self) -> Value {
        let line = self.out.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

/// Runs `weft` with `words`, `input` on its standard input.
pub(crate) fn weft_with(words: &[&str], input: &[u8]) -> Done {
    weft_in(Path::new("."), words, input)
}

/// Runs `weft` with `words`.
#[allow(dead_code, reason = "not every test file asks")]
pub(crate) fn weft(words: &[&str]) -> Done {
    weft_with(words, b"")
}

/// Runs `weft` in a directory.
pub(crate) fn weft_in(dir: &Path, words: &[&str], input: &[u8]) -> Done {
    finish(spawn(dir, words), words, input, 0)
}

/// Runs `weft` with `words` and `input`, which does not end before `back` bytes have come out.
#[allow(dead_code, reason = "not every test file asks")]
pub(crate) fn weft_until(words: &[&str], input: &[u8], back: usize) -> Done {
    finish(spawn(Path::new("."), words), words, input, back)
}

/// Runs `weft` with `words` in a network namespace.
#[allow(dead_code, reason = "not every test file asks")]
pub(crate) fn weft_within(space: Option<&str>, words: &[&str]) -> Done {
    finish(spawn_in(space, words), words, b"", 0)
}

fn finish(mut child: Child, words: &[&str], input: &[u8], back: usize) -> Done {
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let come = Arc::new(AtomicUsize::new(0));
    let out = collect(child.stdout.take().unwrap(), come.clone());
    let err = collect(child.stderr.take().unwrap(), Arc::default());
    let feeder = thread::spawn(move || {
        // A command that does not read its input is none the worse.
        let _ = stdin.write_all(&input);
        let begin = Instant::now();
        while come.load(Ordering::SeqCst) < back && begin.elapsed() < LIMIT {
            thread::sleep(Duration::from_millis(1));
        }
    });
    let status = wait(&mut child, words);
    feeder.join().unwrap();
    Done { code: status.code().unwrap_or(-1), out: out.join().unwrap(), err: err.join().unwrap() }
}

fn spawn(dir: &Path, words: &[&str]) -> Child {
    start(Command::new(env!("CARGO_BIN_EXE_weft")).current_dir(dir), words)
}

/// Starts `weft` in the network namespace `space`.
fn spawn_in(space: Option<&str>, words: &[&str]) -> Child {
    let Some(space) = space else { return spawn(Path::new("."), words) };
    start(Command::new("ip").args(["netns", "exec", space, env!("CARGO_BIN_EXE_weft")]), words)
}

fn start(command: &mut Command, words: &[&str]) -> Child {
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Reads to the end, and notes how many bytes have come so far.
fn collect(mut stream: impl Read + Send + 'static, come: Arc<AtomicUsize>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let (mut bytes, mut buffer) = (Vec::new(), [0; 65_536]);
        loop {
            let len = stream.read(&mut buffer).unwrap();
            if len == 0 {
                come.store(usize::MAX, Ordering::SeqCst);
                return String::from_utf8_lossy(&bytes).into_owned();
            }
            bytes.extend_from_slice(&buffer[..len]);
            come.store(bytes.len(), Ordering::SeqCst);
        }
    })
}

fn wait(child: &mut Child, words: &[&str]) -> ExitStatus {
    let started_at = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if started_at.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("weft {words:?} did not end within {LIMIT:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// A running command that told where it listens; killed when dropped.
#[allow(dead_code, reason = "not every test file starts one")]
pub(crate) struct Server {
    child: Child,
    lines: mpsc::Receiver<String>,
    pub(crate) underlay: String,
    pub(crate) port: u64,
}

#[allow(dead_code, reason = "not every test file starts one")]
impl Server {
    /// Starts `weft WORDS --bind 127.0.0.1:0 --json`, and waits for the line that says where it listens.
    pub(crate) fn start(words: &[&str]) -> Self {
        Self::start_on(&["--bind", "127.0.0.1:0"], words)
    }

    /// As [`Server::start`], where `home` says.
    pub(crate) fn start_on(home: &[&str], words: &[&str]) -> Self {
        let mut server = Self::open(None, &[words, home].concat());
        let listening = server.event("listening");
        server.underlay = listening["underlay"].as_str().unwrap().to_owned();
        server.port = listening["port"].as_u64().unwrap();
        server
    }

    /// Starts `weft WORDS --json` in a network namespace, and waits for nothing.
    pub(crate) fn open(space: Option<&str>, words: &[&str]) -> Self {
        let mut child = spawn_in(space, &[words, &["--json"]].concat());
        let (sender, lines) = mpsc::channel();
        follow(child.stdout.take().unwrap(), sender.clone());
        follow(child.stderr.take().unwrap(), sender);
        Self { child, lines, underlay: String::new(), port: 0 }
    }

    /// The next event of this name; others are passed over.
    pub(crate) fn event(&mut self, name: &str) -> Value {
        let mut seen = Vec::new();
        loop {
            let line =
                self.lines.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("no {name:?} after {seen:?}"));
            match serde_json::from_str::<Value>(&line) {
                Ok(event) if event["event"] == name => return event,
                _ => seen.push(line),
            }
        }
    }

    /// `HOST:PORT` of the server, for a client.
    pub(crate) fn target(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// Feeds the standard input and ends it.
    pub(crate) fn input(&mut self, bytes: Vec<u8>) {
        let mut stdin = self.child.stdin.take().unwrap();
        // It reads no sooner than somebody connects.
        thread::spawn(move || stdin.write_all(&bytes).unwrap());
    }

    /// Feeds the standard input, which goes on.
    pub(crate) fn say(&mut self, bytes: &[u8]) {
        self.child.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// Waits until it ends by itself; its exit code.
    pub(crate) fn end(mut self) -> i32 {
        drop(self.child.stdin.take());
        wait(&mut self.child, &["(server)"]).code().unwrap_or(-1)
    }

    /// Lines that are not events, until it ends.
    pub(crate) fn rest(&mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        let mut lines = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(LIMIT) {
            lines.push(line);
        }
        lines
    }

    /// Ends it as Ctrl-C does; its exit code, and what it said from then on.
    pub(crate) fn interrupt(self) -> (i32, Vec<String>) {
        self.end_by(rustix::process::Signal::INT)
    }

    /// Ends it by a signal; the same.
    pub(crate) fn end_by(mut self, signal: rustix::process::Signal) -> (i32, Vec<String>) {
        self.signal(signal);
        let lines = self.rest();
        (wait(&mut self.child, &["(server)"]).code().unwrap_or(-1), lines)
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    /// The number of its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn follow(stream: impl Read + Send + 'static, lines: mpsc::Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
}

/// Starts a command without waiting for it.
#[allow(dead_code, reason = "not every test file starts one")]
pub(crate) struct Running(Option<Child>);

#[allow(dead_code, reason = "not every test file starts one")]
impl Running {
    pub(crate) fn start(words: &[&str]) -> Self {
        Self(Some(spawn(Path::new("."), words)))
    }

    /// As [`Running::start`]; nobody reads its standard output.
    pub(crate) fn unread(words: &[&str]) -> Self {
        let mut child = spawn(Path::new("."), words);
        drop(child.stdout.take());
        Self(Some(child))
    }

    /// Its exit code, when it has ended by itself.
    pub(crate) fn code(mut self) -> i32 {
        wait(self.0.as_mut().unwrap(), &["(running)"]).code().unwrap_or(-1)
    }

    /// Waits until it ends by itself.
    pub(crate) fn end(mut self) -> Done {
        finish(self.0.take().unwrap(), &["(running)"], b"", 0)
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        let child = self.0.as_mut().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A directory with `from` and `to` in it.
#[allow(dead_code, reason = "not every test file needs one")]
pub(crate) struct World(tempfile::TempDir);

#[allow(dead_code, reason = "not every test file needs one")]
impl World {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("from")).unwrap();
        fs::create_dir(root.path().join("to")).unwrap();
        Self(root)
    }

    pub(crate) fn from(&self, name: &str) -> PathBuf {
        self.0.path().join("from").join(name)
    }

    pub(crate) fn to(&self, name: &str) -> PathBuf {
        self.0.path().join("to").join(name)
    }
}

/// Bytes that do not repeat.
#[allow(dead_code, reason = "not every test file needs it")]
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut output = vec![0; len];
    blake3::Hasher::new().update(&seed.to_be_bytes()).finalize_xof().fill(&mut output);
    output
}
