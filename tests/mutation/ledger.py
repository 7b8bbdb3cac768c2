"""Verdicts that are kept in the repository, as a run over all mutants takes longer than a day."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.lib.paths import ROOT

LEDGER = ROOT / "docs" / "developer" / "mutants.json"
"""Records by the mutant's name, one a line.

It is no file of the packages: whatever changes in these makes all tests run again.
"""


@dataclass(frozen=True)
class Verdict:
    """A mutant's end.

    Attributes
    ----------
    outcome : str
        `killed` by a test; `unbuilt`, as no design or module can be made of it; `same netlist`, as
        every component that it is in is built as before; `survived`; `open`, as whole engines have
        not been asked; or `undecided`, as its tests take too long or fail without it, too.
    test, error : str
        What has found it, and with which words.
    """

    outcome: str
    test: str = ""
    error: str = ""


@dataclass(frozen=True)
class Record:
    """A verdict, and a hash of the sources that it depends on."""

    verdict: Verdict
    sources: str


def to_json(record: Record) -> str:
    return json.dumps({**asdict(record.verdict), "sources": record.sources})


def from_json(text: str) -> Record:
    return _record(json.loads(text))


def read(file: Path) -> dict[str, Record]:
    """The records of a ledger by the mutants' names; none if there is no file."""
    if not file.exists():
        return {}
    found = json.loads(file.read_text("utf-8"))
    return {name: _record(record) for name, record in found.items()}


def write(file: Path, records: Mapping[str, Record]) -> None:
    """Write a ledger, in the order of the mutants' names."""
    lines = [f'"{name}": {to_json(record)}' for name, record in sorted(records.items())]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def _record(found: dict[str, str]) -> Record:
    verdict = {key: value for key, value in found.items() if key != "sources"}
    return Record(Verdict(**verdict), found["sources"])
