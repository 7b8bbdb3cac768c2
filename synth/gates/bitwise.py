"""Liberty's functions on words: each bit of a word is a simulation of its own."""

from collections.abc import Callable, Mapping
from itertools import product

import numpy as np
import numpy.typing as npt

from cdma.synth.errors import SynthError
from cdma.synth.gates.function import evaluate, pins_of

Words = npt.NDArray[np.uint64]
"""Any shape; bit k of each word belongs to simulation k."""

LANES = 64
"""Bits of a word."""

NONE, ALL = np.uint64(0), np.uint64(2**LANES - 1)

Bitwise = Callable[[Mapping[str, Words]], Words]
"""From words by pin, all of one shape, to words of that shape, or one word if all are the same."""


def bitwise(function: str, pins: set[str]) -> Bitwise:
    """A function of pins, for words.

    Raises
    ------
    SynthError
        If it is no function of those pins.
    """
    names = sorted(pins_of(function))
    unknown = set(names) - pins
    if unknown:
        raise SynthError(
            f"the function {function!r} has {', '.join(sorted(unknown))}, which is no pin of its "
            "cell; give another library"
        )
    try:
        table = tuple(
            evaluate(function, dict(zip(names, values, strict=True)))
            for values in product((False, True), repeat=len(names))
        )
    except ValueError as error:
        raise SynthError(f"{error}; give another library") from error
    return _decide(table, tuple(names))


def _decide(table: tuple[bool, ...], names: tuple[str, ...]) -> Bitwise:
    """By its first pin, which splits the table into halves."""
    if not any(table):
        return lambda pins: NONE  # type: ignore[return-value]
    if all(table):
        return lambda pins: ALL  # type: ignore[return-value]
    name, rest = names[0], names[1:]
    low, high = table[: len(table) // 2], table[len(table) // 2 :]
    zero, one = _decide(low, rest), _decide(high, rest)
    if low == high:
        return zero
    if all(a != b for a, b in zip(low, high, strict=True)):
        return lambda pins: pins[name] ^ zero(pins)
    if not any(low):
        return lambda pins: pins[name] & one(pins)
    if not any(high):
        return lambda pins: ~pins[name] & zero(pins)
    if all(low):
        return lambda pins: ~pins[name] | one(pins)
    if all(high):
        return lambda pins: pins[name] | zero(pins)
    return lambda pins: (pins[name] & one(pins)) | (~pins[name] & zero(pins))
