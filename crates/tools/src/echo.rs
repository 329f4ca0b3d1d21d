//! The echo service: whatever arrives goes back, message for message or byte for byte.

use std::io;
use std::thread;

use weft_base::Service;
use weft_socket::{Listener, RecvError, SendError, Socket};

/// Bytes taken from a stream at a time.
const BUFFER_BYTES: usize = 64 << 10;

/// Echoes on every connection that comes, each on a thread of its own, until the listener is closed.
pub fn serve(listener: &Listener, on_end: impl Fn(&Socket, io::Result<()>) + Clone + Send + 'static) {
    for accepted in listener.incoming() {
        let Ok(socket) = accepted else { continue };
        let on_end = on_end.clone();
        let spawned = thread::Builder::new().name("weft-echo".into()).spawn(move || {
            let result = connection(&socket);
            // The peer has closed or is gone: nothing waits for this result.
            socket.close_start();
            on_end(&socket, result);
        });
        drop(spawned);
    }
}

/// Echoes on one connection until the peer closes it.
///
/// # Errors
/// When the connection ends by anything but a close.
pub fn connection(socket: &Socket) -> io::Result<()> {
    let echoed = match socket.service() {
        Service::Datagram => messages(socket),
        Service::Stream => bytes(socket),
    };
    match echoed {
        Ok(()) | Err(EchoError::Recv(RecvError::EndOfFile) | EchoError::Send(SendError::Closed)) => Ok(()),
        Err(EchoError::Recv(error)) => Err(error.into()),
        Err(EchoError::Send(error)) => Err(error.into()),
    }
}

enum EchoError {
    Recv(RecvError),
    Send(SendError),
}

fn messages(socket: &Socket) -> Result<(), EchoError> {
    let mut message = Vec::new();
    loop {
        socket.recv_into(&mut message).map_err(EchoError::Recv)?;
        socket.send(&message).map_err(EchoError::Send)?;
    }
}

fn bytes(socket: &Socket) -> Result<(), EchoError> {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let len = socket.recv(&mut buffer).map_err(EchoError::Recv)?;
        if len == 0 {
            return Ok(());
        }
        let mut rest = &buffer[..len];
        while !rest.is_empty() {
            // It is less than all when the send time-out passed meanwhile.
            let sent = socket.send(rest).map_err(EchoError::Send)?;
            rest = &rest[sent..];
        }
    }
}
