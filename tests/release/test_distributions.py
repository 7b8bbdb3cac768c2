"""The source archive and the wheel: what is in them, and that it works where the checkout is not.

The checkout as git has it is packed, the wheel built from that archive as `make dist` does, and
installed into an environment of its own, which finds other people's packages where this one does.
The user's folder has packages called like our rooms, as those of people who design hardware do.
"""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.lib.paths import ROOT

ROOMS = ("golden", "hw", "plan", "reproduce", "sim", "synth")
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


def tracked() -> list[str]:
    """Files of the working tree that git has, or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = {name for name in listed.stdout.split("\0") if name}
    return sorted(name for name in names if os.path.lexists(ROOT / name))


def ok(*command: str | Path, **options) -> str:
    """Its output; an error with what it says if it fails."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """Packed from a copy, as that leaves files beside the sources; the wheel is beside it."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in tracked():
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            target.symlink_to(os.readlink(ROOT / name))
        else:
            target.write_bytes((ROOT / name).read_bytes())
    folder = tmp_path_factory.mktemp("dist")
    # With the setuptools that is here, so that nothing need be downloaded.
    ok(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, copy)
    (packed,) = folder.glob("cdma_rtl-*.tar.gz")
    return packed


@pytest.fixture(scope="module")
def wheel(archive):
    """Built from the source archive."""
    (built,) = archive.parent.glob("cdma_rtl-*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    """The `bin` of an environment that has the wheel, and not the checkout."""
    folder = tmp_path_factory.mktemp("environment")
    ok(sys.executable, "-m", "venv", "--without-pip", folder)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    ok(*pip, "install", "--no-deps", "--no-index", wheel)
    # Further entries of the path, of which no .pth file is read: an editable install stays unseen.
    others = [path for path in sys.path if path.endswith("site-packages")]
    assert sysconfig.get_path("purelib") in others
    query = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(ok(python, "-c", query).strip())
    (site / "others.pth").write_text("\n".join(others) + "\n")
    return python.parent


@pytest.fixture
def users(tmp_path, monkeypatch):
    """A user's folder; its packages must not be taken for ours."""
    for room in ROOMS:
        (tmp_path / room).mkdir()
        (tmp_path / room / "__init__.py").write_text("raise RuntimeError('this is the user s')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return tmp_path


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


def test_python_in_the_readme_runs_beside_a_user_s_packages(environment, users):
    blocks = re.findall(
        r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL
    )
    assert blocks
    for block in blocks:
        (users / "example.py").write_text(block)
        assert ok(environment / "python", "example.py").strip()


@pytest.mark.parametrize("as_module", [False, True])
def test_commands_run_beside_a_user_s_packages(environment, users, as_module):
    command = [environment / "python", "-m", "cdma"] if as_module else [environment / "cdma"]
    np.save("a.npy", np.eye(64, dtype=np.float32))
    assert "a.npy" in ok(*command, "swap", "a.npy")
    ok(*command, "generate", "packer", "--out", "rtl")
    assert (users / "rtl" / "packer.v").exists()


def test_data_is_found_where_it_is_installed(environment, users):
    """Registers' description, the timeline's kernel, captures, figures of papers, cells."""
    run = environment / "cdma"
    ok(run, "generate", "engine-registers", "--config", "tiny", "--out", "rtl")
    plan = ["schedule", "--network", "alexnet", "--policy", "vdnn", "--bound", "none"]
    assert "vdnn" in ok(run, *plan)
    assert "token-bucket" in ok(run, "synth", "token-bucket", "--config", "tiny")
