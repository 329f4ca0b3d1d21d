//! A socket of the datagram service: whole messages with boundaries.

use std::ops::Deref;

use weft_base::Service;

use crate::stream::WrongService;
use crate::{Message, RecvError, SendError, Socket};

/// A [`Socket`] of the datagram service, where each send is one message and each receive gives one whole.
///
/// ```
/// use weft_socket::{Datagram, Node, Options};
///
/// let server = Node::builder().bind("127.0.0.1:0".parse()?).open()?;
/// let client = Node::builder().bind("127.0.0.1:0".parse()?).open()?;
/// let listener = server.listen(0, &Options::datagram())?;
/// let target = (server.underlay(), listener.local_address().port);
///
/// let left = Datagram::try_from(client.connect(target, &Options::datagram())?)?;
/// let right = Datagram::try_from(listener.accept()?)?;
/// left.send_message(&[7; 100_000])?; // longer than a packet
/// left.send_message(&[])?; // and an empty one
/// assert_eq!(right.next_message()?.map(|message| message.len()), Some(100_000));
/// assert_eq!(right.next_message()?.map(|message| message.len()), Some(0));
/// left.close_start();
/// assert!(right.next_message()?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Datagram {
    socket: Socket,
}

impl Datagram {
    /// Sends one message, whole or not at all (CDP-DG-1).
    ///
    /// # Errors
    /// As [`Socket::send`].
    pub fn send_message(&self, message: &[u8]) -> Result<(), SendError> {
        self.socket.send(message).map(drop)
    }

    /// Takes the next message, or `None` when the peer closed and everything was read.
    ///
    /// # Errors
    /// As [`Socket::recv_message`].
    pub fn next_message(&self) -> Result<Option<Message>, RecvError> {
        match self.socket.recv_message() {
            Ok(message) => Ok(Some(message)),
            Err(RecvError::EndOfFile) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The socket.
    #[must_use]
    pub fn into_socket(self) -> Socket {
        self.socket
    }
}

impl TryFrom<Socket> for Datagram {
    type Error = WrongService;

    fn try_from(socket: Socket) -> Result<Self, WrongService> {
        match socket.service() {
            Service::Datagram => Ok(Self { socket }),
            Service::Stream => Err(WrongService(socket)),
        }
    }
}

impl Deref for Datagram {
    type Target = Socket;

    fn deref(&self) -> &Socket {
        &self.socket
    }
}
