"""`cdma list`: every name that something takes, from the registry that takes it."""

import json

import pytest

from cdma import golden
from cdma.builds.documents import VERSIONS
from cdma.cli import main
from cdma.config import KINDS
from cdma.hw.components import component_names
from cdma.names import NAME_KINDS
from cdma.plan.policies.registry import POLICIES
from cdma.plan.workload import capture_names
from cdma.reproduce import PAPERS
from cdma.synth.board.boards import board_names

EXPECTED = {
    "components": component_names(),
    "presets": [*KINDS["engine"].presets, *KINDS["buddy"].presets],
    **{f"{kind}s": list(KINDS[kind].presets) for kind in ("machine", "device", "link", "throttle")},
    "networks": list(KINDS["network"].presets),
    "policies": list(POLICIES),
    "codecs": list(golden.codec_names()),
    "captures": capture_names(),
    "boards": board_names(),
    "papers": list(PAPERS),
    "element-formats": ["bf16", "fp32", "fp16", "e4m3", "e5m2"],
    "metadata-caches": ["paper_3_2", "paper_table2", "slice", "tiny"],
    "schemas": list(VERSIONS),
}


def output_of(capsys, *arguments):
    assert main(["list", *arguments]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_every_kind_has_the_names_of_its_registry(capsys):
    kinds = json.loads(output_of(capsys, "--json"))["kinds"]
    found = {kind["name"]: [each["name"] for each in kind["names"]] for kind in kinds}
    # A name that is both an engine's and a controller's is there once.
    assert found == {kind: list(dict.fromkeys(names)) for kind, names in EXPECTED.items()}
    # Of whatever files may have a table, there are names.
    taken_by = {option for kind in kinds for option in kind["taken_by"]}
    assert taken_by >= {option for kind in KINDS.values() for option in kind.options}
    for kind in kinds:
        assert all(each["about"] and "\n" not in each["about"] for each in kind["names"])
        assert list(kind) == ["name", "about", "taken_by", "names"]


def test_all_names_are_told_kind_by_kind(capsys):
    lines = output_of(capsys).splitlines()
    assert [line.split()[0] for line in lines] == list(NAME_KINDS)
    assert "networks (--network): alexnet, overfeat, " in lines[list(NAME_KINDS).index("networks")]
    for line, names in zip(lines, EXPECTED.values(), strict=True):
        assert line.partition(": ")[2].split(", ") == list(dict.fromkeys(names))


@pytest.mark.parametrize("kind", list(NAME_KINDS))
def test_a_kind_has_a_line_for_each_name(capsys, kind):
    lines = output_of(capsys, kind).splitlines()
    assert [line.split()[0] for line in lines] == list(dict.fromkeys(EXPECTED[kind]))
    assert all(len(line.split()) > 1 for line in lines)


def test_phrases_are_the_registries(capsys):
    assert "12.15 TFLOP/s, 548 GB/s, 12 GB; cDMA, §VI" in output_of(capsys, "devices")
    assert "Finds the lines in a dense stream\n" in output_of(capsys, "components")
    codecs = output_of(capsys, "codecs")
    assert "Zero-value compression of elements of 4, 2 or 1 bytes; in engines, too\n" in codecs
    assert "in engines" not in next(line for line in codecs.splitlines() if line[:3] == "rle")
    presets = output_of(capsys, "presets")
    assert "engine: 6 units of 32 B per cycle, zvc, raw, latency paper" in presets
    (tiny,) = (line for line in presets.splitlines() if line.startswith("tiny "))
    assert "engine: 2 units" in tiny
    assert "buddy controller: 32 B per cycle" in tiny


def test_a_registered_codec_is_listed(capsys):
    def make(element_bytes=4):
        """A codec of somebody's."""
        return golden.codec("raw", element_bytes)

    with golden.registered("theirs", make):
        assert "theirs        A codec of somebody's\n" in output_of(capsys, "codecs")


def test_unknown_kind(capsys):
    assert main(["list", "network"]) == 2
    assert "there is no kind 'network'; did you mean 'networks'?" in capsys.readouterr().err
