//! What two ends agree on when they open (sections 3.2 and 10).

use std::time::Duration;

use weft_base::{Service, limits};
use weft_wire::{KeepAlive, Reason, Tlvs};

use crate::config::{self, Config};

/// The outcome of the open, seen from one end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// Every packet carries the seal (CDP-SYN-7).
    pub sealed: bool,
    /// Small datagrams may share a packet.
    pub coalesce: bool,
    /// Confirmed close (CDP-ST-F).
    pub confirm: bool,
    /// Shift of the windows we send.
    pub receive_scale: u8,
    /// Shift of the windows the peer sends.
    pub send_scale: u8,
    /// The peer understands SACK.
    pub peer_sack: bool,
    /// Largest data segment the peer accepts, in bytes.
    pub peer_mss: u16,
    /// Largest message the peer accepts, in bytes, if it is more than one packet (CDP-DG-3).
    pub peer_message: Option<u32>,
    /// When to send PINs and when to give up.
    pub keep_alive: KeepAlive,
}

impl Agreed {
    /// What holds until the open says otherwise: what absent TLVs stand for.
    pub(crate) fn before_open(config: &Config) -> Self {
        Self {
            sealed: config.integrity,
            coalesce: false,
            confirm: false,
            receive_scale: 0,
            send_scale: 0,
            peer_sack: false,
            peer_mss: limits::MSS_MIN,
            peer_message: None,
            keep_alive: KeepAlive::default(),
        }
    }
}

/// The shift that lets a window field tell of `slots`.
pub(crate) fn window_scale(slots: u32) -> u8 {
    let bits = 32 - slots.leading_zeros();
    u8::try_from(bits.saturating_sub(16)).unwrap_or(0).min(14)
}

/// The TLVs of our SYN.
pub(crate) fn offer(config: &Config) -> Tlvs {
    let mut tlvs = Tlvs {
        // [CDP-SYN-1] a SYN carries MSS, SERVICE and INTEGRITY
        mss: Some(config.link_mss),
        integrity: Some(config.integrity),
        wscale: Some(window_scale(config.receive_slots)),
        sack_ok: config.sack,
        coalesce: config.coalesce && config.service == Service::Datagram,
        message: announced_message(config),
        keepalive: Some(to_tlv(config.keep_alive)),
        confirm: config.confirm,
        ..Tlvs::default()
    };
    tlvs.set_service(config.service);
    tlvs
}

/// The largest message we tell the peer of; nothing if it is no more than a packet (CDP-DG-3).
pub(crate) fn announced_message(config: &Config) -> Option<u32> {
    let message = config.message_bytes.filter(|_| config.service == Service::Datagram)?;
    (message > u32::from(config.link_mss)).then_some(message.min(limits::MESSAGE_BYTES_MAX))
}

/// Why a SYN or SYN|ACK must be refused, with the code and the detail (CDP-TLV-5, CDP-SYN-5, CDP-SYN-6).
pub(crate) fn refusal(config: &Config, theirs: &Tlvs) -> Option<(Reason, Option<u16>)> {
    if let Some((reason, detail)) = theirs.refusal {
        return Some((reason, Some(detail)));
    }
    // [CDP-SYN-6] a SERVICE that differs is refused
    (theirs.service() != Some(config.service)).then_some((Reason::SERVICE, None))
}

/// What our offer and the peer's SYN or SYN|ACK come to. `answer` is whether `theirs` is a SYN|ACK, which rules on
/// KEEPALIVE (CDP-SYN-10); two SYNs come to the same at both ends (CDP-SYN-13).
pub(crate) fn agree(config: &Config, theirs: &Tlvs, answer: bool) -> Agreed {
    let ours = offer(config);
    let scaled = ours.wscale.zip(theirs.wscale);
    let peer_mss = theirs.mss_or_default();
    Agreed {
        // [CDP-SYN-7] sealed if either asks for it
        sealed: config.integrity || theirs.integrity_or_default(),
        // [CDP-STR-4] ignored in stream service
        coalesce: ours.coalesce && theirs.coalesce && config.service == Service::Datagram,
        confirm: ours.confirm && theirs.confirm,
        receive_scale: scaled.map_or(0, |(ours, _)| ours),
        send_scale: scaled.map_or(0, |(_, theirs)| theirs),
        // [CDP-SYN-11] SACKOK and MESSAGE bind one direction each
        peer_sack: theirs.sack_ok,
        peer_mss,
        peer_message: theirs
            .message
            .filter(|message| config.service == Service::Datagram && *message > u32::from(peer_mss)),
        keep_alive: match theirs.keepalive {
            None => KeepAlive::default(),
            Some(theirs) if answer => theirs,
            Some(theirs) => smaller(to_tlv(config.keep_alive), theirs),
        },
    }
}

/// The TLVs of the SYN|ACK that tells what was agreed.
///
/// [CDP-SYN-10] WSCALE, COALESCE, CONFIRM and KEEPALIVE only if the SYN did: they are agreed only then, and where
/// the outcome is what their absence stands for they are left out.
pub(crate) fn answer(config: &Config, agreed: &Agreed) -> Tlvs {
    let is_scaled = agreed.receive_scale > 0 || agreed.send_scale > 0;
    let mut tlvs = Tlvs {
        mss: Some(config.link_mss),
        // [CDP-SYN-7] a SYN|ACK carries the result
        integrity: Some(agreed.sealed),
        sack_ok: config.sack,
        message: announced_message(config),
        wscale: is_scaled.then_some(agreed.receive_scale),
        coalesce: agreed.coalesce,
        confirm: agreed.confirm,
        keepalive: (agreed.keep_alive != KeepAlive::default()).then_some(agreed.keep_alive),
        ..Tlvs::default()
    };
    tlvs.set_service(config.service);
    tlvs
}

fn smaller(a: KeepAlive, b: KeepAlive) -> KeepAlive {
    let interval_s = a.interval_s.min(b.interval_s);
    // [CDP-SYN-12] an expiry shorter than twice the interval would be ignored
    KeepAlive { interval_s, expiry_s: a.expiry_s.min(b.expiry_s).max(interval_s.saturating_mul(2)) }
}

fn to_tlv(keep_alive: config::KeepAlive) -> KeepAlive {
    let seconds = |time: Duration| u16::try_from(time.as_secs().max(1)).unwrap_or(u16::MAX);
    KeepAlive { interval_s: seconds(keep_alive.interval), expiry_s: seconds(keep_alive.expiry) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(service: Service) -> Config {
        Config { confirm: true, receive_slots: 100_000, ..Config::new(service, 1444) }
    }

    /// [CDP-SYN-13] In a simultaneous open both sides compute the same result from the two SYNs.
    /// [CDP-SYN-7] The connection is sealed if either asks.
    #[test]
    fn two_offers_come_to_the_same_at_both_ends() {
        let a = Config { integrity: false, coalesce: false, ..config(Service::Datagram) };
        let b = Config {
            confirm: false,
            keep_alive: config::KeepAlive {
                interval: Duration::from_secs(5),
                expiry: Duration::from_secs(400),
            },
            ..config(Service::Datagram)
        };
        let (at_a, at_b) = (agree(&a, &offer(&b), false), agree(&b, &offer(&a), false));
        assert!(at_a.sealed && at_b.sealed);
        assert_eq!((at_a.coalesce, at_a.confirm), (false, false));
        assert_eq!((at_b.coalesce, at_b.confirm), (false, false));
        assert_eq!(at_a.keep_alive, at_b.keep_alive);
        assert_eq!(at_a.keep_alive.interval_s, 5);
    }

    /// [CDP-SYN-10] A SYN|ACK carries WSCALE, COALESCE, CONFIRM and KEEPALIVE only if the SYN did.
    #[test]
    fn an_answer_offers_nothing_that_was_not_asked() {
        let server = config(Service::Datagram);
        let syn = Tlvs::default();
        let tlvs = answer(&server, &agree(&server, &syn, false));
        assert_eq!((tlvs.wscale, tlvs.coalesce, tlvs.confirm, tlvs.keepalive), (None, false, false, None));
        assert_eq!(tlvs.integrity, Some(true), "[CDP-SYN-7] the result is always carried");
    }

    /// [CDP-SYN-6] A SERVICE that differs is refused with REASON 9; [CDP-SYN-5] so are bad values, with REASON 10.
    #[test]
    fn services_must_meet() {
        let server = config(Service::Stream);
        assert_eq!(refusal(&server, &offer(&config(Service::Datagram))), Some((Reason::SERVICE, None)));
        assert_eq!(refusal(&server, &offer(&server)), None);
        let bad = Tlvs { refusal: Some((Reason::OPTION, 3)), ..offer(&server) };
        assert_eq!(refusal(&server, &bad), Some((Reason::OPTION, Some(3))));
    }

    /// [CDP-SYN-11] MESSAGE and SACKOK bind one direction each. [CDP-DG-3] A MESSAGE up to the MSS is absent.
    #[test]
    fn message_and_sack_bind_their_sender_only() {
        let mut theirs = offer(&config(Service::Datagram));
        theirs.message = Some(1444);
        theirs.sack_ok = false;
        let agreed = agree(&config(Service::Datagram), &theirs, false);
        assert_eq!((agreed.peer_message, agreed.peer_sack), (None, false));
        theirs.message = Some(1445);
        assert_eq!(agree(&config(Service::Datagram), &theirs, false).peer_message, Some(1445));
    }

    /// [CDP-STR-4] COALESCE and MESSAGE are ignored in stream service.
    #[test]
    fn a_stream_neither_coalesces_nor_has_messages() {
        let theirs = Tlvs { coalesce: true, message: Some(1 << 20), ..offer(&config(Service::Stream)) };
        let agreed = agree(&Config { coalesce: true, ..config(Service::Stream) }, &theirs, true);
        assert_eq!((agreed.coalesce, agreed.peer_message), (false, None));
    }

    #[test]
    fn a_scale_is_as_small_as_the_slots_allow() {
        assert_eq!([1, 65_535, 65_536, 131_071, 131_072].map(window_scale), [0, 0, 1, 1, 2]);
        assert_eq!(window_scale(65_535 << 14), 14);
    }
}
