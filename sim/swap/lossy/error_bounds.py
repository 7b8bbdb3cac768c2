"""The error bound of each tensor that may come back changed."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from cdma.golden import CodecError
from cdma.golden.formats.lossy.power_of_two import k_of, rounded_down
from cdma.sim.swap.swap_plan import Saved, SwapPlanError

BoundOf = Callable[[Saved], float | None]
"""The largest error that a saved tensor's values may have; None for a tensor that goes exact."""

Bounds = float | Mapping[str, float] | BoundOf
"""One bound for all tensors, or bounds by name, or a function."""


class ErrorBounds:
    """The bounds of saved tensors, each one a power of two as the engine needs it.

    A mapping's keys are a value's whole name (`cdma.plan.workload.value_names`), a module's path,
    or a path and an operator, as `blocks.0.drop:div_`. A path stands for the module and all in it,
    the root's is empty; of several keys the most specific one counts. What no key names goes exact.

    Parameters
    ----------
    bounds : number, mapping of str to number, or callable
    module : torch.nn.Module or None
        Whose values they are; None if names are not known.
    power_of_two : bool
        Round bounds down to powers of two. Otherwise they must be powers of two.

    Raises
    ------
    SwapPlanError
        A mapping has keys that no module has, or there is no module for it; or a bound is no
        number, or no power of two and not to be rounded. The same of a callable's bounds, by `of`.
    """

    def __init__(self, bounds: Bounds, module: Any, *, power_of_two: bool) -> None:
        self._power_of_two = power_of_two
        self._met: set[str] = set()
        self._by_key: dict[str, float] | None = None
        self._one: float | None = None
        self._function: BoundOf | None = None
        if isinstance(bounds, Mapping):
            _check_keys(bounds, module)
            self._by_key = {
                key: self._checked(bound, f"the bound of {key!r}") for key, bound in bounds.items()
            }
        elif callable(bounds):
            self._function = bounds
        else:
            self._one = self._checked(bounds, "the bound")

    def of(self, saved: Saved) -> float | None:
        """The bound of a saved tensor; None if it has none."""
        if self._function is not None:
            bound = self._function(saved)
            if bound is None:
                return None
            return self._checked(bound, f"the bound of {saved.label}")
        if self._by_key is None:
            return self._one
        for key in _keys_of(saved.name or ""):
            if key in self._by_key:
                self._met.add(key)
                return self._by_key[key]
        return None

    @property
    def unmet(self) -> tuple[str, ...]:
        """A mapping's keys that were no tensor's until now."""
        return tuple(key for key in self._by_key or () if key not in self._met)

    def _checked(self, bound: object, what: str) -> float:
        if isinstance(bound, bool) or not isinstance(bound, int | float | np.number):
            raise SwapPlanError(
                f"{what} must be a number, not {bound!r}; give the largest error of a value"
            )
        try:
            found = rounded_down(float(bound)) if self._power_of_two else float(bound)
            k_of(found)
        except CodecError as error:
            raise SwapPlanError(f"{what}: {error}; or let power_of_two=True round it") from error
        return found


def _keys_of(name: str) -> Iterator[str]:
    """The keys that stand for a value, the most specific one first."""
    path, _, rest = name.partition("#")
    operator = rest.partition(":")[2].partition("@")[0]
    yield name
    while True:
        yield f"{path}:{operator}"
        yield path
        if not path:
            return
        path = path.rpartition(".")[0]


def _check_keys(bounds: Mapping[str, float], module: Any) -> None:
    if module is None:
        raise SwapPlanError(
            "bounds by name need the names; give module=, or one bound for all tensors"
        )
    paths = [path for path, _ in module.named_modules()]
    for key in bounds:
        path = key.partition("#")[0].partition(":")[0]
        if path not in paths:
            raise SwapPlanError(
                f"bounds have the key {key!r}, but the module has no {path!r}; choose from "
                f"{', '.join(repr(one) for one in paths)}"
            )
