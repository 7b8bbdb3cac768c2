"""Measures what a line will take, and so the places of its fields."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.xc.elements import ElementFormat
from cdma.hw.codec.xc.classes import is_escape, width_of
from cdma.hw.codec.xc.payloads import (
    BF16,
    MOST_BEHIND,
    CodedSector,
    LinePlan,
    LineShape,
    bytes_of,
    is_beyond,
    trimming,
)
from cdma.hw.config import CodecConfig
from cdma.hw.lib.count import count_ones, total
from cdma.hw.lib.pipeline import PipelineRegister

ZERO_LINE, DENSE_LINE, SPARSE_LINE, RAW_LINE = range(4)
"""The kinds of lines, in bits 7…6 of the header."""

TRIMMING_STAGES = 2
"""Before a plan where mantissas are trimmed: their common zeros are counted, then multiplied."""


class LineTotals(data.StructLayout):
    """Counts of a line: elements, bits of extras, escapes; and the mantissas' bits, by or.

    The latter has no bits unless the element format trims.
    """

    def __init__(self, config: CodecConfig, elements: ElementFormat = BF16) -> None:
        shape = LineShape.of(config, elements)
        super().__init__(
            {
                "kept": range(shape.elements + 1),
                "bits": range(shape.bits + 1),
                "escapes": range(shape.elements + 1),
                "together": elements.mantissa_bits if elements.trims else 0,
                "last": 1,
                "empty": 1,
            }
        )


class TrimmedTotals(data.StructLayout):
    """A line's totals, and bits and bytes of its rests.

    Members
    -------
    totals
    dropped, rest_width
        As in `LinePlan`, of a line that is not raw.
    rest_bytes
        Bytes of all rests.
    """

    def __init__(self, config: CodecConfig, elements: ElementFormat) -> None:
        super().__init__(
            {
                "totals": LineTotals(config, elements),
                **trimming(elements),
                "rest_bytes": range(config.line_bytes),
            }
        )


def fields_of(
    m: Module,
    config: CodecConfig,
    totals: data.View,
    elements: ElementFormat = BF16,
    *,
    rest_bytes: Value | None = None,
    code_bits: int | None = None,
    name: str,
) -> tuple[data.View, Signal]:
    """Lay out a line from what was counted of it.

    Parameters
    ----------
    m, config, totals, elements
    rest_bytes : Value, optional
        Where rests have not all of their bits.
    code_bits : int, optional
        As in `LineMeter`.
    name
        Of the signals.

    Returns
    -------
    View of `LinePlan`
        Without `last` and `empty`.
    Signal
        Bytes of extras and escapes; meaningful whether or not the line fits.
    """
    shape = LineShape.of(config, elements)
    rest_bits, escape_bits = shape.rest.width, shape.escapes.width
    plan = Signal(LinePlan(config, elements), name=f"{name}_plan")
    extra_bytes = Signal(range(shape.bits // 8 + 2), name=f"{name}_extra_bytes")
    most_escape_bytes = -(-shape.elements * escape_bits // 8)
    behind = Signal(range(shape.bits // 8 + most_escape_bytes + 2), name=f"{name}_behind")
    rest_at = Signal.like(plan.rest_at, name=f"{name}_rest_at")
    extras_at = Signal.like(plan.rest_at, name=f"{name}_extras_at")
    size = Signal(range(4 * config.line_bytes), name=f"{name}_size")
    longest = config.line_bytes - elements.header_bytes
    if rest_bytes is None:
        rest_bytes = bytes_of(totals.kept, rest_bits)
    zero, full, raw, sparse = (
        Signal(name=f"{name}_{kind}") for kind in ("zero", "full", "raw", "sparse")
    )
    m.d.comb += [
        zero.eq(totals.kept == 0),
        full.eq(totals.kept == shape.elements),
        extra_bytes.eq((totals.bits + 7) >> 3),
        behind.eq(extra_bytes + bytes_of(totals.escapes, escape_bits)),
        rest_at.eq(((totals.kept + 3) >> 2) + Mux(full, 0, shape.mask_bytes)),
        extras_at.eq(rest_at + rest_bytes),
        size.eq(extras_at + behind),
        raw.eq(
            ~zero & ((behind > MOST_BEHIND) | (size > longest))
            if code_bits is None
            else zero | is_beyond(size, totals.bits, totals.escapes != 0, code_bits)
        ),
        sparse.eq(~raw & ~zero & ~full),
        plan.raw.eq(raw),
        plan.sparse.eq(sparse),
        plan.rest_at.eq(rest_at),
        plan.extras_at.eq(extras_at),
        plan.escapes_at.eq(extras_at + extra_bytes),
        plan.size.eq(Mux(zero, 0, Mux(raw, config.line_bytes, size))),
        plan.header.eq(
            Mux(
                zero,
                ZERO_LINE << 6,
                Mux(raw, RAW_LINE << 6, Cat(behind[:6], Mux(sparse, SPARSE_LINE, DENSE_LINE))),
            )
        ),
    ]
    return plan, behind


class LineMeter(wiring.Component):
    """Counts lines, and lays them out.

        coded sectors -> elements, widths, escapes -> + line's -> LineTotals -> LinePlan
                                                      ^_______|

    Latency: `latency` = 2 cycles from a line's last sector to its plan; 4 where mantissas are
    trimmed, whose common zeros are counted, and multiplied, before. Throughput: a sector per cycle.

    Resources: adder trees of as many inputs as there are lanes; about 100 registers.

    Parameters
    ----------
    config : CodecConfig
    elements : ElementFormat
    code_bits : int, optional
        For lines without a header, such as Buddy's entries: the room for a line's fields. Lines
        with more, and those without elements, are raw; nothing else is.

    Attributes
    ----------
    latency : int

    Members
    -------
    i : `In(stream.Signature(CodedSector(config, elements)))`
    o : `Out(stream.Signature(LinePlan(config, elements)))`
        For each line.
    """

    def __init__(
        self,
        config: CodecConfig,
        elements: ElementFormat = BF16,
        *,
        code_bits: int | None = None,
    ) -> None:
        self.config = config
        self.elements = elements
        self.code_bits = code_bits
        self.latency = 2 + TRIMMING_STAGES * elements.trims
        super().__init__(
            {
                "i": In(stream.Signature(CodedSector(config, elements))),
                "o": Out(stream.Signature(LinePlan(config, elements))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config, elements = self.config, self.elements
        m.submodules.totals = totals = PipelineRegister(LineTotals(config, elements))
        m.submodules.plans = plans = PipelineRegister(LinePlan(config, elements))
        wiring.connect(m, plans.o, wiring.flipped(self.o))
        sector = self.i.payload
        lanes = range(LineShape.of(config, elements).lanes)

        # The line up to this sector.
        before = Signal(LineTotals(config, elements))
        counted = totals.i.payload
        widths = []
        for i in lanes:
            width = width_of(m, sector.codes[i].number, sector.pattern, name=f"width_{i}")
            present_width = Signal.like(width, name=f"present_width_{i}")
            m.d.comb += present_width.eq(Mux(sector.present[i], width, 0))
            widths.append(present_width)
        m.d.comb += [
            self.i.ready.eq(~sector.ends | totals.i.ready),
            totals.i.valid.eq(self.i.valid & sector.ends),
            counted.kept.eq(before.kept + count_ones(sector.present)),
            counted.bits.eq(before.bits + total(widths)),
            counted.escapes.eq(before.escapes + total([is_escape(sector.codes[i]) for i in lanes])),
            counted.together.eq(
                reduce(or_, [sector.elements[i] for i in lanes], before.together)
                if elements.trims
                else 0
            ),
            counted.last.eq(sector.last),
            counted.empty.eq(sector.empty),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += before.eq(Mux(sector.ends, 0, counted.as_value()))

        source = self._trimmed(m, totals.o) if elements.trims else totals.o
        measured = source.payload.totals if elements.trims else source.payload
        plan, _ = fields_of(
            m,
            config,
            measured,
            elements,
            rest_bytes=source.payload.rest_bytes if elements.trims else None,
            code_bits=self.code_bits,
            name="line",
        )
        m.d.comb += [
            plans.i.valid.eq(source.valid),
            source.ready.eq(plans.i.ready),
            plans.i.payload.eq(plan),
            plans.i.payload.last.eq(measured.last),
            plans.i.payload.empty.eq(measured.empty),
        ]
        if elements.trims:
            left_out = ~plan.raw & (measured.kept != 0)
            m.d.comb += [
                plans.i.payload.dropped.eq(Mux(left_out, source.payload.dropped, 0)),
                plans.i.payload.rest_width.eq(
                    Mux(plan.raw, elements.mantissa_bits + 1, source.payload.rest_width)
                ),
                plans.i.payload.header.eq(Cat(plan.header[:8], plans.i.payload.dropped)),
            ]
        return m

    def _trimmed(self, m: Module, totals: Any) -> Any:
        """Two stages more: which bits all mantissas lack at their end, and what rests then take."""
        elements = self.elements
        layout = TrimmedTotals(self.config, elements)
        m.submodules.trimmed = trimmed = PipelineRegister(layout)
        m.submodules.multiplied = multiplied = PipelineRegister(layout)
        together, out = totals.payload.together, trimmed.i.payload
        most = elements.mantissa_bits
        dropped = Signal(range(most + 1))
        m.d.comb += dropped.eq(most)
        with m.Switch(together):
            for k in range(most):
                with m.Case("-" * (most - k - 1) + "1" + "0" * k):
                    m.d.comb += dropped.eq(k)
        m.d.comb += [
            trimmed.i.valid.eq(totals.valid),
            totals.ready.eq(trimmed.i.ready),
            out.totals.eq(totals.payload),
            out.dropped.eq(dropped),
            out.rest_width.eq(most + 1 - dropped),
            multiplied.i.valid.eq(trimmed.o.valid),
            trimmed.o.ready.eq(multiplied.i.ready),
            multiplied.i.payload.eq(trimmed.o.payload),
            multiplied.i.payload.rest_bytes.eq(
                (trimmed.o.payload.totals.kept * trimmed.o.payload.rest_width + 7) >> 3
            ),
        ]
        return multiplied.o
