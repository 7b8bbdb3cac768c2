"""Sources of densities: another training, a declaration, or a formula."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Protocol

import numpy as np

from cdma.plan.workload.capture.capture import Activation, Capture
from cdma.plan.workload.layers import GraphError, Tensor

SPARSE_KINDS = ("relu", "pool")
"""Kinds of layers that captures and curves have densities of."""


Shares = tuple[tuple[float, Activation], ...]
"""Arrays with the share that each has in a tensor; 1 together."""


class Source(Protocol):
    """A source of densities."""

    def density(
        self, tensor: Tensor, kind: str, inputs: float, depth: float, progress: float
    ) -> float | None:
        """The density of a layer's output.

        Parameters
        ----------
        tensor : Tensor
            The output.
        kind : str
            The layer's; `tensor` may have that of a layer in place behind it.
        inputs : float
            Density of the layer's sparsest input.
        depth : float
            0…1 from the first to the last layer of `SPARSE_KINDS`.
        progress : float
            0…1 from the first to the last epoch.

        Returns
        -------
        float or None
            None: the source does not say.
        """


@dataclass(frozen=True)
class Captured:
    """Densities measured in another training.

    A tensor with name, kind and shape of a captured array takes that array's density. All others
    take that of the captured layers of their kind, interpolated at their depth among all layers of
    `SPARSE_KINDS`. The training's progress is mapped on the captured epochs from first to last, and
    densities are interpolated between them. All is linear.
    """

    capture: Capture

    def density(
        self, tensor: Tensor, kind: str, inputs: float, depth: float, progress: float
    ) -> float | None:
        found = self.shares(tensor, kind, inputs, depth, progress)
        if not found:
            return None
        return min(1.0, sum(share * activation.density for share, activation in found))

    def shares(
        self, tensor: Tensor, kind: str, inputs: float, depth: float, progress: float
    ) -> Shares:
        """The captured arrays that a layer's output is between, and how near it is to each; none
        where the source does not say. Arguments are those of `density`.
        """
        if kind not in self._by_kind or _pools_dense(kind, inputs):
            return ()
        now = _between_points(progress, self._moments)
        arrays = self._by_tensor.get((tensor.name, kind, tensor.shape[1:]))
        if arrays is not None:
            return tuple((share, arrays[at]) for share, at in now)
        depths, rows = self._by_kind[kind]
        return tuple(
            (near * share, rows[row][at])
            for near, row in _between_points(depth, depths)
            for share, at in now
        )

    @cached_property
    def _epochs(self) -> list[int]:
        return sorted({activation.epoch for activation in self.capture.activations})

    @cached_property
    def _moments(self) -> list[float]:
        """The captured epochs on a scale of 0…1."""
        return scale(self._epochs)

    @cached_property
    def _series(self) -> list[list[Activation]]:
        """Each layer's arrays at all epochs, in the network's order."""
        activations = [a for a in self.capture.activations if a.kind in SPARSE_KINDS]
        order = list(dict.fromkeys(a.layer for a in activations))
        activations.sort(key=lambda a: (order.index(a.layer), a.epoch))
        series = []
        for layer, group in groupby(activations, key=lambda a: a.layer):
            arrays = list(group)
            if [a.epoch for a in arrays] != self._epochs:
                raise GraphError(
                    f"capture {self.capture.name} lacks layer {layer} at some epochs; capture again"
                )
            series.append(arrays)
        if not series:
            raise GraphError(
                f"capture {self.capture.name} has no arrays of {' or '.join(SPARSE_KINDS)}; name "
                "another one"
            )
        return series

    @cached_property
    def _by_tensor(self) -> dict[tuple[str, str, tuple[int, ...]], list[Activation]]:
        return {(row[0].layer, row[0].kind, row[0].array.shape[1:]): row for row in self._series}

    @cached_property
    def _by_kind(self) -> dict[str, tuple[list[float], list[list[Activation]]]]:
        """Depths and arrays of the layers of each kind."""
        found: dict[str, tuple[list[float], list[list[Activation]]]] = {}
        for depth, row in zip(scale(range(len(self._series))), self._series, strict=True):
            depths, rows = found.setdefault(row[0].kind, ([], []))
            depths.append(depth)
            rows.append(row)
        return found


@dataclass(frozen=True)
class Declared:
    """Densities by name of tensor or kind of layer; a name goes before a kind.

    Raises
    ------
    GraphError
        A density is not in 0…1; the message has its name.
    """

    densities: Mapping[str, float]

    def __post_init__(self) -> None:
        for name, density in self.densities.items():
            if isinstance(density, bool) or not isinstance(density, (int, float)):
                raise GraphError(f"density of {name} must be a number, not {density!r}")
            if not 0 <= density <= 1:
                raise GraphError(f"density of {name} must be 0 to 1, not {density}")

    def density(
        self, tensor: Tensor, kind: str, inputs: float, depth: float, progress: float
    ) -> float | None:
        value = self.densities.get(tensor.name, self.densities.get(kind))
        return None if value is None else float(value)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """The course that cDMA describes (§IV), as a formula.

    The first layer stays at `first`. The last one begins at `start`, falls to `low` when the share
    `turn` of the training has passed, and rises to `end`; layers between are between. Pooling gives
    1 - (1 - d)^`window`, as if a window had so many independent elements of density d. The defaults
    are assumptions: of numbers, the paper's text has only 50 % and "the first 40 %".
    """

    first: float = 0.5
    start: float = 0.5
    low: float = 0.1
    end: float = 0.3
    turn: float = 0.4
    window: float = 2.0

    def __post_init__(self) -> None:
        for name in ("first", "start", "low", "end", "turn"):
            if not 0 <= getattr(self, name) <= 1:
                raise GraphError(f"curve: {name} must be 0 to 1, not {getattr(self, name)}")
        if not 1 <= self.window < float("inf"):
            raise GraphError(f"curve: window must be at least 1, not {self.window}")

    def density(
        self, tensor: Tensor, kind: str, inputs: float, depth: float, progress: float
    ) -> float | None:
        if kind not in SPARSE_KINDS or _pools_dense(kind, inputs):
            return None
        if progress < self.turn:
            last = _between(self.start, self.low, progress / self.turn)
        elif self.turn < 1:
            last = _between(self.low, self.end, (progress - self.turn) / (1 - self.turn))
        else:
            last = self.low
        density = _between(self.first, last, depth)
        return 1 - (1 - density) ** self.window if kind == "pool" else density


def scale(values: Sequence[int]) -> list[float]:
    """Ascending numbers on a scale of 0…1."""
    if len(values) < 2:
        return [0.0] * len(values)
    return [(value - values[0]) / (values[-1] - values[0]) for value in values]


def _between_points(value: float, points: Sequence[float]) -> list[tuple[float, int]]:
    """The points next to a value, by their numbers, and the share that each has in it: linear, and
    constant beyond the ends.
    """
    place = float(np.interp(value, points, range(len(points))))
    lower = int(place)
    if place == lower:
        return [(1.0, lower)]
    return [(lower + 1 - place, lower), (place - lower, lower + 1)]


def _pools_dense(kind: str, inputs: float) -> bool:
    """Return True for a pooling of values without zeros, as behind a leaky ReLU."""
    return kind == "pool" and inputs == 1


def _between(a: float, b: float, share: float) -> float:
    """Exactly a and b at the ends, and never beyond, whatever the rounding."""
    return min((1 - share) * a + share * b, max(a, b))
