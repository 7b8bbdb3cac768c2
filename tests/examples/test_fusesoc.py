# amaranth: UnusedElaboratable=no
"""The engine as a black box, by its FuseSoC core, in a system that is not ours."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Value
from amaranth.lib.wiring import In

from cdma.golden import codec
from cdma.hw.config import EngineConfig
from cdma.hw.dma.engine import DmaEngine
from cdma.hw.emit.ip.folder import ip_files
from tests.lib.paths import ROOT
from tests.lib.requirements import ICARUS, require
from tests.lib.rtl.verilog import verilog_of

EXAMPLE = ROOT / "examples" / "fusesoc"
PAGE = ROOT / "docs" / "guide" / "integrate" / "fusesoc.md"
ONE_UNIT = EngineConfig(units=1)
_FUSESOC = "import sys; from fusesoc.main import main; sys.exit(main())"


def fusesoc(folder: Path, ip: Path, soc: Path, *, only_build: bool = False) -> tuple[int, str]:
    """The documented command: its exit status and all it said; its files are in `run`."""
    require(ICARUS)
    page = PAGE.read_text("utf-8")
    (line,) = re.findall(r"^fusesoc (.*example:soc:tensor_store)$", page.replace("\\\n", ""), re.M)
    words = line.split()
    for path, moved in (("build/ip", ip), ("examples/fusesoc", soc), ("build/soc", folder / "run")):
        words[words.index(path)] = str(moved)
    if only_build:
        words[words.index("run") + 1 : words.index("run") + 1] = ["--setup", "--build"]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _FUSESOC, *words],
        cwd=folder,
        env={**os.environ, "XDG_CONFIG_HOME": str(folder)},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def bytes_of(file: Path) -> np.ndarray:
    """The bytes that `$writememh` left, uint8 (bytes,)."""
    words = re.sub(r"//.*|@\w+", "", file.read_text()).split()
    return np.array([int(word, 16) for word in words], np.uint8)


@pytest.fixture(scope="module")
def engine_ip(tmp_path_factory):
    """The folder that `cdma generate engine --units 1 --ip` writes, in that of all blocks."""
    folder = tmp_path_factory.mktemp("ip")
    verilog = verilog_of("engine", ONE_UNIT)
    for path, text in ip_files(verilog, clock_mhz=400).items():
        target = folder / verilog.name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return folder


@pytest.fixture
def soc(tmp_path):
    """A copy of the example, for changes."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "soc"))


@pytest.mark.verify
def test_tensor_goes_out_compressed_and_comes_back(engine_ip, tmp_path):
    status, said = fusesoc(tmp_path, engine_ip, EXAMPLE)
    assert status == 0, said
    tensor, stream, restored = (
        bytes_of(tmp_path / "run" / f"{name}.hex") for name in ("tensor", "stream", "restored")
    )
    assert tensor.size == 3000
    assert 0.3 < np.count_nonzero(tensor.view("<u4")) / 750 < 0.5
    assert stream.tobytes() == codec("zvc", 4).compress(tensor).tobytes()
    assert restored.tobytes() == tensor.tobytes()
    assert f"PASS: 3000 bytes, {stream.size} in the host's memory, and back" in said


@pytest.mark.verify
@pytest.mark.parametrize(
    ("file", "old", "new", "told"),
    [
        ("axi_ram.v", "if (wstrb[k] && write_inside)", "if (write_inside)", "written behind"),
        (
            "axi_ram.v",
            "assign rresp = read_inside ? OKAY : SLVERR;",
            "assign rresp = ID_BITS == 1 ? SLVERR : OKAY;",
            "an error interrupt",
        ),
        ("tensor_store.v", ".irq(irq)", ".irq()", "nothing more comes"),
    ],
    ids=["strobes", "errors of a memory", "interrupt"],
)
def test_fault_of_the_system_is_found(engine_ip, soc, tmp_path, file, old, new, told):
    text = (soc / file).read_text()
    assert text.count(old) == 1
    (soc / file).write_text(text.replace(old, new))
    status, said = fusesoc(tmp_path, engine_ip, soc)
    assert status != 0
    assert re.search(f"FAIL after .*{told}", said), said
    assert "PASS" not in said


def write_stub(folder: Path) -> None:
    """A core with the engine's name, whose module has the engine's ports and nothing behind."""
    ports = ["input wire clk", "input wire rst"]
    engine = DmaEngine(ONE_UNIT)
    for path, member, value in engine.signature.flatten(engine):
        way = "input" if member.flow is In else "output"
        ports.append(f"{way} wire [{len(Value.cast(value)) - 1}:0] {'_'.join(map(str, path))}")
    text = "module cdma_engine (\n  " + ",\n  ".join(ports) + "\n);\nendmodule\n"
    folder.mkdir()
    (folder / "stub.v").write_text(text)
    (folder / "stub.core").write_text(
        "CAPI=2:\nname: cdma:ip:cdma_engine:0\nfilesets:\n  rtl:\n    files: [stub.v]\n"
        "    file_type: verilogSource-2005\ntargets:\n  default:\n    filesets: [rtl]\n"
    )


def misfits(said: str) -> list[str]:
    """Lines of Icarus about ports that are not there, or not as wide."""
    return [
        line for line in said.splitlines() if re.search(r"error|\bport\b|Pruning|Padding", line)
    ]


def test_instance_has_the_engine_s_ports(soc, tmp_path):
    write_stub(tmp_path / "ip")
    status, said = fusesoc(tmp_path, tmp_path / "ip", soc, only_build=True)
    assert status == 0, said
    assert misfits(said) == []
    text = (soc / "tensor_store.v").read_text()
    (soc / "tensor_store.v").write_text(
        text.replace("[39:0] device_awaddr;", "[38:0] device_awaddr;")
    )
    other = tmp_path / "other"
    other.mkdir()
    _, said = fusesoc(other, tmp_path / "ip", soc, only_build=True)
    assert misfits(said) != []


def test_without_the_engine_s_core_it_says_what_the_page_explains(tmp_path):
    (tmp_path / "ip").mkdir()
    status, said = fusesoc(tmp_path, tmp_path / "ip", EXAMPLE)
    assert status != 0
    (message,) = re.findall(r"`(Failed to resolve [^`]*)`", PAGE.read_text("utf-8"))
    assert message in said
