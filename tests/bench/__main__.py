"""`make bench`: every performance figure that the documents quote, each beside its reference.

Figures are printed as tables and written to build/bench/bench.json. With names of modules as
arguments, only those run.
"""

import importlib
import json
import pkgutil
import sys
from pathlib import Path

from rich.console import Console

import tests.bench

REPORT = Path("build/bench/bench.json")


def benches() -> list[str]:
    """The modules of this folder that have a `run(console) -> dict`."""
    names = [module.name for module in pkgutil.iter_modules(tests.bench.__path__)]
    return [
        name
        for name in names
        if name != "__main__" and hasattr(importlib.import_module(f"tests.bench.{name}"), "run")
    ]


def main(wanted: list[str]) -> int:
    available = benches()
    if unknown := sorted(set(wanted) - set(available)):
        print(f"no bench is called {unknown[0]}; choose from {', '.join(available)}")
        return 2
    console = Console()
    if not console.is_terminal:
        console = Console(width=110)
    report = {}
    for name in wanted or available:
        console.rule(name)
        report[name] = importlib.import_module(f"tests.bench.{name}").run(console)
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    console.print(f"\nwritten to {REPORT}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
