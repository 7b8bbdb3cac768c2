"""Every component that can be generated or synthesized: one registry, one line each.

A component's class is named by its path, so that reading the registry imports none of them, and
what is generated depends on the sources of its own component only.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from amaranth.lib import wiring

from cdma.hw.config import (
    BUDDY_PRESETS,
    PRESETS,
    BuddyConfig,
    CodecConfig,
    ConfigError,
    EngineConfig,
    EntryConfig,
    find_named,
)
from cdma.hw.emit.reset import DEFAULT_RESET, RESETS

if TYPE_CHECKING:
    from cdma.hw.emit.bench.files import Bench

Config = CodecConfig | EngineConfig | EntryConfig | BuddyConfig


@dataclass(frozen=True, kw_only=True)
class Family:
    """Components that are configured alike.

    Attributes
    ----------
    config : type
        The class of their configurations.
    presets : mapping of str to Config
        The named configurations.
    default : str
        The preset that is taken if none is named.
    """

    config: type
    presets: Mapping[str, Any]
    default: str

    def preset(self, name: str | None = None) -> Any:
        """The named configuration; `ConfigError` lists them if there is none so named."""
        return find_named(self.presets, self.default if name is None else name)


CODEC = Family(
    config=CodecConfig,
    presets={name: config.codec for name, config in PRESETS.items()},
    default="titanx_gen3",
)
"""Zero-value codecs and what is around them in an engine."""

ENGINE = Family(config=EngineConfig, presets=PRESETS, default="titanx_gen3")
"""The DMA engine and its parts."""

ENTRY = Family(
    config=EntryConfig,
    presets={name: config.entry for name, config in BUDDY_PRESETS.items()},
    default="channel",
)
"""Codecs of 128 B entries."""

BUDDY = Family(config=BuddyConfig, presets=BUDDY_PRESETS, default="channel")
"""The buddy controller and its parts."""


@dataclass(frozen=True, kw_only=True)
class Component:
    """An entry of the registry.

    Attributes
    ----------
    name : str
    path : str
        The component's class, or a function that makes it, as "module:name".
    family : Family
    takes : tuple of str
        Fields of the configuration that are its arguments; the configuration itself if empty.
    is_whole : bool
        Whether it is an engine or a controller as a whole.
    containers : tuple of str
        Of a whole that synthesis maps in parts: its submodules that are made of parts, too.
    is_gated : bool
        Whether synthesis maps it with gated clocks, too: an engine rests most of the time, and
        pipelines of whole lines are flip-flops for the most part.
    bench_path : str
        A function that makes the bench of `generate --ip`, as "module:name"; empty if it has none.
    """

    name: str
    path: str
    family: Family
    takes: tuple[str, ...] = ()
    is_whole: bool = False
    containers: tuple[str, ...] = ()
    is_gated: bool = False
    bench_path: str = ""

    @property
    def module(self) -> str:
        """The module that the component's class is in."""
        return self.path.partition(":")[0]

    @property
    def top(self) -> str:
        """The usual name of the top module."""
        name = self.name.replace("-", "_")
        return f"cdma_{name}" if self.is_whole else name

    def config(self, config: Any = None) -> Any:
        """A configuration as it is, by its name, or the family's default one.

        Raises
        ------
        ConfigError
            There is none of that name, or it is another family's.
        """
        if config is None or isinstance(config, str):
            return self.family.preset(config)
        if not isinstance(config, self.family.config):
            raise ConfigError(
                f"config of {self.name} must be a {self.family.config.__name__}, not {config!r}"
            )
        return config

    def make(self, config: Any = None) -> wiring.Component:
        """The component in a configuration, which `config` takes; it can be converted once."""
        chosen = self.config(config)
        arguments = [getattr(chosen, field) for field in self.takes] or [chosen]
        made: wiring.Component = getattr(import_module(self.module), self.path.partition(":")[2])(
            *arguments
        )
        return made

    def bench(self, config: Any, name: str, reset: str = DEFAULT_RESET) -> "Bench | None":
        """The bench of the component in a configuration, as a module of that name and reset.

        None if the component has no bench, or none in this configuration.
        """
        if not self.bench_path:
            return None
        module, _, function = self.bench_path.partition(":")
        made: Bench | None = getattr(import_module(f"cdma.hw.{module}"), function)(
            config, name, RESETS[reset]
        )
        return made

    def sleepers(self) -> tuple[Any, ...]:
        """Its parts that may sleep in a simulator: `SLEEPERS` of its module, if there are any."""
        return tuple(getattr(import_module(self.module), "SLEEPERS", ())) if self.is_whole else ()

    def parameters(self, config: Any = None) -> dict[str, Any]:
        """All parameters of a configuration, by names that are plain."""
        fields = dataclasses.asdict(self.config(config))
        codec, entry, cache = (fields.pop(part, {}) for part in ("codec", "entry", "cache"))
        return {**codec, **entry, **{f"cache_{key}": cache[key] for key in cache}, **fields}


def _c(name: str, path: str, family: Family, *takes: str, **options: Any) -> Component:
    return Component(name=name, path=f"cdma.hw.{path}", family=family, takes=takes, **options)


_PATHS = ("in_path", "out_path")
_ROOMS = ("address", "dispatcher", "frontend", "metadata", "read", "write")

# fmt: off
COMPONENTS: dict[str, Component] = {
    component.name: component
    for component in (
        _c("engine", "dma.engine:DmaEngine", ENGINE, is_whole=True, containers=_PATHS, is_gated=True, bench_path="dma.bench:engine_bench"),  # noqa: E501
        _c("buddy", "buddy.controller:BuddyController", BUDDY, is_whole=True, containers=_ROOMS),
        _c("sector-mapper", "buddy.address.mapper:SectorMapper", BUDDY),
        _c("metadata-cache", "buddy.metadata.cache:MetadataCache", BUDDY, "cache"),
        _c("bpc-compressor", "codec.bpc.compressor:BpcCompressor", ENTRY),
        _c("bpc-decompressor", "codec.bpc.decompressor:BpcDecompressor", ENTRY),
        _c("entry-compressor", "codec.entry.best_of_three:entry_compressor", ENTRY),
        _c("entry-decompressor", "codec.entry.best_of_three:entry_decompressor", ENTRY),
        _c("zvc-compressor", "codec.zvc.axis:ZvcCompressorAxis", CODEC, bench_path="codec.zvc.bench:compressor_bench"),  # noqa: E501
        _c("zvc-decompressor", "codec.zvc.axis:ZvcDecompressorAxis", CODEC, bench_path="codec.zvc.bench:decompressor_bench"),  # noqa: E501
        _c("zvc-line-compressor", "codec.zvc.compressor:ZvcCompressor", CODEC),
        _c("zvc-line-decompressor", "codec.zvc.decompressor:ZvcDecompressor", CODEC),
        _c("xc-line-compressor", "codec.xc.compressor.pipeline:of_elements", CODEC, is_gated=True),
        _c("xc-line-decompressor", "codec.xc.decompressor.pipeline:of_elements", CODEC, is_gated=True),  # noqa: E501
        _c("xc-line-sampler", "codec.xc.record.line_sampler:of_elements", CODEC),
        _c("xc-parameter-collector", "codec.xc.record.parameter_collector:of_elements", CODEC),
        _c("quantize-line-compressor", "codec.quantize.compressor.pipeline:of_values", CODEC, is_gated=True),  # noqa: E501
        _c("quantize-line-decompressor", "codec.quantize.decompressor.pipeline:of_values", CODEC, is_gated=True),  # noqa: E501
        _c("packer", "codec.stream.pack:Packer", CODEC),
        _c("unpacker", "codec.stream.unpack:Unpacker", CODEC),
        _c("crc32", "lib.codes.crc:Crc32", CODEC, "sector_bytes"),
        _c("compression-unit", "dma.outbound.unit:CompressionUnit", ENGINE, "codec", "unit_lines"),
        _c("expansion-unit", "dma.inbound.expansion:ExpansionUnit", ENGINE, "codec", "unit_lines"),
        _c("unit-buffer", "dma.outbound.buffer:UnitBuffer", ENGINE),
        _c("token-bucket", "dma.outbound.throttle:TokenBucket", ENGINE),
        _c("line-issuer", "dma.outbound.issue:LineIssuer", ENGINE),
        _c("line-drain", "dma.outbound.drain:LineDrain", ENGINE),
        _c("line-splitter", "dma.inbound.splitter:LineSplitter", ENGINE),
        _c("line-gather", "dma.inbound.line_reports:LineReportCollector", ENGINE),
        _c("stream-writer", "dma.outbound.writer:StreamWriter", ENGINE, "host_bytes", "write_bursts"),  # noqa: E501
        _c("stream-receiver", "dma.inbound.receiver:StreamReceiver", ENGINE),
        _c("descriptor-fetcher", "dma.control.ring:DescriptorFetcher", ENGINE),
        _c("descriptor-checker", "dma.control.checker:DescriptorChecker", ENGINE),
        _c("dispatcher", "dma.control.dispatch:Dispatcher", ENGINE),
        _c("completer", "dma.control.completion:RetireUnit", ENGINE),
        _c("record-writer", "dma.control.record:RecordWriter", ENGINE),
        _c("engine-registers", "dma.control.registers:Registers", ENGINE),
        _c("memory-port", "dma.engine:memory_port", ENGINE),
    )
}
"""By name: the engine and the buddy controller, blocks for a design, then parts of these.

The parts of the engine are one of each: it has both units, a buffer, a bucket and a port for each
memory."""
# fmt: on


def component_names() -> list[str]:
    """The names of all that can be generated."""
    return list(COMPONENTS)


def find_component(name: str) -> Component:
    """The component of that name; `ConfigError`, with those there are, if none can be generated."""
    if name not in component_names():
        raise ConfigError(f"component must be one of {', '.join(component_names())}, not {name!r}")
    return COMPONENTS[name]
