//! Standard input in pieces, read by one thread for all connections, one after the other.

use std::io::{self, BufRead, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::exit::Failure;

/// Bytes moved at a time in a stream.
const BUFFER_BYTES: usize = 128 << 10;
/// How long who asks for a piece waits for one.
const WAIT: Duration = Duration::from_millis(50);

/// What a message is on standard input and output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Framing {
    /// There are no messages.
    Stream,
    /// A line, without its line feed.
    Lines,
    /// So many bytes; the last one may be shorter.
    Blocks(usize),
}

/// Standard input. It is read no sooner than somebody asks for it.
pub(super) struct Input {
    framing: Framing,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    pieces: Option<mpsc::Receiver<io::Result<Vec<u8>>>>,
    /// What a connection that ended took and did not send: the next one begins with it.
    left: Option<Vec<u8>>,
}

/// What there is to send.
pub(super) enum Next {
    /// A message, or some bytes of a stream.
    Piece(Vec<u8>),
    /// Nothing yet.
    Nothing,
    /// Nothing any more.
    End,
    /// Nothing any more, as standard input could not be read.
    Failed(io::Error),
}

impl Input {
    pub(super) fn new(framing: Framing) -> Self {
        Self { framing, taken: Mutex::default() }
    }

    pub(super) const fn framing(&self) -> Framing {
        self.framing
    }

    /// Begins to read, unless that was done.
    ///
    /// # Errors
    /// Where there is no thread for it.
    pub(super) fn open(&self) -> Result<(), Failure> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.pieces.is_none() {
            let ((sender, pieces), framing) = (mpsc::sync_channel(1), self.framing);
            // A thread that reads a terminal cannot be stopped; it ends with the process.
            let spawned = thread::Builder::new()
                .name("weft-cat-input".into())
                .spawn(move || read_all(framing, &sender));
            spawned.map_err(|error| Failure::thread(&error))?;
            taken.pieces = Some(pieces);
        }
        Ok(())
    }

    /// Waits a moment for the next piece. One that comes for a connection which is over stays for the next.
    pub(super) fn next(&self, is_over: &AtomicBool) -> Next {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if is_over.load(Ordering::Acquire) {
            return Next::Nothing;
        }
        if let Some(left) = taken.left.take() {
            return Next::Piece(left);
        }
        let Some(pieces) = &taken.pieces else { return Next::End };
        match pieces.recv_timeout(WAIT) {
            Ok(Ok(piece)) => Next::Piece(piece),
            Ok(Err(error)) => Next::Failed(error),
            Err(RecvTimeoutError::Timeout) => Next::Nothing,
            Err(RecvTimeoutError::Disconnected) => Next::End,
        }
    }

    /// Gives back what could not be sent.
    pub(super) fn give_back(&self, piece: Vec<u8>) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).left = Some(piece);
    }
}

/// Reads until the input ends, or nobody takes it any more.
fn read_all(framing: Framing, pieces: &mpsc::SyncSender<io::Result<Vec<u8>>>) {
    let mut stdin = io::stdin().lock();
    loop {
        let piece = match framing {
            Framing::Stream => read_some(&mut stdin, BUFFER_BYTES),
            Framing::Lines => read_line(&mut stdin),
            Framing::Blocks(bytes) => read_block(&mut stdin, bytes),
        };
        let Some(piece) = piece.transpose() else { return };
        let is_last = piece.is_err();
        if pieces.send(piece).is_err() || is_last {
            return;
        }
    }
}

/// What there is, `bytes` at most; `None` at the end.
fn read_some(stdin: &mut impl Read, bytes: usize) -> io::Result<Option<Vec<u8>>> {
    let mut piece = vec![0; bytes];
    let len = loop {
        match stdin.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => break result?,
        }
    };
    piece.truncate(len);
    Ok(Some(piece).filter(|piece| !piece.is_empty()))
}

/// So many bytes, or those that are left.
fn read_block(stdin: &mut impl Read, bytes: usize) -> io::Result<Option<Vec<u8>>> {
    let mut piece = Vec::new();
    stdin.take(bytes as u64).read_to_end(&mut piece)?;
    Ok(Some(piece).filter(|piece| !piece.is_empty()))
}

fn read_line(stdin: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    if stdin.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    line.pop_if(|last| *last == b'\n');
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_blocks_are_cut_and_the_last_may_be_shorter() {
        let mut lines = &b"one\n\ntwo"[..];
        let read = std::iter::from_fn(|| read_line(&mut lines).unwrap()).collect::<Vec<_>>();
        assert_eq!(read, [&b"one"[..], b"", b"two"]);
        let mut blocks = &b"abcdefgh"[..];
        let read = std::iter::from_fn(|| read_block(&mut blocks, 3).unwrap()).collect::<Vec<_>>();
        assert_eq!(read, [&b"abc"[..], b"def", b"gh"]);
        let mut bytes = &b"abcd"[..];
        assert_eq!(read_some(&mut bytes, 3).unwrap().as_deref(), Some(&b"abc"[..]));
    }

    #[test]
    fn what_was_not_sent_is_for_the_next_connection() {
        let input = Input::new(Framing::Lines);
        input.give_back(b"line".to_vec());
        assert!(matches!(input.next(&AtomicBool::new(true)), Next::Nothing));
        assert!(matches!(input.next(&AtomicBool::new(false)), Next::Piece(piece) if piece == b"line"));
    }
}
