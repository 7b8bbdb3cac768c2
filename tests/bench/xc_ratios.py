"""XC beside ZVC, BPC and general compressors on dense data: the ratios, and what parameters cost.

The data are the shipped training capture, rounded to bf16 and other formats, and independent
numbers of a few distributions. Every tensor is compressed by itself, with its masks, headers and
last line.
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
from cdma.golden.formats.xc.elements import ElementFormat, element_format
from cdma.golden.formats.xc.recorded import recorded_parameters
from cdma.golden.formats.xc.xc import Xc
from cdma.plan.workload.capture.capture import load_capture

CAPTURE = "digits-cnn-training"
OTHERS = ("zvc", "bpc", "deflate", "deflate-fast", "lz4")
ELEMENT_FORMATS = ("bf16", "fp32", "fp16", "e5m2", "e4m3")
XC_COLUMNS = ("XC, last epoch's parameters", "XC, best parameters")
SIZED_NUMBERS = (1 << 11, 1 << 13, 1 << 15, 1 << 17, 1 << 19)
DRAWS = 20
DRAWN_NUMBERS = 64 * 4096

Floats = npt.NDArray[np.float32]
Elements = npt.NDArray[np.unsignedinteger[Any]]
Series = dict[str, list[list[Floats]]]
"""By kind of data: tensors, each as it is in one epoch after the other."""


def run(console: Console) -> dict[str, Any]:
    """Print the tables and return their figures: bytes of data over bytes of stream."""
    return {
        "bf16": _kinds(console),
        "element_formats": _formats(console),
        "record_by_size": _record_by_size(console),
    }


def _kinds(console: Console) -> dict[str, dict[str, float]]:
    bf16 = element_format("bf16")
    columns = (*OTHERS, "XC, last record's parameters", *XC_COLUMNS, "order-0 entropy")
    table = Table(title=f"ratio in bf16; {CAPTURE} from its second epoch on, and drawn numbers")
    table.add_column("data")
    for column in columns:
        table.add_column(column, justify="right")
    figures = {}
    for kind, tensors in {**captured_series(), **drawn_series()}.items():
        total = 0
        sizes: dict[str, float] = defaultdict(float)
        for epochs in tensors:
            parts = [as_elements(values, bf16) for values in epochs]
            for before, now in pairwise(parts):
                total += now.nbytes
                for name in OTHERS:
                    sizes[name] += golden.codec(name, 2).compress(now).size
                sizes[columns[-4]] += recorded(before).compress(now).size
                sizes[columns[-3]] += Xc(2).fitted(before).compress(now).size
                sizes[columns[-2]] += Xc(2).fitted(now).compress(now).size
                sizes[columns[-1]] += entropy_bytes(now, bf16)
        figures[kind] = {column: total / sizes[column] for column in columns}
        table.add_row(kind, *(f"{figures[kind][column]:.3f}" for column in columns))
    console.print(table)
    return figures


def recorded(words: Elements) -> Xc:
    """The codec with the parameters that the record of a transfer of bf16 recommends."""
    found = recorded_parameters(words, element_format("bf16"))
    if found is None:
        return Xc(2)
    centre, pattern = found
    return Xc(2, centre=centre, pattern=pattern)


def _record_by_size(console: Console) -> dict[int, dict[str, float]]:
    """What the last record's parameters cost, for tensors of a few sizes: it has but samples."""
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
    tensors = [epochs[-1] for epochs in captured_series()["weights"]]
    numbers = drawn_series()["GELU of a Gaussian"][0][-1:]
    table = Table(title="ratio of XC by element format")
    table.add_column("element format")
    figures = {}
    for column, arrays in (("weights", tensors), ("GELU of a Gaussian", numbers)):
        table.add_column(column, justify="right")
        figures[column] = {name: _ratio(arrays, element_format(name)) for name in ELEMENT_FORMATS}
        rounded = [rounded_to_bf16(array).astype("<u4") << np.uint32(16) for array in arrays]
        figures[column]["fp32 that was bf16"] = _ratio(
            [array.view("<f4") for array in rounded], element_format("fp32")
        )
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


def captured_series() -> Series:
    """The capture's tensors by kind; in those, epochs in order."""
    capture = load_capture(CAPTURE)
    tensors: dict[str, dict[str, list[Floats]]] = defaultdict(lambda: defaultdict(list))
    for activation in capture.activations:
        tensor, array = activation.layer, activation.array
        for kind, chosen in (
            ("ReLU activations", tensor.endswith(".relu") and "gradients" not in tensor),
            ("gradients behind ReLU", tensor.startswith("gradients") and ".relu" in tensor),
            ("weights", tensor.startswith("weights")),
            ("weight gradients", tensor.startswith("gradients") and ".relu" not in tensor),
            ("momentum", tensor.startswith("momentum")),
        ):
            if chosen and "pool" not in tensor:
                tensors[kind][tensor].append(array.reshape(-1))
    return {kind: list(by_name.values()) for kind, by_name in tensors.items()}


def drawn_series() -> Series:
    """Two draws of independent numbers of each distribution."""
    generator = np.random.default_rng(128)

    def twice(values: npt.NDArray[np.float64]) -> list[list[Floats]]:
        return [list(values.astype(np.float32).reshape(2, -1))]

    normal = generator.standard_normal(2 * DRAWN_NUMBERS)
    gelu = 0.5 * normal * (1 + np.tanh(np.sqrt(2 / np.pi) * (normal + 0.044715 * normal**3)))
    return {
        "Gaussian": twice(generator.standard_normal(2 * DRAWN_NUMBERS)),
        "Laplace": twice(generator.laplace(size=2 * DRAWN_NUMBERS)),
        "Student's t, 3": twice(generator.standard_t(3, 2 * DRAWN_NUMBERS)),
        "GELU of a Gaussian": twice(gelu),
    }


def as_elements(values: Floats, elements: ElementFormat) -> Elements:
    """The bit patterns of values, rounded; fp8 is scaled so that the largest fills the range."""
    if elements.name == "fp32":
        return values.view("<u4")
    if elements.name == "bf16":
        return rounded_to_bf16(values)
    bias = 2 ** (elements.exponent_bits - 1) - 1
    scale = np.ldexp(1.0, bias - 1 - int(np.frexp(np.abs(values).max() or 1.0)[1]))
    wide = np.abs(values.astype(np.float64)) * (1.0 if elements.name == "fp16" else scale)
    return _rounded(wide, np.signbit(values), elements)


def _rounded(
    magnitudes: npt.NDArray[np.float64], signs: npt.NDArray[np.bool_], elements: ElementFormat
) -> Elements:
    """Bit patterns in a format of few bits, nearest and even, from magnitudes inside its range."""
    bias = 2 ** (elements.exponent_bits - 1) - 1
    exponents = np.maximum(np.frexp(magnitudes)[1] - 1 + bias, 1)
    whole = np.rint(np.ldexp(magnitudes, elements.mantissa_bits + bias - exponents))
    # A mantissa without its hidden bit counts on from the exponent below.
    words = ((exponents - 1) << elements.mantissa_bits) + whole.astype(np.int64)
    words |= signs.astype(np.int64) << (elements.bits - 1)
    return words.astype(f"<u{elements.element_bytes}")


def entropy_bytes(words: Elements, elements: ElementFormat) -> float:
    """Bytes with an ideal code for exponents and zeros, and signs and mantissas as they are."""
    histogram = Xc(elements.element_bytes, exponent_bits=elements.exponent_bits).histogram(words)
    counts = np.append(histogram, words.size - histogram.sum())
    kept = counts[counts > 0]
    code_bits = -(kept * np.log2(kept / words.size)).sum()
    return float(code_bits + (elements.mantissa_bits + 1) * histogram.sum()) / 8


if __name__ == "__main__":
    run(Console())
