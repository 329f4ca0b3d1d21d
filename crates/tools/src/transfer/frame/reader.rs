//! Frames out of a stream.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use super::{BODY_BYTES_MAX, DATA_BYTES_MAX, Frame, HEAD_BYTES, TAG_DATA};
use crate::transfer::Error;
use crate::transfer::pauses::Pauses;

/// Takes frames from a stream; memory is bounded by the longest frame.
pub struct Reader<R> {
    stream: R,
    pub(super) body: Vec<u8>,
    /// Whether a frame has come.
    has_heard: bool,
    /// The waits for bytes since the first `Data` frame; `None` before that.
    pauses: Option<Pauses>,
}

impl<R: Read> Reader<R> {
    /// A reader of `stream`.
    pub fn new(stream: R) -> Self {
        Self { stream, body: Vec::new(), has_heard: false, pauses: None }
    }

    /// The next frame, where who sends it is not to say `Busy` instead for longer than this.
    ///
    /// # Errors
    /// As for [`Self::next_frame`].
    pub fn next_frame_within(&mut self, patience: Duration) -> Result<Frame, Error> {
        self.next_frame_until(Some(Instant::now() + patience))
    }

    /// The next frame other than `Busy`.
    ///
    /// # Errors
    /// [`Error::Stream`] if the stream fails or ends, and [`Error::Unheard`] if it does so before the first frame;
    /// [`Error::Protocol`] for bytes that are no frame.
    pub fn next_frame(&mut self) -> Result<Frame, Error> {
        self.next_frame_until(None)
    }

    fn next_frame_until(&mut self, deadline: Option<Instant>) -> Result<Frame, Error> {
        loop {
            let frame = match self.next_any() {
                Err(Error::Stream(error)) if !self.has_heard => return Err(Error::Unheard(error)),
                frame => frame?,
            };
            self.has_heard = true;
            if frame != Frame::Busy {
                return Ok(frame);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(Error::Protocol("it says that it is busy, and does not begin".into()));
            }
        }
    }

    fn next_any(&mut self) -> Result<Frame, Error> {
        let mut head = [0; HEAD_BYTES];
        self.fill(&mut head)?;
        let [tag, len @ ..] = head;
        let len = u32::from_be_bytes(len) as usize;
        let limit = if tag == TAG_DATA { DATA_BYTES_MAX } else { BODY_BYTES_MAX };
        if len > limit {
            return Err(Error::Protocol(format!("a frame of {len} bytes, where {limit} is the most")));
        }
        if tag == TAG_DATA {
            self.pauses.get_or_insert_default();
        }
        let mut body = std::mem::take(&mut self.body);
        body.resize(len, 0);
        let filled = self.fill(&mut body);
        self.body = body;
        filled?;
        if tag == TAG_DATA {
            return Ok(Frame::Data);
        }
        Frame::parse(tag, &self.body).map_err(Error::Protocol)
    }

    /// As [`Read::read_exact`], and notes how long the stream let it wait.
    fn fill(&mut self, mut room: &mut [u8]) -> io::Result<()> {
        while !room.is_empty() {
            let begin = Instant::now();
            let len = match self.stream.read(room) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if let Some(pauses) = &mut self.pauses {
                pauses.note(begin.elapsed());
            }
            room = &mut room[len..];
        }
        Ok(())
    }

    /// When nothing came while files were on their way.
    pub fn take_pauses(&mut self) -> Pauses {
        self.pauses.take().unwrap_or_default()
    }

    /// The bytes of the `Data` frame that [`Self::next_frame`] returned last.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        &self.body
    }

    /// The stream, for those who want to drain it.
    pub fn stream_mut(&mut self) -> &mut R {
        &mut self.stream
    }
}
