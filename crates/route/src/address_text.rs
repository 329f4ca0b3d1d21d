//! `HOST[:PORT]`, as people write one end of a connection.

use std::fmt;
use std::str::FromStr;

use weft_base::Port;

use crate::Name;

/// A host and perhaps a port, as somebody wrote them; what they mean, [`crate::Cluster::resolve`] says.
///
/// ```
/// use weft_route::AddressText;
///
/// let text: AddressText = "compute-17:storage".parse()?;
/// assert_eq!((text.host.as_str(), text.to_string()), ("compute-17", "compute-17:storage".to_owned()));
/// assert_eq!("[::1]:7".parse::<AddressText>()?.host, "::1");
/// assert!("compute-17:0".parse::<AddressText>().unwrap_err().to_string().contains("\"0\" is not a port"));
/// # Ok::<(), weft_route::ParseAddressError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressText {
    /// A name, a number or an underlay address, without brackets.
    pub host: String,
    /// The port, if one was written.
    pub port: Option<PortText>,
}

/// A port as somebody wrote it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PortText {
    /// By its number.
    Number(Port),
    /// By the name of a service, which begins with a letter.
    Service(Name),
}

/// A text that is not `HOST[:PORT]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseAddressError {
    text: String,
    why: String,
}

impl fmt::Display for ParseAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not HOST[:PORT]: {}", self.text, self.why)
    }
}

impl std::error::Error for ParseAddressError {}

impl fmt::Display for AddressText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_bare = !self.host.contains(':');
        match (&self.port, is_bare) {
            (None, _) => f.write_str(&self.host),
            (Some(port), true) => write!(f, "{}:{port}", self.host),
            (Some(port), false) => write!(f, "[{}]:{port}", self.host),
        }
    }
}

impl fmt::Display for PortText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(port) => port.fmt(f),
            Self::Service(service) => service.fmt(f),
        }
    }
}

impl FromStr for AddressText {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused =
            |why: &dyn fmt::Display| ParseAddressError { text: text.to_owned(), why: why.to_string() };
        if text.contains('/') {
            return Err(refused(&"it is a path"));
        }
        let (host, port) = split(text).map_err(|why| refused(&why))?;
        if host.is_empty() {
            return Err(refused(&"the host is missing"));
        }
        let port = port.map(str::parse).transpose().map_err(|why: String| refused(&why))?;
        Ok(Self { host: host.to_owned(), port })
    }
}

/// The host, and the port behind its colon.
fn split(text: &str) -> Result<(&str, Option<&str>), &'static str> {
    let Some(rest) = text.strip_prefix('[') else {
        // More than one colon and no brackets: an IPv6 or Ethernet address alone.
        let has_port = text.matches(':').count() == 1;
        return Ok(text.split_once(':').filter(|_| has_port).map_or((text, None), |(h, p)| (h, Some(p))));
    };
    let (host, after) = rest.split_once(']').ok_or("the ] is missing")?;
    match after.strip_prefix(':') {
        Some(port) => Ok((host, Some(port))),
        None if after.is_empty() => Ok((host, None)),
        None => Err("a : must follow the ]"),
    }
}

impl FromStr for PortText {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with(char::is_alphabetic)
            && let Ok(service) = text.parse()
        {
            return Ok(Self::Service(service));
        }
        let port = text.parse().ok().and_then(Port::new);
        port.map(Self::Number).ok_or_else(|| format!("{text:?} is not a port; give 1 to 65535"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (String, Option<String>) {
        let text: AddressText = text.parse().unwrap();
        (text.host, text.port.map(|port| port.to_string()))
    }

    #[test]
    fn hosts_are_read_with_and_without_port() {
        assert_eq!(parts("localhost"), ("localhost".into(), None));
        assert_eq!(parts("10.0.0.7:99"), ("10.0.0.7".into(), Some("99".into())));
        assert_eq!(parts("fe80::1"), ("fe80::1".into(), None));
        assert_eq!(parts("[::1]:1064"), ("::1".into(), Some("1064".into())));
        assert_eq!(parts("[02:00:00:00:00:2a]"), ("02:00:00:00:00:2a".into(), None));
        assert_eq!("[::1]:1064".parse::<AddressText>().unwrap().to_string(), "[::1]:1064");
    }

    #[test]
    fn a_wrong_text_is_refused_with_the_reason() {
        for (text, why) in [
            (":7", "the host is missing"),
            ("", "the host is missing"),
            ("host:0", "\"0\" is not a port"),
            ("host:70000", "\"70000\" is not a port"),
            ("host:", "\"\" is not a port"),
            ("host:two words", "\"two words\" is not a port"),
            ("[::1", "the ] is missing"),
            ("[::1]7", "a : must follow the ]"),
            ("dir/file", "it is a path"),
        ] {
            let refused = text.parse::<AddressText>().unwrap_err().to_string();
            assert!(refused.contains(why) && refused.contains(&format!("{text:?}")), "{text}: {refused}");
        }
    }
}
