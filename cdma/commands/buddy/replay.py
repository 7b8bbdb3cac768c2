"""`cdma buddy replay`: traces through the buddy controller's RTL, and what moves for them."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from cdma.commands.buddy.replay_report import ReplayRun, as_dict, print_report
from cdma.commands.completers import among, named
from cdma.commands.config_options import METAVAR, names_of, paths_of
from cdma.commands.html_option import HtmlFile, require_page, write_page
from cdma.commands.json_option import AsJson, print_json
from cdma.commands.network_options import files_of
from cdma.commands.standard_output import goes_to_standard_output
from cdma.config import BUDDY, find, tables_of
from cdma.errors import UserError
from cdma.files import path_of_input
from cdma.golden.buddy.address_map import Target
from cdma.golden.buddy.entry import MODES
from cdma.hw.config import METADATA_CACHES, BuddyConfig
from cdma.outputs import Force
from cdma.plan.buddy.profile import profile as profile_of
from cdma.schemas import document
from cdma.sim.buddy import WORKLOADS, in_bf16, load_snapshots
from cdma.sim.buddy.channels import replay_channels, split
from cdma.sim.buddy.content import Content, snapshot_content, spilling_content
from cdma.sim.buddy.expected import expect
from cdma.sim.buddy.replay import (
    CACHE_SIZES,
    LINKS_GB_PER_S,
    Replay,
    replay_trace,
    sweep_caches,
    sweep_links,
)
from cdma.sim.buddy.traces import PATTERNS, STRIDE_BYTES, load_trace, pattern_trace
from cdma.sim.machine.buddy.config import BuddyMachineConfig
from cdma.sim.machine.buddy.machine import MOST_READS
from cdma.sim.machine.buddy.trace import AccessTrace

CONFIG = "channel"
DATA = "mixed"
SPILLING_BYTES = 4 << 20
"""Seed of the random numbers, where the fraction of buddy accesses is given."""
SWEEPS = ("cache", "link")
MOST_CHANNELS = 64
PROFILE = "profile"
_TARGETS = {f"{target.ratio:.3g}": target for target in Target}


def replay(
    trace: Annotated[
        Path | None,
        typer.Argument(
            metavar="[TRACE.npz]", help="Accesses; - is the standard input.", show_default=False
        ),
    ] = None,
    pattern: Annotated[
        str,
        typer.Option(
            metavar="|".join(PATTERNS),
            help="Of accesses, if there is no trace.",
            autocompletion=among(*PATTERNS),
        ),
    ] = PATTERNS[0],
    read_fraction: Annotated[
        float, typer.Option(metavar="0…1", help="How many accesses are reads.")
    ] = 0.75,
    accesses: Annotated[int, typer.Option(metavar="N", help="How many.")] = 10_000,
    access_bytes: Annotated[
        int, typer.Option(metavar="N", help="Of each: a power of two, up to 4096.")
    ] = 128,
    stride_bytes: Annotated[
        int, typer.Option(metavar="N", help="Between strided accesses.")
    ] = STRIDE_BYTES,
    data: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SNAPSHOTS",
            autocompletion=named("captures"),
            help=f"What is in memory: .npz or .npy files, or any of {', '.join(WORKLOADS)}; "
            f"{DATA} if not given.",
            show_default=False,
        ),
    ] = None,
    buddy_fraction: Annotated[
        float | None,
        typer.Option(metavar="0…1", help="Instead: random numbers, so many of which spill."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            metavar=f"{PROFILE}|{'|'.join(_TARGETS)}",
            autocompletion=among(PROFILE, *_TARGETS),
            help="Of all allocations, or of each what the profile says.",
            show_default=False,
        ),
    ] = None,
    bf16: Annotated[
        bool, typer.Option("--bf16", help="Round floats to bf16 before they are in memory.")
    ] = False,
    config: Annotated[
        str,
        typer.Option(
            metavar=METAVAR,
            help=f"Controller: {names_of(BUDDY)}.",
            autocompletion=among(*BUDDY.presets),
        ),
    ] = CONFIG,
    codec: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(MODES),
            help="Instead of the controller's: what compresses entries.",
            autocompletion=among(*MODES),
        ),
    ] = None,
    metadata_cache: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|BYTES",
            autocompletion=named("metadata-caches"),
            help=f"Instead of the controller's: {', '.join(METADATA_CACHES)}, or a size.",
        ),
    ] = None,
    link_gb_per_s: Annotated[
        float, typer.Option(metavar="X", help="Link of the whole GPU, each way.")
    ] = 150.0,
    outstanding: Annotated[
        int, typer.Option(metavar="N", min=1, help="Reads, and writes, outstanding at once.")
    ] = MOST_READS,
    channels: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            max=MOST_CHANNELS,
            help="Channels that the pages go round, with as many shares of the link.",
        ),
    ] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Of what is random.")] = 0,
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(SWEEPS),
            help="Over sizes of the cache, or over links.",
            autocompletion=among(*SWEEPS),
        ),
    ] = None,
    html: HtmlFile = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Replay accesses to compressed memory on the simulated RTL, and compare every bit.

    Beside them the same accesses to uncompressed memory, for the slowdown. Exit status 1 if
    anything differs from the golden model.
    """
    if sweep is not None and sweep not in SWEEPS:
        raise UserError(f"unknown sweep {sweep!r}; choose {' or '.join(SWEEPS)}")
    if sweep is not None and channels > 1:
        raise UserError(f"a sweep is of one channel, not of {channels}; leave one of them out")
    chosen = find(BUDDY, config)
    read = [*files_of(data or []), *([] if trace is None else [trace]), *paths_of(chosen)]
    quiet = goes_to_standard_output(as_json=as_json, html=html)
    require_page(html, inputs=read, force=force)
    controller = _with_codec(_with_cache(chosen.value, metadata_cache), codec)
    machine = BuddyMachineConfig().with_link(link_gb_per_s)
    content = _content(controller, data, buddy_fraction, target, bf16, seed)
    if trace is None:
        made = pattern_trace(
            content,
            pattern,
            accesses=accesses,
            access_bytes=access_bytes,
            read_fraction=read_fraction,
            stride_bytes=stride_bytes,
            seed=seed,
        )
    else:
        made = load_trace(path_of_input(str(trace)), content)
    limits = {"most_reads": outstanding, "most_writes": outstanding}
    plain = _play(controller, content.uncompressed(), made, machine, channels, limits)
    baseline = ReplayRun("uncompressed", plain)
    if sweep == "cache":
        caches = sweep_caches(controller, expect(content, made), machine, CACHE_SIZES, **limits)
        runs = [ReplayRun(f"cache of {size:,} B", done) for size, done in caches.items()]
    elif sweep == "link":
        links = sweep_links(controller, expect(content, made), machine, LINKS_GB_PER_S, **limits)
        runs = [ReplayRun(f"link of {rate:g} GB/s", done) for rate, done in links.items()]
    else:
        done = _play(controller, content, made, machine, channels, limits)
        runs = [ReplayRun("compressed", done)]
    options = {
        "config": config,
        "metadata_cache_bytes": controller.cache.capacity_bytes,
        "link_gb_per_s": link_gb_per_s,
        "trace": None if trace is None else str(trace),
        **({"bf16": True} if bf16 else {}),
        "pattern": None if trace is not None else pattern,
        "accesses": len(made),
        "outstanding": outstanding,
        "channels": channels,
        "seed": seed,
        "clock_hz": machine.clock_hz,
        "configuration": tables_of(controller),
    }
    report = document("replay", as_dict(baseline, runs, content, options))
    write_page(html, {"replay.json": report}, force)
    if as_json:
        print_json(report)
    elif not quiet:
        print_report(baseline, runs, content, options)
    faults = [(run.name, fault) for run in (baseline, *runs) for fault in run.replay.faults]
    for name, fault in faults:
        typer.echo(f"{name}: {fault}", err=True)
    if faults:
        raise typer.Exit(1)


def _play(
    controller: BuddyConfig,
    content: Content,
    trace: AccessTrace,
    machine: BuddyMachineConfig,
    channels: int,
    limits: Mapping[str, int],
) -> Replay:
    if channels == 1:
        return replay_trace(controller, expect(content, trace), machine, **limits)
    parts = split(content, trace, channels)
    return replay_channels(controller, parts, machine, **limits).together


def _with_cache(config: BuddyConfig, cache: str | None) -> BuddyConfig:
    if cache is None:
        return config
    if cache in METADATA_CACHES:
        return replace(config, cache=METADATA_CACHES[cache])
    if not cache.isdecimal():
        raise UserError(
            f"unknown metadata cache {cache!r}; choose {', '.join(METADATA_CACHES)}, or give its "
            "bytes"
        )
    return replace(config, cache=replace(config.cache, capacity_bytes=int(cache)))


def _with_codec(config: BuddyConfig, codec: str | None) -> BuddyConfig:
    if codec is None:
        return config
    if codec not in MODES:
        raise UserError(f"unknown codec {codec!r}; choose {', '.join(MODES)}")
    return replace(config, entry=replace(config.entry, mode=codec))


def _content(
    config: BuddyConfig,
    data: list[str] | None,
    buddy_fraction: float | None,
    target: str | None,
    bf16: bool,
    seed: int,
) -> Content:
    if target is not None and target not in (PROFILE, *_TARGETS):
        raise UserError(f"unknown target {target!r}; choose {', '.join((PROFILE, *_TARGETS))}")
    if buddy_fraction is not None:
        if data:
            raise UserError("--buddy-fraction makes data of its own; leave --data out")
        if bf16:
            raise UserError("--buddy-fraction makes numbers that are no floats; leave --bf16 out")
        if target == PROFILE:
            raise UserError("--buddy-fraction is for one target; give --target 1.33, 2, 4 or 16")
        chosen = _TARGETS[target or "2"]
        return spilling_content(SPILLING_BYTES, buddy_fraction, chosen, config, seed=seed)
    allocations = load_snapshots([path_of_input(name) for name in data or [DATA]])
    if bf16:
        allocations = in_bf16(allocations)
    if target in (None, PROFILE):
        measured = profile_of(
            allocations,
            codec=config.entry.mode,
            element_bytes=config.entry.element_bytes,
            page_bytes=config.page_bytes,
        )
        return snapshot_content(allocations, measured.targets(), config)
    one = _TARGETS[str(target)]
    return snapshot_content(allocations, {a.name: one for a in allocations}, config)
