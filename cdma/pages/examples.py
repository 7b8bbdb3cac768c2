"""One example for each command, whose output its page shows."""

from collections.abc import Mapping
from dataclasses import dataclass, field

ARRAY = """import numpy as np

rng = np.random.default_rng(0)
np.save("relu.npy", np.maximum(rng.standard_normal((64, 56, 56), np.float32), 0))
"""
"""The program that makes the array of the examples."""

ENGINE = """[engine]
units = 3

[engine.codec]
sector_bytes = 64
"""


STEP = """import torch
from torch import nn
from torch.nn.functional import cross_entropy


def subject():
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (nn.Linear(128, 128), nn.ReLU())]
    target = torch.randint(128, (1024,))
    return nn.Sequential(*layers), torch.randn(1024, 128), cross_entropy, target
"""

NUMBER = r"[-+]?\d[\d,.]*(e[-+]?\d+)?"


@dataclass(frozen=True)
class Example:
    """The example on a command's page.

    Attributes
    ----------
    guide : str
        The page that explains the command, as a path from `docs/`.
    commands : tuple of str
        Command lines, carried out one after the other in an empty folder that has `relu.npy` and
        `files`.
    files : mapping
        Texts of files by their names.
    lines : int
        Of a command's output that many are shown, if it has more.
    has_torch : bool
        The example needs PyTorch.
    varies : tuple of str
        Regular expressions of what another machine prints otherwise, as a time that it took.
    sometimes : tuple of str
        Regular expressions of the beginnings of lines that another machine may not print.
    """

    guide: str
    commands: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    lines: int = 60
    has_torch: bool = False
    varies: tuple[str, ...] = ()
    sometimes: tuple[str, ...] = ()


PROFILE = "guide/buddy/buddy-profile.md"
COMMAND_LINE = "reference/command-line.md"

EXAMPLES: Mapping[str, Example] = {
    "board": Example("guide/silicon/board.md", ("cdma board ulx3s_85f --config tiny --out board",)),
    "buddy profile": Example(PROFILE, ("cdma buddy profile digits-cnn",)),
    "buddy replay": Example(
        "guide/buddy/buddy-replay.md",
        ("cdma buddy replay --data mixed --pattern random --accesses 2000",),
    ),
    "calibrate": Example(
        "guide/plan/calibrate.md",
        ("cdma calibrate --on cpu --name bench --repeats 3",),
        has_torch=True,
        # A processor may have a faster peak of bf16, or none.
        varies=(r"fp32(, \S+ of bf16)?", NUMBER),
        sometimes=(r"^ \w+, bf16 ", r"^ \w+ +autocast "),
        lines=80,
    ),
    "capture": Example(
        "guide/plan/capture.md",
        ("cdma capture digits-cnn --epochs 0,1 --out captures",),
        has_torch=True,
        # Sums are taken in another order by other processors.
        varies=(r"density \S+", r"(loss|accuracy) [\d.]+", r"\([\d,]+ B\)"),
    ),
    "completion": Example(COMMAND_LINE, ("cdma completion bash",)),
    "compress": Example(
        "reference/formats.md",
        ("cdma compress relu.npy relu.cz --codec zvc", "cdma inspect relu.cz"),
    ),
    "config check": Example(
        "guide/config.md", ("cdma config check engine.toml",), {"engine.toml": ENGINE}
    ),
    "config show": Example(
        "guide/config.md", ("cdma config show pcie4x16", "cdma config show v100")
    ),
    "decompress": Example(
        "reference/formats.md",
        ("cdma compress relu.npy relu.cz --codec zvc", "cdma decompress relu.cz back.npy"),
    ),
    "energy": Example(
        "guide/silicon/energy.md",
        (
            "cdma energy zvc-line-decompressor --density 0.38 --cycles 8 --no-clock-gating "
            "--out energy",
        ),
    ),
    "estimate": Example("guide/swap/estimate.md", ("cdma estimate --network nin --link pcie4x16",)),
    "generate": Example(
        "guide/silicon/generate.md",
        ("cdma generate zvc-line-compressor --config engine.toml --out rtl",),
        {"engine.toml": ENGINE},
    ),
    "inspect": Example(
        "reference/formats.md",
        ("cdma compress relu.npy relu.cz --codec xc", "cdma inspect relu.cz"),
    ),
    "list": Example(COMMAND_LINE, ("cdma list links", "cdma list codecs")),
    "report": Example(
        "guide/report.md",
        (
            "cdma estimate --network nin --json > nin.json",
            "cdma report nin.json --html nin.html",
        ),
        # The page holds versions of what made it.
        varies=(r"[\d,]+ bytes",),
    ),
    "reproduce": Example("guide/reproduce.md", ("cdma reproduce comet",)),
    "schedule": Example(
        "guide/plan/schedule.md",
        ("cdma schedule --network vgg16 --memory 9GB --policy vdnn,cdma,home+ --bound none",),
    ),
    "schema": Example("reference/json.md", ("cdma schema inspect",), lines=30),
    "swap": Example("guide/swap/swap.md", ("cdma swap relu.npy",)),
    "sweep": Example(
        "guide/sweep.md",
        ("cdma sweep estimate --network nin --link pcie3x16,pcie4x16",),
    ),
    "synth": Example("guide/silicon/synth.md", ("cdma synth token-bucket",)),
    "train": Example(
        "guide/plan/train.md",
        ("cdma train step:subject --memory 3MB",),
        {"step.py": STEP},
        has_torch=True,
    ),
    "value": Example(
        "guide/plan/value.md",
        (
            "cdma value --network nin --device titanxp --link pcie3x16,pcie4x16 --room 0.3 "
            "--evaluations 500",
        ),
    ),
}
"""By the command's name, behind that of its group."""
