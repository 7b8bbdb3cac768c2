"""`cdma generate`: files as asked for, or one clear error."""

import json
import re
from pathlib import Path

import pytest

from cdma.cli import main


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_writes_verilog_and_sidecar():
    assert main(["generate", "packer", "--out", "rtl"]) == 0
    assert sorted(path.name for path in Path("rtl").iterdir()) == ["packer.json", "packer.v"]
    sidecar = json.loads(Path("rtl/packer.json").read_text())
    assert sidecar["file"] == "packer.v"
    assert f"module {sidecar['module']} (" in Path("rtl/packer.v").read_text()


def test_options_override_the_preset():
    arguments = ["generate", "packer", "--config", "wide", "--element-bytes", "1", "--assertions"]
    assert main([*arguments, "--out", "."]) == 0
    assert json.loads(Path("packer.json").read_text())["parameters"] == {
        "element_bytes": 1,
        "sector_bytes": 128,
        "line_bytes": 128,
        "latency": "paper",
        "codecs": ["zvc", "raw"],
    }
    assert Path("packer.sv").exists()


@pytest.mark.parametrize(
    ("options", "width"),
    [
        ([], 32),
        (["--sector-bytes", "64"], 64),
        (["--host-bytes", "64"], 64),
        (["--sector-bytes", "128", "--host-bytes", "64"], 64),
    ],
)
def test_port_to_the_host_is_a_sector_wide_or_what_is_asked_for(options, width):
    assert main(["generate", "stream-writer", *options, "--out", "."]) == 0
    found = json.loads(Path("stream_writer.json").read_text())
    assert found["configuration"]["engine"]["host_bytes"] == width


@pytest.mark.verify
def test_engine_comes_with_what_software_needs():
    arguments = ["generate", "engine", "--config", "tiny", "--buffer-bytes", "128", "--out", "rtl"]
    assert main(arguments) == 0
    assert sorted(path.name for path in Path("rtl").iterdir()) == [
        "cdma_engine.json",
        "cdma_engine.v",
        "cdma_engine_descriptors.h",
        "cdma_engine_registers",
        "cdma_engine_registers.h",
    ]
    assert Path("rtl/cdma_engine_registers/index.html").exists()
    parameters = json.loads(Path("rtl/cdma_engine.json").read_text())["parameters"]
    assert (parameters["units"], parameters["buffer_bytes"]) == (2, 128)


def test_folder_for_other_flows():
    assert main(["generate", "packer", "--ip", "--clock-mhz", "800", "--out", "ip"]) == 0
    assert sorted(str(path.relative_to("ip")) for path in Path("ip").rglob("*.*")) == [
        "packer/constraints/packer.sdc",
        "packer/lint/packer.vlt",
        "packer/packer.core",
        "packer/packer.xml",
        "packer/rtl/packer.json",
        "packer/rtl/packer.v",
        "packer/template/packer.vh",
    ]
    assert Path("ip/packer/Makefile").exists()
    assert "-period 1.250 " in Path("ip/packer/constraints/packer.sdc").read_text()


def test_name_of_a_block_is_in_all_names():
    assert main(["generate", "packer", "--name", "pack_2", "--ip", "--out", "ip"]) == 0
    files = [path for path in Path("ip/pack_2").rglob("*.*") if path.is_file()]
    assert {path.stem for path in files} == {"pack_2"}
    assert re.findall(r"^module (\w+)", Path("ip/pack_2/rtl/pack_2.v").read_text(), re.MULTILINE)
    left = re.compile(r"\b(module|name|toplevel)\b.{1,3}packer\b")
    assert not [path for path in files if left.search(path.read_text())]


@pytest.mark.verify
def test_name_is_in_all_names():
    arguments = ["generate", "engine", "--config", "tiny", "--name", "swap_2", "--ip"]
    assert main([*arguments, "--out", "ip"]) == 0
    folder = Path("ip/swap_2")
    assert sorted(
        str(path.relative_to(folder)) for path in folder.rglob("swap_2*") if path.is_file()
    ) == [
        "constraints/swap_2.sdc",
        "include/swap_2_descriptors.h",
        "include/swap_2_registers.h",
        "lint/swap_2.vlt",
        "rtl/swap_2.json",
        "rtl/swap_2.v",
        "swap_2.core",
        "swap_2.xml",
        "template/swap_2.vh",
        "uvm/swap_2_ral_pkg.sv",
    ]
    assert (folder / "doc/swap_2_registers/index.html").exists()
    assert json.loads((folder / "rtl/swap_2.json").read_text())["module"] == "swap_2"
    modules = re.findall(r"^module (\w+)", (folder / "rtl/swap_2.v").read_text(), re.MULTILINE)
    assert modules[0] == "swap_2"
    assert all(module.startswith("swap_2_") for module in modules[1:])
    # Nothing is left that another engine in the same design would be called, but for descriptors,
    # which are every engine's.
    files = [path for path in folder.rglob("*.*") if path.is_file()]
    left = {path.name for path in files if b"cdma_engine" in path.read_bytes().lower()}
    assert left == {"swap_2_descriptors.h"}


@pytest.mark.parametrize(
    "arguments", [["engine"], ["packer", "--ip"], ["buddy"], ["zvc-compressor"]]
)
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("2swap", "name must be letters, digits and underscores, and begin with no digit, not"),
        ("swap-out", "name must be letters, digits and underscores, and begin with no digit, not"),
        ("../swap", "name must be letters, digits and underscores, and begin with no digit, not"),
        ("", "name must be letters, digits and underscores, and begin with no digit, not ''"),
        ("größe", "name must be letters, digits and underscores, and begin with no digit, not"),
        ("module", "name must be no keyword of Verilog or SystemVerilog, not 'module'"),
        ("logic", "name must be no keyword of Verilog or SystemVerilog, not 'logic'"),
        ("a" * 65, "name must have at most 64 characters, not 65"),
    ],
)
def test_names_that_no_module_can_have(arguments, name, message, capsys):
    assert main(["generate", *arguments, "--name", name]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"cdma: error: {message}")
    assert error.count("\n") == 1
    assert list(Path().iterdir()) == []


def test_a_clock_of_the_host_is_in_all_files():
    arguments = ["generate", "engine", "--config", "tiny", "--host-clock", "--reset", "sync-low"]
    frequencies = ["--clock-mhz", "800", "--host-clock-mhz", "250"]
    assert main([*arguments, "--ip", *frequencies, "--out", "ip"]) == 0
    folder = Path("ip/cdma_engine")
    sidecar = json.loads((folder / "rtl/cdma_engine.json").read_text())
    assert sidecar["parameters"]["host_clock"] is True
    assert sidecar["configuration"]["engine"]["host_clock"] is True
    assert sidecar["other_clocks"] == [
        {"clock": "host_clk", "reset": "host_rst_n", "interfaces": ["m_axi_host"]}
    ]
    constraints = (folder / "constraints/cdma_engine.sdc").read_text()
    assert "create_clock -name host_clk -period 4.000 " in constraints
    for path in ("rtl/cdma_engine.v", "template/cdma_engine.vh", "cdma_engine.xml"):
        assert re.search(r"\bhost_clk\b[^@]*\bhost_rst_n\b", (folder / path).read_text())


@pytest.mark.verify
def test_folder_of_the_engine_has_what_software_needs():
    assert main(["generate", "engine", "--config", "tiny", "--ip", "--out", "ip"]) == 0
    folder = Path("ip/cdma_engine")
    assert sorted(
        str(path.relative_to(folder)) for path in folder.rglob("cdma_engine*") if path.is_file()
    ) == [
        "cdma_engine.core",
        "cdma_engine.xml",
        "constraints/cdma_engine.sdc",
        "include/cdma_engine_descriptors.h",
        "include/cdma_engine_registers.h",
        "lint/cdma_engine.vlt",
        "rtl/cdma_engine.json",
        "rtl/cdma_engine.v",
        "template/cdma_engine.vh",
        "uvm/cdma_engine_ral_pkg.sv",
    ]
    assert (folder / "doc/cdma_engine_registers/index.html").exists()
    core = (folder / "cdma_engine.core").read_text()
    assert "files: [include/cdma_engine_registers.h, include/cdma_engine_descriptors.h]" in core


def test_folder_of_a_block_with_vectors_has_a_bench(capsys):
    arguments = ["generate", "zvc-compressor", "--sector-bytes", "64", "--name", "zvc_64", "--ip"]
    assert main([*arguments, "--out", "ip"]) == 0
    assert sorted(path.name for path in Path("ip/zvc_64/bench").iterdir()) == [
        "zvc_64_commands.hex",
        "zvc_64_input.hex",
        "zvc_64_output.hex",
        "zvc_64_status.hex",
        "zvc_64_tb.sv",
        "zvc_64_tb_streams.sv",
    ]
    # Modules of two blocks' benches fit one simulation.
    text = "".join(path.read_text() for path in Path("ip/zvc_64/bench").glob("*.sv"))
    modules = re.findall(r"^module (\w+)", text, re.M)
    assert sorted(modules) == ["zvc_64_tb", "zvc_64_tb_check", "zvc_64_tb_source"]
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("ip/zvc_64/rtl/zvc_64.v: module zvc_64 and ")
    assert told.endswith(" lines; ip/zvc_64: 14 files")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--clock-mhz", "800"], "--clock-mhz is of the constraints; give --ip too"),
        (["--ip", "--assertions"], "--ip is for flows that read Verilog; leave --assertions away"),
        (["--ip", "--clock-mhz", "0"], "clock_mhz must be above 0 and at most 10000, not 0"),
        (["--host-clock-mhz", "250"], "--host-clock-mhz is of the constraints; give --ip too"),
        (
            ["--ip", "--host-clock-mhz", "250"],
            "--host-clock-mhz is of an engine's host_clk; give --host-clock too, or leave it away",
        ),
        (["--host-clock"], "--host-clock is the engine's, not that of packer; leave it away"),
    ],
)
def test_options_of_the_folder_that_cannot_be(options, message, capsys):
    assert main(["generate", "packer", *options]) == 2
    assert message in capsys.readouterr().err
    assert list(Path().iterdir()) == []


@pytest.mark.verify
def test_buddy_controller_comes_with_what_software_needs():
    arguments = ["generate", "buddy", "--config", "tiny", "--pages", "8", "--mode", "bpc"]
    assert main([*arguments, "--out", "rtl"]) == 0
    assert sorted(path.name for path in Path("rtl").iterdir()) == [
        "cdma_buddy.json",
        "cdma_buddy.v",
        "cdma_buddy_registers",
        "cdma_buddy_registers.h",
    ]
    parameters = json.loads(Path("rtl/cdma_buddy.json").read_text())["parameters"]
    assert (parameters["pages"], parameters["mode"]) == (8, "bpc")
    assert parameters["cache_capacity_bytes"] == 128


def test_metadata_cache_has_the_shape_that_was_asked_for():
    arguments = ["generate", "metadata-cache", "--metadata-cache", "tiny", "--out", "."]
    assert main(arguments) == 0
    parameters = json.loads(Path("metadata_cache.json").read_text())["parameters"]
    assert (parameters["cache_ways"], parameters["cache_slices"]) == (2, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["packer", "--pages", "2"], "--pages is the buddy controller's, not that of packer"),
        (["engine", "--mode", "bpc"], "--mode is that of entries, not that of engine"),
        (["buddy", "--units", "2"], "--units is the engine's, not that of buddy"),
        (["buddy", "--config", "wide"], "config must be one of channel, narrow"),
        (["buddy", "--metadata-cache", "big"], "metadata_cache must be one of paper_3_2"),
        (["buddy", "--reads", "1"], "reads must be 4 to 256, not 1"),
        (
            ["entry-compressor", "--mode", "best"],
            "mode must be one of best-of, bpc, best-of-three, not 'best'",
        ),
        (["packer", "--units", "2"], "--units is the engine's, not that of packer"),
        (["engine", "--units", "17"], "units must be 1 to 16, not 17"),
        (
            ["engine", "--buffer-bytes", "1000"],
            "buffer_bytes must hold two lines for each unit, 1536, not 1000",
        ),
        (
            ["engine", "--host-bytes", "48"],
            "host_bytes must be 4, 8, 16, 32, 64 or 128, not 48",
        ),
        (["engine", "--split-lines", "3"], "split_lines must be 1 or 2, not 3"),
        (["engine", "--drain-beats", "3"], "drain_beats must be 1 or 2, not 3"),
        (
            ["engine", "--split-lines", "1", "--split-beats", "2"],
            "split_beats must be 1 or 2, and at most split_lines, 1, not 2",
        ),
        (["engine", "--transfers", "1"], "transfers must be 2 to 64, not 1"),
        (["zip"], "component must be one of engine, buddy, sector-mapper"),
        (["packer", "--config", "h100"], "config must be one of titanx_gen3"),
        (["packer", "--element-bytes", "3"], "element_bytes must be 4, 2 or 1, not 3"),
        (["packer", "--latency", "slow"], "latency must be paper or fast, not 'slow'"),
        (
            ["buddy", "--latency", "fast"],
            "--latency is that of zero-value codecs, not that of buddy",
        ),
        (["packer", "--sector-bytes", "48"], "sector_bytes must be 32, 64 or 128, not 48"),
        (["packer", "--out", "file/rtl"], "cannot write file/rtl: Not a directory"),
    ],
)
def test_bad_input_is_one_line_and_no_file(capsys, arguments, message):
    Path("file").touch()
    assert main(["generate", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"cdma: error: {message}")
    assert err.count("\n") == 1
    assert [path.name for path in Path().iterdir()] == ["file"]
