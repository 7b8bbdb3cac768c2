"""Benches of the AXI4-Stream tops: they pass, and find what is planted in RTL and vectors."""

import pytest

from cdma.hw.codec.zvc.bench import compressor_bench, decompressor_bench
from cdma.hw.config import CodecConfig, preset
from cdma.hw.emit.reset import DEFAULT_RESET, RESETS
from tests.lib.requirements import ICARUS, require
from tests.lib.rtl.kit import change, change_row, make, write_kit
from tests.lib.shares import names

BLOCKS = ["zvc-compressor", "zvc-decompressor"]


@pytest.fixture(scope="module", params=names(BLOCKS, quick=["zvc-compressor"]))
def kit(request, tmp_path_factory):
    """A block's folder and name; a test puts back what it changes."""
    require(ICARUS)
    folder = tmp_path_factory.mktemp(request.param)
    return folder, write_kit(request.param, CodecConfig(), folder)


@pytest.fixture
def planted(kit, tmp_path):
    """A copy of it, for changes."""
    folder, name = kit
    for path in folder.rglob("*.*"):
        target = tmp_path / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    (tmp_path / "Makefile").write_bytes((folder / "Makefile").read_bytes())
    return tmp_path, name


def test_passes(kit):
    folder, name = kit
    status, said = make(folder, "sim")
    assert status == 0, said
    assert f"PASS: {name}, " in said


@pytest.mark.parametrize(
    ("file", "bits", "port"),
    [("output", 1, "m_axis"), ("status", 1 << 4, "m_sts"), ("status", 1, "m_sts")],
)
def test_finds_another_row(planted, file, bits, port):
    folder, name = planted
    change_row(folder / "bench" / f"{name}_{file}.hex", 5, bits)
    status, said = make(folder, "sim")
    assert status != 0
    assert f"{port}: row 5 is " in said
    assert f"FAIL: {name}, " in said
    assert "PASS" not in said


def test_finds_a_packet_that_ends_elsewhere(planted):
    folder, name = planted
    output = folder / "bench" / f"{name}_output.hex"
    end = 1 << 9 * CodecConfig().sector_bytes
    rows = [int(row, 16) for row in output.read_text("utf-8").split()]
    # Behind a row that is not an end comes more than an end.
    early = next(i for i, row in enumerate(rows) if not row & end)
    late = next(i for i, row in enumerate(rows) if i > early and row & end)
    change_row(output, early, end)
    change_row(output, late, end)
    status, said = make(folder, "sim")
    assert status != 0
    assert f"m_axis: row {early} is not the last of its packet" in said
    assert f"m_axis: row {late} is " in said
    assert f"FAIL: {name}, " in said


def test_finds_other_data_at_the_input(planted):
    folder, name = planted
    change_row(folder / "bench" / f"{name}_input.hex", 7, 1)
    status, said = make(folder, "sim")
    assert status != 0
    assert f"FAIL: {name}, " in said


def test_finds_an_error_in_the_rtl(planted):
    folder, name = planted
    rtl = folder / "rtl" / f"{name}.v"
    change(rtl, ".axis_tdata(s_axis_tdata)", ".axis_tdata(s_axis_tdata ^ 256'h1)")
    status, said = make(folder, "sim")
    assert status != 0
    assert "m_sts: row " in said
    assert f"FAIL: {name}, " in said


def test_a_block_that_hangs_fails(planted):
    folder, name = planted
    rtl = folder / "rtl" / f"{name}.v"
    change(rtl, ".axis_tready(m_axis_tready)", ".axis_tready(1'b0)")
    status, said = make(folder, "sim")
    assert status != 0
    assert f"FAIL: {name}, " in said


def test_a_simulator_that_stops_early_has_not_passed(planted):
    folder, name = planted
    change(folder / "bench" / f"{name}_tb.sv", "  always #5 clk = !clk;", "  initial #99 $finish;")
    status, said = make(folder, "sim")
    assert status != 0
    assert "PASS" not in said


@pytest.mark.verify
def test_passes_on_verilator(planted):
    folder, name = planted
    status, said = make(folder, "sim", "SIM=verilator")
    assert status == 0, said
    assert f"PASS: {name}, " in said
    change_row(folder / "bench" / f"{name}_output.hex", 5, 1)
    status, said = make(folder, "sim", "SIM=verilator")
    assert status != 0
    assert f"FAIL: {name}, " in said


@pytest.mark.verify
@pytest.mark.parametrize(("element_bytes", "sector_bytes"), [(1, 128), (2, 64), (4, 128)])
@pytest.mark.parametrize("component", BLOCKS)
def test_passes_in_other_shapes(component, element_bytes, sector_bytes, tmp_path):
    require(ICARUS)
    config = CodecConfig(element_bytes=element_bytes, sector_bytes=sector_bytes)
    write_kit(component, config, tmp_path)
    status, said = make(tmp_path, "sim")
    assert status == 0, said


@pytest.mark.parametrize("bench", [compressor_bench, decompressor_bench])
def test_lines_that_no_golden_model_has_have_no_bench(bench):
    assert bench(preset("tiny").codec, "block", RESETS[DEFAULT_RESET]) is None


@pytest.mark.parametrize("bench", [compressor_bench, decompressor_bench])
def test_some_packets_are_damaged(bench):
    made = bench(CodecConfig(), "block", RESETS[DEFAULT_RESET])
    # The status is in the lowest bits of a record.
    statuses = {int(row, 16) & 15 for row in made.vectors["block_status.hex"].split()}
    assert 0 in statuses
    assert len(statuses) >= (5 if bench is decompressor_bench else 2)
