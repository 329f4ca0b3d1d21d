//! How long a packet may be: the largest data segment this path is known to carry, and the search for a larger one.
//!
//! Sizes are proved by a padded PIN with a TIME token (CDP-MTU-2); data never uses an unproved size, but for that of the one link
//! that both nodes are on, within a host (decision 0068). Who says little needs no larger ones, and a probe in the way of a question
//! or its answer holds it up: so the search waits until a good deal is to be sent, or the open is some time ago (decision 0065). Where
//! large packets are lost and nothing else is sent, a short PIN asks whether small ones pass (CDP-MTU-5).

use std::time::Duration;

/// No size above this is used unproved (CDP-MTU-1): that of Ethernet.
const START_MAX: u16 = 1472;
/// Where both links carry more, what lies between them may carry UDP over IPv6 at an MTU of 1500.
const START_BETWEEN: u16 = 1424;
/// Sizes worth a probe below the ceiling: jumbo frames, what lies between them and the loopback device; and after a fall the start,
/// what WireGuard's usual MTU of 1420 carries by UDP over IPv4, the least MTU of IPv6, and the first fall.
const STEPS: [u16; 8] = [32_736, 16_352, 8_924, 4_052, START_BETWEEN, 1_364, 1_204, FALLS[0]];
/// Packets, sent and yet to be sent, from which on a larger size is looked for: what fewer could win, the probe costs.
const WORTH_PACKETS: usize = 96;
/// How long after the open the search begins in any case.
pub(crate) const AT_REST: Duration = Duration::from_millis(10);
/// A size is given up after this many probes without an answer.
const TRIES: u8 = 3;
/// Losses of a large packet, while small ones pass, before the limit falls (CDP-MTU-5).
const BLACK_HOLE_LOSSES: u16 = 3;
/// The limits it falls to (CDP-MTU-5).
const FALLS: [u16; 2] = [1_024, 512];
/// How long after the search that follows a fall there is another: the path may have changed (PMTU_RAISE_TIMER of RFC 8899,
/// section 5.1.1).
pub(crate) const RAISE: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Probe {
    size: u16,
    token: u32,
    tries: u8,
    out: bool,
}

/// Whether small packets pass where large ones are lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Small {
    Unknown,
    /// A PIN with this token is to ask.
    Due(u32),
    /// It has asked.
    Asked(u32),
    Pass,
}

#[derive(Clone, Debug)]
pub(crate) struct Mtu {
    current: u16,
    ceiling: u16,
    /// The search begins when there is enough to send.
    awaits_data: bool,
    probe: Option<Probe>,
    /// Since a large packet was delivered, and of these only one before small ones were known to pass.
    large_losses: u16,
    small: Small,
}

impl Mtu {
    /// [CDP-MTU-1] Starts at the smaller of the peer's MSS and the link's, or at 1424 where that is more than 1472.
    pub(crate) fn new(link_mss: u16, peer_mss: u16) -> Self {
        let ceiling = link_mss.min(peer_mss);
        let current = if ceiling > START_MAX { START_BETWEEN } else { ceiling };
        Self { current, ceiling, awaits_data: false, probe: None, large_losses: 0, small: Small::Unknown }
    }

    /// [CDP-MTU-2] Where both nodes are on one link nothing lies between them: what both ends carry needs no proof.
    pub(crate) fn on_one_link(link_mss: u16, peer_mss: u16) -> Self {
        let mtu = Self::new(link_mss, peer_mss);
        Self { current: mtu.ceiling, ..mtu }
    }

    /// The largest data segment for new packets, in bytes.
    pub(crate) fn current(&self) -> u16 {
        self.current
    }

    /// The largest data segment that is known to pass by the default, or by another way: what a probe proved, it proved of
    /// the default (CDP-MTU-8).
    pub(crate) fn limit(&self, is_default: bool) -> u16 {
        if is_default {
            self.current
        } else {
            self.current.min(Self::new(self.ceiling, self.ceiling).current)
        }
    }

    /// [CDP-MTU-7] The default is another way, of which nothing is proved.
    pub(crate) fn change_path(&mut self) {
        *self = Self::new(self.ceiling, self.ceiling);
    }

    /// The search is to begin when there is enough to send; false if there is nothing above the present size.
    pub(crate) fn await_data(&mut self) -> bool {
        self.awaits_data = self.current < self.ceiling;
        self.awaits_data
    }

    /// Whether it is to begin now that so many packets have been sent and so many bytes wait.
    #[inline]
    pub(crate) fn is_worth_a_search(&self, packets_sent: u64, waiting_bytes: usize) -> bool {
        let packet = usize::from(self.current);
        let sent = usize::try_from(packets_sent).unwrap_or(usize::MAX).min(WORTH_PACKETS);
        self.awaits_data && waiting_bytes + sent * packet >= WORTH_PACKETS * packet
    }

    /// Starts the search if there is anything above the present size; `token` is not 0.
    pub(crate) fn begin(&mut self, token: u32) -> bool {
        self.awaits_data = false;
        if self.probe.is_none() && self.current < self.ceiling {
            self.probe = Some(Probe { size: self.ceiling, token, tries: 0, out: false });
        }
        self.probe.is_some()
    }

    /// The size and token of the probe that is to be sent now.
    pub(crate) fn take_probe(&mut self) -> Option<(u16, u32)> {
        let probe = self.probe.as_mut().filter(|probe| !probe.out)?;
        probe.out = true;
        probe.tries += 1;
        Some((probe.size, probe.token))
    }

    /// The token of the short PIN that is to be sent now.
    pub(crate) fn take_question(&mut self) -> Option<u32> {
        let Small::Due(token) = self.small else { return None };
        self.small = Small::Asked(token);
        Some(token)
    }

    /// Whether a search is under way.
    pub(crate) fn is_probing(&self) -> bool {
        self.probe.is_some()
    }

    /// Whether there may be a PIN to send.
    #[inline]
    pub(crate) fn may_have_news(&self) -> bool {
        self.is_probing() || matches!(self.small, Small::Due(_))
    }

    /// Whether the size is below that at the start, so that another search may be worth it later.
    pub(crate) fn has_fallen(&self) -> bool {
        self.current < Self::new(self.ceiling, self.ceiling).current
    }

    /// A token came back; returns the new size if it proves one.
    pub(crate) fn handle_echo(&mut self, token: u32) -> Option<u16> {
        if self.small == Small::Asked(token) {
            self.small_passes();
            return None;
        }
        let probe = self.probe.filter(|probe| probe.token == token && probe.tries > 0)?;
        self.probe = None;
        self.current = probe.size;
        Some(probe.size)
    }

    /// The probe was not answered in time: try again, a smaller size, or stop (CDP-MTU-4: no congestion).
    pub(crate) fn handle_timeout(&mut self, token: u32) -> bool {
        let Some(probe) = self.probe.as_mut() else { return false };
        probe.out = false;
        if probe.tries < TRIES {
            return true;
        }
        let size = probe.size;
        self.probe = STEPS.into_iter().find(|step| *step < size && *step > self.current).map(|size| Probe {
            size,
            token,
            tries: 0,
            out: false,
        });
        self.probe.is_some()
    }

    /// Bytes from which a packet is large in the sense of CDP-MTU-5.
    pub(crate) fn large(&self) -> usize {
        FALLS.into_iter().find(|fall| *fall < self.current).map_or(usize::MAX, usize::from)
    }

    /// Some packet was answered: a large one, or only small ones.
    pub(crate) fn handle_delivery(&mut self, large: bool) {
        if large {
            self.large_losses = 0;
            self.small = Small::Unknown;
        } else if self.large_losses > 0 && self.small != Small::Pass {
            self.small_passes();
        }
    }

    /// Before this nothing may have passed: what was lost then counts once.
    fn small_passes(&mut self) {
        self.small = Small::Pass;
        self.large_losses = 1;
    }

    /// A large packet was lost; returns the new limit if it falls. `token` is that of a PIN that is to ask whether small ones
    /// pass, where that is not known.
    pub(crate) fn handle_large_loss(&mut self, token: u32) -> Option<u16> {
        self.large_losses = self.large_losses.saturating_add(1);
        if self.small != Small::Pass {
            self.small = Small::Due(token);
            return None;
        }
        if self.large_losses < BLACK_HOLE_LOSSES {
            return None;
        }
        // [CDP-MTU-5] the limit for new packets falls to 1024 and then 512
        self.current = FALLS.into_iter().find(|fall| *fall < self.current)?;
        self.large_losses = 0;
        self.small = Small::Unknown;
        self.probe = None;
        Some(self.current)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [CDP-MTU-1] The start is the smaller of the two, unless that is more than a network of MTU 1500 between them carries.
    #[test]
    fn it_starts_at_what_is_likely_to_pass() {
        assert_eq!(Mtu::new(1444, 8_944).current(), 1444);
        assert_eq!(Mtu::new(8_944, 600).current(), 600);
        assert_eq!(Mtu::new(8_972, 1_472).current(), 1472);
        assert_eq!(Mtu::new(65_507, 65_507).current(), 1424);
    }

    /// [CDP-MTU-2] Only the answer to the token raises the size.
    #[test]
    fn only_an_answered_probe_raises_the_size() {
        let mut mtu = Mtu::new(8_944, 8_944);
        assert!(mtu.begin(7));
        assert_eq!(mtu.handle_echo(7), None, "not sent yet");
        assert_eq!(mtu.take_probe(), Some((8_944, 7)));
        assert_eq!(mtu.handle_echo(8), None);
        assert_eq!(mtu.handle_echo(7), Some(8_944));
        assert!(!mtu.begin(9), "nothing is left to find");
    }

    /// [CDP-MTU-2] On one link what both ends carry needs no proof; what shows that less passes is believed there, too.
    #[test]
    fn on_one_link_nothing_is_looked_for() {
        let mut mtu = Mtu::on_one_link(65_507, 65_479);
        assert_eq!((mtu.current(), mtu.limit(true), mtu.limit(false)), (65_479, 65_479, 1_424));
        assert!(!mtu.await_data() && !mtu.begin(7) && !mtu.has_fallen());
        mtu.handle_large_loss(1);
        mtu.handle_delivery(false);
        mtu.handle_large_loss(2);
        assert_eq!(mtu.handle_large_loss(3), Some(1_024));
        assert!(mtu.has_fallen() && mtu.begin(8));
        assert_eq!(mtu.take_probe(), Some((65_479, 8)));
        let mut mtu = Mtu::on_one_link(65_507, 65_479);
        mtu.change_path();
        assert_eq!(mtu.current(), 1_424, "the new default is no such link");
    }

    #[test]
    fn an_unanswered_size_is_tried_three_times_and_then_a_smaller_one() {
        let mut mtu = Mtu::new(9_000, 9_000);
        mtu.begin(1);
        let mut sizes = Vec::new();
        while let Some((size, _)) = mtu.take_probe() {
            sizes.push(size);
            mtu.handle_timeout(1);
        }
        assert_eq!(sizes, [9_000, 9_000, 9_000, 8_924, 8_924, 8_924, 4_052, 4_052, 4_052]);
        assert_eq!(mtu.current(), 1424);
    }

    /// [CDP-MTU-7] A new default begins where an open does, whatever the old one carried or lost.
    #[test]
    fn a_new_default_has_to_prove_its_size() {
        let mut mtu = Mtu::new(8_944, 8_944);
        mtu.begin(7);
        mtu.take_probe();
        assert_eq!(mtu.handle_echo(7), Some(8_944));
        assert_eq!((mtu.limit(true), mtu.limit(false)), (8_944, 1_424));
        mtu.change_path();
        assert_eq!((mtu.limit(true), mtu.limit(false)), (1_424, 1_424));
        assert!(mtu.begin(8));
        mtu.take_probe();
        mtu.change_path();
        assert_eq!(mtu.handle_echo(8), None, "the answer to a probe of the default before");
    }

    /// [CDP-MTU-5] Three losses of large packets while small ones pass: 1024, then 512.
    #[test]
    fn a_black_hole_for_large_packets_lowers_the_limit() {
        let mut mtu = Mtu::new(1444, 1444);
        for limit in [1_024, 512] {
            assert_eq!(mtu.handle_large_loss(1), None);
            mtu.handle_delivery(false);
            assert_eq!(mtu.take_question(), None, "it is known by now");
            assert_eq!(mtu.handle_large_loss(2), None);
            assert_eq!(mtu.handle_large_loss(3), Some(limit));
        }
        assert_eq!(mtu.handle_large_loss(4), None);
        assert!(mtu.has_fallen());
        assert!(mtu.begin(5), "there is a size to be tried later");
        assert_eq!(mtu.take_probe(), Some((1_444, 5)));
        mtu.handle_echo(5);
        assert!(!mtu.has_fallen());
    }

    /// Where only large packets are sent, a short one asks, again and again until there is an answer; only losses after it count.
    #[test]
    fn a_short_pin_asks_whether_small_packets_pass() {
        let mut mtu = Mtu::new(1444, 1444);
        for token in 1..=20 {
            assert_eq!(mtu.handle_large_loss(token), None, "nothing else passes either");
            assert_eq!((mtu.take_question(), mtu.take_question()), (Some(token), None));
        }
        assert_eq!(mtu.handle_echo(19), None, "the answer to a question before");
        assert_eq!(mtu.handle_echo(20), None);
        assert_eq!(mtu.handle_large_loss(21), None);
        assert_eq!(mtu.handle_large_loss(22), Some(1_024));
        mtu.handle_delivery(true);
        mtu.handle_delivery(false);
        for token in 30..33 {
            assert_eq!(
                mtu.handle_large_loss(token),
                None,
                "small ones passed before the large ones were lost"
            );
        }
    }
}
