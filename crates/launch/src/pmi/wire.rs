//! The stream to a PMI launcher: lines out, lines in, with a limit to each wait.

use std::io::{self, Read};
use std::time::Instant;

use socket2::Socket;

use super::line::{LINE_BYTES_MAX, Line};

/// A stream to the launcher.
#[derive(Debug)]
pub(super) struct Wire {
    socket: Socket,
    /// What has come and is no line yet.
    come: Vec<u8>,
}

/// Why there is no line.
#[derive(Debug)]
pub(super) enum WireError {
    /// The launcher closed the stream.
    Closed,
    /// Nothing came until then.
    Late,
    /// The stream broke, or what came is no line.
    Broken(String),
}

impl From<io::Error> for WireError {
    fn from(error: io::Error) -> Self {
        let is_end = matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
        if is_end { Self::Closed } else { Self::Broken(error.to_string()) }
    }
}

impl Wire {
    pub(super) const fn new(socket: Socket) -> Self {
        Self { socket, come: Vec::new() }
    }

    /// Says `text`, one line.
    pub(super) fn say(&mut self, text: &str) -> Result<(), WireError> {
        let line = format!("{text}\n");
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            // A program that keeps SIGPIPE as it is must survive the end of its launcher.
            match self.socket.send_with_flags(rest, libc::MSG_NOSIGNAL) {
                Ok(len) => rest = &rest[len..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The next line, waited for until `deadline`.
    pub(super) fn hear(&mut self, deadline: Instant) -> Result<Line, WireError> {
        loop {
            if let Some(end) = self.come.iter().position(|byte| *byte == b'\n') {
                let bytes: Vec<u8> = self.come.drain(..=end).collect();
                let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
                return Line::parse(&text).ok_or_else(|| WireError::Broken(format!("it said {text:?}")));
            }
            if self.come.len() > LINE_BYTES_MAX {
                return Err(WireError::Broken("it says a line without an end".to_owned()));
            }
            self.receive(deadline)?;
        }
    }

    fn receive(&mut self, deadline: Instant) -> Result<(), WireError> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(WireError::Late);
        }
        self.socket.set_read_timeout(Some(left))?;
        let mut buffer = [0; 1024];
        match (&self.socket).read(&mut buffer) {
            Ok(0) => Err(WireError::Closed),
            Ok(len) => {
                self.come.extend_from_slice(&buffer[..len]);
                Ok(())
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Err(WireError::Late)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
