"""`cdma calibrate`: its file is a device that commands take; bad input leaves nothing behind."""

import json
from collections import Counter
from pathlib import Path

import pytest

from cdma.cli import main
from cdma.commands.calibrate.reference import DOCUMENT, document
from cdma.config import DEVICE, LINK, find, table_of
from tests.cdma.schemas.test_documents import faults
from tests.lib.paths import ROOT


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "device.json"], "device.json is no name of a device file; let it end in .toml"),
        (["--engine", "none"], "machine must be one of titanx_gen3"),
        (["--out", "missing/device.toml"], "missing"),
    ],
)
def test_bad_input_is_one_line(arguments, message, capsys):
    assert main(["calibrate", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert not list(Path().iterdir())


def test_a_file_that_exists_is_kept(capsys):
    Path("device.toml").write_text("mine")
    assert main(["calibrate"]) == 2
    assert "--force" in capsys.readouterr().err
    assert Path("device.toml").read_text() == "mine"


@pytest.mark.torch
def test_a_device_that_is_not_there_is_refused(capsys):
    assert main(["calibrate", "--on", "tpu"]) == 2
    assert "finds no device 'tpu' here; choose" in capsys.readouterr().err
    assert not list(Path().iterdir())


@pytest.mark.torch
@pytest.mark.verify
def test_the_file_is_a_device_that_plans_are_made_for(capsys):
    words = ["calibrate", "--on", "cpu", "--repeats", "1", "--name", "mine"]
    assert main([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert faults(report, "calibrate") == []
    device, link = find(DEVICE, "device.toml").value, find(LINK, "device.toml").value
    assert table_of(device) == report["configuration"]["device"]
    assert table_of(link) == report["configuration"]["link"]
    counted = Counter((timing["kind"], timing["narrow"]) for timing in report["timings"])
    for fit in report["layers"]:
        assert device.efficiency[fit["kind"]] == pytest.approx(fit["efficiency"], rel=1e-3)
        # Errors are those of the timings that the report prints.
        assert fit["timings"] == counted[fit["kind"], False]
    for fit in report["narrow_layers"]:
        found = device.narrow_efficiency[fit["kind"]]
        assert found == pytest.approx(fit["efficiency"], rel=1e-3)
        assert fit["timings"] == counted[fit["kind"], True]
    step = ["schedule", "--network", "digits_cnn", "--policy", "vdnn,comet", "--json"]
    assert main([*step, "--device", "device.toml", "--link", "device.toml"]) == 0
    assumed = json.loads(capsys.readouterr().out)["assumptions"]
    assert assumed["device"]["peak_flops"] == device.peak_flops
    assert assumed["efficiency_error"]["conv"] == device.efficiency_error["conv"]
    (codec,) = [each for each in assumed["codecs"] if each["name"] == "quantize-sm"]
    assert codec["raw_bytes_per_s"] == device.codec_bytes_per_s["quantize-sm"]


def test_page_is_what_its_generator_writes() -> None:
    assert (ROOT / DOCUMENT).read_text(encoding="utf-8") == document(), (
        f"generate it again: .venv/bin/python -m cdma.commands.calibrate.reference > {DOCUMENT}"
    )
