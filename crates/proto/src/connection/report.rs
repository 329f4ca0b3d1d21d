//! What a connection tells of itself.

use std::time::Duration;

use weft_base::{FlowKey, Instant, NodeId, Service};

use super::Connection;
use crate::close::CloseResult;
use crate::congestion::Controller;
use crate::error::Error;
use crate::lifecycle::State;
use crate::open::Agreed;
use crate::receiver::AckDue;
use crate::stats::{LimitedBy, PathStats, Stats};

impl Connection {
    /// The state.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// The two ends.
    #[must_use]
    pub fn flow(&self) -> FlowKey {
        self.flow
    }

    /// The node at the other end.
    #[must_use]
    pub fn peer(&self) -> NodeId {
        self.flow.remote.node
    }

    /// The service.
    #[must_use]
    pub fn service(&self) -> Service {
        self.config.service
    }

    /// Whether this end called `connect`.
    #[must_use]
    pub fn is_client(&self) -> bool {
        self.active
    }

    /// Whether this is a connection that a listener made and that has not finished its open.
    #[must_use]
    pub fn is_embryo(&self) -> bool {
        !self.active && self.state == State::SynReceived
    }

    /// What the open agreed on; defaults before that.
    #[must_use]
    pub fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// Whether an acknowledgement is owed at once, as after a read that opens the window: poll for it.
    #[must_use]
    pub fn has_urgent_output(&self) -> bool {
        self.receiver.ack_due() >= AckDue::Soon || self.control.reset.is_some() || self.control.pin
    }

    /// Whether everything sent has been acknowledged.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.sender.is_idle() || (self.is_answered() && self.sender.queue.is_empty())
    }

    /// Bytes accepted from the user that the peer has not acknowledged.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        if self.is_answered() { self.sender.queue.bytes() } else { self.sender.buffered() }
    }

    /// Bytes that wait for their first transmission, and whether a full packet is among them.
    #[must_use]
    pub fn waiting(&self) -> (usize, bool) {
        (self.sender.queue.bytes(), self.sender.queue.has_full_packet())
    }

    /// Whether data waits for what the peer answers, or for its time: the window, the congestion controller or its pacer holds it back.
    #[must_use]
    pub fn is_held_back(&self) -> bool {
        self.stats.limited_by != LimitedBy::Application && self.sender.queue.bytes() > 0
    }

    /// How long what was sent waits on the way, and for the peer to look, where a window is full and nothing is being repaired; else zero.
    /// Also where packets are so large that they stay within this host: there they wait for a processor.
    #[must_use]
    pub fn queueing(&self) -> Duration {
        let is_full =
            matches!(self.stats.limited_by, LimitedBy::ReceiverWindow | LimitedBy::CongestionWindow);
        if is_full && !self.sender.has_large_packets() { self.sender.rtt.queueing() } else { Duration::ZERO }
    }

    /// The connection is over and sends nothing more: its entry can go.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.state == State::Closed && self.control.reset.is_none() && self.control.echo.is_none()
    }

    /// Why the connection ended, if it did so without an ordinary close.
    #[must_use]
    pub fn error(&self) -> Option<Error> {
        self.error
    }

    /// The result of the close, once it is known (CDP-ST-E).
    #[must_use]
    pub fn close_result(&self) -> Option<CloseResult> {
        match self.state {
            State::Quiet | State::Closed => {
                Some(CloseResult { discarded: self.receiver.discarded(), ..self.result })
            }
            State::SynSent | State::SynReceived | State::Established | State::FinWait | State::CloseWait => {
                None
            }
        }
    }

    /// When a current packet last came from the peer.
    #[must_use]
    pub fn heard_at(&self) -> Instant {
        self.heard_at
    }

    /// How long no current packet has come from the peer: until `now`, or until the end (CDP-TMR-3).
    #[must_use]
    pub fn silence(&self, now: Instant) -> Duration {
        self.ended_at.unwrap_or(now).saturating_since(self.heard_at)
    }

    /// The path by which the peer was last heard, where there are several (CDP-TMR-3).
    #[must_use]
    pub fn heard_by(&self) -> Option<u8> {
        self.arrivals.latest()
    }

    /// Bytes that arrived of messages of several packets, are not read, and lie beyond what the window promises (CDP-DG-7): they are
    /// to count against the memory of the process as well (CDP-WND-2).
    #[must_use]
    #[inline]
    pub fn bytes_beyond_window(&self) -> usize {
        self.receiver.bytes_beyond_window(self.config.link_mss)
    }

    /// Bytes of data that the window promises room for at most.
    #[must_use]
    pub fn window_bytes(&self) -> usize {
        self.config.receive_slots as usize * usize::from(self.config.link_mss)
    }

    /// The most bytes that may lie here for the user to read, as they came in packets of the link.
    #[must_use]
    pub fn unread_bytes_max(&self) -> usize {
        self.receiver.inbox().slots_used() as usize * usize::from(self.config.link_mss)
    }

    /// Whether its packets stay within this host, for all that their size and the time they take tell.
    #[inline]
    #[must_use]
    pub fn is_near(&self) -> bool {
        self.sender.is_near()
    }

    /// Whether it is near and has a full packet in flight, or as much in smaller ones.
    #[must_use]
    pub fn has_near_packet(&self) -> bool {
        self.sender.has_near_packet()
    }

    /// So many connections have packets in flight within this host now, where there is room for `room` large ones, and so many had some `lately`.
    /// Of each at least two may be in flight from now on, and at most the eight that one may have there by itself; of many none lies in pages.
    pub fn share_near(&mut self, connections: u32, room: u32, lately: u32) {
        self.sender.share_near(connections, room, lately);
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self, now: Instant) -> Stats {
        let mut stats = self.stats;
        self.verdicts.clone().settle(now, &mut stats);
        stats.discarded = u64::from(self.receiver.discarded());
        stats
    }

    /// Measures of the path and the windows.
    #[must_use]
    pub fn path_stats(&self) -> PathStats {
        let sender = &self.sender;
        PathStats {
            srtt: sender.rtt.srtt(),
            min_rtt: sender.rtt.min_rtt(),
            rtt_var: sender.rtt.variance(),
            rto: sender.rtt.rto(),
            congestion_window: sender.congestion.window(),
            pacing_rate: sender.congestion.pacing_rate(),
            controller: sender.congestion.name(),
            in_flight: sender.flight.in_flight(),
            send_window: if sender.nxt().is_before(sender.edge()) {
                sender.edge().distance_from(sender.nxt())
            } else {
                0
            },
            receive_window: self.receiver.window(),
            mss: sender.mtu.current(),
            queued_bytes: sender.queue.bytes(),
        }
    }
}
