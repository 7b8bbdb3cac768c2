"""Power-up: a reset is all that blocks need, whatever their registers held before it.

Generated Verilog gives registers initial values, which FPGAs have and chips do not. Here these are
taken away: on Icarus registers are unknown at first, on Verilator random. Memories are so anyway.
"""

import re
from dataclasses import replace

import pytest

from cdma.hw.config import CodecConfig, EngineConfig, preset
from tests.lib.requirements import ICARUS, require
from tests.lib.rtl.kit import change, make, write_kit
from tests.lib.shares import names

SMALL = EngineConfig(units=1, buffer_bytes=4096, read_buffer_bytes=1024)
BLOCKS = {
    "zvc-compressor": ("zvc-compressor", CodecConfig()),
    "zvc-decompressor": ("zvc-decompressor", CodecConfig()),
    "small": ("engine", SMALL),
    "two clocks": ("engine", replace(SMALL, host_clock=True)),
    "gated clocks": ("engine", replace(SMALL, clock_gates=True)),
    "ZVC, XC and lossy": (
        "engine",
        replace(SMALL, codec=CodecConfig(element_bytes=1, codecs=("zvc", "raw", "xc", "quantize"))),
    ),
    "titanx_gen3": ("engine", preset("titanx_gen3")),
}
SEEDS = 5

# Not an attribute's value.
_INITIAL = re.compile(r" = (?!\").*?(?=[,;]?(?:  //.*)?$)")
_REGISTER = re.compile(r"^ *(?:\(\*.*\*\) )?(?:output )?reg\b.*$", re.M)


def without_initial_values(text):
    """Verilog whose registers begin as the simulator has it, and how many there are."""
    found = 0

    def plain(line):
        nonlocal found
        bare, count = _INITIAL.subn("", line[0])
        found += count
        return bare

    return _REGISTER.sub(plain, text), found


@pytest.fixture(params=names(BLOCKS, quick=["zvc-compressor", "small", "two clocks"]))
def kit(request, tmp_path):
    require(ICARUS)
    name = write_kit(*BLOCKS[request.param], tmp_path)
    rtl = tmp_path / "rtl" / f"{name}.v"
    text, found = without_initial_values(rtl.read_text())
    assert found > 50
    assert not re.search(r"\breg\b[^;\n]*\w = ", text)
    rtl.write_text(text)
    return tmp_path, name


def test_passes_with_registers_unknown_at_first(kit):
    folder, name = kit
    status, said = make(folder, "sim")
    assert status == 0, said
    assert f"PASS: {name}, " in said


@pytest.mark.verify
def test_passes_with_registers_random_at_first(kit):
    folder, name = kit
    change(folder / "Makefile", "--binary", "--binary --x-initial unique")
    change(
        folder / "Makefile", f"build/verilator/V{name}_tb)", f"build/verilator/V{name}_tb $(ARGS))"
    )
    for seed in range(1, SEEDS + 1):
        arguments = f"ARGS=+verilator+rand+reset+2 +verilator+seed+{seed}"
        status, said = make(folder, "sim", "SIM=verilator", arguments)
        assert status == 0, said
        assert f"PASS: {name}, " in said


def test_a_register_without_reset_is_found(kit):
    folder, name = kit
    rtl = folder / "rtl" / f"{name}.v"
    text = rtl.read_text()
    # The valid bits of pipeline registers.
    kept = "if (i_ready) o_valid <= i_valid;"
    with_reset = f"if (rst) o_valid <= 1'b0;\n    else {kept}"
    assert with_reset in text
    rtl.write_text(text.replace(with_reset, kept))
    status, said = make(folder, "sim")
    assert status != 0
    assert "PASS" not in said
