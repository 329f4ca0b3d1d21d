//! Reading by copying, or of what was copied before.

use bytes::Buf;
use weft_base::Service;
use weft_wire::records::record_at;

use super::{Entry, Inbox, Received};

impl Inbox {
    /// Drops the first data segment of the stream if it has `len` bytes, which were read; tells how many that were.
    pub(crate) fn skip_first(&mut self, len: usize) -> usize {
        let is_first = matches!(self.entries.front(), Some(Entry::Packet(payload)) if payload.len() == len);
        if !is_first {
            return 0;
        }
        self.drop_front();
        len
    }

    /// Copies one message, or as many bytes of the stream as fit; `None` if there is nothing, or another reader has its beginning.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Option<Received> {
        match self.rules.service {
            Service::Stream => self.read_bytes(buffer),
            Service::Datagram => self.read_message(buffer),
        }
    }

    /// Frames are given back when all is copied: each takes an instruction that waits for every byte that was written before it.
    fn read_bytes(&mut self, buffer: &mut [u8]) -> Option<Received> {
        let (mut at, mut whole, mut slots) = (0, 0, 0);
        self.entries.front()?;
        for entry in &mut self.entries {
            let is_whole = match entry {
                Entry::Packet(payload) => {
                    let (len, all) = copy(payload, &mut buffer[at..]);
                    at += len;
                    if len < all {
                        payload.advance(len);
                    }
                    slots += u32::from(len == all);
                    len == all
                }
                Entry::Packets(segments) => {
                    let (len, ended) = segments.copy_to(&mut buffer[at..]);
                    at += len;
                    slots += ended;
                    segments.is_empty()
                }
                Entry::Assembled { .. } | Entry::Records { .. } => false,
            };
            if !is_whole {
                break;
            }
            whole += 1;
        }
        self.entries.drain(..whole);
        self.slots_used -= slots;
        Some(Received { len: at, truncated: 0, end_of_file: false })
    }

    fn read_message(&mut self, buffer: &mut [u8]) -> Option<Received> {
        let (len, whole, done) = match self.entries.front_mut()? {
            Entry::Records { payload, .. } => {
                let record = record_at(payload, 0)?;
                let end = record.range.end;
                let (len, whole) = copy(&payload[record.range], buffer);
                payload.advance(end);
                (len, whole, payload.is_empty())
            }
            Entry::Packet(payload) => {
                let (len, whole) = copy(payload, buffer);
                (len, whole, true)
            }
            // of a stream alone
            Entry::Packets(_) => return None,
            Entry::Assembled { .. } if self.ahead > 0 => return None,
            Entry::Assembled { message, .. } => (message.copy_to(buffer), message.len(), true),
        };
        if done {
            self.drop_front();
        }
        Some(Received { len, truncated: whole - len, end_of_file: false })
    }
}

fn copy(source: &[u8], buffer: &mut [u8]) -> (usize, usize) {
    let len = source.len().min(buffer.len());
    buffer[..len].copy_from_slice(&source[..len]);
    (len, source.len())
}
