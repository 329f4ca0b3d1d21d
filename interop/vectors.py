"""The test vectors of section 19 of the specification against packet.py; `check` tells what differs."""

import re

import packet as cdp

FLAGS = {"FIN": 1, "SYN": 2, "RST": 4, "DAT": 8, "ACK": 16, "PIN": 32, "ECE": 64, "EOM": 128}


def check(specification):
    """(number of vectors, [complaints])."""
    block = re.search(r"```vectors\n(.*?)```", specification, re.S).group(1)
    complaints, packets, count = [], {}, 0
    for name, verdict, wants, octets in _vectors(block):
        count += 1
        if name.startswith("A"):
            found = cdp.rebuild_ack(*(int(wants[key], 16) for key in ("una", "nxt", "ack")))
            good = found == (verdict, int(wants["full"], 16) if "full" in wants else None)
            complaints += [] if good else [f"{name}: {found}"]
            continue
        raw = packets[name] = octets or _changed(packets, wants)
        try:
            complaints += [f"{name}: {each}" for each in _compare(name, verdict, wants, raw, packets)]
        except (cdp.Dropped, cdp.Refused) as error:
            complaints.append(f"{name}: {error!r}")
    return count, complaints


def _vectors(block):
    entries = []
    for line in block.splitlines():
        if line.startswith(" "):
            entries[-1][3] += bytes.fromhex(line)
        else:
            words = line.split(" # ")[0].split()
            pairs = [word.split("=", 1) for word in words[2:] if "=" in word]
            changes = [word.split(":", 1) for word in words[2:] if "=" not in word]
            entries.append([words[0], words[1], dict(pairs) | {"changes": changes}, b""])
    return entries


def _changed(packets, wants):
    raw = bytearray(packets[wants["from"]])
    for what, value in wants["changes"]:
        if what == "cut":
            raw = raw[: int(value)]
        elif what == "add":
            raw += bytes.fromhex(value)
        else:
            raw[int(what)] = int(value, 16)
    return bytes(raw)


def _compare(name, verdict, wants, raw, packets):
    kind, _, what = verdict.partition(":")
    ethernet = wants.get("link") == "ethernet"
    if kind in ("answer", "refuse") or (kind == "drop" and what != "far"):
        try:
            cdp.parse(raw, ethernet)
        except cdp.Dropped as error:
            if (kind, what) != ("drop", str(error)):
                yield f"dropped: {error}"
        except cdp.Refused as error:
            if kind == "drop" or cdp.REASONS[error.reason] != what:
                yield f"refused: {error}"
        else:
            yield "accepted"
        return
    found = cdp.parse(raw, ethernet)
    seq = found.unsealed() if wants.get("sealed") == "1" else found.seq
    if verdict == "drop:far":
        if seq >> 32 == int(wants["rcvnxt"], 16) >> 32:
            yield "not far"
        return
    if verdict == "reset:protocol":
        try:
            yield f"records {cdp.split_records(found.data, True)}"
        except ValueError:
            return
    hexadecimal = lambda key: int(wants[key], 16)
    types = ",".join(str(each) for each, _ in found.tlvs)
    pairs = {
        "flags": lambda: found.flags == sum(FLAGS[flag] for flag in wants["flags"].split("|")),
        "seq": lambda: seq == hexadecimal("seq"),
        "ack": lambda: found.ack == hexadecimal("ack"),
        "window": lambda: found.window == int(wants["window"]),
        "tlvs": lambda: types == wants["tlvs"],
        "data": lambda: found.data.hex() == wants["data"],
        "ce": lambda: found.ce == bool(int(wants["ce"])),
        "hop": lambda: found.hop == int(wants["hop"]),
        "rtx": lambda: found.rtx == bool(int(wants["rtx"])),
        "reason": lambda: found.reason()[0] == int(wants["reason"]),
        "discarded": lambda: found.number(cdp.DISCARDED, 0) == int(wants["discarded"]),
        "sack": lambda: ",".join(map(str, cdp.sack_numbers(0, found.tlv(cdp.SACK)))) == wants["sack"],
        "far": lambda: ",".join(map(str, cdp.far_numbers(0, found.tlv(cdp.FARSACK)))) == wants["far"],
        "records": lambda: _spell(cdp.split_records(found.data, True)) == wants["records"],
        "echoes": lambda: _echoes(raw, packets[wants["echoes"]], found),
    }
    for key, holds in pairs.items():
        if key in wants and not holds():
            yield f"{key} is not {wants[key]}"
    found.seq, found.pad_to = seq, len(found.raw)
    if cdp.emit(found, wants.get("sealed") == "1") != found.raw:
        yield "emit(parse(bytes)) is not the bytes"


def _spell(records):
    return ",".join(part.hex() + ("+" if more else "/") for part, more in records)


def _echoes(raw, trigger, found):
    answer = cdp.echo_reset(trigger, found.reason()[0])
    return answer[:12] + answer[14:28] == raw[:12] + raw[14:28]
