"""Lines of bf16 of all kinds, and what goes in and out of XC's pipelines for them."""

import numpy as np
from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.xc.xc import Xc
from cdma.hw.codec.payloads import ExpandedSector, LineBeat, Truncation
from cdma.hw.codec.xc.decompressor.pipeline import XcDecompressor
from cdma.hw.config import CodecConfig

LINE = 128
CODINGS = [(127, 0), (126, 1), (128, 2), (125, 3), (3, 0), (250, 2), (0, 3)]
"""Centres and patterns: some that fit the lines below, some that do not."""


def xc_config(sector_bytes=32):
    return CodecConfig(element_bytes=1, sector_bytes=sector_bytes, codecs=("xc", "raw"))


def golden(centre, pattern):
    return Xc(2, centre=centre, pattern=pattern)


def bf16_lines(rng, count):
    """uint8 (count, 128): of each line another kind, from zeros to noise."""
    shape = (count, LINE // 2)
    normal = rng.normal(size=shape).astype("<f4")
    spread = rng.choice([0.5, 3, 20], (count, 1))
    wide = np.exp(np.clip(rng.normal(size=shape) * spread, -80, 80)).astype("<f4")
    noise = rng.integers(0, 2**32, shape, dtype=np.uint32).view("<f4")
    far = np.where(rng.random(shape) < rng.choice([0.02, 0.1, 0.3], (count, 1)), 1e30, normal)
    kinds = [normal, wide, noise, far.astype("<f4"), np.zeros(shape, "<f4"), normal * 1e-6]
    chosen = np.choose(rng.integers(0, len(kinds), (count, 1)), kinds)
    kept = rng.choice([1, 1, 1, 0.97, 0.8, 0.5, 0.2, 0.03], (count, 1))
    chosen = np.where(rng.random(shape) < kept, chosen, np.float32(0))
    return (chosen.view("<u4") >> 16).astype("<u2").view(np.uint8)


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
    size = config.sector_bytes
    payload = stream[1:]
    starts = range(0, max(len(payload), 1), size)
    beats = [
        {
            "elements": list(payload[start : start + size]),
            "count": len(payload[start : start + size]),
            "truncation": Truncation.NONE,
        }
        for start in starts
    ]
    beats[0] |= {"sol": 1, "mask": stream[0]}
    beats[-1]["eol"] = 1
    return beats


def cut_beats(config, stream, size):
    """`LineBeat`s of a line of which the first `size` bytes are there; `last` in the last one."""
    if not size:
        return [{"sol": 1, "eol": 1, "last": 1, "truncation": Truncation.MASK}]
    beats = beats_of_line(config, stream)
    kept = beats[: (size - 1) // config.sector_bytes + 1]
    count = size - 1 - config.sector_bytes * (len(kept) - 1)
    kept[-1] |= {
        "elements": kept[-1]["elements"][:count],
        "count": count,
        "eol": 1,
        "last": 1,
        "truncation": Truncation.PAYLOAD,
    }
    return kept


def line_length(stream):
    """Bytes of the line at the stream's start as the unpacker finds it, even if it is wrong."""
    kind, behind = stream[0] >> 6, stream[0] & 63
    if kind in (0, 3):
        return 1 if kind == 0 else 1 + LINE
    kept = 64
    if kind == 2:
        kept = int.from_bytes(stream[1:9], "little").bit_count()
    size = 1 + 8 * (kind == 2) + -(-kept // 4) + kept + behind
    return min(size, LINE + 1)


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

    def __init__(self, config):
        self.config = config
        self.decompressor = XcDecompressor(config)
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
