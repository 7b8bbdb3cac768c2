"""Energies of small netlists, by hand."""

import numpy as np
import pytest

from cdma.synth.errors import SynthError
from cdma.synth.gates.bitwise import Words
from cdma.synth.gates.cell import Table
from cdma.synth.gates.library import UNIT_GATES, Library
from cdma.synth.gates.mapped import MappedNetlist
from cdma.synth.gates.simulation import Simulation
from cdma.synth.power.activity import Activity
from cdma.synth.power.energy import EnergyModel, interpolated
from tests.synth.gates.netlists import netlist, unit_gates, written

CLOCK, DATA, ENABLE, GATED = 1, 2, 3, 4

FF = 0.5 * 1.1**2
"""fJ per fF and edge."""

ALL, NONE = np.array([2**64 - 1], np.uint64), np.array([0], np.uint64)
Cells = dict[str, tuple[str, dict[str, int]]]


def measured(cells: Cells, library: Library, cycles: list[dict[str, Words]], warm_up: int = 1):
    """Model, simulation, and the activity of all cycles but the first ones."""
    mapped = MappedNetlist(netlist(cells, [CLOCK, DATA, ENABLE], []), library)
    mapped.ports |= {"data": [DATA], "enable": [ENABLE]}
    simulation = Simulation(mapped)
    activity = Activity(simulation)
    for index, inputs in enumerate(cycles):
        simulation.cycle(inputs, activity if index >= warm_up else None)
    return EnergyModel(mapped), simulation, activity


def test_chain_that_toggles_in_each_cycle():
    cells = {
        "first": ("DFF", {"CK": CLOCK, "D": DATA, "Q": 10}),
        "inverter": ("INV_X1", {"A": 10, "Y": 11}),
        "last": ("DFF", {"CK": CLOCK, "D": 11, "Q": 12}),
    }
    # Three cycles until the last register toggles too.
    toggling = [{"data": ALL if k % 2 else NONE} for k in range(13)]
    model, simulation, activity = measured(cells, unit_gates(), toggling, warm_up=3)
    energy = model.energy(simulation, activity)
    # Two clock pins of 1 fF, two edges each.
    assert energy.clock_pins == pytest.approx(2 * 2 * 1 * FF / 1000)
    assert energy.flip_flops_clock == pytest.approx(2 * 2 * 2.118 / 1000)
    assert energy.flip_flops_data == pytest.approx(2 * 5.748 / 1000)
    # The inputs of the flip-flops and the inverter, 1 fF each. Nothing takes the last output.
    assert energy.nets == pytest.approx(3 * 1 * FF / 1000)
    assert energy.gates == pytest.approx(0.605 / 1000)
    assert energy.clock_gates == 0
    assert energy.total == pytest.approx(sum(energy.parts.values()))
    assert energy.clock == pytest.approx(energy.clock_pins + energy.flip_flops_clock)


def test_gated_clock_takes_energy_only_when_it_is_enabled():
    cells: Cells = {
        "gate": ("ICG_X4", {"CK": CLOCK, "E": ENABLE, "GCK": GATED}),
        **{f"held{k}": ("DFF", {"CK": GATED, "D": DATA, "Q": 10 + k}) for k in range(5)},
    }
    # The clock rises in three cycles of four, those after an enable.
    enables = [ALL, ALL, ALL, NONE, ALL]
    model, simulation, activity = measured(
        cells, unit_gates(), [{"data": NONE, "enable": enable} for enable in enables]
    )
    energy = model.energy(simulation, activity)
    assert activity.pulses[simulation.clocks[GATED]] == 3 * 64
    assert energy.clock_pins == pytest.approx(5 * 2 * FF * 3 / 4 / 1000)
    assert energy.flip_flops_clock == pytest.approx(5 * 2 * 2.118 * 3 / 4 / 1000)
    # Its own clock pin and inverters in each cycle, its output in three, its enable's two edges.
    gate = 2 * 2.333 * FF + 2 * 1.513 + 2 * 6.05 * 3 / 4 + 2 * 2.42 / 4
    assert energy.clock_gates == pytest.approx(gate / 1000)
    assert energy.nets == pytest.approx(1 * 2 / 4 * FF / 1000)
    (register, *_) = model.registers(simulation, activity)
    assert (register.bits, register.gated, register.changed) == (1, True, 0)
    assert register.clocked == 0.75
    assert register.clock_pj == pytest.approx((2 * FF + 2 * 2.118) * 3 / 4 / 1000)


CONDITIONS = """
library (conditions) {
  time_unit : "1ps"; voltage_unit : "1V"; capacitive_load_unit (1, ff); nom_voltage : 1;
  leakage_power_unit : "1nW";
  power_lut_template (load) { variable_1 : total_output_net_capacitance; index_1 ("0, 10"); }
  cell (B) { area : 1; pin (I) { direction : input; } pin (Z) { direction : output;
    function : "I"; } }
  cell (N) { area : 1; pin (I) { direction : input; } pin (Z) { direction : output;
    function : "!I"; } }
  cell (D) { area : 1; cell_leakage_power : 7;
    pin (X) { direction : input; } pin (Y) { direction : input; }
    pin (Z) { direction : output; function : "!(X & Y)";
      internal_power () { related_pin : "X"; rise_power (load) { values ("1, 11"); }
        fall_power (scalar) { values ("100"); } }
      internal_power () { related_pin : "Y"; rise_power (scalar) { values ("3"); }
        fall_power (scalar) { values ("200"); } } } }
  cell (F) { area : 1; cell_leakage_power : 5; ff (Q, QN) { clocked_on : "C"; next_state : "D"; }
    pin (C) { direction : input;
      internal_power () { when : "!D & !Q"; rise_power (scalar) { values ("1"); }
        fall_power (scalar) { values ("10"); } }
      internal_power () { when : "D & Q"; rise_power (scalar) { values ("2"); }
        fall_power (scalar) { values ("20"); } }
      internal_power () { when : "!D & Q"; fall_power (scalar) { values ("30"); } }
      internal_power () { when : "D & !Q"; fall_power (scalar) { values ("40"); } } }
    pin (D) { direction : input;
      internal_power () { when : "C"; power (scalar) { values ("300"); } }
      internal_power () { when : "!C"; power (scalar) { values ("500"); } } }
    pin (Q) { direction : output; function : "Q";
      internal_power () { related_pin : "C"; power (scalar) { values ("1000"); } } }
    pin (P) { direction : output; function : "QN";
      internal_power () { related_pin : "C"; power (scalar) { values ("2000"); } } } }
  cell (G) { area : 1; clock_gating_integrated_cell : latch_posedge;
    pin (C) { direction : input; clock_gate_clock_pin : true;
      internal_power () { when : "!E & !O"; rise_power (scalar) { values ("1"); }
        fall_power (scalar) { values ("10"); } }
      internal_power () { when : "E & !O"; fall_power (scalar) { values ("20"); } } }
    pin (E) { direction : input; clock_gate_enable_pin : true;
      internal_power () { when : "C & O"; power (scalar) { values ("300"); } }
      internal_power () { when : "C & !O"; power (scalar) { values ("400"); } } }
    pin (O) { direction : output; clock_gate_out_pin : true;
      internal_power () { related_pin : "C"; when : "E"; rise_power (scalar) { values ("5000"); }
        fall_power (scalar) { values ("6000"); } }
      internal_power () { related_pin : "C"; when : "!E"; fall_power (scalar) { values ("7000"); }
      } } }
}
"""


@pytest.fixture
def conditions(tmp_path) -> Library:
    return Library(written(tmp_path, CONDITIONS))


def energies_of(cells: Cells, library: Library, inputs: list[dict[str, Words]]) -> list[float]:
    """Clock's and data's in fJ inside of flip-flops, gates', clock gates', in the last cycle."""
    mapped = MappedNetlist(netlist(cells, [CLOCK, DATA, ENABLE], []), library)
    mapped.ports |= {"data": [DATA], "enable": [ENABLE]}
    simulation = Simulation(mapped)
    for words in inputs[:-1]:
        simulation.cycle(words)
    activity = Activity(simulation)
    simulation.cycle(inputs[-1], activity)
    energy = EnergyModel(mapped).energy(simulation, activity)
    parts = (energy.flip_flops_clock, energy.flip_flops_data, energy.gates, energy.clock_gates)
    return [round(part * 1000, 6) for part in parts]


@pytest.mark.parametrize(
    ("data", "clock_fj", "data_fj"),
    [
        # Nothing changes: by the value that is held.
        ([NONE, NONE, NONE], 1 + 10, 0),
        ([ALL, ALL, ALL], 2 + 20, 0),
        # The input has changed after the rise: the clock falls on other data.
        ([NONE, NONE, ALL], 1 + 40, 300),
        ([ALL, ALL, NONE], 2 + 30, 300),
        # The outputs change at the rise, which has no energy of its own then.
        ([NONE, ALL, ALL], 0 + 20, 1000 + 2000),
        ([ALL, NONE, NONE], 0 + 10, 1000 + 2000),
        ([NONE, ALL, NONE], 0 + 30, 300 + 1000 + 2000),
    ],
)
def test_conditions_of_a_flip_flop_are_asked_before_and_after_its_edge(
    conditions, data, clock_fj, data_fj
):
    # Both outputs count, though nothing is connected to one.
    cells = {"flip_flop": ("F", {"C": CLOCK, "D": DATA, "Q": 10})}
    inputs = [{"data": NONE}, *({"data": word} for word in data)]
    if data[0] is ALL:
        inputs = [{"data": ALL}, {"data": ALL}, *inputs[1:]]
    assert energies_of(cells, conditions, inputs)[:2] == [clock_fj, data_fj]


@pytest.mark.parametrize(
    ("enable", "gate_fj", "flip_flop_fj"),
    [
        ([NONE, NONE], 1 + 10, 500),
        ([NONE, ALL], 1 + 400 + 20, 500),
        ([ALL, ALL], 5000 + 6000, 1 + 40 + 300),
        ([ALL, NONE], 5000 + 300 + 7000, 1 + 40 + 300),
    ],
)
def test_clock_gate_and_what_is_behind_it(conditions, enable, gate_fj, flip_flop_fj):
    cells = {
        "gate": ("G", {"C": CLOCK, "E": ENABLE, "O": GATED}),
        "flip_flop": ("F", {"C": GATED, "D": DATA, "Q": 10}),
    }
    # The flip-flop's input changes in the last cycle, while its clock is high or rests.
    inputs = [{"data": NONE, "enable": word} for word in enable]
    inputs[-1]["data"] = ALL
    clock, data, _gates, gate = energies_of(cells, conditions, inputs)
    assert gate == gate_fj
    assert clock + data == flip_flop_fj


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        # Z rises after X alone, with a load of 4 fF: 1 + 0.4 · 10; after Y alone; after both.
        ((1, 1), (0, 1), 5),
        ((1, 1), (1, 0), 3),
        ((1, 1), (0, 0), (5 + 3) / 2),
        ((0, 1), (1, 1), 100),
        ((0, 0), (1, 1), 150),
        ((0, 0), (0, 1), 0),
    ],
)
def test_output_takes_what_the_inputs_that_changed_say(tmp_path, before, after, expected):
    text = CONDITIONS.replace("pin (I) { direction : input; }", "pin (I) { direction : input; "
                              "capacitance : 4; }")  # fmt: skip
    library = Library(written(tmp_path, text))
    cells = {"gate": ("D", {"X": DATA, "Y": ENABLE, "Z": 10}), "load": ("N", {"I": 10, "Z": 11})}
    cells["unused"] = ("F", {"C": CLOCK, "D": 12, "Q": 13})
    inputs = [
        {"data": ALL if x else NONE, "enable": ALL if y else NONE} for x, y in (before, after)
    ]
    assert energies_of(cells, library, inputs)[2] == expected


def test_an_output_is_loaded_by_what_is_behind_it_and_charged_for_what_is_inside(tmp_path):
    text = CONDITIONS.replace(
        "pin (I) { direction : input; }", "pin (I) { direction : input; capacitance : 4; }"
    )
    library = Library(written(tmp_path, text))
    cells: Cells = {"gate": ("D", {"X": DATA, "Y": ENABLE, "Z": 10})}
    mapped = MappedNetlist(netlist(cells, [CLOCK, DATA, ENABLE], [10]), library)
    mapped.ports |= {"data": [DATA], "enable": [ENABLE]}
    simulation = Simulation(mapped)
    simulation.cycle({"data": ALL, "enable": ALL})
    activity = Activity(simulation)
    simulation.cycle({"data": NONE}, activity)
    energy = EnergyModel(mapped).energy(simulation, activity)
    # Four inverters of 4 fF: 1 + 1.6 · 10 in the table, and no pin inside.
    assert energy.gates * 1000 == pytest.approx(1 + 16)
    assert energy.nets == 0


def test_leakage_is_that_of_all_cells(conditions):
    cells = {
        "flip_flop": ("F", {"C": CLOCK, "D": DATA, "Q": 10}),
        "gate": ("D", {"X": 10, "Y": 10, "Z": 11}),
    }
    mapped = MappedNetlist(netlist(cells, [CLOCK, DATA], []), conditions)
    assert EnergyModel(mapped).leakage_mw == pytest.approx((5 + 7) * 1e-6)


def test_library_without_voltage_is_told(tmp_path):
    text = UNIT_GATES.read_text().replace("nom_voltage : 1.1;", "")
    library = Library(written(tmp_path, text))
    with pytest.raises(SynthError, match=r"has no nom_voltage.*; give a library with it"):
        EnergyModel(MappedNetlist(netlist({}, [], []), library))


def test_tables_of_many_points_are_as_of_one():
    table = Table((0, 10, 40), (1, 4), ((1, 5), (11, 25), (0, 2)))
    random = np.random.default_rng(1)
    slopes, loads = random.uniform(-5, 60, 40), random.uniform(-1, 9, 40)
    expected = [table.at(slope, load) for slope, load in zip(slopes, loads, strict=True)]
    assert interpolated(table, slopes, loads) == pytest.approx(expected)
    flat = Table((0,), (0,), ((7,),))
    assert interpolated(flat, slopes, loads).tolist() == [7] * 40
