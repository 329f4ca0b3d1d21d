//! What a socket's descriptor names, from its making to an open connection.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weft_socket::{ConnectError, Listener, Node, Readiness, Service, Socket};

use crate::addr::CdpAddr;
use crate::boundary::Failure;
use crate::descriptors::{Named, Place};
use crate::node;
use crate::options::{self, Values};
use crate::socket::{CDP_DATAGRAM, CDP_STREAM};

/// What a socket's descriptor names.
#[derive(Debug)]
pub(crate) struct Entry {
    node: Node,
    service: Service,
    inner: Mutex<Inner>,
}

/// Held for moments only, never across a call that waits.
#[derive(Debug)]
struct Inner {
    state: State,
    /// The local port that bind chose; 0 for any.
    port: u16,
    values: Values,
    /// Which connect of the socket it is that is under way or was last.
    attempt: u64,
    /// Readiness descriptors handed out, by condition; they live as long as the socket.
    readiness: [Option<Readiness>; 3],
}

/// Where a socket stands.
#[derive(Clone, Debug)]
pub(crate) enum State {
    Fresh,
    Connecting(Socket),
    Connected(Socket),
    Listening(Arc<Listener>),
    Closed,
}

fn already_connected() -> Failure {
    Failure::new(libc::EISCONN, "the socket is connected already; make another one")
}

fn closed() -> Failure {
    Failure::new(libc::EBADF, "the socket was closed by another thread")
}

fn in_progress() -> Failure {
    Failure::new(libc::EALREADY, "the connection is being opened; wait until the socket is writable")
}

impl Entry {
    /// An entry that stands at `state`.
    pub(crate) fn new(node: Node, service: Service, state: State, port: u16, values: Values) -> Arc<Self> {
        let readiness = [const { None }; 3];
        Arc::new(Self {
            node,
            service,
            inner: Mutex::new(Inner { state, port, values, attempt: 0, readiness }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A share of where the socket stands.
    pub(crate) fn state(&self) -> State {
        self.lock().state.clone()
    }

    /// Whether messages have boundaries.
    pub(crate) fn is_datagram(&self) -> bool {
        self.service == Service::Datagram
    }

    /// The connection, open or being opened.
    pub(crate) fn connected(&self) -> Result<Socket, Failure> {
        match self.state() {
            State::Connecting(socket) | State::Connected(socket) => Ok(socket),
            State::Closed => Err(closed()),
            State::Fresh | State::Listening(_) => Err(Failure::not_connected()),
        }
    }

    /// Ends the entry, and gives what it named.
    pub(crate) fn take(&self) -> State {
        std::mem::replace(&mut self.lock().state, State::Closed)
    }

    /// The readiness descriptor of the condition with this index, made by `make` the first time.
    pub(crate) fn readiness(
        &self,
        index: usize,
        make: impl FnOnce() -> Result<Readiness, Failure>,
    ) -> Result<Readiness, Failure> {
        let known = self.lock().readiness.get(index).and_then(Clone::clone);
        if let Some(readiness) = known {
            return Ok(readiness);
        }
        let made = make()?;
        let mut inner = self.lock();
        let place = inner.readiness.get_mut(index).ok_or_else(|| Failure::invalid("no such condition"))?;
        Ok(place.get_or_insert(made).clone())
    }

    /// Chooses the local port.
    pub(crate) fn bind(&self, addr: &CdpAddr) -> Result<(), Failure> {
        if addr.node()?.is_some_and(|node| node != self.node.id()) {
            let sentence = format!("node {:#x} is not this node, which is {}", addr.node, self.node.id());
            return Err(Failure::new(libc::EADDRNOTAVAIL, sentence));
        }
        let mut inner = self.lock();
        match inner.state {
            State::Fresh => inner.port = addr.port,
            State::Closed => return Err(closed()),
            State::Connecting(_) | State::Connected(_) | State::Listening(_) => {
                return Err(Failure::invalid(
                    "the socket has its address already; bind before listen or connect",
                ));
            }
        }
        Ok(())
    }

    /// Begins to take connections.
    pub(crate) fn listen(&self, accept_limit: c_int) -> Result<(), Failure> {
        let mut inner = self.lock();
        match inner.state {
            State::Fresh => {}
            State::Closed => return Err(closed()),
            State::Connecting(_) | State::Connected(_) | State::Listening(_) => {
                return Err(Failure::invalid("the socket listens or is connected already; make another one"));
            }
        }
        let accept_limit = usize::try_from(accept_limit.max(1)).unwrap_or(1);
        let options = inner.values.options(self.service, inner.port, accept_limit);
        let listener = self.node.listen(inner.port, &options)?;
        listener.set_nonblocking(inner.values.get(options::NONBLOCK) != 0);
        inner.state = State::Listening(Arc::new(listener));
        Ok(())
    }

    /// Takes the next connection, and gives its descriptor.
    pub(crate) fn accept(&self) -> Result<(c_int, Socket), Failure> {
        let listener = match self.state() {
            State::Listening(listener) => listener,
            State::Closed => return Err(closed()),
            State::Fresh | State::Connecting(_) | State::Connected(_) => {
                return Err(Failure::invalid("the socket does not listen; call cdp_listen first"));
            }
        };
        // What has been accepted would be closed again if there were no descriptor for it.
        let place = Place::reserve()?;
        let socket = listener.accept()?;
        let values = self.lock().values.clone();
        socket.set_nonblocking(values.get(options::NONBLOCK) != 0);
        socket.set_send_timeout(values.timeout(options::SEND_TIMEOUT));
        socket.set_recv_timeout(values.timeout(options::RECV_TIMEOUT));
        let port = socket.local_address().port.get();
        let state = State::Connected(socket.clone());
        let entry = Self::new(self.node.clone(), self.service, state, port, values);
        Ok((place.fill(Named::Socket(entry)), socket))
    }

    /// Connects; waits for the result unless the socket does not wait.
    pub(crate) fn connect(&self, addr: &CdpAddr) -> Result<(), Failure> {
        let (socket, attempt) = self.connect_start(addr)?;
        self.connect_finish(&socket, attempt)
    }

    /// Sends the first packet, or gives a connect that is decided.
    fn connect_start(&self, addr: &CdpAddr) -> Result<(Socket, u64), Failure> {
        let mut inner = self.lock();
        let is_nonblocking = inner.values.get(options::NONBLOCK) != 0;
        match &inner.state {
            State::Fresh => {}
            State::Connecting(socket) if socket.is_writable() => return Ok((socket.clone(), inner.attempt)),
            State::Connecting(_) => return Err(in_progress()),
            State::Connected(_) => return Err(already_connected()),
            State::Listening(_) => {
                return Err(Failure::invalid("the socket listens; make another one to connect"));
            }
            State::Closed => return Err(closed()),
        }
        let options = inner.values.options(self.service, inner.port, 1);
        let socket = self.node.connect_start(addr.target()?, &options)?;
        socket.set_nonblocking(is_nonblocking);
        inner.state = State::Connecting(socket.clone());
        inner.attempt += 1;
        Ok((socket, inner.attempt))
    }

    /// Waits for the result of a connect unless the socket does not wait, and takes it up, unless another thread has.
    fn connect_finish(&self, socket: &Socket, attempt: u64) -> Result<(), Failure> {
        let outcome = socket.connect_finish();
        let mut inner = self.lock();
        if matches!(outcome, Err(ConnectError::InProgress)) {
            return outcome.map_err(Failure::from);
        }
        let is_open = match inner.state {
            State::Closed => return Err(closed()),
            State::Connecting(_) => inner.attempt == attempt,
            State::Fresh | State::Connected(_) | State::Listening(_) => false,
        };
        if is_open && outcome.is_ok() {
            inner.state = State::Connected(socket.clone());
        } else if is_open {
            inner.state = State::Fresh;
            inner.readiness = [const { None }; 3];
        }
        outcome.map_err(Failure::from)
    }

    /// The errno of a connect that did not wait, once; 0 while it goes on and after it went well.
    fn pending_error(&self) -> c_int {
        let (state, attempt) = {
            let inner = self.lock();
            (inner.state.clone(), inner.attempt)
        };
        let State::Connecting(socket) = state else { return 0 };
        let outcome = if socket.is_writable() { self.connect_finish(&socket, attempt) } else { Ok(()) };
        outcome.err().filter(|failure| failure.errno != libc::EINPROGRESS).map_or(0, |failure| failure.errno)
    }

    /// Sets an option.
    pub(crate) fn set(&self, number: c_int, value: i64) -> Result<(), Failure> {
        let row = options::row(number)?;
        let mut inner = self.lock();
        if row.is_first && !matches!(inner.state, State::Fresh) {
            let sentence = format!("{} is part of the handshake; set it before listen or connect", row.name);
            return Err(Failure::invalid(sentence));
        }
        inner.values.set(row, value)?;
        let timeout = |number| inner.values.timeout(number);
        match (&inner.state, number) {
            (State::Connecting(socket) | State::Connected(socket), options::NONBLOCK) => {
                socket.set_nonblocking(value != 0);
            }
            (State::Connecting(socket) | State::Connected(socket), _) => {
                socket.set_send_timeout(timeout(options::SEND_TIMEOUT));
                socket.set_recv_timeout(timeout(options::RECV_TIMEOUT));
            }
            (State::Listening(listener), options::NONBLOCK) => listener.set_nonblocking(value != 0),
            (State::Listening(listener), _) => listener.set_accept_timeout(timeout(options::RECV_TIMEOUT)),
            (State::Fresh | State::Closed, _) => {}
        }
        Ok(())
    }

    /// The value of an option.
    pub(crate) fn get(&self, number: c_int) -> Result<i64, Failure> {
        options::row(number)?;
        Ok(match (number, self.service) {
            (options::SERVICE, Service::Datagram) => CDP_DATAGRAM.into(),
            (options::SERVICE, Service::Stream) => CDP_STREAM.into(),
            (options::ERROR, _) => self.pending_error().into(),
            _ => self.lock().values.get(number),
        })
    }

    /// How long a close waits.
    pub(crate) fn close_timeout(&self) -> Option<Duration> {
        self.lock().values.timeout(options::CLOSE_TIMEOUT)
    }

    /// This end.
    pub(crate) fn local(&self) -> CdpAddr {
        match self.state() {
            State::Connecting(socket) | State::Connected(socket) => socket.local_address().into(),
            State::Listening(listener) => listener.local_address().into(),
            State::Fresh | State::Closed => {
                CdpAddr { port: self.lock().port, ..node::number_only(self.node.id()) }
            }
        }
        .with_underlay(self.node.underlay())
    }
}
