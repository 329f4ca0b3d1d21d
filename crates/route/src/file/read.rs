//! From the words of a cluster file to its values, or the first that is wrong.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use toml::{Spanned, Value};
use weft_base::{NodeId, Port, limits};

use super::raw::{RawAt, RawFile, RawNode};
use super::{ClusterFile, FileError};
use crate::{AddError, Attachment, Cluster, Coordinates, Kind, Member, Mode, Name, NetworkId};

/// What is wrong, and the bytes of the file that say so.
pub(super) struct Wrong {
    pub(super) at: Range<usize>,
    pub(super) what: String,
}

impl Wrong {
    fn new<T>(value: &Spanned<T>, what: impl fmt::Display) -> Self {
        Self { at: value.span(), what: what.to_string() }
    }

    pub(super) fn in_file(self, text: &str) -> FileError {
        let before = text.get(..self.at.start).unwrap_or(text);
        let line_begin = before.rfind('\n').map_or(0, |end| end + 1);
        let line = before.matches('\n').count() + 1;
        FileError { line, column: before[line_begin..].chars().count() + 1, what: self.what }
    }
}

pub(super) fn read(raw: &RawFile) -> Result<ClusterFile, Wrong> {
    let networks = read_networks(&raw.networks)?;
    let mut file = ClusterFile { mode: read_mode(raw.mode.as_ref())?, cluster: Cluster::default(), networks };
    read_services(&raw.services, &mut file.cluster)?;
    let numbers = read_numbers(&raw.node)?;
    for node in &raw.node {
        let member = read_node(node.as_ref(), &file, &numbers)?;
        file.cluster.add(member).map_err(|error| refused(node.as_ref(), &error))?;
    }
    file.cluster.check().map_err(|error| {
        let says = |node: &&Spanned<RawNode>| {
            numbered(&node.as_ref().number).is_ok_and(|number| number == error.node)
        };
        let at = raw.node.iter().find(says).map_or(0..0, |node| node.as_ref().number.span());
        Wrong { at, what: error.to_string() }
    })?;
    Ok(file)
}

/// A member that the cluster refused, at the value that it refused.
fn refused(node: &RawNode, error: &AddError) -> Wrong {
    let at = match error {
        AddError::Unregistered(_) | AddError::NumberTaken(_) => node.number.span(),
        AddError::NameTaken(_) => node.name.as_ref().map_or_else(|| node.number.span(), Spanned::span),
        AddError::PlaceTaken(_) | AddError::Nowhere(_) => node.at.span(),
    };
    Wrong { at, what: error.to_string() }
}

fn read_mode(mode: Option<&Spanned<String>>) -> Result<Mode, Wrong> {
    let Some(mode) = mode else { return Ok(Mode::Strict) };
    match mode.as_ref().as_str() {
        "strict" => Ok(Mode::Strict),
        "open" => Ok(Mode::Open),
        other => {
            Err(Wrong::new(mode, format_args!("mode {other:?} is unknown; give \"strict\" or \"open\"")))
        }
    }
}

fn named(name: &Spanned<String>) -> Result<Name, Wrong> {
    name.as_ref().parse().map_err(|error: crate::ParseNameError| Wrong::new(name, error))
}

fn read_networks(raw: &[Spanned<String>]) -> Result<Vec<Name>, Wrong> {
    let mut networks = Vec::new();
    for network in raw {
        let name = named(network)?;
        if networks.contains(&name) {
            return Err(Wrong::new(
                network,
                format_args!("network {name} is given twice; each name stands for one"),
            ));
        }
        networks.push(name);
        if NetworkId::new(networks.len()).is_none() {
            let most = NetworkId::COUNT_MAX - 1;
            return Err(Wrong::new(
                network,
                format_args!("more than {most} networks; join some, as nodes share them"),
            ));
        }
    }
    Ok(networks)
}

fn read_services(raw: &BTreeMap<Spanned<String>, Spanned<i64>>, cluster: &mut Cluster) -> Result<(), Wrong> {
    for (service, number) in raw {
        let name = named(service)?;
        // What begins otherwise is read as the number of a port.
        if !name.as_str().starts_with(char::is_alphabetic) {
            let what = format_args!("service {name} does not begin with a letter; give it a name that does");
            return Err(Wrong::new(service, what));
        }
        let port = u16::try_from(*number.as_ref()).ok().and_then(Port::new).ok_or_else(|| {
            Wrong::new(
                number,
                format_args!("port {} of service {name} is none; give 1 to 65535", number.as_ref()),
            )
        })?;
        cluster.add_service(name, port);
    }
    Ok(())
}

fn numbered(number: &Spanned<i64>) -> Result<NodeId, Wrong> {
    u32::try_from(*number.as_ref()).ok().and_then(NodeId::new).ok_or_else(|| {
        Wrong::new(
            number,
            format_args!("{} is not the number of a node; give 1 to 0x7fffff", number.as_ref()),
        )
    })
}

/// The numbers of the nodes that have names, as nodes may be named before they are described.
fn read_numbers(nodes: &[Spanned<RawNode>]) -> Result<BTreeMap<String, NodeId>, Wrong> {
    let mut numbers = BTreeMap::new();
    for node in nodes {
        let number = numbered(&node.as_ref().number)?;
        if let Some(name) = &node.as_ref().name {
            numbers.insert(name.as_ref().clone(), number);
        }
    }
    Ok(numbers)
}

fn read_node(
    node: &RawNode,
    file: &ClusterFile,
    numbers: &BTreeMap<String, NodeId>,
) -> Result<Member, Wrong> {
    let io = |io: &Spanned<Value>| read_reference(io, numbers);
    let kind = read_kind(node.kind.as_ref())?;
    if kind != Kind::Io {
        check_one_socket(&node.at)?;
    }
    Ok(Member {
        node: numbered(&node.number)?,
        name: node.name.as_ref().map(named).transpose()?,
        kind,
        at: read_addresses(&node.at, &file.networks)?,
        place: node.place.as_ref().map(read_place).transpose()?,
        io_nodes: node.io_nodes.iter().map(io).collect::<Result<_, _>>()?,
        default_io: node.default_io.as_ref().map(io).transpose()?,
    })
}

fn read_kind(kind: Option<&Spanned<String>>) -> Result<Kind, Wrong> {
    let Some(kind) = kind else { return Ok(Kind::Host) };
    let kinds = [Kind::Host, Kind::Io, Kind::Compute];
    kinds.into_iter().find(|known| known.to_string() == *kind.as_ref()).ok_or_else(|| {
        let what = format_args!("kind {:?} is unknown; give \"host\", \"io\" or \"compute\"", kind.as_ref())
            .to_string();
        Wrong::new(kind, what)
    })
}

fn read_place(place: &Spanned<Vec<i64>>) -> Result<Coordinates, Wrong> {
    let numbers: Option<Vec<u16>> = place.as_ref().iter().map(|&number| u16::try_from(number).ok()).collect();
    numbers.and_then(|numbers| numbers.try_into().ok()).map(Coordinates).ok_or_else(|| {
        let what =
            format!("place {:?} is none in a mesh; give three numbers from 0 to 65535", place.as_ref());
        Wrong::new(place, what)
    })
}

/// A node by its name or number.
fn read_reference(value: &Spanned<Value>, numbers: &BTreeMap<String, NodeId>) -> Result<NodeId, Wrong> {
    let node = match value.as_ref() {
        Value::String(name) => numbers.get(name).copied(),
        Value::Integer(number) => u32::try_from(*number).ok().and_then(NodeId::new),
        Value::Float(_) | Value::Boolean(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    };
    node.ok_or_else(|| {
        Wrong::new(
            value,
            format_args!("no node is called {}; give a name or a number of one", value.as_ref()),
        )
    })
}

fn read_addresses(at: &Spanned<RawAt>, networks: &[Name]) -> Result<Vec<Attachment>, Wrong> {
    match at.as_ref() {
        RawAt::One(address) if networks.len() < 2 => {
            let network = NetworkId::new(networks.len()).unwrap_or(NetworkId::COMMON);
            let address = Spanned::new(at.span(), address.clone());
            Ok(vec![Attachment { network, at: read_address(&address)?.into() }])
        }
        RawAt::One(address) => Err(Wrong::new(
            at,
            format_args!(
                "{address:?} is on no network; say on which, such as {{ {} = {address:?} }}",
                networks[0]
            ),
        )),
        RawAt::Each(addresses) => addresses
            .iter()
            .map(|(network, address)| {
                let index = networks.iter().position(|known| known.as_str() == network.as_ref());
                let network = index.and_then(|index| NetworkId::new(index + 1)).ok_or_else(|| {
                    Wrong::new(
                        network,
                        format_args!("no network is called {:?}; {}", network.as_ref(), known(networks)),
                    )
                })?;
                Ok(Attachment { network, at: read_address(address)?.into() })
            })
            .collect(),
    }
}

/// A node that does not forward has one socket for all its networks.
fn check_one_socket(at: &Spanned<RawAt>) -> Result<(), Wrong> {
    let RawAt::Each(addresses) = at.as_ref() else { return Ok(()) };
    let mut addresses = addresses.values().map(|text| Ok((text, read_address(text)?)));
    let Some(first) = addresses.next().transpose()? else { return Ok(()) };
    for address in addresses {
        let (text, address) = address?;
        let what = match first.1 {
            first if first.port() != address.port() => "one port",
            first if first.is_ipv4() != address.is_ipv4() => "IPv4 or IPv6",
            _ => continue,
        };
        let why = "a node that does not forward receives from all its networks by one socket";
        return Err(Wrong::new(
            text,
            format_args!("{address} beside {}: {why}; give it {what} on all", first.1),
        ));
    }
    Ok(())
}

fn known(networks: &[Name]) -> String {
    if networks.is_empty() {
        return "list it in networks = [...] at the top of the file".to_owned();
    }
    let names: Vec<_> = networks.iter().map(Name::as_str).collect();
    format!("the file has {}", names.join(", "))
}

/// `IP` or `IP:PORT`; [CDP-ENC-6] the default port is 64064.
fn read_address(text: &Spanned<String>) -> Result<SocketAddr, Wrong> {
    let address = text.as_ref();
    let with_port = address.parse::<SocketAddr>().ok();
    let alone = || address.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, limits::UDP_PORT));
    let at = with_port.or_else(alone).filter(|at| at.port() != 0 && !at.ip().is_unspecified());
    at.ok_or_else(|| {
        Wrong::new(
            text,
            format_args!("{address:?} is no address of a node; give IP or IP:PORT, such as 10.0.0.7:64064"),
        )
    })
}
