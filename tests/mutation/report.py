"""The page of a run of `make mutate`, with what people found out about survivors."""

import tomllib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tests.lib.paths import ROOT
from tests.mutation.ledger import Verdict
from tests.mutation.mutants import Mutant

REASONS = Path(__file__).parent / "survivors.toml"
"""Survivors by name, each with `reason`, and `equivalent`, whether no test could find it."""

PAGE = ROOT / "docs" / "developer" / "mutants.md"

OUTCOMES = ("unbuilt", "same netlist", "killed", "survived", "open", "undecided")

MISSED = ("survived", "open", "undecided")
"""Outcomes of mutants that no test has found."""


def room_of(mutant: Mutant) -> str:
    """The folder that a mutant is counted in."""
    return "/".join(mutant.path.split("/")[:2])


def reasons(file: Path) -> dict[str, dict[str, object]]:
    return tomllib.loads(file.read_text("utf-8"))


def page(
    results: Sequence[tuple[Mutant, Verdict]],
    known: Mapping[str, Mapping[str, object]],
    draw: Collection[str],
    earlier: Collection[str],
) -> str:
    """The page: how many were found, room by room, and each that was not.

    Parameters
    ----------
    results : Sequence[tuple[Mutant, Verdict]]
    known : Mapping[str, Mapping[str, object]]
        What people found out, by name.
    draw : Collection[str]
        The names of those that a run of all rooms draws, so that the page tells how many are left.
    earlier : Collection[str]
        The names of those whose tests, or something that these depend on, have changed since.
    """
    judged = sum(mutant.name in draw for mutant, _ in results)
    lines = [
        "# Mutants",
        "",
        "<!-- Generated: make mutate -->",
        "",
        "`make mutate` draws faults of one expression or one statement from the sources, and runs",
        "the tests of `make test` that depend on the file: those beside it in the mirror, then",
        "those of whole engines and controllers. *Unbuilt*: no design can be made of it. *Same",
        "netlist*: every component that it is in is as without it, so no test can tell. *Open*:",
        "the tests beside it pass, and whole engines have not been asked. The rate is killed by",
        "killed, survived, open and undecided, without those that people found equivalent",
        "(`tests/mutation/survivors.toml`).",
        "",
        f"Judged are {judged:,} of the {len(draw):,} mutants that are drawn of all rooms; "
        f"of {len(earlier):,}, sources have changed since.",
        "",
        "| room | drawn | unbuilt | same netlist | killed | survived or open, not equivalent "
        "| equivalent | undecided | rate |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    rooms = sorted({room_of(mutant) for mutant, _ in results})
    lines += [_row(f"`{room}`", results, known, room) for room in rooms]
    lines.append(_row("all", results, known, None))
    lines += [
        "",
        "## Not found",
        "",
        "| mutant | place | fault | what is known |",
        "|---|---|---|---|",
    ]
    for mutant, verdict in sorted(results, key=lambda one: (one[0].path, one[0].fault.line)):
        if verdict.outcome in MISSED:
            said = known.get(mutant.name, {})
            told = str(said.get("reason", verdict.error or verdict.outcome))
            kind = "equivalent: " if said.get("equivalent") else ""
            lines.append(f"| {mutant.name} | `{mutant.path}` | {_fault(mutant)} | {kind}{told} |")
    return "\n".join([*lines, ""])


def _row(
    title: str,
    results: Sequence[tuple[Mutant, Verdict]],
    known: Mapping[str, Mapping[str, object]],
    room: str | None,
) -> str:
    own = [one for one in results if room in (None, room_of(one[0]))]
    count = Counter(
        "equivalent"
        if verdict.outcome in MISSED and known.get(mutant.name, {}).get("equivalent")
        else verdict.outcome
        for mutant, verdict in own
    )
    missed = count["survived"] + count["open"]
    left = count["killed"] + missed + count["undecided"]
    rate = f"{count['killed'] / left:.1%}" if left else "–"
    cells = [title, f"{len(own):,}", count["unbuilt"], count["same netlist"], count["killed"]]
    cells += [missed, count["equivalent"], count["undecided"], rate]
    return f"| {' | '.join(map(str, cells))} |"


def _fault(mutant: Mutant) -> str:
    before, after = (text.replace("|", "\\|") for text in (mutant.fault.before, mutant.fault.after))
    return f"`{before}` → `{after}`" if after else f"`{before}` left out"
