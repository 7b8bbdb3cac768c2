"""The package's public names: what they cost to import, where they come from, what they do."""

import ast
import doctest
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cdma
from cdma.hw.config import PRESETS, ConfigError
from cdma.plan.platform.environment import MACHINES
from cdma.plan.timeline.errors import ScheduleError
from cdma.simulation import _machine

PROMISED = {
    *("EngineConfig", "Engine", "Machine", "simulate", "swap_to"),
    *("Graph", "Device", "schedule", "generate", "codec"),
}


def in_python(code):
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    return done.stdout.split()


def test_the_promised_names_are_public():
    assert set(cdma.__all__) == PROMISED
    assert set(dir(cdma)) >= PROMISED
    for name in PROMISED:
        found = getattr(cdma, name)
        assert inspect.getdoc(found), name


def test_import_loads_nothing_else():
    loaded = "import sys; before = set(sys.modules); import cdma; "
    assert in_python(loaded + "print(*(n for n in sys.modules if n.startswith('cdma')))") == [
        "cdma"
    ]
    assert in_python(loaded + "print('numpy' in sys.modules, 'amaranth' in sys.modules)") == [
        "False",
        "False",
    ]


def test_a_name_loads_its_rooms_only():
    code = (
        "import sys, cdma; cdma.codec; "
        "print(*sorted({'.'.join(n.split('.')[:2]) for n in sys.modules if n.startswith('cdma.')}))"
    )
    assert in_python(code) == ["cdma.builds", "cdma.golden"]


def test_type_checkers_see_what_is_imported():
    """The two lists in the package say the same."""
    (branch,) = [
        node for node in ast.parse(Path(cdma.__file__).read_text()).body if isinstance(node, ast.If)
    ]
    seen = {
        alias.name: node.module
        for node in branch.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == cdma._MODULES
    assert set(seen) == set(cdma.__all__)
    for name, module in seen.items():
        assert getattr(cdma, name) is getattr(importlib.import_module(module), name)


def test_no_other_name_is_there():
    with pytest.raises(AttributeError, match="module 'cdma' has no attribute 'compress'"):
        cdma.compress  # noqa: B018


@pytest.mark.parametrize("name", ["simulate", "schedule"])
def test_examples_in_docstrings_are_so(name):
    function = getattr(cdma, name)
    (example,) = doctest.DocTestFinder().find(function, globs={"cdma": cdma})
    assert len(example.examples) >= 3
    results = doctest.DocTestRunner().run(example)
    assert (results.failed, results.attempted) == (0, len(example.examples))


def test_arrays_of_a_sequence_come_back_too():
    arrays = [np.arange(300, dtype=np.float32) % 3, np.zeros((2, 5), np.float32)]
    run = cdma.simulate(cdma.EngineConfig(), arrays)
    assert [
        (round_trip.name, round_trip.shape, round_trip.bit_exact) for round_trip in run.round_trips
    ] == [
        ("0", (300,), True),
        ("1", (2, 5), True),
    ]
    assert run.queue is not None


def test_the_machine_is_the_preset_s_or_fits_the_units():
    for name, around in MACHINES.items():
        # Two presets are alike; the first machine of theirs is taken.
        same = [other for other in MACHINES if PRESETS[other] == PRESETS[name]]
        assert _machine(PRESETS[name], None) is MACHINES[same[0]]
        assert _machine(PRESETS["tiny"], name) is around
    assert _machine(PRESETS["tiny"], None).channels == PRESETS["tiny"].units
    with pytest.raises(ConfigError, match="machine must be one of"):
        cdma.simulate(cdma.EngineConfig(), [], machine="cray")
    with pytest.raises(ConfigError, match="channels must be 6"):
        cdma.simulate(cdma.EngineConfig(), [], machine="v100_nvlink2")


def test_a_graph_keeps_its_own_densities():
    graph = cdma.Graph.from_table("alexnet", 64)
    dense = graph.with_densities({tensor.name: 1.0 for tensor in graph.tensors})
    sparse = cdma.schedule(graph, policies=["cdma"])["cdma"]
    slow = cdma.schedule(dense, policies=["cdma"])["cdma"]
    assert slow.trace.link_out_bytes > sparse.trace.link_out_bytes
    with pytest.raises(ScheduleError, match="unknown device 'cray'"):
        cdma.schedule(graph, "cray")
