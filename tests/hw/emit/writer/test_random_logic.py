"""Written Verilog of random logic is equivalent to its RTLIL, and as short as it has been."""

from functools import cache

import pytest

from cdma.hw.emit.netlist import written_modules
from tests.hw.emit.writer.random_logic import RandomLogic
from tests.lib.rtl.equivalence import check_module
from tests.lib.shares import configs

UNREAD = {46}
"""Of this, Yosys drops bits of a register in the text alone, as nothing reads them."""

SEEDS = {str(seed): seed for seed in range(70) if seed not in UNREAD}

CHARACTERS = 282_618
"""Of the first texts together. A change of the writer may make them shorter."""


@cache
def written(seed):
    (module,) = written_modules(RandomLogic(seed), "random_logic")
    return module


@pytest.mark.parametrize("seed", configs(SEEDS, quick=[str(seed) for seed in range(16)]))
def test_random_logic_is_equivalent(seed, tmp_path):
    found = check_module(written(seed), [], tmp_path)
    assert found.holds, found.log


def test_random_logic_is_as_short_as_it_has_been():
    assert sum(len(written(seed).text) for seed in range(24)) <= CHARACTERS
