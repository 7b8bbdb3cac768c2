"""`cdma board`: what was built and what to do with it, or one clear error."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

import cdma.commands.board.command
from cdma.builds.documents import body
from cdma.cli import main
from cdma.config import tables_of
from cdma.hw.config import preset
from cdma.synth.errors import SynthError
from cdma.synth.fpga.bitstream import Bitstream


@pytest.fixture(autouse=True)
def _in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def built(monkeypatch):
    """Record what is asked to be built, and build nothing: it takes minutes."""
    asked = []

    def build(board, config, folder):
        asked.append((board, config, folder))
        return Bitstream(
            path=folder / "selftest.bit",
            size_bytes=1_234_567,
            luts=20_000,
            flip_flops=11_000,
            block_rams=0,
            capacity={"luts": 80_000, "flip_flops": 80_000, "block_rams": 208},
            clock_mhz=board.clock_hz / 1e6,
            fmax_mhz=51.234,
        )

    monkeypatch.setattr(cdma.commands.board.command, "build_bitstream", build)
    return asked


def test_json_has_what_was_built_and_how_to_use_it(built, capsys):
    assert main(["board", "versa_ecp5_5g", "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    ((board, config, folder),) = built
    assert (board.name, config.clock_hz, folder) == (
        "versa_ecp5_5g",
        25e6,
        Path("build/board/versa_ecp5_5g"),
    )
    assert (config.lines, config.codec.sector_bytes) == (4096, 32)
    assert output.pop("configuration") == tables_of(preset("titanx_gen3"))
    assert body(output) == {
        "board": "versa_ecp5_5g",
        "config": "titanx_gen3",
        "parameters": {**asdict(config.codec), "codecs": list(config.codec.codecs)},
        "lines": 4096,
        "bitstream": "build/board/versa_ecp5_5g/selftest.bit",
        "bitstream_bytes": 1_234_567,
        "luts": 20_000,
        "flip_flops": 11_000,
        "block_rams": 0,
        "capacity": {"luts": 80_000, "flip_flops": 80_000, "block_rams": 208},
        "clock_mhz": 25.0,
        "fmax_mhz": 51.23,
        "program": "openFPGALoader -c ft2232 build/board/versa_ecp5_5g/selftest.bit",
        "uart": {
            "baud": 115_200,
            "format": "8N1",
            "where": board.uart,
            "read": "python -m serial.tools.miniterm PORT 115200",
        },
        "lamps": board.lamps,
        "faults": board.faults,
    }


def test_report_has_the_same_on_lines_that_can_be_copied(built, capsys):
    out = "a folder with a long name " * 5
    assert main(["board", "ulx3s_85f", "--config", "tiny", "--out", out]) == 0
    printed = capsys.readouterr().out
    assert f"openFPGALoader -b ulx3s '{out}/ulx3s_85f/selftest.bit'\n" in printed
    assert "20,000 of 80,000 (25%)" in printed
    assert "25 MHz of the 51.2 MHz that timing allows" in printed
    assert "tiny: 4 B per cycle, elements of 1 B, 4,096 lines a round" in printed
    assert "miniterm PORT 115200" in printed
    assert "button F1" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["arty"], "unknown board 'arty'; choose one of ulx3s_85f, ecpix5_85f, orangecrab_85f, "),
        (["ulx3s_85f", "--config", "huge"], "config must be one of titanx_gen3, "),
        (["ulx3s_85f", "--out", "file/x"], "cannot write file/x/ulx3s_85f: Not a directory; "),
        ([], "missing argument 'BOARD'"),
    ],
)
def test_bad_input_is_told_in_one_line(arguments, message, built, capsys):
    Path("file").write_text("")
    assert main(["board", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("cdma: error: ")
    assert message in error
    assert error.count("\n") == 1
    assert not built


def test_a_tool_that_fails_is_told(monkeypatch, capsys):
    def fail(*_):
        raise SynthError("nextpnr failed: ERROR: no room; see build/board/ulx3s_85f/nextpnr.log")

    monkeypatch.setattr(cdma.commands.board.command, "build_bitstream", fail)
    assert main(["board", "ulx3s_85f"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error == (
        "cdma: error: nextpnr failed: ERROR: no room; see build/board/ulx3s_85f/nextpnr.log"
    )
