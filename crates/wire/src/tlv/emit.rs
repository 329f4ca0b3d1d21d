//! [`Tlvs`] to bytes.

use super::{Tlvs, registry};
use crate::Kind;

impl Tlvs {
    /// Appends the critical TLVs but CRC and COOKIE, by type.
    pub(crate) fn emit_critical(&self, out: &mut Vec<u8>) {
        if let Some(versions) = &self.versions {
            push(out, registry::VERSIONS, versions);
        }
        if let Some(mss) = self.mss {
            push(out, registry::MSS, &mss.to_be_bytes());
        }
        if let Some(code) = self.service_code {
            push(out, registry::SERVICE, &[code]);
        }
        if let Some(sealed) = self.integrity {
            push(out, registry::INTEGRITY, &[u8::from(sealed)]);
        }
    }

    /// Appends the COOKIE.
    pub(crate) fn emit_cookie(&self, out: &mut Vec<u8>) {
        if let Some(cookie) = &self.cookie {
            push(out, registry::COOKIE, cookie);
        }
    }

    /// Appends the ignorable TLVs that only opening packets carry, by type, as long as `out` stays within
    /// `end_max` bytes; what does not fit is left out, last first (CDP-SYN-4). Whether all of them went in.
    pub(crate) fn emit_offers(&self, out: &mut Vec<u8>, end_max: usize) -> bool {
        let mut fits = true;
        let mut offer = |kind: u8, value: &[u8]| {
            fits = fits && out.len() + len(value.len()) <= end_max;
            if fits {
                push(out, kind, value);
            }
        };
        if let Some(shift) = self.wscale {
            offer(registry::WSCALE, &[shift]);
        }
        if self.sack_ok {
            offer(registry::SACKOK, &[]);
        }
        if self.coalesce {
            offer(registry::COALESCE, &[]);
        }
        if let Some(bytes) = self.message {
            offer(registry::MESSAGE, &bytes.to_be_bytes());
        }
        if let Some(keepalive) = self.keepalive {
            let [a, b] = keepalive.interval_s.to_be_bytes();
            let [c, d] = keepalive.expiry_s.to_be_bytes();
            offer(registry::KEEPALIVE, &[a, b, c, d]);
        }
        if self.confirm {
            offer(registry::CONFIRM, &[]);
        }
        if let Some(ioset) = &self.ioset {
            let mut value = [0; 3 * super::IOSET_MAX];
            for (bytes, node) in value.chunks_exact_mut(3).zip(ioset) {
                bytes.copy_from_slice(&node.get().to_be_bytes()[1..]);
            }
            offer(registry::IOSET, &value[..3 * ioset.len()]);
        }
        fits
    }

    /// Appends what ACK, PIN, FIN and RST packets carry, by type.
    pub(crate) fn emit_feedback(&self, out: &mut Vec<u8>) {
        if let Some(sack) = &self.sack {
            out.extend_from_slice(&[registry::SACK, length_byte(sack.value_len())]);
            sack.emit(out);
            pad(out, sack.value_len());
        }
        if let Some(time) = self.time {
            out.extend_from_slice(&[registry::TIME, 8]);
            out.extend_from_slice(&time.own.to_be_bytes());
            out.extend_from_slice(&time.echoed.to_be_bytes());
            pad(out, 8);
        }
        if let Some(count) = self.ce_count {
            push(out, registry::CECOUNT, &count.to_be_bytes());
        }
        if let Some((reason, detail)) = self.reason {
            push_reason(out, reason.0, detail);
        }
        if let Some(count) = self.discarded {
            push(out, registry::DISCARDED, &count.to_be_bytes());
        }
        if let Some(piece) = &self.far_sack {
            out.extend_from_slice(&[registry::FARSACK, length_byte(piece.value_len())]);
            piece.emit(out);
            pad(out, piece.value_len());
        }
    }

    /// Whether each TLV that is present is allowed in a packet of `kind`.
    pub(crate) fn is_allowed_in(&self, kind: Kind, ece: bool) -> bool {
        let allowed = |present: bool, tlv: u8| !present || registry::is_allowed(tlv, kind, ece);
        allowed(self.versions.is_some(), registry::VERSIONS)
            && allowed(self.mss.is_some(), registry::MSS)
            && allowed(self.service_code.is_some(), registry::SERVICE)
            && allowed(self.integrity.is_some(), registry::INTEGRITY)
            && allowed(self.cookie.is_some(), registry::COOKIE)
            && allowed(self.wscale.is_some(), registry::WSCALE)
            && allowed(self.sack_ok, registry::SACKOK)
            && allowed(self.coalesce, registry::COALESCE)
            && allowed(self.message.is_some(), registry::MESSAGE)
            && allowed(self.keepalive.is_some(), registry::KEEPALIVE)
            && allowed(self.confirm, registry::CONFIRM)
            && allowed(self.ioset.is_some(), registry::IOSET)
            && allowed(self.sack.is_some(), registry::SACK)
            && allowed(self.time.is_some(), registry::TIME)
            && allowed(self.ce_count.is_some(), registry::CECOUNT)
            && allowed(self.reason.is_some(), registry::REASON)
            && allowed(self.discarded.is_some(), registry::DISCARDED)
            && allowed(self.far_sack.is_some(), registry::FARSACK)
    }
}

/// Bytes of a TLV whose value has `value_len` bytes, padding included.
pub(crate) const fn len(value_len: usize) -> usize {
    (2 + value_len).next_multiple_of(4)
}

/// Appends one TLV with its padding.
pub(crate) fn push(out: &mut Vec<u8>, kind: u8, value: &[u8]) {
    out.extend_from_slice(&[kind, length_byte(value.len())]);
    out.extend_from_slice(value);
    pad(out, value.len());
}

/// Appends REASON, with the detail if there is one.
pub(crate) fn push_reason(out: &mut Vec<u8>, code: u16, detail: Option<u16>) {
    let [a, b] = code.to_be_bytes();
    match detail.map(u16::to_be_bytes) {
        Some([c, d]) => push(out, registry::REASON, &[a, b, c, d]),
        None => push(out, registry::REASON, &[a, b]),
    }
}

fn pad(out: &mut Vec<u8>, value_len: usize) {
    let padding = len(value_len) - 2 - value_len;
    out.extend_from_slice(&[0; 3][..padding]);
}

#[allow(clippy::cast_possible_truncation)] // every value of the registry and of GREASE is at most 252 bytes
const fn length_byte(value_len: usize) -> u8 {
    debug_assert!(value_len <= 252);
    value_len as u8
}
