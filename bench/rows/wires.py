"""What lies between the two ends: the arguments of bench/veth.sh for each wire."""

import os

# The wire of a third namespace: from one end to the other, so 10 ms there and back.
DELAY_MS = 5


class Wire:
    """One kind of wire. `veth` is None where a row needs no namespaces at all."""

    def __init__(self, title, veth, mtu=1500, carry=None, priority=None, cores=None):
        self.title, self.veth, self.mtu, self.carry = title, veth, mtu, carry
        # Real-time priority and cores of the ends, where they are not to be as asked for.
        self.priority, self.cores = priority, cores

    def ends(self, cores, priority):
        """The cores of the ends and their priority, of those asked for."""
        return self.cores or cores, priority if self.priority is None else self.priority

    def arguments(self, wire_program, priority, cores):
        """For bench/veth.sh."""
        carry = ["--wire", f"{wire_program} {self.carry}"] if self.carry is not None else []
        cores, priority = self.ends(cores, priority)
        return [*self.veth, "--mtu", str(self.mtu), *carry, "--priority", str(priority), "--cores", cores]


def far(rate_mbit, loss=0, priority=None):
    """A bottleneck with a queue that holds as much as is under way, and a delay."""
    title = (f"Loss {loss:g} %, " if loss else "") + f"bottleneck of {rate_mbit / 1000:g} Gbit/s, 10 ms there and back"
    queue_kib = rate_mbit * 1_000_000 * 2 * DELAY_MS // 1000 // 8 // 1024
    carry = f"--delay-ms {DELAY_MS} --rate-mbit {rate_mbit} --queue-kib {queue_kib} --loss {loss:g}"
    return Wire(title, ["--offloads", "cut"], carry=carry, priority=priority)


LOSSES = [0.1, 1, 5]
OFFLOADS = {setting: Wire(f"Offloads {setting}", ["--offloads", setting]) for setting in ("on", "off")}
CUT = {"cut": Wire("Frames cut by the sender and joined on receipt", ["--offloads", "cut"])}
JUMBO = {f"{setting}-9000": Wire(f"MTU 9000, offloads {setting}", ["--offloads", setting], mtu=9000)
         for setting in ("on", "cut", "off")}
NEAR_LOSS = {f"loss-{loss:g}": Wire(f"Loss {loss:g} %, no delay", ["--offloads", "off", "--loss", f"{loss:g}"])
             for loss in LOSSES}
FAR_LOSS = {"far": far(3000), **{f"far-{loss:g}": far(3000, loss) for loss in LOSSES}}
# A network that is slower than the machine, as most are: what counts is the processor time.
SLOW = {f"slow-{mbit}": Wire(f"A network of {mbit / 1000:g} Gbit/s", ["--offloads", "cut", "--rate", str(mbit)], priority=0)
        for mbit in (100, 250, 500, 1000, 2500, 5000, 10000)}
# Two flows on it have the processors' time from the scheduler, and the rate is one that the processors do not limit.
SHARED = {"shared": far(1000, priority=0)}
# As on a machine that has no other one.
ONE_CORE = {"one-core": Wire("Both ends on one core, offloads on", ["--offloads", "on"], priority=0, cores="0,0")}
# What forwards runs on whichever core is free.
BETWEEN = {f"between-{setting}": Wire(f"A way through a third namespace, offloads {setting}", ["--between", "--offloads", setting])
           for setting in ("on", "cut")}
# Each end on half of the cores; several threads of one core are not to keep each other from it.
HALF = max(1, (os.cpu_count() or 1) // 2)
HALVES = {f"halves-{setting}": Wire(f"Each end on {HALF} cores, offloads {setting}", ["--offloads", setting], priority=0,
                                    cores=f"0-{HALF - 1},{HALF}-{2 * HALF - 1}")
          for setting in ("on", "cut", "off")}
NONE = {"none": Wire("Within one process", None)}
ALL = {**OFFLOADS, **CUT, **JUMBO, **NEAR_LOSS, **FAR_LOSS, **SLOW, **SHARED, **ONE_CORE, **BETWEEN, **HALVES, **NONE}
