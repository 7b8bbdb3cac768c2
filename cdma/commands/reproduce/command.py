"""`cdma reproduce`: what the papers claim, and what becomes of it here."""

from typing import Annotated

import typer

from cdma.commands.completers import named
from cdma.commands.json_option import AsJson, print_json
from cdma.commands.reproduce.report import as_dict, failures, print_paper, print_summary
from cdma.reproduce import PAPERS, judge_all
from cdma.reproduce import paper as paper_of
from cdma.schemas import document


def reproduce(
    paper: Annotated[
        str | None,
        typer.Argument(
            metavar="|".join(PAPERS),
            help="All of them if not given.",
            show_default=False,
            autocompletion=named("papers"),
        ),
    ] = None,
    run_all: Annotated[bool, typer.Option("--all", help="Also the rows that take long.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compute every row of the papers' claims; exit status 1 if any does not hold."""
    wanted = list(PAPERS.values()) if paper is None else [paper_of(paper)]
    rows = []
    for each in wanted:
        judged = list(judge_all(each, long=run_all))
        rows += judged
        if not as_json:
            print_paper(each, judged)
    if as_json:
        print_json(document("reproduce", as_dict(rows)))
    else:
        print_summary(rows)
    if failures(rows):
        raise typer.Exit(1)
