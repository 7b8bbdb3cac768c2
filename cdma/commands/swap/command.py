"""`cdma swap`: arrays out through the RTL and back, with cycles, link time and what stalled."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cdma import golden
from cdma.commands.network_options import files_of
from cdma.commands.swap.report import SAVED, SwapSettings, as_dict, print_report, save_report
from cdma.errors import UserError
from cdma.files import Array, load_npy
from cdma.hw.codec.registry import codec_names, copy_codec
from cdma.hw.config import DEFAULT_CODECS, EngineConfig, preset
from cdma.outputs import Force, require_outputs
from cdma.plan.platform.link import LINKS, Link
from cdma.plan.platform.link import link as link_of
from cdma.plan.platform.throttles import throttle
from cdma.plan.workload import LAYOUTS, capture_names, load_capture, relayout
from cdma.sim.driver import THROTTLES
from cdma.sim.machine import MACHINES, machine_config
from cdma.sim.machine.waves import trace_kind
from cdma.sim.swap import Backend, EngineBackend, PipelineBackend, Swapper
from cdma.sim.swap.pipeline_backend import COMPONENTS, pipeline_waves
from cdma.terminal.console import terminal

ENGINES = ("dma", "codec")

MACHINE = "titanx_gen3"
THROTTLE = "none"
SECTOR_BYTES = 32
LINK = "pcie3x16"
"""What is taken if no option says otherwise; the link is the codec's."""

CLOCK_HZ = 1e9
"""The codec's clock where there is no machine; that of the paper's synthesis (cDMA, §V-C)."""

PIPELINE_CODEC = PipelineBackend.codec


def swap(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE.npy]…", help="Arrays.", show_default=False),
    ] = None,
    capture: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"The arrays of a capture: {', '.join(capture_names())}, or the path of one.",
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            metavar="dma|codec",
            help="The whole engine in a machine, or the codec alone, and the link by arithmetic.",
        ),
    ] = "dma",
    machine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Engine, memory and link: {', '.join(MACHINES)}; {MACHINE} if not given.",
        ),
    ] = None,
    throttle_name: Annotated[
        str | None,
        typer.Option(
            "--throttle",
            metavar="NAME",
            help=f"Limit of device memory reads: {', '.join(THROTTLES)}; {THROTTLE} if not given.",
        ),
    ] = None,
    codec: Annotated[
        str, typer.Option(metavar="NAME", help=f"One of {', '.join(DEFAULT_CODECS)}.")
    ] = DEFAULT_CODECS[0],
    element_bytes: Annotated[
        int | None,
        typer.Option(metavar="4|2|1", help="From each array's type when not given."),
    ] = None,
    sector_bytes: Annotated[
        int | None,
        typer.Option(
            metavar="32|64|128",
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
        ),
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"Instead of the machine's link: {', '.join(LINKS)}."),
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
    force: Force = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object; its keys are stable.")
    ] = False,
) -> None:
    """Swap arrays out through the simulated RTL and back, and compare every bit.

    Exit status 1 if anything differs.
    """
    if codec not in codec_names():
        raise UserError(f"there is no RTL of codec {codec!r}; choose {', '.join(codec_names())}")
    if engine not in ENGINES:
        raise UserError(f"unknown engine {engine!r}; choose {' or '.join(ENGINES)}")
    if not 0 <= stalls < 1:
        raise UserError(f"--stalls must be at least 0 and less than 1, not {stalls}")
    read = files_of([*map(str, files or []), *([] if capture is None else [capture])])
    if waves is not None:
        trace_kind(waves)
        require_outputs(_wave_files(engine, waves), inputs=read, force=force)
    if save is not None:
        saved = [save / name for name in SAVED]
        require_outputs(saved, inputs=read, force=force, makes_folders=True)
    given = {"codec": codec, "stalls": stalls, "seed": seed, "layout": layout}
    chosen_link = None if link is None else link_of(link)
    if engine == "dma":
        _refuse(engine, sector_bytes=sector_bytes)
        backend, settings = _engine_backend(
            machine or MACHINE, throttle_name or THROTTLE, chosen_link, waves, given
        )
    else:
        _refuse(engine, machine=machine, throttle=throttle_name)
        if codec != PIPELINE_CODEC:
            raise UserError(f"--codec {codec} is for --engine dma; choose --codec {PIPELINE_CODEC}")
        backend, settings = _codec_backend(
            sector_bytes or SECTOR_BYTES, chosen_link or link_of(LINK), waves, given
        )
    arrays = _arrays(files or [], capture, layout)
    if waves is not None:
        _require_one_size(arrays, element_bytes)
    with Swapper(backend) as swapper:
        run = swapper.swap(arrays, element_bytes=element_bytes)
    report = as_dict(run, settings)
    if save is not None:
        save_report(save, report, settings, force=force)
    if as_json:
        typer.echo(json.dumps(report, indent=2))
    else:
        print_report(terminal(), report, settings)
    for round_trip in run.round_trips:
        for fault in round_trip.faults:
            typer.echo(f"{round_trip.name}: {fault}", err=True)
    if not all(round_trip.bit_exact for round_trip in run.round_trips):
        raise typer.Exit(1)


def _wave_files(engine: str, waves: Path) -> list[Path]:
    if engine == "dma":
        return [waves]
    return [pipeline_waves(waves, component) for component in COMPONENTS]


def _engine_backend(
    machine: str, throttle_name: str, link: Link | None, waves: Path | None, given: dict[str, Any]
) -> tuple[Backend, SwapSettings]:
    environment = machine_config(machine)
    if link is None:
        link = Link(machine, environment.link_out_bytes_per_s, "its link")
    else:
        environment = replace(
            environment,
            link_out_bytes_per_s=link.bytes_per_s,
            link_in_bytes_per_s=link.bytes_per_s,
        )
    config = _with_codec(preset(machine), given["codec"])
    limit = throttle(throttle_name)
    backend = EngineBackend(
        config,
        environment,
        throttle=limit,
        stalls=given["stalls"],
        seed=given["seed"],
        waves=waves,
        codec=given["codec"],
    )
    settings = SwapSettings(
        engine="dma",
        machine=machine,
        throttle=limit.name,
        sector_bytes=config.codec.sector_bytes,
        link=link,
        clock_hz=environment.clock_hz,
        **given,
    )
    return backend, settings


def _with_codec(config: EngineConfig, codec: str) -> EngineConfig:
    """The engine, with a codec that it has not got instead of its first one."""
    if codec in config.codecs:
        return config
    codecs = (codec, copy_codec().name)
    return replace(config, codec=replace(config.codec, codecs=codecs))


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
