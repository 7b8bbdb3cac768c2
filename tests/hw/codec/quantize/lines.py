"""Lines of fp32 of all kinds, and what goes in and out of the lossy lane's pipelines for them."""

import numpy as np
from amaranth.hdl import Module
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.formats.lossy.power_of_two import bound_of
from cdma.golden.formats.lossy.quantize import Quantize
from cdma.hw.codec.payloads import ExpandedSector, LineBeat, Truncation
from cdma.hw.codec.quantize.decompressor.pipeline import QuantizeDecompressor
from cdma.hw.config import CodecConfig

LINE = 128
NUMBERS = 32


def quantize_config(sector_bytes=32):
    return CodecConfig(element_bytes=1, sector_bytes=sector_bytes, codecs=("quantize", "raw"))


def golden(k):
    return Quantize(4, bound=bound_of(k))


def fp32_lines(rng, count, k):
    """uint8 (count, 128): of each line another kind, in steps of 2^(k - 127), from zeros to NaN."""
    shape = (count, NUMBERS)
    step = 2.0 ** (k - 127)
    widths = rng.integers(0, 23, (count, 1))
    noise = rng.uniform(-1, 1, shape) * 2.0**widths
    halves = rng.integers(-40, 40, shape) / 2
    smooth = np.cumsum(rng.integers(-9, 10, shape), axis=1) + rng.integers(-(2**20), 2**20)
    level = rng.integers(-(2**21), 2**21, (count, 1)) * np.where(np.arange(NUMBERS) < 9, 1, -1)
    edge = (2.0**22 - rng.choice([2, 1, 0.5, 0.75, 0], shape)) * rng.choice([-1, 1], shape)
    bits = rng.integers(0, 2**32, shape, dtype=np.uint64).astype(np.uint32).view(np.float32)
    ramp = np.cumsum(rng.integers(900, 1100, shape), axis=1) * rng.choice([-1, 1], (count, 1))
    kinds = [noise, np.abs(noise), halves, smooth, level, ramp, np.zeros(shape)]
    with np.errstate(over="ignore", invalid="ignore"):
        chosen = np.choose(rng.integers(0, len(kinds), (count, 1)), kinds) * step
        kept = rng.choice([1, 1, 0.97, 0.8, 0.5, 0.2, 0.03], (count, 1))
        chosen = np.where(rng.random(shape) < kept, chosen, 0).astype(np.float32)
        rare = rng.random((count, 1)) < 0.08
        chosen = np.where(rare & (rng.random(shape) < 0.5), (edge * step).astype("<f4"), chosen)
        rare = rng.random((count, 1)) < 0.08
        chosen = np.where(rare & (rng.random(shape) < 0.1), bits, chosen)
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45, -1e-40, 1.17e-38], "<f4")
    rare = rng.random((count, 1)) < 0.1
    chosen = np.where(rare & (rng.random(shape) < 0.1), rng.choice(special, shape), chosen)
    return np.ascontiguousarray(chosen.astype("<f4")).view(np.uint8)


def sectors_of(config, lines, k):
    """`Sector`s of a transfer of whole lines."""
    size = config.sector_bytes
    sectors = [
        {"elements": line[start : start + size].tolist(), "parameters": k}
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
    kept = beats[: max(size - 2, 0) // config.sector_bytes + 1]
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
    header = stream[0]
    width = header & 31
    if header == 0xC0:
        return 1 + LINE
    if header > 0xC0 or width > 24:
        return 1
    if not header & 32:
        return 1 + 4 * width
    return 5 + -(-int.from_bytes(stream[1:5], "little").bit_count() * width // 8)


def damaged(rng, stream):
    """Bytes of a line that differ in a few bits, in the header or the map, or in all of them."""
    bad = bytearray(stream)
    kind = rng.integers(0, 7)
    if kind == 0:
        bad[0] = rng.integers(0, 256)
    elif kind == 1:
        # Another width or kind, and as many bytes as that takes.
        bad[0] = (bad[0] & 0x20) | rng.integers(0, 3) << 6 | rng.integers(0, 25)
    elif kind == 2 and len(bad) > 5:
        bad[rng.integers(1, 5)] ^= 1 << rng.integers(0, 8)
    elif kind == 3:
        bad[-1] ^= 0x80
    elif kind == 4:
        bad[rng.integers(0, len(bad))] ^= 1 << rng.integers(0, 8)
    elif kind == 5:
        bad = bytearray(b"\xc0" + rng.integers(0, 256, LINE, np.uint8).tobytes())
        for i in range(NUMBERS):
            # Mostly no NaN and nothing large, so that it need not be raw.
            bad[4 + 4 * i] = rng.choice([0x3D, 0x3E, 0xBE, 0x40])
    else:
        bad = bytearray(rng.integers(0, 256, 140, np.uint8).tobytes())
        bad[0] = rng.integers(0, 0xC1)
    bad += rng.integers(0, 256, 8, np.uint8).tobytes() * 17
    return bytes(bad[: line_length(bad)])


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
    """A `QuantizeDecompressor` whose lines come with their parameter."""

    def __init__(self, config):
        self.config = config
        self.decompressor = QuantizeDecompressor(config)
        beat = data.StructLayout({"beat": LineBeat(config), "parameters": 8})
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
