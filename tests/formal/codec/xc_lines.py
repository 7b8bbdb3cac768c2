"""XC's codes and lines as the format has them, for proofs of both directions.

Nothing here comes from the RTL or from the golden model: classes are listed, and fields stand one
behind the other, each padded to a byte.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from amaranth.hdl import Module, Mux, ShapeLike, Signal, Value
from amaranth.hdl._ast import AnyConst
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.xc.elements import ELEMENT_FORMATS, ElementFormat
from cdma.hw.codec.xc.payloads import own_config
from cdma.hw.config import CodecConfig
from tests.formal.bench import Bench, CutOut
from tests.formal.codec.lane_theorems import at

FORMATS = {form.name: form for form in ELEMENT_FORMATS}
SECTORS = (32, 64, 128)
"""Bytes of a sector, in all configurations that can be generated."""

LINE_BYTES = 128
MOST_BEHIND = 63

CLASSES = (
    ((0,), (-1,), (1, 2, 3, -2), (4, -3, 5, -4, 6, -5, 7, 8, 9, 10, 11, 12, 13, 14, 15)),
    ((0,), (1,), (-1, 2, 3, -2), (4, -3, 5, -4, 6, -5, 7, 8, 9, 10, 11, 12, 13, 14, 15)),
    ((0, -1), (1, -2), (2, 3, 4, -3), (5, -4, 6, -5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17)),
    (
        (0, -1, 1, -2),
        (2, 3, 4, -3),
        (5, -4, 6, -5, 7, 8, 9, 10),
        (11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25),
    ),
)
"""By pattern, the distances of each class in the order of their indices."""

EXTRAS = ((0, 0, 2, 4), (0, 0, 2, 4), (1, 1, 2, 4), (2, 2, 3, 4))
"""By pattern, the bits of each class's index."""

ESCAPE = (3, 15)
"""Class and index of all other distances."""

ZERO, DENSE, SPARSE, RAW = range(4)
"""Kinds of lines."""

SHAPES = {
    f"{name}-S{sector_bytes}": (name, sector_bytes) for sector_bytes in SECTORS for name in FORMATS
}
"""All shapes that can be generated: an element format and bytes of a sector."""


def shape_of(name: str) -> tuple[CodecConfig, ElementFormat]:
    """The configuration and the element format of a shape."""
    form, sector_bytes = SHAPES[name]
    return own_config(CodecConfig(sector_bytes=sector_bytes), FORMATS[form]), FORMATS[form]


def any_number(bench: Bench, shape: ShapeLike, name: str) -> Signal:
    """A number that the solver picks."""
    number = Signal(shape, name=name)
    bits = Value.cast(number)
    bench.m.d.comb += bits.eq(AnyConst(len(bits)))
    return number


def codes() -> Iterator[tuple[int, int, int, int]]:
    """Pattern, class, index and distance of all that is no escape."""
    for pattern, groups in enumerate(CLASSES):
        for group, distances in enumerate(groups):
            for index, distance in enumerate(distances):
                yield pattern, group, index, distance


@dataclass(frozen=True)
class TableCode:
    """A distance's code by the table."""

    number: Signal
    index: Signal
    width: Signal
    is_escape: Signal


def table_code(m: Module, distance: Value, pattern: Value, *, name: str) -> TableCode:
    """Look a distance, modulo 256, up in the table."""
    code = TableCode(
        Signal(2, name=f"{name}_number"),
        Signal(4, name=f"{name}_index"),
        Signal(3, name=f"{name}_width"),
        Signal(name=f"{name}_is_escape"),
    )
    m.d.comb += [
        code.number.eq(ESCAPE[0]),
        code.index.eq(ESCAPE[1]),
        code.is_escape.eq(1),
    ]
    for row, group, index, known in codes():
        with m.If((pattern == row) & (distance == known % 256)):
            m.d.comb += [code.number.eq(group), code.index.eq(index), code.is_escape.eq(0)]
    m.d.comb += code.width.eq(extra_bits(code.number, pattern))
    return code


def extra_bits(number: Value, pattern: Value) -> Value:
    """Bits of a class's index."""
    return at([at(row, number) for row in EXTRAS], pattern)


@dataclass(frozen=True)
class Fields:
    """An element's parts in its format."""

    mantissa: Value
    exponent: Value
    sign: Value

    @classmethod
    def of(cls, word: Value, form: ElementFormat) -> "Fields":
        return cls(word[: form.mantissa_bits], word[form.mantissa_bits : -1], word[-1])


@dataclass(frozen=True)
class Layout:
    """The places of a line's fields, in bytes of its payload, and what it takes.

    Attributes
    ----------
    classes_at, rest_at, extras_at : Signal
    rest_bits : Signal
        Of all rests.
    size : Signal
        With `behind` bytes of extras and escapes.
    """

    classes_at: Signal
    rest_at: Signal
    extras_at: Signal
    rest_bits: Signal
    size: Signal


def layout_of(
    m: Module,
    form: ElementFormat,
    kept: Value,
    dropped: Value | int,
    behind: Value,
    *,
    name: str,
) -> Layout:
    """Lay out a line of so many elements, whose fields stand one behind the other."""
    layout = Layout(
        *(
            Signal(16, name=f"{name}_{field}")
            for field in ("classes_at", "rest_at", "extras_at", "rest_bits", "size")
        )
    )
    m.d.comb += [
        layout.classes_at.eq(Mux(kept == form.line_elements, 0, form.line_elements // 8)),
        layout.rest_at.eq(layout.classes_at + padded(2 * kept)),
        layout.rest_bits.eq(kept * (form.mantissa_bits + 1) - kept * dropped),
        layout.extras_at.eq(layout.rest_at + padded(layout.rest_bits)),
        layout.size.eq(layout.extras_at + behind),
    ]
    return layout


def padded(bits: Value) -> Value:
    """Bytes that so many bits are padded to."""
    return (bits + 7) >> 3


class Straight(wiring.Component):
    """A pipeline register without its register: what comes in goes out in the same cycle.

    The registers are queues (`tests/formal/lib/test_buffers.py`), so that a stage gets the payloads
    of the one before it in their order, whenever they come.
    """

    def __init__(self, shape: ShapeLike) -> None:
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        wiring.connect(m, wiring.flipped(self.i), wiring.flipped(self.o))
        return m


def straighten(
    patch: pytest.MonkeyPatch, module: ModuleType, *, free: Sequence[type] = ()
) -> list[wiring.Component]:
    """Leave out the pipeline registers of a module, or let some payloads be anything behind them.

    Parameters
    ----------
    free
        Layouts of those payloads.

    Returns
    -------
    list
        What stands for the registers, in the order in which they are made.
    """
    made: list[wiring.Component] = []

    def stand_in(of: Callable[[ShapeLike], wiring.Component]) -> Callable[[Any], wiring.Component]:
        def make(shape: Any) -> wiring.Component:
            made.append(CutOut(of(shape)) if isinstance(shape, tuple(free)) else Straight(shape))
            return made[-1]

        return make

    for name in ("PipelineRegister", "SkidBuffer"):
        if hasattr(module, name):
            patch.setattr(module, name, stand_in(getattr(module, name)))
    if hasattr(module, "registered"):
        patch.setattr(module, "registered", lambda m, source, stages, *, name: source)
    return made
