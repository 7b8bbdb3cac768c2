"""The self-test as it is on boards, its UART read bit by bit."""

import re
from dataclasses import asdict

import pytest
from amaranth.back import verilog

from cdma.hw.config import PRESETS
from cdma.hw.emit.verilog import Verilog
from cdma.hw.selftest.config import SelfTestConfig
from cdma.hw.selftest.selftest import SelfTest
from tests.hw.cocotb import simulate
from tests.hw.cocotb.builds import built
from tests.hw.cocotb.selftest.bench import Scenario

BENCH = "rounds_are_told_as_the_model_has_them"
BAUD = 115_200
TITANX, TINY = PRESETS["titanx_gen3"].codec, PRESETS["tiny"].codec


def scenario(codec, **more):
    more = {"lines": 16, "bit_cycles": 2, "watchdog_cycles": 1024, **more}
    return Scenario(codec=asdict(codec), **more)


def without_assertions(text: str) -> str:
    """Verilog-2005 has none; Verilator keeps them."""
    text, count = re.subn(r"\bassert \((\w+|\\\S+ )\);", ";", text)
    assert count, "assertions look other than expected"
    return text


def build(simulator: str, chosen: Scenario) -> simulate.Build:
    config = SelfTestConfig(
        codec=chosen.config,
        clock_hz=BAUD * chosen.bit_cycles,
        lines=chosen.lines,
        watchdog_cycles=chosen.watchdog_cycles,
    )
    # Amaranth's own conversion, as for boards.
    text = verilog.convert(
        SelfTest(config), name="selftest", emit_src=False, strip_internal_attrs=True
    )
    if simulator == "icarus":
        text = without_assertions(text)
    return built(simulator, Verilog("selftest", text, {}))


def run(simulator, chosen, folder):
    simulate.run(
        build(simulator, chosen),
        BENCH,
        chosen,
        folder,
        module="tests.hw.cocotb.selftest.bench",
    )


@pytest.mark.verify
def test_rounds_faults_and_hangs_on_icarus(tmp_path):
    run("icarus", scenario(TINY, rounds=6, faults=(2,), stuck=(4,)), tmp_path)


@pytest.mark.verify
def test_each_fault_is_seen_on_verilator(tmp_path):
    faults = tuple(number for number in range(2, 80) if number % 3 != 1)
    stuck = (10, 13, 40, 43, 44)
    faults = tuple(number for number in faults if number not in stuck)
    run("verilator", scenario(TITANX, rounds=80, faults=faults, stuck=stuck), tmp_path)
