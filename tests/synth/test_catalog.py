"""The page of components: it is what its generator writes, and tells what users ask for."""

import json
import re

import pytest

from cdma.synth.baseline import BASELINES, ECP5, GENERIC
from cdma.synth.catalog import DOCUMENT, document
from cdma.synth.components import block_names
from tests.lib.paths import ROOT

PAGE = ROOT / DOCUMENT


@pytest.fixture(scope="module")
def page():
    return document()


@pytest.mark.verify
def test_page_is_what_its_generator_writes(page):
    assert PAGE.read_text(encoding="utf-8") == page, (
        f"generate it again: .venv/bin/python -m cdma.synth.catalog > {DOCUMENT}"
    )


def test_every_component_tells_its_cost_in_time(page):
    sections = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    assert [section.partition("\n")[0] for section in sections] == block_names()
    for section in sections:
        for heading in ("latency", "throughput", "source"):
            assert re.search(rf"^\| {heading} \| \S.* \|$", section, re.MULTILINE), section


def test_figures_are_the_baselines(page):
    rows = {
        target: {row["name"]: row for row in json.loads(path.read_text())["components"]}
        for target, path in BASELINES.items()
    }
    for name in block_names():
        (line,) = (line for line in page.splitlines() if line.startswith(f"| [`{name}`]"))
        cells = [cell.strip() for cell in line.split("|")[2:-1]]
        gate, lut = rows[GENERIC][name], rows[ECP5].get(name)
        assert cells[0] == f"{gate['kge']:,.1f}"
        assert cells[3] == f"{gate['fmax_mhz']:,.0f}"
        assert cells[4] == ("–" if lut is None else f"{lut['luts']:,}")


def test_pictures_keep_their_lines(page):
    (section,) = (part for part in page.split("\n## ") if part.startswith("buddy\n"))
    (picture,) = re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    first, second, _ = picture.splitlines()
    assert first.startswith("s_axi ─ frontend")
    # Reads and writes meet at the memories.
    assert first.rindex("┬") == second.index("┘")
