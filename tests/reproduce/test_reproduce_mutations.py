"""Every row of a shape fails when the part of the system that it is about is broken."""

import re

import pytest

from cdma.reproduce import PAPERS, ClaimClass, Verdict, judge
from tests.lib.paths import ROOT
from tests.reproduce.mutations import MUTATIONS, Mutation, mutated

DOCUMENT = ROOT / "docs" / "guide" / "reproduce.md"

CLAIMS = {f"{claim.paper}/{claim.name}": claim for each in PAPERS.values() for claim in each.claims}
SHAPES = [name for name, claim in CLAIMS.items() if claim.claim_class is ClaimClass.SHAPE]

PAIRS = [
    *((mutation, row, ()) for mutation in MUTATIONS for row in mutation.quick),
    *((mutation, row, (pytest.mark.verify,)) for mutation in MUTATIONS for row in mutation.rows),
]


@pytest.mark.parametrize(
    ("mutation", "row"),
    [
        pytest.param(mutation, row, id=f"{mutation.name}-{row}", marks=marks)
        for mutation, row, marks in PAIRS
    ],
)
def test_row_fails_under_the_mutation(mutation: Mutation, row: str) -> None:
    with mutated(mutation):
        judged = judge(CLAIMS[row])
    assert judged.verdict is Verdict.FAILS, f"with {mutation.text}: {judged.ours}"


def test_a_mutation_leaves_nothing_behind() -> None:
    before = judge(CLAIMS["cdma/bandwidth-aware"])
    (mutation,) = (each for each in MUTATIONS if each.name == "no-throttle")
    with mutated(mutation):
        judge(CLAIMS["cdma/bandwidth-aware"])
    assert judge(CLAIMS["cdma/bandwidth-aware"]) == before


def test_every_shape_row_has_a_mutation() -> None:
    noticing = {row for mutation in MUTATIONS for row in (*mutation.quick, *mutation.rows)}
    assert noticing == set(SHAPES)


def test_names_of_mutations_are_unique() -> None:
    names = [mutation.name for mutation in MUTATIONS]
    assert len(set(names)) == len(names)


def test_the_document_has_the_mutations() -> None:
    expected = [
        (
            mutation.name,
            mutation.text,
            ", ".join(f"`{row}`" for row in (*mutation.quick, *mutation.rows)),
        )
        for mutation in MUTATIONS
    ]
    lines = DOCUMENT.read_text().splitlines()
    rows = [tuple(cell.strip() for cell in re.split(r"\|", line)[1:-1]) for line in lines]
    # A row of the table has the mutation's name, what is wrong, and the rows that fail.
    names = {mutation.name for mutation in MUTATIONS}
    assert [row for row in rows if len(row) == 3 and row[0] in names] == expected
