"""Static timing, on netlists whose slowest path is known by hand."""

from typing import Any

import pytest

from cdma.synth.errors import SynthError
from cdma.synth.gates.library import Library
from cdma.synth.gates.timing import slowest_path
from cdma.synth.gates.wire_load import WireLoad
from tests.synth.gates.netlists import CLOCK_TO_Q, SETUP, TAU_PS, netlist, unit_gates, written

CLOCK = 1


def flip_flop(d: int, q: int) -> tuple[str, dict[str, int]]:
    return "DFF", {"CK": CLOCK, "D": d, "Q": q}


def test_chain_of_inverters_between_flip_flops():
    chain = {f"inverter{k}": ("INV_X1", {"A": 10 + k, "Y": 11 + k}) for k in range(5)}
    cells = {"first": flip_flop(2, 10), **chain, "last": flip_flop(15, 16)}
    timing = slowest_path(netlist(cells, [CLOCK, 2], [16]), unit_gates())
    # Each stage drives one input of 1: the flip-flop 10 + 1, each inverter 1 + 1; and setup.
    assert timing.depth == 5
    assert timing.delay_ps == pytest.approx(5 * 2 * TAU_PS)
    assert timing.period_ps == pytest.approx((CLOCK_TO_Q + 1 + 5 * 2 + SETUP) * TAU_PS)
    assert timing.fmax_mhz == pytest.approx(1e6 / timing.period_ps)
    assert (timing.start, timing.end) == ("n10", "n16")


def test_fan_out_costs():
    cells = {
        "first": flip_flop(2, 10),
        "inverter": ("INV_X1", {"A": 10, "Y": 11}),
        **{f"last{k}": flip_flop(11, 20 + k) for k in range(8)},
    }
    timing = slowest_path(netlist(cells, [CLOCK, 2], []), unit_gates())
    assert timing.delay_ps == pytest.approx((1 + 8) * TAU_PS)


def test_wires_load_a_net_by_the_number_of_its_pins():
    cells = {
        "first": flip_flop(2, 10),
        "inverter": ("INV_X1", {"A": 10, "Y": 11}),
        **{f"last{k}": flip_flop(11, 20 + k) for k in range(8)},
    }
    module = netlist(cells, [CLOCK, 2], [])
    wires = WireLoad("wires", 0.5, ((1, 2.0), (4, 8.0)), 3.0)
    assert [wires.load_ff(pins) for pins in (0, 1, 2, 4, 8)] == [1, 1, 2, 4, 10]
    without, with_wires = (slowest_path(module, unit_gates(), load) for load in (None, wires))
    # The flip-flop drives a pin, the inverter eight; the clock's tree is made later.
    added = with_wires.period_ps - without.period_ps
    assert added == pytest.approx((wires.load_ff(1) + wires.load_ff(8)) * TAU_PS)


def test_ports_are_registered_on_their_other_side():
    cells = {"inverter": ("INV_X1", {"A": 2, "Y": 3})}
    timing = slowest_path(netlist(cells, [2], [3]), unit_gates())
    # An output drives four inverters.
    assert timing.period_ps == pytest.approx((CLOCK_TO_Q + 1 + 1 + 4 + SETUP) * TAU_PS)
    assert (timing.depth, timing.start, timing.end) == (1, "n2", "n3")


def test_longer_of_two_ways_counts():
    cells = {
        "first": flip_flop(2, 10),
        "inverter": ("INV_X1", {"A": 10, "Y": 11}),
        "both": ("NAND2", {"A": 11, "B": 10, "Y": 12}),
        "last": flip_flop(12, 13),
    }
    timing = slowest_path(netlist(cells, [CLOCK, 2], []), unit_gates())
    assert timing.depth == 2
    assert timing.delay_ps == pytest.approx((1 + 4 / 3 + 2 + 1) * TAU_PS, abs=0.1)


def test_macros_end_paths_and_begin_them():
    cells = {
        "before": ("INV_X1", {"A": 2, "Y": 3}),
        "memory": ("memory_macro", {"CLK": CLOCK, "WR_DATA": 3, "RD_DATA": 4}),
        "after": ("INV_X1", {"A": 4, "Y": 5}),
        "again": ("INV_X1", {"A": 5, "Y": 6}),
        "once_more": ("INV_X1", {"A": 6, "Y": 7}),
        "last": flip_flop(7, 8),
    }
    timing = slowest_path(netlist(cells, [CLOCK, 2], []), unit_gates())
    assert (timing.depth, timing.start, timing.end) == (3, "n4", "n8")


def test_loop_is_told():
    cells = {"a": ("INV_X1", {"A": 2, "Y": 3}), "b": ("INV_X1", {"A": 3, "Y": 2})}
    with pytest.raises(SynthError, match="combinational loop"):
        slowest_path(netlist(cells, [], []), unit_gates())


def test_nothing_is_told():
    with pytest.raises(SynthError, match="no path"):
        slowest_path(netlist({}, [], []), unit_gates())


def gated_netlist(behind: int, gate: str = "ICG_X1") -> dict[str, Any]:
    """An inverter from a flip-flop to the enable of a clock gate of so many flip-flops."""
    cells = {
        "first": flip_flop(2, 10),
        "inverter": ("INV_X1", {"A": 10, "Y": 11}),
        "gate": (gate, {"CK": CLOCK, "E": 11, "GCK": 12}),
        **{f"last{k}": ("DFF", {"CK": 12, "D": 2, "Q": 20 + k}) for k in range(behind)},
    }
    return netlist(cells, [CLOCK, 2], [])


def test_enable_must_be_earlier_by_what_its_gate_takes_to_clock_its_flip_flops():
    timing = slowest_path(gated_netlist(behind=8), unit_gates())
    # AND2 without load, and eight clock pins of 1.
    gate = 4 + 8
    assert timing.period_ps == pytest.approx((CLOCK_TO_Q + 1 + 1 + 1 + SETUP + gate) * TAU_PS)
    assert (timing.depth, timing.start, timing.end) == (1, "n10", "enable of n20")


def test_gated_clock_is_ideal():
    # From a flip-flop behind the gate to one that is not, as if both had the same clock.
    chain = {f"inverter{k}": ("INV_X1", {"A": 20 + k, "Y": 21 + k}) for k in range(8)}
    cells = {
        "gate": ("ICG_X1", {"CK": CLOCK, "E": 2, "GCK": 12}),
        "first": ("DFF", {"CK": 12, "D": 2, "Q": 20}),
        **chain,
        "last": flip_flop(28, 29),
    }
    timing = slowest_path(netlist(cells, [CLOCK, 2], []), unit_gates())
    assert timing.period_ps == pytest.approx((CLOCK_TO_Q + 1 + 8 * 2 + SETUP) * TAU_PS)
    assert (timing.start, timing.end) == ("n20", "n29")


def test_setup_is_that_of_the_slope_at_the_pin(tmp_path):
    text = unit_gates().path.read_text()
    table = """lu_table_template (by_slope) { variable_1 : constrained_pin_transition;
      variable_2 : related_pin_transition; index_1 ("0, 100"); index_2 ("0, 10"); }
    cell (INV_X1) {"""
    text = text.replace("cell (INV_X1) {", table, 1)
    text = text.replace(
        'rise_constraint (scalar) { values ("20.0"); }',
        'rise_constraint (by_slope) { values ("20, 1000", "60, 1000"); }',
    )
    # The inverter's rise takes 50 ps, its fall nothing.
    before, inverter, after = text.partition("cell (INV_X1) {")
    after = after.replace(
        'rise_transition (load) { values ("0, 0", "0, 0"); }',
        'rise_transition (load) { values ("50, 50", "50, 50"); }',
        1,
    )
    library = Library(written(tmp_path, before + inverter + after))
    cells = {
        "first": flip_flop(2, 10),
        "inverter": ("INV_X1", {"A": 10, "Y": 11}),
        "last": flip_flop(11, 12),
    }
    timing = slowest_path(netlist(cells, [CLOCK, 2], []), library)
    assert timing.period_ps == pytest.approx((CLOCK_TO_Q + 1 + 2 + SETUP) * TAU_PS + 20)


def test_rise_and_fall_have_loads_of_their_own(tmp_path):
    text = unit_gates().path.read_text()
    more = "capacitance : 1.000; fall_capacitance : 3.000;"
    library = Library(written(tmp_path, text.replace("capacitance : 1.000;", more)))
    chain = {f"inverter{k}": ("INV_X1", {"A": 10 + k, "Y": 11 + k}) for k in range(2)}
    cells = {"first": flip_flop(2, 10), **chain, "last": flip_flop(12, 13)}
    timing = slowest_path(netlist(cells, [CLOCK, 2], []), library)
    # The flip-flop's output falls onto 3, the next rises onto 1, and that falls onto a D of 3.
    assert timing.period_ps == pytest.approx((CLOCK_TO_Q + 3 + 1 + 1 + 1 + 3 + SETUP) * TAU_PS)


def test_nets_beyond_the_library_s_limits_are_counted(tmp_path):
    text = unit_gates().path.read_text().replace("max_capacitance : 32;", "max_capacitance : 7;")
    library = Library(written(tmp_path, text))
    for pins, beyond in ((7, 0), (8, 1)):
        cells = {
            "first": flip_flop(2, 10),
            "inverter": ("INV_X1", {"A": 10, "Y": 11}),
            **{f"last{k}": flip_flop(11, 20 + k) for k in range(pins)},
        }
        timing = slowest_path(netlist(cells, [CLOCK, 2], []), library)
        assert (timing.overloaded_nets, timing.steep_nets) == (beyond, 0)
    slow = text.replace('values ("0, 0", "0, 0")', 'values ("50, 50", "50, 50")')
    slow = slow.replace("default_max_transition : 1000", "default_max_transition : 40")
    timing = slowest_path(netlist(cells, [CLOCK, 2], []), Library(written(tmp_path, slow)))
    # The inverter's output and those of nine flip-flops.
    assert timing.steep_nets == 10


def test_paths_between_registers_alone():
    chain = {f"inverter{k}": ("INV_X1", {"A": 20 + k, "Y": 21 + k}) for k in range(4)}
    cells = {
        **chain,
        "first": flip_flop(24, 10),
        "inverter": ("INV_X1", {"A": 10, "Y": 11}),
        "last": flip_flop(11, 12),
    }
    module = netlist(cells, [CLOCK, 20], [12])
    assert slowest_path(module, unit_gates()).start == "n20"
    timing = slowest_path(module, unit_gates(), between_registers=True)
    assert (timing.start, timing.end, timing.depth) == ("n10", "n12", 1)
    assert timing.path == ("n10", "n11")
