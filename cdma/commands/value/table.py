"""The console table of `cdma value`."""

import math

from cdma.commands.value.report import Map
from cdma.plan.platform.environment import machine_config
from cdma.plan.value.break_even import Row, links
from cdma.synth.gates.clock import ENGINE
from cdma.terminal.console import GB, clock_fact, facts_grid, figures_table, terminal


def print_map(found: Map) -> None:
    """A row per step, a column per link, and the break-even bandwidth."""
    console = terminal()
    if not found.values:
        console.print("No point is there yet.", highlight=False)
        return
    console.print(f"{found.title}\n", style="bold", highlight=False)
    clocks = [machine_config(v.engine).clock_hz for v in found.values if v.engine is not None]
    if clocks:
        console.print(facts_grid(clock_fact(max(clocks), ENGINE)))
    names = links(found.values)
    rates = {value.point.link: value.link_bytes_per_s for value in found.values}
    headings = [f"{name}\n{rates[name] / GB:.3g} GB/s" for name in names]
    table = figures_table(
        "network", ("device", "memory", "saved", "density", *headings, "worth it")
    )
    for row in found.rows:
        first = row.values[0]
        cells = []
        for name in names:
            value = row.value(name)
            gain = "–" if value is None or value.engine is None else f"{100 * value.gain:.1f} %"
            cells.append(gain)
        table.add_row(
            _title(row, found),
            row.point.device,
            f"{first.memory_bytes / GB:.3g} GB{'' if first.fits else '*'}",
            f"{first.saved_bytes / GB:.3g} GB",
            f"{first.mean_density:.2f}",
            *cells,
            _worth(row, found.break_even),
        )
    console.print(table)
    console.print(
        "Under each link, with what copies get of it: how much faster the best lossless plan found "
        f"with the engine is. worth it: GB/s with which it gains {100 * found.break_even:g} % or "
        "more. –: no engine is as fast as the link."
        + ("" if all(v.fits for v in found.values) else " *: more than the device has."),
        highlight=False,
    )
    missing = found.points - len(found.values)
    if missing:
        console.print(f"{missing} of {found.points} points are not computed yet.", highlight=False)


def _title(row: Row, found: Map) -> str:
    point = row.point
    several = len({value.point.codec for value in found.values}) > 1
    return f"{point.network} {point.batch} {point.precision}{f' {point.codec}' if several else ''}"


def _worth(row: Row, gain: float) -> str:
    worth = row.worth_between(gain)
    if worth is None:
        return "nowhere"
    low, high = worth
    if math.isinf(high):
        return f"from {low / GB:.3g}" if low else "everywhere"
    return f"{low / GB:.3g} to {high / GB:.3g}" if low else f"to {high / GB:.3g}"
