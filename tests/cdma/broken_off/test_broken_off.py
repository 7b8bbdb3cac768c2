"""Wherever a command is broken off, no input is lost and no output half-written."""

import json
import subprocess
import sys

import numpy as np
import pytest

from cdma.cli import main
from tests.lib.paths import ROOT
from tests.lib.shares import names

COMMANDS = {
    "compress": ("compress", "a.npy", "out.cz"),
    "compress with XC": ("compress", "b.npy", "out.cz", "--codec", "xc"),
    "compress with a bound": (
        "compress",
        "a.npy",
        "o.cz",
        "--codec",
        "quantize",
        "--bound",
        "0.25",
    ),
    "decompress": ("decompress", "a.cz", "out.npy"),
    "generate": ("generate", "token-bucket", "--out", "rtl"),
    "generate a large file": ("generate", "zvc-compressor", "--config", "tiny", "--out", "rtl"),
    "generate --ip": ("generate", "packer", "--config", "tiny", "--ip", "--out", "ip"),
    "schedule --trace": (
        *("schedule", "--network", "nin", "--memory", "1GB", "--policy", "vdnn", "--bound", "none"),
        *("--trace", "out.json"),
    ),
    "buddy profile --heat-map": ("buddy", "profile", "a.npy", "--heat-map", "out.png"),
    "report": ("report", "profile.json", "--html", "out.html"),
}

FEW, MANY = 30, 1010
"""Runs in `make test`, and in `make verify`, where all commands together have more than 10,000."""


@pytest.fixture
def inputs(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "inputs"
    folder.mkdir()
    monkeypatch.chdir(folder)
    values = np.random.default_rng(0).standard_normal((8, 16, 16), np.float32)
    np.save("a.npy", np.maximum(values, 0))
    np.save("b.npy", (values.view(np.uint32) >> 16).astype(np.uint16))
    assert main(("compress", "a.npy", "a.cz")) == 0
    capsys.readouterr()
    assert main(("buddy", "profile", "a.npy", "--json")) == 0
    (folder / "profile.json").write_text(capsys.readouterr().out)
    return folder


def broken_off(folder, count, arguments, program=("-m", "tests.cdma.broken_off.runs")):
    command = [sys.executable, *program, str(folder), str(count), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", names(COMMANDS, quick=["compress", "decompress", "generate --ip"]))
def test_nothing_is_lost_or_half_written(name, inputs):
    found = broken_off(inputs.parent, FEW, COMMANDS[name])
    assert found["faults"] == []
    assert found["early"] > FEW / 2


@pytest.mark.verify
@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_lost_at_any_place(name, inputs):
    found = broken_off(inputs.parent, MANY, COMMANDS[name])
    assert found["faults"] == []
    assert found["runs"] > 0.9 * MANY
    assert found["early"] > 0.9 * found["runs"]


IN_PLACE = """
import runpy
import cdma.commands.compress as compress
compress.open_atomically = lambda path, mode="wb", *, force: open(path, mode)
runpy.run_module("tests.cdma.broken_off.runs", run_name="__main__")
"""


def test_a_command_that_writes_in_place_is_found(inputs):
    found = broken_off(inputs.parent, FEW, COMMANDS["compress"], ("-c", IN_PLACE))
    faults = " ".join(found["faults"])
    assert "full at byte" in faults
    assert "killed at byte" in faults
    assert "out.cz is half-written" in faults
