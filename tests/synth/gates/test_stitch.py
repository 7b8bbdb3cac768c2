"""Parts put together: nets that are one through ports, however they are joined inside."""

from cdma.synth.gates.stitch import placed_parts, stitch
from cdma.synth.gates.timing import slowest_path
from tests.synth.gates.netlists import unit_gates


def module(ports, cells, names=()):
    """A module of ports (direction, nets), cells (type, pins with their nets) and named nets."""
    return {
        "ports": {name: {"direction": way, "bits": bits} for name, (way, bits) in ports.items()},
        "cells": {
            name: {"type": kind, "connections": pins} for name, (kind, pins) in cells.items()
        },
        "netnames": {name: {"hide_name": 0, "bits": bits} for name, bits in dict(names).items()},
    }


INVERTER = module(
    {"i": ("input", [2]), "o": ("output", [3])},
    {"inverter": ("INV_X1", {"A": [2], "Y": [3]})},
    {"i": [2], "o": [3]},
)
THROUGH = module(
    {"i": ("input", [2]), "o": ("output", [2]), "one": ("output", ["1"])}, {}, {"i": [2], "o": [2]}
)


def test_instances_get_nets_of_their_own_and_share_those_at_their_ports():
    cells = {f"part_{k}": ("inverter", {"i": [10 + k], "o": [11 + k]}) for k in range(3)}
    top = module({"i": ("input", [10]), "o": ("output", [13])}, cells, {"i": [10], "o": [13]})
    whole = stitch({"top": top, "inverter": INVERTER}, "top")
    assert list(whole["cells"]) == [f"part_{k}.inverter" for k in range(3)]
    pins = [whole["cells"][name]["connections"] for name in whole["cells"]]
    assert pins[0]["A"] == whole["ports"]["i"]["bits"]
    assert pins[0]["Y"] == pins[1]["A"]
    assert pins[1]["Y"] == pins[2]["A"]
    assert pins[2]["Y"] == whole["ports"]["o"]["bits"]
    assert len({bit for each in pins for bits in each.values() for bit in bits}) == 4
    assert whole["netnames"]["part_1.i"]["bits"] == pins[1]["A"]
    assert slowest_path(whole, unit_gates()).path == ("i", "part_0.o", "part_1.o", "o")


def test_a_part_may_pass_a_net_through_and_drive_constants():
    cells = {
        "through": ("through", {"i": [2], "o": [3], "one": [4]}),
        "after": ("NAND2", {"A": [3], "B": [4], "Y": [5]}),
    }
    top = module({"i": ("input", [2]), "o": ("output", [5])}, cells)
    whole = stitch({"top": top, "through": THROUGH}, "top")
    pins = whole["cells"]["after"]["connections"]
    assert pins["A"] == whole["ports"]["i"]["bits"]
    assert pins["B"] == ["1"]


def test_parts_below_parts_have_both_in_their_names_and_kinds_have_no_numbers():
    pair = module(
        {"i": ("input", [2]), "o": ("output", [4])},
        {
            "in_0": ("inverter", {"i": [2], "o": [3]}),
            "in_1": ("inverter", {"i": [3], "o": [4]}),
        },
    )
    cells = {f"pair_{k}": ("pair", {"i": [10 + k], "o": [11 + k]}) for k in range(2)}
    top = module({"i": ("input", [10]), "o": ("output", [12])}, cells)
    modules = {"top": top, "pair": pair, "inverter": INVERTER}
    assert set(stitch(modules, "top")["cells"]) == {
        f"pair_{k}.in_{j}.inverter" for k in range(2) for j in range(2)
    }
    kinds = [part.kind for part in placed_parts(modules, "top")]
    assert sorted(kinds) == ["", "pair", "pair", *["pair.in"] * 4]
