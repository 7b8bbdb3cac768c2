"""`cdma train`: `make test-torch`."""

import json
import re

import pytest

from cdma.builds.documents import body
from cdma.cli import main
from tests.lib.paths import ROOT

pytestmark = pytest.mark.torch

PAGE = ROOT / "docs" / "guide" / "plan" / "train.md"

MODULE = """
import torch
from torch import nn


def subject():
    torch.manual_seed(0)
    layers = [
        layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU())
    ]
    rows = torch.randn(256, 64)
    return nn.Sequential(*layers), rows, nn.functional.mse_loss, torch.randn(256, 64)


def wrong():
    return 1


def vector():
    return nn.Linear(4, 4), torch.randn(2, 4)
"""


@pytest.fixture(autouse=True)
def _module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net_of_test_train.py").write_text(MODULE)


def run(capsys, *arguments):
    status = main(["train", "net_of_test_train:subject", *arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_a_step_within_a_memory_through_the_rtl(capsys):
    _, free = run(capsys, "--memory", "3GB")
    assert free["planned_bytes"] == free["plain"]["allocator_bytes"]
    assert set(free["choices"]) == {"retain"}
    assert free["out"]["values"] == 0
    limit = 3 * free["planned_bytes"] // 4
    status, tight = run(capsys, "--memory", str(limit), "--policy", "joint")
    assert status == 0
    assert tight["differing"] == []
    # Loss, four layers of two parameters, four of two with three buffers each.
    assert tight["compared"] == 1 + 8 + 8 + 12
    assert tight["memory_bytes"] == limit
    assert tight["planned_bytes"] == tight["counted_bytes"] <= limit
    assert tight["allocator_bytes"] == pytest.approx(tight["planned_bytes"], rel=1e-3)
    assert tight["seconds"] >= tight["plain"]["seconds"]
    assert tight["out"]["values"] == tight["back"]["values"] > 0
    # A cycle is 16 bytes on the link.
    assert tight["out"]["cycles"] > tight["out"]["stream_bytes"] / 16
    swapped = [value for value in tight["values"] if value["choice"].startswith("swap")]
    assert sum(value["bytes"] for value in swapped) == tight["out"]["bytes"]
    assert sum(tight["choices"].values()) <= len(tight["values"])


def test_a_difference_is_exit_status_1(capsys, monkeypatch):
    from cdma.sim.swap.step.host_memory import EngineHost

    def damaged(self, out, arriving, data):
        data.fill_(1)

    monkeypatch.setattr(EngineHost, "get", damaged)
    arguments = ["train", "net_of_test_train:subject", "--memory", "3GB", "--policy", "vdnn"]
    assert main(arguments) == 1
    shown = capsys.readouterr()
    assert "differ." in shown.out
    assert "gradient of model.0.weight: differs from the step without a plan" in shown.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("net_of_test_train --memory 3GB", "has no name; write it as my_module:subject"),
        ("net_of_test_train:nothing --memory 3GB", "cannot find subject"),
        ("no_such_module:subject --memory 3GB", "cannot find subject"),
        ("net_of_test_train:wrong --memory 3GB", "must be a function that returns (module, exam"),
        ("net_of_test_train:vector --memory 3GB", "its output has shape (2, 4), and a loss has on"),
        ("net_of_test_train:subject --memory much", "is no number of bytes"),
        ("net_of_test_train:subject --memory 1kB", "does not fit into 1,000 bytes: the least"),
        ("net_of_test_train:subject --memory 3GB --policy none", "unknown policy 'none'"),
        ("net_of_test_train:subject --memory 3GB --policy joint-lossy", "loses something"),
        ("net_of_test_train:subject --memory 3GB --machine c2c", "c2c has 8 side by side; choose"),
    ],
)
def test_bad_input_is_one_line(capsys, arguments, message):
    assert main(["train", *arguments.split()]) == 2
    err = capsys.readouterr().err
    assert err.startswith("cdma: error: ")
    assert message in err
    assert err.count("\n") == 1


def test_the_page_names_every_key(capsys):
    _, report = run(capsys, "--memory", "3GB")
    text = PAGE.read_text()
    missing = [key for key in body(report) if not re.search(rf"`{key}`", text)]
    assert missing == []
