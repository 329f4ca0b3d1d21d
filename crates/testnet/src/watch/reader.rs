//! I1 and I2: what a user reads is what the peer's user wrote, in whole and in order, and only while it may be.

use weft_base::Service;
use weft_proto::State;

use crate::content::Content;
use crate::violation::{Invariant, Violation, ensure};

/// The watch over one direction, kept at its reader.
#[derive(Clone, Debug)]
pub struct ReaderWatch {
    content: Content,
    service: Service,
    /// Lengths that the writer will write, in order.
    lengths: Vec<usize>,
    messages: usize,
    bytes: u64,
    has_ended: bool,
}

impl ReaderWatch {
    /// A reader of what a writer with this content and these lengths writes.
    #[must_use]
    pub fn new(content: Content, service: Service, lengths: Vec<usize>) -> Self {
        Self { content, service, lengths, messages: 0, bytes: 0, has_ended: false }
    }

    /// Bytes read so far, including those that a short buffer cut off.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Messages read so far; pieces for a stream.
    #[must_use]
    pub fn messages(&self) -> usize {
        self.messages
    }

    /// Whether everything the writer meant to write has been read.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        match self.service {
            Service::Datagram => self.messages == self.lengths.len(),
            Service::Stream => self.bytes == self.lengths.iter().map(|len| *len as u64).sum::<u64>(),
        }
    }

    /// Whether the end of file was read.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The user got `parts`, and `truncated` more bytes were cut off. `written` is what the writer's machine has
    /// accepted so far: messages in datagram service, else bytes.
    ///
    /// # Errors
    ///
    /// What is wrong with that.
    pub fn handle_read(
        &mut self,
        state: State,
        parts: &[&[u8]],
        truncated: usize,
        written: u64,
    ) -> Result<(), Violation> {
        // CLOSED only lets what had arrived before an error be read (CDP-ERR-2).
        let may_read = matches!(state, State::Established | State::CloseWait | State::Closed);
        ensure(may_read, Invariant::DeliveryState, || format!("data is delivered in {state:?}"))?;
        ensure(!self.has_ended, Invariant::Prefix, || "data after the end of file".into())?;
        let mut at = self.bytes;
        for part in parts {
            let wrong = self.content.first_difference(at, part);
            ensure(wrong.is_none(), Invariant::Prefix, || {
                format!(
                    "message {}: byte {} of the direction is wrong",
                    self.messages,
                    at + wrong.unwrap_or(0) as u64
                )
            })?;
            at += part.len() as u64;
        }
        let len = parts.iter().map(|part| part.len()).sum::<usize>() + truncated;
        self.check_boundary(len, written)?;
        self.messages += 1;
        self.bytes += len as u64;
        Ok(())
    }

    fn check_boundary(&self, len: usize, written: u64) -> Result<(), Violation> {
        let message = self.messages;
        match self.service {
            Service::Datagram => {
                let expected = self.lengths.get(message).copied();
                ensure(expected == Some(len), Invariant::Prefix, || {
                    format!("message {message} has {len} bytes where {expected:?} were written")
                })?;
                ensure(written > message as u64, Invariant::Prefix, || {
                    format!("message {message} is read when {written} have been written")
                })
            }
            Service::Stream => ensure(self.bytes + len as u64 <= written, Invariant::Prefix, || {
                format!("{} bytes are read when {written} have been written", self.bytes + len as u64)
            }),
        }
    }

    /// The user got the end of file.
    ///
    /// # Errors
    ///
    /// If something that the writer's machine accepted is missing.
    pub fn handle_end(&mut self, state: State, written: u64) -> Result<(), Violation> {
        ensure(state == State::CloseWait, Invariant::DeliveryState, || format!("end of file in {state:?}"))?;
        let read = match self.service {
            Service::Datagram => self.messages as u64,
            Service::Stream => self.bytes,
        };
        self.has_ended = true;
        ensure(read == written, Invariant::Prefix, || {
            format!("end of file after {read} of {written} accepted from the writer")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(service: Service) -> ReaderWatch {
        ReaderWatch::new(Content::new(5), service, vec![10, 0, 20])
    }

    fn text(from: u64, to: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        Content::new(5).write(from..to, &mut bytes);
        bytes
    }

    fn found(result: Result<(), Violation>) -> Invariant {
        result.unwrap_err().invariant
    }

    #[test]
    fn it_is_content_with_the_exact_messages_and_with_a_cut_one() {
        let mut watch = watch(Service::Datagram);
        assert_eq!(watch.handle_read(State::Established, &[&text(0, 4), &text(4, 10)], 0, 3), Ok(()));
        assert_eq!(watch.handle_read(State::Established, &[], 0, 3), Ok(()));
        assert_eq!(watch.handle_read(State::CloseWait, &[&text(10, 15)], 15, 3), Ok(()));
        assert!(watch.is_complete());
        assert_eq!(watch.handle_end(State::CloseWait, 3), Ok(()));
    }

    #[test]
    fn a_wrong_byte_fires() {
        let mut bytes = text(0, 10);
        bytes[3] ^= 0x40;
        let result = watch(Service::Datagram).handle_read(State::Established, &[&bytes], 0, 3);
        assert_eq!(found(result), Invariant::Prefix);
    }

    #[test]
    fn a_lost_a_repeated_a_swapped_and_a_joined_message_fire() {
        let read = |bytes: &[u8]| watch(Service::Datagram).handle_read(State::Established, &[bytes], 0, 3);
        assert_eq!(found(read(&text(10, 30))), Invariant::Prefix, "the first two are missing");
        assert_eq!(found(read(&[])), Invariant::Prefix, "the second before the first");
        assert_eq!(found(read(&text(0, 30))), Invariant::Prefix, "all three in one");
        let mut watch = watch(Service::Datagram);
        watch.handle_read(State::Established, &[&text(0, 10)], 0, 3).unwrap();
        assert_eq!(
            found(watch.handle_read(State::Established, &[&text(0, 10)], 0, 3)),
            Invariant::Prefix,
            "twice"
        );
    }

    #[test]
    fn bytes_that_nobody_has_written_fire() {
        let result = watch(Service::Stream).handle_read(State::Established, &[&text(0, 11)], 0, 10);
        assert_eq!(found(result), Invariant::Prefix);
    }

    #[test]
    fn data_in_a_state_without_delivery_fires() {
        for state in [State::SynSent, State::SynReceived, State::FinWait, State::Quiet] {
            let result = watch(Service::Datagram).handle_read(state, &[&text(0, 10)], 0, 3);
            assert_eq!(found(result), Invariant::DeliveryState, "{state:?}");
        }
    }

    #[test]
    fn an_early_end_of_file_and_data_after_it_fire() {
        let mut watch = watch(Service::Datagram);
        assert_eq!(found(watch.handle_end(State::CloseWait, 1)), Invariant::Prefix);
        assert_eq!(found(watch.handle_read(State::CloseWait, &[&text(0, 10)], 0, 3)), Invariant::Prefix);
    }
}
