"""Cookies: section 10.2 of docs/spec/cdp.md, a server that answers SYNs and keeps nothing."""

import hashlib
import hmac
import secrets
from dataclasses import replace

import packet as cdp

ALL, LOW = 2**64 - 1, 2**32 - 1
COOKIE_KEY = secrets.token_bytes(32)  # one for each run, which is less than an hour [CDP-CKE-3]


def answer_with_cookie(connection, syn, slot):
    """Row 5: the SYN|ACK of a server that keeps nothing; `connection` serves only to compute the answer."""
    connection.agreed = connection.options.agree(syn)
    connection.take(syn)
    connection.iss = _cookie_iss(syn, connection.irs, slot)
    agreed = connection.agreed
    bits = agreed.sealed | agreed.coalesce << 1 | agreed.confirm << 2 | connection.peer_sack << 3
    plain = bytes([slot & 0xFF, bits, agreed.scale, connection.peer_scale])
    plain += connection.peer_mss.to_bytes(2, "big") + connection.peer_message.to_bytes(4, "big")
    plain += agreed.slots.to_bytes(2, "big")
    cookie = plain + _mac(b"cookie", syn, connection.irs, plain)
    return cdp.emit(connection.build_syn_ack(syn, cookie))


def restore_from_cookie(connection, echo, slots):
    """Row 7: True if the echo is good, and `connection` is then established; ValueError if it is not."""
    cookie = echo.tlv(cdp.COOKIE)
    if len(cookie) != 28:
        raise ValueError("length")
    plain, mac = cookie[:12], cookie[12:]
    slot = next((each for each in slots if each & 0xFF == plain[0]), None)
    sealed = bool(plain[1] & 1)
    irs = (echo.unsealed() if sealed else echo.seq) - 1 & ALL
    if slot is None or not hmac.compare_digest(mac, _mac(b"cookie", echo, irs, plain)):
        raise ValueError("MAC")
    iss = _cookie_iss(echo, irs, slot)
    if echo.ack != iss + 1 & LOW:
        raise ValueError("ACK number")  # [CDP-CKE-6]
    window = int.from_bytes(plain[10:12], "big")
    connection.agreed = replace(
        connection.options,
        sealed=sealed, coalesce=bool(plain[1] & 2), confirm=bool(plain[1] & 4), scale=plain[2],
    )  # fmt: skip
    connection.iss, connection.irs, connection.rcv_nxt = iss, irs, irs + 1 & ALL
    connection.una = connection.nxt = connection.edge = iss + 1 & ALL
    connection.rcv_edge, connection.rcv_max = connection.rcv_nxt + window & ALL, max(64, window)
    connection.peer_sack, connection.peer_scale = bool(plain[1] & 8), plain[3]
    connection.peer_mss = int.from_bytes(plain[4:6], "big")
    connection.peer_message = int.from_bytes(plain[6:10], "big")
    connection.state = "ESTABLISHED"


def _mac(purpose, packet, irs, plain):
    names = repr((purpose, packet.to, packet.source, irs, plain)).encode()
    return hmac.digest(COOKIE_KEY, names, hashlib.sha256)[:16]


def _cookie_iss(packet, irs, slot):
    return int.from_bytes(_mac(b"iss", packet, irs, slot.to_bytes(4, "big"))[:8], "big")  # [CDP-SEQ-3]
