"""The papers' texts, read a second time: every transcription against the sentence it is from."""

import os
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from cdma.commands.buddy import profile_report as buddy_profile_report
from cdma.commands.energy import command as energy
from cdma.plan.papers import PAPERS, Figure, PrintedTable, printed
from cdma.plan.platform.device import device
from cdma.plan.platform.link import link
from cdma.plan.policies import vdnn_pp
from cdma.plan.policies.comet import controller, law
from cdma.plan.training import schemes
from cdma.plan.workload.networks import batches
from cdma.reproduce import buddy
from cdma.sim.machine import machine_config
from cdma.synth.gates import conversion, sram

# The papers are beside the checkout.
pytestmark = pytest.mark.always

FIGURES = [(paper, name) for paper in PAPERS for name in printed(paper).figures]
TABLES = [(paper, name) for paper in PAPERS for name in printed(paper).tables]

WORDS = {"two": 2, "three": 3, "four": 4, "six": 6, "eight": 8, "eleven": 11}
UNITS = ("MB", "GB")


def _text(paper: str) -> list[str]:
    """The lines of a paper's text, which is beside the checkout and no part of it."""
    places = [folder / "shared" / "papers" for folder in Path(__file__).resolve().parents]
    found = [place for place in places if place.is_dir()]
    if not found:
        lack = "../shared/papers is absent: no transcription was compared with its paper"
        if os.environ.get("CI") == "true":
            pytest.fail(lack)
        pytest.skip(lack)
    return (found[0] / f"{paper}.txt").read_text("utf-8").splitlines()


def _numbers(text: str) -> set[float]:
    """The numbers of a sentence, those that are written as words and those in names included."""
    # Formulas come as LaTeX and as text, so that a number is there three times: 242424.
    tripled = re.findall(r"([1-9]\d*(?:\.\d+)?|0\.\d+)\1\1", text)
    plain = re.findall(r"\d+(?:\.\d+)?", re.sub(r"(?<=\d),(?=\d{3})", "", text))
    words = [value for word, value in WORDS.items() if re.search(rf"\b{word}\b", text)]
    return {*map(float, tripled), *map(float, plain), *words}


def _claimed(shown: str) -> set[float]:
    """The numbers that a table of ours says are printed; not those in names, as of V100."""
    text = re.sub(r"(?<=\d),(?=\d{3})", "", shown.replace("2080 Ti", "").replace("§2.3", ""))
    return {float(number) for number in re.findall(r"(?<![\w.-])\d*\.?\d+", text)}


def _read_table(paper: str, table: PrintedTable) -> dict[str, list[str]]:
    """Its rows as tokens: numbers, units, and `-` for a cell that is empty in print."""
    lines = _text(paper)[table.caption.line :]
    rows: dict[str, list[str]] = {}
    for line in lines[:20]:
        if paper == "buddy":
            # Two columns of a name and its footprint side by side, with headings in between.
            for name, size, unit in re.findall(r"(\S+) (\d+\.\d+)([GM]B)", line):
                rows[name] = [size, unit]
            continue
        name, *cells = line.split("\t")
        if cells and all(re.fullmatch(r"[\d.,/%×GMBK_\s-]*", cell) for cell in cells):
            tokens = [re.findall(r"\d+(?:\.\d+)?|[GM]B|(?<!\S)[-_]", cell) for cell in cells]
            # COMET has the baseline's and its own figures in one row.
            bare = re.sub(r"^b\. | c\.$", "", name)
            rows[bare] = ["-" if token == "_" else token for cell in tokens for token in cell]
    return rows


@pytest.mark.parametrize(("paper", "name"), TABLES, ids=lambda value: str(value))
def test_tables_are_as_printed(paper: str, name: str) -> None:
    table = printed(paper).tables[name]
    assert table.caption.text in _text(paper)[table.caption.line - 1]
    read = _read_table(paper, table)
    assert list(table.rows) == list(read) or set(table.rows) == set(read)
    for row, cells in table.rows.items():
        tokens = read[row]
        numbers = [float(token) for token in tokens if token[0].isdigit()]
        assert [cell for cell in cells if not isinstance(cell, str)] == numbers, row
        assert cells.count("-") == tokens.count("-"), row
        for before, unit in pairwise(cells):
            if unit in UNITS:
                assert tokens[[*map(_as_number, tokens)].index(before) + 1] == unit, row


def _as_number(token: str) -> float | None:
    return float(token) if token[0].isdigit() else None


def _read(paper: str, figure: Figure) -> Iterator[str]:
    """A figure is printed where it says that it is from."""
    lines = _text(paper)
    for quote in figure.quotes:
        line = lines[quote.line - 1]
        assert quote.text in line, f"line {quote.line} does not say {quote.text!r}"
        # A quote must not begin or end within a number: 5 would be in 15.7.
        assert not re.search(rf"\d\.?{re.escape(quote.text)}", line) or not quote.text[0].isdigit()
        assert not re.search(rf"{re.escape(quote.text)}\.?\d", line) or not quote.text[-1].isdigit()
        yield quote.text
    for name in figure.tables:
        for row, tokens in _read_table(paper, printed(paper).tables[name]).items():
            yield " ".join([row, *tokens])


@pytest.mark.parametrize(("paper", "name"), FIGURES, ids=lambda value: str(value))
def test_figures_are_as_printed(paper: str, name: str) -> None:
    figure = printed(paper)[name]
    said = list(_read(paper, figure))
    assert said or figure.shown == "not said"
    numbers = set().union(*map(_numbers, said)) if said else set()
    assert _claimed(figure.shown) <= numbers
    for value in figure.values.values():
        for each in _flat(value):
            if isinstance(each, str):
                assert any(each in text for text in said), each
            else:
                assert float(each) in numbers, each


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for each in value:
            yield from _flat(each)
    else:
        yield value


CONSTANTS = {
    "law.PAPER_COEFFICIENT": (law.PAPER_COEFFICIENT, "comet", "bound", "coefficient", 1),
    "controller.ERROR_SHARE": (controller.ERROR_SHARE, "comet", "bound", "sigma", 1),
    "controller.PERIOD": (controller.PERIOD, "comet", "period", "period", 1),
    "controller.RESTLESS": (controller.RESTLESS, "comet", "period", "change", 1),
    "controller.RESERVE": (controller.RESERVE, "comet", "largest-batches", "reserved_percent", 100),
    "vdnn_pp.COMPRESSED_SPARSITY": (
        *(vdnn_pp.COMPRESSED_SPARSITY, "cswap_plus", "host-codec", "zeros_percent", 100),
    ),
    "sram.PAPER_BUFFER_MM2": (sram.PAPER_BUFFER_MM2, "cdma", "area", "buffer_mm2", 1),
    "sram.PAPER_BUFFER_BYTES": (
        *(sram.PAPER_BUFFER_BYTES, "cdma", "buffer", "kilobytes", 1 / 1024),
    ),
    "conversion.PAPER_UNITS_MM2": (conversion.PAPER_UNITS_MM2, "cdma", "area", "units_mm2", 1),
    "conversion.SCALING_45_TO_28": (
        *(conversion.SCALING_45_TO_28, "cdma", "area-scaling", "factor", 1),
    ),
    "energy.DENSITIES": (1 - energy.DENSITIES[1], "cdma", "sparsity", "zeros_percent", 100),
    "buddy_profile_report.SWEEP, least": (
        *(buddy_profile_report.SWEEP[0], "buddy", "threshold", "least_percent", 100),
    ),
    "buddy_profile_report.SWEEP, most": (
        *(buddy_profile_report.SWEEP[-1], "buddy", "threshold", "most_percent", 100),
    ),
    "reproduce.buddy.THRESHOLDS, least": (
        *(buddy.THRESHOLDS[0], "buddy", "threshold", "least_percent", 100),
    ),
    "reproduce.buddy.THRESHOLDS, most": (
        *(buddy.THRESHOLDS[-1], "buddy", "threshold", "most_percent", 100),
    ),
    "schemes.TOP_BITS": (schemes.TOP_BITS, "cswap_plus", "sliding", "top", 1),
    "schemes.BOTTOM_BITS": (schemes.BOTTOM_BITS, "cswap_plus", "sliding", "bottom", 1),
    "link nvlink2": (link("nvlink2").bytes_per_s, "buddy", "channels", "link_gbps", 1e-9),
    "machine v100_nvlink2": (
        *(machine_config("v100_nvlink2").dram_bytes_per_s, "buddy", "channels", "gbps", 1e-9),
    ),
    "device v100": (device("v100").dram_bytes_per_s, "buddy", "disparity", "device_gbps", 1e-9),
}
"""Constants of other rooms that are a paper's and have no row of their own: ours, where print has
them, and what ours is multiplied by."""


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_of_other_rooms_are_as_printed(name: str) -> None:
    ours, paper, figure, value, factor = CONSTANTS[name]
    assert ours * factor == pytest.approx(printed(paper)[figure][value], rel=1e-12)


def test_sub_models_share_the_printed_range() -> None:
    from cdma.plan.policies.cswap.time_model import SPARSE_RANGE  # scikit-learn is slow to load

    figure = printed("cswap_plus")["sub-model-range"]
    assert [100 * share for share in SPARSE_RANGE] == [
        figure["base_percent"],
        figure["span_percent"],
    ]


def test_static_bounds_are_estimated_when_print_does() -> None:
    first, second, _ = printed("comet")["collapse"]["static_iterations"]
    assert (first, second) == schemes.STATIC_ITERATIONS


def test_mobilenet_of_imagenet_on_a_2080ti_has_32_images() -> None:
    assert batches.CSWAP["imagenet", "2080ti"]["mobilenet"] == 32


def test_absent_papers_skip_and_fail_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "is_dir", lambda _path: False)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="shared/papers is absent"):
        _text("cdma")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="shared/papers is absent"):
        _text("cdma")


def test_a_wrong_number_is_found() -> None:
    figure = printed("cdma")["crossbar"]
    said = set().union(*map(_numbers, _read("cdma", figure)))
    assert not _claimed(figure.shown.replace("13.8", "13.9")) <= said


def test_numbers_are_read() -> None:
    assert _numbers("242424 bits, 10,000 layers, eleven 3-bit") == {242424, 24, 10000, 11, 3}
    assert _claimed("−20.3 %, .31 of V100's 5,000, 2080 Ti") == {20.3, 0.31, 5000}
