//! A packet of records comes in: whole messages, the end of one that others began, the beginning of one that others go on with.
//!
//! It has one slot (CDP-COA-6), that of what it ends with.

use bytes::{Buf, Bytes};
use weft_wire::Reason;
use weft_wire::records::{RECORD_HEAD, Record, record_at};

use super::{Entry, Inbox};

impl Inbox {
    pub(super) fn push_records(&mut self, mut payload: Bytes) -> Result<(), Reason> {
        // the end of a message that earlier packets began
        if self.open.is_some() {
            let Some(first) = record_at(&payload, 0) else { return Err(Reason::PROTOCOL) };
            let end = first.range.end;
            self.push_part(payload.slice(first.range))?;
            if first.more {
                return Ok(());
            }
            payload.advance(end);
            self.finish_message(!payload.is_empty());
        }
        // the beginning of a message that later packets go on with
        let mut tail = None;
        if let Some(last) = last_record(&payload).filter(|last| last.more) {
            let start = last.range.start;
            tail = Some(payload.slice(last.range));
            payload.truncate(start - RECORD_HEAD);
        }
        if !payload.is_empty() {
            let slots = u32::from(tail.is_none());
            self.push_entry(Entry::Records { payload, slots }, slots);
        }
        tail.map_or(Ok(()), |tail| self.push_part(tail))
    }
}

fn last_record(payload: &[u8]) -> Option<Record> {
    let mut last = None;
    while let Some(record) = record_at(payload, last.as_ref().map_or(0, |last: &Record| last.range.end)) {
        last = Some(record);
    }
    last
}
