"""Static timing, on netlists whose slowest path is known by hand."""

from typing import Any

import pytest

from cdma.synth.errors import SynthError
from cdma.synth.gates.timing import slowest_path
from cdma.synth.gates.wire_load import WireLoad
from tests.synth.gates.netlists import CLOCK_TO_Q, SETUP, TAU_PS, netlist, unit_gates

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
