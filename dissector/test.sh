#!/usr/bin/env bash
# Builds captures from the test vectors of docs/spec/cdp.md and checks what tshark makes of them with cdp.lua.
set -euo pipefail
cd "$(dirname "$0")"

for program in tshark text2pcap; do
    if ! command -v "$program" >/dev/null 2>&1; then
        echo "dissector/test.sh: SKIPPED, because $program is not installed (apt-get install tshark)"
        exit 77
    fi
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed -n '/^```vectors$/,/^```$/p' ../docs/spec/cdp.md | grep -v '^```' >"$work/block"

failures=0
checks=0

expect() { # what, found, wanted
    checks=$((checks + 1))
    if [ "$2" != "$3" ]; then
        failures=$((failures + 1))
        echo "FAILED $1: found \"$2\", wanted \"$3\""
    fi
}

line() { # vector: its line, without the comment
    grep "^$1 " "$work/block" | sed 's/ *#.*//'
}

key() { # vector key: the value, or nothing
    line "$1" | tr ' ' '\n' | sed -n "s/^$2=//p"
}

bytes() { # vector, or vector/at:hex: its bytes in hexadecimal, one of them changed
    local hex from change at
    if [ "${1#*/}" != "$1" ]; then
        hex=$(bytes "${1%/*}")
        change=${1#*/}
        at=${change%%:*}
        echo "${hex:0:$((2 * at))}${change#*:}${hex:$((2 * at + 2))}"
        return
    fi
    from=$(key "$1" from)
    if [ -n "$from" ]; then
        hex=$(bytes "$from")
    else
        hex=$(awk -v name="$1" '/^[^ ]/ { on = $1 == name; next } on' "$work/block" | tr -d ' \n')
    fi
    for change in $(line "$1" | tr ' ' '\n' | grep -E '^(cut|add|[0-9]+):' || true); do
        at=${change%%:*}
        case $at in
        cut) hex=${hex:0:$((2 * ${change#*:}))} ;;
        add) hex=$hex${change#*:} ;;
        *) hex=${hex:0:$((2 * at))}${change#*:}${hex:$((2 * at + 2))} ;;
        esac
    done
    echo "$hex"
}

capture() { # udp-port or "ethernet", vectors...: writes $work/capture
    local link=$1 vector
    shift
    for vector in "$@"; do
        echo "0000 $(bytes "$vector" | sed 's/../& /g')"
    done >"$work/dump"
    if [ "$link" = ethernet ]; then
        text2pcap -q -e 0x88B5 "$work/dump" "$work/capture"
    else
        text2pcap -q -u "$link,$link" "$work/dump" "$work/capture"
    fi >/dev/null 2>&1
}

show() { # fields...: of each packet of the capture, separated by ";"
    local field arguments=()
    for field in "$@"; do
        arguments+=(-e "$field")
    done
    tshark -X lua_script:cdp.lua ${integrity:+-o "cyclops.integrity:$integrity"} -r "$work/capture" \
        -T fields -E separator=';' -E occurrence=a -E aggregator=, "${arguments[@]}" 2>"$work/errors"
    if grep -q 'Lua' "$work/errors"; then
        cat "$work/errors"
        exit 1
    fi
}

# Every legal packet alone: what the vector says is what tshark shows.
accepted=$(awk '/^[^ ]/ && $2 == "accept" { print $1 }' "$work/block")
for vector in $accepted; do
    integrity=
    [ "$(key "$vector" sealed)" != 0 ] || integrity=none
    capture "$([ "$(key "$vector" link)" = ethernet ] && echo ethernet || echo 64064)" "$vector"
    IFS=';' read -r seq flags types ack held far reason discarded window payload more sizes rtx ce hop error < <(
        show cyclops.seq cyclops.flags.names cyclops.tlv.type cyclops.ack cyclops.sack.held cyclops.far.held cyclops.reason \
            cyclops.discarded cyclops.window cyclops.payload cyclops.record.more cyclops.record.length cyclops.rtx \
            cyclops.ce cyclops.hop _ws.expert.severity
    )
    expect "$vector seq" "$seq" "0x$(key "$vector" seq)"
    for pair in "flags $flags" "tlvs $types" "reason $reason" "discarded $discarded" "window $window" \
        "data $payload"; do
        wanted=$(key "$vector" "${pair%% *}")
        [ -z "$wanted" ] || expect "$vector ${pair%% *}" "${pair#* }" "$wanted"
    done
    wanted=$(key "$vector" ack)
    [ -z "$wanted" ] || expect "$vector ack" "$ack" "0x$wanted"
    expect "$vector rtx" "$rtx" "$(key "$vector" rtx | grep . || echo 0)"
    expect "$vector ce" "$ce" "$(key "$vector" ce | grep . || echo 0)"
    expect "$vector hop" "$hop" "$(key "$vector" hop | grep . || echo 0)"
    wanted=$(key "$vector" sack)
    [ -z "$wanted" ] || expect "$vector sack" "$(echo "$held" | grep -o '+[0-9]*' | tr -d + | paste -sd,)" "$wanted"
    wanted=$(key "$vector" far)
    [ -z "$wanted" ] || expect "$vector far" "$(echo "$far" | grep -o '+[0-9]*' | tr -d + | paste -sd,)" "$wanted"
    wanted=$(key "$vector" records)
    if [ -n "$wanted" ]; then
        lengths=$(for record in ${wanted//,/ }; do echo $(((${#record} - 1) / 2)); done | paste -sd,)
        expect "$vector records" "$sizes" "$lengths"
        expect "$vector more" "$more" "$(echo "$wanted" | sed 's/[0-9a-f]*\//0/g; s/[0-9a-f]*+/1/g')"
    fi
    expect "$vector raises no error" "$(echo "$error" | tr , '\n' | grep -c '^8388608$' || true)" 0
done

# An open, then the echo of the cookie: the seal is known from the open.
integrity=
capture 64064 V1 V2 V3
mapfile -t seals < <(show cyclops.seal)
expect "seal of a SYN" "${seals[0]}" "not sealed (packets of this kind never are), seq=0123456789abcdef"
expect "seal of an ACK after the open" "${seals[2]}" "sealed, seq=0123456789abcdf0"

# Without the open the second packet settles it, and a damaged one is seen.
capture 64064 V5 V8 X14
mapfile -t seals < <(show cyclops.seal cyclops.seal.far)
expect "first packet" "${seals[0]}" "sealed (assumed: the capture has no SYN), seq=fffffffffffffffe;"
expect "second packet" "${seals[1]}" "sealed, seq=ffffffffffffffff;"
expect "damaged packet is far" "${seals[2]##*;}" 1
capture 64064 V4 V4/15:01
expect "plain numbers are recognized, and are not far from what was assumed" "$(show cyclops.seal cyclops.seal.far | tail -n 1)" \
    "not sealed, seq=fffffffffffffffe;"

# The echo-form RST tells which packet it refuses.
capture 64064 V5 V14
expect "refused number" "$(show cyclops.echo.seq | tail -n 1)" "0xfffffffffffffffe"

# What is illegal says so.
complains() { # field vectors...: the last packet has the complaint
    local field=$1
    shift
    capture 64064 "$@"
    expect "$* complains of $field" "$(show "$field" | tail -n 1 | grep -c .)" 1
}
complains cyclops.length.bad X2
complains cyclops.length.bad X3
complains cyclops.trailing X4
complains cyclops.flags.bad X5
complains cyclops.flags.bad X6
complains cyclops.version.other X9
complains cyclops.crc.bad X10
complains cyclops.tlv.overrun X12
complains cyclops.records.bad V1 V2 X15
complains cyclops.records.bad V1 V2 X18

# The padding of a short frame is no complaint, another UDP port is found by the heuristic, and other traffic is not.
capture ethernet V7
expect "padding of a frame" "$(show cyclops.trailing)" ""
capture 4000 V5
expect "heuristic" "$(show cyclops.seq)" "0xfffffffffffffffe"
capture 4000 X2
expect "heuristic refuses a wrong LENGTH" "$(show cyclops.seq)" ""

echo "dissector/test.sh: $checks checks, $failures failed"
[ "$failures" -eq 0 ]
