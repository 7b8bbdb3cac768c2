"""Figures of nvCOMP beside XC in performance.md are those recorded, and those golden computes."""

import json
import re

import pytest

from tests.bench.nvcomp import ALGORITHMS, RECORDED, TIMED, xc_ratios
from tests.docs.pages import DOCS

PAGE = (DOCS / "reference" / "performance.md").read_text()
SECTION = PAGE[PAGE.index("## Beside nvCOMP") :]
FIGURES = json.loads(RECORDED.read_text())
RATIO_ROW = re.compile(r"^\| `([\w-]+)`: ([\w ]+) \| (.*) \|$", re.M)


def test_ratios():
    ours = xc_ratios()
    rows = RATIO_ROW.findall(SECTION)
    assert len(rows) == 7
    for origin, kind, cells in rows:
        theirs = FIGURES["ratios"][origin][kind]
        expected = [ours[origin][kind], *(theirs[name] for name in ALGORITHMS)]
        printed = cells.replace("*", "").split(" | ")
        assert printed == [f"{ratio:.3f}" for ratio in expected], f"{origin}: {kind}"
        best = max(zip(expected, printed, strict=True))[1]
        assert f"**{best}**" in cells


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rates(algorithm):
    assert "weights" in TIMED
    found = FIGURES["throughput"]["weights"][algorithm]
    share = FIGURES["copy_out_bytes_per_s"] * found["ratio"] / found["compress_bytes_per_s"]
    cells = (
        f"{found['compress_bytes_per_s'] / 1e9:.0f}",
        f"{found['decompress_bytes_per_s'] / 1e9:.0f}",
        f"{100 * share:.0f} %",
        f"{found['products_beside_s'] / found['products_s']:.2f}x",
        f"{found['beside_bytes_per_s'] / 1e9:.0f}",
    )
    assert f"| {algorithm} | {' | '.join(cells)} |" in SECTION
