//! A node that connects to somebody, and who that is: a rank of the job, or whoever is at an address.

use std::net::SocketAddr;

use weft_base::Port;
use weft_launch::{Place, is_rank_name};
use weft_route::Cluster;
use weft_socket::{Address, Target as SocketTarget};

use super::cluster::port_of;
use super::{LocalNode, NodeFlags, PeerFlags, Role, ThisCluster, told};
use crate::exit::{Code, Failure};
use crate::target::Target;

/// A node of this process, and the end that it is to connect to.
pub struct Reached {
    /// The node.
    pub local: LocalNode,
    /// The other end.
    pub peer: SocketTarget,
    /// Where the other end's node is reached.
    pub at: SocketAddr,
}

/// Opens the node of `command` that `node` describes, and finds out who `target` is; `default_port` where it names no
/// port. Names are those of the cluster file, or those of the ranks of a job, for which this waits.
///
/// # Errors
/// [`Code::UnknownHost`], those of [`LocalNode::open`] and of [`LocalNode::join`].
pub fn reach(
    target: &Target,
    default_port: Port,
    peer: &PeerFlags,
    node: &NodeFlags,
    command: &str,
) -> Result<Reached, Failure> {
    let named = ThisCluster::named(&node.cluster)?;
    let job = if named.is_none() { node.job()? } else { None };
    let nobody = Cluster::default();
    let Some(job) = job else {
        let cluster = if named.is_some() { named } else { ThisCluster::of_host(&node.cluster)? };
        // Whoever is told where the other end is need not find it in the file.
        let found = match &cluster {
            Some(cluster) if peer.peer_underlay.is_none() => cluster.find(target, default_port)?,
            Some(_) | None => None,
        };
        let (peer, at) = match (found, peer.peer_node) {
            (Some((address, at)), None) => (address.into(), at),
            (Some((address, at)), Some(node)) => ((Address { node, ..address }, at).into(), at),
            (None, _) => peer
                .target(target, default_port, node, cluster.as_ref().map_or(&nobody, |it| &it.file.cluster))
                .map_err(|failure| hint(failure, target))?,
        };
        let local = LocalNode::open_in(node, Role::Client(at.ip()), command, cluster.as_ref())?;
        return Ok(Reached { local, peer, at });
    };
    let bind = node.bind.map_or_else(
        || job.bind(!is_rank_name(&target.host)).map_err(|error| told(Code::Address, &error)),
        Ok,
    )?;
    let local = LocalNode::open_at(node, None, bind, command, Some(job), None)?;
    let places = local.join()?;
    let is_told = peer.peer_node.is_some() || peer.peer_underlay.is_some();
    if let Some(place) = find(&places, target)?.filter(|_| !is_told) {
        let port = port_of(&nobody, target.port.as_ref(), default_port)?;
        let address = Address { node: place.node, port };
        return Ok(Reached { local, peer: (address, place.at).into(), at: place.at });
    }
    let bound = NodeFlags { bind: Some(local.node.underlay()), ..node.clone() };
    let (peer, at) = peer.target(target, default_port, &bound, &nobody)?;
    Ok(Reached { local, peer, at })
}

/// The rank that `target` names, or `None` if it names something else.
fn find<'a>(places: &'a [Place], target: &Target) -> Result<Option<&'a Place>, Failure> {
    let found = places.iter().find(|place| place.names.contains(&target.host));
    if found.is_none() && is_rank_name(&target.host) {
        let what = format!("{:?} is no rank of this job", target.host);
        let last = weft_launch::rank_name(u32::try_from(places.len()).unwrap_or(u32::MAX).saturating_sub(1));
        return Err(Failure::new(Code::UnknownHost, what, format!("its ranks are rank-0 to {last}")));
    }
    Ok(found)
}

/// For the name of a rank where there is no job.
fn hint(failure: Failure, target: &Target) -> Failure {
    if failure.code == Code::UnknownHost && is_rank_name(&target.host) {
        let next = "ranks have names only where mpirun, mpiexec or srun starts the commands".to_owned();
        return Failure { next, ..failure };
    }
    failure
}
