"""The clocks that reports quote: those of the committed figures, said where more is assumed."""

import pytest

from cdma.sim.machine import MACHINES
from cdma.synth.baseline import read_baseline
from cdma.synth.components import block_names
from cdma.synth.gates.clock import BUDDY, CODEC, ENGINE, WIRES_LEAVE, clock_note

ALL = [ENGINE, CODEC, BUDDY]


@pytest.mark.parametrize("reached", ALL, ids=lambda reached: reached.component)
def test_quoted_clocks_are_the_baseline_s(reached):
    rows = {name: row for (name, _config), row in read_baseline().items()}
    assert reached.component in block_names()
    assert reached.mhz == rows[reached.component]["fmax_mhz"]


def test_a_note_names_what_the_clock_is_of():
    note = clock_note(1e9, ENGINE)
    assert "does not clock at 1 GHz yet" in note
    assert f"the engine as a whole reaches {ENGINE.mhz:.0f} MHz" in note
    assert "unit gates (no wires)" in note


def test_what_is_reached_without_wires_only_is_not_reached_yet():
    reached_hz = ENGINE.mhz * 1e6
    assert clock_note(1.01 * reached_hz, ENGINE).startswith("The RTL does not clock at")
    assert clock_note(reached_hz, ENGINE).startswith("With wires, the RTL does not clock at")


def test_no_note_where_the_rtl_clocks_that_fast_with_wires():
    assert clock_note(WIRES_LEAVE * ENGINE.mhz * 1e6, ENGINE) == ""
    assert clock_note(50e6, CODEC) == ""


def test_every_machine_assumes_more_than_is_reached():
    # When this fails, the sentences of docs and README about the clock have to go.
    assert all(clock_note(machine.clock_hz, ENGINE) for machine in MACHINES.values())
