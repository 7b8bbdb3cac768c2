"""`make mutate`: draw mutants, run the tests that depend on them, and tell which survive."""

import json
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from tests.lib.closure import Checkout
from tests.lib.paths import ROOT
from tests.mutation import ledger
from tests.mutation.ledger import LEDGER, Record, Verdict
from tests.mutation.mutants import Mutant, mutants
from tests.mutation.report import MISSED, OUTCOMES, PAGE, REASONS, page, reasons, room_of
from tests.mutation.run import Workshop, is_current, judged, kept_verdict, records

ROOMS = ("hw", "golden", "sim/driver")
DRAWN = 1200
FOLDER = ROOT / "build" / "mutation"


def mutate(
    rooms: Annotated[list[str] | None, typer.Argument(help="Folders or files.")] = None,
    count: Annotated[int, typer.Option(help="Mutants that are drawn, of all rooms.")] = DRAWN,
    jobs: Annotated[int, typer.Option(help="Processes.")] = 2,
    near: Annotated[
        bool, typer.Option("--near", help="Ask no whole engines; what they might find is open.")
    ] = False,
    kept: Annotated[
        bool, typer.Option("--kept", help="Judge none; those without a verdict are left out.")
    ] = False,
    write: Annotated[
        bool, typer.Option("--write", help="Write the page of the results, and the ledger.")
    ] = False,
) -> None:
    """Draw mutants, and run the tests that depend on them."""
    console = Console()
    known = reasons(REASONS)
    # Those of which nothing is known come first: a run may be stopped at any time.
    verdicts = ledger.read(LEDGER)
    before = Workshop(Checkout(ROOT), ledger=verdicts)
    drawn = mutants(ROOT, rooms or ROOMS)[:count]
    drawn.sort(key=lambda mutant: bool(records(before, mutant)))
    shops: Queue[Workshop] = Queue()
    for job in range(jobs):
        folder = None if kept else FOLDER / f"checkout-{job}"
        shops.put(Workshop(Checkout(ROOT), folder, verdicts))

    def judge(mutant: Mutant) -> tuple[Mutant, Verdict | None]:
        if near and known.get(mutant.name, {}).get("equivalent"):
            # All tests would be asked for nothing; a whole run does, in case people were wrong.
            return mutant, Verdict("open")
        shop = shops.get()
        try:
            verdict = kept_verdict(shop, mutant) if kept else judged(shop, mutant, whole=not near)
        finally:
            shops.put(shop)
        if verdict is not None and verdict.outcome in MISSED:
            fault = mutant.fault
            place = f"{mutant.path}:{fault.line}"
            console.print(
                f"{mutant.name} {verdict.outcome} {place} {fault.kind}: {fault.before} -> "
                f"{fault.after or 'nothing'} {verdict.error}",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )
        return mutant, verdict

    with ThreadPoolExecutor(jobs) as pool:
        results = [
            (mutant, verdict) for mutant, verdict in pool.map(judge, drawn) if verdict is not None
        ]
    while not shops.empty():
        shops.get().close()
    console.print(_table(results))
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = [
        {"name": mutant.name, "path": mutant.path, "line": mutant.fault.line, **vars(verdict)}
        for mutant, verdict in results
    ]
    (FOLDER / "results.json").write_text(json.dumps(found, indent=2) + "\n")
    if write:
        _write(known)


def _write(known: Mapping[str, Mapping[str, object]]) -> None:
    """Write page and ledger of all that is drawn of all rooms, and has ever been judged."""
    shop = Workshop(Checkout(ROOT), ledger=ledger.read(LEDGER))
    drawn = mutants(ROOT, ROOMS)[:DRAWN]
    found: list[tuple[Mutant, Record, bool]] = []
    for mutant in drawn:
        all_of_it = [(one, is_current(shop, mutant, one)) for one in records(shop, mutant)]
        for record, current in sorted(all_of_it, key=lambda pair: not pair[1])[:1]:
            found.append((mutant, record, current))
    judged_ones = {mutant.name: record.verdict for mutant, record, _ in found}
    for mutant in drawn:
        if known.get(mutant.name, {}).get("equivalent"):
            # A run that asks no whole engines leaves those out that people have judged.
            judged_ones.setdefault(mutant.name, Verdict("open"))
    results = [(one, judged_ones[one.name]) for one in drawn if one.name in judged_ones]
    earlier = {mutant.name for mutant, _, current in found if not current}
    PAGE.write_text(page(results, known, {mutant.name for mutant in drawn}, earlier), "utf-8")
    ledger.write(LEDGER, {mutant.name: record for mutant, record, _ in found})


def _table(results: list[tuple[Mutant, Verdict]]) -> Table:
    table = Table("room", "mutants", *OUTCOMES)
    rooms = Counter(room_of(mutant) for mutant, _ in results)
    for room, drawn in sorted(rooms.items()):
        outcomes = Counter(
            verdict.outcome for mutant, verdict in results if room_of(mutant) == room
        )
        table.add_row(room, str(drawn), *(str(outcomes[each]) for each in OUTCOMES))
    return table


if __name__ == "__main__":
    typer.run(mutate)
