"""Clock gating by Yosys, on small modules that do the same with it and without it."""

import numpy as np
import pytest

from cdma.synth.errors import SynthError
from cdma.synth.gates.asic import synthesize
from cdma.synth.gates.clock_gating import SMALLEST_GROUP, gating_steps
from cdma.synth.gates.library import UNIT_GATES, Library
from cdma.synth.gates.mapped import MappedNetlist
from cdma.synth.gates.simulation import Simulation
from cdma.synth.power.activity import Activity
from tests.synth.gates.netlists import unit_gates, written

# Registers of 40 bits with an enable; of 8 with an enable and a reset that goes before it; of 3
# with an enable of their own, too few for a gate; of 8 without an enable.
REGISTERS = """
module registers (
  input clk, rst, load, count, mark,
  input [39:0] data,
  output reg [39:0] held,
  output reg [7:0] counted, delayed,
  output reg [2:0] marked
);
  always @(posedge clk) begin
    if (load) held <= data;
    if (count) counted <= counted + data[7:0];
    if (rst) counted <= 8'd3;
    if (mark) marked <= data[2:0];
    delayed <= data[7:0];
  end
endmodule
"""
OUTPUTS = ("held", "counted", "delayed", "marked")


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("registers")
    return [
        synthesize(REGISTERS, "registers", unit_gates(), folder / str(gated), clock_gating=gated)
        for gated in (False, True)
    ]


def test_each_enable_of_enough_flip_flops_has_a_gate_of_its_size(both):
    plain, gated = both
    assert (plain.clock_gates, plain.gated_flip_flops) == (0, 0)
    assert plain.flip_flops == gated.flip_flops == 40 + 8 + 8 + 3
    assert (gated.clock_gates, gated.gated_flip_flops) == (2, 40 + 8)
    # X1 clocks 16 flip-flops in 80 ps, X4 52.
    gates = {name: n for name, n in gated.cell_counts.items() if name.startswith("ICG")}
    assert gates == {"ICG_X1": 1, "ICG_X4": 1}


def test_gates_take_the_place_of_multiplexers(both):
    plain, gated = both
    assert plain.cell_counts["MUX2"] >= 40 + 3
    assert gated.cell_counts["MUX2"] <= 3 + SMALLEST_GROUP
    assert gated.area < plain.area - 40 * 2


def test_both_do_the_same_and_a_gated_clock_rests(both):
    random = np.random.default_rng(1)
    simulations = [Simulation(MappedNetlist(synthesis.module, unit_gates())) for synthesis in both]
    activities = [Activity(simulation) for simulation in simulations]
    for _ in range(50):
        words = {
            name: random.integers(0, 2**64, bits, np.uint64)
            for name, bits in {"rst": 1, "load": 1, "count": 1, "mark": 1, "data": 40}.items()
        }
        # One in four, so that registers rest.
        words["load"] &= random.integers(0, 2**64, 1, np.uint64)
        for simulation, activity in zip(simulations, activities, strict=True):
            simulation.cycle(words, activity)
        for port in OUTPUTS:
            assert (simulations[0].read(port) == simulations[1].read(port)).all(), port
    simulation, activity = simulations[1], activities[1]
    (large,) = [gates for gates in simulation.clock_gates if gates.kind.name == "ICG_X4"]
    share = activity.pulses[large.clocks[0]] / activity.cycles
    assert share == pytest.approx(0.25, abs=0.03)


def test_reset_reaches_what_its_clock_gate_would_hold(both):
    simulation = Simulation(MappedNetlist(both[1].module, unit_gates()))
    some = np.array([0b1010], np.uint64)
    simulation.cycle({"rst": some, "count": np.zeros(1, np.uint64)})
    simulation.cycle({})
    assert simulation.read("counted").tolist() == [0b1010, 0b1010, 0, 0, 0, 0, 0, 0]


def test_library_without_a_clock_gate_is_told(tmp_path):
    text = UNIT_GATES.read_text().replace('"latch_posedge"', '"latch_negedge"')
    library = Library(written(tmp_path, text))
    assert library.clock_gates == []
    with pytest.raises(SynthError, match=r"has no clock gate .*; give a library with one, or"):
        gating_steps(library, "enables.v")
