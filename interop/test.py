#!/usr/bin/env python3
"""Two implementations of CDP meet: this directory's, written from the specification alone, and the `weft` command.

    python3 interop/test.py [PATH-OF-WEFT] [SCENARIO …]

Each scenario is a function; every wait is bounded; the exit code is 1 if one fails. Besides what a scenario asks, an
auditor looks at each packet that weft sends and fails the scenario when one breaks a rule.
"""

import sys

sys.dont_write_bytecode = True

import pathlib  # noqa: E402
import random  # noqa: E402
import re  # noqa: E402
import secrets  # noqa: E402
import time  # noqa: E402
import traceback  # noqa: E402

import packet as bytes_of  # noqa: E402
import rules  # noqa: E402
import vectors  # noqa: E402
from cdp import DATAGRAM, STREAM, Closed, Endpoint, Options  # noqa: E402
from harness import ROOT, Server, Weft, clean, client, echo_all, ended, equal, exchange  # noqa: E402
from packet import ACK, DAT, ECE, PIN, RST, SYN, Packet  # noqa: E402

NOISE = random.Random(7).randbytes(300_000)

# --- scenarios ------------------------------------------------------------------------------------------------------


def the_test_vectors_of_the_specification():
    count, complaints = vectors.check((ROOT / "docs/spec/cdp.md").read_text())
    equal(complaints, [], "vectors")
    equal(count > 40, True, f"{count} vectors found")


def datagrams_come_back():
    sizes = (0, 1, 100, 1400, 5000)
    for options in (Options(), Options(coalesce=False), Options(scale=0, sack=False)):
        with Server("--echo", "--datagram") as server, Endpoint() as peer:
            server.meet(peer, options)
            for size in sizes:
                peer.send(NOISE[:size])
                equal(peer.recv(), NOISE[:size], f"{size} bytes")
            equal(peer.close(), True, "confirmed")
            peer.linger()
            clean(peer)


def many_small_messages_share_packets():
    messages = [NOISE[size : size + size * size % 700] for size in range(300)]
    with Server("--echo", "--datagram") as server, Endpoint() as peer:
        server.meet(peer, Options())
        peer.send(*messages)
        equal([peer.recv() for _ in messages], messages, "messages")
        packets = peer.connection.nxt - peer.connection.iss
        equal(packets < 150, True, f"{packets} packets of records")
        peer.close()
        clean(peer)


def base_service_without_any_option():
    bare = Options(coalesce=False, message=0, sack=False)
    with Server("--echo", "--datagram") as server, Endpoint() as peer:
        server.meet(peer, bare)
        for size in (0, 512, 1400):
            peer.send(NOISE[:size])
            equal(peer.recv(), NOISE[:size], f"{size} bytes")
        peer.close()
        clean(peer)


def a_stream_comes_back():
    with Server("--echo") as server, Endpoint() as peer:
        server.meet(peer, Options(service=STREAM))
        exchange(peer, NOISE[:200_000])
        equal(peer.close(), True, "confirmed")
        clean(peer)


def weft_connects_with_datagrams():
    lines = [b"first", b"", b"x" * 5000, b"last"]
    for cookies in (False, True):
        with Endpoint() as peer:
            peer.listen(7, Options(), cookies)
            text = b"\n".join(lines) + b"\n"
            with client(peer, "-d", text=text, back=len(text)) as weft:
                peer.accept()
                equal(echo_all(peer), "end of file", "the end")
                peer.close()
                equal((weft.end(peer), weft.out), (0, b"\n".join(lines) + b"\n"), weft.err)
                equal(weft.event("closed")["confirmed"], True, "confirmed")
            clean(peer)


def weft_connects_with_a_stream():
    for cookies in (False, True):
        with Endpoint() as peer:
            peer.listen(7, Options(service=STREAM), cookies)
            with client(peer, text=NOISE[:200_000], back=200_000) as weft:
                peer.accept()
                echo_all(peer)
                peer.close()
                equal((weft.end(peer), weft.out), (0, NOISE[:200_000]), weft.err[:500])
                equal(weft.event("closed")["confirmed"], True, "confirmed")
            clean(peer)


def either_side_closes():
    for confirm in (False, True):
        with Server("--confirm") as server, Endpoint() as peer:
            server.meet(peer, Options(service=STREAM, confirm=confirm))
            peer.send(b"all of it")
            equal(peer.close(), True, "confirmed to Python")
            closed = server.event("closed")
            equal(server.end(peer), 0, server.err)
            equal((server.out, closed["discarded_by_peer"]), (b"all of it", 0), str(closed))
            clean(peer)
        with Endpoint() as peer:
            peer.listen(7, Options(service=STREAM, confirm=confirm))
            with client(peer, "--confirm", text=b"to the last byte") as weft:
                peer.accept()
                time.sleep(0.4)  # with CONFIRM the FIN waits until this end reads
                equal(peer.recv(), b"to the last byte", "data")
                ended(peer, "end of file", "the end")
                peer.close()
                equal(weft.end(peer), 0, weft.err)
                closed = weft.event("closed")
                equal((closed["confirmed"], closed["discarded_by_peer"]), (True, 0), str(closed))
            clean(peer)


def what_was_not_read_is_told():
    with Endpoint() as peer:
        peer.listen(7, Options(), False)
        with client(peer, "-d", text=None) as weft:
            peer.accept()
            weft.process.stdin.write(b"one\n")
            weft.process.stdin.flush()
            peer.wait(lambda: peer.connection.inbox)
            equal(peer.close(), True, "confirmed")
            peer.linger(0.2)
            weft.process.stdin.close()
            equal(weft.end(peer), 6, weft.err)
            equal(weft.event("closed")["discarded_by_peer"], 1, "packets not delivered")
        clean(peer)


def a_port_without_listener_refuses():
    with Server("--echo") as server, Endpoint() as peer:
        try:
            peer.connect(server.underlay, server.node, server.port + 1, Options(service=STREAM))
        except Closed as end:
            equal(str(end), "refused", "the reason")
        else:
            raise AssertionError("connected")
        try:
            server.meet(peer, Options(service=DATAGRAM))
        except Closed as end:
            equal(str(end), "service", "the reason")
        else:
            raise AssertionError("connected")
        clean(peer)
    with Endpoint() as peer:
        with client(peer, port=9, text=b"x") as weft:
            equal(weft.end(peer), 4, weft.err)
            equal("refused" in weft.err, True, weft.err)
        peer.listen(7, Options(service=DATAGRAM))
        with client(peer, text=b"x") as weft:
            equal(weft.end(peer), 12, weft.err)
            equal("service" in weft.err, True, weft.err)
        clean(peer)


def a_reset_ends_both_sides():
    for waits in (True, False, False, False):  # also right behind the SYN|ACK: opened it was, refused it was not
        with Endpoint() as peer:
            peer.listen(7, Options(service=STREAM))
            with client(peer, text=None) as weft:
                peer.accept()
                if waits:
                    weft.event("connected")
                peer.connection.reset(3)
                equal(weft.end(peer), 6, weft.err)
            clean(peer)
    with Server("--echo", "--datagram") as server, Endpoint() as peer:
        server.meet(peer, Options())
        peer.connection.queue.append((DAT | ACK, b"\0\1a\0\7hello"))  # [CDP-COA-5], as vector X15
        ended(peer, "protocol", "the reason")
        clean(peer)


def a_tenth_of_all_packets_is_lost():
    for seed, service in ((1, DATAGRAM), (2, STREAM), (3, DATAGRAM)):
        words = ("--datagram",) if service == DATAGRAM else ()
        with Server("--echo", *words) as server, Endpoint(loss=0.1, seed=seed) as peer:
            server.meet(peer, Options(service=service))
            if service == STREAM:
                exchange(peer, NOISE[:100_000])
            else:
                messages = [NOISE[at : at + 700] for at in range(60)]
                for message in messages:
                    peer.send(message)
                equal([peer.recv() for _ in messages], messages, "messages")
            equal(peer.close(), True, "confirmed")
            clean(peer)
    with Endpoint(loss=0.1, seed=4) as peer:
        peer.listen(7, Options(service=STREAM))
        with client(peer, text=NOISE[:50_000], back=50_000) as weft:
            peer.accept()
            echo_all(peer)
            peer.close()
            equal((weft.end(peer), weft.out), (0, NOISE[:50_000]), weft.err[:500])
        clean(peer)


def a_connection_without_integrity():
    with Server("--echo", "--no-integrity") as server, Endpoint() as peer:
        server.meet(peer, Options(service=STREAM, sealed=False))
        equal(peer.connection.agreed.sealed, False, "sealed")
        exchange(peer, NOISE[:20_000])
        equal(peer.close(), True, "confirmed")
        clean(peer)
    for here, there in ((True, ("--no-integrity",)), (False, ())):  # [CDP-SYN-7]
        with Server("--echo", *there) as server, Endpoint() as peer:
            server.meet(peer, Options(service=STREAM, sealed=here))
            equal(peer.connection.agreed.sealed, True, "sealed")
            exchange(peer, b"sealed all the same")
            peer.close()
            clean(peer)


def garbage_does_no_harm():
    noise = random.Random(8)
    for sealed in (True, False):
        words = () if sealed else ("--no-integrity",)
        with Server("--echo", *words) as server, Endpoint() as peer:
            server.meet(peer, Options(service=STREAM, sealed=sealed))
            for turn in range(20):
                for raw in _garbage(peer, noise, sealed):
                    peer.inject(raw)
                exchange(peer, NOISE[turn * 100 : turn * 100 + 5000])
            equal(peer.connection.state, "ESTABLISHED", "state")
            equal(peer.close(), True, "confirmed")
            clean(peer)


def _garbage(peer, noise, sealed):
    """Packets that a receiver must drop, made from one that it would take."""
    known = peer.connection
    good = lambda flags, **more: bytes_of.emit(
        Packet(known.there, known.here, flags, known.nxt, known.rcv_nxt & 0xFFFFFFFF, 10, **more), sealed
    )
    data = good(DAT | ACK, data=b"never to be delivered")
    head = bytearray(good(ACK))
    yield b""
    yield noise.randbytes(27)
    yield noise.randbytes(noise.randrange(28, 1400))
    yield data[:-1]  # LENGTH says more than came
    yield data + b"\0"  # [CDP-HDR-11]
    for at, value in ((0, 0x00), (0, 0xF0), (0, 0x20), (4, 0x03), (4, 0x00), (4, 0xFF), (4, 0x08), (12, 0xFF)):
        yield bytes(data[:at]) + bytes([value]) + bytes(data[at + 1 :])
    yield data[:5] + bytes(3) + data[8:]  # source node 0
    yield data[:10] + bytes(2) + data[12:]  # source port 0
    yield good(ACK, tlvs=[(bytes_of.MSS, b"\2\0")])  # [CDP-TLV-4]
    yield good(ACK, tlvs=[(99, b"critical")])  # [CDP-TLV-6]
    yield good(ACK, tlvs=[(200, b"")] * 33)  # [CDP-TLV-8]
    yield bytes(head[:12]) + b"\0\x20" + bytes(head[14:]) + b"\x90\x08\0\0"  # a SACK that runs past the end
    far = Packet(known.there, known.here, DAT | ACK, known.nxt + 2**40 & 2**64 - 1, known.rcv_nxt & 0xFFFFFFFF)
    yield bytes_of.emit(far, sealed)
    yield bytes_of.emit(Packet(known.there, known.here, RST | ACK, known.nxt + 3 & 2**64 - 1), sealed)
    yield bytes_of.emit(Packet(known.there, known.here, RST, secrets.randbits(64), secrets.randbits(32), 5))
    syn = bytes_of.emit(Packet(known.there, known.here, SYN, 1, pad_to=128, tlvs=known.options.tlvs()))
    yield syn  # row 24
    yield syn[:100]
    if sealed:  # one bit of damage anywhere but in CE and HOP, which nothing protects
        for _ in range(8):
            bit = noise.randrange(8 * len(data))
            if bit // 8 == 0 and bit % 8 < 3:
                continue
            damaged = bytearray(data)
            damaged[bit // 8] ^= 1 << bit % 8
            yield bytes(damaged)


def a_slow_reader_closes_the_window():
    with Endpoint() as peer:
        peer.listen(7, Options(service=STREAM, slots=8))
        with client(peer, "--wait", "2s", text=NOISE[:60_000]) as weft:
            peer.accept()
            got = b""
            while len(got) < 60_000:
                peer.wait(lambda: peer.connection.unread_slots >= 8 or len(got) + 12_000 > 60_000)
                closed = peer.connection.rcv_nxt
                peer.linger(0.01)  # the window is closed: nothing but probes comes
                equal(peer.connection.rcv_nxt - closed < 8, True, "packets beyond the window")
                got += b"".join(peer.recv() for _ in range(min(4, len(peer.connection.inbox) or 1)))
            equal(got, NOISE[:60_000], "data")
            peer.close()
            equal(weft.end(peer), 0, weft.err)
        clean(peer)


def python_waits_for_the_window_of_weft():
    with Server("--echo", "--receive-slots", "2") as server, Endpoint() as peer:
        server.meet(peer, Options(service=STREAM))
        exchange(peer, NOISE[:100_000])
        peer.close()
        clean(peer)


def above_its_threshold_weft_answers_with_cookies():
    with Server("--echo", "--datagram") as server, Endpoint() as crowd, Endpoint() as peer:
        for port in range(20_000, 20_400):  # embryos that never go on
            here = (crowd.node, port)
            syn = Packet((server.node, server.port), here, SYN, secrets.randbits(64), tlvs=Options().tlvs())
            syn.pad_to = bytes_of.SYN_LEN_MIN
            crowd.socket.sendto(bytes_of.emit(syn), server.underlay)
            if port % 20 == 0:
                crowd.linger(0.002)
        seen = []
        take, peer.connection = Endpoint._handle, None

        def note(raw, source, now):
            seen.append(bytes_of.parse(raw).tlv(bytes_of.COOKIE))
            take(peer, raw, source, now)

        peer._handle = note
        server.meet(peer, Options())
        equal(seen[0] is not None, True, "a COOKIE in the SYN|ACK")
        for size in (1, 1400, 5000):
            peer.send(NOISE[:size])
            equal(peer.recv(), NOISE[:size], f"{size} bytes")
        peer.close()
        clean(peer)


def a_packet_may_have_been_forwarded():
    """CE and HOP are outside of every checksum, and CE comes back as ECE [CDP-CC-4]."""
    with Server("--echo") as server, Endpoint() as peer:
        seen = set()
        server.meet(peer, Options(service=STREAM))
        peer.altered = lambda raw: bytes([raw[0] | 0x05]) + raw[1:]
        receive = peer.audit.received
        peer.audit.received = lambda raw: (seen.add(raw[4] & ECE), receive(raw))
        exchange(peer, NOISE[:20_000])
        equal(seen, {0, ECE}, "ECE in what came back")
        peer.altered = None
        peer.close()
        clean(peer)


def a_probe_is_answered_with_its_token():
    with Server("--echo") as server, Endpoint() as peer:
        server.meet(peer, Options(service=STREAM))
        exchange(peer, b"first")
        seen = []
        receive = peer.audit.received
        peer.audit.received = lambda raw: (seen.append(bytes_of.parse(raw)), receive(raw))
        peer.connection._send(PIN | ACK, time.monotonic(), [(bytes_of.TIME, b"\x0b\xad\xca\xfe\0\0\0\0")])
        peer.wait(lambda: any((each.tlv(bytes_of.TIME) or b"")[4:] == b"\x0b\xad\xca\xfe" for each in seen))
        peer.close()
        clean(peer)


def the_numbers_wrap():
    with Server("--echo") as server, Endpoint() as peer:
        from connection import Connection

        begin = Connection.connect

        def late(self, now):
            self.iss = 2**64 - 5
            begin(self, now)

        Connection.connect = late
        try:
            server.meet(peer, Options(service=STREAM))
        finally:
            Connection.connect = begin
        exchange(peer, NOISE[:50_000])
        equal(peer.connection.nxt < 100, True, "wrapped")
        equal(peer.close(), True, "confirmed")
        clean(peer)


SCENARIOS = [
    the_test_vectors_of_the_specification,
    datagrams_come_back,
    many_small_messages_share_packets,
    base_service_without_any_option,
    a_stream_comes_back,
    weft_connects_with_datagrams,
    weft_connects_with_a_stream,
    either_side_closes,
    what_was_not_read_is_told,
    a_port_without_listener_refuses,
    a_reset_ends_both_sides,
    a_tenth_of_all_packets_is_lost,
    a_connection_without_integrity,
    garbage_does_no_harm,
    a_slow_reader_closes_the_window,
    python_waits_for_the_window_of_weft,
    above_its_threshold_weft_answers_with_cookies,
    a_packet_may_have_been_forwarded,
    a_probe_is_answered_with_its_token,
    the_numbers_wrap,
    *rules.SCENARIOS,
]


def main():
    """Runs them all, or those that are named."""
    words = sys.argv[1:]
    if words and not words[0].isidentifier():
        Weft.path = pathlib.Path(words.pop(0)).resolve()
    unknown = set(words) - {scenario.__name__ for scenario in SCENARIOS}
    if unknown:
        sys.exit(f"test.py: no scenario is called {', '.join(sorted(unknown))}; without names all are run")
    failed = 0
    for scenario in SCENARIOS:
        if words and scenario.__name__ not in words:
            continue
        started = time.monotonic()
        try:
            scenario()
            verdict = "ok"
        except Exception:  # whatever went wrong, the others still run
            failed += 1
            verdict = "FAILED\n" + re.sub(r"^", "    ", traceback.format_exc(), flags=re.M)
        print(f"{scenario.__name__} ({time.monotonic() - started:.1f} s): {verdict}", flush=True)
    print(f"{failed} failed" if failed else "all ok")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
