"""Claims of papers, their classes and kinds, and their verdicts here."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from cdma.builds.progress import Tally
from cdma.plan.papers import Figure, Printed


class ClaimClass(StrEnum):
    """The classes of claims, by what a reproduction can honestly be held to."""

    EXACT = "exact"
    """Follows from the paper's own rules and figures: ours is the same, or print has a slip."""
    SHAPE = "shape"
    """A direction or a band, under assumptions that the row names."""
    NOT_CLAIMABLE = "not-claimable"
    """Needs the authors' hardware or data: quoted, never claimed."""


class Kind(StrEnum):
    """The kinds of evidence beside the print, and so what a row is worth."""

    MECHANISM = "mechanism"
    """The behavior of our code, RTL or networks when they run."""
    CONSTANT = "constant"
    """A number that our code declares. That it does what the number says is for other tests."""
    ARITHMETIC = "arithmetic"
    """The paper's own numbers, calculated again: it says whether print agrees with itself."""
    QUOTED = "quoted"
    """Nothing. The row only says what the paper has and what it would take to claim it."""


class Verdict(StrEnum):
    """The verdict on a claim."""

    EXACT = "exact"
    """Our code does what is printed."""
    AS_PRINTED = "as printed"
    """Our constant is the printed one."""
    ADDS_UP = "adds up"
    """The paper's numbers agree with each other."""
    SHAPE_HOLDS = "shape holds"
    SLIP = "slip in the print"
    """The paper's own rule gives another figure than it prints: ours."""
    NOT_CLAIMABLE = "not claimable"
    FAILS = "FAILS"
    NOT_RUN = "not run"
    """A long computation that was not asked for."""


_HELD = {
    Kind.MECHANISM: Verdict.EXACT,
    Kind.CONSTANT: Verdict.AS_PRINTED,
    Kind.ARITHMETIC: Verdict.ADDS_UP,
}
"""The verdict on an exact claim that holds."""


@dataclass(frozen=True)
class Measured:
    """Our figure.

    Attributes
    ----------
    value : str
        As the table shows it.
    holds : bool or None
        Whether it is what the row says; None where nothing is claimed.
    """

    value: str
    holds: bool | None


Compute = Callable[[], Measured]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A row.

    Attributes
    ----------
    paper : str
    name : str
        Unique in its paper; stable. The paper's figure has the same name in `cdma.plan.papers`.
    section : str
        Where the paper has it.
    text : str
        What is claimed.
    claim_class : ClaimClass
    kind : Kind
    figure : Figure
        What the paper prints.
    ours : callable
        Computes our figure.
    under : str
        The assumptions that it depends on; empty if on none.
    slip : bool
        Whether print is wrong by its own rules, and `ours` shows it.
    long : bool
        Whether it takes more than some seconds.
    """

    paper: str
    name: str
    section: str
    text: str
    claim_class: ClaimClass
    kind: Kind
    figure: Figure
    ours: Compute
    under: str = ""
    slip: bool = False
    long: bool = False

    @property
    def published(self) -> str:
        """The paper's figure, as tables show it."""
        return self.figure.shown


@dataclass(frozen=True)
class Row:
    """A claim with our figure and the verdict."""

    claim: Claim
    ours: str
    verdict: Verdict


class Paper:
    """A paper's claims, in the order in which they are added.

    Each claim is about the transcribed figure of its own name.

    Parameters
    ----------
    name : str
        What `cdma reproduce` calls it.
    title : str
        Authors, title, venue.
    transcribed : Printed
        What the paper prints.
    """

    def __init__(self, name: str, title: str, transcribed: Printed) -> None:
        self.name = name
        self.title = title
        self.printed = transcribed
        self._claims: list[Claim] = []

    @property
    def claims(self) -> tuple[Claim, ...]:
        return tuple(self._claims)

    def exact(
        self, section: str, text: str, *, kind: Kind = Kind.MECHANISM, slip: bool = False
    ) -> Callable[[Compute], Compute]:
        """Decorates the function that computes an exact row; its name is the claim's."""

        def add(ours: Compute) -> Compute:
            self._add(_named(ours), section, text, ClaimClass.EXACT, kind, ours, slip=slip)
            return ours

        return add

    def shape(
        self,
        section: str,
        text: str,
        *,
        under: str,
        kind: Kind = Kind.MECHANISM,
        name: str = "",
        long: bool = False,
    ) -> Callable[[Compute], Compute]:
        """Decorates the function that computes a shape row, which holds `under` assumptions.

        The claim's name is the function's if none is given.
        """

        def add(ours: Compute) -> Compute:
            known = name or _named(ours)
            self._add(known, section, text, ClaimClass.SHAPE, kind, ours, under=under, long=long)
            return ours

        return add

    def not_claimable(
        self,
        name: str,
        section: str,
        text: str,
        *,
        needs: str,
        here: Callable[[], str] | None = None,
    ) -> None:
        """Adds a row that is quoted, with what it would need, and what there is instead `here`."""

        def ours() -> Measured:
            instead = "" if here is None else f"; here {here()}"
            return Measured(f"needs {needs}{instead}", None)

        self._add(name, section, text, ClaimClass.NOT_CLAIMABLE, Kind.QUOTED, ours)

    def _add(
        self,
        name: str,
        section: str,
        text: str,
        claim_class: ClaimClass,
        kind: Kind,
        ours: Compute,
        *,
        under: str = "",
        slip: bool = False,
        long: bool = False,
    ) -> None:
        if any(claim.name == name for claim in self._claims):
            raise ValueError(f"{self.name} has two claims {name!r}; rename one")
        if name not in self.printed.figures:
            raise ValueError(f"{self.name} has no figure {name!r}; transcribe it in plan/papers")
        self._claims.append(
            Claim(
                paper=self.name,
                name=name,
                section=section,
                text=text,
                claim_class=claim_class,
                kind=kind,
                figure=self.printed[name],
                ours=ours,
                under=under,
                slip=slip,
                long=long,
            )
        )


def _named(ours: Compute) -> str:
    return ours.__name__.strip("_").replace("_", "-")


def judge(claim: Claim) -> Row:
    """Compute our figure, and say what becomes of the claim."""
    measured = claim.ours()
    if claim.claim_class is ClaimClass.NOT_CLAIMABLE:
        verdict = Verdict.NOT_CLAIMABLE
    elif not measured.holds:
        verdict = Verdict.FAILS
    elif claim.claim_class is ClaimClass.SHAPE:
        verdict = Verdict.SHAPE_HOLDS
    else:
        verdict = Verdict.SLIP if claim.slip else _HELD[claim.kind]
    return Row(claim, measured.value, verdict)


def judge_all(paper: Paper, *, long: bool) -> Iterator[Row]:
    """Judge a paper's claims in order; those that take long only if asked for."""
    progress = Tally(f"claims of {paper.name}", len(paper.claims))
    for claim in paper.claims:
        if claim.long and not long:
            row = Row(claim, "takes long: --all", Verdict.NOT_RUN)
        else:
            row = judge(claim)
        progress.step()
        yield row
