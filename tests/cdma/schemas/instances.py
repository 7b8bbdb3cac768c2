"""A small run of every command that prints or writes a JSON document."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cdma.cli import main

STEP = ("--network", "digits_cnn", "--policy", "vdnn,cdma")
POINT = ("--network", "digits_cnn", "--device", "titanx", "--link", "pcie3x16", "--room", "0.3")
POINTS = ("--evaluations", "20", "--jobs", "1", "--results", "points")


@dataclass(frozen=True)
class Instance:
    """A run of a command.

    Attributes
    ----------
    schema : str
        Of what it prints, or writes.
    arguments : tuple of str
    file : str
        A pattern for the one file with the document; empty if it is printed.
    """

    schema: str
    arguments: tuple[str, ...]
    file: str = ""


INSTANCES: Mapping[str, Instance] = {
    "board": Instance("board", ("board", "ulx3s_85f", "--json")),
    "config": Instance("config", ("config", "show", "titanx_gen3", "--json")),
    "estimate": Instance("estimate", ("estimate", "--network", "digits_cnn", "--json")),
    "estimate, a sweep": Instance(
        "estimate", ("estimate", "--network", "digits_cnn", "--sweep", "units=2,6", "--json")
    ),
    "estimate, a lossy codec": Instance(
        "estimate",
        (
            *("estimate", "--network", "digits_cnn", "--codec", "quantize", "--bound", "0.25"),
            "--json",
        ),
    ),
    "inspect": Instance("inspect", ("inspect", "a.cz", "--json")),
    "inspect, a codec with parameters": Instance("inspect", ("inspect", "xc.cz", "--json")),
    "list": Instance("list", ("list", "--json")),
    "profile": Instance("profile", ("buddy", "profile", "a.npy", "--sweep-threshold", "--json")),
    "replay": Instance(
        "replay",
        (
            *("buddy", "replay", "--config", "tiny", "--accesses", "200", "--data", "a.npy"),
            *("--sweep", "link", "--json"),
        ),
    ),
    "reproduce": Instance("reproduce", ("reproduce", "buddy", "--json")),
    "schedule": Instance("schedule", ("schedule", *STEP, "--json")),
    "schedule, several efficiencies": Instance(
        "schedule", ("schedule", *STEP, "--efficiency", ".5,1", "--bound", "none", "--json")
    ),
    "schedule, on the RTL": Instance(
        "schedule",
        (
            *("schedule", "--network", "digits_cnn", "--batch", "2", "--policy", "vdnn-conv,comet"),
            *("--bound", "none", "--run", "--json"),
        ),
    ),
    "schedule, largest batches": Instance(
        "largest", ("schedule", *STEP, "--memory", "2MB", "--largest-batch", "--json")
    ),
    "schedule, timelines": Instance(
        "trace", ("schedule", *STEP, "--trace", "trace.json"), "trace.json"
    ),
    "sidecar": Instance("sidecar", ("generate", "zvc-compressor", "--out", "rtl"), "rtl/*.json"),
    "sidecar of an IP folder": Instance(
        "sidecar",
        ("generate", "zvc-compressor", "--ip", "--out", "rtl"),
        "rtl/zvc_compressor/rtl/*.json",
    ),
    "swap": Instance("swap", ("swap", "a.npy", "--json")),
    "swap, the codec alone": Instance("swap", ("swap", "a.npy", "--engine", "codec", "--json")),
    "swap, saved": Instance(
        "swap", ("swap", "a.npy", "--engine", "codec", "--save", "saved"), "saved/swap.json"
    ),
    "sweep": Instance(
        "sweep",
        (
            *("sweep", "--results", "points", "--jobs", "1", "--json"),
            *("estimate", "--network", "digits_cnn", "--link", "pcie3x16,pcie4x16"),
        ),
    ),
    "sweep, a point": Instance(
        "sweep-point",
        (
            *("sweep", "--results", "points", "--jobs", "1"),
            *("estimate", "--network", "digits_cnn", "--link", "pcie3x16"),
        ),
        "points/*.json",
    ),
    "synth": Instance("synth", ("synth", "token-bucket", "--config", "tiny", "--json")),
    "synth, an FPGA": Instance(
        "synth", ("synth", "token-bucket", "--config", "tiny", "--target", "ice40", "--json")
    ),
    "value": Instance("value", ("value", *POINT, *POINTS, "--json")),
    "value, a point": Instance("sweep-point", ("value", *POINT, *POINTS), "points/*.json"),
}
"""Runs of a few seconds each. What takes longer, or needs PyTorch, has tests of its own."""

ELSEWHERE: Mapping[str, str] = {
    "calibrate": "PyTorch",
    "capture": "PyTorch",
    "energy": "synthesis of a codec",
    "train": "PyTorch",
}
"""Schemas that none of `INSTANCES` has, and what their commands need."""


def make_inputs(folder: Path) -> None:
    """Write the files that the runs read."""
    random = np.random.default_rng(0)
    array = (random.random((16, 64)) > 0.6).astype(np.float32)
    np.save(folder / "a.npy", array)
    for name, options in (("a", ()), ("xc", ("--codec", "xc", "--element-format", "fp32"))):
        files = (str(folder / "a.npy"), str(folder / f"{name}.cz"))
        assert main(["compress", *files, *options]) == 0
