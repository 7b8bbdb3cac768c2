"""Utilization of the link against the compression ratio."""

from typing import Any, get_args

from rich.console import Console

from tests.bench.engine.data import DENSE, Spread, with_stream
from tests.bench.engine.rig import Rig, RoundTrip
from tests.bench.engine.tables import percent, table

RATIOS = (DENSE, 1, 2, 2.6, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 12.5, 13, 14, 16)
STREAM_BYTES = 256 << 10

FULL = 0.99
"""Goal: out up to a ratio of 10, in up to 8 with a line per cycle and as far as out with two."""
NEARLY = 0.97
"""Goal at 12, where the six units themselves are full."""
SPREADS = get_args(Spread)


def run(console: Console) -> dict[str, Any]:
    """Print the table and return its figures, with the goals as booleans."""
    with (
        Rig.of_preset("titanx_gen3") as two_lines,
        Rig.of_preset("titanx_gen3", split_lines=1) as one_line,
    ):
        rows = {ratio: _row(two_lines, one_line, ratio) for ratio in RATIOS}
    printed = table(
        f"titanx_gen3: link busy, streams of {STREAM_BYTES >> 10} KiB, lines of even and of random "
        "size",
        "ratio",
        "out even",
        "random",
        "in even",
        "random",
        "in, 1 split: even",
        "random",
        "out, whole",
        "in, whole",
    )
    for ratio, row in rows.items():
        printed.add_row(
            f"{ratio:.4g}",
            *(
                percent(row[way, spread].utilization)
                for way in ("out", "in", "in, one line")
                for spread in SPREADS
            ),
            *(percent(row[way, "even"].overall_utilization) for way in ("out", "in")),
        )
    console.print(printed)
    console.print(
        "Busy: from the first to the last byte of the stream on the link. Whole: from the doorbell "
        "to the record, even lines."
    )
    goals = _goals(rows)
    for name, met in goals.items():
        console.print(f"{name}: {'met' if met else 'MISSED'}")
    return {
        "utilization": {
            f"{way}, {spread} lines": {
                f"{ratio:.4g}": row[way, spread].utilization for ratio, row in rows.items()
            }
            for way in ("out", "in", "in, one line")
            for spread in SPREADS
        },
        "overall_utilization": {
            way: {
                f"{ratio:.4g}": row[way, "even"].overall_utilization for ratio, row in rows.items()
            }
            for way in ("out", "in")
        },
        "stall_cycles": {
            way: {f"{ratio:.4g}": row[way, "even"].stalls for ratio, row in rows.items()}
            for way in ("out", "in")
        },
        "goals_met": goals,
    }


def _row(two_lines: Rig, one_line: Rig, ratio: float) -> dict[tuple[str, str], RoundTrip]:
    round_trips = {}
    for spread in SPREADS:
        array = with_stream(STREAM_BYTES, ratio, spread)
        round_trips["out", spread] = two_lines.out(array)
        round_trips["in", spread] = two_lines.into(round_trips["out", spread])
        round_trips["in, one line", spread] = one_line.into(one_line.out(array))
    return round_trips


def _goals(rows: dict[float, dict[tuple[str, str], RoundTrip]]) -> dict[str, bool]:
    def holds(way: str, most_ratio: float, least: float) -> bool:
        return all(
            row[way, spread].utilization >= least
            for ratio, row in rows.items()
            for spread in SPREADS
            if ratio <= most_ratio
        )

    return {
        "out at least 99 % up to 10": holds("out", 10, FULL),
        "out at least 97 % at 12": holds("out", 12, NEARLY),
        "in, one line per cycle, at least 99 % up to 8": holds("in, one line", 8, FULL),
        "in, two lines, at least 99 % up to 10": holds("in", 10, FULL),
        "in, two lines, at least 97 % at 12": holds("in", 12, NEARLY),
    }
