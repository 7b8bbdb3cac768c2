"""The recipe of docs/guide/plan/lossy-training.md: the digits network trained under every scheme.

    python -m cdma.plan.training --seeds 5 --epochs 10 --out build/lossy-training.json

The report is completed on disk after each training. Trainings that it has already, with the same
number of epochs, are not repeated, so a run that was stopped goes on where it was.
"""

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from cdma.plan.timeline.errors import ScheduleError
from cdma.plan.training.run import ACTIVATIONS, STEPS, train
from cdma.plan.training.schemes import SCHEMES, scheme
from cdma.plan.workload import CaptureError
from cdma.plan.workload.capture.recorder import require

Report = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the recipe; the exit status."""
    options = _options(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=100)
    try:
        report = _load(options.out, options.epochs)
        wanted = list(_trainings(options))
        for number, (activation, seed, name) in enumerate(wanted, 1):
            key = f"{activation}/{name}/{seed}"
            if key in report["runs"]:
                continue
            run = train(scheme(name, options.epochs, STEPS), activation, seed, options.epochs)
            report["runs"][key] = {
                "activation": activation,
                "scheme": name,
                "seed": seed,
                "saved_bytes": run.traffic.saved_bytes,
                **asdict(run),
            }
            _save(options.out, report)
            console.print(f"{number}/{len(wanted)} {key}: {run.test_accuracy:.1%}", style="dim")
    except (ScheduleError, CaptureError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    for activation in options.activation:
        console.print(_table(report, activation, options.scheme))
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m cdma.plan.training")
    parser.add_argument("--seeds", type=int, default=5, help="seeds 0, 1, …")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--activation", choices=ACTIVATIONS, nargs="+", default=list(ACTIVATIONS))
    parser.add_argument("--scheme", choices=list(SCHEMES), nargs="+", default=list(SCHEMES))
    parser.add_argument("--out", type=Path, default=Path("build/lossy-training.json"))
    return parser.parse_args(arguments)


def _trainings(options: argparse.Namespace) -> Iterator[tuple[str, int, str]]:
    for seed in range(options.seeds):
        for activation in options.activation:
            for name in options.scheme:
                yield activation, seed, name


def _load(path: Path, epochs: int) -> Report:
    """The report on disk, or a new one; `ScheduleError` if it is of other trainings."""
    torch = require("torch")
    settings = {
        "epochs": epochs,
        "torch": str(torch.__version__),
        "processor": f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}",
    }
    if not path.exists():
        return {"settings": settings, "runs": {}}
    try:
        report = json.loads(path.read_text())
        found = report["settings"]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ScheduleError(
            f"{path} is no report of trainings; remove it or name another"
        ) from error
    if found != settings:
        raise ScheduleError(
            f"{path} is of {found}, and these trainings are of {settings}; remove it or name "
            "another"
        )
    return report


def _save(path: Path, report: Report) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(report, indent=1) + "\n")
    os.replace(part, path)


def _table(report: Report, activation: str, schemes: Sequence[str]) -> Table:
    table = Table(title=f"{activation}, {report['settings']['epochs']} epochs")
    table.add_column("scheme")
    columns = ("seeds", "diverged", "test accuracy", "to baseline", "loss", "saved", "ratio")
    for column in columns:
        table.add_column(column, justify="right")
    by_scheme: dict[str, dict[int, Any]] = {name: {} for name in schemes}
    for run in report["runs"].values():
        if run["activation"] == activation and run["scheme"] in by_scheme:
            by_scheme[run["scheme"]][run["seed"]] = run
    base = by_scheme.get("baseline", {})
    for name, runs in by_scheme.items():
        if runs:
            table.add_row(name, *_row(runs, base))
    return table


def _row(runs: dict[int, Any], base: dict[int, Any]) -> list[str]:
    """Means over seeds, with standard deviations."""

    def spread(values: Sequence[float], digits: int) -> str:
        deviation = np.std(values, ddof=1) if len(values) > 1 else 0.0
        return f"{np.mean(values):.{digits}f} ± {deviation:.{digits}f}"

    accuracy = {seed: 100 * run["test_accuracy"] for seed, run in runs.items()}
    paired = [accuracy[seed] - 100 * base[seed]["test_accuracy"] for seed in runs if seed in base]
    traffic = [run["traffic"] for run in runs.values()]
    # Of what went through a codec; in the first iterations COMET compresses nothing.
    streams = sum(t["stream_bytes"] for t in traffic)
    raw = sum(t["compressed_bytes"] for t in traffic)
    saved = np.mean([run["saved_bytes"] for run in runs.values()])
    return [
        str(len(runs)),
        str(sum(run["diverged"] is not None for run in runs.values())),
        spread(list(accuracy.values()), 1),
        spread(paired, 1) if paired else "",
        spread([run["losses"][-1] for run in runs.values()], 2),
        f"{saved / 1e9:.3f} GB",
        f"{raw / streams:.2f}" if streams else "1",
    ]


if __name__ == "__main__":
    sys.exit(main())
