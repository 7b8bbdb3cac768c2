"""Mapped netlists in simulation, against a plain one of single bits, and what they refuse."""

from typing import Any

import numpy as np
import pytest

from cdma.synth.errors import SynthError
from cdma.synth.gates.bitwise import Words
from cdma.synth.gates.function import evaluate
from cdma.synth.gates.mapped import MappedNetlist
from cdma.synth.gates.simulation import Simulation
from cdma.synth.power.activity import Activity
from tests.synth.gates.netlists import netlist, unit_gates

CLOCK, ENABLE, GATED = 1, 2, 3
INPUTS = list(range(4, 10))
WORD = 2**64 - 1

Cells = dict[str, tuple[str, dict[str, int]]]


def random_cells(seed: int, gates: int = 60, flip_flops: int = 12) -> Cells:
    """Gates of all kinds on inputs and registers, of which half are behind a clock gate."""
    random = np.random.default_rng(seed)
    library = unit_gates()
    kinds = [kind for kind in library.cells.values() if not kind.clock and kind.gate is None]
    registers = list(range(100, 100 + flip_flops))
    nets = [*INPUTS, *registers]
    cells: Cells = {}
    for k in range(gates):
        kind = kinds[random.integers(len(kinds))]
        pins = {pin: int(random.choice(nets)) for pin in kind.inputs}
        cells[f"gate{k}"] = (kind.name, {**pins, next(iter(kind.outputs)): 200 + k})
        nets.append(200 + k)
    for k, register in enumerate(registers):
        clock = GATED if k % 2 else CLOCK
        data = int(random.choice(nets[-gates:]))
        cells[f"register{k}"] = ("DFF", {"CK": clock, "D": data, "Q": register})
    enable = int(random.choice(nets[-gates:]))
    cells["clock_gate"] = ("ICG_X1", {"CK": CLOCK, "E": enable, "GCK": GATED})
    return cells


class Plain:
    """One bit per net, one gate after the other."""

    def __init__(self, cells: Cells) -> None:
        self.library = unit_gates()
        self.cells = cells
        self.nets: dict[int, bool] = dict.fromkeys(range(300), False)
        self.toggles = dict.fromkeys(self.nets, 0)
        self.pulses = 0
        self.settle()

    def settle(self) -> None:
        for kind, pins in self.cells.values():
            for out, function in self.library.cells[kind].outputs.items():
                if kind not in ("DFF", "ICG_X1"):
                    values = {pin: self.nets[bit] for pin, bit in pins.items()}
                    self.nets[pins[out]] = evaluate(function, values)

    def cycle(self, inputs: list[bool]) -> None:
        before = dict(self.nets)
        enable = before[self.cells["clock_gate"][1]["E"]]
        self.pulses += enable
        for kind, pins in self.cells.values():
            if kind == "DFF" and (pins["CK"] == CLOCK or enable):
                self.nets[pins["Q"]] = before[pins["D"]]
        self.nets.update(zip(INPUTS, inputs, strict=True))
        self.settle()
        for bit, value in self.nets.items():
            self.toggles[bit] += value != before[bit]


def simulation_of(cells: Cells) -> Simulation:
    mapped = MappedNetlist(netlist(cells, [CLOCK, *INPUTS], []), unit_gates())
    mapped.ports["data"] = INPUTS
    return Simulation(mapped)


def lane_of(words: Words, lane: int) -> list[bool]:
    return [bool(int(word) >> lane & 1) for word in words]


@pytest.mark.parametrize("seed", range(3))
def test_each_lane_does_what_a_plain_simulation_does(seed):
    cells = random_cells(seed)
    simulation = simulation_of(cells)
    lanes = (0, 1, 63)
    plain = [Plain(cells) for _ in lanes]
    random = np.random.default_rng(seed)
    for words in random.integers(0, 2**64, (20, len(INPUTS)), np.uint64):
        simulation.cycle({"data": words})
        for lane, single in zip(lanes, plain, strict=True):
            single.cycle(lane_of(words, lane))
            found = dict(zip(simulation.places, lane_of(simulation.values[3:], lane), strict=True))
            assert found == {bit: single.nets[bit] for bit in simulation.places}


def test_edges_and_pulses_are_counted_over_all_lanes():
    cells = random_cells(seed=7)
    simulation = simulation_of(cells)
    activity = Activity(simulation)
    stimuli = np.random.default_rng(7).integers(0, 2**64, (5, len(INPUTS)), np.uint64)
    for words in stimuli:
        simulation.cycle({"data": words}, activity)
    toggles: dict[int, int] = {}
    pulses = 0
    for lane in range(64):
        plain = Plain(cells)
        for words in stimuli:
            plain.cycle(lane_of(words, lane))
        pulses += plain.pulses
        for bit in simulation.places:
            toggles[bit] = toggles.get(bit, 0) + plain.toggles[bit]
    found = {bit: activity.toggles[place] for bit, place in simulation.places.items()}
    assert found == toggles
    assert activity.pulses[simulation.clocks[GATED]] == pulses
    assert activity.pulses[simulation.clocks[CLOCK]] == 64 * len(stimuli)


def test_constant_pins_and_outputs_that_nobody_takes():
    module = netlist(
        {
            "one": ("NAND2", {"A": 4, "B": 5, "Y": 6}),
            "unused": ("INV_X1", {"A": 4}),
            "register": ("DFF", {"CK": CLOCK, "D": 6}),
        },
        [CLOCK, 4],
        [6],
    )
    module["cells"]["one"]["connections"]["B"] = ["1"]
    mapped = MappedNetlist(module, unit_gates())
    mapped.ports |= {"a": [4], "mixed": [6, "0", "1"]}
    simulation = Simulation(mapped)
    simulation.cycle({"a": np.array([5], np.uint64)})
    assert simulation.read("mixed").tolist() == [WORD - 5, 0, WORD]


def refused(cells: dict[str, Any], cause: str) -> None:
    with pytest.raises(SynthError, match=cause):
        Simulation(MappedNetlist(netlist(cells, [CLOCK, 4], []), unit_gates()))


def test_what_cannot_be_simulated_is_told():
    refused({"memory": ("memory_macro", {"CLK": CLOCK})}, "memories that are macros")
    refused(
        {"a": ("INV_X1", {"A": CLOCK, "Y": 7}), "b": ("DFF", {"CK": 7, "D": 4, "Q": 8})},
        "a clock comes from no port",
    )
    refused(
        {"a": ("INV_X1", {"A": 7, "Y": 8}), "b": ("INV_X1", {"A": 8, "Y": 7})},
        "combinational loop",
    )
