"""Scenarios of one packet each: what weft must answer to it, and what it must not."""

import secrets
import time

import packet as cdp
from cdp import DATAGRAM, STREAM, Endpoint, Options
from harness import Server, clean, client, ended, equal, exchange
from packet import ACK, DAT, EOM, FIN, PIN, RST, SYN, Packet

ALL, LOW = 2**64 - 1, 2**32 - 1


def _raw(peer, flags, seq=None, ack=None, window=10, **more):
    """A packet of the peer's connection, right unless told otherwise."""
    known = peer.connection
    seq = known.nxt if seq is None else seq & ALL
    ack = (known.rcv_nxt if ack is None else ack) & LOW
    return cdp.emit(Packet(known.there, known.here, flags, seq, ack, window, **more), known.agreed.sealed)


def _answer(peer, raw, wanted=lambda packet: True, seconds=60.0):
    """The first packet after `raw` that is wanted."""
    seen = len(peer.audit.seen)
    peer.inject(raw)
    found = []

    def came():
        found[:] = filter(wanted, peer.audit.seen[seen:])
        return bool(found)

    peer.wait(came, seconds)
    return found[0]


def _silence(peer, raw, what, seconds=0.05):
    """Nothing comes back."""
    seen = len(peer.audit.seen)
    peer.inject(raw)
    peer.linger(seconds)
    equal([str(each) for each in peer.audit.seen[seen:]], [], what)


def a_syn_that_breaks_a_rule_is_dropped_or_refused():
    with Server("--echo") as server, Endpoint() as peer:
        peer.there = server.underlay
        here, iss = (peer.node, 50_000), secrets.randbits(64)
        tlvs = Options(service=STREAM).tlvs()
        syn = lambda tlvs, size=128: cdp.emit(
            Packet((server.node, server.port), here, SYN, iss, 0, 64, tlvs=tlvs, pad_to=size)
        )
        _silence(peer, syn(tlvs, 100), "the answer to a short SYN [CDP-SYN-3]")
        _silence(peer, syn(tlvs[1:]), "the answer to a SYN without CRC [CDP-SYN-2]")
        _silence(peer, syn(tlvs)[:14] + b"\0\1" + syn(tlvs)[16:], "the answer to a damaged SYN [CDP-SYN-2]")
        _silence(peer, syn(tlvs + [(cdp.MSS, b"\5\0")]), "the answer to a SYN with a TLV twice [CDP-TLV-4]")
        changed = lambda kind, value: [(each, value if each == kind else old) for each, old in tlvs]
        refused = [
            (10, 99, tlvs + [(99, b"")]),  # [CDP-TLV-5]
            (10, 16, tlvs + [(16, b"key")]),  # [CDP-SEC-1]
            (10, None, changed(cdp.MSS, (511).to_bytes(2, "big"))),  # [CDP-SYN-5]
            (10, None, changed(cdp.INTEGRITY, b"\2")),
            (9, None, changed(cdp.SERVICE, b"\1")),  # [CDP-SYN-6]
        ]
        for reason, detail, list_of in refused:
            trigger = syn(list_of)
            reset = _answer(peer, trigger)
            equal((reset.flags, reset.reason()[0]), (RST, reason), f"the answer to {trigger.hex()}")
            equal(detail in (None, reset.reason()[1]), True, f"detail of {reset}")
            equal((reset.seq, reset.ack, reset.window), (iss, cdp.checksum(trigger), 0), "CDP-RST-2")
        later = b"\x20" + syn(tlvs)[1:]
        reset = _answer(peer, later)  # [CDP-HDR-4]
        equal((reset.flags, reset.reason()[0], reset.tlv(cdp.VERSIONS)), (RST, 11, b"\1"), str(reset))
        _silence(peer, later[:4] + bytes([RST]) + later[5:], "the answer to an RST of a later version")


def a_packet_without_a_connection_is_told_so():
    with Server("--echo") as server, Endpoint() as peer:
        peer.there = server.underlay
        for port in (server.port, server.port + 1):
            for flags, reason, more in ((DAT | ACK, 2, {"data": b"0123456789"}), (FIN | ACK, 2, {"pad_to": 36}),
                                        (ACK, 1, {"tlvs": [(cdp.COOKIE, bytes(20))]})):  # fmt: skip
                seq = secrets.randbits(64)
                trigger = Packet((server.node, port), (peer.node, 50_001), flags, seq, 0x12345678, 5, **more)
                raw = cdp.emit(trigger, sealed=True)
                reset = _answer(peer, raw)
                reason = 19 if reason == 1 and port == server.port else reason  # rows 3 and 8
                equal((reset.flags, reset.reason()[0]), (RST, reason), str(reset))
                equal(reset.raw[16:24], raw[16:24], "SEQ [CDP-RST-2]")
                equal((reset.ack, reset.window), (cdp.checksum(raw), 0x1234), "ACK number, WINDOW [CDP-RST-2]")
                equal(len(reset.raw) <= len(raw), True, "CDP-RST-3")
        for flags in (RST, RST | ACK):
            reset = Packet((server.node, server.port + 1), (peer.node, 50_001), flags, 7, 7, pad_to=128)
            _silence(peer, cdp.emit(reset), "the answer to an RST [CDP-RST-4]")


def what_is_not_current_is_challenged_or_dropped():
    with Server("--echo") as server, Endpoint() as peer:
        server.meet(peer, Options(service=STREAM))
        exchange(peer, b"first")
        known = peer.connection
        challenges = {
            "a DAT beyond the window [CDP-SEQ-10]": _raw(peer, DAT | ACK, known.nxt + 2**20, data=b"x"),
            "a FIN beyond the window [CDP-SEQ-10]": _raw(peer, FIN | ACK, known.nxt + 2**29),
            "a false ACK [CDP-ACK-5]": _raw(peer, ACK, ack=known.rcv_nxt + 1),
            "an RST|ACK that is not exact [CDP-RST-6]": _raw(peer, RST | ACK, known.nxt - 1),
            "a duplicate [CDP-SEQ-11]": _raw(peer, DAT | ACK, known.iss + 1, data=b"first", rtx=True),
        }
        for raw in challenges.values():
            time.sleep(0.025)  # [CDP-LIM-2]
            answer = _answer(peer, raw)
            equal((answer.flags, answer.ack), (ACK, known.nxt & LOW), str(answer))
        time.sleep(0.025)
        _silence(peer, _raw(peer, DAT | ACK, known.nxt + 2**40, data=b"x"), "the answer to a far DAT [CDP-SEQ-10]")
        _silence(peer, _raw(peer, ACK, known.nxt + 2**20), "the answer to a far ACK [CDP-SEQ-10]")
        _silence(peer, _raw(peer, RST | ACK, known.nxt + 2**20), "the answer to a far RST [CDP-RST-6]")
        _silence(peer, _raw(peer, ACK), "the answer to an ACK [CDP-ACK-10]")
        syn = cdp.emit(Packet(known.there, known.here, SYN, 1, tlvs=known.options.tlvs(), pad_to=128))
        equal(_answer(peer, syn).flags, ACK, "the answer to a SYN [row 24]")
        echo = _raw(peer, ACK, tlvs=[(cdp.COOKIE, bytes(20))])
        equal(_answer(peer, echo).flags, ACK, "the answer to a cookie echo [CDP-CKE-7]")
        exchange(peer, b"still there")
        equal(peer.close(), True, "confirmed")
        clean(peer)


def a_gap_is_named_and_a_fin_waits_for_it():
    with Server() as server, Endpoint() as peer:
        server.meet(peer, Options(service=STREAM))
        peer.send(b"0")
        peer.wait(lambda: not peer.connection.segments)
        first = peer.connection.nxt
        numbers = {first + at & ALL: _raw(peer, DAT | ACK, first + at, data=b"%d" % (at + 1)) for at in range(4)}
        fin = _raw(peer, FIN | ACK, first + 4)
        peer.connection.nxt = first + 5 & ALL
        for at, named in ((1, {1}), (3, {1, 3})):
            raw = numbers[first + at & ALL]
            peer.audit.sent(raw)
            answer = _answer(peer, raw, lambda packet: packet.tlv(cdp.SACK))
            equal(set(cdp.sack_numbers(0, answer.tlv(cdp.SACK))), named, str(answer))
        peer.audit.sent(fin)
        equal(_answer(peer, fin).ack, first & LOW, "the ACK of a FIN after a gap [row 31]")
        for at in (0, 2):
            peer.audit.sent(numbers[first + at & ALL])
            peer.inject(numbers[first + at & ALL])
        peer.wait(lambda: peer.audit.seen[-1].ack == first + 5 & LOW)
        server.event("closed")
        equal((server.end(), server.out), (0, b"01234"), server.err)
        clean(peer)


def an_embryo_gives_way_to_who_took_another_answer():
    """[CDP-ST-J]: an earlier listener of the port had answered the SYN as well, and is gone."""
    with Server("--echo") as server, Endpoint() as peer:
        peer.there = server.underlay
        peer._handle = lambda *_: None  # it would refuse the SYN|ACK
        there, here, iss = (server.node, server.port), (peer.node, 50_003), secrets.randbits(64)
        syn = cdp.emit(Packet(there, here, SYN, iss, 0, 64, tlvs=Options(service=STREAM).tlvs(), pad_to=128))
        for _ in range(2):  # it is forgotten: the same SYN makes another
            own = _answer(peer, syn).seq + 1
            data = lambda seq, ack: cdp.emit(Packet(there, here, DAT | ACK, seq & ALL, ack & LOW, 64, data=b"hello"), True)
            _silence(peer, data(iss + 2**40, own + 2**20), "the answer to a number that does not fit [CDP-ST-I]")
            reset = _answer(peer, data(iss + 1, own + 2**20))
            equal((reset.flags, reset.reason()[0]), (RST, 2), str(reset))
        own = _answer(peer, syn).seq + 1
        echo = _answer(peer, data(iss + 1, own), lambda packet: packet.flags & DAT)
        equal(echo.data, b"hello", "data of who took this answer")


def a_message_above_the_limit_ends_the_connection():
    words = ("--echo", "--datagram", "--message-bytes", "2000", "--mss", "600")
    for coalesce in (True, False):
        with Server(*words) as server, Endpoint() as peer:
            server.meet(peer, Options(coalesce=coalesce))
            peer.send(bytes(2000))
            equal(peer.recv(), bytes(2000), "a message of the limit")
            peer.connection.peer_message = 10_000
            peer.send(bytes(5000))
            ended(peer, "too big", "the reason [CDP-DG-8]")
            clean(peer)


def an_empty_segment_of_a_stream_is_acknowledged():
    with Server("--echo") as server, Endpoint() as peer:
        server.meet(peer, Options(service=STREAM))
        peer.connection.queue += [(DAT | ACK, b""), (DAT | ACK | EOM, b"with EOM"), (DAT | ACK, b"")]
        peer.connection.push(time.monotonic())
        equal(peer.recv(), b"with EOM", "data [CDP-STR-2]")
        peer.wait(lambda: not peer.connection.segments)
        peer.close()
        clean(peer)


def the_segment_size_of_the_peer_is_kept():
    for mss in (512, 700, 9000):
        with Server("--echo") as server, Endpoint() as peer:
            server.meet(peer, Options(service=STREAM, mss=mss, slots=16))
            longest = 0
            # the echo fills no segment where it finds less than one to send, and a busy machine brings it little at a time
            for _ in range(20):
                if longest < mss:
                    exchange(peer, bytes(60_000))
                    longest = max(len(packet.data) for packet in peer.audit.seen)
            # both are on one link, within this host: what it carries needs no proof [CDP-MTU-2]
            equal(longest, mss, "bytes of the longest [CDP-MTU-1]")
            peer.close()
            clean(peer)


def a_peer_that_forgot_everything_says_so():
    with Endpoint() as peer:
        peer.listen(7, Options(service=STREAM))
        with client(peer, text=None) as weft:
            peer.accept()
            peer.linger(0.02)
            peer.connection = peer.listening = None
            weft.process.stdin.write(b"hello?\n")
            weft.process.stdin.flush()
            equal(weft.end(peer), 6, weft.err)  # an echo-form RST with REASON 2 [CDP-RST-9]
        clean(peer)


def an_opening_packet_with_a_false_answer_is_passed_over():
    """Row 12, [CDP-RST-7] and [CDP-RST-11]: nothing but the true answer counts."""
    with Endpoint() as peer:
        with client(peer, text=b"x") as weft:
            peer.wait(lambda: peer.resets)  # refused, of course; what follows looks at a listener
            equal(weft.end(peer), 4, weft.err)
    with Endpoint() as peer:
        handle, answered = peer._handle, []

        def lie(raw, source, now):
            syn = cdp.parse(raw)
            if syn.flags != SYN or answered:
                return handle(raw, source, now)
            answered.append(True)
            peer.there, at = source, len(peer.audit.seen)
            wrong = Packet(syn.source, syn.to, SYN | ACK, 5, syn.seq + 2 & LOW, 9, tlvs=Options(service=STREAM).tlvs())
            for raw_answer in (
                cdp.emit(Packet(syn.source, syn.to, RST, syn.seq ^ 1, tlvs=[(cdp.REASON, b"\0\1")])),
                cdp.emit(Packet(syn.source, syn.to, RST, syn.seq, window=1, tlvs=[(cdp.REASON, b"\0\1")])),
                cdp.emit(Packet(syn.source, syn.to, RST, syn.seq, tlvs=[(cdp.REASON, b"\0\x0b")])),
                cdp.emit(Packet(syn.source, syn.to, RST, syn.seq, tlvs=[(cdp.REASON, b"\0\x0b"), (cdp.VERSIONS, b"\1")])),
                cdp.emit(wrong),
            ):
                peer.inject(raw_answer)
            return at

        peer._handle = lie
        peer.listen(7, Options(service=STREAM))
        with client(peer, text=b"x") as weft:
            peer.accept()
            equal(peer.recv(), b"x", "data")
            resets = [packet for packet in peer.audit.seen if packet.flags == RST]
            equal([packet.reason()[0] for packet in resets], [2], "RST for the wrong SYN|ACK [row 12]")
            peer.close()
            equal(weft.end(peer), 0, weft.err)
        clean(peer)
    with Endpoint() as peer:  # a version that the peer really lacks

        def other(raw, source, now):
            syn = cdp.parse(raw)
            peer.there = source
            peer.inject(cdp.emit(Packet(syn.source, syn.to, RST, syn.seq,
                                        tlvs=[(cdp.REASON, b"\0\x0b"), (cdp.VERSIONS, b"\2\3")])))  # fmt: skip

        peer._handle = other
        with client(peer, text=b"x") as weft:
            equal(weft.end(peer), 12, weft.err)
            equal("version" in weft.err, True, weft.err)


def the_same_addresses_meet_again_at_once():
    with Server("--echo", "--datagram") as server, Endpoint() as peer:
        late = []
        for turn in range(5):  # the first ends in QUIET, the second is forgotten [row 48] [CDP-ST-G]
            server.meet(peer, Options(service=DATAGRAM), local_port=50_002)
            for raw in late:  # what was still under way
                peer.audit.received(raw)
                peer._handle(raw, peer.there, time.monotonic())
            peer.send(b"%d" % turn)
            equal(peer.recv(), b"%d" % turn, "message")
            peer.close()
            clean(peer)
            late = [packet.raw for packet in peer.audit.seen if packet.flags == ACK][-1:]


def both_close_at_once():
    with Endpoint() as peer:
        peer.listen(7, Options(service=STREAM))
        with client(peer, "--wait", "50ms", text=b"last words") as weft:
            peer.accept()
            equal(peer.recv(), b"last words", "data")
            peer._handle = lambda *_: None  # what weft sends is lost, until both have sent a FIN
            peer.wait(lambda: any(packet.flags & FIN for packet in peer.audit.seen))
            peer.connection.close(time.monotonic())
            peer.linger(0.02)
            del peer._handle
            equal(peer.close(), True, "confirmed to Python [row 35]")
            equal(weft.end(peer), 0, weft.err)
            equal(weft.event("closed")["confirmed"], True, "confirmed to weft")
        clean(peer)


def a_silent_client_probes():
    with Endpoint() as peer:
        peer.listen(7, Options(service=STREAM))
        with client(peer, "--keepalive", "1s/60s", text=None) as weft:
            peer.accept()
            peer.linger(0.5)  # row 26 may send a PIN early
            before = len(peer.audit.seen)
            peer.wait(lambda: any(packet.flags & PIN for packet in peer.audit.seen[before:]))  # [CDP-KA-2]
            weft.process.stdin.close()
            peer.close()
            equal(weft.end(peer), 0, weft.err)
        clean(peer)


SCENARIOS = [
    a_syn_that_breaks_a_rule_is_dropped_or_refused,
    a_packet_without_a_connection_is_told_so,
    what_is_not_current_is_challenged_or_dropped,
    a_gap_is_named_and_a_fin_waits_for_it,
    an_embryo_gives_way_to_who_took_another_answer,
    a_message_above_the_limit_ends_the_connection,
    an_empty_segment_of_a_stream_is_acknowledged,
    the_segment_size_of_the_peer_is_kept,
    a_peer_that_forgot_everything_says_so,
    an_opening_packet_with_a_false_answer_is_passed_over,
    the_same_addresses_meet_again_at_once,
    both_close_at_once,
    a_silent_client_probes,
]
