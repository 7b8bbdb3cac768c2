"""The report of `cdma reproduce`: tables by paper and kind of row, or a JSON object."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rich.markup import escape

from cdma.reproduce import Kind, Paper, Row, Verdict
from cdma.terminal.console import plain_table, terminal

STYLES = {
    Verdict.FAILS: "bold red",
    Verdict.SLIP: "yellow",
    Verdict.NOT_CLAIMABLE: "dim",
    Verdict.NOT_RUN: "dim",
}

HEADINGS = {
    Kind.MECHANISM: "mechanism: what runs here, beside print",
    Kind.CONSTANT: "constant: a number of ours, beside print",
    Kind.ARITHMETIC: "arithmetic: the paper's own numbers, calculated again",
    Kind.QUOTED: "quoted: not claimed, and why",
}


def as_dict(rows: Sequence[Row]) -> dict[str, Any]:
    """The JSON form; docs/guide/reproduce.md describes the keys."""
    return {
        "claims": [
            {
                "paper": row.claim.paper,
                "name": row.claim.name,
                "section": row.claim.section,
                "claim": row.claim.text,
                "class": row.claim.claim_class,
                "kind": row.claim.kind,
                "published": row.claim.published,
                "lines": [quote.line for quote in row.claim.figure.quotes],
                "ours": row.ours,
                "assumptions": row.claim.under,
                "verdict": row.verdict,
            }
            for row in rows
        ],
        "verdicts": _count(row.verdict for row in rows),
        "kinds": {
            kind: _count(row.verdict for row in rows if row.claim.kind is kind) for kind in Kind
        },
        "failures": [f"{row.claim.paper}/{row.claim.name}" for row in failures(rows)],
    }


def failures(rows: Sequence[Row]) -> list[Row]:
    """List the rows that should hold and do not."""
    return [row for row in rows if row.verdict is Verdict.FAILS]


def print_paper(paper: Paper, rows: Sequence[Row]) -> None:
    """A paper's tables, one for each kind of row, and below them what rows assume."""
    assumptions = list(dict.fromkeys(row.claim.under for row in rows if row.claim.under))
    console = terminal()
    console.print(paper.title, style="bold")
    for kind, heading in HEADINGS.items():
        same = [row for row in rows if row.claim.kind is kind]
        if same:
            _print_kind(heading, same, assumptions)
    for number, assumption in enumerate(assumptions, 1):
        console.print(f"({number}) {escape(assumption)}.", highlight=False)
    console.print()


def _print_kind(heading: str, rows: Sequence[Row], assumptions: list[str]) -> None:
    table = plain_table(heading)
    table.add_column("where", min_width=9)
    table.add_column("claim", ratio=5)
    table.add_column("class", no_wrap=True)
    table.add_column("paper", ratio=4)
    table.add_column("ours", ratio=6)
    table.add_column("verdict", no_wrap=True)
    for row in rows:
        claim, style = row.claim, STYLES.get(row.verdict, "")
        note = f" ({assumptions.index(claim.under) + 1})" if claim.under else ""
        cells = (claim.section, claim.text + note, claim.claim_class, claim.published, row.ours)
        table.add_row(
            *map(escape, cells),
            f"[{style}]{row.verdict}[/]" if style else str(row.verdict),
        )
    terminal().print(table)


def print_summary(rows: Sequence[Row]) -> None:
    """Print how many rows of each kind have each verdict, and which rows fail."""
    console = terminal()
    for kind in Kind:
        same = [row for row in rows if row.claim.kind is kind]
        if same:
            counts = _count(row.verdict for row in same)
            described = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
            console.print(f"{kind}: {len(same)} ({described})", highlight=False)
    console.print(f"{len(rows)} claims", highlight=False)
    for row in failures(rows):
        console.print(f"[bold red]FAILS[/] {row.claim.paper}/{row.claim.name}: {escape(row.ours)}")


def _count(verdicts: Iterable[Verdict]) -> dict[Verdict, int]:
    """Count the rows by verdict, in the order of `Verdict`; verdicts without rows are left out."""
    found = Counter(verdicts)
    return {verdict: found[verdict] for verdict in Verdict if found[verdict]}
