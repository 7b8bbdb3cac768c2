"""Mutants of a small checkout: found, not found, and never changing the checkout itself."""

import os
import shutil

import pytest

from tests.lib.closure import Checkout
from tests.lib.paths import ROOT
from tests.mutation.ledger import Verdict
from tests.mutation.mutants import mutants, stages
from tests.mutation.run import Workshop, is_current, judged, kept_verdict, records
from tests.mutation.server import Server

# They run pytest in a checkout of their own.
pytestmark = pytest.mark.always

SOURCE = "def clamp(x):\n    return x if x < 10 else 10\n"
STRONG = "assert [clamp(x) for x in (9, 10, 12)] == [9, 10, 10]"
WEAK = "assert clamp(3) == 3"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """Makes a checkout of one module with one test."""
    monkeypatch.setenv("CDMA_CACHE", str(tmp_path / "cache"))

    def make(check: str) -> Checkout:
        root = tmp_path / "checkout"
        for folder in ("cdma", "sim", "tests/sim"):
            (root / folder).mkdir(parents=True)
        (root / "cdma" / "__init__.py").touch()
        (root / "cdma" / "sim").symlink_to("../sim")
        (root / "sim" / "clamp.py").write_text(SOURCE)
        test = f"from cdma.sim.clamp import clamp\n\ndef test_clamp():\n    {check}\n"
        (root / "tests" / "sim" / "test_clamp.py").write_text(test)
        (root / "tests" / "mutation").mkdir()
        shutil.copy(ROOT / "tests/mutation/witness.py", root / "tests/mutation/witness.py")
        (root / "pyproject.toml").write_text(
            "[tool.pytest.ini_options]\nmarkers = ['verify', 'torch']\n"
            "addopts = '--import-mode=importlib'\npythonpath = ['.']\n"
        )
        return Checkout(root)

    return make


@pytest.fixture
def shop_of(tmp_path):
    """Makes workshops, and closes them."""
    made = []

    def make(checkout: Checkout) -> Workshop:
        made.append(Workshop(checkout, tmp_path / "shop"))
        return made[-1]

    yield make
    for shop in made:
        shop.close()


@pytest.mark.parametrize(
    ("check", "outcomes"),
    [
        (STRONG, {"(x <= 10)": "survived", "(11)": "killed", "(10 if x < 10 else x)": "killed"}),
        (WEAK, {"(x <= 10)": "survived", "(11)": "survived", "(10 if x < 10 else x)": "killed"}),
        ("assert clamp(3) == 4", {"(11)": "undecided"}),
    ],
)
def test_what_tests_find_and_what_they_do_not(checkout, shop_of, check, outcomes):
    made = checkout(check)
    assert stages(made, "sim/clamp.py") == [["tests/sim/test_clamp.py"], []]
    shop = shop_of(made)
    found = {}
    for mutant in mutants(made.root, ["sim"]):
        if mutant.fault.after in outcomes:
            verdict = judged(shop, mutant)
            # Constants of both places are alike: the first is that of the comparison.
            found.setdefault(mutant.fault.after, set()).add(verdict.outcome)
            if verdict.outcome == "killed":
                assert verdict.test == "tests/sim/test_clamp.py::test_clamp"
                assert verdict.error.startswith("AssertionError")
    assert {after: outcome in found[after] for after, outcome in outcomes.items()} == dict.fromkeys(
        outcomes, True
    )
    assert (made.root / "sim" / "clamp.py").read_text() == SOURCE
    assert (shop.folder / "sim" / "clamp.py").read_text() == SOURCE


def test_a_verdict_is_kept_while_file_and_tests_are_the_same(checkout, shop_of, monkeypatch):
    made = checkout(STRONG)
    mutant = next(one for one in mutants(made.root, ["sim"]) if one.fault.kind == "choice")
    shop = shop_of(made)
    first = judged(shop, mutant)
    assert first.outcome == "killed"
    monkeypatch.setattr(Workshop, "judge", lambda *_, **__: pytest.fail("judged again"))
    assert judged(shop, mutant) == first
    assert kept_verdict(shop, mutant) == first
    (made.root / "tests" / "sim" / "test_clamp.py").write_text(
        "from cdma.sim.clamp import clamp\n\ndef test_clamp():\n    assert clamp(1) == 1\n"
    )
    shop = shop_of(Checkout(made.root))
    assert kept_verdict(shop, mutant) is None
    with pytest.raises(pytest.fail.Exception, match="judged again"):
        judged(shop, mutant)


def test_the_ledger_has_what_the_cache_has_lost_and_tells_what_has_changed(
    checkout, shop_of, monkeypatch, tmp_path
):
    made = checkout(STRONG)
    mutant = next(one for one in mutants(made.root, ["sim"]) if one.fault.kind == "choice")
    shop = shop_of(made)
    verdict = judged(shop, mutant)
    (record,) = records(shop, mutant)
    assert record.verdict == verdict
    monkeypatch.setenv("CDMA_CACHE", str(tmp_path / "another"))
    assert kept_verdict(shop, mutant) is None
    shop.ledger = {mutant.name: record}
    assert kept_verdict(shop, mutant) == verdict
    (made.root / "tests" / "sim" / "test_clamp.py").write_text(
        f"from cdma.sim.clamp import clamp\n\ndef test_clamp():\n    {WEAK}\n"
    )
    shop = shop_of(Checkout(made.root))
    shop.ledger = {mutant.name: record}
    assert kept_verdict(shop, mutant) is None
    assert records(shop, mutant) == [record]
    assert not is_current(shop, mutant, record)


def test_the_test_that_has_found_a_mutant_before_is_asked_first(checkout, shop_of, monkeypatch):
    made = checkout(STRONG)
    mutant = next(one for one in mutants(made.root, ["sim"]) if one.fault.kind == "choice")
    shop = shop_of(made)
    first = judged(shop, mutant)
    test = made.root / "tests" / "sim" / "test_clamp.py"
    test.write_text(f"{test.read_text()}\n\ndef test_more():\n    {WEAK}\n")
    shop = shop_of(Checkout(made.root))
    assert kept_verdict(shop, mutant) is None
    asked = []
    ask = Workshop._failure
    monkeypatch.setattr(
        Workshop, "_failure", lambda shop, tests: asked.append(list(tests)) or ask(shop, tests)
    )
    assert judged(shop, mutant) == first
    # With the fault, and without.
    assert asked == [[first.test], [first.test]]
    # One that finds it no more is no reason to give up.
    test.write_text(test.read_text().replace(STRONG, "pass").replace(WEAK, STRONG))
    found = judged(shop_of(Checkout(made.root)), mutant)
    assert (found.outcome, found.test) == ("killed", "tests/sim/test_clamp.py::test_more")


def test_what_is_part_of_no_component_has_no_netlist_to_compare(checkout, shop_of, monkeypatch):
    made = checkout("assert clamp(30) == clamp(20)")
    (made.root / "hw").mkdir()
    (made.root / "cdma" / "hw").symlink_to("../hw")
    (made.root / "hw" / "clamp.py").write_text(SOURCE)
    test = made.root / "tests" / "hw" / "test_clamp.py"
    test.parent.mkdir()
    test.write_text((made.root / "tests/sim/test_clamp.py").read_text().replace(".sim.", ".hw."))
    shop = shop_of(Checkout(made.root))
    mutant = next(one for one in mutants(made.root, ["hw"]) if one.fault.after == "(11)")
    built = {"clamp": ("as it is", ["hw/clamp.py"]), "other": ("as it is", ["hw/other.py"])}
    monkeypatch.setattr(Workshop, "_healthy_netlists", lambda _: built)
    monkeypatch.setattr(Workshop, "_imports", lambda *_: False)
    asked = []

    def netlists(_, shapes, *, until_other):
        asked.append(shapes)
        return {shape: built[shape] for shape in shapes}

    monkeypatch.setattr(Workshop, "_netlists", netlists)
    assert judged(shop, mutant) == Verdict("same netlist")
    assert asked == [["clamp"]]
    built["clamp"] = ("as it is", [])
    assert shop.judge(mutant) == Verdict("survived")
    assert asked == [["clamp"]]


def test_what_is_found_stays_found_when_other_tests_change(checkout, shop_of, monkeypatch):
    made = checkout(STRONG)
    mutant = next(one for one in mutants(made.root, ["sim"]) if one.fault.kind == "choice")
    first = judged(shop_of(made), mutant)
    other = made.root / "tests" / "sim" / "test_more.py"
    other.write_text("from cdma.sim.clamp import clamp\n\ndef test_more():\n    clamp(1)\n")
    monkeypatch.setattr(Workshop, "judge", lambda *_, **__: pytest.fail("judged again"))
    assert judged(shop_of(Checkout(made.root)), mutant) == first


def test_whole_engines_are_asked_later(checkout, shop_of, monkeypatch):
    made = checkout(WEAK)
    whole = made.root / "tests" / "sim" / "buddy" / "test_clamps.py"
    whole.parent.mkdir()
    (made.root / "tests" / "sim" / "test_clamp.py").rename(whole)
    (made.root / "tests" / "sim" / "test_near.py").write_text(
        "from cdma.sim.clamp import clamp\n\ndef test_near():\n    clamp(1)\n"
    )
    made = Checkout(made.root)
    monkeypatch.setattr("tests.mutation.mutants.WHOLE", ("tests/sim/buddy",))
    assert stages(made, "sim/clamp.py") == [
        ["tests/sim/test_near.py"],
        ["tests/sim/buddy/test_clamps.py"],
    ]
    mutant = next(one for one in mutants(made.root, ["sim"]) if one.fault.kind == "choice")
    shop = shop_of(made)
    assert judged(shop, mutant, whole=False) == Verdict("open")
    monkeypatch.setattr(Workshop, "judge", lambda *_, **__: pytest.fail("judged again"))
    assert judged(shop, mutant, whole=False) == Verdict("open")
    assert judged(shop, mutant).test == "tests/sim/buddy/test_clamps.py::test_clamp"


def test_the_test_that_depends_on_least_is_asked_first(checkout):
    made = checkout(STRONG)
    folder = made.root / "tests" / "sim"
    for name, imports in (("a", "cdma.sim.other"), ("b", "cdma.sim.clamp")):
        (folder / f"test_{name}.py").write_text(f"import {imports}\n")
    (made.root / "sim" / "other.py").write_text("import cdma.sim.clamp\n")
    tests = ["tests/sim/test_clamp.py", "tests/sim/test_b.py", "tests/sim/test_a.py"]
    assert stages(Checkout(made.root), "sim/clamp.py") == [*([test] for test in tests), []]


def test_a_loop_without_end_is_found(checkout, shop_of, monkeypatch):
    monkeypatch.setenv("CDMA_MUTATION_TEST_S", "1")
    made = checkout(STRONG)
    (made.root / "tests" / "sim" / "test_clamp.py").write_text(
        "from cdma.sim.clamp import clamp\n\ndef test_clamp():\n    clamp(12)\n"
    )
    (made.root / "sim" / "clamp.py").write_text("def clamp(x):\n    while x > 10: x -= True\n")
    made = Checkout(made.root)
    mutant = next(one for one in mutants(made.root, ["sim"]) if one.fault.after == "(False)")
    assert judged(shop_of(made), mutant).error == "OvertimeError: more than 1 s"


LOADED = {
    "for all tests, and raises": ("LIMITS = [0] * 12\nLIMITS[11]\n", "(12)"),
    "for its own test, and never ends": ("left = 12\nwhile left: left -= 12\n", "(13)"),
}


@pytest.mark.parametrize("loaded", LOADED)
def test_what_is_loaded_before_any_test_is_found(checkout, shop_of, monkeypatch, loaded):
    monkeypatch.setenv("CDMA_MUTATION_TEST_S", "1")
    made = checkout(STRONG)
    if "all" in loaded:
        (made.root / "tests" / "conftest.py").write_text("import cdma.sim.clamp\n")
    text, fault = LOADED[loaded]
    (made.root / "sim" / "clamp.py").write_text(SOURCE + text)
    made = Checkout(made.root)
    mutant = next(one for one in mutants(made.root, ["sim"]) if one.fault.after == fault)
    verdict = judged(shop_of(made), mutant)
    assert (verdict.outcome, verdict.test) == ("killed", "tests/sim/test_clamp.py")


def test_components_that_it_is_a_part_of_are_asked_before_whole_engines(checkout):
    made = checkout(STRONG)
    for folder in ("hw/dma", "hw/emit", "docs", "sim/buddy"):
        (made.root / "tests" / folder).mkdir(parents=True)
        (made.root / "tests" / folder / "test_it.py").write_text("import cdma.sim.clamp\n")
    assert stages(Checkout(made.root), "sim/clamp.py") == [
        ["tests/sim/test_clamp.py"],
        ["tests/hw/dma/test_it.py"],
        ["tests/sim/buddy/test_it.py"],
    ]


def test_what_takes_too_long_is_stopped(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import os, time\n\ndef test_quick(): pass\n\ndef test_slow(): time.sleep(60)\n"
    )
    server = Server(tmp_path, os.environ)
    assert server.run(["-k", "slow"], 1) is None
    assert server.run(["-k", "quick"], 60) == pytest.ExitCode.OK
    assert server.run(["-k", "none"], 60) == pytest.ExitCode.NO_TESTS_COLLECTED
    server.close()


def test_an_edit_elsewhere_leaves_the_names(checkout):
    made = checkout(STRONG)
    before = {mutant.name for mutant in mutants(made.root, ["sim"])}
    (made.root / "sim" / "clamp.py").write_text(f"y = 3\n\n\n{SOURCE}")
    after = {mutant.name for mutant in mutants(made.root, ["sim"])}
    assert len(before) == 4
    assert before < after


PART = """
from amaranth.hdl import Elaboratable, Module, Signal


class Half(Elaboratable):
    def __init__(self):
        self.o = Signal()
        self.p = Signal()

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(1)
        m.d.comb += self.p.eq(1)
        return m
"""
USER = """
from amaranth.hdl import Fragment

from cdma.sim.{module} import Half


def test_it():
    Fragment.get(Half(), None)
"""


def test_files_of_tests_that_build_other_parts_are_not_asked(checkout, shop_of, monkeypatch):
    made = checkout(STRONG)
    folder = made.root / "tests" / "sim"
    (made.root / "sim" / "other.py").write_text(PART.replace("Half", "Other"))
    (made.root / "sim" / "half.py").write_text("import cdma.sim.other\n" + PART)
    (made.root / "sim" / "whole.py").write_text("from cdma.sim.half import Half\n" + "X = Half\n")
    (folder / "test_half.py").write_text(USER.format(module="half"))
    (folder / "test_whole.py").write_text(USER.format(module="whole").replace("Half", "X"))
    # Imports it, and builds nothing of it.
    (folder / "test_apart.py").write_text(
        USER.format(module="other").replace("Half", "Other") + "import cdma.sim.half\n"
    )
    made = Checkout(made.root)
    tests = {f"tests/sim/test_{name}.py" for name in ("half", "whole", "apart")}
    assert {stage[0] for stage in stages(made, "sim/half.py")[:-1]} == tests
    shop = shop_of(made)
    asked = []
    failure = Workshop._failure

    def asking(shop, run):
        asked.extend(run)
        return failure(shop, run)

    monkeypatch.setattr(Workshop, "_failure", asking)
    drawn = mutants(made.root, ["sim/half.py"])
    first, second = (one for one in drawn if one.fault.kind == "constant")
    assert judged(shop, first).outcome == "survived"
    assert set(asked) == tests
    asked.clear()
    assert second.part((made.root / "sim" / "half.py").read_text()) == "cdma.sim.half:Half"
    assert judged(shop, second).outcome == "survived"
    assert set(asked) == tests - {"tests/sim/test_apart.py"}


def test_the_single_test_that_found_another_fault_is_asked_first(checkout, shop_of, monkeypatch):
    made = checkout(STRONG)
    shop = shop_of(made)
    asked = []
    failure = Workshop._failure

    def asking(shop, run):
        asked.append(run)
        return failure(shop, run)

    monkeypatch.setattr(Workshop, "_failure", asking)
    # One that was there once is passed over.
    shop.note("sim/clamp.py", Verdict("killed", "tests/sim/test_clamp.py::test_that_is_gone"))
    drawn = mutants(made.root, ["sim"])
    (first,) = (one for one in drawn if one.fault.kind == "choice")
    (second,) = (one for one in drawn if one.fault.after == "(11)" and one.place == 1)
    found = "tests/sim/test_clamp.py::test_clamp"
    assert judged(shop, first).test == found
    assert asked[1:] == [["tests/sim/test_clamp.py"], [found]]
    asked.clear()
    assert judged(shop, second).test == found
    assert [found] in asked
    assert ["tests/sim/test_clamp.py"] not in asked


def test_files_elsewhere_that_build_the_part_are_asked_once_they_are_known(
    checkout, shop_of, monkeypatch
):
    made = checkout(STRONG)
    (made.root / "sim" / "half.py").write_text(PART)
    (made.root / "tests" / "sim" / "test_half.py").write_text("import cdma.sim.half\n")
    elsewhere = made.root / "tests" / "hw" / "test_user.py"
    elsewhere.parent.mkdir()
    elsewhere.write_text(
        USER.format(module="half").replace("    Fragment.get", "    fragment = Fragment.get")
        + "    values = [s.rhs.value for parts in fragment.statements.values() for s in parts]\n"
        + "    assert values == [1, 1]\n"
    )
    monkeypatch.setattr("tests.mutation.mutants.ELSEWHERE", 0)
    made = Checkout(made.root)
    assert stages(made, "sim/half.py") == [["tests/sim/test_half.py"], []]
    mutant = next(m for m in mutants(made.root, ["sim/half.py"]) if m.fault.kind == "constant")
    shop = shop_of(made)
    assert shop.judge(mutant) == Verdict("survived")
    # As when another fault sends it through this file.
    assert shop._failure(["tests/hw/test_user.py"]) is None
    assert shop.judge_elsewhere(mutant).test == "tests/hw/test_user.py::test_it"
    assert shop.judge(mutant).outcome == "killed"
