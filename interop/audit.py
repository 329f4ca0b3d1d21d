"""An auditor of the peer: sees each packet in the order of the wire and notes what breaks a rule of docs/spec/cdp.md.

It knows what this end really sent (not what a test dropped), so it can tell an acknowledgement that is too early, a window
that shrinks, a number sent with other data. Each complaint names the requirement and holds the packet.
"""

from dataclasses import replace

import packet as cdp
from packet import ACK, DAT, EOM, FIN, RST, SYN

_ALL, _LOW = 2**64 - 1, 2**32 - 1


class Audit:
    """A SYN begins the next connection; packets of the one before may still be under way then [CDP-ST-G]."""

    def __init__(self):
        self.complaints, self.seen = [], []
        self.blind = False  # the kernel dropped a packet: what follows cannot be judged
        self.connection, self.before = _Connection(), None

    def sent(self, raw):
        """A packet of ours that the peer will see."""
        packet = cdp.parse(raw)
        if packet.flags == RST or self.blind:
            return
        if packet.flags == SYN:
            self._opens(packet, self.connection.mine)
        self.connection.sent(packet)

    def received(self, raw):
        """A packet of the peer, whether or not a test drops it afterwards."""
        try:
            packet = cdp.parse(raw)
        except (cdp.Dropped, cdp.Refused) as error:
            self.complaints.append(f"a legal packet [section 2.2]: {error!r} {raw.hex()}")
            return
        self.seen.append(packet)
        if self.blind:
            return
        if packet.flags == SYN:
            self._opens(packet, self.connection.theirs)
        late = self.before is not None and self.before.numbered(packet) and not self.connection.numbered(packet)
        for requirement in (self.before if late else self.connection).judge(packet):
            self.complaints.append(f"{requirement}: {packet}")

    def _opens(self, syn, previous):
        if previous is None or previous.seq != syn.seq:
            if self.connection.opened:
                self.before = self.connection
            self.connection = _Connection()


class _Connection:
    """What both ends have said, and what breaks a rule after that."""

    def __init__(self):
        self.mine, self.theirs = None, None

    @property
    def opened(self):
        return self.mine is not None and self.theirs is not None

    def numbered(self, packet):
        """Whether the peer would give this number here; the first ones are random in 64 bits."""
        if not self.opened or packet.flags & (SYN | RST):
            return False
        s = packet.unsealed() if self._sealed() else packet.seq
        return s - self.next + 2**31 & _ALL < 2**32

    def sent(self, packet):
        """A packet of this end."""
        if packet.flags & SYN:
            self._begin(packet, ours=True)
            return
        s = packet.unsealed() if self._sealed() else packet.seq
        if packet.flags & (DAT | FIN):
            self.numbers.add(s)
            while self.contiguous in self.numbers:
                self.contiguous = self.contiguous + 1 & _ALL
        if packet.flags & ACK:
            full = self.acked = self.acked + (packet.ack - self.acked) % 2**32 & _ALL
            window = packet.window << (self.mine.number(cdp.WSCALE, 0) if self._scaled() else 0)
            self.granted = cdp.serial_max(self.granted, full + window & _ALL)

    def _begin(self, opening, ours):
        if ours:
            self.mine = opening
        elif self.theirs is None:
            self.theirs = opening
        if self.opened:
            self._open()

    def _open(self):
        """Both SYNs are known."""
        self.numbers, self.contiguous = {self.mine.seq}, self.mine.seq + 1 & _ALL
        self.acked = self.theirs.seq + 1 & _ALL  # by this end
        self.granted = self.acked + self.mine.window & _ALL
        self.next, self.log, self.fin = self.acked, {}, None  # of the peer
        self.ack, self.edge, self.held = self.contiguous, self.contiguous + self.theirs.window & _ALL, set()

    def _sealed(self):
        return any(opening.number(cdp.INTEGRITY, 1) for opening in (self.mine, self.theirs))

    def _both(self, kind):
        return all(opening.tlv(kind) is not None for opening in (self.mine, self.theirs))

    def _scaled(self):
        return self._both(cdp.WSCALE)

    def judge(self, packet):
        """The requirements that a packet of the peer breaks."""
        if packet.ce or packet.hop:
            yield "CDP-HDR-7"
        if not packet.flags & ACK and packet.flags != RST and packet.ack:
            yield "CDP-HDR-13"
        if packet.flags == RST:
            return
        if packet.flags & SYN:
            yield from self._judge_open(packet)
            return
        if not self.opened:
            return
        s = packet.unsealed() if self._sealed() else packet.seq
        sealed = cdp.emit(replace(packet, seq=s, pad_to=len(packet.raw)), self._sealed())
        if sealed != packet.raw:
            yield "CDP-TLV-2 or padding"
        yield from self._judge_number(packet, s)
        yield from self._judge_acknowledgement(packet)
        if packet.flags & DAT:
            yield from self._judge_data(packet, s)
        if packet.reason()[0] == 15 and not packet.flags & FIN:
            yield "REASON 15 outside FIN [section 16]"

    def _judge_open(self, packet):
        if packet.flags == SYN:
            repeated = self.theirs is not None and self.theirs.seq == packet.seq
            if packet.rtx != repeated:
                yield "CDP-HDR-5"
            if not any(kind & 0x8F == 0x8A for kind, _ in packet.tlvs):
                yield "CDP-TLV-9 (SHOULD)"
        elif self.mine:
            if len(packet.raw) > len(self.mine.raw):
                yield "CDP-SYN-4"
            if packet.tlv(cdp.INTEGRITY) is None:
                yield "CDP-SYN-7"
            for kind in (cdp.WSCALE, cdp.COALESCE, cdp.CONFIRM, cdp.KEEPALIVE):
                if packet.tlv(kind) is not None and self.mine.tlv(kind) is None:
                    yield "CDP-SYN-10"
            if packet.ack != self.mine.seq + 1 & _LOW:
                yield "CDP-HDR-14"
        for kind in (cdp.MSS, cdp.SERVICE, cdp.INTEGRITY):
            if packet.tlv(kind) is None:
                yield "CDP-SYN-1 (SHOULD)"
        self._begin(packet, ours=False)

    def _judge_number(self, packet, s):
        """[CDP-HDR-5] [CDP-HDR-12] [CDP-SEQ-6]"""
        if not packet.flags & (DAT | FIN):
            if s != self.next:
                yield f"CDP-HDR-12 (SEQ {s:x}, SND.NXT {self.next:x})"
            if packet.rtx:
                yield "CDP-HDR-5"
            return
        content = (packet.flags & (DAT | FIN | EOM), packet.data)
        if s in self.log:
            if self.log[s] != content:
                yield "CDP-SEQ-6"
            if not packet.rtx:
                yield "CDP-HDR-5"
            return
        if s != self.next:
            yield f"CDP-SEQ-5 (SEQ {s:x}, next {self.next:x})"
        if packet.rtx:
            yield "CDP-HDR-5"
        if self.fin is not None:
            yield "CDP-ST-B"
        self.log[s], self.next = content, s + 1 & _ALL
        if packet.flags & FIN:
            self.fin = s
            if cdp.serial_lt(self.granted, s):
                yield "CDP-WND-7"

    def _judge_acknowledgement(self, packet):
        verdict, full = cdp.rebuild_ack(self.ack, self.contiguous, packet.ack)
        if verdict != "valid":
            yield f"CDP-HDR-14 or CDP-ACK-1 ({verdict}: last {self.ack:x}, sent up to {self.contiguous:x})"
            return
        self.ack = full
        scale = min(14, self.theirs.number(cdp.WSCALE, 0)) if self._scaled() else 0
        edge = full + (packet.window << scale) & _ALL
        if cdp.serial_lt(edge + (1 << scale) - 1 & _ALL, self.edge) and not packet.flags & RST:
            yield f"CDP-WND-3 (edge {edge:x}, was {self.edge:x})"
        self.edge = cdp.serial_max(self.edge, edge)
        bitmap = packet.tlv(cdp.SACK)
        if bitmap is not None:
            named = set(cdp.sack_numbers(full, bitmap))
            if self.mine.tlv(cdp.SACKOK) is None:
                yield "SACK without SACKOK"
            if not named <= self.numbers:
                yield "CDP-ACK-7 (names what was never sent)"
            reach = (full + 1 + 8 * len(bitmap)) & _ALL
            lost = {each for each in self.held - named if cdp.serial_lt(full, each) and cdp.serial_lt(each, reach)}
            if lost:
                yield f"CDP-SACK-3 ({', '.join(f'{each:x}' for each in lost)})"
            self.held |= named
        piece = packet.tlv(cdp.FARSACK)
        if piece is not None:
            yield from self._judge_piece(full, piece)

    def _judge_piece(self, full, piece):
        named, offset = set(cdp.far_numbers(full, piece)), int.from_bytes(piece[:4], "big")
        if self.mine.tlv(cdp.SACKOK) is None:
            yield "FARSACK without SACKOK"
        if offset < cdp.SACK_BITS:
            yield f"CDP-SACK-7 (offset {offset})"
        if not named <= self.numbers:
            yield "CDP-ACK-7 (names what was never sent)"
        # [CDP-SACK-7] one that is not full says that nothing is held after it
        told = 8 * len(piece[4:])
        end = offset + told if told == cdp.FAR_SACK_BITS else 2**63
        lost = {each for each in self.held - named if offset <= (each - full - 1) & _ALL < end}
        if lost:
            yield f"CDP-SACK-3 ({', '.join(f'{each:x}' for each in lost)})"
        self.held |= named

    def _judge_data(self, packet, s):
        if not cdp.serial_lt(s, self.granted):
            yield f"CDP-WND-6 (edge {self.granted:x})"
        if len(packet.data) > self.mine.number(cdp.MSS, cdp.MSS_MIN):
            yield "CDP-SVC-3"
        if self.mine.number(cdp.SERVICE, 1) == 2:
            if packet.flags & EOM:
                yield "CDP-STR-2"
            if not packet.data:
                yield "CDP-STR-3"
        elif not packet.flags & EOM:
            message = self.mine.number(cdp.MESSAGE, 0)
            announced = message > self.mine.number(cdp.MSS, cdp.MSS_MIN)
            if self._both(cdp.COALESCE):
                try:
                    cdp.split_records(packet.data, announced)
                except ValueError as error:
                    yield f"CDP-COA-1 to 4 ({error})"
            elif not announced:
                yield "CDP-DG-3"
            elif not packet.data:
                yield "CDP-DG-5"
