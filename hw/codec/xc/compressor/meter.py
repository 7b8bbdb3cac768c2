"""Measures what a line will take, and so the places of its fields."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.xc.classes import is_escape, width_of
from cdma.hw.codec.xc.payloads import (
    HEADER_BYTES,
    MOST_BEHIND,
    CodedSector,
    LinePlan,
    LineShape,
    is_beyond,
)
from cdma.hw.config import CodecConfig
from cdma.hw.lib.count import count_ones, total
from cdma.hw.lib.pipeline import PipelineRegister

ZERO_LINE, DENSE_LINE, SPARSE_LINE, RAW_LINE = range(4)
"""The kinds of lines, in bits 7…6 of the header."""


class LineTotals(data.StructLayout):
    """Counts of a line: elements, bits of extras, escapes."""

    def __init__(self, config: CodecConfig) -> None:
        shape = LineShape.of(config)
        super().__init__(
            {
                "kept": range(shape.elements + 1),
                "bits": range(shape.bits + 1),
                "escapes": range(shape.elements + 1),
                "last": 1,
                "empty": 1,
            }
        )


def fields_of(
    m: Module, config: CodecConfig, totals: data.View, *, code_bits: int | None = None, name: str
) -> tuple[data.View, Signal]:
    """Lay out a line from what was counted of it.

    Parameters
    ----------
    m, config, totals
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
    shape = LineShape.of(config)
    plan = Signal(LinePlan(config), name=f"{name}_plan")
    extra_bytes = Signal(range(shape.bits // 8 + 2), name=f"{name}_extra_bytes")
    behind = Signal(range(shape.bits // 8 + shape.elements + 2), name=f"{name}_behind")
    rest_at = Signal.like(plan.rest_at, name=f"{name}_rest_at")
    extras_at = Signal.like(plan.rest_at, name=f"{name}_extras_at")
    size = Signal(range(4 * config.line_bytes), name=f"{name}_size")
    zero, full, raw, sparse = (
        Signal(name=f"{name}_{kind}") for kind in ("zero", "full", "raw", "sparse")
    )
    m.d.comb += [
        zero.eq(totals.kept == 0),
        full.eq(totals.kept == shape.elements),
        extra_bytes.eq((totals.bits + 7) >> 3),
        behind.eq(extra_bytes + totals.escapes),
        rest_at.eq(((totals.kept + 3) >> 2) + Mux(full, 0, shape.mask_bytes)),
        extras_at.eq(rest_at + totals.kept),
        size.eq(extras_at + behind),
        raw.eq(
            ~zero & ((behind > MOST_BEHIND) | (size > config.line_bytes - HEADER_BYTES))
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

    Latency: 2 cycles from a line's last sector to its plan. Throughput: a sector per cycle.

    Resources: adder trees of as many inputs as there are lanes; about 100 registers.

    Parameters
    ----------
    config : CodecConfig
    code_bits : int, optional
        For lines without a header, such as Buddy's entries: the room for a line's fields. Lines
        with more, and those without elements, are raw; nothing else is.

    Members
    -------
    i : `In(stream.Signature(CodedSector(config)))`
    o : `Out(stream.Signature(LinePlan(config)))`
        For each line.
    """

    def __init__(self, config: CodecConfig, *, code_bits: int | None = None) -> None:
        self.config = config
        self.code_bits = code_bits
        super().__init__(
            {
                "i": In(stream.Signature(CodedSector(config))),
                "o": Out(stream.Signature(LinePlan(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.totals = totals = PipelineRegister(LineTotals(config))
        m.submodules.plans = plans = PipelineRegister(LinePlan(config))
        wiring.connect(m, plans.o, wiring.flipped(self.o))
        sector = self.i.payload
        lanes = range(LineShape.of(config).lanes)

        # The line up to this sector.
        before = Signal(LineTotals(config))
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
            counted.last.eq(sector.last),
            counted.empty.eq(sector.empty),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += before.eq(Mux(sector.ends, 0, counted.as_value()))

        plan, _ = fields_of(m, config, totals.o.payload, code_bits=self.code_bits, name="line")
        m.d.comb += [
            plans.i.valid.eq(totals.o.valid),
            totals.o.ready.eq(plans.i.ready),
            plans.i.payload.eq(plan),
            plans.i.payload.last.eq(totals.o.payload.last),
            plans.i.payload.empty.eq(totals.o.payload.empty),
        ]
        return m
