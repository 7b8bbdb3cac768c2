"""`cdma synth`: figures of what was asked for, or one clear error."""

import json
from pathlib import Path

import pytest

from cdma.cli import main
from cdma.synth_report import units_of
from synth.library import UNIT_GATES
from synth.report import Row


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_json_has_a_row_for_each_component(capsys):
    arguments = ["synth", "token-bucket", "token-bucket", "--config", "tiny", "--json"]
    assert main(arguments) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["target"], output["library"]) == ("generic", "unit_gates")
    assert output["um2_per_gate"] == {"45nm": 0.798, "28nm": 0.367}
    assert output["buffer"]["mm2"] == {"1RW": 0.0905, "1R1W": 0.1847}
    (row,) = output["components"]
    assert (row["name"], row["config"]) == ("token-bucket", "tiny")
    assert row["parameters"]["units"] == 2
    assert row["cells"] > row["flip_flops"] > 0
    assert row["area_um2"] == pytest.approx(row["kge"] * 798, rel=0.001)
    assert row["area_um2_28nm"] == pytest.approx(row["kge"] * 367, rel=0.001)
    assert row["depth"] > 0
    assert row["fmax_mhz"] < 1e6 / row["delay_ps"]
    assert Path("build/synth/token-bucket/netlist.v").exists()


def test_a_library_by_path_gives_its_own_areas(capsys):
    # The same gates at two units of area each.
    text = UNIT_GATES.read_text().replace("library (unit_gates)", "library (other)")
    Path("other.lib").write_text(text)
    assert main(["synth", "token-bucket", "--config", "tiny", "--liberty", "other.lib"]) == 0
    printed = capsys.readouterr().out
    assert "Components in other" in printed
    assert "kGE: areas of NAND2, 1 µm²" in printed.replace("\n", " ")
    assert "token-bucket" in printed
    assert "paper's: 0.21 mm²" in printed.replace("\n", " ")
    assert "baseline" not in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no component given; name some of zvc-compressor, "),
        (["packet"], "unknown component 'packet'; choose one of zvc-compressor, "),
        (["packer", "--all"], "--all means every component; "),
        (["packer", "--target", "ecp6"], "unknown target 'ecp6'; choose generic or asic"),
        (["packer", "--target", "asic"], "--target asic needs a library; "),
        (["packer", "--target", "generic", "--liberty", "x.lib"], "leave --liberty away"),
        (["packer", "--liberty", "x.lib"], "cannot read the Liberty file x.lib: No such file"),
        (["packer", "--config", "huge"], "config must be one of titanx_gen3, "),
        (["--all", "--config", "huge"], "unknown configuration 'huge'; choose one of titanx_gen3"),
    ],
)
def test_bad_input_is_told_in_one_line(arguments, message, capsys):
    assert main(["synth", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("cdma: error: ")
    assert message in error
    assert error.count("\n") == 1


def test_what_is_no_liberty_is_told(capsys):
    Path("x.lib").write_text("library (x) {\n  cell (A) {\n")
    assert main(["synth", "packer", "--liberty", "x.lib"]) == 2
    assert "x.lib, line 3, is no Liberty: it ends early" in capsys.readouterr().err


def test_liberty_that_yosys_refuses_is_told_with_its_words(capsys):
    # Well formed, but no flip-flop that dfflibmap could use.
    text = UNIT_GATES.read_text().replace('next_state : "D";', 'next_state : "D & (";')
    Path("x.lib").write_text(text)
    assert main(["synth", "token-bucket", "--config", "tiny", "--liberty", "x.lib"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "Yosys failed: " in error
    assert error.endswith("see build/synth/token-bucket/yosys.log")


def row(name: str, area_um2: float, config: str = "titanx_gen3") -> Row:
    figures = dict.fromkeys(("cells", "flip_flops", "macro_bits", "depth"), 1)
    return Row(
        name=name,
        config=config,
        parameters={},
        kge=1.0,
        area_um2=area_um2,
        area_um2_28nm=None,
        delay_ps=1.0,
        fmax_mhz=1.0,
        slowest_path=["a", "b"],
        **figures,
    )


def test_units_are_a_compressor_and_a_decompressor_of_the_paper():
    pair = [row("zvc-line-compressor", 14_178), row("zvc-line-decompressor", 13_721)]
    units = units_of(pair)
    assert units is not None
    assert (units["pair_um2"], units["mm2"], units["paper_mm2"]) == (27_899, 0.154, 0.31)
    assert units_of(pair[:1]) is None
    assert units_of([pair[0], row("zvc-line-decompressor", 1, "wide")]) is None
