"""What can be synthesized, by name: generated blocks, and the parts of the DMA engine."""

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from amaranth.lib import wiring

from cdma.hw.config import BUDDY_PRESETS, PRESETS, BuddyConfig, EngineConfig, buddy_preset, preset
from cdma.hw.dma.control.completion import Completer
from cdma.hw.dma.control.descriptor import DescriptorChecker
from cdma.hw.dma.control.dispatch import Dispatcher
from cdma.hw.dma.control.record import RecordWriter
from cdma.hw.dma.control.registers import Registers
from cdma.hw.dma.control.ring import DescriptorFetcher
from cdma.hw.dma.engine import DmaEngine, memory_port
from cdma.hw.dma.inbound.expansion import ExpansionUnit
from cdma.hw.dma.inbound.line_reports import LineGather
from cdma.hw.dma.inbound.receiver import StreamReceiver
from cdma.hw.dma.inbound.splitter import LineSplitter
from cdma.hw.dma.outbound.buffer import UnitBuffer
from cdma.hw.dma.outbound.drain import LineDrain
from cdma.hw.dma.outbound.issue import LineIssuer
from cdma.hw.dma.outbound.throttle import TokenBucket
from cdma.hw.dma.outbound.unit import CompressionUnit
from cdma.hw.dma.outbound.writer import StreamWriter
from cdma.hw.emit.netlist import ModuleText, to_verilog
from cdma.hw.emit.verilog import BUDDY, BUDDY_COMPONENTS, COMPONENTS, ENGINE, ENTRY_COMPONENTS
from cdma.synth.errors import SynthError

ENGINE_PARTS: dict[str, Callable[[EngineConfig], wiring.Component]] = {
    "compression-unit": lambda config: CompressionUnit(config.codec, config.unit_lines),
    "expansion-unit": lambda config: ExpansionUnit(config.codec, config.unit_lines),
    "unit-buffer": UnitBuffer,
    "token-bucket": TokenBucket,
    "line-issuer": LineIssuer,
    "line-drain": LineDrain,
    "line-splitter": LineSplitter,
    "line-gather": LineGather,
    "stream-writer": lambda config: StreamWriter(config.host_bytes, config.write_bursts),
    "stream-receiver": StreamReceiver,
    "descriptor-fetcher": DescriptorFetcher,
    "descriptor-checker": DescriptorChecker,
    "dispatcher": Dispatcher,
    "completer": Completer,
    "record-writer": RecordWriter,
    "engine-registers": Registers,
    "memory-port": memory_port,
    "engine-without-units": DmaEngine,
}
"""Of the DMA engine, which as a whole takes too long. It has both units, a buffer, a bucket and a
port for each memory, and one of each other part. All but the units and the memory ports are also
mapped together, so that paths are timed that run through several parts."""

BLACK_BOXES = {"engine-without-units": ("out_path_unit", "in_path_unit", "memory")}
"""What of a component is left out, by the names of the modules below its top."""

CODEC_PRESET, ENTRY_PRESET = "titanx_gen3", "channel"
"""Configurations if none is given: the codecs' and the engine's, and the entries' and Buddy's."""

_BUDDY_PARTS = {name: make for name, make in BUDDY_COMPONENTS.items() if name != BUDDY}


@dataclass(frozen=True)
class Block:
    """A component with its configuration.

    Attributes
    ----------
    name : str
    config : str
        The named configuration.
    parameters : dict
        What of it the component has.
    make : callable
        Makes the component, which can be converted only once.
    """

    name: str
    config: str
    parameters: dict[str, Any]
    make: Callable[[], wiring.Component] = dataclasses.field(repr=False)

    @property
    def top(self) -> str:
        """The module's name."""
        return self.name.replace("-", "_")

    @property
    def black_boxes(self) -> tuple[str, ...]:
        """Modules below it that have ports and nothing in them."""
        return tuple(f"{self.top}_{name}" for name in BLACK_BOXES.get(self.name, ()))

    def verilog(self) -> str:
        """Its Verilog with all below it, but for what is in black boxes."""
        modules = to_verilog(self.make(), self.top, assertions=False)
        inside = tuple(f"{name}_" for name in self.black_boxes)
        return "".join(
            f"{_black_box(module) if module.name in self.black_boxes else module.text}\n\n"
            for module in modules
            if not module.name.startswith(inside)
        )


def _black_box(module: ModuleText) -> str:
    header = module.text.partition(");\n")[0]
    # Without the registers' initial values, which are of what is inside.
    ports = re.sub(
        r"\boutput reg\b(.*?)(?: = [^,\n]*)?(,?)$", r"output wire\1\2", header, flags=re.M
    )
    return f"(* blackbox *)\n{ports});\nendmodule"


def block_names(config: str | None = None) -> list[str]:
    """All that can be synthesized; or those that have such a configuration.

    Raises
    ------
    SynthError
        If nothing has a configuration of that name.
    """
    codecs = [*COMPONENTS, *ENGINE_PARTS]
    entries = [*ENTRY_COMPONENTS, *_BUDDY_PARTS]
    if config is not None and config not in PRESETS and config not in BUDDY_PRESETS:
        known = ", ".join(dict.fromkeys([*PRESETS, *BUDDY_PRESETS]))
        raise SynthError(f"unknown configuration {config!r}; choose one of {known}")
    return [
        *(codecs if config is None or config in PRESETS else []),
        *(entries if config is None or config in BUDDY_PRESETS else []),
    ]


def block(name: str, config: str | None = None) -> Block:
    """Find a component.

    Raises
    ------
    SynthError
        If there is none of that name.
    ConfigError
        If it has no such configuration; the message lists those that it has.
    """
    if name not in block_names():
        cause = (
            f"{name} takes too long as a whole; choose parts of it, "
            if name in (ENGINE, BUDDY)
            else f"unknown component {name!r}; choose one "
        )
        raise SynthError(f"{cause}of {', '.join(block_names())}")
    if name in ENTRY_COMPONENTS or name in _BUDDY_PARTS:
        chosen = config or ENTRY_PRESET
        parameters, make = _of_buddy(name, buddy_preset(chosen))
    else:
        chosen = config or CODEC_PRESET
        parameters, make = _of_engine(name, preset(chosen))
    return Block(name, chosen, parameters, make)


_Made = tuple[dict[str, Any], Callable[[], wiring.Component]]


def _of_buddy(name: str, config: BuddyConfig) -> _Made:
    if name in ENTRY_COMPONENTS:
        return dataclasses.asdict(config.entry), lambda: ENTRY_COMPONENTS[name](config.entry)
    fields = dataclasses.asdict(config)
    entry, cache = fields.pop("entry"), fields.pop("cache")
    parameters = cache if name == "metadata-cache" else {**entry, **fields}
    return parameters, lambda: _BUDDY_PARTS[name](config)


def _of_engine(name: str, config: EngineConfig) -> _Made:
    if name in COMPONENTS:
        return dataclasses.asdict(config.codec), lambda: COMPONENTS[name](config.codec)
    fields = dataclasses.asdict(config)
    return {**fields.pop("codec"), **fields}, lambda: ENGINE_PARTS[name](config)
