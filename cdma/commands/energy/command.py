"""`cdma energy`: what a byte costs in the ZVC pipelines, and what clock gating saves."""

from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
import typer

from cdma.commands.completers import among, named
from cdma.commands.config_options import ENGINE_NAMES, METAVAR, paths_of
from cdma.commands.energy.report import Netlist, json_of, print_report
from cdma.commands.json_option import AsJson, print_json
from cdma.commands.network_options import CAPTURE, files_of
from cdma.config import ENGINE, find
from cdma.errors import UserError
from cdma.golden.formats.interface import element_dtype
from cdma.hw.config import CodecConfig
from cdma.outputs import Force, claim_folder
from cdma.plan.workload import capture_names, load_capture
from cdma.schemas import document
from cdma.synth import UNIT_GATES, Library, block, synthesize
from cdma.synth.components import CODEC_PRESET
from cdma.synth.power.codec_energy import (
    CODECS,
    CYCLES,
    Load,
    elements_needed,
    excerpts,
    measure,
    uniform,
)
from cdma.terminal.console import terminal

DENSITIES = [0.1, 0.38, 1.0]
"""62 % zeros are the papers' average (cDMA, §IV)."""

UNIFORM = "uniform"
"""The load of values in random places; others have the capture's name."""

CLOCK_MHZ = 1000.0
SEED = 1
MOST_CYCLES = 10_000


def energy(
    components: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COMPONENT]...",
            help=f"Of {', '.join(CODECS)}; both if none.",
            autocompletion=among(*CODECS),
        ),
    ] = None,
    config: Annotated[
        str,
        typer.Option(
            metavar=METAVAR, help=f"Of the engine: {ENGINE_NAMES}.", autocompletion=named("presets")
        ),
    ] = CODEC_PRESET,
    density: Annotated[
        list[float] | None,
        typer.Option(
            metavar="D",
            help="Share of elements that are not zero; may be given several times. "
            f"{', '.join(map(str, DENSITIES))} if not given.",
            show_default=False,
        ),
    ] = None,
    capture: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"Values and activations: {', '.join(capture_names())}, or a path.",
            autocompletion=named("captures"),
        ),
    ] = CAPTURE,
    clock_gating: Annotated[
        bool | None,
        typer.Option(
            "--clock-gating/--no-clock-gating",
            help="Only with gated clocks, or only without; both and the gain if not given.",
            show_default=False,
        ),
    ] = None,
    liberty: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A library of standard cells; the unit gates if not given."
        ),
    ] = None,
    clock_mhz: Annotated[
        float, typer.Option(metavar="MHZ", help="Clock of the powers.")
    ] = CLOCK_MHZ,
    cycles: Annotated[
        int, typer.Option(metavar="N", help="Measured in each of 64 simulations.")
    ] = CYCLES,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Where netlists and Yosys' logs go.")
    ] = Path("build/energy"),
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Energy per byte of tensor, from the activity of the mapped netlist.

    The pipelines stream at each density, and with the capture's activations as they are; then they
    are stalled and idle. All output is compared with the golden model's.
    """
    names = list(dict.fromkeys(components or CODECS))
    densities = DENSITIES if density is None else density
    _check(names, densities, clock_mhz, cycles)
    found = find(ENGINE, config)
    codec = found.value.codec
    variants = [False, True] if clock_gating is None else [clock_gating]
    elements = elements_needed(codec, cycles)
    library = Library(liberty or UNIT_GATES)
    loads = _loads(codec, densities, capture, elements)
    folders = {
        (name, gated): out / (f"{name}-gated" if gated else name)
        for name in names
        for gated in variants
    }
    inputs = [*files_of([capture]), *paths_of(found), *([] if liberty is None else [liberty])]
    for folder in folders.values():
        claim_folder(folder, inputs=inputs, force=force)
    netlists = []
    for (name, gated), folder in folders.items():
        typer.echo(f"{name}{', gated clocks' if gated else ''}", err=True)
        chosen = block(name, config, codec)
        synthesis = synthesize(chosen.verilog(), chosen.top, library, folder, clock_gating=gated)
        measured = measure(synthesis, library, name, codec, loads, cycles)
        netlists.append(Netlist(name, config, gated, synthesis, measured))
    if as_json:
        print_json(document("energy", json_of(netlists, library, clock_mhz, found.value)))
    else:
        print_report(terminal(), netlists, library, clock_mhz)


def _check(names: list[str], densities: list[float], clock_mhz: float, cycles: int) -> None:
    for name in names:
        if name not in CODECS:
            raise UserError(f"unknown component {name!r}; choose one of {', '.join(CODECS)}")
    for share in densities:
        if not 0 <= share <= 1:
            raise UserError(f"--density must be 0 to 1, not {share:g}; give a share of elements")
    if not clock_mhz > 0 or clock_mhz == float("inf"):
        raise UserError(f"--clock-mhz must be above 0, not {clock_mhz:g}; give a clock in MHz")
    if not 1 <= cycles <= MOST_CYCLES:
        raise UserError(f"--cycles must be 1 to {MOST_CYCLES}, not {cycles}; {CYCLES} are enough")


def _loads(codec: CodecConfig, densities: list[float], capture: str, elements: int) -> list[Load]:
    activations = load_capture(capture).activations
    tensor = np.concatenate([_as_elements(a.array, codec) for a in activations])
    values = tensor[tensor.view(element_dtype(codec.element_bytes)) != 0]
    if not values.size:
        raise UserError(f"capture {capture} is all zeros; choose another one")
    loads = [
        Load(UNIFORM, uniform(values, share, elements, SEED + k), codec.element_bytes)
        for k, share in enumerate(densities)
    ]
    return [*loads, Load(capture, excerpts(tensor, elements), codec.element_bytes)]


def _as_elements(array: npt.NDArray[np.generic], codec: CodecConfig) -> npt.NDArray[np.generic]:
    """Convert a capture's floats to fp32, to fp16, or to bytes by a 255th of the largest."""
    floats = np.asarray(array, np.float32).reshape(-1)
    if codec.element_bytes == 4:
        return floats
    if codec.element_bytes == 2:
        return floats.astype(np.float16)
    largest = float(np.abs(floats).max(initial=0.0)) or 1.0
    return np.clip(np.rint(np.abs(floats) * 255 / largest), 0, 255).astype(np.uint8)
