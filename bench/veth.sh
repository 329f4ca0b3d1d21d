#!/bin/sh
# Runs a server and a client on the two ends of a veth pair, each in a network namespace of its own.
set -eu

usage() {
    cat <<'TEXT'
usage: bench/veth.sh [OPTION]... --server COMMAND --client COMMAND
       bench/veth.sh [OPTION]... --with COMMAND

Makes two network namespaces joined by a veth pair, runs COMMAND of the server in the one on the first core and COMMAND
of the client in the other on the second core, both with real-time priority, and removes the namespaces in the end,
however it ends. The server is stopped when the client is done. Needs root.

  --mtu N            MTU of both ends in bytes (default 1500)
  --offloads on|cut|off
                     on: packets of one size cross as one large packet, as on one host;
                     cut: every packet crosses as a frame of its own, and frames are joined on receipt, as most network
                     cards have it; off: they are not joined either (default on)
  --loss PERCENT     this share of the packets to the server is dropped before it sees them, each by itself and at
                     random; take offloads off with it, or one drop takes a whole large packet (default 0)
  --rate MBIT        either end sends so many megabits in a second at most, what it has beyond that waits in a queue of 2 MiB; needs tc
                     (default: what the machine can do)
  --wire COMMAND     the ends are not joined: COMMAND, followed by the names of two interfaces, one towards the server
                     and one towards the client, carries whole frames between these in a namespace of its own
  --between          beside the cable between the two ends there is a way through a third namespace with a cable to each; its
                     kernel forwards IPv4, and so may a program there
  --server COMMAND   run by sh, listens at $WEFT_SERVER
  --client COMMAND   run by sh, connects to $WEFT_SERVER
  --with COMMAND     run by sh outside of both, with these in its environment:
                     WEFT_ON_SERVER, WEFT_ON_CLIENT   put before a command, they run it on that side
                     WEFT_SERVER, WEFT_CLIENT         the addresses of the two ends
                     WEFT_SINK                        an address that swallows what the client sends to it
                     WEFT_ON_BETWEEN                  as WEFT_ON_SERVER, with --between; on both cores
                     WEFT_BETWEEN_SERVER, WEFT_BETWEEN_CLIENT, WEFT_FAR_SERVER, WEFT_FAR_CLIENT
                                                      the two addresses between, and those of the ends that lead there
  --cores A,B        the core of the server and that of the client (default 0,1)
  --priority N       real-time priority, 0 for none (default 5)
  --help             this text
TEXT
}

fail() {
    echo "bench/veth.sh: $1" >&2
    exit 2
}

mtu=1500 offloads=on loss=0 rate='' wire='' between='' server='' client='' with='' cores=0,1 priority=5
while [ $# -gt 0 ]; do
    case $1 in
    --help) usage; exit 0 ;;
    --between) between=yes; shift ;;
    --mtu | --offloads | --loss | --rate | --wire | --server | --client | --with | --cores | --priority)
        [ $# -ge 2 ] || fail "$1 needs a value"
        eval "${1#--}=\$2"
        shift 2
        ;;
    *) fail "\"$1\" is no option; see --help" ;;
    esac
done
case $offloads in on | cut | off) ;; *) fail "--offloads is on, cut or off, not \"$offloads\"" ;; esac
lost=$(awk -v "percent=$loss" 'BEGIN { if (percent ~ /^[0-9.]+$/ && percent <= 100) printf "%d", percent * 1000 }')
[ -n "$lost" ] || fail "--loss is a share in percent, not \"$loss\""
case $rate in 0* | *[!0-9]*) fail "--rate is a number of megabits a second, not \"$rate\"" ;; esac
if [ -z "$with" ] && { [ -z "$server" ] || [ -z "$client" ]; }; then
    fail "give --server and --client, or --with; see --help"
fi
[ -z "$between" ] || [ -z "$wire" ] || fail "--between needs the ends joined; leave --wire out"
[ "$(id -u)" = 0 ] || fail "network namespaces need root"

# The kernel allows interface names of 15 characters.
a=wfa$$ b=wfb$$ c=wfc$$
pids=''
clean() {
    trap - EXIT INT TERM HUP
    # shellcheck disable=SC2086 # they are several, or a group
    [ -z "$pids" ] || kill -- $pids 2>/dev/null || true
    for space in "$a" "$b" "$c"; do
        for pid in $(ip netns pids "$space" 2>/dev/null); do kill "$pid" 2>/dev/null || true; done
        ip netns del "$space" 2>/dev/null || true
    done
}
trap clean EXIT
trap 'clean; exit 130' INT TERM HUP

ip netns add "$a"
ip netns add "$b"
if [ -z "$wire" ]; then
    ip link add "$a" netns "$a" type veth peer name "$b" netns "$b"
else
    ip netns add "$c"
    for end in "$a" "$b"; do
        ip link add "$end" netns "$end" type veth peer name "$end" netns "$c"
        ip -n "$c" link set "$end" mtu "$mtu" up
        # The wire is to see what a cable would carry.
        ip netns exec "$c" ethtool -K "$end" gro off
    done
    ip netns exec "$c" sh -c 'for all in /proc/sys/net/ipv6/conf/*/disable_ipv6; do echo 1 >"$all"; done' 2>/dev/null || true
fi
joined=on
[ "$offloads" != off ] || joined=off
offload() {
    ip netns exec "$1" ethtool -K "$2" gro "$joined"
    if [ "$offloads" != on ]; then
        ip netns exec "$1" ethtool -K "$2" tso off gso off tx-udp-segmentation off
    fi
}
setup() {
    ip -n "$1" address add "$2/24" dev "$1"
    ip -n "$1" address add "$3/64" dev "$1" nodad
    ip -n "$1" link set "$1" mtu "$mtu" up
    ip -n "$1" link set lo up
    offload "$1" "$1"
    [ -z "$rate" ] || tc -n "$1" qdisc add dev "$1" root tbf rate "${rate}mbit" burst 256kb limit 2mb
    if [ -n "$wire" ]; then
        # Frames that leave the kernel have their checksums, and windows may hold what a long way holds.
        ip netns exec "$1" ethtool -K "$1" tx off tso off gso off tx-udp-segmentation off
        ip netns exec "$1" sh -c 'for way in rmem wmem; do echo "4096 131072 67108864" >/proc/sys/net/ipv4/tcp_$way; done'
    fi
}
setup "$a" 10.64.0.1 fd64::1
setup "$b" 10.64.0.2 fd64::2
# Frames to this neighbour carry an address that is nobody's, so they cross and are dropped: a sender alone is measured.
WEFT_SINK=10.64.0.9
ip -n "$b" neighbour add "$WEFT_SINK" lladdr 02:00:00:00:00:99 dev "$b"

# A cable from the end $1 with address $2 to the third namespace, where it has address $3; network $4 lies behind that.
reach() {
    ip link add "$1"x netns "$1" type veth peer name "$1" netns "$c"
    ip -n "$1" address add "$2/24" dev "$1"x
    ip -n "$c" address add "$3/24" dev "$1"
    ip -n "$1" link set "$1"x mtu "$mtu" up
    ip -n "$c" link set "$1" mtu "$mtu" up
    ip -n "$1" route add "$4" via "$3"
    offload "$1" "$1"x
    offload "$c" "$1"
}
if [ -n "$between" ]; then
    ip netns add "$c"
    WEFT_FAR_SERVER=10.65.1.1 WEFT_BETWEEN_SERVER=10.65.1.9 WEFT_BETWEEN_CLIENT=10.65.2.9 WEFT_FAR_CLIENT=10.65.2.2
    export WEFT_FAR_SERVER WEFT_BETWEEN_SERVER WEFT_BETWEEN_CLIENT WEFT_FAR_CLIENT
    reach "$a" "$WEFT_FAR_SERVER" "$WEFT_BETWEEN_SERVER" 10.65.2.0/24
    reach "$b" "$WEFT_FAR_CLIENT" "$WEFT_BETWEEN_CLIENT" 10.65.1.0/24
    ip netns exec "$c" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'
fi

if [ "$lost" -gt 0 ]; then
    # A joined packet would be dropped whole.
    ip netns exec "$a" ethtool -K "$a" gro off
    ip netns exec "$a" nft -f - <<TEXT
table netdev weft {
    chain loss {
        type filter hook ingress device $a priority 0;
        numgen random mod 100000 < $lost drop;
    }
}
TEXT
fi

place() {
    if [ "$priority" -gt 0 ]; then
        echo "ip netns exec $1 chrt -f $priority taskset -c $2"
    else
        echo "ip netns exec $1 taskset -c $2"
    fi
}
WEFT_ON_SERVER=$(place "$a" "${cores%,*}")
WEFT_ON_CLIENT=$(place "$b" "${cores#*,}")
WEFT_ON_BETWEEN=$(place "$c" "$cores")
WEFT_SERVER=10.64.0.1 WEFT_CLIENT=10.64.0.2
export WEFT_ON_BETWEEN WEFT_ON_SERVER WEFT_ON_CLIENT WEFT_SERVER WEFT_CLIENT WEFT_SINK

if [ -n "$wire" ]; then
    # It is above the two ends, or one that spins would cut it.
    ip netns exec "$c" chrt -f $((priority + 1)) sh -c "exec $wire $a $b" &
    wire_pid=$!
    # It needs a moment to take hold of both.
    sleep 0.3
    kill -0 "$wire_pid" 2>/dev/null || fail "the wire has ended"
fi

# What is waited for in the background ends with this script; one in the foreground would have to end before a signal is looked at.
# It reads what this script reads.
exec 3<&0
await() {
    status=0
    wait "$1" || status=$?
    exit "$status"
}
if [ -n "$with" ]; then
    # A group of its own, so that all that it starts is told to end.
    setsid sh -c "$with" <&3 3<&- &
    pids=-$!
    await "$!"
fi
# shellcheck disable=SC2086 # the placement is several words
$WEFT_ON_SERVER sh -c "exec $server" &
pids=$!
sleep 0.3
# shellcheck disable=SC2086
$WEFT_ON_CLIENT sh -c "exec $client" <&3 3<&- &
pids="$pids $!"
await "$!"
