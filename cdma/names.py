"""Every kind of name that a command takes, each read from the registry that the command asks.

`cdma list` prints them, and shell completion offers them. A registry is imported only when its
names are asked for: some take a second.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from typing import Any

GB, TERA, MHZ = 1e9, 1e12, 1e6


@dataclass(frozen=True, kw_only=True)
class NameKind:
    """A kind of name.

    Attributes
    ----------
    name : str
        The word that `cdma list` takes.
    taken_by : tuple of str
        The options, or the commands with an argument, that take such a name.
    about : str
        A phrase.
    names : callable
        Returns all names, in the order of their registry.
    describe : callable
        Returns a phrase about one of them.
    """

    name: str
    taken_by: tuple[str, ...]
    about: str
    names: Callable[[], Iterable[str]]
    describe: Callable[[str], str]


def _first_sentence(text: str) -> str:
    """The first sentence of a docstring, on one line, without its full stop."""
    plain = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=\w)[.;:] ", plain, maxsplit=1)[0].rstrip(".")


def _registry(module: str, name: str) -> Any:
    return getattr(import_module(f"cdma.{module}"), name)


def _names_in(module: str, name: str) -> Callable[[], Iterable[str]]:
    """The keys of a registry that is imported when they are asked for."""
    return lambda: _registry(module, name)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _component(name: str) -> str:
    found = _registry("hw.components", "COMPONENTS")[name]
    path, _, attribute = found.path.partition(":")
    summary = import_module("cdma.hw.emit.docstrings").summary
    return _first_sentence(summary(getattr(import_module(path), attribute)))


def _presets() -> Iterable[str]:
    config = import_module("cdma.hw.config")
    # Some are the name of an engine and of a controller: each command takes its own.
    return dict.fromkeys(chain(config.PRESETS, config.BUDDY_PRESETS))


def _preset(name: str) -> str:
    config = import_module("cdma.hw.config")
    phrases = []
    if name in config.PRESETS:
        engine = config.PRESETS[name]
        phrases.append(
            f"engine: {_counted(engine.units, 'unit')} of {engine.codec.sector_bytes} B per cycle, "
            f"{', '.join(engine.codec.codecs)}, latency {engine.codec.latency}"
        )
    if name in config.BUDDY_PRESETS:
        buddy = config.BUDDY_PRESETS[name]
        phrases.append(
            f"buddy controller: {buddy.entry.sector_bytes} B per cycle, "
            f"metadata cache of {buddy.cache.capacity_bytes:,} B"
        )
    return "; ".join(phrases)


def _machine(name: str) -> str:
    found = _registry("plan.platform.environment", "MACHINES")[name]
    several = f"{found.engines} engines with " if found.engines > 1 else ""
    each = " each," if several else " of memory with"
    return (
        f"{found.clock_hz / MHZ:g} MHz, {several}{found.channels} channels{each} "
        f"{found.dram_bytes_per_s / GB:g} GB/s, link of {found.link_out_bytes_per_s / GB:g} GB/s"
    )


def _device(name: str) -> str:
    found = _registry("plan.platform.device", "DEVICES")[name]
    return (
        f"{found.peak_flops / TERA:g} TFLOP/s, {found.dram_bytes_per_s / GB:g} GB/s, "
        f"{found.capacity_bytes / GB:g} GB; {found.source}"
    )


def _link(name: str) -> str:
    found = _registry("plan.platform.link", "LINKS")[name]
    return f"{found.bytes_per_s / GB:g} GB/s; {found.source}"


def _throttle(name: str) -> str:
    rate = _registry("plan.platform.throttles", "THROTTLES")[name].bytes_per_s
    return f"{rate / GB:g} GB/s of reads" if rate else "no limit"


def _network(name: str) -> str:
    found = _registry("plan.workload.networks", "NETWORKS")[name]
    batches = ", ".join(f"{dataset} {batch}" for dataset, batch in found.batches.items())
    return f"{found.precision}, batches: {batches}"


def _policy(name: str) -> str:
    return str(_registry("plan.policies.registry", "POLICIES")[name].source)


def _codec_names() -> Iterable[str]:
    names: Iterable[str] = import_module("cdma.golden").codec_names()
    return names


def _codec(name: str) -> str:
    summary = _first_sentence(import_module("cdma.golden").codec_summary(name))
    lines = import_module("cdma.hw.codec.registry").codec_names()
    return f"{summary}; in engines, too" if name in lines else summary


def _capture_names() -> Iterable[str]:
    names: Iterable[str] = import_module("cdma.plan.workload.capture.capture").capture_names()
    return names


def _capture(name: str) -> str:
    recipe, _ = import_module("cdma.plan.workload.capture.capture").capture_files(name)
    content = json.loads(recipe.read_text(encoding="utf-8"))
    return f"{len(content['arrays'])} arrays; {content['recipe']['data']}"


def _board(name: str) -> str:
    found = _registry("synth.board.boards", "BOARDS")[name]
    return f"{found.clock_hz / MHZ:g} MHz, text at {found.uart}"


def _paper(name: str) -> str:
    return str(_registry("reproduce", "PAPERS")[name].title)


def _element_formats() -> Iterable[str]:
    known = _registry("golden.formats.xc.elements", "ELEMENT_FORMATS")
    return [each.name for each in known]


def _element_format(name: str) -> str:
    found = import_module("cdma.golden.formats.xc.elements").element_format(name)
    return (
        f"{found.element_bytes} B: sign, {found.exponent_bits} bits of exponent, "
        f"{found.mantissa_bits} of mantissa"
    )


def _schema(name: str) -> str:
    found = _registry("schemas.registry", "SCHEMAS")[name]
    return f"{found.about.rstrip('.')}; cdma {found.written_by}"


def _cache(name: str) -> str:
    found = _registry("hw.config", "METADATA_CACHES")[name]
    return f"{found.capacity_bytes:,} B in {_counted(found.slices, 'slice')}, {found.ways} ways"


NAME_KINDS: dict[str, NameKind] = {
    kind.name: kind
    for kind in (
        NameKind(
            name="components",
            taken_by=("generate", "synth"),
            about="blocks of the hardware",
            names=_names_in("hw.components", "COMPONENTS"),
            describe=_component,
        ),
        NameKind(
            name="presets",
            taken_by=("--config",),
            about="shapes of the engine and of the buddy controller",
            names=_presets,
            describe=_preset,
        ),
        NameKind(
            name="machines",
            taken_by=("--machine",),
            about="the engine's surroundings: clock, memory, link",
            names=_names_in("plan.platform.environment", "MACHINES"),
            describe=_machine,
        ),
        NameKind(
            name="devices",
            taken_by=("--device",),
            about="GPUs",
            names=_names_in("plan.platform.device", "DEVICES"),
            describe=_device,
        ),
        NameKind(
            name="links",
            taken_by=("--link",),
            about="links between device and host; /4 behind a name: shared by 4",
            names=_names_in("plan.platform.link", "LINKS"),
            describe=_link,
        ),
        NameKind(
            name="throttles",
            taken_by=("--throttle",),
            about="limits of the engine's reads",
            names=_names_in("plan.platform.throttles", "THROTTLES"),
            describe=_throttle,
        ),
        NameKind(
            name="networks",
            taken_by=("--network",),
            about="networks to plan for",
            names=_names_in("plan.workload.networks", "NETWORKS"),
            describe=_network,
        ),
        NameKind(
            name="policies",
            taken_by=("--policy",),
            about="what decides which tensors leave",
            names=_names_in("plan.policies.registry", "POLICIES"),
            describe=_policy,
        ),
        NameKind(
            name="codecs",
            taken_by=("--codec",),
            about="formats of compressed data",
            names=_codec_names,
            describe=_codec,
        ),
        NameKind(
            name="captures",
            taken_by=("--capture",),
            about="shipped arrays of real trainings",
            names=_capture_names,
            describe=_capture,
        ),
        NameKind(
            name="boards",
            taken_by=("board",),
            about="FPGA boards",
            names=_names_in("synth.board.boards", "BOARDS"),
            describe=_board,
        ),
        NameKind(
            name="papers",
            taken_by=("reproduce",),
            about="papers whose claims are computed",
            names=_names_in("reproduce", "PAPERS"),
            describe=_paper,
        ),
        NameKind(
            name="element-formats",
            taken_by=("--element-format",),
            about="what elements are to the codec xc",
            names=_element_formats,
            describe=_element_format,
        ),
        NameKind(
            name="metadata-caches",
            taken_by=("--metadata-cache",),
            about="caches of the buddy controller",
            names=_names_in("hw.config", "METADATA_CACHES"),
            describe=_cache,
        ),
        NameKind(
            name="schemas",
            taken_by=("schema",),
            about="kinds of JSON documents",
            names=_names_in("schemas.registry", "SCHEMAS"),
            describe=_schema,
        ),
    )
}
"""By the word that `cdma list` takes."""
