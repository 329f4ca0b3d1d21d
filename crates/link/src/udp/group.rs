//! Several UDP sockets that share an address (`SO_REUSEPORT`, socket(7)).
//!
//! Which of them gets what comes from an address and UDP port is up to a small program that the kernel runs. The kernel's own hash is cut to the
//! number of sockets: while a socket that is to be connected (see `direct`) is bound and not connected yet, half of all peers would meet another
//! one, the newcomer among them. What this program chooses stays, and the newcomer is never chosen.
//!
//! A hash lets two of few peers share a socket while others have none to do: of eight peers and sixteen sockets three. So who has the first connection with a
//! peer says so, and the program is given an exception for it where its socket has others and one has none (decision 0054). Many peers are spread by the hash.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use socket2::Socket;

use crate::steer;

const IP_VERSION_6: u32 = 6;
/// Where an IPv4 header has the last word of the source address, and where the source port follows it.
const V4_SOURCE: (i32, i32) = (12, 20);
/// The same of an IPv6 header without extensions.
const V6_SOURCE: (i32, i32) = (20, 40);

/// The sockets of one address, and who comes by which.
#[derive(Debug)]
pub(super) struct Group {
    count: u32,
    dealt: Mutex<Dealt>,
}

/// What peers with connections are dealt to, and those that were dealt an exception and may come back.
#[derive(Debug)]
struct Dealt {
    /// By [`mark`].
    peers: HashMap<u32, Peer>,
    /// Peers with connections, by socket.
    by_socket: Box<[u32]>,
}

#[derive(Debug)]
struct Peer {
    socket: u32,
    connections: u32,
}

impl Group {
    /// Has the group of `socket`, of which it is one of the first `count`, share by source.
    ///
    /// Ports of one host that follow each other go to different sockets, and hosts are spread by their addresses.
    pub(super) fn share(socket: &Socket, count: usize) -> io::Result<Self> {
        let by_socket = vec![0; count].into();
        let group = Self {
            count: u32::try_from(count).map_err(io::Error::other)?,
            dealt: Mutex::new(Dealt { peers: HashMap::new(), by_socket }),
        };
        group.steer(socket, &HashMap::new())?;
        Ok(group)
    }

    /// A connection begins whose packets come from `from`. The first of a peer is dealt a socket that has no other, while there is one.
    pub(super) fn note_peer(&self, socket: &Socket, from: SocketAddr) {
        let mark = mark(from);
        let mut dealt = self.dealt.lock().unwrap_or_else(PoisonError::into_inner);
        let Dealt { peers, by_socket } = &mut *dealt;
        let by_hash = mark % self.count;
        let peer = peers.entry(mark).or_insert(Peer { socket: by_hash, connections: 0 });
        peer.connections += 1;
        if peer.connections > 1 {
            return;
        }
        let had = peer.socket;
        let free = (0..).zip(&*by_socket).find(|&(_, &others)| others == 0).map(|(free, _)| free);
        if by_socket[had as usize] > 0
            && let Some(free) = free
        {
            peer.socket = free;
            peers.retain(|_, peer| peer.connections > 0);
            // Where the system has no room for the program, all stays as it was.
            if self.steer(socket, peers).is_err()
                && let Some(peer) = peers.get_mut(&mark)
            {
                peer.socket = had;
            }
        }
        if let Some(peer) = peers.get(&mark) {
            by_socket[peer.socket as usize] += 1;
        }
    }

    /// Such a connection is over.
    pub(super) fn forget_peer(&self, from: SocketAddr) {
        let mark = mark(from);
        let mut dealt = self.dealt.lock().unwrap_or_else(PoisonError::into_inner);
        let Dealt { peers, by_socket } = &mut *dealt;
        let Some(peer) = peers.get_mut(&mark).filter(|peer| peer.connections > 0) else { return };
        peer.connections -= 1;
        if peer.connections == 0 {
            by_socket[peer.socket as usize] -= 1;
            // The kernel goes on with an exception until it gets another program.
            if peer.socket == mark % self.count {
                peers.remove(&mark);
            }
        }
    }

    /// Gives the kernel the program, with exceptions for those peers that are not where the hash has them.
    fn steer(&self, socket: &Socket, peers: &HashMap<u32, Peer>) -> io::Result<()> {
        let at = |offset| libc::SKF_NET_OFF + offset;
        let source = |(address, port): (i32, i32)| {
            let [load, multiply, shift] = steer::hash_at(at(address));
            [load, multiply, shift, steer::put_aside(), steer::half_at(at(port)), steer::add_aside()]
        };
        let (v4, v6) = (source(V4_SOURCE), source(V6_SOURCE));
        let mut program = vec![steer::byte_at(at(0)), steer::with(libc::BPF_RSH, 4)];
        // Each of the two parts is six steps long, and the one for IPv6 skips the other.
        program.push(steer::skip_unless(IP_VERSION_6, 7));
        program.extend(v6);
        program.push(steer::skip(6));
        program.extend(v4);
        let exceptions = peers.iter().filter(|&(mark, peer)| peer.socket != mark % self.count);
        program.extend(
            exceptions.flat_map(|(&mark, peer)| [steer::skip_unless(mark, 1), steer::answer_is(peer.socket)]),
        );
        program.extend([steer::with(libc::BPF_MOD, self.count), steer::answer()]);
        steer::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &mut program)
    }
}

/// What the program makes of where a packet comes from, before it is brought to the number of sockets.
fn mark(from: SocketAddr) -> u32 {
    let word = match from.ip().to_canonical() {
        IpAddr::V4(ip) => ip.to_bits(),
        IpAddr::V6(ip) => {
            let [.., a, b, c, d] = ip.octets();
            u32::from_be_bytes([a, b, c, d])
        }
    };
    steer::hash(word) + u32::from(from.port())
}
