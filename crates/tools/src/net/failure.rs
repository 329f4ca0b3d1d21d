//! Errors of the socket room as exit codes; their sentences are already what a person wants to read.

use std::net::{IpAddr, SocketAddr};

use weft_base::limits;
use weft_link::Mac;
use weft_socket::{
    AcceptError, CloseError, ConnectError, EndReason, Ended, ListenError, RecvError, SendError,
};

use super::underlay_text;
use crate::exit::{Code, Failure, cause};
use crate::target::Target;

fn sentence(code: Code, text: &str) -> Failure {
    let (what, next) = text.split_once("; ").unwrap_or((text, ""));
    Failure::new(code, what, next)
}

/// Why nobody can listen.
#[must_use]
pub fn listen_failure(error: &ListenError) -> Failure {
    let code = match error {
        ListenError::InUse(_) | ListenError::NoPortFree => Code::Address,
        ListenError::NoRoom | ListenError::NodeDown | _ => Code::Other,
    };
    sentence(code, &error.to_string())
}

/// Why there is no connection.
#[must_use]
pub fn connect_failure(error: &ConnectError) -> Failure {
    let code = match error {
        ConnectError::Unresolved(_) => Code::UnknownHost,
        ConnectError::Refused { reason, .. } => refusal(*reason),
        ConnectError::Absent(_) => refusal(EndReason::Refused),
        ConnectError::TimedOut { .. } => Code::NoAnswer,
        ConnectError::WrongService { .. } => Code::Protocol,
        ConnectError::NoRoute(_) | ConnectError::NoWay { .. } | ConnectError::Stranger(_) => {
            Code::UnknownHost
        }
        ConnectError::InUse(_) | ConnectError::NoPortFree(_) | ConnectError::ToItself(_) => Code::Address,
        ConnectError::NoRoom | ConnectError::InProgress | ConnectError::NodeDown | _ => Code::Other,
    };
    if let ConnectError::NoWay { target, source } = error {
        let what = format!("no packet can leave for {target}: {}", cause(source));
        return Failure::new(
            code,
            what,
            "check that address, --bind, and the routes of this host (`ip route`)",
        );
    }
    sentence(code, &error.to_string())
}

/// Why there is no connection to `target` at `at`, where the command `server` is to listen.
#[must_use]
pub fn no_server(error: &ConnectError, target: &Target, at: SocketAddr, server: &str) -> Failure {
    let failure = connect_failure(error);
    let host = &target.host;
    let next = if matches!(error, ConnectError::WrongService { .. }) {
        format!("check that {server} listens on that port of {host}")
    } else if matches!(error, ConnectError::TimedOut { .. }) {
        format!("start {server} on {host}, and let packets to {} pass", underlay_text(at))
    } else if matches!(error, ConnectError::Absent(_)) {
        format!("start {server} on {host}{}", home_text(at))
    } else if failure.code == Code::Refused {
        format!("start {server} on {host}")
    } else {
        return failure;
    };
    Failure { next, ..failure }
}

/// What a server is told to listen at `at`, where that is not its default.
fn home_text(at: SocketAddr) -> String {
    let (is_default, port) = (at.port() == limits::UDP_PORT, at.port());
    match at.ip() {
        _ if Mac::of_underlay(at).is_some() => String::new(),
        IpAddr::V4(_) if is_default => String::new(),
        IpAddr::V4(_) => format!(" with --bind 0.0.0.0:{port}"),
        IpAddr::V6(_) => format!(" with --bind [::]:{port}"),
    }
}

/// The words with which `command` listens on the port that `target` names, if it names one.
#[must_use]
pub fn listens(command: &str, target: &Target) -> String {
    target.port.as_ref().map_or_else(|| format!("`{command}`"), |port| format!("`{command} --port {port}`"))
}

fn refusal(reason: EndReason) -> Code {
    let is_other_protocol =
        matches!(reason, EndReason::Version | EndReason::Option | EndReason::Service | EndReason::Protocol);
    if is_other_protocol { Code::Protocol } else { Code::Refused }
}

/// Why nobody was accepted.
#[must_use]
pub fn accept_failure(error: &AcceptError) -> Failure {
    let code = if matches!(error, AcceptError::TimedOut(_)) { Code::NoAnswer } else { Code::Other };
    sentence(code, &error.to_string())
}

/// Why nothing more is received.
#[must_use]
pub fn recv_failure(error: &RecvError) -> Failure {
    let code = match error {
        RecvError::TimedOut(_) => Code::NoAnswer,
        RecvError::Ended(ended) => ended_code(ended),
        RecvError::WouldBlock | RecvError::EndOfFile | RecvError::NotConnected | _ => Code::Other,
    };
    sentence(code, &error.to_string())
}

/// Why nothing more is sent.
#[must_use]
pub fn send_failure(error: &SendError) -> Failure {
    let code = match error {
        SendError::TimedOut(_) => Code::NoAnswer,
        SendError::TooLong { .. } => Code::Source,
        SendError::Closed => Code::Lost,
        SendError::Ended(ended) => ended_code(ended),
        SendError::WouldBlock | SendError::NotConnected | SendError::NoMemory | _ => Code::Other,
    };
    sentence(code, &error.to_string())
}

/// Why a close is not known to have delivered everything.
#[must_use]
pub fn close_failure(error: &CloseError) -> Failure {
    let code = match error {
        CloseError::TimedOut(_) => Code::NoAnswer,
        CloseError::Ended(ended) => ended_code(ended),
        CloseError::WouldBlock | _ => Code::Other,
    };
    sentence(code, &error.to_string())
}

fn ended_code(ended: &Ended) -> Code {
    if matches!(ended.reason, EndReason::Idle | EndReason::GaveUp) { Code::NoAnswer } else { Code::Lost }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_told_where_to_listen_if_that_is_not_its_default() {
        for (at, home) in [
            ("127.0.0.1:64064", ""),
            ("127.0.0.1:9", " with --bind 0.0.0.0:9"),
            ("[::1]:64064", " with --bind [::]:64064"),
            ("[fe80::ff:fe00:2a]:0", ""),
        ] {
            assert_eq!(home_text(at.parse().unwrap()), home, "{at}");
        }
    }
}
