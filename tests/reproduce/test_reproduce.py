"""The papers' claims as a test: every exact row is exact, every shape row holds."""

import re
from collections import Counter
from itertools import pairwise

import pytest

from cdma.builds.progress import observed
from cdma.plan.papers import Figure, Printed
from cdma.reproduce import (
    PAPERS,
    Claim,
    ClaimClass,
    Kind,
    Measured,
    Paper,
    ReproduceError,
    Verdict,
    cswap,
    judge,
    judge_all,
    paper,
    roofline,
    scenarios,
    swapping,
)
from tests.lib.paths import ROOT

DOCUMENT = ROOT / "docs" / "guide" / "reproduce.md"

CLAIMS = [claim for each in PAPERS.values() for claim in each.claims]

COUNTS = {
    "cdma": {
        (ClaimClass.SHAPE, Kind.MECHANISM): 14,
        (ClaimClass.EXACT, Kind.MECHANISM): 5,
        (ClaimClass.EXACT, Kind.CONSTANT): 5,
        (ClaimClass.EXACT, Kind.ARITHMETIC): 7,
        (ClaimClass.NOT_CLAIMABLE, Kind.QUOTED): 5,
    },
    "cswap+": {
        (ClaimClass.SHAPE, Kind.MECHANISM): 13,
        (ClaimClass.EXACT, Kind.MECHANISM): 12,
        (ClaimClass.EXACT, Kind.CONSTANT): 3,
        (ClaimClass.EXACT, Kind.ARITHMETIC): 1,
        (ClaimClass.NOT_CLAIMABLE, Kind.QUOTED): 6,
    },
    "comet": {
        (ClaimClass.SHAPE, Kind.MECHANISM): 2,
        (ClaimClass.EXACT, Kind.MECHANISM): 10,
        (ClaimClass.EXACT, Kind.ARITHMETIC): 6,
        (ClaimClass.NOT_CLAIMABLE, Kind.QUOTED): 4,
    },
    "buddy": {
        (ClaimClass.SHAPE, Kind.MECHANISM): 7,
        (ClaimClass.EXACT, Kind.MECHANISM): 2,
        (ClaimClass.EXACT, Kind.CONSTANT): 8,
        (ClaimClass.EXACT, Kind.ARITHMETIC): 3,
        (ClaimClass.NOT_CLAIMABLE, Kind.QUOTED): 4,
    },
    "home": {
        (ClaimClass.SHAPE, Kind.MECHANISM): 10,
        (ClaimClass.EXACT, Kind.MECHANISM): 3,
        (ClaimClass.EXACT, Kind.CONSTANT): 3,
        (ClaimClass.EXACT, Kind.ARITHMETIC): 7,
        (ClaimClass.NOT_CLAIMABLE, Kind.QUOTED): 3,
    },
}
"""A row that is lost, or that changes its class or kind, is noticed."""

SLOW = {"cswap+/decisions", "home/order", "cdma/faster-gpu"}
"""Rows that take seconds."""

MARKS = {True: [pytest.mark.verify], False: []}


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(claim, id=name, marks=MARKS[claim.long or name in SLOW])
        for claim in CLAIMS
        for name in [f"{claim.paper}/{claim.name}"]
        if claim.claim_class is not ClaimClass.NOT_CLAIMABLE
    ],
)
def test_row_holds(claim: Claim) -> None:
    row = judge(claim)
    assert row.verdict is not Verdict.FAILS, f"{claim.text}: {row.ours}"
    assert row.ours


def test_rows_of_each_class_and_kind() -> None:
    found = {
        name: Counter((claim.claim_class, claim.kind) for claim in each.claims)
        for name, each in PAPERS.items()
    }
    assert found == COUNTS


def test_quoted_rows_are_those_that_are_not_claimed() -> None:
    for claim in CLAIMS:
        assert (claim.kind is Kind.QUOTED) == (claim.claim_class is ClaimClass.NOT_CLAIMABLE)


def test_only_what_runs_is_called_exact() -> None:
    for claim in CLAIMS:
        if claim.claim_class is ClaimClass.EXACT and not claim.slip and not claim.long:
            exact = judge(claim).verdict is Verdict.EXACT
            assert exact == (claim.kind is Kind.MECHANISM), claim.name


def test_every_transcription_is_used() -> None:
    for each in PAPERS.values():
        unused = set(each.printed.figures) - {claim.name for claim in each.claims}
        assert unused == UNCLAIMED.get(each.name, set())


UNCLAIMED = {"cdma": {"area-scaling"}, "cswap+": {"sub-model-range"}}
"""Figures that no row is about; tests/plan/papers/test_papers.py holds them to constants."""


def _rows_of_the_document() -> list[tuple[str, ...]]:
    rows = []
    for line in DOCUMENT.read_text().splitlines():
        # A cell has its own bars escaped.
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        rows.append(tuple(cells))
    return rows


def test_the_document_has_every_row() -> None:
    rows = [
        (cells[0], cells[1].split(" (")[0], cells[2])
        for cells in _rows_of_the_document()
        if len(cells) == 5
    ]
    expected = [
        (c.section, c.text.split(" (")[0], c.published)
        for each in PAPERS.values()
        for kind in Kind
        for c in each.claims
        if c.kind is kind
    ]
    assert [row for row in rows if row in expected] == expected


def test_the_document_counts_kinds_and_verdicts() -> None:
    held = {
        Kind.MECHANISM: "exact",
        Kind.CONSTANT: "as printed",
        Kind.ARITHMETIC: "adds up",
        Kind.QUOTED: "not claimable",
    }
    rows = _rows_of_the_document()
    for kind in Kind:
        same = [c for c in CLAIMS if c.kind is kind]
        shapes = sum(c.claim_class is ClaimClass.SHAPE for c in same)
        slips = sum(c.slip for c in same)
        told = f"{len(same) - shapes - slips} {held[kind]}"
        told += f", {shapes} shape holds" * bool(shapes)
        told += f", {slips} slip in the print" * bool(slips)
        assert (kind, str(len(same)), told) in rows


def test_what_cannot_be_claimed_is_quoted_with_what_it_needs() -> None:
    for claim in CLAIMS:
        if claim.claim_class is ClaimClass.NOT_CLAIMABLE:
            row = judge(claim)
            assert row.verdict is Verdict.NOT_CLAIMABLE
            assert row.ours.startswith("needs ")
            assert claim.published


def test_shape_rows_name_their_assumptions_and_exact_ones_have_none() -> None:
    for claim in CLAIMS:
        assert bool(claim.under) == (claim.claim_class is ClaimClass.SHAPE), claim.name
        assert not claim.slip or claim.claim_class is ClaimClass.EXACT


def test_timed_rows_name_efficiency_mode_and_link() -> None:
    timed = [c for c in CLAIMS if c.name.startswith(("loss", "gain-")) and c.under]
    assert len(timed) == 3
    for claim in timed:
        for word in ("PCIe gen3", "synchronous", "efficiency .7", "all activations", "capture"):
            assert word in claim.under


# How rows are judged.


def _toy(name: str) -> Paper:
    figures = {name: Figure(shown="2"), "speed": Figure(shown="fast")}
    return Paper("toy", "Toys", Printed(tables={}, figures=figures))


def _exact(kind: Kind, *, holds: bool | None, slip: bool = False) -> Paper:
    made = _toy("row")
    made.exact("§1", "one and one", kind=kind, slip=slip)(_row(holds))
    return made


def _shape(*, holds: bool | None, long: bool = False) -> Paper:
    made = _toy("row")
    made.shape("§1", "more is more", under="none", name="row", long=long)(_row(holds))
    return made


def _row(holds: bool | None):
    def row() -> Measured:
        return Measured("2", holds)

    return row


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        (_exact(Kind.MECHANISM, holds=True), Verdict.EXACT),
        (_exact(Kind.CONSTANT, holds=True), Verdict.AS_PRINTED),
        (_exact(Kind.ARITHMETIC, holds=True), Verdict.ADDS_UP),
        (_exact(Kind.MECHANISM, holds=True, slip=True), Verdict.SLIP),
        (_exact(Kind.ARITHMETIC, holds=False, slip=True), Verdict.FAILS),
        (_exact(Kind.CONSTANT, holds=False), Verdict.FAILS),
        (_shape(holds=True), Verdict.SHAPE_HOLDS),
        (_shape(holds=False), Verdict.FAILS),
        # Whoever claims something has to say whether it holds.
        (_shape(holds=None), Verdict.FAILS),
    ],
)
def test_verdicts(made: Paper, verdict: Verdict) -> None:
    (row,) = judge_all(made, long=False)
    assert (row.claim.name, row.verdict, row.ours) == ("row", verdict, "2")


def test_long_rows_run_only_if_asked_for() -> None:
    made = _shape(holds=True, long=True)
    assert [row.verdict for row in judge_all(made, long=False)] == [Verdict.NOT_RUN]
    assert [row.verdict for row in judge_all(made, long=True)] == [Verdict.SHAPE_HOLDS]


def test_rows_are_counted() -> None:
    reports = []
    with observed(lambda *what: reports.append(what)):
        list(judge_all(_shape(holds=True), long=False))
    assert reports == [("claims of toy", 0, 1), ("claims of toy", 1, 1)]


def test_a_quoted_row_can_show_what_there_is_here() -> None:
    made = _toy("row")
    made.not_claimable("speed", "§2", "speed", needs="a GPU", here=lambda: "1 m/s")
    (row,) = judge_all(made, long=False)
    assert row.ours == "needs a GPU; here 1 m/s"


def test_names_are_unique() -> None:
    made = _exact(Kind.MECHANISM, holds=True)
    with pytest.raises(ValueError, match="toy has two claims 'row'; rename one"):
        made.not_claimable("row", "§2", "again", needs="nothing")


def test_claims_are_about_what_is_transcribed() -> None:
    with pytest.raises(ValueError, match="toy has no figure 'area'; transcribe it in plan/papers"):
        _toy("row").not_claimable("area", "§2", "area", needs="nothing")


def test_unknown_papers_list_those_there_are() -> None:
    assert paper("cswap+") is PAPERS["cswap+"]
    with pytest.raises(
        ReproduceError, match=r"unknown paper 'vdnn'; choose from cdma, cswap\+, comet, buddy, home"
    ):
        paper("vdnn")


# The roofline.


def test_oracle_is_never_slower_and_compression_never_hurts() -> None:
    for each in roofline.performance("titanx").values():
        assert each.oracle_seconds <= each.cdma_seconds <= each.bandwidth_aware_seconds
        assert each.cdma_seconds < each.vdnn_seconds
        assert 0 < each.loss < 1


def test_loss_follows_from_gain_where_cdma_hides_all_copies() -> None:
    for each in roofline.performance("titanxp", "async", efficiency=0.4).values():
        hidden = each.oracle_seconds / each.cdma_seconds
        assert (1 + each.gain) * (1 - each.loss) == pytest.approx(hidden)


def test_faster_layers_leave_more_to_hide() -> None:
    losses = [
        roofline.summary(roofline.performance("titanxp", efficiency=efficiency), "loss")[0]
        for efficiency in roofline.EFFICIENCIES
    ]
    assert all(a < b for a, b in pairwise(losses))


def test_layer_times_may_be_as_far_off_as_from_published_measurements() -> None:
    # J. Johnson, cnn-benchmarks: GTX Titan X (Maxwell), cuDNN 5.0.5, steps of 16 images, ms.
    measured = {"alexnet": 23.71, "vgg16": 262.42, "resnet50": 171.02}
    off = [
        1e-3
        * milliseconds
        / scenarios.scenario(scenarios.graph(name, 16), "titanx", roofline.LINK).compute_seconds
        for name, milliseconds in measured.items()
    ]
    assert [round(min(off) * 20) / 20, round(max(off) * 20) / 20] == list(roofline.LAYER_TIMES)


def test_the_vgg16_row_asks_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Print has 9 of 12 compressed at last, and relu5_2 never; the policy does otherwise."""
    (claim,) = (c for c in PAPERS["cswap+"].claims if c.name == "compressed-layers")
    assert judge(claim).verdict is Verdict.NOT_CLAIMABLE
    assert "6 at last" in judge(claim).ours
    assert "relu5_2" not in judge(claim).ours.split("never")[1]
    cswap._over_epochs.cache_clear()
    monkeypatch.setattr(swapping, "compressed_tensors", lambda _scenario: {"pool4"})
    assert "1 at last" in judge(claim).ours
    assert "pool4" not in judge(claim).ours.split("never")[1]
    cswap._over_epochs.cache_clear()
