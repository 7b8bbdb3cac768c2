"""Mutants of a small checkout: found, not found, and never changing the checkout itself."""

import shutil

import pytest

from tests.lib.closure import Checkout
from tests.lib.paths import ROOT
from tests.mutation.mutants import mutants, stages
from tests.mutation.run import Workshop, judged

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


@pytest.mark.parametrize(
    ("check", "outcomes"),
    [
        (STRONG, {"(x <= 10)": "survived", "(11)": "killed", "(10 if x < 10 else x)": "killed"}),
        (WEAK, {"(x <= 10)": "survived", "(11)": "survived", "(10 if x < 10 else x)": "killed"}),
        ("assert clamp(3) == 4", {"(11)": "undecided"}),
    ],
)
def test_what_tests_find_and_what_they_do_not(checkout, tmp_path, check, outcomes):
    made = checkout(check)
    assert stages(made, "sim/clamp.py") == [["tests/sim/test_clamp.py"], []]
    shop = Workshop(made, tmp_path / "shop")
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


def test_a_verdict_is_kept_while_file_and_tests_are_the_same(checkout, tmp_path, monkeypatch):
    made = checkout(STRONG)
    mutant = next(one for one in mutants(made.root, ["sim"]) if one.fault.kind == "choice")
    shop = Workshop(made, tmp_path / "shop")
    first = judged(shop, mutant)
    assert first.outcome == "killed"
    monkeypatch.setattr(Workshop, "judge", lambda *_: pytest.fail("judged again"))
    assert judged(shop, mutant) == first
    (made.root / "tests" / "sim" / "test_clamp.py").write_text(
        "from cdma.sim.clamp import clamp\n\ndef test_clamp():\n    assert clamp(1) == 1\n"
    )
    with pytest.raises(pytest.fail.Exception, match="judged again"):
        judged(Workshop(Checkout(made.root), tmp_path / "shop"), mutant)


def test_an_edit_elsewhere_leaves_the_names(checkout):
    made = checkout(STRONG)
    before = {mutant.name for mutant in mutants(made.root, ["sim"])}
    (made.root / "sim" / "clamp.py").write_text(f"y = 3\n\n\n{SOURCE}")
    after = {mutant.name for mutant in mutants(made.root, ["sim"])}
    assert len(before) == 4
    assert before < after
