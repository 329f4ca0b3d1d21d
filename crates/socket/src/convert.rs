//! Between the words of the engine and those of the face.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weft_base::{Port, Service, limits};
use weft_engine::Gather;
use weft_engine::{
    Config, Engine, Error, Interest, KeepAlive, Listening, Settings, Slot, State, Waited, congestion,
};

use crate::{
    CloseError, CloseResult, Coalescing, CongestionControl, ConnectError, Counter, EndReason, Ended,
    LastPath, LimitedBy, ListenError, ListenerStats, Message, NodeStats, OpenError, Options, PortStats,
    Received, RecvError, SendError, SocketStats, Target,
};

/// The least RTO_INIT: with less the timers of an open would be due again and again.
const RTO_LEAST: Duration = Duration::from_millis(2);
/// SYN_TIME (section 12).
pub(crate) const SYN_TIME: Duration = Duration::from_secs(63);

/// A time-out as an atomic keeps it: 0 for none.
pub(crate) fn nanos(timeout: Option<Duration>) -> u64 {
    timeout.map_or(0, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX).max(1))
}

/// The reverse of [`nanos`].
pub(crate) fn nanos_opt(nanos: u64) -> Option<Duration> {
    (nanos != 0).then(|| Duration::from_nanos(nanos))
}

pub(crate) fn open(settings: Settings, bind: SocketAddr) -> Result<Engine, OpenError> {
    use std::io::ErrorKind as Kind;
    Engine::open(settings).map_err(|source| {
        if matches!(source.kind(), Kind::AddrInUse | Kind::AddrNotAvailable | Kind::PermissionDenied) {
            OpenError::Bind { at: bind, source }
        } else if matches!(source.kind(), Kind::InvalidInput | Kind::Unsupported) {
            OpenError::Invalid { why: source.to_string() }
        } else {
            OpenError::System { what: "what a node needs", source }
        }
    })
}

/// The engine takes the size of packets down to what its links carry to the peer.
fn config(options: &Options) -> Config {
    let mut config = Config::new(options.service, options.mss.unwrap_or(limits::MSS_MAX));
    config.integrity = options.integrity;
    config.receive_slots = options.receive_slots;
    config.send_bytes = options.send_bytes;
    config.coalesce = options.service == Service::Datagram && options.coalescing != Coalescing::Off;
    config.confirm = options.confirm;
    config.congestion = match options.congestion {
        CongestionControl::Cubic => congestion::Kind::Cubic,
        CongestionControl::Model => congestion::Kind::Model,
        CongestionControl::Fixed { .. } => congestion::Kind::Fixed,
    };
    if let CongestionControl::Fixed { packets } = options.congestion {
        config.congestion_settings.fixed_window = packets;
    }
    if options.service == Service::Datagram {
        config.message_bytes = Some(options.message_bytes);
    }
    if let Some((interval, expiry)) = options.keepalive {
        config.keep_alive = KeepAlive { interval, expiry };
    }
    config.syn_time = options.connect_timeout.unwrap_or(config.syn_time);
    config.fin_give_up = options.close_timeout.unwrap_or(config.fin_give_up);
    if let Some(time) = options.give_up {
        config.give_up_time = time;
        // [CDP-TMR-4] a give-up time holds 20 tries, as long as they are no denser than those of an open
        config.rto_max = config.rto_max.min(time / 20).max(Duration::from_millis(250));
    }
    config.ack_delay = options.ack_delay.unwrap_or(config.ack_delay);
    config.rto_init = options.rto_init.map_or(config.rto_init, |timeout| timeout.max(RTO_LEAST));
    config.accept_limit = options.accept_limit;
    match options.no_progress {
        Some(Duration::MAX) => config.no_progress = None,
        Some(limit) => config.no_progress = Some(limit),
        None => {}
    }
    config
}

/// Small writes of a stream may always share packets; datagrams as the user wants it.
fn gather(options: &Options) -> Gather {
    match options.coalescing {
        _ if options.service == Service::Stream => Gather::WhenBusy,
        Coalescing::Off => Gather::Off,
        Coalescing::WhenBusy => Gather::WhenBusy,
        Coalescing::Delay(delay) => Gather::Delay(delay),
    }
}

pub(crate) fn listen(
    engine: &Arc<Engine>,
    port: Option<Port>,
    options: &Options,
) -> Result<Arc<Listening>, ListenError> {
    engine.listen(port, config(options), gather(options)).map_err(|error| match error {
        weft_engine::ListenError::InUse(port) => ListenError::InUse(port),
        weft_engine::ListenError::NoPortFree => ListenError::NoPortFree,
        weft_engine::ListenError::Down => ListenError::NodeDown,
        weft_engine::ListenError::System(_) => ListenError::NoRoom,
    })
}

pub(crate) fn connect(
    engine: &Arc<Engine>,
    target: Target,
    options: &Options,
) -> Result<Arc<Slot>, ConnectError> {
    use weft_engine::ConnectError as E;
    let (node, at) = match target {
        Target::Address(address) => (Some(address.node), None),
        Target::Underlay { at, .. } => (None, Some(at)),
        Target::Both { address, at } => (Some(address.node), Some(at)),
    };
    let there = weft_engine::Target { node, at, port: target.port() };
    let config = config(options);
    engine.connect(there, Port::new(options.local_port), config, gather(options)).map_err(|error| match error
    {
        E::NoRoute(node) => ConnectError::NoRoute(node),
        E::Stranger(at) => ConnectError::Stranger(at),
        E::InUse(port) => ConnectError::InUse(port),
        E::NoPortFree => ConnectError::NoPortFree(target),
        E::ToItself(address) => ConnectError::ToItself(address),
        E::NoWay(source) => ConnectError::NoWay { target, source },
        E::NoRoom | E::System(_) => ConnectError::NoRoom,
        E::Down => ConnectError::NodeDown,
    })
}

/// The outcome of the open, once it is decided.
pub(crate) fn connect_result(
    engine: &Engine,
    slot: &Arc<Slot>,
    target: Target,
    after: Duration,
) -> Option<Result<(), ConnectError>> {
    let error = match engine.connect_result(slot)? {
        Ok(()) => return Some(Ok(())),
        Err(error) => error,
    };
    Some(Err(match error {
        Error::Absent => ConnectError::Absent(target),
        Error::TimedOut(_) | Error::Gone => ConnectError::TimedOut { target, after },
        Error::Aborted => ConnectError::NodeDown,
        Error::NoRoom => ConnectError::NoRoom,
        Error::Refused(reason) | Error::Reset(reason) | Error::Violation(reason) => {
            let reason = EndReason::from_code(reason.0);
            if reason == EndReason::Service {
                ConnectError::WrongService { target, asked: slot.service() }
            } else {
                ConnectError::Refused { target, reason, detail: None }
            }
        }
    }))
}

fn end_reason(error: Error) -> EndReason {
    match error {
        Error::Refused(reason) | Error::Reset(reason) | Error::Violation(reason) => {
            EndReason::from_code(reason.0)
        }
        Error::Absent => EndReason::Refused,
        Error::Gone => EndReason::Died,
        Error::TimedOut(Waited::Open | Waited::Acknowledgement) => EndReason::GaveUp,
        Error::TimedOut(Waited::KeepAlive) => EndReason::Idle,
        Error::TimedOut(Waited::Reader) => EndReason::Stalled,
        Error::NoRoom => EndReason::NoRoom,
        Error::Aborted => EndReason::Aborted,
    }
}

/// [CDP-TMR-3] A time-out tells when the peer was last heard, and through which path.
fn ended(engine: &Engine, slot: &Slot, error: Error) -> Ended {
    let contact = matches!(error, Error::TimedOut(_) | Error::Gone).then(|| engine.last_contact(slot));
    Ended {
        peer: slot.key().remote,
        reason: end_reason(error),
        silent_for: contact.map(|contact| contact.silence),
        last_path: contact.map(|contact| LastPath {
            to: contact.sent_to,
            sent_through: contact.sent_through,
            heard_through: contact.heard_through,
        }),
    }
}

pub(crate) fn send(
    engine: &Engine,
    slot: &Arc<Slot>,
    data: &[u8],
    may_wait: impl FnOnce() -> bool,
) -> Result<usize, SendError> {
    engine.send_or_wait(slot, data, may_wait).map_err(|error| send_error(engine, slot, data.len(), error))
}

pub(crate) fn send_lent(engine: &Engine, slot: &Arc<Slot>, data: &Bytes) -> Result<usize, SendError> {
    engine.send_lent(slot, data).map_err(|error| send_error(engine, slot, data.len(), error))
}

fn send_error(engine: &Engine, slot: &Slot, len: usize, error: weft_engine::SendError) -> SendError {
    use weft_engine::SendError as E;
    match error {
        E::WouldBlock if !slot.is_ready(Interest::Connected) => SendError::NotConnected,
        E::WouldBlock => SendError::WouldBlock,
        E::TooBig(limit) => SendError::TooLong { len, limit },
        E::Closed => SendError::Closed,
        E::Failed(error) => SendError::Ended(ended(engine, slot, error)),
    }
}

pub(crate) fn recv_error(engine: &Engine, slot: &Slot, error: weft_engine::RecvError) -> RecvError {
    match error {
        weft_engine::RecvError::WouldBlock => RecvError::WouldBlock,
        weft_engine::RecvError::Closed => RecvError::NotConnected,
        weft_engine::RecvError::Failed(error) => RecvError::Ended(ended(engine, slot, error)),
    }
}

#[inline]
pub(crate) fn received(slot: &Slot, received: &weft_engine::Received) -> Result<Received, RecvError> {
    if received.end_of_file && slot.service() == Service::Datagram {
        return Err(RecvError::EndOfFile);
    }
    Ok(Received { len: received.len, truncated: received.truncated })
}

#[inline]
pub(crate) fn message(message: Option<weft_engine::Message>) -> Result<Message, RecvError> {
    message.map(Message::new).ok_or(RecvError::EndOfFile)
}

/// The result of a close, once it is known; the error if the connection had ended before.
pub(crate) fn close_result(engine: &Engine, slot: &Arc<Slot>) -> Option<Result<CloseResult, CloseError>> {
    let (result, error) = engine.close_result(slot)?;
    if let Some(error) = error {
        return Some(Err(CloseError::Ended(ended(engine, slot, error))));
    }
    Some(Ok(CloseResult {
        confirmed: result.confirmed,
        discarded_here: result.discarded,
        discarded_by_peer: result.discarded_by_peer,
        undelivered: result.undelivered,
        reason: result.reason.map_or(EndReason::Done, |reason| EndReason::from_code(reason.0)),
    }))
}

fn state_name(state: State) -> &'static str {
    match state {
        State::SynSent => "SYN_SENT",
        State::SynReceived => "SYN_RCVD",
        State::Established => "ESTABLISHED",
        State::FinWait => "FIN_WAIT",
        State::CloseWait => "CLOSE_WAIT",
        State::Quiet => "QUIET",
        State::Closed => "CLOSED",
    }
}

fn limited_by(verdict: weft_engine::LimitedBy) -> LimitedBy {
    match verdict {
        weft_engine::LimitedBy::Application => LimitedBy::Application,
        weft_engine::LimitedBy::ReceiverWindow => LimitedBy::ReceiverWindow,
        weft_engine::LimitedBy::CongestionWindow => LimitedBy::CongestionWindow,
        weft_engine::LimitedBy::PathLoss => LimitedBy::PathLoss,
    }
}

pub(crate) fn socket_stats(stats: &weft_engine::SlotStats) -> SocketStats {
    let (counters, path) = (&stats.counters, &stats.path);
    SocketStats {
        state: state_name(stats.state),
        service: stats.service,
        local: stats.key.local,
        peer: stats.key.remote,
        underlay: stats.to,
        silence: stats.contact.silence,
        sent_through: stats.contact.sent_through,
        heard_through: stats.contact.heard_through,
        rtt: path.srtt,
        rtt_min: path.min_rtt,
        rtt_variance: path.rtt_var,
        rto: path.rto,
        congestion: path.controller,
        congestion_window: path.congestion_window,
        pacing_rate: path.pacing_rate,
        in_flight: path.in_flight,
        send_window: path.send_window,
        receive_window: path.receive_window,
        mss: path.mss,
        queued_bytes: path.queued_bytes,
        bytes_sent: counters.bytes_sent,
        bytes_acked: counters.bytes_acked,
        bytes_received: counters.bytes_received,
        messages_sent: counters.messages_sent,
        messages_received: counters.messages_received,
        packets_sent: counters.packets_sent,
        packets_received: counters.packets_received,
        retransmitted: counters.retransmitted,
        lost: counters.lost,
        spurious: counters.spurious,
        timeouts: counters.timeouts,
        duplicates: counters.duplicates,
        out_of_order: counters.out_of_order,
        discarded: counters.discarded,
        discarded_by_peer: counters.discarded_by_peer,
        limited_by: limited_by(counters.limited_by),
        limited_time: counters.limited_time_ns.map(Duration::from_nanos),
    }
}

fn port_stats(port: &weft_engine::PortStats) -> PortStats {
    PortStats {
        link: port.link.clone(),
        underlay: port.local,
        turns: port.turns,
        busy_turns: port.busy_turns,
        packets_in: port.counters.received_packets,
        packets_out: port.counters.sent_packets,
        bytes_in: port.counters.received_bytes,
        bytes_out: port.counters.sent_bytes,
        receive_calls: port.counters.receive_calls,
        send_calls: port.counters.send_calls,
        receive_overflows: port.counters.receive_overflows,
        sleeps: port.sleeps,
        backlogged: port.backlogged,
        stuck_drops: port.stuck_drops,
    }
}

pub(crate) fn node_stats(stats: &weft_engine::EngineStats) -> NodeStats {
    NodeStats {
        node: stats.node,
        underlay: stats.underlay,
        ports: stats.ports.iter().map(port_stats).collect(),
        drops: stats.drops.iter().map(|&(name, count)| Counter { name, count }).collect(),
        resets_sent: stats.resets_sent,
        promised_bytes: stats.promised_bytes,
        quiet: stats.quiet,
        sides: stats.sides.clone(),
        listeners: stats
            .listeners
            .iter()
            .map(|listener| ListenerStats {
                address: listener.address,
                service: listener.service,
                waiting: listener.waiting,
                half_open: listener.half_open,
                accepted: listener.accepted,
            })
            .collect(),
        connections: stats.connections.iter().map(socket_stats).collect(),
    }
}
