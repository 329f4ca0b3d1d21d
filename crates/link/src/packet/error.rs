//! Why a packet link could not be opened.

use std::{error, fmt, io};

/// Why a packet link could not be opened. Each says the cause and, behind a semicolon, the next step.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The process lacks `CAP_NET_RAW`.
    NotPermitted,
    /// No interface has this name.
    NoInterface(String),
    /// The interface carries no Ethernet frames, or has no address of its own, as the loopback interface.
    NotEthernet(String),
    /// The interface is not up.
    Down(String),
    /// Another link has this interface.
    InUse(String),
    /// The operating system refused something.
    System {
        /// What was wanted.
        what: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
}

impl OpenError {
    pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPermitted => f.write_str(
                "raw Ethernet is not permitted to this program; give it the capability (setcap cap_net_raw+ep FILE), \
                 run it as root, or use UDP",
            ),
            Self::NoInterface(name) => {
                write!(f, "there is no interface {name:?}; `ip link` lists those of this machine")
            }
            Self::NotEthernet(name) => {
                write!(f, "interface {name:?} is no Ethernet interface; name one, or use UDP")
            }
            Self::Down(name) => {
                write!(f, "interface {name:?} is down; bring it up (ip link set {name} up), or name another")
            }
            Self::InUse(name) => write!(
                f,
                "another node has interface {name:?}; end it, or use UDP: an Ethernet address is that of one node"
            ),
            Self::System { what, source } => {
                write!(f, "cannot get {what}: {source}; look at the limits of this process, or use UDP")
            }
        }
    }
}

impl error::Error for OpenError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::System { source, .. } => Some(source),
            Self::NotPermitted
            | Self::NoInterface(_)
            | Self::NotEthernet(_)
            | Self::Down(_)
            | Self::InUse(_) => None,
        }
    }
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        let kind = match &error {
            OpenError::NotPermitted => io::ErrorKind::PermissionDenied,
            OpenError::NoInterface(_) => io::ErrorKind::NotFound,
            OpenError::NotEthernet(_) => io::ErrorKind::Unsupported,
            OpenError::Down(_) => io::ErrorKind::NetworkDown,
            OpenError::InUse(_) => io::ErrorKind::AddrInUse,
            OpenError::System { source, .. } => source.kind(),
        };
        Self::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_names_a_next_step() {
        let name = || "eth7".to_owned();
        for error in [
            OpenError::NotPermitted,
            OpenError::NoInterface(name()),
            OpenError::NotEthernet(name()),
            OpenError::Down(name()),
            OpenError::InUse(name()),
            OpenError::system("a ring")(io::ErrorKind::OutOfMemory.into()),
        ] {
            assert!(error.to_string().contains("; "), "{error}");
            let kind = io::Error::from(error).kind();
            assert_ne!(kind, io::ErrorKind::Other);
        }
    }
}
