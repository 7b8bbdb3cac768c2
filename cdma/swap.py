"""`cdma swap`: arrays out through the RTL compressor and back, with cycles and link time."""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from cdma.errors import UserError
from cdma.files import Array, load_npy, make_folder, open_atomically
from sim.link import LINKS, Link
from sim.link import link as link_of
from sim.swap import BASELINES, Swapper, Trip, work_bytes
from sim.workload import LAYOUTS, capture_names, load_capture, relayout

RTL_CODECS = ("zvc",)
"""The codecs that there is RTL of."""

WIDE_CHARACTERS = 140
"""A console this wide gets all columns."""

WIDE_ONLY = ("RLE", "CSR", "LZ4", "cycles out", "cycles in", "µs raw")

CLOCK_HZ = 1e9
"""The pipelines' clock in the estimate of seconds; that of the paper's synthesis (cDMA, §V-C)."""


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
    codec: Annotated[
        str, typer.Option(metavar="NAME", help=f"One of {', '.join(RTL_CODECS)}.")
    ] = "zvc",
    element_bytes: Annotated[
        int | None,
        typer.Option(metavar="4|2|1", help="From each array's type when not given."),
    ] = None,
    sector_bytes: Annotated[
        int, typer.Option(metavar="32|64|128", help="Bytes per cycle of the RTL.")
    ] = 32,
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
        str, typer.Option(metavar="NAME", help=f"One of {', '.join(LINKS)}.")
    ] = "pcie3x16",
    waves: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.fst|.vcd",
            help="Write the waves, to FILE-compressor and FILE-decompressor.",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also write swap.txt and swap.json there."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object; its keys are stable.")
    ] = False,
) -> None:
    """Swap arrays out through the simulated RTL and back, and compare every bit.

    Exit status 1 if anything differs.
    """
    if codec not in RTL_CODECS:
        raise UserError(f"there is no RTL of codec {codec!r}; choose {', '.join(RTL_CODECS)}")
    if not 0 <= stalls < 1:
        raise UserError(f"--stalls must be at least 0 and less than 1, not {stalls}")
    chosen_link = link_of(link)
    arrays = _arrays(files or [], capture, layout)
    if save is not None:
        # Before the work, which may take long.
        make_folder(save)
    with Swapper(sector_bytes=sector_bytes, stalls=stalls, seed=seed, waves=waves) as swapper:
        trips = _swap_all(swapper, arrays, element_bytes)
    settings = Settings(codec, sector_bytes, stalls, seed, layout, chosen_link)
    report = as_dict(trips, settings)
    if save is not None:
        _save(save, trips, settings, report)
    if as_json:
        typer.echo(json.dumps(report, indent=2))
    else:
        _print(_console(), trips, settings)
    for trip in trips:
        for fault in trip.faults:
            typer.echo(f"{trip.name}: {fault}", err=True)
    if not all(trip.bit_exact for trip in trips):
        raise typer.Exit(1)


@dataclass(frozen=True)
class Settings:
    """What a run was told, as far as the results depend on it."""

    codec: str
    sector_bytes: int
    stalls: float
    seed: int
    layout: str | None
    link: Link


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


def _swap_all(
    swapper: Swapper, arrays: Sequence[tuple[str, Array]], element_bytes: int | None
) -> list[Trip]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    trips = []
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        task = progress.add_task("", total=sum(work_bytes(array) for _, array in arrays))
        for name, array in arrays:
            progress.update(task, description=name)
            trips.append(
                swapper.swap(
                    name,
                    array,
                    element_bytes=element_bytes,
                    progress=lambda nbytes: progress.advance(task, nbytes),
                )
            )
    return trips


def as_dict(trips: Sequence[Trip], settings: Settings) -> dict[str, Any]:
    """The JSON form of a run; docs/swap.md describes the keys."""
    return {
        "codec": settings.codec,
        "sector_bytes": settings.sector_bytes,
        "stalls": settings.stalls,
        "seed": settings.seed,
        "layout": settings.layout,
        "link": {"name": settings.link.name, "bytes_per_s": settings.link.bytes_per_s},
        "clock_hz": CLOCK_HZ,
        "arrays": [
            {
                "name": trip.name,
                "dtype": trip.dtype,
                "shape": list(trip.shape),
                "element_bytes": trip.element_bytes,
                **_figures([trip], settings.link),
                "crc32": trip.crc32,
                "faults": list(trip.faults),
            }
            for trip in trips
        ],
        "total": _figures(trips, settings.link),
    }


def _figures(trips: Sequence[Trip], link: Link) -> dict[str, Any]:
    nbytes = sum(trip.nbytes for trip in trips)
    compressed = sum(trip.compressed_bytes for trip in trips)
    cycles_out = sum(trip.cycles_out for trip in trips)
    cycles_in = sum(trip.cycles_in for trip in trips)
    elements = sum(-(-trip.nbytes // trip.element_bytes) for trip in trips)
    nonzero = sum(trip.nonzero for trip in trips)
    compressed_s = link.seconds(compressed)
    return {
        "bytes": nbytes,
        "density": nonzero / elements if elements else None,
        "compressed_bytes": compressed,
        "ratio": nbytes / compressed if compressed else None,
        "cycles_out": cycles_out,
        "cycles_in": cycles_in,
        "bytes_per_cycle_out": nbytes / cycles_out,
        "bytes_per_cycle_in": nbytes / cycles_in,
        "bit_exact": all(trip.bit_exact for trip in trips),
        "baseline_ratios": {
            name: nbytes / sum(t.baseline_bytes[name] for t in trips) if nbytes else None
            for name in BASELINES
        },
        "link_seconds_raw": link.seconds(nbytes),
        "link_seconds_compressed": compressed_s,
        "swap_out_seconds": max(compressed_s, cycles_out / CLOCK_HZ),
        "swap_in_seconds": max(compressed_s, cycles_in / CLOCK_HZ),
    }


def _table(trips: Sequence[Trip], settings: Settings, *, wide: bool) -> Table:
    """All columns, or those that fit into 80 characters."""
    link = settings.link
    table = Table(
        title=f"ZVC through the RTL, {settings.sector_bytes} B per cycle, and over {link.name} "
        f"({link.bytes_per_s / 1e9:g} GB/s)",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        title_justify="left",
    )
    rows = [(trip.name, _cells(_figures([trip], link))) for trip in trips]
    if len(trips) > 1:
        rows.append(("total", _cells(_figures(trips, link))))
    headings = [heading for heading in rows[0][1] if wide or heading not in WIDE_ONLY]
    table.add_column("array", no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for name, cells in rows:
        if name == "total":
            table.add_section()
        table.add_row(name, *(cells[heading] for heading in headings))
    return table


def _cells(figures: dict[str, Any]) -> dict[str, str]:
    def ratio(value: float | None) -> str:
        return "–" if value is None else f"{value:.2f}x"

    density = figures["density"]
    return {
        "bytes": f"{figures['bytes']:,}",
        "density": "–" if density is None else f"{density:.3f}",
        "ZVC": ratio(figures["ratio"]),
        **{name.upper(): ratio(figures["baseline_ratios"][name]) for name in BASELINES},
        "cycles out": f"{figures['cycles_out']:,}",
        "cycles in": f"{figures['cycles_in']:,}",
        "B/cycle": f"{figures['bytes_per_cycle_out']:.1f} {figures['bytes_per_cycle_in']:.1f}",
        "µs raw": f"{figures['link_seconds_raw'] * 1e6:.1f}",
        "µs out": f"{figures['swap_out_seconds'] * 1e6:.1f}",
        "bits": "exact" if figures["bit_exact"] else "[bold red]WRONG[/]",
    }


def _console() -> Console:
    console = Console()
    # Rich takes 80 characters where there is no terminal, as in a pipe.
    return console if console.is_terminal else Console(width=WIDE_CHARACTERS)


def _print(console: Console, trips: Sequence[Trip], settings: Settings) -> None:
    console.print(_table(trips, settings, wide=console.width >= WIDE_CHARACTERS))
    console.print(
        "B/cycle: uncompressed bytes per cycle of the RTL, out and in. µs: raw over the link, and "
        f"out through RTL and link, whichever takes longer, the RTL at {CLOCK_HZ / 1e9:g} GHz.\n"
    )
    exact = sum(trip.bit_exact for trip in trips)
    text = (
        f"{exact} of {len(trips)} arrays came back bit for bit, their streams the golden model's."
    )
    total = _figures(trips, settings.link)
    if total["ratio"] is not None:
        text += (
            f" {total['bytes']:,} bytes left as {total['compressed_bytes']:,}: "
            f"{total['ratio']:.2f}x smaller, "
            f"{total['link_seconds_raw'] / total['swap_out_seconds']:.2f}x faster."
        )
    console.print(text)


def _save(
    directory: Path, trips: Sequence[Trip], settings: Settings, report: dict[str, Any]
) -> None:
    text = io.StringIO()
    _print(Console(file=text, width=WIDE_CHARACTERS), trips, settings)
    with open_atomically(directory / "swap.txt", "w") as file:
        file.write(text.getvalue())
    with open_atomically(directory / "swap.json", "w") as file:
        file.write(json.dumps(report, indent=2) + "\n")
