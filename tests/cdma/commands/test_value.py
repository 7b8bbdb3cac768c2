"""`cdma value`: the map as table, JSON and picture."""

import json

import pytest

from cdma.builds.documents import body
from cdma.cli import main

STEP = ("--network", "alexnet", "--device", "titanxp", "--evaluations", "100", "--jobs", "1")
LINKS = ("--link", "pcie3x16,pcie3x16/4", "--room", "0,0.5", "--results", "points")


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("cdma.terminal.progress.SHOWN_AFTER_S", 1e6)


def value_json(capsys, *arguments: str):
    assert main(["value", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_shards_fill_a_map_that_any_of_them_prints(capsys, tmp_path):
    first = value_json(capsys, *STEP, *LINKS, "--shard", "1/2")
    assert (first["points"], first["computed"]) == (4, 2)
    assert main(["value", *STEP, *LINKS, "--shard", "1/2"]) == 0
    assert "2 of 4 points are not computed yet" in capsys.readouterr().out
    whole = value_json(capsys, *STEP, *LINKS, "--shard", "2/2")
    assert whole["computed"] == 4
    assert list(body(whole)) == ["points", "computed", "break_even_gain", "values", "rows"]
    assert len(list((tmp_path / "points").iterdir())) == 4
    for row in whole["rows"]:
        # The slower link first.
        assert list(row["gains"]) == ["pcie3x16/4", "pcie3x16"]
        of_row = [v for v in whole["values"] if v["point"]["room"] == row["room"]]
        for value in of_row:
            gain = value["without_seconds"] / value["with_seconds"] - 1
            assert value["gain"] == row["gains"][value["point"]["link"]] == pytest.approx(gain)
        assert row["worth_it"] == any(gain >= 0.02 for gain in row["gains"].values())


def test_the_table_and_the_picture_have_every_step(capsys, tmp_path):
    assert main(["value", *STEP, *LINKS, "--plot", "map.png"]) == 0
    text = capsys.readouterr().out
    assert text.count("alexnet 256 fp32") == 2
    assert "pcie3x16/4" in text
    assert "break-even at 2 %" in text
    assert (tmp_path / "map.png").read_bytes()[:4] == b"\x89PNG"
    assert main(["value", *STEP, *LINKS, "--plot", "map.png"]) == 2
    assert "map.png" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--network", "vgg20"), "unknown network 'vgg20'"),
        (("--device", "z80"), "unknown device 'z80'"),
        (("--link", "pcie3x16/x"), "has no number of devices"),
        (("--codec", "lz4"), "unknown codec 'lz4' of an engine"),
        (("--room", "2"), "--room must be numbers of 0 to 1, as 0,0.3, not '2'"),
        (("--precision", "fp8"), "unknown precision 'fp8'; choose from fp32, bf16, autocast"),
        (("--shard", "0/2"), "--shard must be as 1/4, the first part of four, not '0/2'"),
        (("--shard", "3/2"), "shard must be 1/2 to 2/2, not 3/2"),
        (("--break-even", "0"), "--break-even must be more than 0, not 0.0"),
        (("--jobs", "0"), "--jobs must be -1 or at least 1, not 0"),
        (("--epoch", "90"), "epoch must be 0 to 89, not 90"),
        (("--plot", "map.jpg"), "--plot writes PNG, SVG or PDF, not 'map.jpg'"),
    ],
)
def test_bad_input_is_told_in_one_line(capsys, arguments, message):
    assert main(["value", "--results", "points", *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert message in told.err
