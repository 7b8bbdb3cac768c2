"""Verdicts of proofs that are kept in the repository, as a run over all takes longer than a day.

A proof is known by its content: a hash of the RTL with its properties, and of the depths. A test is
known while the sources that it depends on are the same; when only these have changed, it runs and
meets the same proofs again.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = "tests/formal/"
"""Tests of this folder are kept."""

DECIDING = frozenset({".".join(("tests", "formal", name)) for name in ("smtbmc", "solvers")})
"""Modules that ask the solvers: what has been proven does not depend on how.

Put together, as every test would depend on what its strings name.
"""

PASSED = "passed"
UNDECIDED = "undecided"
FAILED = "failed"
UNTRIED = "untried"


@dataclass(frozen=True)
class Proof:
    """A claim that a test has proven.

    Attributes
    ----------
    depths : Mapping[str, int]
        Of each of the modes that `tests.lib.proofs` lists.
    tools : str
        Versions of what has found it.
    """

    depths: Mapping[str, int]
    tools: str


@dataclass(frozen=True)
class Verdict:
    """A test's end.

    Attributes
    ----------
    outcome : str
        `passed`; `undecided`, as the solver or the test ran out of time; `failed`; or `untried`.
    sources : str
        A hash of the sources that the test depends on.
    seconds : float
        What it took when its proofs were found.
    proofs : Mapping[str, Proof]
        By their hashes; none of a test that finds a planted fault.
    """

    outcome: str
    sources: str = ""
    seconds: float = 0.0
    proofs: Mapping[str, Proof] = field(default_factory=dict)


def has(name: str) -> bool:
    """Return True if the test of that name is one whose verdicts are kept."""
    return name.startswith(FOLDER)


def ledger_file(root: Path) -> Path:
    """The ledger of a checkout.

    It is no file of the packages: whatever changes in these makes all tests run again.
    """
    return root / "docs" / "developer" / "proofs.json"


def read(file: Path) -> dict[str, Verdict]:
    """Verdicts of a ledger by the tests' names; none if there is no file."""
    if not file.exists():
        return {}
    found = json.loads(file.read_text("utf-8"))
    return {
        f"{module}::{name}": _verdict(record)
        for module, records in found.items()
        for name, record in records.items()
    }


def write(file: Path, verdicts: Mapping[str, Verdict]) -> None:
    """Write a ledger in the order of the tests' names, one a line."""
    modules: dict[str, list[str]] = {}
    for name, verdict in sorted(verdicts.items()):
        module, _, test = name.partition("::")
        modules.setdefault(module, []).append(f"{json.dumps(test)}: {_text(verdict)}")
    parts = [
        f"{json.dumps(module)}: {{\n" + ",\n".join(lines) + "\n}"
        for module, lines in modules.items()
    ]
    partial = file.with_suffix(".partial")
    partial.write_text("{\n" + ",\n".join(parts) + "\n}\n", "utf-8")
    partial.replace(file)


def proofs_of(verdicts: Mapping[str, Verdict]) -> dict[str, Proof]:
    """All that tests which passed have proven."""
    passed = (verdict for verdict in verdicts.values() if verdict.outcome == PASSED)
    return {key: proof for verdict in passed for key, proof in verdict.proofs.items()}


def _text(verdict: Verdict) -> str:
    if verdict.outcome == UNTRIED:
        return json.dumps({"outcome": UNTRIED})
    proofs = {key: [dict(proof.depths), proof.tools] for key, proof in verdict.proofs.items()}
    return json.dumps(
        {"outcome": verdict.outcome, "sources": verdict.sources, "seconds": verdict.seconds}
        | ({"proofs": proofs} if proofs else {})
    )


def _verdict(record: dict) -> Verdict:
    proofs = {key: Proof(*parts) for key, parts in record.get("proofs", {}).items()}
    return Verdict(**{**record, "proofs": proofs})
