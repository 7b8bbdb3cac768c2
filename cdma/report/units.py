"""Units of JSON values by the names of their keys: `offload_seconds` is a time, in ms or µs.

The house's rule that numbers carry their units in their names is what makes that possible. A column
has one unit, in which its largest value has one to three digits before the point.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

NOTHING = "–"
"""The text of a value that is not there."""


def is_number(value: Any) -> bool:
    """Whether a JSON value is a number; true and false are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@dataclass(frozen=True)
class Quantity:
    """The kind of values that a column has, and how they are written.

    Attributes
    ----------
    title : str
        The key in words, without its unit.
    unit : str
        Empty if there is none.
    scale : float
        The unit's number for one of the key's unit.
    form : str
        Of `format`, for numbers.
    """

    title: str
    unit: str = ""
    scale: float = 1.0
    form: str = ",.4g"

    def text(self, value: Any) -> str:
        """A JSON value in this unit."""
        if value is None:
            return NOTHING
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, (int, float)):
            if not math.isfinite(value):
                return str(value)
            return format(
                round(value * self.scale) if self.form == ",d" else value * self.scale, self.form
            )
        if isinstance(value, (list, tuple)):
            return ", ".join(map(self.text, value)) or NOTHING
        return str(value)


@dataclass(frozen=True)
class _Rule:
    """Keys of a pattern, the units that their values may be in, and the words that go with them."""

    pattern: str
    units: tuple[tuple[str, float], ...]
    form: str = ",.3f"
    drop: str = ""
    alone: str = ""


_BYTES = (("GB", 1e-9), ("MB", 1e-6), ("kB", 1e-3), ("B", 1.0))
_RATES = (("TB/s", 1e-12), ("GB/s", 1e-9), ("MB/s", 1e-6), ("B/s", 1.0))
_TIMES = (("s", 1.0), ("ms", 1e3), ("µs", 1e6), ("ns", 1e9))
_PARTS = (
    r"density|densities|gain|gains|utilization|fraction|share|threshold|busy|hit_rate|slowdown|over|"
    r"error|overflow|histogram|mean|efficiency"
)
_OF_CHILDREN = r"(^|_)(gains|overflow|histogram|efficiency)$|ratios|seconds|mm2|per_gate|cycles"
"""Keys whose unit is that of the values below them, whatever these are called."""

_RULES = (
    _Rule(r"bytes_per_cycle", (("B/cycle", 1.0),), ",.2f", r"_?bytes_per_cycle"),
    _Rule(r"bytes_per_s$|bytes_per_s_", _RATES, ",.2f", r"_?bytes_per_s", "bandwidth"),
    _Rule(r"gb_per_s", (("GB/s", 1.0),), ",.2f", r"_?gb_per_s", "bandwidth"),
    _Rule(r"(^|_)(seconds|s)($|_)", _TIMES, ",.3f", r"_?seconds|_s$", "time"),
    _Rule(r"_ns$", (("ns", 1.0),), ",.1f", r"_ns$"),
    _Rule(r"_ps$", (("ps", 1.0),), ",.1f", r"_ps$"),
    _Rule(r"_pj($|_)", (("pJ", 1.0),), ",.3f", r"_pj"),
    _Rule(r"_mhz$", (("MHz", 1.0),), ",.1f", r"_mhz$"),
    _Rule(r"hz$", (("GHz", 1e-9), ("MHz", 1e-6), ("Hz", 1.0)), ",.3f", r"_?hz$"),
    _Rule(r"_mm2($|_)", (("mm²", 1.0),), ",.4f", r"_mm2"),
    _Rule(r"_um2($|_)", (("µm²", 1.0),), ",.1f", r"_um2"),
    _Rule(r"(^|_)kge$", (("kGE", 1.0),), ",.2f", r"_?kge$", "area"),
    _Rule(r"(^|_)flops$", (("TFLOP/s", 1e-12), ("GFLOP/s", 1e-9)), ",.2f", r"_?flops$"),
    _Rule(r"(^|_)bytes($|_)", _BYTES, ",.2f", r"_?bytes", "size"),
    _Rule(r"(^|_)bits$", (("bits", 1.0),), ",d", r"_?bits$", "size"),
    _Rule(r"(^|_)cycles?($|_)", (("cycles", 1.0),), ",d", "", ""),
    _Rule(r"(^|_)(ratio|ratios|speedup)($|_)", (("×", 1.0),), ",.2f"),
    _Rule(rf"(^|_)({_PARTS})($|_)", (("%", 100.0),), ",.2f"),
)


def quantity(key: str, values: Iterable[Any]) -> Quantity:
    """Return the kind of the values under a key.

    Parameters
    ----------
    key : str
        A path with dots; the last part that says a unit counts.
    values : iterable
        JSON values.
    """
    numbers = [abs(value) for value in values if is_number(value) and math.isfinite(value)]
    title = _words(key)
    if not numbers:
        return Quantity(title)
    parts = key.split(".")
    for place in reversed(range(len(parts))):
        if place < len(parts) - 1 and not re.search(_OF_CHILDREN, parts[place]):
            continue
        for rule in _RULES:
            if re.search(rule.pattern, parts[place]):
                kept = re.sub(rule.drop, "", parts[place]) if rule.drop else parts[place]
                parts[place] = kept or rule.alone or parts[place]
                whole = all(isinstance(number, int) for number in numbers)
                return _by(rule, ".".join(parts), numbers, whole=whole)
    if all(isinstance(number, int) for number in numbers):
        return Quantity(title, form=",d")
    return Quantity(title)


def _by(rule: _Rule, title: str, numbers: list[float], *, whole: bool) -> Quantity:
    unit, scale = _unit(rule.units, max(numbers))
    form = ",d" if whole and scale == 1.0 else rule.form
    if rule.units is _BYTES and scale == 1.0 and not whole:
        form = ",.1f"
    return Quantity(_words(title), unit, scale, form)


def _unit(units: tuple[tuple[str, float], ...], largest: float) -> tuple[str, float]:
    """The first in which the largest value is 1 or more, or else the last."""
    for unit, scale in units:
        if largest * scale >= 1:
            return unit, scale
    return units[0] if largest == 0 else units[-1]


def _words(key: str) -> str:
    return ": ".join(part.replace("_", " ").strip() for part in key.split("."))
