"""The page of a run of `make mutate`, with what people found out about survivors."""

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.mutation.mutants import Mutant
from tests.mutation.run import Verdict

REASONS = Path(__file__).parent / "survivors.toml"
"""Survivors by name, each with `reason`, and `equivalent`, whether no test could find it."""


def reasons(file: Path) -> dict[str, dict[str, object]]:
    return tomllib.loads(file.read_text("utf-8"))


def page(
    results: Sequence[tuple[Mutant, Verdict]], known: Mapping[str, Mapping[str, object]]
) -> str:
    """The page: how many were found, room by room, and each that was not."""
    lines = [
        "# Mutants",
        "",
        "<!-- Generated: make mutate -->",
        "",
        "`make mutate` draws faults of one expression or one statement from the sources, and runs",
        "the tests of `make test` that depend on the file: those beside it in the mirror, then",
        "those of whole engines and controllers. *Unbuilt*: no design can be made of it. *Same",
        "netlist*: every component is as without it, so no test can tell. The rate is killed by",
        "killed, survived and undecided, without those that people found equivalent",
        "(`tests/mutation/survivors.toml`).",
        "",
        "| room | drawn | unbuilt | same netlist | killed | survived | of these equivalent "
        "| undecided | rate |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for room in sorted({mutant.path.split("/")[0] for mutant, _ in results}):
        own = [one for one in results if one[0].path.startswith(f"{room}/")]
        count = Counter(verdict.outcome for _, verdict in own)
        equivalent = sum(
            verdict.outcome == "survived" and bool(known.get(mutant.name, {}).get("equivalent"))
            for mutant, verdict in own
        )
        left = count["killed"] + count["survived"] + count["undecided"] - equivalent
        rate = f"{count['killed'] / left:.1%}" if left else "–"
        lines.append(
            f"| `{room}` | {len(own):,} | {count['unbuilt']} | {count['same netlist']} "
            f"| {count['killed']} | {count['survived']} | {equivalent} | {count['undecided']} "
            f"| {rate} |"
        )
    lines += [
        "",
        "## Not found",
        "",
        "| mutant | place | fault | what is known |",
        "|---|---|---|---|",
    ]
    for mutant, verdict in sorted(results, key=lambda one: (one[0].path, one[0].fault.line)):
        if verdict.outcome in ("survived", "undecided"):
            said = known.get(mutant.name, {})
            told = str(said.get("reason", verdict.error or "open"))
            kind = "equivalent: " if said.get("equivalent") else ""
            lines.append(f"| {mutant.name} | `{mutant.path}` | {_fault(mutant)} | {kind}{told} |")
    return "\n".join([*lines, ""])


def _fault(mutant: Mutant) -> str:
    before, after = (text.replace("|", "\\|") for text in (mutant.fault.before, mutant.fault.after))
    return f"`{before}` → `{after}`" if after else f"`{before}` left out"
