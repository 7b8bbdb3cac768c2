"""XC beside ZVC, BPC and general compressors on dense data: the ratios, and what parameters cost.

The data are those of `tests.bench.dense_data`, rounded to bf16 and other formats. Every tensor is
compressed by itself, with its masks, headers and last line.
"""

from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from cdma import golden
from cdma.golden.formats.bf16 import rounded_to_bf16
from cdma.golden.formats.rounding import rounded_to
from cdma.golden.formats.xc.elements import ElementFormat, element_format
from cdma.golden.formats.xc.recorded import recorded_parameters
from cdma.golden.formats.xc.xc import Xc
from tests.bench.dense_data import (
    SHIPPED,
    Figures,
    Floats,
    captured_series,
    drawn_series,
    from_bf16,
    measured,
)

OTHERS = ("zvc", "bpc", "deflate", "deflate-fast", "lz4")
ELEMENT_FORMATS = ("bf16", "fp32", "fp16", "e5m2", "e4m3")
OURS = ("XC, last record's parameters", "XC, last epoch's parameters", "XC, best parameters")
IDEAL = ("Huffman", "order-0 entropy")
LONGEST_CODE = 8
"""Bits of a Huffman code for exponents, as tables in hardware have them."""
SIZED_NUMBERS = (1 << 11, 1 << 13, 1 << 15, 1 << 17, 1 << 19)
DRAWS = 20

Elements = npt.NDArray[np.unsignedinteger[Any]]


def run(console: Console) -> dict[str, Any]:
    """Print the tables and return their figures: bytes of data over bytes of stream."""
    return {
        "bf16": _kinds(console),
        "element_formats": _formats(console),
        "record_by_size": _record_by_size(console),
    }


def _kinds(console: Console) -> dict[str, dict[str, Figures]]:
    bf16 = element_format("bf16")
    columns = (*OTHERS, *OURS, *IDEAL)
    table = Table(title="ratio in bf16, all tensors of a kind together, from their second epoch on")
    table.add_column("data")
    for column in columns:
        table.add_column(column, justify="right")

    def measure(tensors: list[list[Floats]]) -> tuple[Figures, list[str]]:
        found = _ratios(tensors, bf16)
        return found, [f"{found[column]:.3f}" for column in columns]

    figures = measured(table, measure)
    console.print(table)
    return figures


def _ratios(tensors: list[list[Floats]], elements: ElementFormat) -> Figures:
    total = 0
    sizes: dict[str, float] = defaultdict(float)
    for epochs in tensors:
        parts = [as_elements(values, elements) for values in epochs]
        for before, now in pairwise(parts):
            total += now.nbytes
            for name in OTHERS:
                sizes[name] += golden.codec(name, 2).compress(now).size
            chosen = (recorded(before), Xc(2).fitted(before), Xc(2).fitted(now))
            for name, codec in zip(OURS, chosen, strict=True):
                sizes[name] += codec.compress(now).size
            for name, bytes_of in zip(IDEAL, (huffman_bytes, entropy_bytes), strict=True):
                sizes[name] += bytes_of(now, elements)
    return {name: total / size for name, size in sizes.items()}


def recorded(words: Elements) -> Xc:
    """The codec with the parameters that the record of a transfer of bf16 recommends."""
    found = recorded_parameters(words, element_format("bf16"))
    if found is None:
        return Xc(2)
    centre, pattern = found
    return Xc(2, centre=centre, pattern=pattern)


def _record_by_size(console: Console) -> dict[int, dict[str, float]]:
    """Costs of the last record's parameters, for tensors of a few sizes: it has but samples."""
    table = Table(title="Gaussian numbers: excess of the last record's parameters, by bytes")
    for column in ("bytes", "mean %", "largest %"):
        table.add_column(column, justify="right")
    figures = {}
    for count in SIZED_NUMBERS:
        generator = np.random.default_rng(count)
        excesses = []
        for _ in range(DRAWS):
            scale = 2.0 ** generator.uniform(-20, 5)
            before, now = (
                rounded_to_bf16((generator.normal(size=count) * scale).astype(np.float32))
                for _ in range(2)
            )
            best = int(Xc(2).fitted(now).line_sizes(now).sum())
            excesses.append(100 * (int(recorded(before).line_sizes(now).sum()) / best - 1))
        figures[2 * count] = {"mean": float(np.mean(excesses)), "largest": max(excesses)}
        table.add_row(f"{2 * count:,}", *(f"{value:.2f}" for value in figures[2 * count].values()))
    console.print(table)
    return figures


def _formats(console: Console) -> dict[str, dict[str, float]]:
    """XC with the best parameters, by element format; fp32 as it is and with bf16's mantissas."""
    tensors = [epochs[-1] for epochs in captured_series(SHIPPED[0])["weights"]]
    numbers = drawn_series()["GELU of a Gaussian"][0][-1:]
    table = Table(title="ratio of XC by element format")
    table.add_column("element format")
    figures = {}
    for column, arrays in (("weights", tensors), ("GELU of a Gaussian", numbers)):
        table.add_column(column, justify="right")
        figures[column] = {name: _ratio(arrays, element_format(name)) for name in ELEMENT_FORMATS}
        rounded = [from_bf16(rounded_to_bf16(array)) for array in arrays]
        figures[column]["fp32 that was bf16"] = _ratio(rounded, element_format("fp32"))
    for name in figures["weights"]:
        table.add_row(name, *(f"{column[name]:.3f}" for column in figures.values()))
    console.print(table)
    return figures


def _ratio(arrays: list[Floats], elements: ElementFormat) -> float:
    total = size = 0
    for array in arrays:
        data = as_elements(array, elements)
        codec = Xc(elements.element_bytes, exponent_bits=elements.exponent_bits).fitted(data)
        total, size = total + data.nbytes, size + codec.compress(data).size
    return total / size


def as_elements(values: Floats, elements: ElementFormat) -> Elements:
    """The bit patterns of values, rounded; fp8 is scaled so that the largest fills the range."""
    return rounded_to(elements.name, values).view(f"<u{elements.element_bytes}")


def entropy_bytes(words: Elements, elements: ElementFormat) -> float:
    """Bytes with an ideal code for exponents and zeros, and signs and mantissas as they are."""
    counts = _counts(words, elements)
    kept = counts[counts > 0]
    code_bits = -(kept * np.log2(kept / words.size)).sum()
    return float(code_bits + (elements.mantissa_bits + 1) * counts[:-1].sum()) / 8


def huffman_bytes(words: Elements, elements: ElementFormat) -> float:
    """The same with a Huffman code of the transfer's own, its lengths ahead of it in 4 bits each.

    Such a stream has to be decoded code by code.
    """
    counts = _counts(words, elements)
    code_bits = huffman_bits(counts.tolist(), LONGEST_CODE) + 4 * counts.size
    return float(code_bits + (elements.mantissa_bits + 1) * counts[:-1].sum()) / 8


def huffman_bits(counts: list[int], longest: int) -> int:
    """Bits of all symbols, so many of each, in the best prefix code without longer words.

    By package-merge (Larmore and Hirschberg, 1990), of which the sum is all that is needed.
    """
    leaves = sorted(count for count in counts if count)
    if len(leaves) < 2:
        return sum(leaves)
    level = leaves
    for _ in range(longest - 1):
        pairs = [level[k] + level[k + 1] for k in range(0, len(level) - 1, 2)]
        level = sorted(leaves + pairs)
    return sum(level[: 2 * len(leaves) - 2])


def _counts(words: Elements, elements: ElementFormat) -> npt.NDArray[np.int64]:
    """Counts of each exponent, and behind them of the zeros."""
    histogram = Xc(elements.element_bytes, exponent_bits=elements.exponent_bits).histogram(words)
    return np.append(histogram, words.size - histogram.sum())


if __name__ == "__main__":
    run(Console())
