/*
 * cdp.h - CDP, reliable datagrams and streams between numbered nodes, with the calls of BSD sockets.
 *
 * Descriptors are small positive numbers of this library, not of the operating system: give them to no other call.
 * For poll(2), epoll(7) and event loops, cdp_poll_fd() gives a descriptor of the operating system.
 *
 * Every call may be made from any thread, and from any fiber of fiber.h, where it waits without stopping the thread and may
 * fail with ECANCELED (the fiber was cancelled). Unless its comment says otherwise a call returns 0 or more on success, and
 * -1 with errno set on failure; cdp_error() then tells in a sentence what happened and what to do next. Every call may
 * fail with EBADF (not a descriptor of the right kind), EFAULT (a pointer that must not be NULL is), ENOTSUP (the
 * process was forked after its first call: call exec, or fork first) and EIO (a defect in this library).
 *
 * Section numbers and names like CDP-DG-6 are those of the specification, docs/spec/cdp.md.
 */
#ifndef CDP_H
#define CDP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Limits and defaults ---------------------------------------------------------------------------------------- */

/* The UDP port a node is reached at unless something else is said (CDP-ENC-6). */
#define CDP_UDP_PORT 64064
/* The greatest node number, and the least of those that nodes without a number of their own choose from (CDP-ADR-8). */
#define CDP_NODE_LAST 0xFFFFFE
#define CDP_NODE_FIRST_UNREGISTERED 0x800000
/* Descriptors a process can have open. */
#define CDP_DESCRIPTORS_MAX 65536

/* ---- Addresses -------------------------------------------------------------------------------------------------- */

/* Kinds of underlay address in cdp_addr. */
#define CDP_UNDERLAY_NONE 0 /* none: the node is known by its number */
#define CDP_UNDERLAY_IPV4 4
#define CDP_UNDERLAY_IPV6 6

/*
 * One end of a connection, and where it is reached. All numbers in the byte order of the host.
 * To connect, give node and port, or underlay and port, or all three. { 0 } with a port is an address to bind.
 */
struct cdp_addr {
    uint32_t node;           /* node number 1..CDP_NODE_LAST; 0: this node (bind), whichever answers (connect) */
    uint16_t port;           /* CDP port 1..65535; 0 in bind: any that is free */
    uint16_t underlay;       /* CDP_UNDERLAY_NONE, _IPV4 or _IPV6 */
    uint16_t underlay_port;  /* UDP port */
    uint16_t reserved;       /* 0 */
    uint32_t underlay_scope; /* IPv6 scope, 0 otherwise */
    uint8_t underlay_ip[16]; /* the IP address as it travels: 4 bytes and zeros, or 16 bytes */
};

/* Room for any text of cdp_addr_text(), with its final zero. */
#define CDP_ADDR_TEXT_MAX 96

/*
 * Reads "HOST:PORT" into *addr: HOST is a name or an IP address (IPv6 in brackets), PORT the CDP port. Names of a cluster
 * file are for cdp_node_resolve(). Of a name's addresses it takes one of the family that the default node is bound to, or
 * before that is open an IPv4 address, if there is one.
 * underlay_port: UDP port of that host; 0 takes CDP_UDP_PORT.
 * errno: EINVAL text of another form; EHOSTUNREACH host unknown.
 */
int cdp_resolve(const char *text, uint16_t underlay_port, struct cdp_addr *addr);

/*
 * Writes *addr as a person reads it, such as "node 0x00abcd port 7 at 192.0.2.1:64064", cut to len bytes with its zero.
 * Returns the length of the whole text without its zero.
 */
int cdp_addr_text(const struct cdp_addr *addr, char *text, size_t len);

/* ---- Nodes ------------------------------------------------------------------------------------------------------ */

/* Flags of a node. */
#define CDP_NODE_STRICT 1  /* drop packets from nodes that neither the cluster file nor cdp_node_peer() named */
#define CDP_NODE_SPIN 2    /* dedicated workers poll without ever sleeping */
#define CDP_NODE_NO_SPIN 4 /* callers that wait sleep at once; spin_us means nothing */
#define CDP_NODE_OPEN 8    /* take packets from any node; without both flags the cluster file says, else open */
#define CDP_NODE_PORTS_BY_CORES 16 /* ports, which is 0 then: 1 on a single core, else two for each core and 32 at
                              most, so that a server with many peers uses them */

/* How a node's table of connections is locked. */
#define CDP_SCHEME_DEFAULT 0 /* the one that measured best */
#define CDP_SCHEME_COARSE 1  /* the papers' coarse-grain lock: one per list */
#define CDP_SCHEME_FINE 2    /* the papers' fine-grain lock: read/write locks along the list */
#define CDP_SCHEME_EPOCH 3   /* searches take no lock */

/* How a node is to be; start from CDP_NODE_CONFIG_INIT. */
struct cdp_node_config {
    uint32_t size;            /* sizeof(struct cdp_node_config) */
    uint32_t flags;           /* CDP_NODE_... */
    uint32_t node;            /* number; 0: that of name, else of the node of the cluster file with an address of
                                 this host; without a file a random unregistered one (CDP-ADR-8) */
    uint32_t ports;           /* UDP sockets that share the address; 0: 1 */
    uint32_t workers;         /* threads that do nothing but move packets; 0: callers do it while they wait */
    uint32_t linger_ms;       /* how long the end of the process waits for connections to close; 0: 2000 */
    uint32_t scheme;          /* CDP_SCHEME_... */
    uint32_t spin_us;         /* longest time a waiting caller polls before it sleeps; 0: 150 */
    uint32_t source_ports;    /* UDP ports of their own that connects go out by in turn (CDP-ENC-7), so that several connections
                                 to one peer share the cores of both; 0: none, they go out by the bound one */
    uint32_t reserved;        /* 0 */
    uint64_t memory_bytes;    /* memory that may be promised to peers (CDP-LIM-13); 0: half of the machine's */
    uint64_t socket_buffer_bytes; /* wanted for either buffer of the kernel of each UDP socket; 0: 8 MiB; without
                                 CAP_NET_ADMIN the kernel gives up to net.core.wmem_max and rmem_max; where that is
                                 less than 768 KiB, a port that one peer floods takes four times as much beside */
    const char *bind;         /* "IP:PORT" of the UDP socket; NULL: as the cluster file says, else any port on all
                                 IPv4 interfaces */
    const char *stat_name;    /* name under which "weft stat" finds this node; NULL: not offered */
    const char *cluster;      /* path of the cluster file, docs/cluster.md; NULL: none */
    const char *name;         /* name or number of this node in the cluster file; NULL: see node */
};
#define CDP_NODE_CONFIG_INIT { sizeof(struct cdp_node_config), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL }

/*
 * Opens the default node, on which cdp_socket() makes sockets. Without this call, the first cdp_socket() opens it with
 * CDP_NODE_CONFIG_INIT: good for clients, whose UDP port may be any. config: NULL is CDP_NODE_CONFIG_INIT.
 * errno: EALREADY it is open; EINVAL a field makes no sense, the cluster file is wrong or does not tell which node this
 * is; what open(2) says of the cluster file, and what socket(2) and bind(2) say.
 */
int cdp_init(const struct cdp_node_config *config);

/* Opens a further node and returns its descriptor. Arguments and errno as cdp_init(), without EALREADY. */
int cdp_node_open(const struct cdp_node_config *config);

/* In all calls that take a node: the default one, opened if need be. */
#define CDP_NODE_DEFAULT 0

/*
 * Tells a node where node addr->node is reached: for connects by number, and to check its packets (CDP-ADR-6).
 * errno: EINVAL node or underlay is missing in *addr.
 */
int cdp_node_peer(int node, const struct cdp_addr *addr);

/*
 * Finds who text means to a node: "NAME:SERVICE" as its cluster file names them. In place of the name may stand the
 * number or an underlay address of the node, in place of the service a port; "echo" and "discard" are always known. An
 * open node also takes "HOST:PORT", for whichever node is at CDP_UDP_PORT of that host, as cdp_resolve() does.
 * errno: EINVAL text of another form, or an unknown service; EHOSTUNREACH nobody is called so: cdp_error() then tells
 * the names that are close to it.
 */
int cdp_node_resolve(int node, const char *text, struct cdp_addr *addr);

/* Returns CDP_NODE_STRICT or CDP_NODE_OPEN. */
int cdp_node_mode(int node);

/* Gives the number of a node and the underlay address of its first link; port is 0. */
int cdp_node_address(int node, struct cdp_addr *addr);

/*
 * Closes every connection of a node by FIN, waits at most limit_ms, and resets what is left (CDP-ST-H). Returns how
 * many connections had to be reset. A descriptor of cdp_node_open() is then free; sockets of the node remain, to be
 * closed: one without a connection says ENETDOWN, a listener EINVAL, a connection what it says after its end.
 * CDP_NODE_DEFAULT may be opened again afterwards. errno: EBADF.
 */
int cdp_node_close(int node, uint32_t limit_ms);

/* Counters of a node. */
struct cdp_node_stats {
    uint64_t packets_in;     /* packets the links received */
    uint64_t packets_out;    /* packets the links sent */
    uint64_t bytes_in;       /* their bytes, headers included */
    uint64_t bytes_out;
    uint64_t dropped;        /* packets dropped, all reasons together (CDP-CHK-3) */
    uint64_t resets_sent;    /* echo-form RSTs sent */
    uint64_t promised_bytes; /* memory promised to peers (CDP-LIM-13) */
    uint64_t connections;    /* connections in any state but QUIET */
    uint64_t quiet;          /* connections in QUIET (CDP-LIM-12) */
    uint64_t listeners;
};

/* Copies the counters of a node to *stats, of which only the first size bytes are written: give sizeof(*stats). */
int cdp_node_stats(int node, struct cdp_node_stats *stats, size_t size);

/* ---- Sockets ---------------------------------------------------------------------------------------------------- */

/* Services (CDP-SVC-1). */
#define CDP_DATAGRAM 1 /* messages with boundaries, in order, none lost */
#define CDP_STREAM 2   /* bytes in order */

/* Makes a socket on the default node. errno: EINVAL no such service; EMFILE no descriptor left; and as cdp_init(). */
int cdp_socket(int service);

/* Makes a socket on a node of cdp_node_open(). errno: as cdp_socket(). */
int cdp_socket_on(int node, int service);

/*
 * Chooses the local port of a socket that neither listens nor is connected. The port is taken when it begins to
 * listen or to connect: an address in use shows there. errno: EADDRNOTAVAIL addr->node is another node; EINVAL too late.
 */
int cdp_bind(int s, const struct cdp_addr *addr);

/*
 * Takes connections on the bound port, or on any free one if none was bound. accept_limit: connections that may wait
 * for cdp_accept(), 1..4096; less is taken as 1, more as 4096 (CDP-LIM-4). errno: EADDRINUSE, EADDRNOTAVAIL no port
 * free, ENOBUFS, ENETDOWN, EINVAL connected or listening already.
 */
int cdp_listen(int s, int accept_limit);

/*
 * Connects, and waits until the connection is open or has failed (CDP-ST-1). A CDP_NONBLOCK socket returns -1 with
 * EINPROGRESS unless the result is known at once: when cdp_poll_fd(s, CDP_WRITABLE) is readable, cdp_connect() again or
 * the option CDP_ERROR tells it. After a failure the socket may connect again.
 * errno: ECONNREFUSED, ETIMEDOUT, EPROTOTYPE the peer is of the other service, EPROTONOSUPPORT, EHOSTUNREACH no underlay
 * address, EADDRINUSE, EADDRNOTAVAIL no port free or connect to itself, ENOBUFS, ENETDOWN, EALREADY, EISCONN, EINVAL
 * listening or port 0 (section 16); or what the system says where this host has no way to the peer, as ENETUNREACH, EACCES,
 * EAFNOSUPPORT, EADDRNOTAVAIL or EINVAL.
 */
int cdp_connect(int s, const struct cdp_addr *addr);

/*
 * Takes the next connection of a listening socket and returns its descriptor, which has the listener's options.
 * peer: where to write the other end's address, or NULL.
 * errno: EAGAIN none is there (CDP_NONBLOCK, CDP_RECV_TIMEOUT); EINVAL not listening; EMFILE.
 */
int cdp_accept(int s, struct cdp_addr *peer);

/* Flags of cdp_send() and cdp_recv(). */
#define CDP_DONTWAIT 1 /* this call does not wait, as if CDP_NONBLOCK were set */
#define CDP_TRUNC 2    /* cdp_recv() on a datagram socket returns the length of the message, even if it was cut */

/*
 * Sends one message (datagram; whole or not at all) or bytes (stream), and returns how many bytes were taken: all of
 * them, or, from a stream that does not wait, whose CDP_SEND_TIMEOUT passes or whose connection ends meanwhile, at least
 * one: then the next call tells why. len may be 0 for a datagram only.
 * errno: EAGAIN queue full; EMSGSIZE above the limit (CDP-DG-6), nothing was sent; EPIPE closed by either end;
 * ENOTCONN; ENOBUFS; or the error that ended the connection (section 16).
 */
ssize_t cdp_send(int s, const void *data, size_t len, int flags);

/*
 * Receives one message (datagram; what does not fit is lost) or bytes (stream), and returns how many bytes were written.
 * Those behind them may have been overwritten, also where none came or the call fails. End of file is 0 for a
 * stream; a datagram may be empty, so there it is -1 with ENODATA.
 * errno: EAGAIN nothing there; ENODATA; ENOTCONN; or the error that ended the connection, after all data that had
 * arrived in order was read (CDP-ERR-2).
 */
ssize_t cdp_recv(int s, void *buffer, size_t len, int flags);

/* Makes datagrams that gather for a common packet leave now. Does not wait for the peer. errno: ENOTCONN. */
int cdp_flush(int s);

/* What became of a connection that was closed (CDP-ST-E). */
struct cdp_close_result {
    uint32_t confirmed;         /* 1: the peer acknowledged the end, hence everything before it, or it had closed first */
    uint32_t discarded_here;    /* packets acknowledged here that no reader took */
    uint32_t discarded_by_peer; /* packets of ours that the peer says no reader took */
    uint32_t reason;            /* REASON code of section 16; 15 is an ordinary close */
    uint64_t undelivered;       /* packets of ours, sent or not, that were dropped as the peer had closed first */
};

/*
 * Closes a socket and frees its descriptor. A connection is closed in two ways at once: what was sent is delivered,
 * what was not read is discarded, and the peer can send no more (section 10). Waits for the peer's answer, at most
 * CDP_CLOSE_TIMEOUT; a CDP_NONBLOCK socket does not wait. Closing a listener resets what nobody accepted.
 * 0 says only that the descriptor is free: whether the time was over, in which case the close goes on in the background, or
 * something was not delivered is told by cdp_close_result() alone.
 * errno: EBADF; or the error that had ended the connection. The descriptor is free in any case.
 */
int cdp_close(int s);

/*
 * Closes a connection as cdp_close(), waits at most timeout_ms (negative: CDP_CLOSE_TIMEOUT), and tells what became of
 * it. errno: EAGAIN no result yet: the close goes on, the descriptor stays, call again; ENOTCONN; or the error that had
 * ended the connection. Only with EAGAIN, EBADF, ECANCELED, EFAULT and ENOTCONN does the descriptor stay.
 */
int cdp_close_result(int s, int timeout_ms, struct cdp_close_result *result);

/* Begins to close a connection without waiting; the descriptor stays for cdp_close() or cdp_close_result(). CDP has no
 * half-close: neither end can send afterwards. Threads that wait in cdp_recv() return. errno: ENOTCONN. */
int cdp_shutdown(int s);

/* Ends a connection by a reset, loses what was not delivered (CDP-ST-29), and frees the descriptor. errno: ENOTCONN, and
 * then the descriptor stays. */
int cdp_abort(int s);

/* Gives this end of a socket: node and port; port 0 if none was chosen. */
int cdp_getsockname(int s, struct cdp_addr *addr);

/* Gives the other end of a connection, with its present underlay address. errno: ENOTCONN. */
int cdp_getpeername(int s, struct cdp_addr *addr);

/* ---- Options ---------------------------------------------------------------------------------------------------- */

/*
 * Options are whole numbers; value points to an int (len 4) or an int64_t (len 8). Those marked "first" are part of
 * the handshake and can be set only before listen or connect (EINVAL later); accepted sockets have the listener's.
 */
#define CDP_NONBLOCK 1            /* 1: calls return EAGAIN or EINPROGRESS instead of waiting; 0 (default) */
#define CDP_SEND_TIMEOUT 2        /* ms cdp_send() waits for room, then EAGAIN; 0 (default): without limit */
#define CDP_RECV_TIMEOUT 3        /* ms cdp_recv() and cdp_accept() wait, then EAGAIN; 0 (default): without limit */
#define CDP_CONNECT_TIMEOUT 4     /* first: ms cdp_connect() waits, 63000 (SYN_TIME) */
#define CDP_CLOSE_TIMEOUT 5       /* first: ms the protocol tries to deliver the rest after close, 60000 (FIN_GIVE_UP) */
#define CDP_CONGESTION 6          /* first: CDP_CUBIC (default), CDP_MODEL or CDP_FIXED (CDP-CC-1) */
#define CDP_FIXED_WINDOW 7        /* first: packets of CDP_FIXED, 1..2^30-1; 64 (CDP-CC-2) */
#define CDP_INTEGRITY 8           /* first: 1 (default) packets carry a CRC32C; 0 not, unless the peer asks (section 6) */
#define CDP_RECEIVE_SLOTS 9       /* first: packets the peer may send ahead of the reader, 1024; within a host as many bytes (CDP-LIM-5) */
#define CDP_SEND_BYTES 10         /* first: bytes the send queue holds, 4194304; of datagrams 1024 packets at most (CDP-LIM-8) */
#define CDP_COALESCING 11         /* first: CDP_COALESCE_OFF, CDP_COALESCE_BUSY (default), or 1..1000 us to wait */
#define CDP_KEEPALIVE_INTERVAL 12 /* first: s of silence before a client probes, 60 (section 11) */
#define CDP_KEEPALIVE_EXPIRY 13   /* first: s without a packet before the connection is dropped, 300 */
#define CDP_MESSAGE_BYTES 14      /* first: greatest message this end accepts, 16777216 (CDP-LIM-9) */
#define CDP_CONFIRM 15            /* first: 1: close is confirmed only when the peer's user has read everything; 0 */
#define CDP_MSS 16                /* first: greatest data segment, 512..65507; 0 (default): what the link allows */
#define CDP_NO_PROGRESS 17        /* first: ms a peer may keep its window closed, 300000; 0: without limit */
#define CDP_ACK_DELAY 18          /* first: us an acknowledgement may wait, 1000 (ACK_DELAY) */
#define CDP_RTO_INIT 19           /* first: ms before the first retransmission, 250 (RTO_INIT); 1 is taken as 2 */
#define CDP_SERVICE 20            /* get only: CDP_DATAGRAM or CDP_STREAM */
#define CDP_ERROR 21              /* get only: errno of a connect that did not wait, and 0 afterwards */
#define CDP_GIVE_UP 22            /* first: ms what was sent may stay unacknowledged, 100000; at least 8 tries (R2) */

/* Values of CDP_CONGESTION. */
#define CDP_CUBIC 1
#define CDP_MODEL 2
#define CDP_FIXED 3
/* Values of CDP_COALESCING beside a number of microseconds (CDP-COA-7). */
#define CDP_COALESCE_OFF (-1)
#define CDP_COALESCE_BUSY 0

/* Sets an option. errno: ENOPROTOOPT no such option, or get only; EINVAL value or len out of range, or too late. */
int cdp_setsockopt(int s, int option, const void *value, size_t len);

/* Gets an option; *len is the room at value, 4 or 8, and stays. errno: ENOPROTOOPT; EINVAL *len. */
int cdp_getsockopt(int s, int option, void *value, size_t *len);

/* ---- Readiness -------------------------------------------------------------------------------------------------- */

#define CDP_READABLE 1 /* cdp_recv() or cdp_accept() would not wait */
#define CDP_WRITABLE 2 /* cdp_send() would not wait; a connect has its result */
#define CDP_CLOSED 3   /* cdp_close_result() would not wait */

/*
 * Gives a descriptor of the operating system that is readable (POLLIN) as long as the condition holds, for poll(2) and
 * its kin. It belongs to the socket: do not read, write or close it; it ends with the socket, or with a connect that
 * failed.
 * errno: EINVAL no such condition, or the socket neither listens nor is connected; EMFILE.
 */
int cdp_poll_fd(int s, int condition);

/*
 * For a program that sleeps in epoll_wait(2) or the like, not in calls of this library: gives a descriptor that is readable
 * (POLLIN) when packets have come for a node, and asks the node to leave these to the program. Without it they wake a thread of
 * the node, which wakes the program; with it among those that it waits for, the program is woken at once, and calls
 * cdp_progress(), which makes the descriptors of cdp_poll_fd() readable. Those are to be waited for as well: what they tell may
 * also have come while another thread was at work. A program that does not call for a millisecond is not relied on.
 * It belongs to the node: do not read, write or close it. errno: EBADF; EMFILE.
 */
int cdp_progress_fd(int node);

/*
 * Works off what has come for a node, a batch at most. Returns 1 if anything had. If it returns 0, nothing is left of what came
 * before the call, but for a flood that a thread of the node takes in, and the descriptor becomes readable with what comes
 * next, also for who waits for edges (EPOLLET).
 * errno: EBADF; EMFILE.
 */
int cdp_progress(int node);

/* ---- Statistics ------------------------------------------------------------------------------------------------- */

/* What kept a sender from sending more, in cdp_stats.limited_by. */
#define CDP_LIMITED_APPLICATION 0
#define CDP_LIMITED_RECEIVER_WINDOW 1
#define CDP_LIMITED_CONGESTION_WINDOW 2
#define CDP_LIMITED_PATH_LOSS 3

/* Counters and measures of a connection. */
struct cdp_stats {
    uint64_t rtt_ns;              /* smoothed round trip; 0 before the first sample */
    uint64_t rtt_min_ns;          /* least round trip lately; 0 before the first sample */
    uint64_t rtt_variance_ns;     /* as RFC 6298 has it */
    uint64_t rto_ns;              /* retransmission time-out */
    uint64_t congestion_window;   /* packets */
    uint64_t in_flight;           /* packets */
    uint64_t send_window;         /* packets the peer has room for */
    uint64_t receive_window;      /* packets this end has room for */
    uint64_t mss;                 /* greatest data segment in use, bytes */
    uint64_t queued_bytes;        /* taken by cdp_send(), not sent yet */
    uint64_t bytes_sent;          /* user data, without retransmissions */
    uint64_t bytes_acked;         /* user data the peer acknowledged */
    uint64_t bytes_received;      /* user data that arrived in order */
    uint64_t messages_sent;
    uint64_t messages_received;
    uint64_t packets_sent;
    uint64_t packets_received;
    uint64_t retransmitted;       /* data packets sent again */
    uint64_t lost;                /* packets declared lost */
    uint64_t spurious;            /* losses that were late arrivals */
    uint64_t timeouts;            /* retransmission time-outs */
    uint64_t duplicates;          /* data packets that came more than once */
    uint64_t out_of_order;        /* data packets that came out of order */
    uint64_t discarded;           /* acknowledged here, never read */
    uint64_t discarded_by_peer;   /* acknowledged there, never read, as the peer told */
    uint64_t limited_by;          /* CDP_LIMITED_..., now */
    uint64_t limited_ns[4];       /* time under each verdict, in the order of CDP_LIMITED_... */
};

/* Copies the counters of a connection to *stats, of which only the first size bytes are written: give sizeof(*stats).
 * errno: ENOTCONN. */
int cdp_stats(int s, struct cdp_stats *stats, size_t size);

/* ---- Errors ----------------------------------------------------------------------------------------------------- */

/* The last failure of this thread as a sentence: cause and next step. "" if there was none. Valid until the next call
 * of this library by this thread. */
const char *cdp_error(void);

/* What an errno means in CDP (section 16), such as "connection refused: nobody listens on that port". Never NULL. */
const char *cdp_strerror(int error);

/* The name of a REASON code (section 16), such as "gave up"; "none" for unknown codes (CDP-ERR-1). Never NULL. */
const char *cdp_reason_name(uint32_t reason);

/* The version of this library, such as "0.1.0". */
const char *cdp_version(void);

#ifdef __cplusplus
}
#endif

#endif
