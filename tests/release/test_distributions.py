"""The source archive and the wheel: what is in them, and that it works where the checkout is not.

The user's folder has packages called like our rooms, as those of people who design hardware do.
"""

import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.lib.paths import ROOT
from tests.release.checkout import ROOMS, ok, tracked

DATA = {
    "hw/dma/control/registers.rdl",
    "hw/emit/bench/engine_tb.sv",
    "plan/papers/cdma.toml",
    "plan/policies/cswap/samples.json",
    "plan/timeline/kernel.cpp",
    "plan/workload/capture/captures/digits-cnn.npz",
    "py.typed",
    "sim/machine/shim/engine/engine.cpp",
    "sim/machine/shim/abi.h",
    "synth/baseline.json",
    "synth/gates/unit_gates.lib",
}
"""One of each kind of file that is no Python."""


def package() -> set[str]:
    """Files of the package, where it is installed."""
    ours = [name for name in tracked() if name.split("/")[0] in ("cdma", *ROOMS)]
    links = {f"cdma/{room}" for room in ROOMS}
    return {
        name if name.startswith("cdma/") else f"cdma/{name}" for name in ours if name not in links
    }


def test_the_source_archive_has_the_package_and_what_describes_it(archive):
    with tarfile.open(archive) as packed:
        files = [member for member in packed.getmembers() if not member.isdir()]
    # Links would lead nowhere on another machine.
    assert all(member.isfile() for member in files)
    names = {member.name.partition("/")[2] for member in files}
    assert {name for name in names if name.startswith("cdma/")} == package()
    assert {"LICENSE", "README.md", "pyproject.toml"} <= names


def test_the_wheel_has_one_package_with_all_its_data(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert {name.split("/")[0] for name in names} == {"cdma"}
    assert names == package()
    assert {f"cdma/{name}" for name in DATA} <= names


def test_what_is_installed_is_the_wheel_s(environment, users):
    code = "import cdma, cdma.hw, cdma.sim; print(cdma.__file__, cdma.hw.__file__)"
    for path in ok(environment / "python", "-c", code).split():
        assert Path(path).is_relative_to(environment.parent)


def test_a_user_s_package_would_be_found_by_its_bare_name(environment, users):
    done = subprocess.run([environment / "python", "-c", "import hw"], capture_output=True)
    assert b"this is the user s" in done.stderr


@pytest.mark.verify
def test_python_in_the_readme_runs_beside_a_user_s_packages(environment, users):
    blocks = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert blocks
    for block in blocks:
        (users / "example.py").write_text(block)
        assert ok(environment / "python", "example.py").strip()


@pytest.mark.verify
@pytest.mark.parametrize("as_module", [False, True])
def test_commands_run_beside_a_user_s_packages(environment, users, as_module):
    command = [environment / "python", "-m", "cdma"] if as_module else [environment / "cdma"]
    np.save("a.npy", np.eye(64, dtype=np.float32))
    assert "a.npy" in ok(*command, "swap", "a.npy")
    ok(*command, "generate", "packer", "--out", "rtl")
    assert (users / "rtl" / "packer.v").exists()


@pytest.mark.verify
def test_data_is_found_where_it_is_installed(environment, users):
    """Registers' description, the timeline's kernel, captures, figures of papers, cells."""
    run = environment / "cdma"
    ok(run, "generate", "engine-registers", "--config", "tiny", "--out", "rtl")
    plan = ["schedule", "--network", "alexnet", "--policy", "vdnn", "--bound", "none"]
    assert "vdnn" in ok(run, *plan)
    assert "token-bucket" in ok(run, "synth", "token-bucket", "--config", "tiny")
