//! Counters as C reads them.

use std::ffi::c_int;
use std::time::Duration;

use weft_socket::{LimitedBy, NodeStats, SocketStats};

use crate::boundary;
use crate::{descriptors, node};

/// `struct cdp_stats`: counters and measures of a connection; `cdp.h` explains each.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)] // field by field as in cdp.h, where they are explained for those who read them
pub struct CdpStats {
    pub rtt_ns: u64,
    pub rtt_min_ns: u64,
    pub rtt_variance_ns: u64,
    pub rto_ns: u64,
    pub congestion_window: u64,
    pub in_flight: u64,
    pub send_window: u64,
    pub receive_window: u64,
    pub mss: u64,
    pub queued_bytes: u64,
    pub bytes_sent: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub messages_sent: u64,
    pub messages_received: u64,
    pub packets_sent: u64,
    pub packets_received: u64,
    pub retransmitted: u64,
    pub lost: u64,
    pub spurious: u64,
    pub timeouts: u64,
    pub duplicates: u64,
    pub out_of_order: u64,
    pub discarded: u64,
    pub discarded_by_peer: u64,
    pub limited_by: u64,
    pub limited_ns: [u64; 4],
}

/// `struct cdp_node_stats`: counters of a node; `cdp.h` explains each.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)] // as above
pub struct CdpNodeStats {
    pub packets_in: u64,
    pub packets_out: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub dropped: u64,
    pub resets_sent: u64,
    pub promised_bytes: u64,
    pub connections: u64,
    pub quiet: u64,
    pub listeners: u64,
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn verdict(limited_by: LimitedBy) -> u64 {
    match limited_by {
        LimitedBy::Application => 0,
        LimitedBy::ReceiverWindow => 1,
        LimitedBy::CongestionWindow => 2,
        LimitedBy::PathLoss => 3,
    }
}

impl From<&SocketStats> for CdpStats {
    fn from(stats: &SocketStats) -> Self {
        Self {
            rtt_ns: nanos(stats.rtt.unwrap_or_default()),
            rtt_min_ns: nanos(stats.rtt_min.unwrap_or_default()),
            rtt_variance_ns: nanos(stats.rtt_variance),
            rto_ns: nanos(stats.rto),
            congestion_window: stats.congestion_window.into(),
            in_flight: stats.in_flight.into(),
            send_window: stats.send_window,
            receive_window: stats.receive_window,
            mss: stats.mss.into(),
            queued_bytes: stats.queued_bytes as u64,
            bytes_sent: stats.bytes_sent,
            bytes_acked: stats.bytes_acked,
            bytes_received: stats.bytes_received,
            messages_sent: stats.messages_sent,
            messages_received: stats.messages_received,
            packets_sent: stats.packets_sent,
            packets_received: stats.packets_received,
            retransmitted: stats.retransmitted,
            lost: stats.lost,
            spurious: stats.spurious,
            timeouts: stats.timeouts,
            duplicates: stats.duplicates,
            out_of_order: stats.out_of_order,
            discarded: stats.discarded,
            discarded_by_peer: stats.discarded_by_peer,
            limited_by: verdict(stats.limited_by),
            limited_ns: stats.limited_time.map(nanos),
        }
    }
}

impl From<&NodeStats> for CdpNodeStats {
    fn from(stats: &NodeStats) -> Self {
        let sum = |count: fn(&weft_socket::PortStats) -> u64| stats.ports.iter().map(count).sum();
        Self {
            packets_in: sum(|port| port.packets_in),
            packets_out: sum(|port| port.packets_out),
            bytes_in: sum(|port| port.bytes_in),
            bytes_out: sum(|port| port.bytes_out),
            dropped: stats.dropped(),
            resets_sent: stats.resets_sent,
            promised_bytes: stats.promised_bytes as u64,
            connections: stats.connections.len() as u64,
            quiet: stats.quiet as u64,
            listeners: stats.listeners.len() as u64,
        }
    }
}

/// Copies the counters of a connection; see `cdp.h`.
///
/// # Safety
/// `stats` is NULL or has `size` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_stats(s: c_int, stats: *mut CdpStats, size: usize) -> c_int {
    boundary::call(|| {
        let found = CdpStats::from(&descriptors::socket(s)?.connected()?.stats());
        // SAFETY: by the contract of this function; the struct is of 8-byte numbers alone.
        unsafe { boundary::write_part(stats, size, &found) }?;
        Ok(0)
    })
}

/// Copies the counters of a node; see `cdp.h`.
///
/// # Safety
/// `stats` is NULL or has `size` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_node_stats(node: c_int, stats: *mut CdpNodeStats, size: usize) -> c_int {
    boundary::call(|| {
        let found = CdpNodeStats::from(&node::named(node)?.stats());
        // SAFETY: by the contract of this function; the struct is of 8-byte numbers alone.
        unsafe { boundary::write_part(stats, size, &found) }?;
        Ok(0)
    })
}
