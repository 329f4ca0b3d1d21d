//! Packets of an attacker who sees every packet and can seal.

use bytes::Bytes;
use weft_wire::{Encapsulation, HEADER_LEN, Header, Kind, Packet};

#[path = "repair.rs"]
mod repair;

/// Bytes that say how to change a packet.
pub(crate) const RECIPE_LEN: usize = 10;

/// `model` with another flag set, other numbers, and `tail` behind its header if the recipe says so. `None` if the
/// result is no packet.
pub(crate) fn forge(model: &[u8], sealed: bool, recipe: &[u8], tail: &[u8]) -> Option<Vec<u8>> {
    let &[what, flags, seq_high, seq, ack_high, ack, window_high, window, ce, shift] = recipe else {
        return None;
    };
    let packet = Packet::new_checked(Bytes::copy_from_slice(model), Encapsulation::Udp).ok()?;
    let mut header: Header = *packet.header();
    header.seq = packet.seq(sealed);
    if what & 1 != 0 {
        header.kind = Kind::ALL[usize::from(flags & 7)];
        header.eom = flags & 8 != 0;
        header.ece = flags & 16 != 0;
        header.rtx = flags & 32 != 0;
    }
    if what & 2 != 0 {
        // numbers near, and at every power of two away
        let delta = i64::from(i16::from_be_bytes([seq_high, seq])).wrapping_shl(u32::from(shift & 63));
        header.seq += delta.cast_unsigned();
    }
    if what & 4 != 0 {
        let delta = i32::from(i16::from_be_bytes([ack_high, ack])).wrapping_shl(u32::from(shift >> 3));
        header.ack = header.ack.wrapping_add(delta.cast_unsigned());
    }
    if what & 8 != 0 {
        header.window = u16::from_be_bytes([window_high, window]);
    }
    header.ce = ce & 1 != 0;
    let rest = if what & 16 != 0 { tail } else { &model[HEADER_LEN..usize::from(packet.header().length)] };
    let bytes = repair::repair(&[&header.emit()[..], rest].concat());
    seal(bytes, sealed)
}

fn seal(mut bytes: Vec<u8>, sealed: bool) -> Option<Vec<u8>> {
    let packet = Packet::new_checked(Bytes::copy_from_slice(&bytes), Encapsulation::Udp).ok()?;
    if sealed && packet.kind().is_sealed() {
        for (byte, seal) in bytes[16..20].iter_mut().zip(packet.checksum().to_be_bytes()) {
            *byte ^= seal;
        }
    }
    Some(bytes)
}
