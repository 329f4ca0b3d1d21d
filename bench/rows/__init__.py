"""What `bench/compare` measures: rows of contenders on wires. How each is run stands in `contenders`."""

import os

from . import wires
from .contenders import FAR_SLOTS, WEFT_PORT, Forwarded, Weft, beside, enet, jain, kernel, local, loop, quinn, routed, share, slowest, total, ucx

SIZES = [1, 16, 64, 256, 512, 1024, 1444, 1472]
# quinn's largest datagram where every way carries 1,280 bytes.
DATAGRAM_MAX = 1200
# A controller of ours beside the same kind of the kernel's and of quinn's.
KINDS = {"cubic": "cubic", "model": "bbr"}
# Two flows need time to come to terms: this many times the seconds of other rows.
TERMS = 5
# Round trips of each of several clients.
PINGS = 10_000
# The same of many that share cores, of all together in a second.
CROWD_PINGS = 100_000
CROWDS = (2, 4, 8, 16, 32)
# A server as it is by default where there are two cores.
ONE_PORT = ["--ports", "1"]
# So many connections share cores on most machines.
MANY = (16, 64)
# What the kernel's buffers are for a user without privileges where nobody raised net.core.rmem_max.
NARROW = ["--socket-buffer", "208K"]
# Lines of 64 bytes of code that a round trip over bare sockets has at either end.
CODE_LINES = [64, 128, 192, 256, 384, 512]
# Before each send and behind it: a short way for lone messages, with the rest of the work behind it.
CODE_BEHIND = [(64, 256), (96, 256), (128, 256), (64, 512), (96, 512), (128, 512)]

GBIT, CPU = ("gbit_per_s", "Gbit/s"), ("cpu_s_per_gb", "processor s/GB")
MESSAGES, RTT = ("messages_per_s", "messages/s"), ("rtt_ns_p50", "ns")
TRIPS = ("trips_per_s", "round trips/s")


class Row:
    """What is measured: contenders by name, the one the others are compared with, and on which wires."""

    def __init__(self, name, on, metrics, reference, contenders, cores=0, own=()):
        self.name, self.on, self.metrics, self.reference, self.contenders = name, list(on), metrics, reference, contenders
        # Contenders that need no program but those of the bench.
        self.own = own
        # Threads that have a core each, where the row is one of receiving threads.
        self.cores = cores

    def program(self, name):
        """The program that a contender needs, which may be missing unless it is the bench's own."""
        return "loops" if name in self.own else name.split("-")[0]


def all_rows():
    return [*bulk(), *messages(), *pings(), *loops(), *code(), *loss(), *fairness(), *forwarded(), *peers(), *crowds(), *connections(), *look_up(), *copies(), *receive()]


def bulk():
    # Joined messages fill a packet each.
    sizes = {wire: str(wire.mtu - 28) for wire in wires.ALL.values()}

    def joined(test):
        return lambda bench: kernel(test, "--size", sizes[bench.wire], "--spin")(bench)

    yield Row("bulk", [*wires.OFFLOADS, *wires.CUT, *wires.JUMBO], [GBIT, CPU], "tcp", {
        "tcp": kernel("tcp", "--size", "131072"),
        "udp-joined": joined("udp-joined"),
        "udp-spliced": joined("udp-spliced"),
        "quinn": quinn("stream", "--size", "131072"),
        "ucx": ucx("tag_bw", 131072, 10_000),
        "weft": Weft.stream(),
        "weft-208K": Weft.stream(both=NARROW),
    })
    yield Row("slow-bulk", wires.SLOW, [GBIT, CPU], "tcp", {
        "tcp": kernel("tcp", "--size", "131072"),
        "quinn": quinn("stream", "--size", "131072"),
        "weft": Weft.stream(),
    })


def messages():
    for size in SIZES:
        contenders = {
            "tcp": kernel("tcp", "--size", str(size)),
            "tcp-no-delay": kernel("tcp", "--size", str(size), "--no-delay"),
            "udp": kernel("udp", "--size", str(size), "--spin"),
        }
        if size <= DATAGRAM_MAX:
            contenders["quinn-datagram"] = quinn("datagram", "--size", str(size))
        if size >= 1024:
            contenders["quinn-stream"] = quinn("stream", "--size", str(size))
        if size == 64:
            contenders["enet"] = enet("message", "--size", str(size))
            contenders["ucx"] = ucx("tag_bw", size, 500_000)
        contenders["weft"] = Weft.messages(size)
        contenders["weft-one-by-one"] = Weft.messages(size, "--coalescing", "off")
        yield Row(f"messages-{size}", wires.OFFLOADS, [MESSAGES], "tcp", contenders)


def pings():
    # Spinning, the client never sleeps, and the server's default spin is longer than a round trip. Blocking, both do as
    # they do by default, or sleep whenever nothing is there.
    yield Row("ping-spinning", wires.OFFLOADS, [RTT], "udp", {
        "tcp": kernel("tcp-ping", "--size", "64", "--spin"),
        "udp": kernel("udp-ping", "--size", "64", "--spin"),
        "enet": enet("ping", "--size", "64"),
        "ucx": ucx("tag_lat", 64, 20_000),
        "weft": Weft.ping(20000, ["--spin-time", "1s"], []),
    })
    # Messages of several packets.
    for size in (4096, 16384, 65536):
        yield Row(f"ping-{size}", wires.OFFLOADS, [RTT], "tcp", {
            "tcp": kernel("tcp-ping", "--size", str(size), "--spin"),
            "udp": kernel("udp-ping", "--size", str(size), "--spin"),
            "ucx": ucx("tag_lat", size, 10_000),
            "weft": Weft.ping(3000, ["--spin-time", "1s"], [], size=size),
        })
    yield Row("ping-blocking", [*wires.OFFLOADS, *wires.ONE_CORE], [RTT], "udp", {
        "tcp": kernel("tcp-ping", "--size", "64"),
        "udp": kernel("udp-ping", "--size", "64"),
        "weft": Weft.ping(5000, [], []),
        "weft-sleeping": Weft.ping(5000, ["--spin-time", "0s"], ["--spin-time", "0s"]),
    })
    # Without IP and UDP: our packet link beside a packet socket with a ring.
    yield Row("ping-packet", wires.OFFLOADS, [RTT], "ring", {
        "ring": kernel("ring-ping", "--size", "64", "--spin"),
        "weft": Weft.ping(20000, ["--spin-time", "1s"], [], is_packet=True),
    })


def loops():
    """Threads that sleep in a loop of events: one of the program's own, or tokio's."""
    own = ["tcp", "weft", "weft-progress"]
    for name, options in (("loop", []), ("tasks", ["--tokio"])):
        yield Row(f"{name}-ping", wires.OFFLOADS, [RTT], "udp", {
            contender: loop(contender, "ping", *options) for contender in ["udp", *own]
        }, own=own)
    rivals = {
        "bulk": ([*wires.OFFLOADS, *wires.CUT], [GBIT, CPU], {"quinn": quinn("stream", "--size", "131072")}),
        "messages": (wires.OFFLOADS, [MESSAGES], {"quinn-datagram": quinn("datagram", "--size", "64")}),
    }
    for test, (on, metrics, others) in rivals.items():
        yield Row(f"tasks-{test}", on, metrics, "tcp", {
            **{contender: loop(contender, test, "--tokio") for contender in own},
            **others,
        }, own=own)


def code():
    # What a transport takes by the room of its instructions alone.
    for name, test, is_packet in (("udp", "udp-ping", False), ("ring", "ring-ping", True)):
        bare = [test, "--size", "64", "--spin"]
        yield Row(f"code-{name}", wires.OFFLOADS, [RTT], name, {
            name: kernel(*bare),
            **{f"{name}-{lines}": kernel(*bare, "--code-lines", str(lines)) for lines in CODE_LINES},
            **{
                f"{name}-{before}-{behind}": kernel(
                    *bare, "--code-lines", str(before), "--code-lines-behind", str(behind)
                )
                for before, behind in CODE_BEHIND
            },
            "weft": Weft.ping(20000, ["--spin-time", "1s"], [], is_packet=is_packet),
        })


def loss():
    for ours, theirs in KINDS.items():
        # Small sends: the end of a slow run is not long.
        stream = ["--size", "16384", "--controller", theirs]
        for on, is_far in [(wires.NEAR_LOSS, False), (wires.FAR_LOSS, True)]:
            yield Row(f"loss-{ours}", on, [GBIT], "tcp", {
                "tcp": kernel("tcp", *stream),
                "quinn": quinn("stream", *stream),
                "weft": Weft.stream(ours, is_far),
            })


def fairness():
    for ours, theirs in KINDS.items():
        tcp = kernel("tcp", "--size", "16384", "--controller", theirs, factor=TERMS)

        def weft(at, ours=ours):
            windows = ["--receive-slots", str(FAR_SLOTS)]
            client = ["--congestion", ours, "--send-bytes", "32M"]
            return lambda bench: Weft.perf(bench, client, windows, at=at, factor=TERMS)

        yield Row(f"fairness-{ours}", wires.SHARED, [("jain", "Jain index of two flows")], "tcp", {
            "tcp": beside(tcp, tcp, of=jain),
            "weft": beside(weft(WEFT_PORT), weft(WEFT_PORT + 1), of=jain),
        })
        yield Row(f"share-{ours}", wires.SHARED, [("share", "times the TCP flow beside it")], "tcp", {
            "tcp": beside(tcp, tcp, of=share),
            "weft": beside(weft(WEFT_PORT), tcp, of=share),
        })


def forwarded():
    """What a node between costs: an I/O node of ours, and the kernel of a host that routes."""
    tcp, ping = ["tcp", "--size", "131072"], ["udp-ping", "--size", "64"]
    yield Row("forwarded-bulk", wires.BETWEEN, [GBIT, CPU, ("forwarder_ns", "ns of the I/O node for a packet")], "weft", {
        "weft": Weft.stream(),
        "weft-io-node": Forwarded.bulk(),
    })
    yield Row("forwarded-bulk-tcp", wires.BETWEEN, [GBIT], "tcp", {"tcp": kernel(*tcp), "tcp-routed": routed(*tcp)})
    yield Row("forwarded-ping", wires.BETWEEN, [RTT], "weft", {
        "weft": Weft.ping(5000, [], []),
        "weft-io-node": Forwarded.ping(5000),
    })
    yield Row("forwarded-ping-udp", wires.BETWEEN, [RTT], "udp", {"udp": kernel(*ping), "udp-routed": routed(*ping)})


def peers():
    """A server on half of the cores and its clients on the other half, each a process and a node of its own."""
    tests = {
        "bulk": (GBIT, ["tcp", "--size", "131072"], load()),
        "messages-64": (MESSAGES, ["tcp", "--size", "64"], load("--datagram", "--size", "64")),
        "ping": (RTT, ["tcp-ping", "--size", "64", "--spin"],
                 lambda bench: (["ping", "--flood", "--count", str(PINGS), "--size", "64", "--spin-time", "1s"], Weft.round_trip)),
    }
    for test, (metric, rival, client) in tests.items():
        for count in doubled(wires.HALF):
            each = ["--ports", str(count), "--workers", str(count)]
            contenders = {
                "tcp": beside(*[kernel(*rival)] * count, of=total),
                "weft": Weft.peers(count, [], client),
                "weft-one-port": Weft.peers(count, ONE_PORT, client),
                "weft-workers": Weft.peers(count, each, client),
            }
            if test == "bulk":
                contenders["weft-208K"] = Weft.peers(count, NARROW, load(*NARROW))
            yield Row(f"peers-{test}-{count}", wires.HALVES, [metric], "tcp", contenders)


def crowds():
    """Clients that share cores, and so do the threads of their server: each asks and waits, as by default."""
    for count in CROWDS:
        def client(bench, count=count):
            pings = round(CROWD_PINGS * bench.seconds / count)
            return ["ping", "--flood", "--count", str(pings), "--size", "64"], Weft.trips

        yield Row(f"crowd-{count}", ["halves-on"], [TRIPS], "tcp", {
            "tcp": beside(*[kernel("tcp-ping", "--size", "64")] * count, of=total),
            "weft": Weft.peers(count, [], client, of=slowest),
        })


def connections():
    """One node with several connections to another, each end on half of the cores; each has a thread at either end."""
    tests = {
        "bulk": ([GBIT, CPU], ["tcp", "--size", "131072"], []),
        "messages-64": ([MESSAGES], ["tcp", "--size", "64"], ["--datagram", "--size", "64"]),
    }
    for test, (metrics, rival, options) in tests.items():
        for count in sorted({*doubled(wires.HALF), *MANY}):
            parallel = ["--parallel", str(count)]
            several = [*options, *parallel]
            yield Row(f"connections-{test}-{count}", wires.HALVES, metrics, "tcp", {
                "tcp": kernel(*rival, *parallel),
                "weft": Weft.loaded(several),
                "weft-one-port": Weft.loaded([*several, "--source-ports", "0"], ONE_PORT),
            })


def load(*options):
    """What a client of `Weft.peers` does."""
    return lambda bench: (Weft.load(bench.seconds, WEFT_PORT, *options), Weft.rates)


def doubled(most):
    """1, 2, 4 and so on up to `most`, and `most` itself."""
    return sorted({most, *(2**power for power in range(most.bit_length()))})


def look_up():
    for scheme in ["coarse", "fine", "epoch"]:
        yield Row(f"look-up-{scheme}", wires.NONE, [("ns_per_look_up", "ns")], "10^2 connections", {
            "10^2 connections": local("look_up", scheme, "100"),
            "10^5 connections, 10^2 active": local("look_up", scheme, "100000", "--active", "100"),
            "10^5 connections, all active": local("look_up", scheme, "100000"),
        })


def copies():
    """What a packet's copy takes by how much memory the copies go round, and whether another core reads it in between."""
    for name, options in [("copies", []), ("copies-read", ["--core", "1", "--reader", "0"])]:
        yield Row(name, wires.NONE, [("plain_ns", "ns"), ("summed_ns", "ns")], "128 KiB", {
            f"{kib} KiB": local("copies", str(kib), *options) for kib in [128, 1024, 2048, 4096, 16384, 65536]
        })


def receive():
    cores = os.cpu_count() or 1
    threads = doubled(max(4, cores))
    for scheme in ["coarse", "fine", "epoch"]:
        for where, is_each in [("one-port", False), ("port-each", True)]:
            # Threads that share a core are said to: what they lose is not the scheme's.
            names = {count: f"{count} thread" + ("s" if count > 1 else "") + (" (cores shared)" if count > cores else "")
                     for count in threads}
            yield Row(f"receive-{scheme}-{where}", wires.NONE, [("packets_per_s", "packets/s")], "1 thread", {
                name: local("receive", scheme, "--threads", str(count), "--ports", str(count if is_each else 1),
                            cores=f"0-{cores - 1}")
                for count, name in names.items()
            }, cores=cores)
