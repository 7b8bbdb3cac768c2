"""Claims of five papers, row by row, beside what this project computes.

A row is exact, of a shape, or not claimable (`cdma.reproduce.claim.Kind`), and its figure comes
from the codecs, engine, networks and schedulers of the rooms below, each time anew. Papers' modules
hold the rows; `scenarios` declares what is assumed; `roofline`, `swapping`, `memory_limited` and
`gradient_errors` have what several rows share.
"""

from cdma.reproduce import buddy, cdma, comet, cswap, home
from cdma.reproduce.claim import (
    Claim,
    ClaimClass,
    Kind,
    Measured,
    Paper,
    Row,
    Verdict,
    judge,
    judge_all,
)

__all__ = [
    "PAPERS",
    "Claim",
    "ClaimClass",
    "Kind",
    "Measured",
    "Paper",
    "ReproduceError",
    "Row",
    "Verdict",
    "judge",
    "judge_all",
    "paper",
]

PAPERS = {
    each.name: each for each in (cdma.PAPER, cswap.PAPER, comet.PAPER, buddy.PAPER, home.PAPER)
}


class ReproduceError(ValueError):
    """No such paper; the message lists those there are."""


def paper(name: str) -> Paper:
    """The paper of that name; `ReproduceError` if there is none."""
    if name not in PAPERS:
        raise ReproduceError(f"unknown paper {name!r}; choose from {', '.join(PAPERS)}")
    return PAPERS[name]
