"""Results as tables: a line for each contender of each row, and what is worked out from several lines."""

import statistics

from . import cores

# The contender whose ratio to each of the others is told.
OURS = "weft"


def spread(values, form):
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{form(middle)} ({form(low)} to {form(high)})"


def amount(value):
    for limit, unit in [(1e9, "G"), (1e6, "M"), (1e3, "k")]:
        if value >= 10 * limit or (unit != "k" and value >= limit):
            return f"{value / limit:.2f} {unit}"
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def of_metric(chosen, field):
    """The values of one metric by contender and round."""
    return {(item["contender"], item["round"]): item["values"][field] for item in chosen
            if item.get("values", {}).get(field) is not None}


def ratio(of, name, other):
    """The ratios of one contender to another, round by round, as median (min to max); nothing of what did not take turns with it."""
    ratios = [value / of[other, at] for (who, at), value in of.items() if who == name and of.get((other, at))]
    return spread(ratios, lambda x: f"{x:.2f}") if ratios else ""


def lines(row, chosen):
    """A line for every contender and metric: value, ratio to the row's reference, and Weft's to it, as median (min to max)."""
    names = [name for name in row.contenders if any(item["contender"] == name for item in chosen)]
    for field, unit in row.metrics:
        of = of_metric(chosen, field)
        for name in names:
            values = {at: value for (who, at), value in of.items() if who == name}
            if not values:
                # What a contender has no such value of, such as the processor time of a borrowed program, has no line.
                if not any("values" in item for item in chosen if item["contender"] == name):
                    yield f"| {row.name} | {name} | failed | | | 0 |"
                continue
            to_reference = ratio(of, name, row.reference)
            told = f"{to_reference} of {row.reference}" if to_reference else ""
            ours = "" if name == OURS else ratio(of, OURS, name)
            yield f"| {row.name} | {name} | {spread(list(values.values()), amount)} {unit} | {told} | {ours} | {len(values)} |"


def fit(row, chosen):
    """`P = N·t·ρ(t)` of the CDP paper: N from one thread, ρ as measured, and σ where ρ(t) = 1 / (1 + σ (t - 1))."""
    of = of_metric(chosen, "packets_per_s")
    rounds = sorted({at for _, at in of})
    threads = sorted({who for who, _ in of}, key=lambda name: int(name.split()[0]))
    single = [of["1 thread", at] for at in rounds if ("1 thread", at) in of]
    if not single:
        return None
    shown, slopes = [], []
    for name in threads[1:]:
        t = int(name.split()[0])
        rho = [of[name, at] / of["1 thread", at] / t for at in rounds if (name, at) in of and ("1 thread", at) in of]
        if rho:
            shown.append(f"ρ({t}) = {spread(rho, lambda x: f'{x:.2f}')}")
        if rho and t <= row.cores:
            # ρ = 1 / (1 + σ (t - 1)), so 1/ρ - 1 is a line through nothing.
            slopes.append((t - 1, statistics.median(1 / one - 1 for one in rho)))
    sigma = sum(x * y for x, y in slopes) / sum(x * x for x, _ in slopes) if slopes else None
    said = "" if sigma is None else f", σ = {sigma:.2f} of the threads that have a core each"
    return f"* {row.name}: N = {amount(statistics.median(single))} packets/s, {', '.join(shown)}{said}"


def show(results, rows, wires):
    for name, wire in wires.items():
        chosen = [item for item in results if item["wire"] == name]
        if not chosen:
            continue
        print(f"\n### {wire.title}\n")
        print("| row | contender | value: median (min to max) | ratio to the reference | Weft's to this contender's | rounds |")
        print("|--|--|--|--|--|--|")
        fits = []
        for row in (row for row in rows if name in row.on):
            own = [item for item in chosen if item["row"] == row.name]
            for line in lines(row, own):
                print(line)
            fits += [fit(row, own)] if row.cores and own else []
        if any(fits):
            print("\nP = N·t·ρ(t), packets a second of t receiving threads:\n")
            print("\n".join(line for line in fits if line))
        moves = cores.said(chosen)
        if moves:
            print(f"\n{moves}")
