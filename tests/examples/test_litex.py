"""The codecs as stages of a LiteX design: its Verilog with ours in it, beside numpy."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cdma.hw.config import CodecConfig
from cdma.hw.emit.verilog import Verilog
from tests.examples.litex_bench import Scenario
from tests.hw.cocotb import simulate
from tests.hw.cocotb.builds import built
from tests.lib.paths import ROOT
from tests.lib.rtl.verilog import verilog_of

STORE = ROOT / "examples" / "litex" / "store.py"
BENCH = "tests.examples.litex_bench"


def write_codecs(folder: Path, config: CodecConfig) -> None:
    """The files that `cdma generate` writes of both codecs."""
    for name in ("zvc-compressor", "zvc-decompressor"):
        verilog = verilog_of(name, config)
        (folder / f"{verilog.name}.v").write_text(verilog.text)
        sidecar = {**verilog.sidecar, "file": f"{verilog.name}.v"}
        (folder / f"{verilog.name}.json").write_text(json.dumps(sidecar))


def run_store(codecs: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """The documented command."""
    command = [sys.executable, STORE, "--codecs", codecs, "--out", out]
    return subprocess.run([*map(str, command)], capture_output=True, text=True)


def store_design(config: CodecConfig, folder: Path) -> Verilog:
    """The design as one text, without the date that LiteX writes."""
    write_codecs(folder, config)
    done = run_store(folder, folder / "litex")
    assert done.returncode == 0, done.stderr
    files = [Path(line) for line in done.stdout.splitlines()]
    assert [file.name for file in files] == ["zvc_compressor.v", "zvc_decompressor.v", "store.v"]
    text = "\n".join(file.read_text() for file in files)
    return Verilog("store", re.sub(r"(?m)^//.*\n", "", text), {})


@pytest.mark.verify
@pytest.mark.parametrize(
    ("simulator", "element_bytes", "sector_bytes", "stall"),
    [
        ("icarus", 4, 32, 0.4),
        ("icarus", 4, 32, 0.0),
        ("verilator", 4, 32, 0.4),
        ("verilator", 2, 64, 0.0),
    ],
)
def test_store_gives_back_what_it_took(simulator, element_bytes, sector_bytes, stall, tmp_path):
    config = CodecConfig(element_bytes=element_bytes, sector_bytes=sector_bytes)
    build = built(simulator, store_design(config, tmp_path))
    scenario = Scenario(element_bytes=element_bytes, sector_bytes=sector_bytes, stall=stall)
    simulate.run(build, "store_gives_back_what_it_took", scenario, tmp_path / "run", module=BENCH)


def test_what_is_no_stage_is_refused_with_what_to_generate(tmp_path):
    write_codecs(tmp_path, CodecConfig())
    packer = verilog_of("packer", CodecConfig())
    (tmp_path / "zvc_compressor.json").write_text(json.dumps(packer.sidecar))
    done = run_store(tmp_path, tmp_path / "litex")
    assert done.returncode != 0
    assert "describes packer, which is no stream stage; generate zvc-compressor" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "litex").exists()


def test_a_missing_codec_is_named(tmp_path):
    done = run_store(tmp_path, tmp_path / "litex")
    assert done.returncode != 0
    assert "zvc_compressor.json" in done.stderr
    assert "Traceback" not in done.stderr
