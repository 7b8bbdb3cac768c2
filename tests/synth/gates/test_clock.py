"""The clocks that reports quote: those of the committed figures, said where more is assumed."""

import pytest

from cdma.sim.machine import MACHINES
from cdma.synth.components import block_names
from cdma.synth.gates.clock import BUDDY, CODEC, ENGINE, UNIT_GATES, ReachedClock, clock_note
from cdma.synth.report import read_baseline

ALL = [ENGINE, CODEC, BUDDY]


def baseline_mhz(reached: ReachedClock) -> float:
    rows = {name: row for (name, _config), row in read_baseline().items()}
    return rows[reached.component]["fmax_mhz"]


@pytest.mark.parametrize("reached", ALL, ids=lambda reached: reached.component)
def test_quoted_clocks_are_the_baseline_s(reached):
    assert reached.component in block_names()
    # NanGate45 does not come with the package; unit gates are within a fifth of it.
    tolerance = 0.001 if reached.library == UNIT_GATES else 0.2
    assert reached.mhz == pytest.approx(baseline_mhz(reached), rel=tolerance)
    assert reached.wire_load_mhz is None or reached.wire_load_mhz < reached.mhz


def test_a_note_names_what_the_clock_is_of():
    note = clock_note(1e9, ENGINE)
    assert "does not clock at 1 GHz yet" in note
    assert "the engine, less its units and memory ports," in note
    assert f"reaches {ENGINE.mhz} MHz" in note
    assert "NanGate45 (typical, no wires)" in note


def test_no_note_where_the_rtl_clocks_that_fast():
    assert clock_note(ENGINE.mhz * 1e6, ENGINE) == ""
    assert clock_note(50e6, CODEC) == ""


def test_every_machine_assumes_more_than_is_reached():
    # When this fails, the sentences of docs and README about the clock have to go.
    assert all(clock_note(machine.clock_hz, ENGINE) for machine in MACHINES.values())
