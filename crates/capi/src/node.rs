//! Nodes: the default one, opened by the first socket, and others.

use std::ffi::{c_char, c_int};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use weft_socket::{Mode, Node, NodeBuilder, NodeId, OpenError, Scheme, load_cluster};

use crate::addr::CdpAddr;
use crate::boundary::{self, Failure};
use crate::descriptors::{self, Named};
use crate::progress::OpenNode;

/// Drop packets from nodes that neither the cluster file nor the user named.
pub const CDP_NODE_STRICT: u32 = 1;
/// Dedicated workers poll without ever sleeping.
pub const CDP_NODE_SPIN: u32 = 2;
/// Callers that wait sleep at once.
pub const CDP_NODE_NO_SPIN: u32 = 4;
/// Take packets from any node.
pub const CDP_NODE_OPEN: u32 = 8;
/// As many UDP sockets as let a server with many peers use the cores.
pub const CDP_NODE_PORTS_BY_CORES: u32 = 16;
/// The scheme that measured best.
pub const CDP_SCHEME_DEFAULT: u32 = 0;
/// The papers' coarse-grain lock.
pub const CDP_SCHEME_COARSE: u32 = 1;
/// The papers' fine-grain lock.
pub const CDP_SCHEME_FINE: u32 = 2;
/// Searches take no lock.
pub const CDP_SCHEME_EPOCH: u32 = 3;
const FLAGS: u32 =
    CDP_NODE_STRICT | CDP_NODE_SPIN | CDP_NODE_NO_SPIN | CDP_NODE_OPEN | CDP_NODE_PORTS_BY_CORES;
/// The default node.
pub const CDP_NODE_DEFAULT: c_int = 0;

/// How long the end of a process waits for connections to close unless the configuration says otherwise.
const LINGER: Duration = Duration::from_secs(2);

/// `struct cdp_node_config`: how a node is to be; zeros are defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CdpNodeConfig {
    /// Bytes of this struct in the program that fills it.
    pub size: u32,
    /// `CDP_NODE_STRICT` and its like.
    pub flags: u32,
    /// Node number; 0 for that of the cluster file, or a random unregistered one.
    pub node: u32,
    /// UDP sockets that share the address; 0 for one.
    pub ports: u32,
    /// Threads that do nothing but move packets.
    pub workers: u32,
    /// How long the end of the process waits for connections to close, in ms; 0 for 2,000.
    pub linger_ms: u32,
    /// How the table of connections is locked.
    pub scheme: u32,
    /// Longest time a waiting caller polls before it sleeps, in µs; 0 for 50.
    pub spin_us: u32,
    /// UDP ports of their own that connects go out by in turn.
    pub source_ports: u32,
    /// 0.
    pub reserved: u32,
    /// Bytes of memory that may be promised to peers; 0 for half of the machine's.
    pub memory_bytes: u64,
    /// Bytes wanted for either buffer of the kernel of each UDP socket; 0 for 8 MiB.
    pub socket_buffer_bytes: u64,
    /// `IP:PORT` of the UDP socket; NULL for any.
    pub bind: *const c_char,
    /// Name under which the statistics are offered; NULL for none.
    pub stat_name: *const c_char,
    /// Path of the cluster file; NULL for none.
    pub cluster: *const c_char,
    /// Name of the node in the cluster file; NULL to find it by the addresses of this host.
    pub name: *const c_char,
}

impl CdpNodeConfig {
    /// The builder that this configuration describes.
    ///
    /// # Safety
    /// The texts are NULL or end in zero.
    unsafe fn builder(&self) -> Result<NodeBuilder, Failure> {
        if usize::try_from(self.size) != Ok(size_of::<Self>()) {
            return Err(Failure::invalid(format!(
                "size is {} where {} is right; start from CDP_NODE_CONFIG_INIT of this version's cdp.h",
                self.size,
                size_of::<Self>()
            )));
        }
        if self.flags & !FLAGS != 0 {
            return Err(Failure::invalid(format!("flags {:#x} have a bit without a meaning", self.flags)));
        }
        if self.reserved != 0 {
            return Err(Failure::invalid(format!("reserved is {}; it is to be 0", self.reserved)));
        }
        let count = |value: u32| usize::try_from(value).unwrap_or(usize::MAX);
        let mut builder = Node::builder()
            .spinning_workers(self.flags & CDP_NODE_SPIN != 0)
            .workers(count(self.workers))
            .source_ports(count(self.source_ports))
            .linger(self.linger())
            .scheme(self.scheme()?);
        builder = match (self.flags & CDP_NODE_PORTS_BY_CORES != 0, self.ports) {
            (true, 0) => builder.ports_by_cores(),
            (true, ports) => {
                return Err(Failure::invalid(format!(
                    "ports is {ports} beside CDP_NODE_PORTS_BY_CORES; it is to be 0"
                )));
            }
            (false, ports) => builder.ports(count(ports).max(1)),
        };
        // SAFETY: texts, by the contract of this function.
        builder = unsafe { self.in_cluster(builder) }?;
        if let Some(node) = (CdpAddr { node: self.node, ..CdpAddr::default() }).node()? {
            builder = builder.node(node);
        }
        if self.flags & CDP_NODE_NO_SPIN != 0 {
            builder = builder.spin(Duration::ZERO);
        } else if self.spin_us != 0 {
            builder = builder.spin(Duration::from_micros(self.spin_us.into()));
        }
        if self.memory_bytes != 0 {
            builder = builder.memory_bytes(usize::try_from(self.memory_bytes).unwrap_or(usize::MAX));
        }
        if self.socket_buffer_bytes != 0 {
            builder =
                builder.socket_buffer_bytes(usize::try_from(self.socket_buffer_bytes).unwrap_or(usize::MAX));
        }
        if !self.bind.is_null() {
            // SAFETY: a text, by the contract of this function.
            builder = builder.bind(parse_bind(unsafe { boundary::text(self.bind) }?)?);
        }
        if !self.stat_name.is_null() {
            // SAFETY: a text, by the contract of this function.
            builder = builder.stat_name(unsafe { boundary::text(self.stat_name) }?);
        }
        Ok(builder)
    }

    /// `builder` with the cluster file, the name of the node in it, and the mode.
    ///
    /// # Safety
    /// The texts are NULL or end in zero.
    unsafe fn in_cluster(&self, mut builder: NodeBuilder) -> Result<NodeBuilder, Failure> {
        if !self.cluster.is_null() {
            // SAFETY: a text, by the contract of this function.
            let file = load_cluster(unsafe { boundary::text(self.cluster) }?);
            builder = builder.cluster(&file.map_err(|error| Failure::new(error.errno(), error))?);
        }
        if !self.name.is_null() {
            if self.cluster.is_null() {
                return Err(Failure::invalid("name is given without cluster, the file that has it"));
            }
            // SAFETY: a text, by the contract of this function.
            builder = builder.named(unsafe { boundary::text(self.name) }?);
        }
        match (self.flags & CDP_NODE_STRICT != 0, self.flags & CDP_NODE_OPEN != 0) {
            (true, true) => Err(Failure::invalid("CDP_NODE_STRICT and CDP_NODE_OPEN contradict each other")),
            (false, false) => Ok(builder),
            (is_strict, _) => Ok(builder.strict(is_strict)),
        }
    }

    fn scheme(&self) -> Result<Scheme, Failure> {
        match self.scheme {
            CDP_SCHEME_DEFAULT => Ok(Scheme::default()),
            CDP_SCHEME_COARSE => Ok(Scheme::Coarse),
            CDP_SCHEME_FINE => Ok(Scheme::Fine),
            CDP_SCHEME_EPOCH => Ok(Scheme::Epoch),
            other => Err(Failure::invalid(format!("scheme {other} is none; give one of CDP_SCHEME_..."))),
        }
    }

    fn linger(&self) -> Duration {
        if self.linger_ms == 0 { LINGER } else { Duration::from_millis(self.linger_ms.into()) }
    }
}

fn parse_bind(text: &str) -> Result<SocketAddr, Failure> {
    text.parse().map_err(|_| Failure::invalid(format!("\"{text}\" is not IP:PORT, as in \"0.0.0.0:64064\"")))
}

/// The default node and how long it lingers at exit.
static DEFAULT: Mutex<Option<Arc<OpenNode>>> = Mutex::new(None);

pub(crate) fn default_slot() -> MutexGuard<'static, Option<Arc<OpenNode>>> {
    DEFAULT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The node that `descriptor` names; the default one is opened if it is not.
pub(crate) fn named(descriptor: c_int) -> Result<Node, Failure> {
    Ok(open(descriptor)?.node.clone())
}

/// The same, with what this face keeps of it.
pub(crate) fn open(descriptor: c_int) -> Result<Arc<OpenNode>, Failure> {
    if descriptor != CDP_NODE_DEFAULT {
        return descriptors::node(descriptor);
    }
    let mut slot = default_slot();
    if let Some(node) = &*slot {
        return Ok(node.clone());
    }
    Ok(slot.insert(opened(Node::open(), LINGER)?).clone())
}

fn opened(outcome: Result<Node, OpenError>, linger: Duration) -> Result<Arc<OpenNode>, Failure> {
    static AT_EXIT: Once = Once::new();
    let node = outcome?;
    AT_EXIT.call_once(|| {
        // SAFETY: the handler is a function of this library that lives as long as the process.
        let _ = unsafe { libc::atexit(close_all) };
    });
    Ok(Arc::new(OpenNode::new(node, linger)))
}

/// Closes what is open by FIN when the process ends in order (CDP-ST-H); no destructor of a static would.
///
/// The locals of the thread that ends the process are gone by now, so the nodes are closed by threads of their own.
extern "C" fn close_all() {
    let closed: c_int = boundary::call(|| {
        let mut nodes = descriptors::nodes();
        nodes.extend(default_slot().take());
        let closing = nodes
            .into_iter()
            .map(|open| std::thread::Builder::new().spawn(move || open.node.shutdown(open.linger)));
        for thread in closing.collect::<Vec<_>>().into_iter().flatten() {
            let _ = thread.join(); // a defect there must not keep the process from ending
        }
        Ok(0)
    });
    let _ = closed; // nobody is left to be told
}

/// The configuration at `config`, or the default one for NULL, as a builder, and how long the node lingers.
///
/// # Safety
/// `config` is NULL or readable, and its texts are NULL or end in zero.
unsafe fn builder_of(config: *const CdpNodeConfig) -> Result<(NodeBuilder, Duration), Failure> {
    if config.is_null() {
        return Ok((Node::builder(), LINGER));
    }
    // SAFETY: by the contract of this function.
    let config = unsafe { boundary::read(config) }?;
    // SAFETY: by the contract of this function.
    let builder = unsafe { config.builder() }?;
    Ok((builder, config.linger()))
}

/// Opens the default node; see `cdp.h`.
///
/// # Safety
/// `config` is NULL or readable, and its texts are NULL or end in zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_init(config: *const CdpNodeConfig) -> c_int {
    boundary::call(|| {
        // SAFETY: by the contract of this function.
        let (builder, linger) = unsafe { builder_of(config) }?;
        let mut slot = default_slot();
        if slot.is_some() {
            let sentence = "the default node is open already; call cdp_init before the first cdp_socket";
            return Err(Failure::new(libc::EALREADY, sentence));
        }
        *slot = Some(opened(builder.open(), linger)?);
        Ok(0)
    })
}

/// Opens a further node; see `cdp.h`.
///
/// # Safety
/// As [`cdp_init`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_node_open(config: *const CdpNodeConfig) -> c_int {
    boundary::call(|| {
        // SAFETY: by the contract of this function.
        let (builder, linger) = unsafe { builder_of(config) }?;
        descriptors::insert(Named::Node(opened(builder.open(), linger)?))
    })
}

/// Tells a node where another is reached; see `cdp.h`.
///
/// # Safety
/// `addr` is NULL or readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_node_peer(node: c_int, addr: *const CdpAddr) -> c_int {
    boundary::call(|| {
        // SAFETY: by the contract of this function.
        let addr = unsafe { boundary::read(addr) }?;
        let (Some(number), Some(at)) = (addr.node()?, addr.underlay()?) else {
            return Err(Failure::invalid("a peer needs its node number and its underlay address"));
        };
        named(node)?.add_peer(number, at);
        Ok(0)
    })
}

/// Finds who a text means to a node; see `cdp.h`.
///
/// # Safety
/// `text` is NULL or a text that ends in zero; `addr` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_node_resolve(node: c_int, text: *const c_char, addr: *mut CdpAddr) -> c_int {
    boundary::call(|| {
        // SAFETY: by the contract of this function.
        let text = unsafe { boundary::text(text) }?;
        let target = named(node)?.resolve(text).map_err(|error| Failure::new(error.errno(), error))?;
        // SAFETY: by the contract of this function.
        unsafe { boundary::write(addr, CdpAddr::from(target)) }?;
        Ok(0)
    })
}

/// Whether a node is strict; see `cdp.h`.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_node_mode(node: c_int) -> c_int {
    boundary::call(|| {
        let mode = match named(node)?.mode() {
            Mode::Strict => CDP_NODE_STRICT,
            Mode::Open => CDP_NODE_OPEN,
        };
        c_int::try_from(mode).map_err(Failure::invalid)
    })
}

/// Gives a node's number and underlay address; see `cdp.h`.
///
/// # Safety
/// `addr` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cdp_node_address(node: c_int, addr: *mut CdpAddr) -> c_int {
    boundary::call(|| {
        let node = named(node)?;
        let address = number_only(node.id()).with_underlay(node.underlay());
        // SAFETY: by the contract of this function.
        unsafe { boundary::write(addr, address) }?;
        Ok(0)
    })
}

/// An address without a port.
pub(crate) fn number_only(node: NodeId) -> CdpAddr {
    CdpAddr { node: node.get(), ..CdpAddr::default() }
}

/// Closes a node; see `cdp.h`.
#[unsafe(no_mangle)]
pub extern "C" fn cdp_node_close(node: c_int, limit_ms: u32) -> c_int {
    boundary::call(|| {
        let closing = match node {
            CDP_NODE_DEFAULT => default_slot().take(),
            other => Some(descriptors::remove_node(other)?),
        };
        let Some(closing) = closing else {
            return Err(Failure::new(libc::EBADF, "the default node is not open"));
        };
        let reset = closing.node.shutdown(Duration::from_millis(limit_ms.into()));
        Ok(c_int::try_from(reset).unwrap_or(c_int::MAX))
    })
}

#[cfg(test)]
mod tests;
