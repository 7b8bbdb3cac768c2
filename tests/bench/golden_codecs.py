"""Speed and ratio of the golden codecs on 64 MB of fp32 with 62 % zeros; of XC, on dense noise."""

import functools
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import lz4.block
import numpy as np
from isal import igzip_lib
from rich.console import Console
from rich.table import Table

from cdma import golden
from cdma.golden.formats.interface import Array
from cdma.golden.formats.windows.window import WINDOW_BYTES
from cdma.golden.formats.xc.elements import ELEMENT_FORMATS
from cdma.golden.formats.xc.xc import Xc
from tests.bench.xc_ratios import as_elements

ARRAY_BYTES = 64 << 20
ZERO_FRACTION = 0.62
FAST_ROUNDS = 7
SLOW_ROUNDS = 3


@dataclass(frozen=True)
class Row:
    name: str
    mb_per_s: float
    ratio: float | None = None


def run(console: Console) -> dict[str, Any]:
    """Print the table and return its figures, with the two goals as booleans.

    Every time is the least of several rounds, on one core; MB are 10^6 bytes of uncompressed data.
    The copies are of the same array: one to memory that is already mapped, which is the quicker,
    and one as `ndarray.copy` does it.
    """
    array = activations()
    rows = [*_copies(array), *_zvc(array), *_xc(), *_lossy(array), *_baselines(array)]
    by_name = {row.name: row for row in rows}
    table = Table(title=f"golden codecs, {ARRAY_BYTES >> 20} MiB fp32, {ZERO_FRACTION:.0%} zeros")
    table.add_column("")
    table.add_column("MB/s", justify="right")
    table.add_column("ratio", justify="right")
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}x"
        table.add_row(row.name, f"{row.mb_per_s:,.0f}", ratio)
    console.print(table)
    zvc_over_isal = by_name["zvc compress"].mb_per_s / max(
        row.mb_per_s for row in rows if row.name.startswith("isal")
    )
    sizes_over_copy = by_name["zvc line_sizes"].mb_per_s / by_name["copy to mapped memory"].mb_per_s
    console.print(
        f"ZVC compression over isal DEFLATE: {zvc_over_isal:.1f}x (goal: above 1); "
        f"line_sizes over the quicker copy: {sizes_over_copy:.2f}x (goal: at least 0.33)"
    )
    return {
        "mb_per_s": {row.name: row.mb_per_s for row in rows},
        "ratio": {row.name: row.ratio for row in rows if row.ratio is not None},
        "zvc_over_isal": zvc_over_isal,
        "line_sizes_over_copy": sizes_over_copy,
        "xc_over_zvc_decompress": {
            row.name: row.mb_per_s / by_name["zvc decompress"].mb_per_s
            for row in rows
            if row.name.startswith("xc")
        },
        "goals_met": zvc_over_isal > 1 and sizes_over_copy >= 1 / 3,
    }


def activations() -> Array:
    """Normal noise with zeros at independent places, float32 (16 Mi,)."""
    generator = np.random.default_rng(62)
    array = generator.standard_normal(ARRAY_BYTES // 4, np.float32)
    array[generator.random(array.size, np.float32) < ZERO_FRACTION] = 0
    return array


def _copies(array: Array) -> list[Row]:
    mapped = np.empty_like(array)
    return [
        Row("copy to mapped memory", _mb_per_s(lambda: np.copyto(mapped, array), FAST_ROUNDS)),
        Row("copy to new memory", _mb_per_s(array.copy, FAST_ROUNDS)),
    ]


def _zvc(array: Array) -> list[Row]:
    codec = golden.codec("zvc")
    stream = codec.compress(array)
    if codec.decompress(stream, array.nbytes).tobytes() != array.tobytes():
        raise AssertionError("ZVC does not restore the array")
    if codec.line_sizes(array).sum() != stream.size:
        raise AssertionError("line_sizes disagree with the stream")
    return [
        Row("zvc line_sizes", _mb_per_s(lambda: codec.line_sizes(array), FAST_ROUNDS)),
        Row(
            "zvc compress",
            _mb_per_s(lambda: codec.compress(array), FAST_ROUNDS),
            array.nbytes / stream.size,
        ),
        Row(
            "zvc decompress",
            _mb_per_s(lambda: codec.decompress(stream, array.nbytes), SLOW_ROUNDS),
        ),
    ]


def _xc() -> list[Row]:
    """XC on an eighth as many bytes of dense normal noise in each element format."""
    rows = []
    noise = np.random.default_rng(15).standard_normal(ARRAY_BYTES // 32, np.float32)
    for elements in ELEMENT_FORMATS:
        data = as_elements(np.resize(noise, ARRAY_BYTES // 8 // elements.element_bytes), elements)
        codec = Xc(elements.element_bytes, exponent_bits=elements.exponent_bits).fitted(data)
        title = f"xc, {elements.name}, dense, an eighth:"
        sizes = _mb_per_s(functools.partial(codec.line_sizes, data), SLOW_ROUNDS, data.nbytes)
        rows += [Row(f"{title} line_sizes", sizes), *_there_and_back(codec, title, data)]
    return rows


def _lossy(array: Array) -> list[Row]:
    """The lossy codecs, on an eighth of the array, as `quantize` takes seconds for all of it."""
    part = array[: array.size // 8]
    rows = []
    for codec in (golden.codec("zfp", rate=32), golden.codec("quantize", bound=1e-3)):
        told = ", ".join(
            f"{name} {getattr(codec, name):g}" for name in golden.codec_parameters(codec.name)
        )
        rows += _there_and_back(codec, f"{codec.name}, {told}, an eighth:", part)
    return rows


def _there_and_back(codec: golden.Codec, title: str, array: Array) -> list[Row]:
    stream = codec.compress(array)
    there = _mb_per_s(lambda: codec.compress(array), SLOW_ROUNDS, array.nbytes)
    back = _mb_per_s(lambda: codec.decompress(stream, array.nbytes), SLOW_ROUNDS, array.nbytes)
    return [
        Row(f"{title} compress", there, array.nbytes / stream.size),
        Row(f"{title} decompress", back),
    ]


def _baselines(array: Array) -> list[Row]:
    """The compressors themselves, without our framing, on 4 KiB windows and as one piece."""

    def isal(data: memoryview) -> bytes:
        return igzip_lib.compress(data, 1, igzip_lib.COMP_DEFLATE)

    def lz4_block(data: memoryview) -> bytes:
        return lz4.block.compress(data, store_size=False)

    def zlib_6(data: memoryview) -> bytes:
        return zlib.compress(data, 6)

    whole = array.view(np.uint8)
    # zlib takes seconds for all of it, and its ratio is that of any part.
    part = whole[: whole.size // 8]
    return [
        _baseline("isal DEFLATE, 4 KiB windows", isal, whole, WINDOW_BYTES),
        _baseline("isal DEFLATE, one piece", isal, whole, whole.size),
        _baseline("LZ4, 4 KiB windows", lz4_block, whole, WINDOW_BYTES),
        _baseline("LZ4, one piece", lz4_block, whole, whole.size),
        _baseline("zlib-6, 4 KiB windows, an eighth", zlib_6, part, WINDOW_BYTES),
        _baseline("zlib-6, one piece, an eighth", zlib_6, part, part.size),
    ]


def _baseline(
    name: str, encode: Callable[[memoryview], bytes], data: Array, window_bytes: int
) -> Row:
    windows = [
        data[start : start + window_bytes].data for start in range(0, data.size, window_bytes)
    ]
    sizes: list[int] = []

    def compress() -> None:
        sizes[:] = [len(encode(window)) for window in windows]

    rounds = 1 if name.startswith("zlib") else SLOW_ROUNDS
    speed = _mb_per_s(compress, rounds, data.size)
    return Row(name, speed, data.size / sum(sizes))


def _mb_per_s(work: Callable[[], object], rounds: int, nbytes: int = ARRAY_BYTES) -> float:
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return nbytes / min(seconds) / 1e6


if __name__ == "__main__":
    run(Console())
