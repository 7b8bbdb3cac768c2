"""`cdma energy`: figures of what was asked for, or one clear error."""

import json

import pytest
from rich.console import Console

from cdma.cli import main
from cdma.commands.energy.report import Netlist, json_of, print_report
from cdma.hw.config import preset
from cdma.synth.gates.asic import Synthesis
from cdma.synth.gates.library import UNIT_GATES, Library
from cdma.synth.gates.timing import Timing
from cdma.synth.power.codec_energy import IDLE, STREAMING, Measurement
from cdma.synth.power.energy import Energy, RegisterEnergy

PARTS = ("clock_pins", "flip_flops_clock", "flip_flops_data", "nets", "gates", "clock_gates")


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["packer"], "unknown component 'packer'; choose one of zvc-line-compressor, zvc-line-d"),
        (["--density", "1.5"], "--density must be 0 to 1, not 1.5; give a share of elements"),
        (["--clock-mhz", "0"], "--clock-mhz must be above 0, not 0; give a clock in MHz"),
        (["--cycles", "0"], "--cycles must be 1 to 10000, not 0; 64 are enough"),
        (["--config", "huge"], "config must be one of titanx_gen3, "),
        (["--config", "tiny"], "lines of 8 B, and golden's have 128 B; choose another one"),
        (["--capture", "none"], "unknown capture 'none'; name one of digits-cnn, "),
        (["--liberty", "x.lib"], "cannot read the Liberty file x.lib: No such file"),
    ],
)
def test_bad_input_is_told_in_one_line(arguments, message, capsys):
    assert main(["energy", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("cdma: error: ")
    assert message in error
    assert error.count("\n") == 1


def netlist(*, clock_gating: bool, pj: float) -> Netlist:
    """A netlist that takes so much for each part."""
    synthesis = Synthesis(
        cells=100,
        flip_flops=40,
        area=500.0,
        kge=0.5,
        macros=[],
        timing=Timing(depth=3, period_ps=1250.0, delay_ps=900.0, start="a", end="b"),
        timing_with_wires=None,
        cell_counts={},
        clock_gates=3 if clock_gating else 0,
        gated_flip_flops=32 if clock_gating else 0,
        module={},
    )
    register = RegisterEnergy("held", 32, clock_gating, clocked=0.5, changed=0.25, clock_pj=0.125)
    measurements = [
        Measurement(
            "uniform", 0.38, state, nbytes, Energy(**dict.fromkeys(PARTS, pj)), 0.5, [register]
        )
        for state, nbytes in ((STREAMING, 32.0), (IDLE, 0.0))
    ]
    return Netlist("zvc-line-compressor", "titanx_gen3", clock_gating, synthesis, measurements)


def test_power_is_that_of_the_clock_and_leakage_does_not_scale_with_it():
    library = Library(UNIT_GATES)
    both = [netlist(clock_gating=False, pj=2.0), netlist(clock_gating=True, pj=0.5)]
    found = json_of(both, library, 500.0, preset("titanx_gen3"))
    assert (found["library"], found["volts"], found["clock_mhz"]) == ("unit_gates", 1.1, 500.0)
    plain, gated = found["netlists"]
    assert (plain["clock_gates"], gated["clock_gates"], gated["gated_flip_flops"]) == (0, 3, 32)
    streaming, idle = plain["measurements"]
    # Six parts of 2 pJ at 500 MHz, and half a milliwatt.
    assert streaming["power_mw"] == 6 * 2.0 * 0.5 + 0.5
    assert streaming["pj_per_byte"] == pytest.approx((6 * 2.0 + 1.0) / 32, abs=1e-4)
    assert streaming["parts_mw"] == {**dict.fromkeys(PARTS, 1.0), "leakage": 0.5}
    assert idle["pj_per_byte"] is None
    assert streaming["registers"][0]["name"] == "held"
    gain = found["gains"][0]
    assert (gain["name"], gain["load"], gain["state"]) == (plain["name"], "uniform", STREAMING)
    assert gain["power_mw"] == [6.5, 2.0]
    assert gain["gain"] == pytest.approx(1 - 2.0 / 6.5, abs=1e-4)
    assert json_of(both[:1], library, 500.0, preset("titanx_gen3"))["gains"] == []


def test_table_has_the_gain_and_what_is_too_slow(capsys):
    console = Console(width=160)
    both = [netlist(clock_gating=False, pj=2.0), netlist(clock_gating=True, pj=0.5)]
    print_report(console, both, Library(UNIT_GATES), 1000.0)
    printed = capsys.readouterr().out
    rows = [line.split() for line in printed.splitlines() if line.strip().startswith("uniform")]
    assert len(rows) == 4
    plain, gated, _idle, idle_gated = rows
    assert plain[1:6] == ["0.38", "streaming", "no", "32.0", "0.391"]
    assert gated[3:7] == ["yes", "32.0", "0.109", "3.50"]
    assert gated[-1] == idle_gated[-1] == "72%"
    assert "3 clock gates for 32 of 40 flip-flops; 0.50 kGE, 800 MHz, slower than 1000" in printed
    assert "held (32 bits): clocked in 50% of cycles, a bit changes in 25%" in printed


@pytest.mark.verify
def test_json_of_the_decompressor(capsys):
    arguments = ["--density", "0.38", "--clock-gating", "--cycles", "16", "--json"]
    assert main(["energy", "zvc-line-decompressor", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    (netlist,) = found["netlists"]
    assert netlist["clock_gating"]
    assert netlist["gated_flip_flops"] > 0
    loads = [(m["load"], m["state"]) for m in netlist["measurements"]]
    streaming = [("uniform", "streaming"), ("digits-cnn", "streaming")]
    assert loads == [*streaming, ("digits-cnn", "stalled"), ("digits-cnn", "idle")]
    uniform, capture, _stalled, idle = netlist["measurements"]
    assert uniform["density"] == pytest.approx(0.38, abs=0.02)
    assert 0.2 < capture["density"] < 0.8
    assert 0 < idle["power_mw"] < uniform["power_mw"]
    assert uniform["pj_per_byte"] == pytest.approx(
        uniform["power_mw"] / uniform["bytes_per_cycle"], rel=0.01
    )
