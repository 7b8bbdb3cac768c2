"""`make proofs`: the page of all proofs, from the ledger that their runs have written."""

import ast
import contextlib
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.lib import ledger
from tests.lib.ledger import FAILED, PASSED, UNDECIDED, UNTRIED, Verdict

ROOT = Path(__file__).parents[2]
LEDGER = ledger.ledger_file(ROOT)
PAGE = LEDGER.with_suffix(".md")

OPEN = (UNDECIDED, FAILED, UNTRIED)

HEAD = """# Verdicts of proofs

<!-- Generated: make proofs -->

What each proof and each planted fault of `tests/formal/` has come to, from `proofs.json`, to which
`make proofs` writes as it runs. [Proofs](formal.md) says what they are about. A proof is known by
its content, a hash of the RTL, the properties and the depths: CI runs those of which the ledger has
no verdict, and finds others again as far as there is time. *For all time* are proofs by induction
and those of power-up; *bounded* are those that say nothing about later cycles, with the fewest and
the most cycles. Those of logic without state are of one cycle, and complete. *Others* find a
planted fault, or compare what proofs assume with what others assert.
"""


class Collected:
    """A plugin of pytest that notes all tests, and a hash of the sources of each."""

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        # pytest takes no plugin that was imported before it.
        from tests.lib.verdicts import Keys

        keys = Keys(session.config)
        self.sources = {item.nodeid: keys.sources(item) for item in session.items}


def main() -> int:
    """Write the page, and into the ledger which tests there are.

    Returns
    -------
    int
        1 if tests cannot be collected.
    """
    collected = Collected()
    listed = io.StringIO()
    with contextlib.redirect_stdout(listed):
        done = pytest.main(["--collect-only", "-m", "", ledger.FOLDER], plugins=[collected])
    if done != pytest.ExitCode.OK:
        print(listed.getvalue())
        return 1
    kept = ledger.read(LEDGER)
    verdicts = {name: kept.get(name, Verdict(UNTRIED)) for name in collected.sources}
    ledger.write(LEDGER, verdicts)
    earlier = [
        name
        for name, verdict in verdicts.items()
        if verdict.outcome != UNTRIED and verdict.sources != collected.sources[name]
    ]
    PAGE.write_text(page(verdicts, earlier), "utf-8")
    count = Counter(verdict.outcome for verdict in verdicts.values())
    told = ", ".join(f"{number} {outcome}" for outcome, number in count.items())
    print(f"{PAGE.relative_to(ROOT)}: {told}; of {len(earlier)}, sources have changed since")
    return 0


def page(verdicts: Mapping[str, Verdict], earlier: Sequence[str]) -> str:
    """The page: counts of each file of tests, and by name each test without a verdict.

    Parameters
    ----------
    verdicts : Mapping[str, Verdict]
        Of all tests that there are, by name.
    earlier : Sequence[str]
        Those of which sources have changed since; their proofs may still be the same.
    """
    modules: dict[str, dict[str, Verdict]] = {}
    for name, verdict in verdicts.items():
        module, _, test = name.partition("::")
        modules.setdefault(module, {})[test] = verdict
    tools = sorted({proof.tools for proof in ledger.proofs_of(verdicts).values()})
    number = Counter(verdict.outcome for verdict in verdicts.values())
    lines = [
        *HEAD.splitlines(),
        "",
        f"Of {len(verdicts):,} tests {number[PASSED]:,} have passed; of {len(earlier):,} of all, "
        "sources have changed since.",
        f"Found by {'; '.join(tools) or 'nothing yet'}.",
        "",
        "| file | about | tests | for all time | bounded | others | open |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_row(module, tests) for module, tests in sorted(modules.items())]
    lines += ["", "## Open", ""]
    said = {
        UNDECIDED: "Not decided in their time",
        FAILED: "Failed when last run",
        UNTRIED: "Not run yet",
    }
    for outcome in OPEN:
        names = [name for name, verdict in verdicts.items() if verdict.outcome == outcome]
        if names:
            lines += [f"### {said[outcome]}", "", *_listed(names), ""]
    if not any(number[outcome] for outcome in OPEN):
        lines += ["None.", ""]
    return "\n".join(lines)


def _row(module: str, tests: Mapping[str, Verdict]) -> str:
    passed = [verdict for verdict in tests.values() if verdict.outcome == PASSED]
    depths = [[proof.depths for proof in verdict.proofs.values()] for verdict in passed]
    always = sum(any(_is_for_all_time(depth) for depth in found) for found in depths)
    cycles = [depth["bmc"] for found in depths for depth in found if "bmc" in depth]
    bounded = sum(any("bmc" in depth for depth in found) for found in depths)
    told = f"{bounded} ({min(cycles)}–{max(cycles)})" if cycles else "0"
    others = sum(not found for found in depths)
    title = (ast.get_docstring(ast.parse((ROOT / module).read_text("utf-8"))) or "").split("\n")[0]
    cells = [f"`{module.removeprefix(ledger.FOLDER)}`", title.replace("|", "\\|"), str(len(tests))]
    cells += [str(always), told, str(others), str(len(tests) - len(passed))]
    return f"| {' | '.join(cells)} |"


def _is_for_all_time(depths: Mapping[str, int]) -> bool:
    return not {"prove", "power_up"}.isdisjoint(depths)


def _listed(names: Sequence[str]) -> list[str]:
    """Names of tests, with the parameters of each function in one line."""
    functions: dict[str, list[str]] = {}
    for name in names:
        function, _, parameters = name.removeprefix(ledger.FOLDER).partition("[")
        functions.setdefault(function, []).append(parameters.removesuffix("]"))
    return [
        f"- `{function}`"
        + (": " + ", ".join(f"`{one}`" for one in parameters) if any(parameters) else "")
        for function, parameters in functions.items()
    ]


if __name__ == "__main__":
    raise SystemExit(main())
