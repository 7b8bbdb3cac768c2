"""The lossy lane on captures and on drawn numbers: its ratio at three bounds.

Bounds are shares of each tensor's rms, rounded down to a power of two as the engine has them. Every
tensor is compressed by itself, in fp32; the largest error is measured on what comes back.
"""

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from cdma import golden
from cdma.golden.formats.lossy.power_of_two import rounded_down
from tests.bench.dense_data import Figures, Floats, measured

SHARES = (0.001, 0.01, 0.1)
"""Of a tensor's rms."""


def run(console: Console) -> dict[str, Any]:
    """Print the table and return its figures: bytes of data over bytes of stream, by kind."""
    table = Table(title="quantize, fp32: ratio; largest error / rms")
    table.add_column("data")
    for share in SHARES:
        table.add_column(f"bound {share:.1%} of rms", justify="right")
    table.add_column("ZVC", justify="right")
    figures = measured(table, _ratios)
    console.print(table)
    return figures


def _ratios(tensors: list[list[Floats]]) -> tuple[Figures, list[str]]:
    """Figures of tensors of a kind, and the cells of their row."""
    arrays = [array for epochs in tensors for array in epochs if array.any()]
    total = sum(array.nbytes for array in arrays)
    figures: Figures = {}
    cells = []
    for share in SHARES:
        size, error = _compressed(arrays, share)
        figures[f"{share:g}"] = total / size
        figures[f"{share:g}, largest error"] = error
        cells.append(f"{total / size:.2f}x; {error:.2%}")
    zvc = sum(golden.codec("zvc", 4).compress(array).size for array in arrays)
    figures["zvc"] = total / zvc
    return figures, [*cells, f"{total / zvc:.2f}x"]


def _compressed(arrays: list[Floats], share: float) -> tuple[int, float]:
    """Bytes of all streams, and the largest error over its tensor's rms."""
    size, worst = 0, 0.0
    for array in arrays:
        rms = float(np.sqrt(np.mean(array.astype(np.float64) ** 2)))
        codec = golden.codec("quantize", bound=rounded_down(share * rms))
        stream = codec.compress(array)
        returned = codec.decompress(stream, array.nbytes).view("<f4")
        size += stream.size
        worst = max(worst, float(np.abs(returned - array.astype(np.float64)).max()) / rms)
    return size, worst


if __name__ == "__main__":
    run(Console())
