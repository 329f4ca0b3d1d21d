"""One CDP connection: sections 4 to 12 of docs/spec/cdp.md, for one packet, one call or one timer at a time.

It is told the time and handed packets; what it wants to send lies in `out`. It keeps no congestion window but a fixed
number in flight, which [CDP-CC-2] allows on a dedicated network: this peer talks over loopback.
"""

import secrets
from dataclasses import dataclass, field, replace

import packet as cdp
from packet import ACK, DAT, ECE, EOM, FIN, PIN, RST, SYN, Packet

DATAGRAM, STREAM = 1, 2
RTO_INIT, RTO_MIN, RTO_MAX = 0.25, 0.02, 1.0  # seconds; section 12
SYN_TIME, GIVE_UP = 40.0, 50.0  # shorter than section 12 asks: a test must end
CHALLENGE_INTERVAL = 0.01  # [CDP-LIM-2]
IN_FLIGHT_MAX = 64
LINK_MSS = 1444  # UDP over IPv4 at MTU 1500; section 14.3
GREASE = (0x8A, b"\xde\xad\xbe")  # [CDP-TLV-9]
_ALL, _LOW = 2**64 - 1, 2**32 - 1


@dataclass
class Options:
    """What this end asks for; afterwards, in `Connection.agreed`, what holds."""

    service: int = DATAGRAM
    sealed: bool = True
    mss: int = LINK_MSS
    sack: bool = True
    coalesce: bool = True
    message: int = 1 << 20
    confirm: bool = False
    scale: int = 2
    slots: int = 64
    keepalive: tuple = (60, 300)
    extra: list = field(default_factory=list)  # further TLVs for the SYN or SYN|ACK

    def tlvs(self, offered=None):
        """The TLVs of a SYN, or of the SYN|ACK that answers `offered` [CDP-SYN-10]."""
        may = lambda kind: offered is None or offered.tlv(kind) is not None
        datagram = self.service == DATAGRAM  # [CDP-STR-4]
        wanted = [
            (cdp.CRC, bytes(4), True),
            (cdp.MSS, self.mss.to_bytes(2, "big"), True),
            (cdp.SERVICE, bytes([self.service]), True),
            (cdp.INTEGRITY, bytes([self.sealed]), True),
            (cdp.WSCALE, bytes([self.scale]), may(cdp.WSCALE)),
            (cdp.SACKOK, b"", self.sack),
            (cdp.COALESCE, b"", self.coalesce and datagram and may(cdp.COALESCE)),
            (cdp.MESSAGE, self.message.to_bytes(4, "big"), self.message > self.mss and datagram),
            (cdp.CONFIRM, b"", self.confirm and may(cdp.CONFIRM)),
            (cdp.KEEPALIVE, self._keepalive(offered), may(cdp.KEEPALIVE)),
            (*GREASE, offered is None),
        ]
        return [(kind, value) for kind, value, wanted in wanted if wanted] + self.extra

    def _keepalive(self, offered):
        """What the client asks for is good enough for this end."""
        mine = b"".join(each.to_bytes(2, "big") for each in self.keepalive)
        return (offered and offered.tlv(cdp.KEEPALIVE)) or mine

    def agree(self, theirs):
        """What holds once the peer's SYN or SYN|ACK is known: section 3.2, absent TLVs as section 3.1 says."""
        both = lambda kind, mine: mine and theirs.tlv(kind) is not None
        return replace(
            self,
            sealed=self.sealed or theirs.number(cdp.INTEGRITY, 1) == 1,
            coalesce=both(cdp.COALESCE, self.coalesce and self.service == DATAGRAM),
            confirm=both(cdp.CONFIRM, self.confirm),
            scale=self.scale if both(cdp.WSCALE, True) else 0,
            keepalive=divmod(theirs.number(cdp.KEEPALIVE, 60 << 16 | 300), 1 << 16),
        )


@dataclass
class Segment:
    """A numbered packet until it is acknowledged."""

    flags: int
    data: bytes
    sent_at: float
    times: int = 1
    held: bool = False  # told by SACK


class Closed(Exception):
    """The connection has ended; the argument says why."""


class Connection:
    """The state machine; `state` is named as in section 10."""

    def __init__(self, options, here, there, role, now):
        self.options, self.agreed = options, options
        self.here, self.there, self.role = here, there, role
        self.state, self.error, self.reason = "CLOSED", None, None
        self.confirmed, self.discarded_here, self.discarded_there = False, 0, 0
        self.out, self.counts = [], {}
        self.iss = secrets.randbits(64)  # [CDP-SEQ-3]
        self.una = self.nxt = self.edge = self.irs = self.rcv_nxt = self.rcv_edge = 0
        self.rcv_max = 64
        self.peer_scale, self.peer_mss, self.peer_message, self.peer_sack = 0, cdp.MSS_MIN, 0, False
        self.stored, self.fin_at, self.fin_in = {}, None, False
        self.piece_at = cdp.SACK_BITS  # offset of the next FARSACK
        self.inbox, self.unread_slots, self.part, self.part_slots = [], 0, b"", 0
        self.queue, self.segments, self.fin_number, self.closing = [], {}, None, False
        self.srtt, self.rttvar, self.rto, self.backoff = None, 0.0, RTO_INIT, 1
        self.started_at, self.persist_at, self.persist = now, None, RTO_INIT
        self.open_timer, self.cookie, self.open_wait = None, None, RTO_INIT
        self.sent_at = self.heard_at = self.challenged_at = self.moved_at = now
        self.ece, self.dropped = False, 0

    # --- open -------------------------------------------------------------------------------------------------------

    def connect(self, now):
        """Row 1."""
        self.state, self.una, self.nxt = "SYN_SENT", self.iss, self.iss + 1 & _ALL
        self._send_syn(now)

    def _send_syn(self, now, again=False):
        syn = Packet(self.there, self.here, SYN, self.iss, window=self._slots_free(), tlvs=self.options.tlvs())
        syn.rtx, syn.pad_to = again, cdp.SYN_LEN_MIN
        self.out.append(cdp.emit(syn))
        self._start_open_timer(now)

    def _start_open_timer(self, now):
        self.open_timer, self.open_wait = now + self.open_wait, min(2 * self.open_wait, RTO_MAX)

    def accept(self, syn, now):
        """Row 4: a SYN for a listener."""
        self.agreed = self.options.agree(syn)
        self.take(syn)
        self.state, self.una, self.nxt = "SYN_RCVD", self.iss, self.iss + 1 & _ALL
        self.syn_ack = self.build_syn_ack(syn)
        self.out.append(cdp.emit(self.syn_ack))

    def build_syn_ack(self, syn, cookie=None):
        """Not scaled [CDP-SYN-9], the result in INTEGRITY [CDP-SYN-7], no longer than the SYN [CDP-SYN-4]."""
        window = self._slots_free()
        tlvs = replace(self.options, sealed=self.agreed.sealed).tlvs(syn)
        tlvs += [(cdp.COOKIE, cookie)] if cookie else []
        answer = Packet(self.there, self.here, SYN | ACK, self.iss, self.rcv_nxt & _LOW, window, tlvs=tlvs)
        while len(cdp.emit(answer)) > len(syn.raw):
            answer.tlvs.remove([each for each in answer.tlvs if each[0] >= 128][-1])
        self.rcv_edge = self.rcv_nxt + window & _ALL
        self.rcv_max = max(self.rcv_max, window)
        return answer

    def take(self, opening):
        """What the peer's SYN or SYN|ACK says of its sender."""
        self.irs, self.rcv_nxt = opening.seq, opening.seq + 1 & _ALL
        self.peer_mss = opening.number(cdp.MSS, cdp.MSS_MIN)
        self.peer_scale = min(14, opening.number(cdp.WSCALE, 0))  # [CDP-SYN-8]; both sent it, or it is not there
        message = opening.number(cdp.MESSAGE, 0)
        self.peer_message = message if message > self.peer_mss else 0  # [CDP-DG-3]
        self.peer_sack = opening.tlv(cdp.SACKOK) is not None

    def _in_syn_sent(self, packet, now):
        if packet.flags == SYN | ACK and packet.ack == (self.iss + 1) & _LOW:  # row 10
            if packet.number(cdp.SERVICE, DATAGRAM) != self.options.service:
                self.out.append(cdp.echo_reset(packet.raw, 9))  # [CDP-SYN-6]
                return self._fail(9)
            self.take(packet)
            self.agreed = self.options.agree(packet)
            self.una = self.nxt
            self.edge = self.nxt + packet.window & _ALL
            self.rcv_edge, self.rcv_max = self.rcv_nxt + self._slots_free() & _ALL, max(64, self._slots_free())
            self.state, self.cookie = "ESTABLISHED", packet.tlv(cdp.COOKIE)
            self._acknowledge(now)
            return self._start_open_timer(now)
        if packet.flags == RST:  # row 13
            reason = packet.reason()[0]
            versions = packet.tlv(cdp.VERSIONS)
            if packet.seq != self.iss or packet.window or (reason == 11 and (versions is None or 1 in versions)):
                return self._count("RST")  # [CDP-RST-7] [CDP-RST-11]
            return self._fail(reason)
        if not packet.flags & RST and packet.flags != SYN:  # row 12
            self.out.append(cdp.echo_reset(packet.raw, 2))
        return self._count("state")

    # --- one packet in ----------------------------------------------------------------------------------------------

    def gives_way(self, packet):
        """Whether the packet is one for the listener, as this connection has to be forgotten."""
        if self.state == "QUIET":  # row 48
            return packet.flags == SYN and packet.seq != self.irs
        if self.state != "SYN_RCVD" or self.role != "server" or packet.flags & (SYN | RST):
            return False
        return packet.ack != self.iss + 1 & _LOW and self._is_current(self._unsealed(packet))  # [CDP-ST-J]

    def handle(self, packet, now):
        """One packet of this connection that has passed the stateless checks."""
        if self.state == "CLOSED":
            return self._count("state")
        if self.state == "SYN_SENT":
            return self._in_syn_sent(packet, now)
        if packet.flags & SYN:
            if self.state == "SYN_RCVD":  # row 17
                self.syn_ack.rtx = True
                self.out.append(cdp.emit(self.syn_ack))
            elif self.state != "QUIET":  # row 24
                self._challenge(now)
            return None
        if packet.flags == RST:
            return self._handle_echo(packet)
        s = self._unsealed(packet)
        if not self._is_current(s):
            self._count("far")
            away = min((s - self.rcv_nxt) & _ALL, (self.rcv_nxt - s) & _ALL)
            if packet.flags & (DAT | FIN) and away <= 2**30:
                self._challenge(now)  # [CDP-SEQ-10]
            return None
        if packet.unknown_critical() is not None:
            return self._count("critical")  # [CDP-TLV-6]
        verdict, full = cdp.rebuild_ack(self.una, self.nxt, packet.ack)
        if self.state == "SYN_RCVD":
            if packet.ack != self.iss + 1 & _LOW:
                return self._count("ack")  # [CDP-ST-I]
            if not packet.flags & RST:
                self.state, self.edge = "ESTABLISHED", self.iss + 1 & _ALL  # row 16
        if verdict == "false":
            self._count("false ACK")
            return self._challenge(now)
        if packet.flags & RST:
            if s == self.rcv_nxt:
                return self._handle_reset(packet)
            return self._challenge(now)  # [CDP-RST-6]
        self.heard_at = now
        self.open_timer, self.cookie = None, None  # row 25
        self.discarded_there = max(self.discarded_there, packet.number(cdp.DISCARDED, 0))
        if verdict == "valid":
            self._handle_ack(packet, full, now)
        if packet.flags & DAT:
            self._handle_data(packet, s, now)
        elif packet.flags & FIN:
            self._handle_fin(packet, s, now)
        elif packet.flags & PIN or packet.tlv(cdp.COOKIE):  # row 23, [CDP-CKE-7]
            time = packet.tlv(cdp.TIME) or bytes(8)
            self._acknowledge(now, [(cdp.TIME, bytes(4) + time[:4])] if any(time[:4]) else [])  # [CDP-MTU-3]
        return self.push(now)

    def _unsealed(self, packet):
        return packet.unsealed() if self.agreed.sealed else packet.seq

    def _is_current(self, s):
        """[CDP-SEQ-8]"""
        oldest = self.rcv_nxt - self.rcv_max & _ALL
        return cdp.serial_le(oldest, s) and cdp.serial_le(s, self.rcv_edge + 1 & _ALL)

    def _handle_echo(self, packet):
        """[CDP-RST-8] [CDP-RST-9]"""
        reason = packet.reason()[0]
        versions = packet.tlv(cdp.VERSIONS)
        s = packet.seq ^ packet.ack << 32 if self.agreed.sealed else packet.seq
        if self.state == "SYN_RCVD":
            good = packet.seq == self.iss and packet.window == (self.irs + 1 & _LOW) >> 16
        else:
            near = cdp.serial_le(self.una - 1 & _ALL, s) and cdp.serial_le(s, self.nxt)
            behind = ((self.rcv_nxt & _LOW) >> 16) - packet.window & 0xFFFF
            good = near and behind <= 1 + (self.rcv_max >> 16)
        if not good or (reason == 11 and (versions is None or 1 in versions)):
            return self._count("RST")
        return self._handle_reset(packet)

    def _handle_reset(self, packet):
        """Rows 19, 27, 39, 44 and 47."""
        self.discarded_there = max(self.discarded_there, packet.number(cdp.DISCARDED, 0))
        if self.state == "QUIET":
            return None
        if self.state == "CLOSE_WAIT":
            self.reason = packet.reason()[0]
            return None
        if self.state == "FIN_WAIT":
            self.reason, self.state = packet.reason()[0], "CLOSED"
            return None
        return self._fail(packet.reason()[0])

    def _handle_ack(self, packet, full, now):
        """[CDP-ACK-3], the window, SACK, round trips and what they let go."""
        window_at = full + (packet.window << self.peer_scale) & _ALL
        opened = cdp.serial_lt(self.edge, window_at)
        self.edge = cdp.serial_max(self.edge, window_at)  # [CDP-WND-5]
        moved, sampled = full != self.una, False
        while self.una != full:
            segment = self.segments.pop(self.una, None)
            if segment and segment.times == 1 and not segment.held:
                self._sample(now - segment.sent_at)  # [CDP-RTX-3]
                sampled = True
            self.una = self.una + 1 & _ALL
        if moved:
            self.backoff = 1 if sampled else max(1, self.backoff // 4)  # [CDP-RTX-4]
            self.moved_at = now
            if self.fin_number is not None and self.una == self.nxt and self.state == "FIN_WAIT":
                self.confirmed, self.state = True, "QUIET"  # row 35
        if opened or self.edge != self.nxt:
            self.persist_at, self.persist = None, self.rto
        held = set(cdp.sack_numbers(full, packet.tlv(cdp.SACK) or b""))
        held.update(cdp.far_numbers(full, packet.tlv(cdp.FARSACK) or bytes(4)))  # [CDP-SACK-6]
        for number in held & self.segments.keys():  # [CDP-SACK-4]: others are not ours
            self.segments[number].held = True
        self._repeat_lost(now)

    def _repeat_lost(self, now):
        """A number with three held after it is lost, once [CDP-RTX-5]; only SACK tells, so no probe's answer counts."""
        held = 0
        for number, segment in reversed(list(self.segments.items())):
            held += segment.held
            if held >= 3 and not segment.held and segment.times == 1:
                self._repeat(number, now)

    def _sample(self, measured):
        """[CDP-RTX-2]"""
        if self.srtt is None:
            self.srtt, self.rttvar = measured, measured / 2
        else:
            self.rttvar += (abs(self.srtt - measured) - self.rttvar) / 4
            self.srtt += (measured - self.srtt) / 8
        self.rto = min(max(self.srtt + max(0.001, 4 * self.rttvar), RTO_MIN), RTO_MAX)

    def _handle_data(self, packet, s, now):
        """[CDP-SEQ-11], rows 21, 36, 43 and 46."""
        if packet.ce:
            self.ece = True  # [CDP-CC-4]
        if cdp.serial_lt(s, self.rcv_nxt):
            return self._acknowledge(now)
        if not cdp.serial_lt(s, self.rcv_edge):
            self._count("beyond the edge")
            return self._challenge(now)
        if s not in self.stored:  # [CDP-SEQ-13]
            try:
                self._check_data(packet)
            except ValueError:
                return self.reset(8)
            self.stored[s] = packet
        self._advance(now)
        return self._acknowledge(now)

    def _check_data(self, packet):
        """What must be seen before the packet is acknowledged [CDP-COA-5] [CDP-DG-9]."""
        if self.options.service == STREAM or packet.flags & EOM:
            return
        announced = self.options.message > self.options.mss
        if self.agreed.coalesce:
            cdp.split_records(packet.data, announced)
        elif not announced:
            raise ValueError("EOM=0 by nobody's leave")

    def _advance(self, now):
        while self.rcv_nxt in self.stored and self.state != "CLOSED":
            packet = self.stored.pop(self.rcv_nxt)
            self.rcv_nxt = self.rcv_nxt + 1 & _ALL
            if self.state == "ESTABLISHED":
                self._deliver(packet)
            else:
                self.discarded_here += 1  # row 36
        if self.fin_at == self.rcv_nxt and not self.fin_in:
            self._take_fin(now)

    def _deliver(self, packet):
        """In order; a slot is free again once the last message of its packet is read."""
        if self.options.service == STREAM:
            if packet.data:
                self._put(packet.data, 1)
            return
        plain = packet.flags & EOM or not self.agreed.coalesce
        records = [(packet.data, not packet.flags & EOM)] if plain else cdp.split_records(packet.data, True)
        whole = [more for _, more in records].count(False)
        for data, more in records:
            self.part += data
            if len(self.part) > max(self.options.message, self.options.mss):
                self.reset(12)  # [CDP-DG-8]
            elif more:
                self.part_slots += whole == 0
            else:
                whole -= 1
                self._put(self.part, whole == 0)
                self.part, self.part_slots = b"", 0

    def _put(self, message, slots):
        self.inbox.append((message, int(slots)))
        self.unread_slots += slots

    def _handle_fin(self, packet, s, now):
        """[CDP-SEQ-12] [CDP-ST-A], rows 30, 31, 37, 43."""
        self.reason = packet.reason()[0] if packet.tlv(cdp.REASON) else self.reason
        if not cdp.serial_lt(s, self.rcv_nxt) and cdp.serial_le(s, self.rcv_edge):
            self.fin_at = s
            self._advance(now)
        if self._withholds_fin():
            return self._send(PIN | ACK, now)  # [CDP-ST-F]
        return self._acknowledge(now)

    def _withholds_fin(self):
        return self.fin_in and self.agreed.confirm and self.state == "CLOSE_WAIT" and bool(self.inbox)

    def _take_fin(self, now):
        self.fin_in, self.rcv_nxt = True, self.rcv_nxt + 1 & _ALL
        if self.state == "ESTABLISHED":  # row 30; later states have nothing left to drop
            self.state = "CLOSE_WAIT"
            self.dropped = len(self.queue) + len(self.segments)
            self.queue, self.segments = [], {}
            self.discarded_here += self.part_slots  # [CDP-DG-10]
            self.part, self.part_slots = b"", 0

    # --- packets out ------------------------------------------------------------------------------------------------

    def _slots_free(self):
        return max(0, self.options.slots - self.unread_slots)

    def _window(self):
        """The window to send; moves RCV.EDGE and never back [CDP-WND-3] [CDP-WND-4]."""
        edge = cdp.serial_max(self.rcv_edge, self.rcv_nxt + self._slots_free() & _ALL)
        room = (edge - self.rcv_nxt & _ALL) if cdp.serial_le(self.rcv_nxt, edge) else 0
        window = min(room >> self.agreed.scale, 0xFFFF)
        self.rcv_edge = cdp.serial_max(self.rcv_edge, self.rcv_nxt + (window << self.agreed.scale) & _ALL)
        self.rcv_max = max(self.rcv_max, window << self.agreed.scale)
        return window

    def _send(self, flags, now, tlvs=(), seq=None, data=b"", rtx=False):
        """Header as it is now, sealed last [CDP-SEQ-7] [CDP-SEAL-7]."""
        tlvs = list(tlvs)
        if self.discarded_here and self.state != "ESTABLISHED" and not flags & DAT:
            tlvs.append((cdp.DISCARDED, self.discarded_here.to_bytes(4, "big")))  # [CDP-ST-D]
        acked = self.rcv_nxt - self._withholds_fin() & _ALL
        if self.ece and not flags & RST:
            flags, self.ece = flags | ECE, False
        number = self.nxt if seq is None else seq
        packet = Packet(self.there, self.here, flags, number, acked & _LOW, self._window(), data, tlvs, rtx)
        self.out.append(cdp.emit(packet, self.agreed.sealed))
        self.sent_at = now

    def _acknowledge(self, now, tlvs=()):
        tlvs = list(tlvs)
        bitmap = cdp.sack_bitmap(self.rcv_nxt, self.stored) if self.peer_sack and self.stored else None
        if bitmap:
            tlvs.append((cdp.SACK, bitmap))  # [CDP-SACK-2]
        far = self._next_piece() if self.peer_sack else None
        if far:
            tlvs.append((cdp.FARSACK, far))
        if self.cookie:
            tlvs, self.ece = [(cdp.COOKIE, self.cookie)], False
        self._send(ACK, now, tlvs)

    def _next_piece(self):
        """One FARSACK after another [CDP-SACK-7], or None where SACK reaches all that is held."""
        last = max(((number - self.rcv_nxt - 1) & _ALL for number in self.stored), default=0)
        if last < cdp.SACK_BITS:
            return None
        if not cdp.SACK_BITS <= self.piece_at <= last:
            self.piece_at = cdp.SACK_BITS
        offset, self.piece_at = self.piece_at, self.piece_at + cdp.FAR_SACK_BITS
        return cdp.far_sack(self.rcv_nxt, self.stored, offset)

    def _challenge(self, now):
        if now - self.challenged_at >= CHALLENGE_INTERVAL * (1 + secrets.randbelow(100) / 100):
            self.challenged_at = now
            self._acknowledge(now)

    def push(self, now):
        """Sends what may go: data up to SND.EDGE [CDP-WND-6], then the FIN, which needs no slot [CDP-WND-7]."""
        if self.cookie or self.state not in ("ESTABLISHED", "FIN_WAIT"):
            return  # [CDP-CKE-9]
        while self.queue and len(self.segments) < IN_FLIGHT_MAX and cdp.serial_lt(self.nxt, self.edge):
            flags, data = self.queue.pop(0)
            self._number(flags, data, now)
        if self.closing and not self.queue and self.fin_number is None:
            self.fin_number = self.nxt
            self._number(FIN | ACK, b"", now)
        if self.queue and not self.segments and self.persist_at is None:
            self.persist_at = now + self.persist  # [CDP-WND-9]

    def _number(self, flags, data, now):
        if not self.segments:
            self.moved_at = now
        number, self.nxt = self.nxt, self.nxt + 1 & _ALL
        self.segments[number] = Segment(flags, data, now)
        self._send(flags, now, self._fin_tlvs(flags), number, data)

    def _fin_tlvs(self, flags):
        return [(cdp.REASON, (15).to_bytes(2, "big"))] if flags & FIN else []

    def _repeat(self, number, now):
        segment = self.segments[number]
        segment.sent_at, segment.times = now, segment.times + 1
        self._send(segment.flags, now, self._fin_tlvs(segment.flags), number, segment.data, rtx=True)

    # --- time -------------------------------------------------------------------------------------------------------

    def tick(self, now):
        """Every timer that is due."""
        if self.open_timer and now >= self.open_timer:  # rows 14 and 26
            if now - self.started_at > SYN_TIME:
                return self._fail(6)
            if self.state == "SYN_SENT":
                return self._send_syn(now, again=True)
            if self.cookie:
                self._acknowledge(now)
            else:
                self._send(PIN | ACK, now)
            self._start_open_timer(now)
        oldest = self.segments.get(self.una)
        wait = min(self.rto * self.backoff, RTO_MAX)
        if oldest and self.state in ("ESTABLISHED", "FIN_WAIT") and now - max(oldest.sent_at, self.moved_at) >= wait:
            if now - self.moved_at > GIVE_UP:
                return self.reset(6)  # rows 32 and 40
            self.backoff = min(2 * self.backoff, 64)
            self._repeat(self.una, now)  # alone [CDP-RTX-6]
        if self.persist_at and now >= self.persist_at and self.queue:
            self.persist = min(2 * self.persist, RTO_MAX)
            self.persist_at = now + self.persist
            self._send(PIN | ACK, now)  # never data [CDP-WND-9]
        if self.state == "ESTABLISHED" and self.role == "client" and now - self.sent_at >= self.agreed.keepalive[0]:
            self._send(PIN | ACK, now)  # [CDP-KA-2]
        return None

    # --- calls ------------------------------------------------------------------------------------------------------

    def send(self, messages, now):
        """Datagram service: each is a message. Stream service: bytes, in pieces as they come."""
        if self.state != "ESTABLISHED" or self.closing:
            raise Closed("EPIPE")
        mss = min(self.peer_mss, LINK_MSS)  # [CDP-MTU-1]
        if self.options.service == STREAM:
            data = b"".join(messages)
            self.queue += [(DAT | ACK, data[at : at + mss]) for at in range(0, len(data), mss)]
        else:
            if any(len(message) > max(mss, self.peer_message) for message in messages):
                raise ValueError("EMSGSIZE")  # [CDP-DG-6]
            self.queue += list(self._pack(messages, mss))
        self.push(now)

    def _pack(self, messages, mss):
        """Packets for messages: alone they travel plain, several together in records where that is agreed."""
        if not self.agreed.coalesce or len(messages) == 1:
            for message in messages:
                rest, room = message, mss - 2 if self.agreed.coalesce else mss
                while len(rest) > mss:  # [CDP-DG-4] [CDP-COA-3]
                    part, rest = rest[:room], rest[room:]
                    yield DAT | ACK, cdp.join_records([(part, True)]) if self.agreed.coalesce else part
                yield DAT | ACK | EOM, rest
            return
        records, room = [], mss
        for message in messages:
            while True:
                if len(message) <= room - 2:
                    records.append((message, False))
                    room -= 2 + len(message)
                    break
                if room > 2 and self.peer_message:
                    records.append((message[: room - 2], True))
                    message = message[room - 2 :]
                if not records:  # a full MSS that must not be split
                    yield DAT | ACK | EOM, message
                    break
                yield DAT | ACK, cdp.join_records(records)
                records, room = [], mss
        if records:
            yield DAT | ACK, cdp.join_records(records)

    def recv(self, now):
        """The next message or piece; None if there is none now; `Closed` after the last."""
        if not self.inbox:
            if self.error:
                raise Closed(self.error)  # [CDP-ERR-2]
            if self.state in ("CLOSE_WAIT", "QUIET", "CLOSED"):
                raise Closed("end of file")
            return None
        message, slots = self.inbox.pop(0)
        self.unread_slots -= slots
        if self.fin_in and not self.inbox and self.agreed.confirm:
            self._acknowledge(now)  # [CDP-ST-F]
        granted = self.rcv_edge - self.rcv_nxt & _ALL
        if self.state == "ESTABLISHED" and self._slots_free() - granted >= max(2, self.options.slots // 4):
            self._acknowledge(now)  # [CDP-WND-8]
        return message

    def close(self, now):
        """Rows 15, 28 and 45."""
        if self.state == "ESTABLISHED":
            self.discarded_here += self.unread_slots + self.part_slots
            self.inbox, self.unread_slots, self.closing = [], 0, True
            self.state = "FIN_WAIT"
            self.push(now)
        elif self.state == "CLOSE_WAIT":
            withheld = self._withholds_fin()
            self.discarded_here += self.unread_slots
            self.inbox, self.unread_slots = [], 0
            self.state = "QUIET"
            if withheld:
                self._acknowledge(now)
        elif self.state in ("SYN_SENT", "SYN_RCVD"):
            self.state = "CLOSED"

    def reset(self, reason):
        """[CDP-RST-1]; the reason is the error of this end too."""
        self._send(RST | ACK, self.sent_at, [(cdp.REASON, reason.to_bytes(2, "big"))])
        self._fail(reason)

    def _fail(self, reason):
        self.reason, self.error, self.state = reason, cdp.REASONS[reason], "CLOSED"
        self.open_timer = None

    def _count(self, why):
        self.counts[why] = self.counts.get(why, 0) + 1  # [CDP-CHK-3]
