"""Numbers that registers and descriptors can hold."""

from numbers import Integral
from typing import TypeGuard

from cdma.sim.driver.errors import DriverError


def is_integer(value: object) -> TypeGuard[int]:
    """Return True for whole numbers of Python or numpy, but not for truth values."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def require_integer(name: str, value: object, least: int, most: int | None = None) -> int:
    """Return an integer as Python's, with which sums do not overflow as with numpy's.

    Raises
    ------
    DriverError
        It is none, or not from `least` to `most`, if there is a most.
    """
    if is_integer(value) and least <= value and (most is None or value <= most):
        return int(value)
    bounds = f"at least {least}" if most is None else f"{least} to {most}"
    kind = "" if is_integer(value) else "an integer, "
    raise DriverError(f"{name} must be {kind}{bounds}, not {value!r}")
