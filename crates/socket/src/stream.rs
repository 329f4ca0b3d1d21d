//! A socket of the stream service as `std::io` knows streams.

use std::io::{self, Read, Write};
use std::ops::Deref;

use weft_base::Service;

use crate::{RecvError, Socket};

/// A [`Socket`] of the stream service that reads and writes like a file.
///
/// ```
/// use std::io::{Read, Write};
/// use weft_socket::{Node, Options, Stream};
///
/// let server = Node::builder().bind("127.0.0.1:0".parse()?).open()?;
/// let client = Node::builder().bind("127.0.0.1:0".parse()?).open()?;
/// let listener = server.listen(0, &Options::stream())?;
/// let target = (server.underlay(), listener.local_address().port);
///
/// let mut writer = Stream::try_from(client.connect(target, &Options::stream())?)?;
/// let mut reader = Stream::try_from(listener.accept()?)?;
/// writeln!(writer, "a line")?;
/// writer.close_start();
///
/// let mut text = String::new();
/// reader.read_to_string(&mut text)?;
/// assert_eq!(text, "a line\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Stream {
    socket: Socket,
}

/// The socket is of the other service; it is handed back.
#[derive(Clone, Debug)]
pub struct WrongService(pub Socket);

impl std::fmt::Display for WrongService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.service() {
            Service::Datagram => {
                f.write_str("the socket is of the datagram service; open it with Options::stream()")
            }
            Service::Stream => {
                f.write_str("the socket is of the stream service; open it with Options::datagram()")
            }
        }
    }
}

impl std::error::Error for WrongService {}

impl Stream {
    /// The socket.
    #[must_use]
    pub fn into_socket(self) -> Socket {
        self.socket
    }
}

impl TryFrom<Socket> for Stream {
    type Error = WrongService;

    fn try_from(socket: Socket) -> Result<Self, WrongService> {
        match socket.service() {
            Service::Stream => Ok(Self { socket }),
            Service::Datagram => Err(WrongService(socket)),
        }
    }
}

impl Deref for Stream {
    type Target = Socket;

    fn deref(&self) -> &Socket {
        &self.socket
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.socket.recv(buffer) {
            Ok(len) => Ok(len),
            Err(RecvError::EndOfFile) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if data.is_empty() {
            return Ok(0);
        }
        Ok(self.socket.send(data)?)
    }

    /// Makes what was written leave; does not wait for the peer.
    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush();
        Ok(())
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for Stream {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        (&*self).write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}
