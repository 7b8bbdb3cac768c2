"""Each codec under each memory layout, on real activations (cDMA, §VII-A and Figure 11)."""

import re

import numpy as np
import pytest

from cdma import golden
from cdma.plan.workload import LAYOUTS, load_capture, relayout
from tests.lib.paths import ROOT

DOCUMENT = ROOT / "docs" / "guide" / "plan" / "capture.md"


@pytest.fixture(scope="module")
def sizes() -> dict[str, dict[str, np.ndarray]]:
    """Compressed bytes by codec and layout, one per array."""
    arrays = [activation.array for activation in load_capture("digits-cnn").activations]
    return {
        name: {
            layout: np.array([codec.compress(relayout(a, layout)).nbytes for a in arrays])
            for layout in LAYOUTS
        }
        for name in ("zvc", "rle", "lz4", "deflate")
        for codec in [golden.codec(name, element_bytes=4)]
    }


def test_zvc_does_not_depend_on_the_layout(sizes: dict[str, dict[str, np.ndarray]]) -> None:
    for layout in LAYOUTS:
        assert np.array_equal(sizes["zvc"][layout], sizes["zvc"]["NCHW"])


@pytest.mark.parametrize("name", ["rle", "lz4", "deflate"])
def test_others_depend_on_the_layout(sizes: dict[str, dict[str, np.ndarray]], name: str) -> None:
    total = {layout: int(sizes[name][layout].sum()) for layout in LAYOUTS}
    assert total["NCHW"] * 1.02 < total["CHWN"]
    assert total["CHWN"] * 1.05 < total["NHWC"]


def test_zvc_beats_rle_in_every_layout(sizes: dict[str, dict[str, np.ndarray]]) -> None:
    for layout in LAYOUTS:
        assert sizes["zvc"][layout].sum() <= sizes["rle"][layout].sum()


def test_documented_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    [program, table] = re.findall(
        r"```python\n(from cdma import golden.*?)```\n\n```\n(.*?)```",
        DOCUMENT.read_text(),
        re.DOTALL,
    )[0]
    exec(program, {})
    printed, documented = capsys.readouterr().out.splitlines(), table.splitlines()
    assert len(printed) == len(documented)
    for ours, theirs in zip(printed, documented, strict=True):
        if ours.startswith(("zvc", "rle")):
            assert ours == theirs
        else:
            # The versions of the LZ4 and zlib libraries move the last digits.
            [a, b] = [int(line.split()[2].replace(",", "")) for line in (ours, theirs)]
            assert (ours.split()[:2], a) == (theirs.split()[:2], pytest.approx(b, rel=0.02))
