"""How far apart the cores of the two ends are, while a round is measured: the host of a virtual machine moves them."""

import json
import statistics
import subprocess

# Cores that share a cache have been seen at 50 to 80 ns, such as do not at 330, and what may be two threads of one core at 27.
MOVED = 2
# How often a round is measured anew for that.
AGAIN = 2


class Cores:
    """The first core of either end."""

    def __init__(self, program, cores, priority, again=AGAIN):
        self.again = again
        self.ends = [part.split("-")[0] for part in cores.split(",")]
        self.command = (["chrt", "-f", str(priority)] if priority else []) + [program, *self.ends]

    def distance(self):
        """Nanoseconds that a cache line takes there and back, or None where there is but one core."""
        if len(set(self.ends)) < 2:
            return None
        done = subprocess.run(self.command, capture_output=True, text=True, check=False)
        return json.loads(done.stdout)["line_ns_p50"] if done.returncode == 0 else None

    def measure(self, round_of):
        """What `round_of` gives, each with the distances seen and the rounds that were given up because the cores had moved.

        `round_of` yields results one by one.
        """
        for again in range(self.again + 1):
            seen, results = [self.distance()], []
            for result in round_of():
                results.append(result)
                seen.append(self.distance())
            seen = [distance for distance in seen if distance]
            moved = bool(seen) and max(seen) > MOVED * min(seen)
            if not moved:
                break
        return [{**result, "line_ns": seen, "moved": moved, "again": again} for result in results]


def said(chosen):
    """What to know about the cores of a wire's results, if anything was seen."""
    seen = [distance for item in chosen for distance in item.get("line_ns", [])]
    if not seen:
        return None
    rounds = {(item["row"], item["round"]): item for item in chosen}.values()
    again, moved = sum(item["again"] for item in rounds), sum(item["moved"] for item in rounds)
    text = f"A cache line takes {min(seen)} to {max(seen)} ns from one core to the other and back, in the median {statistics.median(seen):.0f}."
    if again:
        text += f" The cores moved meanwhile: {again} of {again + len(rounds)} rounds were measured anew"
        text += f", and {moved} of those that count were not all at one place." if moved else "."
    return text
