"""An engine and a machine, of which one or none may be given: they always fit, or it is told."""

from dataclasses import replace
from pathlib import Path

import pytest

from cdma.config import engine_setup
from cdma.errors import UserError
from cdma.hw.config import PRESETS
from cdma.plan.platform.environment import MACHINES

DEFAULT = "titanx_gen3"


def test_presets_are_an_engine_with_its_machine():
    for name, machine in MACHINES.items():
        for given in ((name, None), (None, name), (name, name)):
            setup = engine_setup(*given, default=DEFAULT)
            assert (setup.label, setup.engine, setup.machine) == (name, PRESETS[name], machine)
    assert engine_setup(None, None, "v100_nvlink2").label == "v100_nvlink2"


def test_a_machine_that_is_not_given_has_a_channel_at_each_unit():
    setup = engine_setup("engine.toml", None, DEFAULT)
    assert (setup.label, setup.engine.units) == ("engine.toml", 3)
    assert setup.machine == replace(MACHINES[DEFAULT], channels=3)
    Path("volta.toml").write_text('[engine]\npreset = "v100_nvlink2"\nunits = 4\n')
    setup = engine_setup("volta.toml", None, DEFAULT)
    assert setup.machine == replace(MACHINES["v100_nvlink2"], channels=4)


def test_a_machine_by_name_has_a_channel_at_each_unit_of_any_engine():
    setup = engine_setup("engine.toml", "v100_nvlink2", DEFAULT)
    assert setup.label == "engine.toml in v100_nvlink2"
    assert setup.machine == replace(MACHINES["v100_nvlink2"], channels=3)


def test_both_may_be_given_in_one_file_or_in_two():
    setup = engine_setup("engine.toml", "machine.toml", DEFAULT)
    assert setup.label == "engine.toml in machine.toml"
    assert setup.paths == (Path("engine.toml"), Path("machine.toml"))
    both = Path("engine.toml").read_text() + Path("machine.toml").read_text()
    Path("both.toml").write_text(both)
    for given in (("both.toml", None), (None, "both.toml")):
        one = engine_setup(*given, default=DEFAULT)
        assert (one.engine, one.machine) == (setup.engine, setup.machine)
        assert one.paths == (Path("both.toml"),)


def test_those_that_do_not_fit_are_told():
    with pytest.raises(UserError) as raised:
        engine_setup(None, "machine.toml", DEFAULT)
    assert str(raised.value) == (
        "machine.toml: [machine] channels must be 6, the units of engine titanx_gen3, not 3"
    )
