"""`cdma swap`: arrays out through the RTL and back, with cycles, link time and what stalled."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from cdma import golden
from cdma.commands.bound_options import Bound, PowerOfTwo, engine_bound, tell_rounding
from cdma.commands.completers import among, named
from cdma.commands.config_options import (
    ENGINE_NAMES,
    LINK_NAMES,
    MACHINE_NAMES,
    METAVAR,
    THROTTLE_NAMES,
    chosen,
    chosen_or,
    paths_of,
)
from cdma.commands.html_option import HtmlFile, require_page, write_page
from cdma.commands.json_option import AsJson, print_json
from cdma.commands.network_options import files_of
from cdma.commands.standard_output import goes_to_standard_output
from cdma.commands.swap.report import SAVED, SwapSettings, as_dict, print_report, save_report
from cdma.config import LINK, EngineSetup, engine_setup, tables_of
from cdma.config import THROTTLE as THROTTLE_KIND
from cdma.errors import UserError
from cdma.files import Array, load_npy
from cdma.golden.formats.rounding import rounded_to
from cdma.hw.codec.registry import codec_names, copy_codec, line_codec
from cdma.hw.config import DEFAULT_CODECS, EngineConfig
from cdma.outputs import Force, require_folder, require_outputs
from cdma.plan.platform.link import Link
from cdma.plan.platform.link import link as link_of
from cdma.plan.platform.throttles import Throttle
from cdma.plan.workload import LAYOUTS, capture_names, load_capture, relayout
from cdma.schemas import document
from cdma.sim.machine.waves import trace_kind
from cdma.sim.swap import Backend, EngineBackend, PipelineBackend, Swapper
from cdma.sim.swap.encoding import AUTO
from cdma.sim.swap.pipeline_backend import CODEC as PIPELINE_CODEC
from cdma.sim.swap.pipeline_backend import COMPONENTS, pipeline_waves
from cdma.terminal.console import terminal

ENGINES = ("dma", "codec")

ROUNDED = ("bf16", "fp16", "e4m3", "e5m2")
"""The element formats that float32 arrays can be rounded to."""

MACHINE = "titanx_gen3"
THROTTLE = "none"
SECTOR_BYTES = 32
LINK_NAME = "pcie3x16"
"""What is taken if no option says otherwise; the link is the codec's."""

CLOCK_HZ = 1e9
"""The codec's clock where there is no machine; that of the paper's synthesis (cDMA, §V-C)."""


def swap(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FILE.npy]…", help="Arrays; - is the standard input.", show_default=False
        ),
    ] = None,
    capture: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"The arrays of a capture: {', '.join(capture_names())}, or the path of one.",
            autocompletion=named("captures"),
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            metavar="dma|codec",
            autocompletion=among("dma", "codec"),
            help="The whole engine in a machine, or the codec alone, and the link by arithmetic.",
        ),
    ] = "dma",
    config: Annotated[
        str | None,
        typer.Option(
            metavar=METAVAR, help=f"The engine: {ENGINE_NAMES}.", autocompletion=named("presets")
        ),
    ] = None,
    machine: Annotated[
        str | None,
        typer.Option(
            metavar=METAVAR,
            help=f"Engine, memory and link: {MACHINE_NAMES}. {MACHINE} if neither is given.",
            autocompletion=named("machines"),
        ),
    ] = None,
    throttle_name: Annotated[
        str | None,
        typer.Option(
            "--throttle",
            metavar=METAVAR,
            help=f"Limit of device memory reads: {THROTTLE_NAMES}. {THROTTLE} if not given.",
            autocompletion=named("throttles"),
        ),
    ] = None,
    codec: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"One of {', '.join(codec_names())}; or {AUTO}: for each array, "
            "whichever lossless one a sample of its lines is smallest in.",
            autocompletion=among(*codec_names(), AUTO),
        ),
    ] = DEFAULT_CODECS[0],
    bound: Bound = None,
    power_of_two: PowerOfTwo = False,
    round_to: Annotated[
        str | None,
        typer.Option(
            metavar="FORMAT",
            help=f"Round float32 arrays first, to {', '.join(ROUNDED)}; the round trip is exact "
            "from there. For a format of a byte, they are scaled by a power of two.",
            autocompletion=among(*ROUNDED),
        ),
    ] = None,
    element_bytes: Annotated[
        int | None,
        typer.Option(
            metavar="4|2|1",
            help="From each array's type when not given.",
            autocompletion=among(4, 2, 1),
        ),
    ] = None,
    sector_bytes: Annotated[
        int | None,
        typer.Option(
            metavar="32|64|128",
            autocompletion=among(32, 64, 128),
            help=f"With --engine codec: bytes per cycle of the RTL, {SECTOR_BYTES} if not given.",
        ),
    ] = None,
    stalls: Annotated[
        float,
        typer.Option(metavar="P", help="Probability, per cycle, of a stall on each handshake."),
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the stalls.")] = 0,
    layout: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Rearrange 4-D arrays from NCHW first: {', '.join(LAYOUTS)}.",
            autocompletion=among(*LAYOUTS),
        ),
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(
            metavar=METAVAR,
            help=f"Instead of the machine's link: {LINK_NAMES}.",
            autocompletion=named("links"),
        ),
    ] = None,
    waves: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.fst|.vcd",
            help="Write the waves there; of codecs, to FILE-compressor and FILE-decompressor.",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also write swap.txt and swap.json there."),
    ] = None,
    html: HtmlFile = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Swap arrays out through the simulated RTL and back, and compare every bit.

    Exit status 1 if anything differs. What a lossy codec brings back is compared with the golden
    model's values, and these with the bound.
    """
    if codec not in (*codec_names(), AUTO):
        choices = f"{', '.join(codec_names())} or {AUTO}"
        raise UserError(f"there is no RTL of codec {codec!r}; choose {choices}")
    asked, bound = bound, engine_bound(codec, bound, power_of_two=power_of_two)
    if engine not in ENGINES:
        raise UserError(f"unknown engine {engine!r}; choose {' or '.join(ENGINES)}")
    if round_to not in (None, *ROUNDED):
        raise UserError(f"--round-to must be {', '.join(ROUNDED)}, not {round_to!r}")
    if not 0 <= stalls < 1:
        raise UserError(f"--stalls must be at least 0 and less than 1, not {stalls}")
    chosen_link = chosen(LINK, link, config)
    read = files_of([*map(str, files or []), *([] if capture is None else [capture])])
    read += paths_of(chosen_link)
    if engine == "dma":
        _refuse(engine, sector_bytes=sector_bytes)
        limit = chosen_or(THROTTLE_KIND, throttle_name, config, THROTTLE)
        placed = engine_setup(config, machine, MACHINE)
        read += [*placed.paths, *paths_of(limit)]
    else:
        _refuse(engine, config=config, machine=machine, throttle=throttle_name)
    if waves is not None:
        trace_kind(waves)
        require_outputs(_wave_files(engine, waves), inputs=read, force=force)
    if save is not None:
        require_folder(save)
        saved = [save / name for name in SAVED]
        require_outputs(saved, inputs=read, force=force, makes_folders=True)
    quiet = goes_to_standard_output(as_json=as_json, html=html)
    require_page(html, inputs=read, force=force)
    given = {
        "codec": codec,
        "bound": bound,
        "round_to": round_to,
        "stalls": stalls,
        "seed": seed,
        "layout": layout,
    }
    over = None if chosen_link is None else chosen_link.value
    if engine == "dma":
        backend, settings = _engine_backend(placed, limit.value, over, waves, given)
    else:
        if codec != PIPELINE_CODEC:
            raise UserError(f"--codec {codec} is for --engine dma; choose --codec {PIPELINE_CODEC}")
        backend, settings = _codec_backend(
            sector_bytes or SECTOR_BYTES, over or link_of(LINK_NAME), waves, given
        )
    arrays = _arrays(files or [], capture, layout)
    if round_to is not None:
        arrays = _rounded(arrays, round_to)
    if waves is not None:
        _require_one_size(arrays, element_bytes)
    with Swapper(backend) as swapper:
        run = swapper.swap(arrays, element_bytes=element_bytes)
    tell_rounding(asked, bound)
    report = document("swap", as_dict(run, settings))
    if save is not None:
        save_report(save, report, settings, force=force)
    write_page(html, {"swap.json": report}, force)
    if as_json:
        print_json(report)
    elif not quiet:
        print_report(terminal(), report, settings)
    for round_trip in run.round_trips:
        for fault in round_trip.faults:
            typer.echo(f"{round_trip.name}: {fault}", err=True)
    if not all(round_trip.bit_exact for round_trip in run.round_trips):
        raise typer.Exit(1)


def _rounded(arrays: Sequence[tuple[str, Array]], round_to: str) -> list[tuple[str, Array]]:
    """All arrays in a format: float32 ones rounded, and as they are those that have its bits."""
    own = rounded_to(round_to, np.empty(0, np.float32)).dtype
    for name, array in arrays:
        if array.dtype not in (np.float32, own):
            raise UserError(
                f"--round-to is for float32 arrays, and {name} has {array.dtype}; leave it out"
            )
    if all(array.dtype != np.float32 for _, array in arrays):
        raise UserError("--round-to is for float32 arrays, and there are none; leave it out")
    return [
        (name, rounded_to(round_to, array) if array.dtype == np.float32 else array)
        for name, array in arrays
    ]


def _wave_files(engine: str, waves: Path) -> list[Path]:
    if engine == "dma":
        return [waves]
    return [pipeline_waves(waves, component) for component in COMPONENTS]


def _engine_backend(
    placed: EngineSetup,
    limit: Throttle,
    link: Link | None,
    waves: Path | None,
    given: dict[str, Any],
) -> tuple[Backend, SwapSettings]:
    environment = placed.machine
    if link is None:
        link = Link(
            placed.label,
            environment.link_out_bytes_per_s,
            "its link",
            in_bytes_per_s=environment.link_in_bytes_per_s,
        )
    else:
        environment = replace(
            environment,
            link_out_bytes_per_s=link.bytes_per_s,
            link_in_bytes_per_s=link.in_bytes_per_s,
        )
    codec, bound = given["codec"], given["bound"]
    config = _with_codec(placed.engine, codec)
    backend = EngineBackend(
        config,
        environment,
        throttle=limit,
        stalls=given["stalls"],
        seed=given["seed"],
        waves=waves,
        codec=codec,
        parameters=None if bound is None else line_codec(codec).bounded_parameters(bound),
    )
    settings = SwapSettings(
        engine="dma",
        machine=placed.label,
        throttle=limit.name,
        sector_bytes=config.codec.sector_bytes,
        link=link,
        clock_hz=environment.clock_hz,
        configuration=tables_of(config, environment, limit),
        **given,
    )
    return backend, settings


def _with_codec(config: EngineConfig, codec: str) -> EngineConfig:
    """The engine, with a codec that it has not got instead of its first one; `AUTO` adds all."""
    if codec in config.codecs:
        return config
    if codec == AUTO:
        others = [name for name in codec_names(lossy=False) if name not in config.codecs]
        codecs = (*config.codecs, *others)
    else:
        codecs = (codec, copy_codec().name)
    # Each array's element size replaces this one, to which heads of all sizes fit.
    return replace(config, codec=replace(config.codec, codecs=codecs, element_bytes=1))


def _codec_backend(
    sector_bytes: int, link: Link, waves: Path | None, given: dict[str, Any]
) -> tuple[Backend, SwapSettings]:
    backend = PipelineBackend(
        sector_bytes=sector_bytes, stalls=given["stalls"], seed=given["seed"], waves=waves
    )
    settings = SwapSettings(
        engine="codec",
        machine=None,
        throttle=None,
        sector_bytes=sector_bytes,
        link=link,
        clock_hz=CLOCK_HZ,
        configuration=tables_of(link),
        **given,
    )
    return backend, settings


def _refuse(engine: str, **options: object) -> None:
    """Options that the other engine has."""
    for name, value in options.items():
        if value is not None:
            other = next(other for other in ENGINES if other != engine)
            raise UserError(f"--{name.replace('_', '-')} is for --engine {other}; leave it out")


def _require_one_size(arrays: Sequence[tuple[str, Array]], element_bytes: int | None) -> None:
    """Each element size has RTL, and so waves, of its own."""
    sizes = {element_bytes or golden.element_bytes_of(array.dtype) for _, array in arrays}
    if len(sizes) > 1:
        found = " and ".join(map(str, sorted(sizes)))
        raise UserError(
            f"--waves is for one element size, not {found}; give --element-bytes or fewer arrays"
        )


def _arrays(
    files: Sequence[Path], capture: str | None, layout: str | None
) -> list[tuple[str, Array]]:
    if bool(files) == (capture is not None):
        raise UserError("nothing to swap, or too much; give either .npy files or --capture NAME")
    if layout is not None and layout not in LAYOUTS:
        raise UserError(f"unknown layout {layout!r}; choose from {', '.join(LAYOUTS)}")
    if capture is not None:
        named = [(a.name, a.array) for a in load_capture(capture).activations]
    else:
        named = [(str(file), load_npy(file)) for file in files]
    if layout is None:
        return named
    return [(name, relayout(a, layout) if a.ndim == 4 else a) for name, a in named]
