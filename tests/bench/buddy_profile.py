"""Target ratios of Buddy Compression on our workloads (§3.4), and what best-of adds to BPC."""

from statistics import fmean, geometric_mean
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from cdma.golden.buddy.entry import SIZES, ZVC_FLAG, EntryCodec, classes_of
from cdma.golden.formats.interface import element_bytes_of
from cdma.golden.formats.stream import ByteArray
from cdma.golden.formats.zvc import Zvc
from cdma.plan.buddy.profile import BEST, NAIVE, PER_ALLOCATION, ZERO_PAGE, profile
from cdma.plan.papers import printed
from cdma.sim.buddy import Allocation, Profile, load_snapshots

GROUPS = {
    "HPC": ("heat", "shallow-water", "indices"),
    "DL": ("digits-cnn", "digits-cnn-training"),
}
MIXED = "mixed"
PRINTED = printed("buddy")
PAPER = {
    # Ratio and buddy accesses, %: §3.1 and §3.4; what is not told is None.
    group: dict(
        zip(
            (NAIVE, PER_ALLOCATION, ZERO_PAGE, BEST),
            zip(
                PRINTED["modes"][group.lower()],
                (
                    PRINTED["modes"][f"{group.lower()}_naive_percent"],
                    None,
                    PRINTED["ratios"][f"{group.lower()}_percent"],
                    None,
                ),
                strict=True,
            ),
            strict=True,
        )
    )
    for group in GROUPS
}
THRESHOLDS = (0.10, 0.20, 0.30, 0.40)


def run(console: Console) -> dict[str, Any]:
    """Print the tables and return their figures, with the goals as booleans."""
    workloads = [name for group in GROUPS.values() for name in group] + [MIXED]
    snapshots = {name: load_snapshots([name]) for name in workloads}
    profiles = {
        codec: {name: profile(found, codec=codec) for name, found in snapshots.items()}
        for codec in ("best-of", "bpc")
    }
    figures = {
        "modes": {codec: _modes(console, codec, of) for codec, of in profiles.items()},
        "sweep": _sweep(console, profiles["best-of"]),
        "over_time": _over_time(console, profiles["best-of"]),
        "best_of": _best_of(console, snapshots),
    }
    ratios = [
        [mode["ratio"] for mode in modes.values()]
        for by_name in figures["modes"].values()
        for modes in by_name.values()
    ]
    sweeps = [[mode["ratio"] for mode in by.values()] for by in figures["sweep"].values()]
    goals = {
        "modes_in_order": all(row == sorted(row) for row in ratios),
        "ratio_grows_with_threshold": all(row == sorted(row) for row in sweeps),
        "best_of_never_behind": all(f["entries_behind"] == 0 for f in figures["best_of"].values()),
        "best_of_ahead_on_mixed": figures["best_of"][MIXED]["over_better_of_two"] > 1,
    }
    console.print(", ".join(f"{name}: {met}" for name, met in goals.items()))
    return {**figures, "goals": goals, "goals_met": all(goals.values())}


def _modes(console: Console, codec: str, profiles: dict[str, Profile]) -> dict[str, Any]:
    table = _table(f"ratio and buddy accesses ({codec}, threshold 30 %)", "", *PAPER["DL"])
    figures: dict[str, Any] = {}
    for group, names in {**GROUPS, "all": (MIXED,)}.items():
        for name in names:
            modes = profiles[name].modes()
            figures[name] = {
                key: {"ratio": mode.ratio, "buddy_access_fraction": mode.buddy_access_fraction}
                for key, mode in modes.items()
            }
            cells = [_cell(m.ratio, 100 * m.buddy_access_fraction) for m in modes.values()]
            table.add_row(name, *cells)
        if group in PAPER:
            of_group = [figures[name] for name in names]
            table.add_row(
                f"{group}: ours",
                *(
                    _cell(
                        geometric_mean(modes[mode]["ratio"] for modes in of_group),
                        100 * fmean(modes[mode]["buddy_access_fraction"] for modes in of_group),
                    )
                    for mode in PAPER[group]
                ),
            )
            table.add_row(
                f"{group}: the paper's", *(_cell(*cell) for cell in PAPER[group].values())
            )
            table.add_section()
    console.print(table)
    return figures


def _sweep(console: Console, profiles: dict[str, Profile]) -> dict[str, Any]:
    table = _table("Buddy Threshold (Fig 9)", "", *(f"{t:.0%}" for t in THRESHOLDS))
    figures = {}
    for name, made in profiles.items():
        swept = made.sweep(THRESHOLDS)
        figures[name] = {
            f"{threshold:g}": {"ratio": m.ratio, "buddy_access_fraction": m.buddy_access_fraction}
            for threshold, m in swept.items()
        }
        cells = [_cell(m.ratio, 100 * m.buddy_access_fraction) for m in swept.values()]
        table.add_row(name, *cells)
    console.print(table)
    return figures


def _over_time(console: Console, profiles: dict[str, Profile]) -> dict[str, Any]:
    figures = {name: made.over_time() for name, made in profiles.items() if name != MIXED}
    console.print("Buddy accesses over time, constant targets (Fig 8), %:")
    for name, fractions in figures.items():
        shown = "  ".join(f"{100 * fraction:.1f}" for fraction in fractions.values())
        console.print(f"  {name:20} {shown}", highlight=False)
    return figures


def _best_of(console: Console, snapshots: dict[str, tuple[Allocation, ...]]) -> dict[str, Any]:
    """Bytes of all entries in their size classes, with each codec alone and with the better."""
    table = _table(
        "eight sizes, by codec",
        *("", "BPC", "ZVC", "best-of", "over the better", "entries that ZVC wins", "bytes saved"),
    )
    figures: dict[str, Any] = {}
    for name, allocations in snapshots.items():
        entries = behind = wins = 0
        taken = np.zeros(3, np.int64)
        for allocation in allocations:
            for array in allocation.arrays:
                bpc, zvc, best = _classes(array)
                entries += best.size
                behind += int(np.count_nonzero(best > np.minimum(bpc, zvc)))
                wins += int(np.count_nonzero(zvc < bpc))
                taken += [np.array(SIZES)[classes].sum() for classes in (bpc, zvc, best)]
        ratios = 128 * entries / taken
        gain = taken[:2].min() / taken[2]
        figures[name] = {
            "ratio": dict(zip(("bpc", "zvc", "best_of"), ratios.tolist(), strict=True)),
            "over_better_of_two": float(gain),
            "entries_behind": int(behind),
            "zvc_wins_fraction": wins / entries,
        }
        saved = f"{int(taken[:2].min() - taken[2]):,}"
        table.add_row(
            name, *(f"{r:.3f}x" for r in ratios), f"{gain:.4f}x", f"{wins / entries:.1%}", saved
        )
    console.print(table)
    return figures


def _classes(array: np.ndarray) -> tuple[ByteArray, ByteArray, ByteArray]:
    element_bytes = element_bytes_of(array.dtype)
    bpc = EntryCodec("bpc", element_bytes).metadata(array)
    best = EntryCodec("best-of", element_bytes).metadata(array) & np.uint8(ZVC_FLAG - 1)
    # An entry of zeros takes nothing, whichever the codec.
    zvc = np.where(bpc == 0, 0, classes_of(Zvc(element_bytes).line_sizes(array)))
    return bpc, zvc.astype(np.uint8), best


def _cell(ratio: float, percent: float | None) -> str:
    return f"{ratio:.2f}x" if percent is None else f"{ratio:.2f}x {percent:5.2f} %"


def _table(title: str, first: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(first, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


if __name__ == "__main__":
    run(Console())
