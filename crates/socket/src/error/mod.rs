//! One small set of errors per operation, each with its errno (specification section 16).

mod connect;
mod end;
mod listen;
mod node;
mod transfer;

use std::io;

use crate::ResolveError;

pub use connect::ConnectError;
pub use end::{CloseError, Ended, LastPath};
pub use listen::{AcceptError, ListenError};
pub use node::OpenError;
pub use transfer::{RecvError, SendError};

/// The kind that `std` gives an errno, where it has one.
pub(crate) fn kind_of(errno: i32) -> io::ErrorKind {
    io::Error::from_raw_os_error(errno).kind()
}

macro_rules! into_io {
    ($($error:ty),*) => {$(
        impl std::error::Error for $error {}

        impl From<$error> for io::Error {
            /// Keeps the kind of the errno and the sentence of the error.
            fn from(error: $error) -> Self {
                Self::new(kind_of(error.errno()), error)
            }
        }
    )*};
}

into_io!(ResolveError, ListenError, ConnectError, AcceptError, SendError, CloseError);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weft_base::{Address, NodeId, Port};

    use super::*;
    use crate::{EndReason, Target};

    #[test]
    fn a_refused_connect_is_a_connection_refused_for_std() {
        let target = Target::from((NodeId::unregistered(1), Port::ECHO));
        let refused = ConnectError::Refused { target, reason: EndReason::Refused, detail: None };
        assert!(refused.to_string().contains("port 7"), "{refused}");
        assert_eq!(io::Error::from(refused).kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_silence_is_told_as_people_tell_it() {
        let silent_for = Some(Duration::from_nanos(1_002_076_895));
        let peer = Address { node: NodeId::unregistered(1), port: Port::ECHO };
        let ended = Ended { peer, reason: EndReason::GaveUp, silent_for, last_path: None };
        assert!(ended.to_string().contains("(last heard 1.0s before)"), "{ended}");
    }

    #[test]
    fn a_full_queue_is_would_block_for_std() {
        assert_eq!(io::Error::from(SendError::WouldBlock).kind(), io::ErrorKind::WouldBlock);
        assert_eq!(io::Error::from(RecvError::WouldBlock).kind(), io::ErrorKind::WouldBlock);
    }
}
