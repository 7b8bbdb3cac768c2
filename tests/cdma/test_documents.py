"""Documents and messages: the commands they tell a reader to type, and the clock they assume."""

import re

import pytest

from cdma.synth.gates.clock import BUDDY, ENGINE
from tests.lib.paths import ROOT

# They read all sources.
pytestmark = pytest.mark.always

FOLDERS = ("cdma", "docs", "golden", "hw", "plan", "reproduce", "sim", "synth", "tests")
SUFFIXES = {".cpp", ".h", ".json", ".lib", ".md", ".py", ".rdl", ".sv", ".toml", ".txt"}

# The distribution has no name of its own on PyPI: what is called cdma there is a stranger's.
STRANGERS_PACKAGE = re.compile(r"pip\d? install\b[^\n]*(?<![\w./-])cdma\b|\bcdma\[\w")


def written_files():
    """All text of the project: its folders, and the files beside them."""
    beside = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]
    below = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    return [
        path
        for path in [*beside, *below]
        if path.is_file() and (path.suffix in SUFFIXES or path.name == "Makefile")
    ]


def test_nothing_suggests_to_install_a_stranger_s_package():
    files = written_files()
    assert {"README.md", "Makefile", "recorder.py", "capture.md"} <= {path.name for path in files}
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in files
        for match in STRANGERS_PACKAGE.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pip install {}", True),
        ("pip install -U '{}[torch]'", True),
        ("the extra `{}[torch]`", True),
        ("pip install ./{}", False),
        ("pip install -e '.[dev]'", False),
        ("{} compress", False),
    ],
)
def test_the_pattern_finds_what_it_is_meant_to(text, found):
    assert bool(STRANGERS_PACKAGE.search(text.format("cd" + "ma"))) == found


# Each has times, or bytes per second, that were counted in cycles of a clock of the model's.
TIMED = {
    "README.md": ENGINE,
    "docs/start/first-run.md": ENGINE,
    "docs/start/tour.md": ENGINE,
    "docs/reference/figures.md": ENGINE,
    "docs/reference/performance.md": ENGINE,
    "docs/guide/swap/estimate.md": ENGINE,
    "docs/reference/planning.md": ENGINE,
    "docs/guide/reproduce.md": ENGINE,
    "docs/guide/plan/schedule.md": ENGINE,
    "docs/guide/plan/schedule-run.md": ENGINE,
    "docs/guide/swap/swap.md": ENGINE,
    "docs/guide/plan/value.md": ENGINE,
    "docs/guide/sweep.md": ENGINE,
    "docs/reference/buddy.md": BUDDY,
    "docs/guide/buddy/buddy-replay.md": BUDDY,
}


@pytest.mark.parametrize("page", TIMED)
def test_pages_with_times_tell_the_clock_that_the_rtl_reaches(page):
    text = " ".join((ROOT / page).read_text(encoding="utf-8").replace("**", "").split())
    reached = TIMED[page]
    assert re.search(r"does not clock (at (1 GHz|875 MHz)|there) yet", text)
    assert f"{reached.what} reaches {reached.mhz:.0f} MHz in" in text


def test_synth_page_tells_the_engine_s_clock():
    text = (ROOT / "docs" / "guide" / "silicon" / "synth.md").read_text(encoding="utf-8")
    assert "it does not clock there yet" in text
    assert f"the engine as a whole, {ENGINE.mhz:.0f} MHz in unit gates" in text
