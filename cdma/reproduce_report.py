"""What `cdma reproduce` tells: a table per paper, or a JSON object."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.markup import escape

from cdma.console import plain_table, terminal
from sim.reproduce import Paper, Row, Verdict

STYLES = {
    Verdict.FAILS: "bold red",
    Verdict.SLIP: "yellow",
    Verdict.NOT_CLAIMABLE: "dim",
    Verdict.NOT_RUN: "dim",
}


def as_dict(rows: Sequence[Row]) -> dict[str, Any]:
    """The JSON form; docs/reproduce.md describes the keys."""
    return {
        "claims": [
            {
                "paper": row.claim.paper,
                "name": row.claim.name,
                "section": row.claim.section,
                "claim": row.claim.text,
                "class": row.claim.kind,
                "published": row.claim.published,
                "ours": row.ours,
                "assumptions": row.claim.under,
                "verdict": row.verdict,
            }
            for row in rows
        ],
        "verdicts": {verdict: count for verdict, count in _count(rows).items() if count},
        "failures": [f"{row.claim.paper}/{row.claim.name}" for row in failures(rows)],
    }


def failures(rows: Sequence[Row]) -> list[Row]:
    """Rows that should hold and do not."""
    return [row for row in rows if row.verdict is Verdict.FAILS]


def print_paper(paper: Paper, rows: Sequence[Row]) -> None:
    """A paper's table, and below it what its rows assume."""
    table = plain_table(paper.title)
    table.add_column("where", min_width=9)
    table.add_column("claim", ratio=5)
    table.add_column("class", no_wrap=True)
    table.add_column("paper", ratio=4)
    table.add_column("ours", ratio=6)
    table.add_column("verdict", no_wrap=True)
    assumptions = list(dict.fromkeys(row.claim.under for row in rows if row.claim.under))
    for row in rows:
        claim, style = row.claim, STYLES.get(row.verdict, "")
        note = f" ({assumptions.index(claim.under) + 1})" if claim.under else ""
        table.add_row(
            *map(escape, (claim.section, claim.text + note, claim.kind, claim.published, row.ours)),
            f"[{style}]{row.verdict}[/]" if style else str(row.verdict),
        )
    console = terminal()
    console.print(table)
    for number, assumption in enumerate(assumptions, 1):
        console.print(f"({number}) {escape(assumption)}.", highlight=False)
    console.print()


def print_summary(rows: Sequence[Row]) -> None:
    """How many there are of each verdict, and which fail."""
    counts = ", ".join(f"{verdict}: {count}" for verdict, count in _count(rows).items() if count)
    terminal().print(f"{len(rows)} claims. {counts}.", highlight=False)
    for row in failures(rows):
        terminal().print(
            f"[bold red]FAILS[/] {row.claim.paper}/{row.claim.name}: {escape(row.ours)}"
        )


def _count(rows: Sequence[Row]) -> dict[Verdict, int]:
    found = Counter(row.verdict for row in rows)
    return {verdict: found[verdict] for verdict in Verdict}
