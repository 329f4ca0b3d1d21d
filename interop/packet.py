"""CDP packets: bytes to values and back, the seal, records, and the arithmetic of numbers.

Written from docs/spec/cdp.md alone; names in brackets are its requirements. Nothing here keeps state.
"""

import struct
from dataclasses import dataclass, field

EOM, ECE, PIN, ACK, DAT, RST, SYN, FIN = 0x80, 0x40, 0x20, 0x10, 0x08, 0x04, 0x02, 0x01
LEGAL = {0x02, 0x12, 0x10, 0x50, 0x18, 0x58, 0x98, 0xD8, 0x11, 0x51, 0x30, 0x70, 0x04, 0x14}  # section 2.1

HEADER = struct.Struct(">II HHHH QI")  # section 2
HEADER_LEN = 28
SYN_LEN_MIN = 128  # [CDP-SYN-3]
TLVS_MAX = 32  # [CDP-TLV-8]
MSS_MIN = 512
SACK_BITS, FAR_SACK_BITS = 512, 1984  # [CDP-LIM-7] [CDP-LIM-16]

CRC, VERSIONS, MSS, SERVICE, INTEGRITY, COOKIE = 1, 2, 3, 4, 5, 6
WSCALE, SACKOK, COALESCE, MESSAGE, KEEPALIVE, CONFIRM, IOSET = 128, 129, 130, 131, 132, 133, 134
SACK, TIME, CECOUNT, REASON, DISCARDED, FARSACK = 144, 145, 146, 147, 148, 149

# Section 3.1: the lengths a known TLV may have, and the flags (without ECE where that may be either) of its packets.
_OPEN, _ACKS, _ECHO = {SYN, SYN | ACK}, {ACK, ACK | ECE, PIN | ACK, PIN | ACK | ECE}, {RST}
_FINS, _RSTS = {FIN | ACK, FIN | ACK | ECE}, {RST, RST | ACK}
REGISTRY = {
    CRC: ({4}, _OPEN | _ECHO),
    VERSIONS: (range(1, 17), _OPEN | _ECHO),
    MSS: ({2}, _OPEN),
    SERVICE: ({1}, _OPEN),
    INTEGRITY: ({1}, _OPEN),
    COOKIE: (range(1, 49), {SYN | ACK, ACK}),
    WSCALE: ({1}, _OPEN),
    SACKOK: ({0}, _OPEN),
    COALESCE: ({0}, _OPEN),
    MESSAGE: ({4}, _OPEN),
    KEEPALIVE: ({4}, _OPEN),
    CONFIRM: ({0}, _OPEN),
    IOSET: (range(3, 49), _OPEN),
    SACK: (range(8, 65, 8), _ACKS),
    TIME: ({8}, _ACKS),
    CECOUNT: ({4}, _ACKS),
    REASON: ({2, 4}, _FINS | _RSTS),
    DISCARDED: ({4}, _ACKS | _FINS | _RSTS),
    FARSACK: (range(12, 253, 8), _ACKS),
}

REASONS = (  # section 16
    "none", "refused", "unknown", "abort", "died", "idle", "gave up", "stalled", "protocol", "service", "option",
    "version", "too big", "no room", "forbidden", "done", "leaving", "false ACK", "keys", "cookie",
)


class Dropped(Exception):
    """A packet that fails a stateless check; the argument names the check (section 2.2)."""


class Refused(Exception):
    """A packet to be answered by an echo-form RST: the REASON and its detail, if it has one."""

    def __init__(self, reason, detail=None):
        super().__init__(REASONS[reason], detail)
        self.reason, self.detail = reason, detail


@dataclass
class Packet:
    """One packet. `seq` is as on the wire: sealed or not."""

    to: tuple  # (node, port)
    source: tuple
    flags: int
    seq: int
    ack: int = 0
    window: int = 0
    data: bytes = b""
    tlvs: list = field(default_factory=list)  # (type, value), in order
    rtx: bool = False
    ce: bool = False
    hop: int = 0
    pad_to: int = 0
    raw: bytes = b""  # as it came

    def tlv(self, kind):
        """The value of a TLV, or None."""
        return next((value for each, value in self.tlvs if each == kind), None)

    def number(self, kind, absent):
        """The value of a TLV as a number."""
        value = self.tlv(kind)
        return absent if value is None else int.from_bytes(value, "big")

    def reason(self):
        """Code and detail of REASON; an unknown code is 0 [CDP-ERR-1]."""
        value = self.tlv(REASON) or b"\0\0"
        code = int.from_bytes(value[:2], "big")
        return (code if code < len(REASONS) else 0), int.from_bytes(value[2:], "big")

    def unknown_critical(self):
        """The first critical type that is not known, or None."""
        return next((kind for kind, _ in self.tlvs if kind < 128 and kind not in REGISTRY), None)

    def unsealed(self):
        """The number after undoing the seal [CDP-SEAL-3]."""
        return self.seq ^ checksum(self.raw) << 32

    def __str__(self):
        names = "FIN SYN RST DAT ACK PIN ECE EOM".split()
        flags = "|".join(name for bit, name in enumerate(names) if self.flags >> bit & 1)
        return f"{flags} seq={self.seq:016x} ack={self.ack:08x} win={self.window} len={len(self.raw)} {self.raw.hex()}"


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc_table()


def crc32c(data):
    """CRC32C [CDP-SEAL-1]."""
    crc, table = 0xFFFFFFFF, _TABLE
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def checksum(raw):
    """C of a packet [CDP-SEAL-1]: without the bits that forwarders change and without the high half of SEQ."""
    return crc32c(bytes([raw[0] & 0xF8]) + raw[1:16] + bytes(4) + raw[20:])


def _syn_crc(raw, at):
    """The CRC TLV: of the packet with the mutable bits and the value at `at` zero."""
    return crc32c(bytes([raw[0] & 0xF8]) + raw[1:at] + bytes(4) + raw[at + 4 :])


def parse(raw, ethernet=False):
    """The stateless checks, in the order of [CDP-CHK-1]."""
    if len(raw) < HEADER_LEN:
        raise Dropped("short")
    version = raw[0] >> 4
    if version != 1:
        if 2 <= version <= 14 and len(raw) >= 36 and not raw[4] & RST:
            raise Refused(11)  # [CDP-HDR-4]
        raise Dropped("version")
    first, second, to_port, source_port, length, window, seq, ack = HEADER.unpack_from(raw)
    if not HEADER_LEN <= length <= len(raw):
        raise Dropped("length")
    if length < len(raw) and not (ethernet and len(raw) <= 46):
        raise Dropped("trailing")
    raw = raw[:length]  # [CDP-HDR-9]
    flags = raw[4]
    if flags not in LEGAL:
        raise Dropped("flags")
    to, source = (first & 0xFFFFFF, to_port), (second & 0xFFFFFF, source_port)
    if {to[0], source[0]} & {0, 0xFFFFFF} or 0 in (to_port, source_port) or to == source:
        raise Dropped("address")  # [CDP-HDR-15] [CDP-HDR-16]
    packet = Packet(to, source, flags, seq, ack, window, raw=raw)
    packet.rtx, packet.ce, packet.hop = bool(raw[0] & 8), bool(raw[0] & 4), raw[0] & 3
    if flags & DAT:
        packet.data = raw[HEADER_LEN:]
    else:
        packet.tlvs, crc_at = _parse_tlvs(raw, flags)
        if flags & SYN:
            _check_syn(packet, crc_at)
        elif crc_at and _syn_crc(raw, crc_at) != packet.number(CRC, 0):
            raise Dropped("crc")
    return packet


def _parse_tlvs(raw, flags):
    tlvs, at, crc_at = [], HEADER_LEN, None
    while at < len(raw) and raw[at] != 0:  # [CDP-TLV-2]
        kind, size = raw[at], raw[at + 1] if at + 1 < len(raw) else 0
        end = at + 2 + size
        following = at + (2 + size + 3) // 4 * 4
        if following > len(raw):
            raise Dropped("tlv")  # [CDP-TLV-3]
        if kind in REGISTRY:
            sizes, where = REGISTRY[kind]
            if size not in sizes or flags not in where or any(each == kind for each, _ in tlvs):
                raise Dropped("tlv")  # [CDP-TLV-4]
            if kind == CRC:
                crc_at = at + 2
        tlvs.append((kind, raw[at + 2 : end]))
        if len(tlvs) > TLVS_MAX:
            raise Dropped("tlv")
        at = following
    return tlvs, crc_at


def _check_syn(packet, crc_at):
    if packet.flags == SYN and len(packet.raw) < SYN_LEN_MIN:
        raise Dropped("syn")
    if crc_at is None or _syn_crc(packet.raw, crc_at) != packet.number(CRC, 0):
        raise Dropped("crc")  # [CDP-SYN-2]
    unknown = packet.unknown_critical()
    if unknown is not None:
        raise Refused(10, unknown)  # [CDP-TLV-5]
    if packet.number(MSS, MSS_MIN) < MSS_MIN:
        raise Refused(10, MSS)  # [CDP-SYN-5]
    if packet.number(INTEGRITY, 1) > 1:
        raise Refused(10, INTEGRITY)


def emit(packet, sealed=False):
    """The bytes of a packet; `seq` is the true number, and is sealed on request [CDP-SEAL-2]."""
    body, crc_at = packet.data, None
    for kind, value in packet.tlvs:
        if kind == CRC:
            crc_at, value = HEADER_LEN + len(body) + 2, bytes(4)
        body += bytes([kind, len(value)]) + value
        body += bytes(-len(body) % 4)
    body += bytes(max(0, packet.pad_to - HEADER_LEN - len(body)))
    first = 1 << 28 | packet.rtx << 27 | packet.ce << 26 | packet.hop << 24 | packet.to[0]
    second = packet.flags << 24 | packet.source[0]
    head = HEADER.pack(first, second, packet.to[1], packet.source[1], HEADER_LEN + len(body), packet.window,
                       packet.seq, packet.ack)  # fmt: skip
    raw = head + body
    if crc_at:
        return raw[:crc_at] + _syn_crc(raw, crc_at).to_bytes(4, "big") + raw[crc_at + 4 :]
    if sealed:
        high = packet.seq >> 32 ^ checksum(raw)
        return raw[:16] + high.to_bytes(4, "big") + raw[20:]
    return raw


def echo_reset(raw, reason, detail=None):
    """The answer of an end without a connection to the packet `raw` [CDP-RST-2], no longer than it [CDP-RST-3]."""
    value = reason.to_bytes(2, "big") + (b"" if detail is None else detail.to_bytes(2, "big"))
    tlvs = [(REASON, value)] + ([(VERSIONS, b"\1")] if reason == 11 else [])
    first, second, to_port, source_port = struct.unpack_from(">IIHH", raw)
    reset = Packet((second & 0xFFFFFF, source_port), (first & 0xFFFFFF, to_port), RST,
                   int.from_bytes(raw[16:24], "big"), checksum(raw), int.from_bytes(raw[24:26], "big"))  # fmt: skip
    while True:
        reset.tlvs = tlvs
        answer = emit(reset)
        if len(answer) <= len(raw):
            return answer
        tlvs = tlvs[:-1]


def serial_le(a, b):
    """a is not after b [CDP-SEQ-1]."""
    return (b - a) % 2**64 < 2**63


def serial_lt(a, b):
    """a is before b."""
    return a != b and serial_le(a, b)


def serial_max(a, b):
    """The later of two numbers."""
    return b if serial_le(a, b) else a


def rebuild_ack(una, nxt, low):
    """`("valid", full)`, `("old", None)` or `("false", None)` [CDP-ACK-2] to [CDP-ACK-5]."""
    full = (una + (low - una) % 2**32) % 2**64
    if (full - una) % 2**64 <= (nxt - una) % 2**64:
        return "valid", full
    return ("old" if (una - low) % 2**32 <= 2**30 else "false"), None


def split_records(data, message_announced):
    """[(bytes, it goes on)] of a list of records; ValueError where it breaks [CDP-COA-1] to [CDP-COA-4]."""
    records, at = [], 0
    while at < len(data) or not records:
        if at + 2 > len(data):
            raise ValueError("no room for the head of a record")
        head = int.from_bytes(data[at : at + 2], "big")
        more = bool(head & 0x8000)
        end = len(data) if head == 0x8000 else at + 2 + (head & 0x7FFF)
        if end > len(data):
            raise ValueError("a record runs past its packet")
        if more and (end != len(data) or end == at + 2 or not message_announced):
            raise ValueError("MORE where it must not be")
        records.append((data[at + 2 : end], more))
        at = end
    return records


def join_records(records):
    """The data segment that holds them; the length of a long part that goes on is not told [CDP-COA-2]."""
    heads = (0x8000 if more and len(part) > 0x7FFF else len(part) | more << 15 for part, more in records)
    return b"".join(head.to_bytes(2, "big") + part for head, (part, _) in zip(heads, records))


def sack_numbers(ack, bitmap):
    """The numbers that a bitmap names which begins after `ack`, the full ACK number in a SACK [CDP-SACK-1]."""
    for bit in range(8 * len(bitmap)):
        if bitmap[bit // 8] & 0x80 >> bit % 8:
            yield (ack + 1 + bit) % 2**64


def far_numbers(ack, value):
    """The numbers that a FARSACK names, from the full ACK number [CDP-SACK-6]."""
    return sack_numbers(ack + int.from_bytes(value[:4], "big"), value[4:])


def far_sack(ack, held, offset=SACK_BITS):
    """The FARSACK from `offset` on that names `held`; a full one if more is held after it [CDP-SACK-7]."""
    bitmap = sack_bitmap(ack + offset, held, FAR_SACK_BITS) or b""
    if any((number - ack - 1) % 2**64 >= offset + FAR_SACK_BITS for number in held):
        bitmap = bitmap.ljust(FAR_SACK_BITS // 8, b"\0")
    return offset.to_bytes(4, "big") + bitmap


def sack_bitmap(ack, held, most=SACK_BITS):
    """The bitmap after `ack` that names `held`, of at most so many bits, or None if it reaches none of them."""
    bits = [number for number in ((each - ack - 1) % 2**64 for each in held) if number < most]
    if not bits:
        return None
    bitmap = bytearray((max(bits) // 64 + 1) * 8)
    for bit in bits:
        bitmap[bit // 8] |= 0x80 >> bit % 8
    return bytes(bitmap)
