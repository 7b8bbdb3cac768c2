"""What a paper claims, which class of claim that is, and what becomes of it here."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from hw.progress import Tally


class Kind(StrEnum):
    """What a reproduction can honestly be held to."""

    EXACT = "exact"
    """Follows from the paper's own rules and figures: ours is the same, or print has a slip."""
    SHAPE = "shape"
    """A direction or a band, under assumptions that the row names."""
    NOT_CLAIMABLE = "not-claimable"
    """Needs the authors' hardware or data: quoted, never claimed."""


class Verdict(StrEnum):
    """What became of a claim."""

    EXACT = "exact"
    SHAPE_HOLDS = "shape holds"
    SLIP = "slip in the print"
    """The paper's own rule gives another figure than it prints: ours."""
    NOT_CLAIMABLE = "not claimable"
    FAILS = "FAILS"
    NOT_RUN = "not run"
    """A long computation that was not asked for."""


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
        Unique in its paper; stable.
    section : str
        Where the paper has it.
    text : str
        What is claimed.
    kind : Kind
    published : str
        The paper's figure.
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
    kind: Kind
    published: str
    ours: Compute
    under: str = ""
    slip: bool = False
    long: bool = False


@dataclass(frozen=True)
class Row:
    """A claim with our figure and the verdict."""

    claim: Claim
    ours: str
    verdict: Verdict


class Paper:
    """A paper's claims, in the order in which they are added.

    Parameters
    ----------
    name : str
        What `cdma reproduce` calls it.
    title : str
        Authors, title, venue.
    """

    def __init__(self, name: str, title: str) -> None:
        self.name = name
        self.title = title
        self._claims: list[Claim] = []

    @property
    def claims(self) -> tuple[Claim, ...]:
        return tuple(self._claims)

    def exact(
        self, section: str, text: str, published: str, *, slip: bool = False
    ) -> Callable[[Compute], Compute]:
        """Decorates the function that computes an exact row; its name is the claim's."""
        return self._adder("", section, text, Kind.EXACT, published, "", slip, False)

    def shape(
        self,
        section: str,
        text: str,
        published: str,
        *,
        under: str,
        name: str = "",
        long: bool = False,
    ) -> Callable[[Compute], Compute]:
        """Decorates the function that computes a shape row, which holds `under` assumptions.

        The claim's name is the function's if none is given.
        """
        return self._adder(name, section, text, Kind.SHAPE, published, under, False, long)

    def not_claimable(
        self,
        name: str,
        section: str,
        text: str,
        published: str,
        *,
        needs: str,
        here: Callable[[], str] | None = None,
    ) -> None:
        """Adds a row that is quoted, with what it would need, and what there is instead `here`."""

        def ours() -> Measured:
            instead = "" if here is None else f"; here {here()}"
            return Measured(f"needs {needs}{instead}", None)

        self._add(name, section, text, Kind.NOT_CLAIMABLE, published, ours)

    def _adder(
        self,
        name: str,
        section: str,
        text: str,
        kind: Kind,
        published: str,
        under: str,
        slip: bool,
        long: bool,
    ) -> Callable[[Compute], Compute]:
        def add(ours: Compute) -> Compute:
            known = name or ours.__name__.strip("_").replace("_", "-")
            self._add(known, section, text, kind, published, ours, under, slip, long)
            return ours

        return add

    def _add(
        self,
        name: str,
        section: str,
        text: str,
        kind: Kind,
        published: str,
        ours: Compute,
        under: str = "",
        slip: bool = False,
        long: bool = False,
    ) -> None:
        if any(claim.name == name for claim in self._claims):
            raise ValueError(f"{self.name} has two claims {name!r}; rename one")
        self._claims.append(
            Claim(
                paper=self.name,
                name=name,
                section=section,
                text=text,
                kind=kind,
                published=published,
                ours=ours,
                under=under,
                slip=slip,
                long=long,
            )
        )


def judge(claim: Claim) -> Row:
    """Compute our figure, and say what becomes of the claim."""
    measured = claim.ours()
    if claim.kind is Kind.NOT_CLAIMABLE:
        verdict = Verdict.NOT_CLAIMABLE
    elif not measured.holds:
        verdict = Verdict.FAILS
    elif claim.kind is Kind.SHAPE:
        verdict = Verdict.SHAPE_HOLDS
    else:
        verdict = Verdict.SLIP if claim.slip else Verdict.EXACT
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
