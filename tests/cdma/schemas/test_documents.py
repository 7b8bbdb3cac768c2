"""Every document of a command is valid against its schema, and says what made it.

The validator is the package `jsonschema`, which knows nothing of ours.
"""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import cdma.commands.board.command
from cdma.app import root
from cdma.builds.documents import VERSIONS
from cdma.cli import main
from cdma.plan.workload.capture.capture import Activation, Capture, load_capture
from cdma.schemas import SCHEMAS
from cdma.schemas.json_schema import json_schema
from cdma.synth.fpga.bitstream import Bitstream
from tests.cdma.schemas.instances import ELSEWHERE, INSTANCES, Instance, make_inputs
from tests.lib.paths import ROOT
from tests.lib.shares import configs

CONFIGURED = ("board", "config", "energy", "estimate", "largest", "replay", "schedule", "sidecar")
CONFIGURED += ("swap", "synth", "train")
"""Schemas whose documents have the tables that `--config` takes."""


@pytest.fixture(autouse=True)
def _with_inputs(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    make_inputs(tmp_path)
    capfd.readouterr()

    def build(board, config, folder):
        """Build nothing: it takes minutes."""
        return Bitstream(
            path=folder / "selftest.bit",
            size_bytes=1_234_567,
            luts=20_000,
            flip_flops=11_000,
            block_rams=0,
            capacity={"luts": 80_000, "flip_flops": 80_000, "block_rams": 208},
            clock_mhz=board.clock_hz / 1e6,
            fmax_mhz=51.234,
        )

    monkeypatch.setattr(cdma.commands.board.command, "build_bitstream", build)


def no_number(text: str) -> None:
    raise AssertionError(f"JSON has no number {text}")


def faults(document: dict, schema: str) -> list[str]:
    """What is wrong with a document, by its schema with no key that is not declared."""
    validator = Draft202012Validator(json_schema(SCHEMAS[schema], closed=True))
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]


def made_by(instance: Instance, capfd) -> dict:
    assert main(instance.arguments) == 0
    text = capfd.readouterr().out
    if instance.file:
        (path,) = Path().glob(instance.file)
        text = path.read_text(encoding="utf-8")
    document: dict = json.loads(text, parse_constant=no_number)
    return document


SLOW = {"sweep", "reproduce", "sidecar"}


@pytest.mark.parametrize("instance", configs(INSTANCES, quick=set(INSTANCES) - SLOW))
def test_documents_are_valid_and_say_what_made_them(instance, capfd):
    document = made_by(instance, capfd)
    assert faults(document, instance.schema) == []
    assert list(document)[:3] == ["schema", "version", "made_by"]
    assert (document["schema"], document["version"]) == (
        instance.schema,
        VERSIONS[instance.schema],
    )
    assert document["made_by"]["cdma"] == version("cdma-rtl")
    assert document["made_by"]["command"] == " ".join(("cdma", *instance.arguments))
    if instance.schema in CONFIGURED:
        assert document["configuration"]


@pytest.mark.verify
def test_energy_is_valid(capfd):
    words = ("energy", "zvc-line-decompressor", "--density", "0.5", "--cycles", "2", "--json")
    document = made_by(Instance("energy", words), capfd)
    assert faults(document, "energy") == []
    assert document["gains"]


@pytest.mark.torch
def test_train_is_valid(capfd, tmp_path):
    (tmp_path / "net_of_test_documents.py").write_text(
        "import torch\nfrom torch import nn\n\n\ndef subject():\n"
        "    layers = [nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)]\n"
        "    rows = torch.randn(64, 64)\n"
        "    return nn.Sequential(*layers), rows, nn.functional.mse_loss, torch.randn(64, 64)\n"
    )
    words = ("train", "net_of_test_documents:subject", "--memory", "3GB", "--json")
    document = made_by(Instance("train", words), capfd)
    assert faults(document, "train") == []
    assert set(document["configuration"]) == {"engine", "machine", "device", "link"}


def test_captures_are_valid(tmp_path):
    activation = Activation(
        name="a@epoch0", layer="a", kind="relu", epoch=0, array=np.zeros((2, 3), np.float32)
    )
    made = Capture(
        name="made", activations=(activation,), recipe={"history": []}, seeds={}, versions={}
    )
    shipped = (ROOT / "plan/workload/capture/captures").glob("*.json")
    for path in (made.save(tmp_path), *shipped):
        assert faults(json.loads(path.read_text(encoding="utf-8")), "capture") == []


def test_every_schema_and_every_json_option_has_a_run():
    """A new command with `--json` needs a schema, and a run above."""
    run = {instance.schema for instance in INSTANCES.values()}
    assert run | set(ELSEWHERE) == set(SCHEMAS) == set(VERSIONS)
    assert not run & set(ELSEWHERE)
    group = root()
    with_json = set()
    for name in group.commands:
        command = group.commands[name].load()
        for path, each in getattr(command, "commands", {"": command}).items():
            if any("--json" in parameter.opts for parameter in each.params):
                with_json.add((name, path) if path else (name,))
    lines = [i.arguments for i in INSTANCES.values() if "--json" in i.arguments]
    tested = {path for path in with_json if any(line[: len(path)] == path for line in lines)}
    assert with_json - tested == {("calibrate",), ("energy",), ("train",)}


def test_what_is_broken_is_refused(capfd):
    """The schemas say something: a document is refused for each of many small changes."""
    document = made_by(INSTANCES["swap, the codec alone"], capfd)
    assert faults(document, "swap") == []

    def broken(**changes) -> list[str]:
        return faults({**document, **changes}, "swap")

    assert broken(schema="estimate") == ["$.schema: 'swap' was expected"]
    assert broken(version=2) == ["$.version: 1 was expected"]
    assert broken(made_by={"cdma": "1"}) == ["$.made_by: 'command' is a required property"]
    assert broken(sector_bytes="32") == ["$.sector_bytes: '32' is not of type 'integer'"]
    assert broken(seed=True) == ["$.seed: True is not of type 'integer'"]
    assert "not of type 'array'" in broken(arrays={})[0]
    (array,) = document["arrays"]
    assert broken(arrays=[{**array, "ratio": "2"}])
    assert broken(arrays=[{**array, "faults": [1]}]) == [
        "$.arrays[0].faults[0]: 1 is not of type 'string'"
    ]
    assert broken(unheard_of=1)
    assert broken(configuration={"link": {"name": "x"}})
    assert broken(configuration={"lonk": {}})
    for key in document:
        without = {each: value for each, value in document.items() if each != key}
        assert faults(without, "swap") == [f"$: {key!r} is a required property"]
    # What a newer cdma may add is no fault to those who have the published schema.
    published = Draft202012Validator(json_schema(SCHEMAS["swap"]))
    assert published.is_valid({**document, "unheard_of": 1})
    assert not published.is_valid({**document, "seed": "0"})


def test_a_result_s_command_has_no_folders_of_the_machine(capfd, tmp_path):
    outside = tmp_path.parent / "outside.cz"
    outside.write_bytes(Path("a.cz").read_bytes())
    for path in (tmp_path / "a.cz", outside):
        document = made_by(Instance("inspect", ("inspect", str(path), "--json")), capfd)
        assert document["made_by"]["command"] == f"cdma inspect {path.name} --json"
    words = ("config", "show", "titanx_gen3", "--json", "--kind=engine")
    assert made_by(Instance("config", words), capfd)["made_by"]["command"].endswith("--kind=engine")


def test_captures_from_before_there_were_schemas_are_read(tmp_path):
    activation = Activation(
        name="a@epoch0", layer="a", kind="relu", epoch=0, array=np.ones((2, 3), np.float32)
    )
    path = Capture(name="old", activations=(activation,), recipe={}, seeds={}, versions={}).save(
        tmp_path
    )
    content = json.loads(path.read_text())
    del content["schema"]
    path.write_text(json.dumps({**content, "format": "cdma-capture", "version": 1}))
    assert load_capture(path).activations[0].density == 1.0
