"""The report of `cdma buddy profile`: a JSON object and tables."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

from cdma.golden.buddy.address_map import Target
from cdma.golden.buddy.entry import BEST_OF_THREE, SIZES
from cdma.sim.buddy import AllocationProfile, Profile, TargetResult
from cdma.terminal.console import plain_table, terminal

SWEEP = (0.10, 0.15, 0.20, 0.25, 0.30, 0.35, 0.40)
"""The paper's range of thresholds (Fig 9)."""

_TIMES_SHOWN = 40
_WIDE_CHARACTERS = 100
"""A console this wide gets the histograms too."""


def as_dict(profile: Profile, options: Mapping[str, Any], *, sweep: bool) -> dict[str, Any]:
    """The JSON form of a profile; docs/guide/buddy/buddy-profile.md describes the keys."""
    report: dict[str, Any] = {
        **options,
        "threshold": profile.threshold,
        "carve_out": profile.carve_out,
        "zero_page": profile.zero_page,
        "page_bytes": profile.page_bytes,
        "reserved_bytes": profile.reserved_bytes,
        "device_bytes": profile.device_bytes,
        "buddy_bytes": profile.buddy_bytes,
        "metadata_bytes": profile.metadata_bytes,
        "ratio": profile.ratio,
        "buddy_access_fraction": profile.buddy_access_fraction,
        "eight_sizes_ratio": profile.eight_sizes_ratio,
        "modes": {name: _mode(mode) for name, mode in profile.modes().items()},
        "allocations": [
            {
                "name": allocation.name,
                "bytes": allocation.nbytes,
                "snapshots": len(allocation.times),
                "target": annotation.target.ratio,
                "histogram": {
                    str(size): float(share)
                    for size, share in zip(SIZES, allocation.histogram, strict=True)
                },
                "overflow": {
                    _ratio(target): float(allocation.overflow[target]) for target in Target
                },
                **(_of_three(allocation) if options["codec"] == BEST_OF_THREE else {}),
            }
            for allocation, annotation in zip(
                profile.allocations, profile.annotations(), strict=True
            )
        ],
        "over_time": [
            {"time": label, "buddy_access_fraction": fraction}
            for label, fraction in profile.over_time().items()
        ],
    }
    if sweep:
        report["sweep"] = [
            {"threshold": threshold, **_mode(mode)}
            for threshold, mode in profile.sweep(SWEEP).items()
        ]
    return report


def print_report(profile: Profile, codec: str, *, sweep: bool) -> None:
    """Tables of allocations, of modes, over time and, if wanted, by threshold."""
    console = terminal()
    console.print(_allocations(profile, codec, wide=console.width >= _WIDE_CHARACTERS))
    console.print(_modes(profile))
    if sweep:
        console.print(_sweep(profile))
    over_time = list(profile.over_time().items())
    if 1 < len(over_time) <= _TIMES_SHOWN:
        times = ", ".join(f"{label}: {_percent(fraction)}" for label, fraction in over_time)
        console.print(f"Buddy accesses with these targets, over time: {times}.\n", highlight=False)
    console.print(
        f"{profile.reserved_bytes:,} bytes in pages of {profile.page_bytes:,} take "
        f"{profile.device_bytes:,} of device memory, and {profile.metadata_bytes:,} of metadata, "
        f"and reserve {profile.buddy_bytes:,} of buddy memory: {profile.ratio:.2f}x, with "
        f"{_percent(profile.buddy_access_fraction)} of accesses to buddy memory.",
        highlight=False,
    )


def _allocations(profile: Profile, codec: str, *, wide: bool) -> Table:
    table = plain_table(f"entries by size ({codec}), targets with {profile.threshold:.0%} overflow")
    table.add_column("allocation", no_wrap=True)
    sizes = [f"{size} B" for size in SIZES] if wide else []
    third = ["≤ 96 B", "without XC"] if codec == BEST_OF_THREE else []
    for heading in ("bytes", *sizes, *third, "target", "spill"):
        table.add_column(heading, justify="right", no_wrap=True)
    for allocation, annotation in zip(profile.allocations, profile.annotations(), strict=True):
        shares = [f"{share:.0%}" if share else "–" for share in allocation.histogram]
        table.add_row(
            allocation.name,
            f"{allocation.nbytes:,}",
            *(shares if wide else []),
            *(map(_percent, _of_three(allocation).values()) if third else []),
            f"{_ratio(annotation.target)}x",
            _percent(float(allocation.overflow[annotation.target])),
        )
    return table


def _of_three(allocation: AllocationProfile) -> dict[str, float]:
    """How many entries take no more than 96 B, with the third code and without."""
    return {
        "within_96": allocation.within_96,
        "within_96_without_xc": allocation.within_96_by_two,
    }


def _modes(profile: Profile) -> Table:
    table = plain_table()
    table.add_column("targets", no_wrap=True)
    table.add_column("ratio", justify="right")
    table.add_column("buddy accesses", justify="right")
    for name, mode in profile.modes().items():
        table.add_row(name, f"{mode.ratio:.2f}x", _percent(mode.buddy_access_fraction))
    table.add_section()
    table.add_row("eight sizes, unpacked", f"{profile.eight_sizes_ratio:.2f}x", "–")
    return table


def _sweep(profile: Profile) -> Table:
    table = plain_table()
    for heading in ("threshold", "ratio", "buddy accesses"):
        table.add_column(heading, justify="right")
    for threshold, mode in profile.sweep(SWEEP).items():
        table.add_row(
            f"{threshold:.0%}", f"{mode.ratio:.2f}x", _percent(mode.buddy_access_fraction)
        )
    return table


def _mode(mode: TargetResult) -> dict[str, float]:
    return {"ratio": mode.ratio, "buddy_access_fraction": mode.buddy_access_fraction}


def _ratio(target: Target) -> str:
    return f"{target.ratio:.3g}"


def _percent(fraction: float) -> str:
    return f"{fraction:.2%}".replace("%", " %")
