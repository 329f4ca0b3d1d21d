"""A CDP end over UDP: one socket, one node number, at most one connection and one listener.

The protocol is in connection.py and the bytes are in packet.py; here are the socket, the clock, what happens to packets
without a connection, and the loss that a test asks for.
"""

import random
import secrets
import select
import socket
import sys
import time

import packet as cdp
from audit import Audit
from connection import DATAGRAM, STREAM, Closed, Connection, Options
from cookies import answer_with_cookie, restore_from_cookie
from packet import RST, SYN

__all__ = ["DATAGRAM", "STREAM", "Closed", "Endpoint", "Options"]

COOKIE_SLOT = 64  # seconds: the present slot and the one before are accepted [CDP-CKE-3]
_SO_RXQ_OVFL = 40  # Linux: the count of packets that found the receive buffer full
RESETS_PER_SECOND = 100  # [CDP-LIM-3]


class Endpoint:
    """Every wait is bounded and drives the protocol meanwhile."""

    def __init__(self, loss=0.0, seed=1):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_RXQ_OVFL, 1)
        self.socket.bind(("127.0.0.1", 0))
        self.underlay = "{}:{}".format(*self.socket.getsockname())
        self.node = 0x800000 + secrets.randbelow(0x7FFFFE)  # [CDP-ADR-8]
        self.loss, self.random = loss, random.Random(seed)
        self.connection, self.there = None, None
        self.listening, self.cookies = None, False
        self.counts, self.resets = {}, []
        self.audit, self.altered = Audit(), None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    # --- calls ------------------------------------------------------------------------------------------------------

    def connect(self, underlay, node, port, options, local_port=None):
        """Waits until the connection is established; `Closed` tells why it is not."""
        here = (self.node, local_port or 49152 + secrets.randbelow(16384))  # [CDP-ADR-5]
        self.there = underlay
        self.connection = Connection(options, here, (node, port), "client", time.monotonic())
        self.connection.connect(time.monotonic())
        self.wait(lambda: self.connection.state != "SYN_SENT")
        if self.connection.state == "CLOSED":
            raise Closed(self.connection.error)

    def listen(self, port, options, cookies=False):
        """Answers SYNs for `port`, with a cookie each if so asked."""
        self.listening, self.cookies = (port, options), cookies

    def accept(self, seconds=60.0):
        """Waits until somebody has connected."""
        self.wait(lambda: self.connection and self.connection.state not in ("SYN_RCVD", "CLOSED"), seconds)

    def send(self, *messages):
        """One message each, or bytes of the stream."""
        self.connection.send(messages, time.monotonic())
        self._flush()

    def recv(self, seconds=60.0):
        """The next message, or the next bytes of the stream."""
        message = []

        def arrived():
            found = self.connection.recv(time.monotonic())
            message.extend([] if found is None else [found])
            return found is not None

        self.wait(arrived, seconds)
        return message[0]

    def close(self, seconds=60.0):
        """Waits for the result: whether the peer has confirmed, when this end closed first."""
        self.connection.close(time.monotonic())
        self.wait(lambda: self.connection.state in ("QUIET", "CLOSED"), seconds)
        return self.connection.confirmed

    def linger(self, seconds=0.1):
        """Stays in QUIET for a while, to acknowledge what the peer repeats [CDP-ST-C]; shorter than section 12 says."""
        until = time.monotonic() + seconds
        self.wait(lambda: time.monotonic() >= until, seconds + 1)

    def inject(self, raw):
        """Sends bytes that are no packet of the protocol."""
        self.socket.sendto(raw, self.there)

    # --- turns ------------------------------------------------------------------------------------------------------

    def wait(self, condition, seconds=60.0):
        """Runs the protocol until the condition holds."""
        until = time.monotonic() + seconds
        self._flush()
        while not condition():
            if time.monotonic() > until:
                state = self.connection and self.connection.state
                raise TimeoutError(f"after {seconds} s in {state}, counted {self.counts}")
            self._turn()

    def _turn(self):
        if select.select([self.socket], [], [], 0.005)[0]:
            raw, told, _, source = self.socket.recvmsg(65536, 64)
            now = time.monotonic()
            self.audit.blind |= any(int.from_bytes(value, sys.byteorder) for _, _, value in told)
            self.audit.received(raw)
            if self.random.random() >= self.loss:
                self._handle(raw, source, now)
        if self.connection:
            self.connection.tick(time.monotonic())
        self._flush()

    def _flush(self):
        if not self.connection:
            return
        packets, self.connection.out = self.connection.out, []
        for raw in packets:
            self._transmit(raw, self.there)

    def _transmit(self, raw, where):
        if self.random.random() < self.loss:
            return
        self.audit.sent(raw)
        self.socket.sendto(self.altered(raw) if self.altered else raw, where)

    def _handle(self, raw, source, now):
        try:
            packet = cdp.parse(raw)
        except cdp.Dropped as error:
            return self._count(str(error))
        except cdp.Refused as refused:
            return self._refuse(raw, source, refused.reason, refused.detail)
        if packet.to[0] != self.node:
            return self._count("another node")  # [CDP-CHK-5]
        known = self.connection
        if known and (known.here, known.there) == (packet.to, packet.source) and known.state != "CLOSED":
            if not (self.listening and known.gives_way(packet)):
                return known.handle(packet, now)
            known.state = "CLOSED"
        if self.listening and packet.to[1] == self.listening[0]:
            return self._at_listener(packet, source, now)
        if packet.flags & RST:
            return self._count("RST")
        return self._refuse(raw, source, 1 if packet.flags == SYN or packet.tlv(cdp.COOKIE) else 2)  # row 3

    def _at_listener(self, packet, source, now):
        """Rows 4 to 8."""
        options = self.listening[1]
        if packet.flags & RST:
            return self._count("RST")
        if self.connection and self.connection.state not in ("CLOSED", "QUIET"):
            return self._count("accept queue")  # row 6
        fresh = Connection(options, packet.to, packet.source, "server", now)
        slot = int(time.monotonic()) // COOKIE_SLOT
        if packet.flags == SYN:
            if packet.number(cdp.SERVICE, DATAGRAM) != options.service:
                return self._refuse(packet.raw, source, 9)  # [CDP-SYN-6]
            if self.cookies:
                return self._transmit(answer_with_cookie(fresh, packet, slot), source)
            self.connection, self.there = fresh, source
            return fresh.accept(packet, now)
        if not packet.tlv(cdp.COOKIE):
            return self._refuse(packet.raw, source, 2)
        try:
            restore_from_cookie(fresh, packet, (slot, slot - 1))
        except ValueError:
            return self._refuse(packet.raw, source, 19)
        self.connection, self.there = fresh, source
        return fresh.handle(packet, now)

    def _refuse(self, raw, source, reason, detail=None):
        now = time.monotonic()
        self.resets = [at for at in self.resets if now - at < 1]
        if len(self.resets) < RESETS_PER_SECOND:
            self.resets.append(now)
            self._transmit(cdp.echo_reset(raw, reason, detail), source)

    def _count(self, why):
        self.counts[why] = self.counts.get(why, 0) + 1  # [CDP-CHK-3]
