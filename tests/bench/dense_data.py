"""Data that hardly has zeros, to measure codecs on: captures, and numbers of a few distributions.

The shipped captures are of a small CNN with ReLU, and of a small GPT and one of GPT-2's size in
bf16. That of a pre-trained transformer is taken if `cdma capture minilm` has made it in
`build/captures`.
"""

import re
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.table import Table

from cdma.golden.formats.lossy.power_of_two import words_of_bf16
from cdma.plan.workload.capture.capture import Activation, load_capture

SHIPPED = ("digits-cnn-training", "tiny-gpt", "python-gpt")
MADE = Path("build/captures/minilm.json")
DRAWN = "drawn numbers"
DRAWN_NUMBERS = 64 * 4096

Floats = npt.NDArray[np.float32]
Series = dict[str, list[list[Floats]]]
"""By kind of data: tensors, each as it is in one epoch after the other, or of one layer after the
other where there is one epoch only. What a step before is like it tells."""

Figures = dict[str, float]

KINDS = {
    r"gradients\..*relu": "gradients behind ReLU",
    r"gradients\..*gelu": "gradients behind GELU",
    r"gradients\.(?!pool)": "weight gradients",
    r"weights\.": "weights",
    r"momentum\.": "momentum",
    r"adam_m\.": "Adam m",
    r"adam_v\.": "Adam v",
    r".*\.relu$": "ReLU outputs",
    r".*(gelu|intermediate_act_fn)$": "GELU outputs",
    r".*norm$": "LayerNorm outputs",
    r".*(key|value)$": "keys and values",
    r".*probabilities": "attention probabilities",
}
"""What tensors are, by the beginnings of their names; others are left out."""


def measured(
    table: Table, measure: Callable[[list[list[Floats]]], tuple[Figures, list[str]]]
) -> dict[str, dict[str, Figures]]:
    """Measure everything that there is here, with a section of the table for each origin.

    Parameters
    ----------
    table
        Its first column is for what the data are.
    measure
        Returns the figures of all tensors of a kind, and the other cells of their row.

    Returns
    -------
    dict
        Figures by origin and kind.
    """
    figures: dict[str, dict[str, Figures]] = {}
    for origin, series in all_series().items():
        figures[origin] = {}
        table.add_section()
        table.add_row(f"[bold]{origin}[/bold]")
        for kind, tensors in series.items():
            figures[origin][kind], cells = measure(tensors)
            table.add_row(kind, *cells)
    return figures


def all_series() -> dict[str, Series]:
    """Everything that there is here, by where it is from."""
    captures: list[str | Path] = [*SHIPPED, *([MADE] if MADE.exists() else [])]
    found = {Path(capture).stem: captured_series(capture) for capture in captures}
    return {**found, DRAWN: drawn_series()}


def captured_series(capture: str | Path) -> Series:
    """The tensors of a capture by kind."""
    tensors: dict[str, dict[str, list[Floats]]] = defaultdict(lambda: defaultdict(list))
    activations = load_capture(capture).activations
    several = len({activation.epoch for activation in activations}) > 1
    for activation in activations:
        kind = _kind(activation.layer)
        if kind:
            layer = activation.layer if several else re.sub(r"\d+", "", activation.layer)
            tensors[kind][layer].append(_floats(activation))
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


def _kind(layer: str) -> str:
    return next((kind for pattern, kind in KINDS.items() if re.match(pattern, layer)), "")


def _floats(activation: Activation) -> Floats:
    values = activation.array.reshape(-1)
    return from_bf16(values) if activation.element_format == "bf16" else values


def from_bf16(words: npt.NDArray[np.uint16]) -> Floats:
    """The numbers in fp32, which has all of bf16's."""
    return words_of_bf16(words).view(np.float32)
