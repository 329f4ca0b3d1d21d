"""How each contender is run, and what is taken from its results: a value for each metric."""

import contextlib
import glob
import itertools
import json
import os
import shlex
import statistics
import subprocess
import tempfile
import threading
import time

RIVALS_PORT = 9000
QUINN_PORT = 9001
ENET_PORT = 9002
# One for each server, as `ucx_perftest` cannot bind one that was in use a moment ago.
UCX_PORTS = itertools.count(9100)
# Ports of the underlay for two servers of ours at the same time.
WEFT_PORT = 64064
LOOPS_PORT = 9003
# Room for what the far wire and its queue hold, several times over.
FAR_SLOTS, FAR_BYTES = 32768, "32M"


class Failed(Exception):
    """A program did not give a result."""


class Programs:
    """Paths of what is measured; None for what is not there."""

    def __init__(self, **paths):
        self.paths = paths

    def __getattr__(self, name):
        return self.paths.get(name)


class Bench:
    """Runs programs on the two ends that bench/veth.sh made."""

    def __init__(self, programs, seconds, wire):
        self.programs, self.seconds, self.wire = programs, seconds, wire
        # Where several clients are to start at the same time, whatever their servers need before.
        self.together = None
        self.on_server, self.on_client = (shlex.split(os.environ.get(key, "")) for key in ("WEFT_ON_SERVER", "WEFT_ON_CLIENT"))
        self.server = os.environ.get("WEFT_SERVER")
        # Where there is a second way to the server, it has a second address.
        self.everywhere = "0.0.0.0" if "WEFT_FAR_SERVER" in os.environ else self.server

    def interface(self, side):
        """Name and Ethernet address of the one interface on a side that is not the loopback one."""
        done = subprocess.run(side + ["ip", "-json", "link"], capture_output=True, text=True, check=True)
        device = next(device for device in json.loads(done.stdout) if device["ifname"] != "lo")
        return device["ifname"], device["address"]

    def start(self, command):
        return subprocess.Popen(self.on_server + command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def start_together(self):
        """Waits until the others are as far; not for one that has failed."""
        if self.together:
            with contextlib.suppress(threading.BrokenBarrierError):
                self.together.wait(timeout=5)

    def text(self, command, seconds=None):
        """What `command` prints on the client's side. A slow way empties its queues for a while."""
        try:
            patience = (seconds or self.seconds) + 30
            done = subprocess.run(self.on_client + command, capture_output=True, text=True, timeout=patience)
        except subprocess.TimeoutExpired as late:
            raise Failed(f"{shlex.join(command)}: no result after {late.timeout} s") from late
        if done.returncode != 0 or not done.stdout.strip():
            raise Failed(f"{shlex.join(command)}: {done.stderr.strip() or 'no result'}")
        return done.stdout

    def ask(self, command, seconds=None):
        """The JSON that `command` prints on the client's side."""
        text = self.text(command, seconds)
        if "{" not in text:
            raise Failed(f"{shlex.join(command)}: no result")
        try:
            return json.loads(text[text.find("{"):], parse_constant=no_number)
        except ValueError as error:
            raise Failed(f"{shlex.join(command)}: {error}") from error

    def servers(self):
        """Those that answer as long as the wire is there."""
        commands = {"rivals": [self.programs.rivals, "serve", f"{self.everywhere}:{RIVALS_PORT}"]}
        if self.programs.quinn:
            commands["quinn"] = [self.programs.quinn, "serve", f"{self.server}:{QUINN_PORT}", "--mtu", str(self.wire.mtu)]
        if self.programs.enet:
            commands["enet"] = [self.programs.enet, "serve", f"{self.server}:{ENET_PORT}"]
        return [self.start(command) for command in commands.values()]


def no_number(name):
    """What JSON has no number for is no result."""
    raise ValueError(f"{name} is no result")


def stop(process):
    process.terminate()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def per_gb(cpu_seconds, received_bytes):
    """Processor seconds of both ends for each GB that arrived."""
    return cpu_seconds / (received_bytes / 1e9) if received_bytes else None


def kernel(*arguments, factor=1):
    """A rival of the `rivals` program."""
    return lambda bench: run_rival(bench, bench.programs.rivals, RIVALS_PORT, arguments, factor)


def quinn(*arguments, factor=1):
    """QUIC, with packets as large as the wire carries."""
    return lambda bench: run_rival(bench, bench.programs.quinn, QUINN_PORT, [*arguments, "--mtu", str(bench.wire.mtu)], factor)


def enet(*arguments):
    """ENet's reliable messages."""
    return lambda bench: run_rival(bench, bench.programs.enet, ENET_PORT, arguments, 1)


def ucx(test, size, per_second):
    """UCX over TCP by its own `ucx_perftest`, which counts messages and not seconds: so many for each second."""
    tests = ["-t", test, "-s", str(size), "-w", "100", "-f", "-v"]

    def measure(bench):
        # At normal priority: its thread that spins would keep the other one, which opens connections, off their core.
        command = ["chrt", "-o", "0", "env", "UCX_TLS=tcp", "ucx_perftest", "-p", str(next(UCX_PORTS))]
        server = bench.start(command)
        time.sleep(0.3)
        try:
            lines = bench.text([*command, *tests, "-n", str(round(per_second * bench.seconds)), bench.server])
        finally:
            stop(server)
        found = dict(zip(*(line.split(",") for line in lines.strip().splitlines()[-2:])))
        # The time is that of one way, in microseconds; a MB is 2^20 bytes.
        return {"gbit_per_s": float(found["overall_bw"]) * 8 * 2**20 / 1e9, "messages_per_s": float(found["overall_mr"]),
                "rtt_ns_p50": 2e3 * float(found["50.0_percentile_lat"])}

    return measure


def run_rival(bench, program, port, arguments, factor, host=None):
    seconds = bench.seconds * factor
    bench.start_together()
    result = bench.ask([program, "run", *arguments, f"{host or bench.server}:{port}", "--seconds", str(seconds)], seconds)
    if "bytes" in result:
        result["cpu_s_per_gb"] = per_gb(result["client_cpu_s"] + result["server_cpu_s"], result["bytes"])
    if "round_trips" in result:
        result["trips_per_s"] = result["round_trips"] / seconds
    return result


def loop(contender, test, *options):
    """A program whose threads sleep in a loop of events, with a server for each measurement."""

    def measure(bench):
        program, at = [bench.programs.loops, *options], f"{bench.server}:{LOOPS_PORT}"
        server = bench.start([*program, "serve", contender, test, at])
        time.sleep(0.3)
        try:
            result = bench.ask([*program, "run", contender, test, at, "--seconds", str(bench.seconds)])
        finally:
            stop(server)
        if "bytes" in result:
            result["cpu_s_per_gb"] = per_gb(result["client_cpu_s"] + result["server_cpu_s"], result["bytes"])
        return result

    return measure


class Weft:
    """The `weft` command, as a contender: a server for each measurement, so that it takes nothing from the others."""

    @staticmethod
    def stream(congestion="cubic", is_far=False, both=()):
        """One stream, with options of both ends. A far way takes larger windows than one node gives by default."""
        server = [*both, "--receive-slots", str(FAR_SLOTS)] if is_far else both
        client = [*both, "--send-bytes", FAR_BYTES] if is_far and congestion == "model" else both
        return lambda bench: Weft.perf(bench, ["--congestion", congestion, *client], server)

    @staticmethod
    def messages(size, *options):
        return Weft.loaded(["--datagram", "--size", str(size), *options])

    @staticmethod
    def loaded(client_options, server_options=()):
        """One node that loads another, with options of either."""
        return lambda bench: Weft.perf(bench, client_options, server_options)

    @staticmethod
    def ping(count, client_options, server_options, is_packet=False, size=64):
        client = ["ping", "--flood", "--count", str(count), "--size", str(size), *client_options]
        return lambda bench: Weft.round_trip(Weft.run(bench, server_options, client, is_packet))

    @staticmethod
    def round_trip(result):
        return {"rtt_ns_p50": result["p50_us"] * 1e3}

    @staticmethod
    def trips(result):
        return {"trips_per_s": 1e6 / result["mean_us"]}

    @staticmethod
    def perf(bench, client_options, server_options, at=WEFT_PORT, factor=1):
        seconds = bench.seconds * factor
        server = ["--bind", f"{bench.server}:{at}", *server_options]
        return Weft.rates(Weft.run(bench, server, Weft.load(seconds, at, *client_options), seconds=seconds))

    @staticmethod
    def load(seconds, at, *options):
        return ["perf", "--time", f"{round(seconds * 1000)}ms", "--underlay-port", str(at), *options]

    @staticmethod
    def rates(result):
        arrived = result["to_server"]
        cpu = sum((end["user"] + end["system"]) * end["seconds"] for end in (result["cpu_client"], result["cpu_server"]))
        return {"gbit_per_s": arrived["received_bits_per_second"] / 1e9, "messages_per_s": arrived["messages_per_second"],
                "cpu_s_per_gb": per_gb(cpu, arrived["received_bytes"])}

    @staticmethod
    def peers(count, server_options, client, of=None):
        """One server, and `count` nodes that each do `client` with it: what it gives the bench, and metrics of its result."""

        def one(bench):
            bench.start_together()
            arguments, metrics = client(bench)
            return metrics(bench.ask([bench.programs.weft, *arguments, "--json", bench.server]))

        def measure(bench):
            with Weft.serving(bench, ["--bind", f"{bench.server}:{WEFT_PORT}", *server_options]):
                return beside(*[one] * count, of=of or total)(bench)

        return measure

    @staticmethod
    def run(bench, server_options, client, is_packet=False, seconds=None):
        host = bench.server
        if is_packet:
            server_interface, host = bench.interface(bench.on_server)
            client = [*client, "--link", f"packet:{bench.interface(bench.on_client)[0]}"]
            server_options = [*server_options, "--link", f"packet:{server_interface}"]
        with Weft.serving(bench, server_options):
            bench.start_together()
            return bench.ask([bench.programs.weft, *client, "--json", host], seconds)

    @staticmethod
    @contextlib.contextmanager
    def serving(bench, options):
        """A server of the load and of echoes, which is there before this goes on."""
        server = bench.start([bench.programs.weft, "perf", "--server", *options])
        time.sleep(0.3)
        try:
            yield
        finally:
            stop(server)


class Forwarded:
    """Weft through `weft io-node` in the third namespace, on whichever cores are free."""

    CLUSTER = """networks = ["near", "far"]
[[node]]
name = "client"
number = 1
at = {{ near = "{client}" }}
[[node]]
name = "server"
number = 2
at = {{ far = "{server}" }}
[[node]]
name = "io"
number = 3
kind = "io"
at = {{ near = "{between_client}", far = "{between_server}" }}
"""

    @staticmethod
    def bulk():
        def measure(bench):
            result, forwarder = Forwarded.run(bench, ["perf", "--time", f"{round(bench.seconds * 1000)}ms"], bench.seconds)
            arrived = result["to_server"]
            ends = sum((end["user"] + end["system"]) * end["seconds"] for end in (result["cpu_client"], result["cpu_server"]))
            return {"gbit_per_s": arrived["received_bits_per_second"] / 1e9,
                    "cpu_s_per_gb": per_gb(ends + forwarder["cpu_s"], arrived["received_bytes"]),
                    "forwarder_ns": forwarder["cpu_s"] * 1e9 / forwarder["packets"]}

        return measure

    @staticmethod
    def ping(count):
        client = ["ping", "--flood", "--count", str(count), "--size", "64"]
        return lambda bench: {"rtt_ns_p50": Forwarded.run(bench, client)[0]["p50_us"] * 1e3}

    @staticmethod
    def run(bench, client, seconds=None):
        """What the client says, and the processor time of the I/O node with the packets that it forwarded."""
        weft, between = bench.programs.weft, shlex.split(os.environ["WEFT_ON_BETWEEN"])
        places = {name: os.environ[f"WEFT_{key}"] for name, key in
                  [("client", "FAR_CLIENT"), ("server", "FAR_SERVER"), ("between_client", "BETWEEN_CLIENT"), ("between_server", "BETWEEN_SERVER")]}
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(Forwarded.CLUSTER.format(**places))
            file.flush()
            cluster = ["--cluster", file.name, "--launcher", "off"]
            io = subprocess.Popen([*between, weft, "io-node", "--cluster", file.name, "--node", "io", "--json"],
                                  stdout=subprocess.PIPE, text=True)
            io.stdout.readline()
            server = bench.start([weft, "perf", "--server", *cluster, "--node", "server"])
            time.sleep(0.3)
            try:
                before = on_processor(io.pid)
                result = bench.ask([weft, *client, *cluster, "--node", "client", "--json", "server"], seconds)
                used = on_processor(io.pid) - before
            finally:
                stop(server)
                io.terminate()
                end, _ = io.communicate(timeout=10)
        networks = json.loads(end)["node"]["networks"]
        return result, {"cpu_s": used, "packets": sum(network["packets_out"] for network in networks)}


def on_processor(pid):
    """Seconds that the threads of a process were on a processor."""
    return sum(int(open(path, encoding="ascii").read().split()[0]) for path in glob.glob(f"/proc/{pid}/task/*/schedstat")) / 1e9


def routed(*arguments):
    """A rival of the `rivals` program, whose packets the kernel of the third namespace forwards."""
    return lambda bench: run_rival(bench, bench.programs.rivals, RIVALS_PORT, arguments, 1, os.environ["WEFT_FAR_SERVER"])


def beside(*contenders, of):
    """Several contenders at the same time; `of` makes metrics of the results of all."""

    def measure(bench):
        results = [None] * len(contenders)
        bench.together = threading.Barrier(len(contenders))

        def run(index, contender):
            try:
                results[index] = contender(bench)
            except Failed as failure:
                results[index] = failure

        threads = [threading.Thread(target=run, args=item) for item in enumerate(contenders)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        bench.together = None
        for result in results:
            if isinstance(result, Failed):
                raise result
        return of(results)

    return measure


def jain(flows):
    """1 when all have the same, 0.5 when one of two has all."""
    rates = [flow["gbit_per_s"] for flow in flows]
    return {"jain": sum(rates) ** 2 / (len(rates) * sum(rate**2 for rate in rates))}


def share(flows):
    """What the first has for each bit of the second."""
    return {"share": flows[0]["gbit_per_s"] / flows[1]["gbit_per_s"]}


def total(flows):
    """What all have together; of times, what they have in the mean."""
    together = {"gbit_per_s": sum, "messages_per_s": sum, "trips_per_s": sum, "rtt_ns_p50": statistics.mean}
    return {field: of(flow[field] for flow in flows) for field, of in together.items() if field in flows[0]}


def slowest(flows):
    """Each made as many: what all had together until the last one was done."""
    return {"trips_per_s": len(flows) * min(flow["trips_per_s"] for flow in flows)}


def local(name, *arguments, cores=None):
    """A program of ours that needs no wire; it prints its metrics."""

    def measure(bench):
        on = ["taskset", "-c", cores] if cores else []
        return bench.ask([*on, getattr(bench.programs, name), *arguments, "--seconds", str(bench.seconds)])

    return measure
