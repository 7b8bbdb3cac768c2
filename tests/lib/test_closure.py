"""The files that a module depends on, as read from sources."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lib.closure import PATHS, Checkout, references
from tests.lib.paths import ROOT

# They read all sources.
pytestmark = pytest.mark.always


@pytest.fixture(scope="module")
def checkout():
    return Checkout(ROOT)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import cdma.app", {"cdma.app"}),
        ("import numpy, re", set()),
        ("from cdma.hw import config", {"cdma.hw:config"}),
        ("from . import lines", {"tests.formal:lines"}),
        ("from .lines import TINY", {"tests.formal.lines:TINY"}),
        ("from ..lib import paths", {"tests.lib:paths"}),
        ("def f():\n    import cdma.app", {"cdma.app"}),
        ("x = 'from cdma.cli import main'", {"cdma.cli", "cdma.cli.__main__"}),
        ("x = f'cdma.commands.{name}'", {"cdma.commands."}),
        ("'''As cdma.cli does.'''", set()),
        ("x = 'build/cdma.cli other.cdma.cli'", set()),
    ],
)
def test_names_of_imports_and_strings(source, expected):
    assert references(source, "tests.formal") == expected


@pytest.mark.parametrize(
    ("module", "needed"),
    [
        # A bench that cocotb loads within the simulator.
        ("tests.hw.cocotb.engine.test_engine", "tests.hw.cocotb.engine.benches"),
        ("tests.hw.cocotb.engine.test_engine", "cdma.hw.dma.outbound.issue"),
        # A command, which the command line imports when it is used.
        ("tests.cdma.commands.test_swap", "cdma.commands.swap.command"),
        ("tests.sim.machine.test_build", "cdma.sim.machine.build.build"),
        ("tests.formal.codec.test_zvc", "tests.conftest"),
        ("tests.formal.codec.test_zvc", "tests.formal.rules"),
        ("tests.formal.codec.test_zvc", "cdma.hw.lib.lanes"),
    ],
)
def test_closures_of_tests(checkout, module, needed):
    assert needed in checkout.closure([module, "tests.conftest"])


def test_what_does_not_depend_on_a_component_is_not_run_after_its_edit(checkout):
    for module in ("tests.golden.buddy.test_entry", "tests.formal.codec.test_zvc"):
        closure = checkout.closure([module, "tests.conftest"])
        assert "cdma.hw.dma.engine" not in closure
        # With it, any edit at all would count.
        assert PATHS not in closure


@pytest.mark.parametrize(
    "module", ["tests.sim.execute.test_execute", "tests.hw.cocotb.buddy.benches", "cdma.cli"]
)
def test_an_import_takes_nothing_that_the_closure_has_not(checkout, module):
    source = f"import {module}, json, sys; print(json.dumps(list(sys.modules)))"
    printed = subprocess.check_output([sys.executable, "-c", source], cwd=ROOT, text=True)
    taken = checkout.modules.keys() & set(json.loads(printed))
    assert len(taken) >= 4
    assert taken <= checkout.closure([module])


def test_the_key_covers_sources_of_the_closure_and_data(checkout):
    closure = checkout.closure(["tests.formal.codec.test_zvc"])
    covered = {
        "cdma/hw/lib/lanes.py": True,
        "hw/lib/lanes.py": True,
        "hw/dma/engine.py": False,
        "cdma/hw/buddy/registers.rdl": True,
        "tests/sim/machine/copier.sv": False,
        "pyproject.toml": True,
        "README.md": False,
        "build/proofs.md": True,
    }
    assert {name: checkout.covers(ROOT / name, closure) for name in covered} == covered
    assert checkout.covers(ROOT / "README.md", checkout.closure(["tests.lib.paths"]))
    machine = checkout.closure(["tests.sim.machine.test_machine"])
    assert checkout.covers(ROOT / "tests/sim/machine/copier.sv", machine)


def test_an_edit_changes_the_hash_of_what_depends_on_it(tmp_path: Path):
    (tmp_path / "tests").mkdir()
    for name, text in (("a", "import tests.b"), ("b", ""), ("c", "")):
        (tmp_path / "tests" / f"{name}.py").write_text(text)

    def hashes() -> list[str]:
        checkout = Checkout(tmp_path)
        return [checkout.sources(checkout.closure([f"tests.{name}"])) for name in "abc"]

    before = hashes()
    (tmp_path / "tests" / "b.py").write_text("# edited")
    after = hashes()
    assert [old == new for old, new in zip(before, after, strict=True)] == [False, False, True]


def test_data_count_for_the_modules_beside_them(tmp_path: Path):
    names = ("cdma/rates.json", "tests/one/kept.json", "tests/two/kept.json", "pyproject.toml")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")

    def hashes() -> list[str]:
        checkout = Checkout(tmp_path)
        of = {"tests.one.test_a"}, {"tests.two.b"}, {"tests.one.test_a", "tests.two.b"}
        return [checkout.data(frozenset(closure)) for closure in of]

    before = hashes()
    changed = {}
    for name in names:
        (tmp_path / name).write_text("edited")
        changed[name] = [old != new for old, new in zip(before, hashes(), strict=True)]
        (tmp_path / name).write_text("")
    assert changed == {
        "cdma/rates.json": [True, True, True],
        "tests/one/kept.json": [True, False, True],
        "tests/two/kept.json": [False, True, True],
        "pyproject.toml": [True, True, True],
    }

    def without_settings() -> str:
        return Checkout(tmp_path).data(frozenset({"tests.one.test_a"}), settings=False)

    before = without_settings()
    (tmp_path / "pyproject.toml").write_text("edited")
    assert without_settings() == before
    (tmp_path / "cdma/rates.json").write_text("edited")
    assert without_settings() != before
