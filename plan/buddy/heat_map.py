"""A picture of where memory is compressible (Buddy Compression, Fig 6)."""

from typing import Any

import numpy as np
import numpy.typing as npt

from cdma.builds.extras import extra
from cdma.builds.pictures import encoded, literal, new_figure
from cdma.golden.buddy.address_map import MIN_PAGE_BYTES
from cdma.golden.buddy.entry import ENTRY_BYTES, SIZES
from cdma.plan.buddy.profile import AllocationProfile, Profile

PAGE_ENTRIES = MIN_PAGE_BYTES // ENTRY_BYTES
"""Entries side by side: those of 8 KiB, whatever the profile's pages are."""

_NAMES = 60
"""As many names as fit below one another; allocations of fewer rows than one takes have none."""

Floats = npt.NDArray[np.float64]


def entry_sizes(profile: Profile) -> Floats:
    """Bytes that entries take, averaged over the snapshots, float64 (pages of 8 KiB, 64).

    Allocations are below one another, each from a page of its own on; NaN where there is none.
    """
    return np.concatenate([_rows(allocation) for allocation in profile.allocations])


def heat_map_picture(profile: Profile, file_format: str = "png") -> bytes:
    """The heat map as a file of one of `cdma.builds.pictures.FORMATS`: blue where memory compresses
    well, red where it does not."""
    with extra("plan"):
        from matplotlib.lines import Line2D

    sizes = entry_sizes(profile)
    figure = new_figure(7, 9)
    axes: Any = figure.add_subplot()
    image = axes.imshow(
        np.ma.masked_invalid(sizes),
        cmap="coolwarm",
        vmin=0,
        vmax=ENTRY_BYTES,
        aspect="auto",
        interpolation="nearest",
        extent=(0, PAGE_ENTRIES, len(sizes), 0),
    )
    bar = figure.colorbar(image, ax=axes, ticks=SIZES)
    bar.set_label("bytes per entry of 128 B, averaged over the snapshots")
    axes.set_xlabel("entry in its page of 8 KiB")
    rows = np.array([len(_rows(allocation)) for allocation in profile.allocations])
    ends = np.cumsum(rows)
    for end in ends[:-1]:
        axes.axhline(end, color="black", linewidth=0.5)
    named = [i for i, count in enumerate(rows) if count * _NAMES >= len(sizes)]
    names = [literal(profile.allocations[i].name) for i in named]
    axes.set_yticks((ends - rows / 2)[named], names, fontsize="small")
    axes.set_ylabel("pages, by allocation")
    line = Line2D([], [], color="black", linewidth=0.5, label="between allocations")
    figure.legend(handles=[line], loc="outside lower center", fontsize="small", frameon=False)
    return encoded(figure, file_format)


def _rows(allocation: AllocationProfile) -> Floats:
    sizes = np.array(SIZES)[allocation.classes].mean(axis=0)
    rows = np.full(-(-sizes.size // PAGE_ENTRIES) * PAGE_ENTRIES, np.nan)
    rows[: sizes.size] = sizes
    return rows.reshape(-1, PAGE_ENTRIES)
