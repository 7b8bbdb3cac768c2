"""Choosing target ratios (Buddy Compression, §3.4): what fits the threshold and the carve-out.

Allocations are numbered; `entries` are their sizes in entries of 128 B, whole pages, and
`overflow[i, t]` is the fraction of allocation i's entries that spill with target t.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdma.golden.buddy.address_map import BUDDY_SLOT_BYTES, DEVICE_SLOT_BYTES, Target
from cdma.golden.formats.interface import IntArray

Fractions = npt.NDArray[np.float64]

PLAIN = (Target.X1, Target.X1_33, Target.X2, Target.X4)
"""The targets of whole sectors; 16x is the special case for what is mostly zero."""


@dataclass(frozen=True)
class TargetChoice:
    """Targets, first by allocation and then with 16x for what is mostly zero."""

    per_allocation: tuple[Target, ...]
    with_zero_page: tuple[Target, ...]


def device_bytes(entries: IntArray, targets: Sequence[Target]) -> int:
    """Bytes of device memory that allocations occupy, without metadata."""
    return int((entries * np.array(DEVICE_SLOT_BYTES)[list(targets)]).sum())


def buddy_bytes(entries: IntArray, targets: Sequence[Target]) -> int:
    """Bytes of buddy memory that allocations reserve."""
    return int((entries * np.array(BUDDY_SLOT_BYTES)[list(targets)]).sum())


def choose(
    entries: IntArray, overflow: Fractions, threshold: float, carve_out: float
) -> TargetChoice:
    """Choose each allocation's largest target whose overflow is within the Buddy Threshold.

    The buddy slots of all take at most `carve_out` times the device slots of all, so that the
    carve-out is never too small when these allocations fill device memory; hence the ratio of the
    whole is at most 1 + carve_out. Where that leaves room for some allocations only, those with
    the least overflow come first, and among them the largest. A higher threshold never gives a
    lower ratio, neither by allocation nor with 16x, and 16x never gives a lower one than without.
    """
    chosen, limited = _choose(entries, overflow, threshold, carve_out)
    if not limited:
        return chosen
    # What comes first may take the room of what would have been the better choice: a lower
    # threshold leaves it out.
    lower = np.unique(overflow[overflow <= threshold])
    choices = [chosen, *(_choose(entries, overflow, t, carve_out)[0] for t in lower[::-1])]
    return TargetChoice(
        min((c.per_allocation for c in choices), key=lambda c: device_bytes(entries, c)),
        min((c.with_zero_page for c in choices), key=lambda c: device_bytes(entries, c)),
    )


def choose_single(
    entries: IntArray, overflow: Fractions, threshold: float, carve_out: float, limit: float
) -> Target:
    """The largest one target for everything, 4x at most, with a ratio of `limit` at most.

    `overflow` is that of all entries together, (5,).
    """
    return max(
        target
        for target in PLAIN
        if target == Target.X1
        or (
            overflow[target] <= threshold
            and target.ratio <= limit
            and BUDDY_SLOT_BYTES[target] <= carve_out * DEVICE_SLOT_BYTES[target]
        )
    )


def _choose(
    entries: IntArray, overflow: Fractions, threshold: float, carve_out: float
) -> tuple[TargetChoice, bool]:
    """Targets, and whether the carve-out kept an allocation from a larger one."""
    targets = [Target.X1] * entries.size
    budget = _CarveOutBudget(entries, carve_out)
    limited = False
    for target in reversed(PLAIN):
        for i in _order(entries, overflow[:, target], threshold):
            if targets[i] == Target.X1:
                limited |= not budget.take(targets, i, target)
    per_allocation = tuple(targets)
    for i in _order(entries, overflow[:, Target.X16], threshold):
        limited |= not budget.take(targets, i, Target.X16)
    return TargetChoice(per_allocation, tuple(targets)), limited


def _order(entries: IntArray, overflow: Fractions, threshold: float) -> list[int]:
    """Allocations within the threshold, least overflow first, then the largest."""
    order = np.lexsort((-entries, overflow))
    return [int(i) for i in order if overflow[i] <= threshold]


class _CarveOutBudget:
    """Bytes of the carve-out that are free, while everything starts at 1x."""

    def __init__(self, entries: IntArray, carve_out: float) -> None:
        self._entries = entries
        self._carve_out = carve_out
        self._device = device_bytes(entries, [Target.X1] * entries.size)
        self._buddy = 0

    def take(self, targets: list[Target], i: int, target: Target) -> bool:
        """Give an allocation another target, if there is room for it."""
        entries = int(self._entries[i])
        device = self._device + entries * (
            DEVICE_SLOT_BYTES[target] - DEVICE_SLOT_BYTES[targets[i]]
        )
        buddy = self._buddy + entries * (BUDDY_SLOT_BYTES[target] - BUDDY_SLOT_BYTES[targets[i]])
        if buddy > self._carve_out * device:
            return False
        targets[i], self._device, self._buddy = target, device, buddy
        return True
