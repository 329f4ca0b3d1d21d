//! Small datagrams that share a packet: the records of a coalesced data segment (section 7, "Coalescing").

use std::ops::Range;

/// Bytes of a record's head.
pub const RECORD_HEAD: usize = 2;
/// Most bytes in a record that tells its length.
pub const RECORD_LEN_MAX: usize = 0x7FFF;

const MORE: u16 = 0x8000;

/// One record of a coalesced data segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Whether the message goes on in the next packet (CDP-COA-3).
    pub more: bool,
    /// Where its bytes lie in the data segment.
    pub range: Range<usize>,
}

/// A data segment that breaks CDP-COA-1 to CDP-COA-4, which ends the connection (CDP-COA-5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

/// The records of a data segment that was found well-formed.
///
/// ```
/// use weft_wire::records::{Records, record_head};
///
/// let mut segment = record_head(false, 5).unwrap().to_vec();
/// segment.extend_from_slice(b"hello");
/// segment.extend_from_slice(&record_head(false, 0).unwrap());
///
/// let records = Records::new_checked(&segment, false).unwrap();
/// assert_eq!(records.map(|record| &segment[record.range]).collect::<Vec<_>>(), [&b"hello"[..], b""]);
/// ```
#[derive(Clone, Debug)]
pub struct Records<'a> {
    segment: &'a [u8],
    at: usize,
}

impl<'a> Records<'a> {
    /// Checks `segment`; `announced_message` says whether its receiver announced MESSAGE.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if it breaks a rule of CDP-COA-1 to CDP-COA-4.
    pub fn new_checked(segment: &'a [u8], announced_message: bool) -> Result<Self, Malformed> {
        // [CDP-COA-1] one or more records that fill the data segment exactly
        if segment.is_empty() {
            return Err(Malformed);
        }
        let mut at = 0;
        while at < segment.len() {
            let record = record_at(segment, at).ok_or(Malformed)?;
            at = record.range.end;
            // [CDP-COA-4] MORE only in the last record, not empty, and only if the receiver announced MESSAGE
            if record.more && (at < segment.len() || record.range.is_empty() || !announced_message) {
                return Err(Malformed);
            }
        }
        Ok(Self { segment, at: 0 })
    }
}

impl Iterator for Records<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let record = record_at(self.segment, self.at)?;
        self.at = record.range.end;
        Some(record)
    }
}

/// The head of a record of `bytes`, which follow it; with `more` these are the last of their packet. `None` if they end a message and are
/// more than a record tells.
#[must_use]
#[inline]
pub fn record_head(more: bool, bytes: usize) -> Option<[u8; RECORD_HEAD]> {
    let length = u16::try_from(bytes).ok().filter(|&length| length < MORE);
    // [CDP-COA-2] 0x8000 is MORE and 0x7FFF the length, or with MORE no length where it is all that follows
    let head = if more { MORE | length.unwrap_or(0) } else { length? };
    Some(head.to_be_bytes())
}

/// The record whose head lies `at` bytes into `segment`, if all of it does.
#[must_use]
pub fn record_at(segment: &[u8], at: usize) -> Option<Record> {
    let head = u16::from_be_bytes(*segment.get(at..)?.first_chunk()?);
    let start = at + RECORD_HEAD;
    let end = if head == MORE { segment.len() } else { start + usize::from(head & !MORE) };
    (end <= segment.len()).then_some(Record { more: head & MORE != 0, range: start..end })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_well_formed(segment: &[u8], announced_message: bool) -> bool {
        Records::new_checked(segment, announced_message).is_ok()
    }

    /// [CDP-COA-1] One or more records that fill the segment exactly.
    #[test]
    fn records_fill_the_segment() {
        assert!(!is_well_formed(&[], true));
        assert!(!is_well_formed(&[0], true));
        assert!(!is_well_formed(&[0, 2, 7], true));
        assert!(!is_well_formed(&[0, 1, 7, 0], true));
        assert!(is_well_formed(&[0, 0], true) && is_well_formed(&[0, 1, 7, 0, 0], true));
    }

    /// [CDP-COA-2] [CDP-COA-3] 0x8000 is MORE, 0x7FFF the length.
    #[test]
    fn a_head_is_more_and_a_length_of_fifteen_bits() {
        let heads = [record_head(false, 300), record_head(true, 0x7FFF)].map(Option::unwrap);
        assert_eq!(heads, [[1, 44], [0xFF, 0xFF]]);
        let segment = [&heads[0][..], &[1; 300], &heads[1], &[2; 0x7FFF]].concat();
        let records: Vec<_> = Records::new_checked(&segment, true).unwrap().collect();
        assert_eq!(records[0], Record { more: false, range: 2..302 });
        assert_eq!(records[1], Record { more: true, range: 304..304 + 0x7FFF });
        assert_eq!(record_head(false, 0x8000), None);
    }

    /// [CDP-COA-2] MORE without a length: all that follows, however much.
    #[test]
    fn a_long_part_does_not_tell_its_length() {
        for bytes in [0x8000, 1, 0xFFFF] {
            let segment = [&record_head(false, 1).unwrap()[..], &[1, 0x80, 0], &vec![2; bytes]].concat();
            let records: Vec<_> = Records::new_checked(&segment, true).unwrap().collect();
            assert_eq!(records[1], Record { more: true, range: 5..5 + bytes });
        }
        assert_eq!(record_head(true, 0x8000), Some([0x80, 0]));
        assert!(!is_well_formed(&[0, 1, 1, 0x80, 0], true));
    }

    /// [CDP-COA-4] MORE only in the last record, not empty, and only where MESSAGE was announced.
    #[test]
    fn only_the_last_record_goes_on() {
        assert!(is_well_formed(&[0x80, 1, 7], true));
        assert!(!is_well_formed(&[0x80, 1, 7], false));
        assert!(!is_well_formed(&[0x80, 0], true));
        assert!(!is_well_formed(&[0x80, 1, 7, 0, 0], true));
    }
}
