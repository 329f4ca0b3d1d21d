//! Several UDP sockets that share an address (`SO_REUSEPORT`, socket(7)).
//!
//! Which of them gets what comes from an address and UDP port is up to a small program that the kernel runs. The kernel's own hash is cut to the
//! number of sockets: while a socket that is to be connected (see `direct`) is bound and not connected yet, half of all peers would meet another
//! one, the newcomer among them. What this program chooses stays, and the newcomer is never chosen.
//!
//! A hash lets two of few peers share a socket while others have none to do: of eight peers and sixteen sockets three. So who has the first connection with a
//! peer says so, and the program is given an exception for it where its socket has others and one has none (decision 0054). Many peers are spread by the hash.
//!
//! Where a socket holds little the group has some for floods besides (see `basins`), and the program is given a part for each flood.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use socket2::Socket;

use super::basins::{Basins, Stripe};
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
    /// For floods, behind the first sockets.
    basins: Vec<Basins>,
    dealt: Mutex<Dealt>,
}

/// What peers with connections are dealt to, and those that were dealt an exception and may come back.
#[derive(Debug)]
struct Dealt {
    /// By [`mark`].
    peers: HashMap<u32, Peer>,
    /// Peers with connections, by socket.
    by_socket: Box<[u32]>,
    /// By basins.
    floods: Box<[Use]>,
}

/// What basins are used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    None,
    /// A flood: packets with this mark.
    Flood(u32, Stripe),
    /// What lies in them is still to be read.
    Over,
}

/// A flood that goes round basins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tenure {
    /// Which basins of the group.
    pub(super) index: usize,
    /// The how manieth flood of these it is.
    pub(super) flood: u64,
}

#[derive(Debug)]
struct Peer {
    socket: u32,
    connections: u32,
}

impl Group {
    /// Has the group of `socket` share by source: its links are the first `count` that were bound, and `basins` come later.
    ///
    /// Ports of one host that follow each other go to different sockets, and hosts are spread by their addresses.
    pub(super) fn share(socket: &Socket, count: usize, basins: Vec<Basins>) -> io::Result<Self> {
        let by_socket = vec![0; count].into();
        let floods = vec![Use::None; basins.len()].into();
        let group = Self {
            count: u32::try_from(count).map_err(io::Error::other)?,
            basins,
            dealt: Mutex::new(Dealt { peers: HashMap::new(), by_socket, floods }),
        };
        group.steer(socket, &HashMap::new(), &[])?;
        Ok(group)
    }

    /// All sockets for floods.
    pub(super) fn basins(&self) -> &[Basins] {
        &self.basins
    }

    /// The packets that come from `from` go round basins from now on, if there are any that are free or have not been used of late. They are
    /// to be left by [`Group::end_flood`] and [`Group::leave`].
    pub(super) fn begin_flood(&self, socket: &Socket, from: SocketAddr, stripe: Stripe) -> Option<Tenure> {
        let mark = mark(from);
        let Dealt { peers, floods, .. } = &mut *self.lock();
        if floods.iter().any(|flood| matches!(flood, Use::Flood(of, _) if *of == mark)) {
            return None;
        }
        let free = floods.iter().position(|flood| *flood == Use::None);
        let index = free.or_else(|| self.basins.iter().position(Basins::are_idle))?;
        let before = std::mem::replace(&mut floods[index], Use::Flood(mark, stripe));
        if self.steer(socket, peers, floods).is_err() {
            floods[index] = before;
            return None;
        }
        Some(Tenure { index, flood: self.basins[index].take() })
    }

    /// They go where they went before. Whether the system permits it.
    pub(super) fn end_flood(&self, socket: &Socket, Tenure { index, flood }: Tenure) -> bool {
        let Dealt { peers, floods, .. } = &mut *self.lock();
        if !self.basins[index].are_for(flood) {
            return true;
        }
        let before = std::mem::replace(&mut floods[index], Use::Over);
        let is_over = self.steer(socket, peers, floods).is_ok();
        if !is_over {
            floods[index] = before;
        }
        is_over
    }

    /// All that was in these basins has been read.
    pub(super) fn leave(&self, Tenure { index, flood }: Tenure) {
        let floods = &mut self.lock().floods;
        if self.basins[index].are_for(flood) {
            floods[index] = Use::None;
        }
    }

    /// A connection begins whose packets come from `from`. The first of a peer is dealt a socket that has no other, while there is one.
    pub(super) fn note_peer(&self, socket: &Socket, from: SocketAddr) {
        let mark = mark(from);
        let Dealt { peers, by_socket, floods } = &mut *self.lock();
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
            if self.steer(socket, peers, floods).is_err()
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
        let Dealt { peers, by_socket, .. } = &mut *self.lock();
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

    fn lock(&self) -> MutexGuard<'_, Dealt> {
        self.dealt.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the kernel the program, with a part for each flood and exceptions for those peers that are not where the hash has them.
    fn steer(&self, socket: &Socket, peers: &HashMap<u32, Peer>, floods: &[Use]) -> io::Result<()> {
        let mut program = self.program(peers, floods);
        steer::set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &mut program)
    }

    fn program(&self, peers: &HashMap<u32, Peer>, floods: &[Use]) -> Vec<libc::sock_filter> {
        let floods: Vec<_> = self
            .basins
            .iter()
            .zip(floods)
            .filter_map(|(basins, flood)| match flood {
                Use::Flood(mark, stripe) => Some(basins.program(*mark, *stripe)),
                Use::None | Use::Over => None,
            })
            .collect();
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
        program.extend(floods.into_iter().flatten());
        let exceptions = peers.iter().filter(|&(mark, peer)| peer.socket != mark % self.count);
        program.extend(
            exceptions.flat_map(|(&mark, peer)| [steer::skip_unless(mark, 1), steer::answer_is(peer.socket)]),
        );
        program.extend([steer::with(libc::BPF_MOD, self.count), steer::answer()]);
        program
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
