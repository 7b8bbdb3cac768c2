"""The engine's bench: it passes, and finds what is planted in RTL, memories and registers."""

import shutil
from dataclasses import replace

import pytest

from cdma.hw.config import CodecConfig, EngineConfig, preset
from cdma.hw.dma.bench import engine_bench
from cdma.hw.emit.reset import DEFAULT_RESET, RESETS
from tests.lib.requirements import ICARUS, require
from tests.lib.rtl.kit import change, change_row, make, write_kit
from tests.lib.shares import configs

SMALL = EngineConfig(units=2, buffer_bytes=1024, read_buffer_bytes=1024, write_bursts=2)


@pytest.fixture(scope="module")
def kit(tmp_path_factory):
    require(ICARUS)
    folder = tmp_path_factory.mktemp("engine")
    write_kit("engine", SMALL, folder)
    return folder


@pytest.fixture
def planted(kit, tmp_path):
    """A copy of it, for changes."""
    shutil.copytree(kit, tmp_path, dirs_exist_ok=True)
    return tmp_path


def fails(folder, *told):
    """The bench fails, and says so."""
    status, said = make(folder, "sim")
    assert status != 0
    assert "FAIL: cdma_engine, " in said
    assert "PASS" not in said
    for one in told:
        assert one in said


@pytest.mark.verify
def test_passes_and_is_clean(kit):
    status, said = make(kit, "sim")
    assert status == 0, said
    assert "PASS: cdma_engine, 9 descriptors, " in said
    status, said = make(kit, "lint")
    assert status == 0, said


HOST_HALVES_NS = {
    "as written": None,
    "as fast, shifted": 5.0,
    "a little slower": 5.03,
    "fast": 0.61,
    "slow": 17.3,
}
"""Half of the host's period; half of the engine's is 5 ns."""


@pytest.fixture(scope="module")
def two_clocks(tmp_path_factory):
    require(ICARUS)
    folder = tmp_path_factory.mktemp("two_clocks")
    write_kit("engine", replace(SMALL, host_clock=True, rings=2, stream_id_bits=2), folder)
    return folder


@pytest.fixture
def planted_two_clocks(two_clocks, tmp_path):
    """A copy of it, for changes."""
    shutil.copytree(two_clocks, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.mark.parametrize("half", configs(HOST_HALVES_NS, quick=["as written", "slow"]))
def test_passes_with_a_host_of_any_clock(planted_two_clocks, half):
    bench = planted_two_clocks / "bench" / "cdma_engine_tb.sv"
    if half is not None:
        change(bench, "HOST_HALF = 3.701;", f"HOST_HALF = {half};")
        change(bench, "always #(HOST_HALF)", "initial #1.7 forever #(HOST_HALF)")
    status, said = make(planted_two_clocks, "sim")
    assert status == 0, said
    assert "PASS: cdma_engine, 9 descriptors, " in said


@pytest.mark.verify
def test_two_clocks_are_clean_and_pass_on_verilator(two_clocks):
    status, said = make(two_clocks, "lint")
    assert status == 0, said
    status, said = make(two_clocks, "sim", "SIM=verilator")
    assert status == 0, said
    assert "PASS: cdma_engine, 9 descriptors, " in said


def test_finds_a_port_that_has_the_other_clock(planted_two_clocks):
    bench = planted_two_clocks / "bench" / "cdma_engine_tb.sv"
    change(bench, ".host_clk(host_clk)", ".host_clk(clk)")
    fails(planted_two_clocks)


@pytest.mark.verify
@pytest.mark.parametrize("memory", ["host", "device"])
def test_finds_another_byte(planted, memory):
    change_row(planted / "bench" / f"cdma_engine_{memory}_after.hex", 5000, 1)
    fails(planted, f"{memory}: byte 00001388 is ", " 1 bytes differ, 0 errors")


@pytest.mark.verify
def test_finds_another_register(planted):
    change_row(planted / "bench" / "cdma_engine_program.hex", 0, 1)
    fails(planted, "registers: 000 reads 43444d41 ", " 0 bytes differ, 1 errors")


@pytest.mark.verify
def test_finds_an_error_in_the_rtl(planted):
    rtl = planted / "rtl" / "cdma_engine.v"
    change(rtl, ".m_axi_rdata(m_axi_mem1_rdata)", ".m_axi_rdata(m_axi_mem1_rdata ^ 256'h1)")
    fails(planted, "device: byte ")


@pytest.mark.verify
def test_finds_a_burst_outside_of_the_memory(planted):
    rtl = planted / "rtl" / "cdma_engine.v"
    swapped = "{m_axi_mem1_araddr[19:0], m_axi_mem1_araddr[39:20]}"
    change(rtl, ".m_axi_araddr(m_axi_mem1_araddr)", f".m_axi_araddr({swapped})")
    fails(planted, "device: port 1 reads ")


@pytest.mark.verify
def test_an_engine_that_hangs_fails(planted):
    rtl = planted / "rtl" / "cdma_engine.v"
    change(rtl, ".m_axi_arready(m_axi_host_arready)", ".m_axi_arready(1'b0)")
    fails(planted, "FAIL: cdma_engine, 11 of ")


@pytest.mark.verify
def test_passes_on_verilator(planted):
    status, said = make(planted, "sim", "SIM=verilator")
    assert status == 0, said
    assert "PASS: cdma_engine, " in said


@pytest.mark.verify
@pytest.mark.parametrize(
    "config",
    [
        preset("titanx_gen3"),
        EngineConfig(
            codec=CodecConfig(element_bytes=1, sector_bytes=128),
            units=3,
            host_bytes=128,
            buffer_bytes=4096,
            read_buffer_bytes=8192,
        ),
        EngineConfig(codec=CodecConfig(element_bytes=1, codecs=("zvc", "xc", "raw")), units=1),
        EngineConfig(codec=CodecConfig(element_bytes=1, codecs=("quantize", "raw")), units=2),
    ],
    ids=["titanx_gen3", "a line per cycle", "two codecs", "a lossy codec"],
)
def test_passes_in_other_shapes(config, tmp_path):
    require(ICARUS)
    write_kit("engine", config, tmp_path)
    status, said = make(tmp_path, "sim")
    assert status == 0, said


def test_lines_that_no_golden_model_has_have_no_bench():
    assert engine_bench(preset("tiny"), "cdma_engine", RESETS[DEFAULT_RESET]) is None
