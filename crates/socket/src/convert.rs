//! Between the words of the engine and those of the face.

#![allow(unused_variables)] // the outline; bodies follow with the engine

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use weft_base::Port;
use weft_engine::{Engine, Listening, Settings, Slot};

use crate::{
    CloseError, CloseResult, ConnectError, ListenError, Message, NodeStats, OpenError, Options, Received,
    RecvError, SendError, SocketStats, Target,
};

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
    todo!()
}

pub(crate) fn listen(
    engine: &Arc<Engine>,
    port: Option<Port>,
    options: &Options,
) -> Result<Arc<Listening>, ListenError> {
    todo!()
}

pub(crate) fn connect(
    engine: &Arc<Engine>,
    target: Target,
    options: &Options,
) -> Result<Arc<Slot>, ConnectError> {
    todo!()
}

pub(crate) fn connect_result(
    engine: &Engine,
    slot: &Arc<Slot>,
    target: Target,
    after: Duration,
) -> Option<Result<(), ConnectError>> {
    todo!()
}

pub(crate) fn send(engine: &Engine, slot: &Arc<Slot>, data: &[u8]) -> Result<usize, SendError> {
    todo!()
}

pub(crate) fn recv(engine: &Engine, slot: &Arc<Slot>, buffer: &mut [u8]) -> Result<Received, RecvError> {
    todo!()
}

pub(crate) fn recv_message(engine: &Engine, slot: &Arc<Slot>) -> Result<Message, RecvError> {
    todo!()
}

pub(crate) fn close_result(engine: &Engine, slot: &Arc<Slot>) -> Option<Result<CloseResult, CloseError>> {
    todo!()
}

pub(crate) fn node_stats(engine: &Engine) -> NodeStats {
    todo!()
}

pub(crate) fn socket_stats(engine: &Engine, slot: &Arc<Slot>) -> SocketStats {
    todo!()
}
