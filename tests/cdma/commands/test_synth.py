"""`cdma synth`: figures of what was asked for, or one clear error."""

import io
import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
from rich.console import Console

from cdma.builds.documents import body
from cdma.cli import main
from cdma.commands.synth.report import (
    FpgaTarget,
    engine_of,
    fpga_json_of,
    print_fpga_report,
    print_report,
    units_of,
)
from cdma.synth.baseline import read_baseline
from cdma.synth.components import block, block_names
from cdma.synth.fpga.ecp5 import Routed
from cdma.synth.fpga.resources import Resources
from cdma.synth.gates.library import UNIT_GATES, Library
from cdma.synth.report import GateRow, fpga_row_of
from tests.lib.paths import ROOT

FIELDS = [field.name for field in fields(GateRow)]


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


def test_a_library_s_wire_load_gives_a_second_clock(capsys):
    head, brace, rest = UNIT_GATES.read_text().partition("library (unit_gates) {")
    wires = "wire_load (long) { capacitance : 1; slope : 2; fanout_length (1, 3); }"
    Path("wired.lib").write_text(f'{head}{brace}{wires} default_wire_load : "long";{rest}')
    arguments = ["synth", "crc32", "--config", "tiny"]
    assert main([*arguments, "--json"]) == 0
    (plain,) = json.loads(capsys.readouterr().out)["components"]
    assert plain["fmax_wire_load_mhz"] is None
    assert main([*arguments, "--liberty", "wired.lib", "--json"]) == 0
    (wired,) = json.loads(capsys.readouterr().out)["components"]
    # Another mapping: gates are sized for the wires.
    assert wired["fmax_mhz"] == pytest.approx(plain["fmax_mhz"], rel=0.1)
    assert wired["fmax_wire_load_mhz"] < wired["fmax_mhz"]
    assert main([*arguments, "--liberty", "wired.lib"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert " MHz wires " in printed
    assert f" {wired['fmax_mhz']:,.0f} {wired['fmax_wire_load_mhz']:,.0f} " in printed
    assert "wires: with the library's wire load long." in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no component given; name some of zvc-compressor, "),
        (["packet"], "unknown component 'packet'; choose one of zvc-compressor, "),
        (["packer", "--all"], "--all means every component; "),
        (
            ["packer", "--target", "ecp6"],
            "unknown target 'ecp6'; choose one of generic, asic, ecp5, ",
        ),
        (["packer", "--target", "asic"], "--target asic needs a library; "),
        (["packer", "--target", "generic", "--liberty", "x.lib"], "leave --liberty away"),
        (["packer", "--target", "ecp5", "--liberty", "x.lib"], "FPGA, without a library; leave"),
        (
            ["packer", "engine", "--target", "ice40"],
            "engine is a whole, which FPGAs have no room for; leave it away, or ",
        ),
        (["packer", "--speed", "8"], "--speed is of place and route; leave it away, or choose"),
        (["packer", "--target", "ice40", "--speed", "8"], "or choose --target ecp5"),
        (["packer", "--target", "gowin", "--seed", "2"], "--seed is of place and route; "),
        (["packer", "--target", "ecp5", "--speed", "9"], "must be one of 6, 7, 8, not 9"),
        (["packer", "--target", "ecp5", "--seed", "0"], "--seed"),
        (["packer", "--target", "ice40", "--opensta"], "--opensta is of gates; leave it away, or "),
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


def row(name: str, area_um2: float, config: str = "titanx_gen3") -> GateRow:
    figures = dict.fromkeys(("cells", "flip_flops", "macro_bits", "depth"), 1)
    return GateRow(
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


def test_engine_is_converted_as_a_whole_and_its_units_beside_it():
    parts = {"out_path.unit": 200.0, "in_path.unit": 400.0, "memory": 120.0, "": 280.0}
    shares = [{"name": name, "kge": kge} for name, kge in parts.items()]
    whole = replace(row("engine", 0.0), kge=1000.0, macro_bits=112_000, parts=shares)
    assert engine_of([row("packer", 0.0)]) is None
    assert engine_of([replace(whole, config="wide")]) is None
    engine = engine_of([row("packer", 0.0), whole])
    assert engine is not None
    # 1,000 kGE of 0.367 µm² on twice the area; 112,000 bits of 146 F² at 28 nm, of which 0.725 is.
    assert (engine["kge"], engine["units_kge"], engine["logic_mm2"]) == (1000, 600, 0.734)
    assert engine["macro_bits"] == 112_000
    assert engine["memory_mm2"] == {"1RW": 0.018, "1R1W": 0.036}
    assert engine["mm2"] == {"1RW": 0.75, "1R1W": 0.77}
    assert engine["paper_mm2"] == 0.52


def test_a_whole_has_a_table_of_its_parts(capsys):
    parts = [
        {"name": "unit", "count": 2, "kge": 7.5, "flip_flops": 10, "macro_bits": 64},
        {"name": "", "count": 1, "kge": 2.5, "flip_flops": 5, "macro_bits": 0},
    ]
    console = Console(width=200, file=io.StringIO())
    whole = replace(row("engine", 0.0), kge=10.0, parts=parts, overloaded_nets=3, steep_nets=1)
    print_report(console, [whole], Library(UNIT_GATES), "generic", {})
    text = " ".join(console.file.getvalue().split())
    assert "Parts of engine, each kind mapped once part number kGE % FFs RAM bits" in text
    assert "unit 2 7.5 75.0 10 64 between them 1 2.5 25.0 5 0" in text
    assert "engine: 3 nets have more load than the library's max_capacitance, and 1 slower" in text


def test_opensta_s_period_stands_beside_ours(capsys, monkeypatch):
    monkeypatch.setattr("cdma.commands.synth.command.opensta_period_ps", lambda *_: 512.04)
    arguments = ["synth", "token-bucket", "--config", "tiny", "--opensta"]
    assert main([*arguments, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["components"]
    own = row["opensta"]["own_period_ps"]
    assert row["opensta"]["period_ps"] == 512.04
    assert 100 < own <= 1e6 / row["fmax_mhz"] + 0.1
    assert main([*arguments, "--force"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    sentence = f"token-bucket: from register to register {own:,.1f} ps here, 512.0 by OpenSTA."
    assert sentence in printed


def test_a_second_library_is_another_corner(capsys):
    text = UNIT_GATES.read_text()
    slow = text.replace("library (unit_gates)", "library (slow)").replace('"1ps"', '"2ps"')
    Path("slow.lib").write_text(slow)
    arguments = ["synth", "token-bucket", "--config", "tiny"]
    arguments += ["--liberty", str(UNIT_GATES), "--liberty", "slow.lib"]
    assert main([*arguments, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["components"]
    (corner,) = row["corners"]
    assert (corner["library"], corner["fmax_wire_load_mhz"]) == ("slow", None)
    assert corner["fmax_mhz"] == pytest.approx(row["fmax_mhz"] / 2, rel=0.001)
    assert main([*arguments, "--force"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "MHz slow slowest path" in printed
    assert f" {row['fmax_mhz']:,.0f} {corner['fmax_mhz']:,.0f} " in printed


def test_committed_engine_is_beside_the_paper_s_as_documents_say():
    rows = [GateRow(**{key: kept.get(key) for key in FIELDS}) for kept in read_baseline().values()]
    engine = engine_of(rows)
    assert engine is not None
    text = f"{engine['mm2']['1RW']:.2f} to {engine['mm2']['1R1W']:.2f} mm²"
    for page in ("README.md", "docs/guide/silicon/synth.md"):
        assert text in (ROOT / page).read_text(encoding="utf-8"), f"{page} should say {text}"
    gated = f"With gated clocks it takes {engine['gated_kge']} kGE"
    assert gated in (ROOT / "docs/guide/silicon/synth.md").read_text(encoding="utf-8")


def test_all_on_an_fpga_are_those_that_are_no_wholes(monkeypatch, capsys):
    mapped = []

    def row_of_nothing(chosen, device, out):
        mapped.append(chosen.name)
        return fpga_row_of(chosen, Resources(1, 1, 1, 1, 0, 0, 0), "not routed")

    monkeypatch.setattr("cdma.commands.synth.command._fpga_row", row_of_nothing)
    assert main(["synth", "--all", "--target", "ice40", "--json"]) == 0
    assert mapped == [name for name in block_names() if name not in ("engine", "buddy")]


@pytest.mark.verify
def test_on_ecp5_a_row_has_luts_and_a_clock_with_wires(capsys):
    arguments = ["synth", "token-bucket", "--config", "tiny", "--target", "ecp5", "--speed", "6"]
    assert main([*arguments, "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["target"], output["device"], output["package"]) == (
        *("ecp5", "LFE5U-85F", "CABGA381"),
    )
    assert (output["speed"], output["seed"]) == (6, 1)
    (row,) = output["components"]
    assert (row["name"], row["config"]) == ("token-bucket", "tiny")
    assert row["luts"] > 2 * row["carries"] > 0
    assert row["cells"] > row["flip_flops"] > 0
    assert (row["kge"], row["area_um2"], row["no_fmax"]) == (None, None, None)
    folder = Path("build/synth/ecp5/token-bucket")
    report = json.loads((folder / "report.json").read_text())
    (clock,) = report["fmax"].values()
    assert row["fmax_mhz"] == round(clock["achieved"], 1)
    used = {kind: report["utilization"][kind]["used"] for kind in ("TRELLIS_COMB", "TRELLIS_FF")}
    # With the harness.
    assert used["TRELLIS_FF"] > row["flip_flops"]
    assert used["TRELLIS_COMB"] > row["luts"]
    assert len(row["slowest_path"]) == 2


@pytest.mark.verify
def test_other_families_are_counted_but_have_no_clock(capsys):
    assert main(["synth", "token-bucket", "--config", "tiny", "--target", "ice40", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert body(output).keys() == {
        *("target", "device", "package", "speed", "seed", "configuration", "components")
    }
    assert (output["target"], output["device"], output["speed"]) == ("ice40", None, None)
    (row,) = output["components"]
    assert row["luts"] > row["flip_flops"] > 0
    assert row["depth"] > 0
    assert (row["fmax_mhz"], row["no_fmax"]) == (None, "no place and route for ice40")


FOUND = Resources(cells=9, luts=100_000, flip_flops=3, carries=1, block_rams=0, dsps=0, depth=2)


def printed(rows, device, baseline=None) -> str:
    console = Console(width=200, file=io.StringIO())
    print_fpga_report(console, rows, device, baseline)
    return console.file.getvalue()


def test_what_does_not_fit_is_a_row_and_a_line_that_says_so():
    what = "does not fit an LFE5U-85F: 100,000 LUTs of 83,640"
    rows = [fpga_row_of(block("packer"), FOUND, what)]
    device = FpgaTarget("ecp5", 8, 2)
    text = printed(rows, device)
    assert "packer: no clock; it does not fit an LFE5U-85F: 100,000 LUTs of 83,640.\n" in text
    assert "100,000 " in text.split("packer")[1]
    assert "The baseline is of speed 8 and seed 1." in text
    (row,) = fpga_json_of(rows, device, {})["components"]
    assert (row["fmax_mhz"], row["no_fmax"]) == (None, what)


def test_changes_since_the_baseline_of_ecp5_are_told():
    before = fpga_row_of(block("packer"), FOUND, Routed(100.0, "a", "b"))
    slower = fpga_row_of(block("packer"), FOUND, Routed(80.0, "a", "b"))
    text = printed([slower], FpgaTarget("ecp5", 8, 1), {("packer", before.config): before.json()})
    assert "packer: fmax_mhz 100 → 80 (-20.0%) REGRESSION" in text
    assert "0 of 1 as in the baseline. Compared: luts, flip_flops, " in text
    assert "Regressions (above 5%, of fmax_mhz above " in text
