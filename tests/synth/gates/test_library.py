"""Libraries: units, tables, and the cells that synthesis needs."""

import pytest

from cdma.synth.gates.cell import EDGES, ClockGate, State, Table
from cdma.synth.gates.liberty import LibertyError
from cdma.synth.gates.library import UNIT_GATES, Library
from cdma.synth.gates.timing import gating_ps
from cdma.synth.gates.wire_load import WireLoad
from tests.synth.gates.netlists import TAU_PS, unit_gates, written


def test_unit_gates_are_gate_equivalents():
    library = unit_gates()
    assert library.nand2.name == "NAND2"
    assert library.nand2.area == 1
    assert {name: round(cell.area * 3) for name, cell in library.cells.items()} == {
        # Columns: pairs of transistors and the gap beside them.
        **{"INV_X1": 2, "INV_X4": 5, "BUF_X1": 3, "BUF_X4": 7, "NAND2": 3, "NOR2": 3, "AND2": 4},
        **{"OR2": 4, "XOR2": 6, "XNOR2": 6, "AOI21": 4, "OAI21": 4, "MUX2": 7, "DFF": 17},
        **{"ICG_X1": 13, "ICG_X4": 16, "ICG_X16": 34},
    }


def test_unit_inverter_that_drives_four_takes_five_tau():
    library = unit_gates()
    (arc,) = library.inverter.arcs["Y"]
    assert library.port_load_ff == 4
    assert arc.delay["rise"].at(0, library.port_load_ff) == pytest.approx(5 * TAU_PS)
    assert arc.causes == {"rise": ("fall",), "fall": ("rise",)}


def test_unit_gates_of_several_stages_are_the_sum_of_them():
    """Logical effort: each stage its parasitic delay and the next one's input as load."""
    cells = unit_gates().cells

    def stages(*gates: tuple[str, str]) -> float:
        delay = 0.0
        for (name, _pin), (following, pin) in zip(gates, [*gates[1:], ("", "")], strict=True):
            load = cells[following].inputs[pin] if following else 0.0
            delay += cells[name].arcs["Y"][0].delay["rise"].at(0, load)
        return delay

    def alone(name: str) -> float:
        return cells[name].arcs["Y"][0].delay["rise"].at(0, 0)

    assert alone("BUF_X1") == stages(("INV_X1", "A"), ("INV_X1", "A"))
    assert alone("AND2") == stages(("NAND2", "A"), ("INV_X1", "A"))
    assert alone("OR2") == stages(("NOR2", "A"), ("INV_X1", "A"))
    # To the nearest 0.1 ps, as they stand in the file.
    assert alone("XOR2") == pytest.approx(stages(("NOR2", "A"), ("AOI21", "C")), abs=0.1)
    assert alone("XNOR2") == pytest.approx(stages(("NAND2", "A"), ("OAI21", "C")), abs=0.1)


def test_tables_are_bilinear_and_go_on_beyond_their_ends():
    table = Table((0, 10), (0, 4), ((1, 5), (11, 25)))
    assert table.at(0, 0) == 1
    assert table.at(5, 2) == (1 + 5 + 11 + 25) / 4
    assert table.at(10, 8) == 39
    assert Table((0,), (0,), ((7,),)).at(3, 3) == 7


CELLS = """
library (small) {{
  time_unit : "1ns";
  capacitive_load_unit (1, pf);
  lu_table_template (t) {{
    variable_1 : total_output_net_capacitance;
    variable_2 : input_net_transition;
    index_1 ("0, 1, 2");
    index_2 ("0, 1");
  }}
  cell (B) {{ area : 3; pin (I) {{ direction : input; capacitance : 0.002; }}
    pin (Z) {{ direction : output; function : "I"; }} }}
  cell (N) {{ area : 2; pin (I) {{ direction : input; capacitance : 0.001; }}
    pin (Z) {{ direction : output; function : "I'";
      timing () {{ related_pin : "I"; timing_sense : negative_unate;
        cell_rise (t) {{ values ("1, 2", "3, 4", "5, 6"); }}
        cell_fall (t) {{ values ("1, 2", "3, 4", "5, 6"); }}
        rise_transition (t) {{ values ("0, 0", "0, 0", "0, 0"); }}
        fall_transition (t) {{ values ("0, 0", "0, 0", "0, 0"); }} }} }} }}
  {more}
}}
"""

NAND = """cell (D) { area : 4; pin (X) { direction : input; } pin (Y) { direction : input; }
  pin (Z) { direction : output; function : "X' + Y'"; } }"""
FLIP_FLOP = """cell (F) { area : 16; ff (Q, QN) { clocked_on : "C"; next_state : "D"; }
  pin (C) { direction : input; } pin (D) { direction : input; }
  pin (Q) { direction : output; function : "Q"; } }"""


def test_cells_are_known_by_their_function_and_figures_are_ps_and_ff(tmp_path):
    library = Library(written(tmp_path, CELLS.format(more=NAND + FLIP_FLOP)))
    assert (library.driver.name, library.inverter.name) == ("B", "N")
    assert (library.nand2.name, library.flip_flop.name) == ("D", "F")
    assert library.flip_flop.clock == "C"
    assert library.port_load_ff == 4 * 1.0
    (arc,) = library.inverter.arcs["Z"]
    # Its first axis is the load.
    assert arc.delay["rise"].at(1000, 2000) == 6000
    assert arc.delay["rise"].at(0, 1000) == 3000


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        (FLIP_FLOP, "has no NAND2, the unit of gate equivalents"),
        (NAND, "has no plain flip-flop"),
        (NAND.replace("4", "0") + FLIP_FLOP, "has a NAND2 without area"),
    ],
)
def test_what_is_missing_is_told(tmp_path, more, cause):
    with pytest.raises(LibertyError, match=f"{cause}; give a library of standard cells"):
        Library(written(tmp_path, CELLS.format(more=more)))


def test_unit_gates_energy_inside_is_that_of_their_parasitic_delay():
    """A node's capacitance in inverters is what it delays in tau; half of C V^2 at each edge."""
    library = unit_gates()
    assert library.volts == 1.1
    for name in ("INV_X1", "BUF_X1", "NAND2", "NOR2", "AND2", "OR2", "XOR2", "AOI21", "OAI21"):
        kind = library.cells[name]
        assert [energy.related for energy in kind.energies] == list(kind.inputs)
        (arc, *_), (energy, *_) = kind.arcs["Y"], kind.energies
        tau = arc.delay["rise"].at(0, 0) / TAU_PS
        for edge in EDGES:
            assert energy.energy[edge].at(0, 0) == pytest.approx(tau * 0.605, abs=0.01)


def test_unit_clock_gates_are_as_late_as_the_and_of_their_drive():
    cells = unit_gates().cells
    assert [kind.name for kind in unit_gates().clock_gates] == ["ICG_X1", "ICG_X4", "ICG_X16"]
    smallest = cells["ICG_X1"]
    assert smallest.gate == ClockGate(enable="E", clock="CK", output="GCK")
    assert gating_ps(smallest, 7) == cells["AND2"].arcs["Y"][0].delay["rise"].at(0, 7)
    assert gating_ps(cells["ICG_X4"], 8) == gating_ps(cells["ICG_X16"], 32) == (7 + 2) * TAU_PS


POWERS = """cell (G) { area : 20; cell_leakage_power : 3; ff (Q, QN) { clocked_on : "C";
    next_state : "D"; clear : "R"; }
  pin (C) { direction : input; internal_power () { when : "D";
      power (e) { values ("1, 3"); } } }
  pin (D) { direction : input; }
  pin (R) { direction : input; }
  pin (Q) { direction : output; function : "Q"; internal_power () { related_pin : "C R";
      rise_power (scalar) { values ("5"); } } } }
  power_lut_template (e) { variable_1 : input_transition_time; index_1 ("0, 1"); }
  voltage_unit : "100mV"; leakage_power_unit : "1uW"; nom_voltage : 12;"""


def test_energies_are_fj_and_leakage_is_nw(tmp_path):
    library = Library(written(tmp_path, CELLS.format(more=NAND + FLIP_FLOP + POWERS)))
    assert library.volts == pytest.approx(1.2)
    kind = library.cells["G"]
    assert kind.leakage_nw == 3000
    # What has a reset of its own is not known as a plain flip-flop.
    assert kind.state == State("Q", "QN", "")
    assert library.flip_flop.state == State("Q", "QN", "D")
    found = [(e.pin, e.related, e.when) for e in kind.energies]
    assert found == [("C", "", "D"), ("Q", "C", ""), ("Q", "R", "")]
    # 0.1 V squared and pF are 10 fJ; a nanosecond is 1000 ps.
    clock, output, _reset = kind.energies
    assert clock.energy["fall"].at(500, 0) == pytest.approx(2 * 10)
    assert output.energy["rise"].at(0, 0) == pytest.approx(5 * 10)
    assert output.energy["fall"].at(0, 0) == 0


@pytest.mark.parametrize(
    ("more", "cause"),
    [
        ('voltage_unit : "1kV";', "has a voltage_unit of '1kV', which is unknown"),
        (
            "cell (I) { clock_gating_integrated_cell : latch_posedge; }",
            "has a clock gate I without one clock_gate_enable_pin, one clock_gate_clock_pin, one",
        ),
    ],
)
def test_what_is_unknown_is_told(tmp_path, more, cause):
    with pytest.raises(LibertyError, match=f"{cause}.*; give a library of standard cells"):
        Library(written(tmp_path, CELLS.format(more=NAND + FLIP_FLOP + more)))


WIRES = """
  wire_load ("small") {
    capacitance : 0.25;
    slope : 3;
    fanout_length (1, 2.5);
    fanout_length (3, 6.5);
  }
  wire_load ("large") { capacitance : 1; slope : 5; fanout_length (1, 10); }
  default_wire_load : "small";
"""


def test_wire_load_is_the_default_one(tmp_path):
    assert unit_gates().wire_load is None
    text = UNIT_GATES.read_text()
    head, brace, rest = text.partition("library (unit_gates) {")
    library = Library(written(tmp_path, head + brace + WIRES + rest))
    assert library.wire_load == WireLoad("small", 0.25, ((1, 2.5), (3, 6.5)), 3.0)


def test_wire_load_without_a_length_is_told(tmp_path):
    head, brace, rest = UNIT_GATES.read_text().partition("library (unit_gates) {")
    bare = 'wire_load (bare) { capacitance : 1; }\n default_wire_load : "bare";'
    with pytest.raises(LibertyError, match="has a wire load bare without a length; give"):
        Library(written(tmp_path, head + brace + bare + rest))
