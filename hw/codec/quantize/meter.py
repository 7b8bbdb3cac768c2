"""Measures lines in all forms, and chooses the shortest."""

from functools import reduce
from operator import or_

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.lossy.fixed_width import LINE_NUMBERS, RAW_HEADER
from cdma.hw.codec.quantize.codec import MAP_BYTES
from cdma.hw.codec.quantize.forms import LORENZO, PLAIN, ZIGZAG, symbols_of
from cdma.hw.codec.quantize.payloads import (
    SYMBOL_BITS,
    WIDTH_BITS,
    LineForm,
    NumberedSector,
    lanes_of,
)
from cdma.hw.config import CodecConfig
from cdma.hw.lib.count import count_ones
from cdma.hw.lib.pipeline import PipelineRegister

STAGES = 4
"""Cycles from a line's last sector to its form."""

_KINDS = ("number", "difference")
_FORMS = ("zigzag", "less_one")


class _Seen(data.StructLayout):
    """Bits that symbols have, sector by sector or in the line so far, and how many there are.

    Members
    -------
    number_zigzag, number_less_one, difference_zigzag, difference_less_one
        Bits that any of these symbols has.
    number_count, difference_count
        Symbols that are not zero.
    negative, raw
        Any number is.
    ends, last, empty
        As in `NumberedSector`.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                **{f"{kind}_{form}": SYMBOL_BITS for kind in _KINDS for form in _FORMS},
                **{f"{kind}_count": range(LINE_NUMBERS + 1) for kind in _KINDS},
                "negative": 1,
                "raw": 1,
                "ends": 1,
                "last": 1,
                "empty": 1,
            }
        )


class _Widths(data.StructLayout):
    """Widths of a line's symbols in all forms, and how many are not zero."""

    def __init__(self) -> None:
        super().__init__(
            {
                **{f"{kind}_{form}": WIDTH_BITS for kind in _KINDS for form in _FORMS},
                **{f"{kind}_count": range(LINE_NUMBERS + 1) for kind in _KINDS},
                "negative": 1,
                "raw": 1,
                "last": 1,
                "empty": 1,
            }
        )


class _Sizes(data.StructLayout):
    """Payload of a line in all forms, in bytes; `headers` are theirs."""

    def __init__(self) -> None:
        forms = [f"{kind}_{form}" for kind in _KINDS for form in _FORMS]
        super().__init__(
            {
                **{f"{form}_size": 7 for form in forms},
                **{f"{form}_header": 8 for form in forms},
                "raw": 1,
                "last": 1,
                "empty": 1,
            }
        )


class FormMeter(wiring.Component):
    """Finds each line's form: of the shortest ones, that with the least header.

        numbers -> symbols, any of their bits -> + line's -> widths -> sizes -> the least
                   of the sector's                ^__|

    Numbers as they are, without negative ones, are a bit less wide than their zigzag, so they and
    their zigzag never compete. No form of a line that is not raw is longer than a raw one.

    Latency: `STAGES` cycles from a line's last sector to its form. Throughput: a sector per cycle.

    Resources: for each lane four adders of 24 bits; about 300 registers.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    i : `In(stream.Signature(NumberedSector(config)))`
    o : `Out(stream.Signature(LineForm(config)))`
        For each line.
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(NumberedSector(config))),
                "o": Out(stream.Signature(LineForm(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.seen = seen = PipelineRegister(_Seen())
        m.submodules.widths = widths = PipelineRegister(_Widths())
        m.submodules.sizes = sizes = PipelineRegister(_Sizes())
        m.submodules.forms = forms = PipelineRegister(LineForm(self.config))
        wiring.connect(m, forms.o, wiring.flipped(self.o))
        self._see(m, seen.i)
        self._gather(m, seen.o, widths.i)
        self._size(m, widths.o, sizes.i)
        self._choose(m, sizes.o, forms.i)
        return m

    def _see(self, m: Module, seen) -> None:
        """Stage 1: the bits that a sector's symbols have."""
        sector, out = self.i.payload, seen.payload
        lanes = lanes_of(self.config)
        # The number before the sector's first one; none is, at a line's beginning.
        carried = Signal.like(sector.numbers[0])
        numbers = [sector.numbers[i] for i in range(lanes)]
        symbols = {
            "number": [symbols_of(m, n, name=f"number_{i}") for i, n in enumerate(numbers)],
            "difference": [
                symbols_of(m, n, before, name=f"difference_{i}")
                for i, (n, before) in enumerate(zip(numbers, [carried, *numbers[:-1]], strict=True))
            ],
        }
        for kind, own in symbols.items():
            m.d.comb += [
                out[f"{kind}_zigzag"].eq(reduce(or_, [s.zigzag for s in own])),
                out[f"{kind}_less_one"].eq(reduce(or_, [s.less_one for s in own])),
                out[f"{kind}_count"].eq(count_ones(Cat(s.present for s in own))),
            ]
        m.d.comb += [
            out.negative.eq(Cat(n[-1] for n in numbers).any()),
            out.raw.eq(sector.raw),
            out.ends.eq(sector.ends),
            out.last.eq(sector.last),
            out.empty.eq(sector.empty),
            seen.valid.eq(self.i.valid),
            self.i.ready.eq(seen.ready),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += carried.eq(Mux(sector.ends, 0, numbers[-1]))

    def _gather(self, m: Module, seen, widths) -> None:
        """Stage 2: those of the line, and how wide its symbols are."""
        sector, out = seen.payload, widths.payload
        so_far = Signal(_Seen())
        line = Signal(_Seen())
        m.d.comb += line.eq(sector.as_value() | so_far.as_value())
        for kind in _KINDS:
            count = f"{kind}_count"
            m.d.comb += line[count].eq(sector[count] + so_far[count])
            for form in _FORMS:
                name = f"{kind}_{form}"
                bits: Value = line[name]
                if kind == "number":
                    bits = Mux(line.negative, bits, bits[1:])
                m.d.comb += out[name].eq(_bit_length(bits))
            m.d.comb += out[count].eq(line[count])
        m.d.comb += [
            out.negative.eq(line.negative),
            out.raw.eq(line.raw),
            out.last.eq(sector.last),
            out.empty.eq(sector.empty),
            widths.valid.eq(seen.valid & sector.ends),
            seen.ready.eq(~sector.ends | widths.ready),
        ]
        with m.If(seen.valid & seen.ready):
            m.d.sync += so_far.eq(Mux(sector.ends, 0, line.as_value()))

    def _size(self, m: Module, widths, sizes) -> None:
        """Stage 3: what the line takes in each form."""
        line, out = widths.payload, sizes.payload
        for kind in _KINDS:
            base = Mux(line.negative, ZIGZAG, PLAIN) if kind == "number" else C(LORENZO, 2)
            plain, mapped = line[f"{kind}_zigzag"], line[f"{kind}_less_one"]
            bits = line[f"{kind}_count"] * mapped
            m.d.comb += [
                out[f"{kind}_zigzag_size"].eq(plain << 2),
                out[f"{kind}_zigzag_header"].eq(Cat(plain, C(0, 1), base)),
                out[f"{kind}_less_one_size"].eq(MAP_BYTES + ((bits + 7) >> 3)),
                out[f"{kind}_less_one_header"].eq(Cat(mapped, C(1, 1), base)),
            ]
        m.d.comb += [
            out.raw.eq(line.raw),
            out.last.eq(line.last),
            out.empty.eq(line.empty),
            sizes.valid.eq(widths.valid),
            widths.ready.eq(sizes.ready),
        ]

    def _choose(self, m: Module, sizes, forms) -> None:
        """Stage 4: the least of them, in the order of their headers."""
        line, out = sizes.payload, forms.payload
        ways = [
            (line[f"{kind}_{form}_size"], line[f"{kind}_{form}_header"])
            for kind in _KINDS
            for form in _FORMS
        ]
        while len(ways) > 1:
            better = []
            for (size, header), (other_size, other_header) in zip(
                ways[::2], ways[1::2], strict=True
            ):
                other = other_size < size
                better.append((Mux(other, other_size, size), Mux(other, other_header, header)))
            ways = better
        ((size, header),) = ways
        m.d.comb += [
            out.header.eq(Mux(line.raw, RAW_HEADER, header)),
            out.size.eq(Mux(line.raw, self.config.line_bytes, size)),
            out.last.eq(line.last),
            out.empty.eq(line.empty),
            forms.valid.eq(sizes.valid),
            sizes.ready.eq(forms.ready),
        ]


def _bit_length(bits: Value) -> Value:
    """The place of the highest bit that is set, from 1 on; 0 if there is none."""
    reaches = [C(1, 1), *(bits[place:].any() for place in range(len(bits)))]
    parts = []
    for b in range(WIDTH_BITS):
        span = 1 << b
        # The length has this bit if it reaches an odd multiple of the bit's weight, but not the
        # next one.
        parts.append(
            reduce(
                or_,
                [
                    reaches[n] & ~reaches[n + span] if n + span < len(reaches) else reaches[n]
                    for n in range(span, len(reaches), 2 * span)
                ],
                C(0, 1),
            )
        )
    return Cat(parts)
