//! How long a doze is, by what comes meanwhile: it is to stay in the second cache, and to have room in the kernel's buffer.

use std::time::Duration;

use super::nanos;

/// How long a thread dozes; the system makes more of it, [`DOZE_MORE`].
pub(super) const DOZE_MIN: Duration = Duration::from_micros(50);
pub(super) const DOZE_MAX: Duration = Duration::from_micros(150);
/// What the system makes more of a doze: until its timer has fired and the thread has a processor.
const DOZE_MORE: Duration = Duration::from_micros(25);
/// What comes in one doze, unless that is the shortest.
const GATHER_BYTES: u64 = 256 << 10;
const GATHER_PACKETS: u64 = 192;
/// What comes in a doze of who waits for a stream, where that is longer than other dozes are: then it hardly matters what a doze costs.
const STREAM_BYTES: u64 = 192 << 10;
const STREAM_PACKETS: u64 = 128;
/// What comes in one doze fills this part of the kernel's buffer at most; the rest is for what comes while that is worked off
/// (decision 0073).
const BUFFER_PART: u64 = 6;
/// Bytes of its buffer that the kernel counts for a small packet, about; for a full one, with MTU 1500, 1.6 times its data.
const PACKET_COUNTS: u64 = 1 << 10;
/// Where so many of the shortest dozes have room there certainly is enough.
const ROOMY: u64 = 4;

/// What comes in a millisecond.
#[derive(Clone, Copy)]
pub(super) struct Rate {
    pub(super) packets_per_ms: u64,
    pub(super) bytes_per_ms: u64,
}

impl Rate {
    /// Whether a buffer of so many bytes has room for what comes in a doze.
    pub(super) fn has_room(self, buffer_bytes: u64) -> bool {
        self.until_full_ns(buffer_bytes) >= nanos(DOZE_MIN)
    }

    /// Whether it certainly has, also if more comes.
    pub(super) fn has_ample_room(self, buffer_bytes: u64) -> bool {
        self.until_full_ns(buffer_bytes) >= ROOMY * nanos(DOZE_MIN)
    }

    /// How long a doze is, if there is one; the shortest is as long as it was measured to pay.
    pub(super) fn doze_ns(self, buffer_bytes: u64) -> u64 {
        let gathered = self.until_ns(GATHER_PACKETS, GATHER_BYTES);
        gathered.min(self.until_short_ns(buffer_bytes)).clamp(nanos(DOZE_MIN), nanos(DOZE_MAX))
    }

    /// The same where a stream is waited for, as long as it may be.
    pub(super) fn stream_doze_ns(self, buffer_bytes: u64) -> u64 {
        self.until_ns(STREAM_PACKETS, STREAM_BYTES).min(self.until_short_ns(buffer_bytes))
    }

    /// How long there is room for what comes in a doze, and in the system's part of it.
    fn until_short_ns(self, buffer_bytes: u64) -> u64 {
        self.until_full_ns(buffer_bytes).saturating_sub(nanos(DOZE_MORE))
    }

    /// How long it takes to fill the part of the kernel's buffer that a doze may fill.
    fn until_full_ns(self, buffer_bytes: u64) -> u64 {
        let room = buffer_bytes / BUFFER_PART;
        self.until_ns(room / PACKET_COUNTS, room)
    }

    /// How long it takes until so many packets or bytes have come.
    fn until_ns(self, packets: u64, bytes: u64) -> u64 {
        let until_ns = |count: u64, per_ms: u64| count.saturating_mul(1_000_000) / per_ms.max(1);
        until_ns(packets, self.packets_per_ms).min(until_ns(bytes, self.bytes_per_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER_BYTES: u64 = 4 << 20;

    #[test]
    fn a_doze_is_as_long_as_what_comes_meanwhile_fits_cache_and_buffer() {
        let doze = |buffer_bytes, packets_per_ms, bytes_per_ms| {
            Rate { packets_per_ms, bytes_per_ms }.doze_ns(buffer_bytes) / 1_000
        };
        assert_eq!(doze(BUFFER_BYTES, 160, 230_000), 150, "the longest");
        assert_eq!(doze(BUFFER_BYTES, 2_560, 2_560), 75, "by packets");
        assert_eq!(doze(BUFFER_BYTES, 500, 4_096 << 10), 62, "by bytes");
        assert_eq!(doze(BUFFER_BYTES, 5_000, 8 << 20), 50, "the shortest");
        assert_eq!(doze(416 << 10, 690, 828), 75, "by packets of the buffer");
        assert_eq!(doze(416 << 10, 160, 709_970), 75, "by bytes of the buffer");
        assert_eq!(doze(416 << 10, 1_300, 1_339_000), 50, "the shortest, of a buffer full in 53");
        assert_eq!(doze(3 << 20, 500, 4_096 << 10), 62, "by bytes, of a buffer full in 125");
        assert_eq!(doze(0, 160, 230_000), 50, "no buffer to speak of");
    }

    #[test]
    fn a_stream_is_dozed_through_for_longer() {
        let doze = |buffer_bytes, packets_per_ms| {
            let rate = Rate { packets_per_ms, bytes_per_ms: packets_per_ms * 1_444 };
            rate.stream_doze_ns(buffer_bytes) / 1_000
        };
        assert_eq!(doze(BUFFER_BYTES, 400), 320, "by packets");
        assert_eq!(doze(BUFFER_BYTES, 80), 1_600, "the same: it is for the trials to say");
        assert_eq!(doze(416 << 10, 400), 97, "by bytes of the buffer");
    }
}
