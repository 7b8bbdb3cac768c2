"""`cdma calibrate`: times of layers, copies and codecs on this machine, as a device file."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cdma.commands.calibrate.report import as_dict, print_report
from cdma.commands.completers import among
from cdma.commands.json_option import AsJson, print_json
from cdma.config import as_toml, tables_of
from cdma.errors import UserError
from cdma.outputs import Force, open_atomically, require_outputs
from cdma.plan.calibration.calibrate import calibrate as calibrated
from cdma.plan.calibration.calibrate import find_device
from cdma.plan.calibration.stopwatch import REPEATS
from cdma.plan.platform.environment import MACHINES, machine_config
from cdma.plan.training.subject import load
from cdma.schemas import document
from cdma.terminal.console import terminal

SUFFIX = ".toml"


def calibrate(
    out: Annotated[
        Path, typer.Option(metavar="FILE.toml", help="Where the device and its link go.")
    ] = Path("device.toml"),
    on: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What is timed, as PyTorch names it: cuda, cpu, …; the GPU if there is one.",
            show_default=False,
            autocompletion=among("cpu", "cuda"),
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="For reports, instead of PyTorch's.", show_default=False),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"The engine that the device is imagined with: {', '.join(MACHINES)}.",
            autocompletion=among(*MACHINES),
        ),
    ] = next(iter(MACHINES)),
    repeats: Annotated[
        int, typer.Option(min=1, metavar="N", help="Times that everything is done.")
    ] = REPEATS,
    step: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="A training step of your own, as of cdma train, to be timed and planned, too; "
            "may be given again.",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Time layers, copies and codecs here, and write them as a device; needs PyTorch (pip install
    torch).
    """
    if out.suffix != SUFFIX:
        raise UserError(f"{out} is no name of a device file; let it end in {SUFFIX}")
    machine_config(engine)
    require_outputs([out], force=force)
    where = find_device(on)
    steps = {name: load(name) for name in step or ()}
    with Console(stderr=True).status(f"timing {where}") as status:
        found = calibrated(
            where,
            name=name,
            engine=engine,
            repeats=repeats,
            steps=steps,
            progress=lambda text: status.update(f"timing {where}: {text}"),
        )
    tables = tables_of(found.device, found.link)
    with open_atomically(out, "w", force=force) as file:
        file.write(as_toml(tables))
    if as_json:
        print_json(document("calibrate", as_dict(found, where)))
    else:
        print_report(terminal(), found, where, out)
