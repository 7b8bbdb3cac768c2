"""What the papers claim, as a test: every exact row is exact, every shape row holds."""

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from hw.progress import observed
from sim.reproduce import (
    PAPERS,
    Claim,
    Kind,
    Measured,
    Paper,
    ReproduceError,
    Verdict,
    judge,
    judge_all,
    paper,
    roofline,
)

DOCUMENT = Path(__file__).parents[2] / "docs" / "reproduce.md"

CLAIMS = [claim for each in PAPERS.values() for claim in each.claims]

COUNTS = {
    "cdma": {Kind.EXACT: 14, Kind.SHAPE: 13, Kind.NOT_CLAIMABLE: 4},
    "cswap+": {Kind.EXACT: 16, Kind.SHAPE: 13, Kind.NOT_CLAIMABLE: 5},
    "comet": {Kind.EXACT: 16, Kind.SHAPE: 2, Kind.NOT_CLAIMABLE: 4},
    "buddy": {Kind.EXACT: 11, Kind.SHAPE: 3, Kind.NOT_CLAIMABLE: 4},
    "home": {Kind.EXACT: 11, Kind.SHAPE: 8, Kind.NOT_CLAIMABLE: 3},
}
"""A row that is lost, or that changes its class, is noticed."""

MARKS = {True: [pytest.mark.verify], False: []}


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param(claim, id=f"{claim.paper}/{claim.name}", marks=MARKS[claim.long])
        for claim in CLAIMS
        if claim.kind is not Kind.NOT_CLAIMABLE
    ],
)
def test_row_holds(claim: Claim) -> None:
    row = judge(claim)
    assert row.verdict is not Verdict.FAILS, f"{claim.text}: {row.ours}"
    assert row.ours


def test_rows_of_each_class() -> None:
    found = {name: Counter(claim.kind for claim in each.claims) for name, each in PAPERS.items()}
    assert found == COUNTS


def test_the_document_has_every_row() -> None:
    rows = []
    for line in DOCUMENT.read_text().splitlines():
        # A cell has its own bars escaped.
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 5:
            rows.append((cells[0], cells[1].split(" (")[0], cells[2]))
    expected = [(c.section, c.text.split(" (")[0], c.published) for c in CLAIMS]
    assert [row for row in rows if row in expected] == expected


def test_the_document_counts_verdicts() -> None:
    found = Counter[Verdict]()
    for claim in CLAIMS:
        if claim.kind is Kind.EXACT:
            found[Verdict.SLIP if claim.slip else Verdict.EXACT] += 1
        else:
            found[Verdict.SHAPE_HOLDS if claim.under else Verdict.NOT_CLAIMABLE] += 1
    order = (Verdict.EXACT, Verdict.SHAPE_HOLDS, Verdict.SLIP, Verdict.NOT_CLAIMABLE)
    total = " | ".join(str(found[verdict]) for verdict in order)
    assert f"| all | {total} |" in DOCUMENT.read_text()


def test_what_cannot_be_claimed_is_quoted_with_what_it_needs() -> None:
    for claim in CLAIMS:
        if claim.kind is Kind.NOT_CLAIMABLE:
            row = judge(claim)
            assert row.verdict is Verdict.NOT_CLAIMABLE
            assert row.ours.startswith("needs ")
            assert claim.published


def test_shape_rows_name_their_assumptions_and_exact_ones_have_none() -> None:
    for claim in CLAIMS:
        assert bool(claim.under) == (claim.kind is Kind.SHAPE), claim.name
        assert not claim.slip or claim.kind is Kind.EXACT


def test_timed_rows_name_efficiency_mode_and_link() -> None:
    timed = [c for c in CLAIMS if c.name.startswith(("loss-", "gain-"))]
    assert len(timed) == 4
    for claim in timed:
        for word in ("PCIe gen3", "synchronous", "efficiency .7", "all activations", "capture"):
            assert word in claim.under


# How rows are judged.


def _paper(kind: str, *, holds: bool | None, slip: bool = False, long: bool = False) -> Paper:
    made = Paper("toy", "Toys")
    if kind == "exact":
        made.exact("§1", "one and one", "2", slip=slip)(_row(holds))
    else:
        made.shape("§1", "more is more", "yes", under="none", name="row", long=long)(_row(holds))
    return made


def _row(holds: bool | None):
    def row() -> Measured:
        return Measured("2", holds)

    return row


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        (_paper("exact", holds=True), Verdict.EXACT),
        (_paper("exact", holds=True, slip=True), Verdict.SLIP),
        (_paper("exact", holds=False, slip=True), Verdict.FAILS),
        (_paper("exact", holds=False), Verdict.FAILS),
        (_paper("shape", holds=True), Verdict.SHAPE_HOLDS),
        (_paper("shape", holds=False), Verdict.FAILS),
        # Whoever claims something has to say whether it holds.
        (_paper("shape", holds=None), Verdict.FAILS),
    ],
)
def test_verdicts(made: Paper, verdict: Verdict) -> None:
    (row,) = judge_all(made, long=False)
    assert (row.claim.name, row.verdict, row.ours) == ("row", verdict, "2")


def test_long_rows_run_only_if_asked_for() -> None:
    made = _paper("shape", holds=True, long=True)
    assert [row.verdict for row in judge_all(made, long=False)] == [Verdict.NOT_RUN]
    assert [row.verdict for row in judge_all(made, long=True)] == [Verdict.SHAPE_HOLDS]


def test_rows_are_counted() -> None:
    reports = []
    with observed(lambda *what: reports.append(what)):
        list(judge_all(_paper("exact", holds=True), long=False))
    assert reports == [("claims of toy", 0, 1), ("claims of toy", 1, 1)]


def test_a_quoted_row_can_show_what_there_is_here() -> None:
    made = Paper("toy", "Toys")
    made.not_claimable("speed", "§2", "speed", "fast", needs="a GPU", here=lambda: "1 m/s")
    (row,) = judge_all(made, long=False)
    assert row.ours == "needs a GPU; here 1 m/s"


def test_names_are_unique() -> None:
    made = _paper("exact", holds=True)
    with pytest.raises(ValueError, match="toy has two claims 'row'; rename one"):
        made.not_claimable("row", "§2", "again", "2", needs="nothing")


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
    for each in roofline.performance("titanxp", "async", 0.4).values():
        hidden = each.oracle_seconds / each.cdma_seconds
        assert (1 + each.gain) * (1 - each.loss) == pytest.approx(hidden)


def test_faster_layers_leave_more_to_hide() -> None:
    losses = [
        roofline.summary(roofline.performance("titanxp", "sync", efficiency), "loss")[0]
        for efficiency in roofline.EFFICIENCIES
    ]
    assert all(a < b for a, b in pairwise(losses))
