"""JSON objects of the commands, as the tests of the report take them: real ones, and small."""

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from cdma.cli import main

COMMANDS: dict[str, tuple[str, ...]] = {
    "schedule": (
        *("schedule", "--network", "alexnet", "--memory", "2.2GB", "--epoch", "45"),
        *("--policy", "oracle,vdnn,vdnn-conv,cdma,vdnn++,superneurons,capuchin"),
    ),
    "largest": (
        *("schedule", "--network", "digits_cnn", "--policy", "oracle,vdnn"),
        *("--memory", "6MB", "--largest-batch"),
    ),
    "estimate": ("estimate", "--network", "alexnet", "--sweep", "units=4,6"),
    "value": (
        *("value", "--network", "squeezenet", "--device", "titanxp", "--room", "0.3"),
        *("--link", "pcie3x16/4,pcie3x16,nvlink4", "--evaluations", "20", "--jobs", "1"),
    ),
    "profile": ("buddy", "profile", "heat", "--sweep-threshold"),
    "synth": ("synth", "token-bucket", "--config", "tiny", "--force"),
}
"""A command for each kind of document that needs no RTL to be simulated."""


@cache
def result(kind: str) -> dict[str, Any]:
    """What a command of `COMMANDS` prints."""
    found: dict[str, Any] = json.loads(_printed(*COMMANDS[kind], "--json"))
    return found


@cache
def trace() -> dict[str, Any]:
    """The file that `cdma schedule --trace` writes, of the step of `schedule`."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        _printed(*COMMANDS["schedule"], "--json", "--trace", str(path))
        found: dict[str, Any] = json.loads(path.read_text())
    return found


def _printed(*arguments: str) -> str:
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.echo", lambda text, **_: said.append(text))
        with TemporaryDirectory() as folder:
            patch.chdir(folder)
            assert main(arguments) == 0
    return said[-1]


def swap() -> dict[str, Any]:
    """An object as `cdma swap` prints it, of two arrays and the whole engine, without running it:
    `tests/cdma/commands/test_swap.py` holds the command to these keys."""
    figures = {
        "bytes": 4096,
        "density": 0.25,
        "compressed_bytes": 1152,
        "ratio": 4096 / 1152,
        "cycles_out": 411,
        "cycles_in": 399,
        "bytes_per_cycle_out": 4096 / 411,
        "bytes_per_cycle_in": 4096 / 399,
        "bit_exact": True,
        "largest_error": None,
        "exact_values": None,
        "not_finite_values": None,
        "baseline_ratios": {"rle": 2.5, "csr": 1.5},
        "link_seconds_raw": 2.56e-07,
        "link_seconds_compressed": 7.2e-08,
        "swap_out_seconds": 4.11e-07,
        "swap_in_seconds": 3.99e-07,
        "link_utilization_out": 0.2,
        "link_utilization_in": 0.3,
        "dram_read_bytes_per_s": 1e10,
        "buffer_high_water_bytes": None,
        "stall_cycles": None,
        "status": "DONE",
    }
    array = {"dtype": "float32", "shape": [32, 32], "element_bytes": 4, "parameters": {}, **figures}
    array |= {"latency_cycles_out": 500, "latency_cycles_in": 480, "crc32": 1, "faults": []}
    return {
        "engine": "dma",
        "machine": "titanx_gen3",
        "throttle": "none",
        "codec": "zvc",
        "bound": None,
        "round_to": None,
        "sector_bytes": 32,
        "stalls": 0.0,
        "seed": 0,
        "layout": None,
        "link": {"name": "titanx_gen3", "bytes_per_s": 1.6e10},
        "clock_hz": 1e9,
        "configuration": {"engine": {"units": 6}},
        "arrays": [{"name": "a.npy", **array}, {"name": "b.npy", **array}],
        "total": {
            **figures,
            "bytes": 8192,
            "compressed_bytes": 2304,
            "buffer_high_water_bytes": 2048,
            "stall_cycles": {"link_backpressure": 12, "dram": 7},
        },
    }
