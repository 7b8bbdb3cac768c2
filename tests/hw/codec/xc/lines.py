"""Lines of all element formats and kinds, and what goes in and out of XC's pipelines for them."""

import numpy as np
from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.xc.elements import element_format
from cdma.golden.formats.xc.xc import Xc
from cdma.hw.codec.payloads import ExpandedSector, LineBeat, Truncation
from cdma.hw.codec.xc.codec import codec_name
from cdma.hw.codec.xc.decompressor.pipeline import XcDecompressor
from cdma.hw.config import CodecConfig

LINE = 128
CODINGS = [(127, 0), (126, 1), (128, 2), (125, 3), (3, 0), (250, 2), (0, 3)]
"""Centres and patterns: some that fit the lines below, some that do not."""


FORMATS = [element_format(name) for name in ("bf16", "fp16", "e4m3", "e5m2", "fp32")]
"""Those that there is RTL for."""
BF16 = FORMATS[0]


def elements_of(codec):
    """The element format of a codec of XC, by its name; None of others."""
    return next((form for form in FORMATS if codec_name(form) == codec), None)


def xc_config(sector_bytes=32, elements=BF16):
    codecs = (codec_name(elements), "raw")
    return CodecConfig(element_bytes=1, sector_bytes=sector_bytes, codecs=codecs)


def codings(elements):
    """As `CODINGS`, around the same value as there: 1.0 and its neighbors."""
    shift = (1 << elements.exponent_bits - 1) - (1 << BF16.exponent_bits - 1)
    return [(max(0, centre + shift), pattern) for centre, pattern in CODINGS]


def golden(centre, pattern, elements=BF16):
    return Xc(
        elements.element_bytes,
        exponent_bits=elements.exponent_bits,
        centre=centre,
        pattern=pattern,
    )


def bf16_lines(rng, count):
    """uint8 (count, 128): of each line another kind, from zeros to noise."""
    return lines_of(BF16, rng, count)


def lines_of(elements, rng, count):
    """uint8 (count, 128): of each line another kind, from zeros to noise."""
    shape = (count, elements.line_elements)
    normal = rng.normal(size=shape).astype("<f4")
    spread = rng.choice([0.5, 3, 20], (count, 1))
    wide = np.exp(np.clip(rng.normal(size=shape) * spread, -80, 80)).astype("<f4")
    noise = rng.integers(0, 2**32, shape, dtype=np.uint32).view("<f4")
    far = np.where(rng.random(shape) < rng.choice([0.02, 0.1, 0.3], (count, 1)), 1e30, normal)
    kinds = [normal, wide, noise, far.astype("<f4"), np.zeros(shape, "<f4"), normal * 1e-6]
    chosen = np.choose(rng.integers(0, len(kinds), (count, 1)), kinds)
    kept = rng.choice([1, 1, 1, 0.97, 0.8, 0.5, 0.2, 0.03], (count, 1))
    chosen = np.where(rng.random(shape) < kept, chosen, np.float32(0))
    lines = in_format(elements, chosen)
    if not elements.trims:
        return lines
    # Of some lines all mantissas end with zeros, as those of numbers that were bf16 or integers.
    ends = rng.choice([0, 0, 1, 5, 13, 16, 22, 23], (count, 1)).astype(np.uint32)
    return (lines.view("<u4") >> ends << ends).view(np.uint8)


def in_format(elements, values):
    """fp32 cut off to an element format, as bytes; exponents that it has not are its ends."""
    words = np.ascontiguousarray(values, "<f4").view("<u4")
    mantissa = words >> 23 - elements.mantissa_bits & (1 << elements.mantissa_bits) - 1
    exponent = (words >> 23 & 0xFF).astype(np.int64)
    bias = (1 << elements.exponent_bits - 1) - 1
    moved = np.clip(exponent - 127 + bias, 0, (1 << elements.exponent_bits) - 1).astype("<u4")
    top = (words >> 31) << elements.exponent_bits | moved
    found = np.where(words == 0, 0, top << elements.mantissa_bits | mantissa)
    return found.astype(f"<u{elements.element_bytes}").view(np.uint8)


def sectors_of(config, lines, centre, pattern):
    """`Sector`s of a transfer of whole lines."""
    size = config.sector_bytes
    sectors = [
        {
            "elements": line[start : start + size].tolist(),
            "parameters": centre | pattern << 8,
        }
        for line in lines
        for start in range(0, LINE, size)
    ]
    return [*sectors[:-1], {**sectors[-1], "last": 1}]


def beats_of_line(config, stream):
    """`LineBeat`s of the bytes of one line."""
    size, head = config.sector_bytes, config.head_elements
    payload = stream[head:]
    starts = range(0, max(len(payload), 1), size)
    beats = [
        {
            "elements": list(payload[start : start + size]),
            "count": len(payload[start : start + size]),
            "truncation": Truncation.NONE,
        }
        for start in starts
    ]
    beats[0] |= {"sol": 1, "mask": int.from_bytes(stream[:head], "little")}
    beats[-1]["eol"] = 1
    return beats


def cut_beats(config, stream, size):
    """`LineBeat`s of a line of which the first `size` bytes are there; `last` in the last one."""
    head = config.head_elements
    if size < head:
        return [{"sol": 1, "eol": 1, "last": 1, "truncation": Truncation.MASK}]
    beats = beats_of_line(config, stream)
    kept = beats[: (size - head) // config.sector_bytes + 1]
    count = size - head - config.sector_bytes * (len(kept) - 1)
    kept[-1] |= {
        "elements": kept[-1]["elements"][:count],
        "count": count,
        "eol": 1,
        "last": 1,
        "truncation": Truncation.PAYLOAD,
    }
    return kept


def expanded(config, line, stream_bytes, last=0):
    """`ExpandedSector`s of a line."""
    size = config.sector_bytes
    sectors = [
        {"elements": line[start : start + size].tolist(), "offset": stream_bytes}
        for start in range(0, LINE, size)
    ]
    sectors[0]["sol"] = 1
    sectors[-1]["last"] = last
    return sectors


class Decompressor(wiring.Component):
    """An `XcDecompressor` whose lines come with their parameters."""

    def __init__(self, config, elements=BF16):
        self.config = config
        self.elements = elements
        self.decompressor = XcDecompressor(config, elements)
        beat = data.StructLayout({"beat": LineBeat(config), "parameters": 10})
        super().__init__(
            {
                "i": In(stream.Signature(beat)),
                "o": Out(stream.Signature(ExpandedSector(config))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.decompressor = decompressor = self.decompressor
        m.d.comb += [
            decompressor.parameters.eq(self.i.payload.parameters),
            decompressor.i.payload.eq(self.i.payload.beat),
            decompressor.i.valid.eq(self.i.valid),
            self.i.ready.eq(decompressor.i.ready),
        ]
        wiring.connect(m, decompressor.o, wiring.flipped(self.o))
        return m
