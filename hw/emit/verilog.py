"""Any component by name, as Verilog that people can read, with a JSON sidecar for tools."""

import dataclasses
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from amaranth.lib import data, wiring

from cdma.golden import LINE_BYTES
from cdma.hw.buddy.address.mapper import SectorMapper
from cdma.hw.buddy.controller import BuddyController
from cdma.hw.buddy.metadata.cache import MetadataCache
from cdma.hw.bus.axi import Axi4Signature, AxiLiteSignature, AxiStreamSignature
from cdma.hw.codec.bpc.compressor import BpcCompressor
from cdma.hw.codec.bpc.decompressor import BpcDecompressor
from cdma.hw.codec.entry.compressor import EntryCompressor
from cdma.hw.codec.entry.decompressor import EntryDecompressor
from cdma.hw.codec.stream.pack import Packer, Unpacker
from cdma.hw.codec.zvc.axis import ZvcCompressorAxis, ZvcDecompressorAxis
from cdma.hw.codec.zvc.pipelines import ZvcCompressor, ZvcDecompressor
from cdma.hw.config import (
    DEFAULT_CODECS,
    BuddyConfig,
    CodecConfig,
    ConfigError,
    EngineConfig,
    EntryConfig,
)
from cdma.hw.dma.engine import SLEEPERS, DmaEngine
from cdma.hw.emit.docstrings import members, summary
from cdma.hw.emit.names import check_module_name
from cdma.hw.emit.netlist import ModuleText, Sleepers, ports_of, to_verilog
from cdma.hw.lib.crc import Crc32
from cdma.hw.lib.ports import RecordPortSignature

COMPONENTS: dict[str, Callable[[CodecConfig], wiring.Component]] = {
    "zvc-compressor": ZvcCompressorAxis,
    "zvc-decompressor": ZvcDecompressorAxis,
    "zvc-line-compressor": ZvcCompressor,
    "zvc-line-decompressor": ZvcDecompressor,
    "packer": Packer,
    "unpacker": Unpacker,
    "crc32": lambda config: Crc32(config.sector_bytes),
}
"""What can be generated: the blocks for a design, then the parts that they are made of."""

ENTRY_COMPONENTS: dict[str, Callable[[EntryConfig], wiring.Component]] = {
    "bpc-compressor": BpcCompressor,
    "bpc-decompressor": BpcDecompressor,
    "entry-compressor": EntryCompressor,
    "entry-decompressor": EntryDecompressor,
}
"""Codecs of 128 B entries."""

BUDDY_COMPONENTS: dict[str, Callable[[BuddyConfig], wiring.Component]] = {
    "buddy": BuddyController,
    "sector-mapper": SectorMapper,
    "metadata-cache": lambda config: MetadataCache(config.cache),
}
"""The buddy memory controller, and the parts that are of use without it."""

ENGINE = "engine"
"""The DMA engine's name beside all those."""

BUDDY = "buddy"

LINT_WAIVERS = {
    "CASEOVERLAP": "of several cases that match, the first is meant",
    "DECLFILENAME": "a file holds a block's whole hierarchy",
    "PROCASSINIT": "registers have initial values, for FPGAs",
    "UNUSEDSIGNAL": "carries, and fields that a reader ignores",
    "WIDTHEXPAND": "constants are written without leading zeros",
    "WIDTHTRUNC": "'!' compares a vector with zero",
}
"""Rules of `verilator -Wall` that are switched off in generated files, and why."""

SIDECAR_FORMAT = 1
WIDTH = 100


@dataclass(frozen=True)
class Verilog:
    """A generated block.

    Attributes
    ----------
    name : str
        Of the top module, and the stem of the file names.
    text : str
        Verilog-2005; SystemVerilog with assertions.
    sidecar : dict
        What a tool needs to know of it; see docs/guide/generate.md.
    """

    name: str
    text: str
    sidecar: dict[str, Any]


def component_names() -> list[str]:
    """All that can be generated."""
    return [ENGINE, *BUDDY_COMPONENTS, *ENTRY_COMPONENTS, *COMPONENTS]


def module_name(component_name: str) -> str:
    """What a component's top module is called if nothing else is asked for."""
    name = component_name.replace("-", "_")
    return f"cdma_{name}" if component_name in (ENGINE, BUDDY) else name


def generate(
    component_name: str,
    *,
    element_bytes: int = 4,
    sector_bytes: int = 32,
    line_bytes: int = LINE_BYTES,
    latency: str = "paper",
    codecs: tuple[str, ...] = DEFAULT_CODECS,
    name: str | None = None,
    assertions: bool = False,
) -> Verilog:
    """Generate a block.

    Parameters
    ----------
    component_name
        One of `COMPONENTS`.
    element_bytes, sector_bytes, line_bytes, latency, codecs
        As in `CodecConfig`.
    name
        Of the top module; the names of all modules below begin with it. The component's if None.
    assertions
        Keep the components' assertions, as SystemVerilog.

    Raises
    ------
    ConfigError
        If there is no component of that name, it cannot have these parameters, or a module
        cannot have this name.
    """
    if component_name not in COMPONENTS:
        raise ConfigError(
            f"component must be one of {', '.join(component_names())}, not {component_name!r}"
        )
    config = CodecConfig(
        element_bytes=element_bytes,
        sector_bytes=sector_bytes,
        line_bytes=line_bytes,
        latency=latency,
        codecs=codecs,
    )
    component = COMPONENTS[component_name](config)
    parameters = dataclasses.asdict(config)
    return _generate(component_name, name, component, parameters, assertions)


def generate_engine(
    config: EngineConfig,
    *,
    name: str | None = None,
    assertions: bool = False,
    sleep: bool = False,
) -> Verilog:
    """Generate the DMA engine; its top is `cdma_engine`.

    Parameters
    ----------
    config
    name
        Of the top module instead; the names of all modules below begin with it.
    assertions
        Keep the components' assertions, as SystemVerilog.
    sleep
        For a simulator: give the `SLEEPERS` clocks of their own, which need not tick while nothing
        changes in them. The sidecar does not describe the ports for that.
    """
    fields = dataclasses.asdict(config)
    parameters = {**fields.pop("codec"), **fields}
    sleepers = SLEEPERS if sleep else ()
    return _generate(ENGINE, name, DmaEngine(config), parameters, assertions, sleepers)


def generate_entry_codec(
    component_name: str, config: EntryConfig, *, name: str | None = None, assertions: bool = False
) -> Verilog:
    """Generate one of `ENTRY_COMPONENTS`; `name` and `assertions` are as of `generate`."""
    component = ENTRY_COMPONENTS[component_name](config)
    return _generate(component_name, name, component, dataclasses.asdict(config), assertions)


def generate_buddy(
    config: BuddyConfig,
    component_name: str = BUDDY,
    *,
    name: str | None = None,
    assertions: bool = False,
) -> Verilog:
    """Generate one of `BUDDY_COMPONENTS`; `name` and `assertions` are as of `generate`."""
    component = BUDDY_COMPONENTS[component_name](config)
    fields = dataclasses.asdict(config)
    cache = {f"cache_{key}": value for key, value in fields.pop("cache").items()}
    parameters = {**fields.pop("entry"), **cache, **fields}
    return _generate(component_name, name, component, parameters, assertions)


def _generate(
    component_name: str,
    name: str | None,
    component: wiring.Component,
    parameters: dict[str, Any],
    assertions: bool,
    sleepers: Sleepers = (),
) -> Verilog:
    name = check_module_name(module_name(component_name) if name is None else name)
    # Before the conversion, which elaborates the component and renames its signals.
    sidecar = _sidecar(component_name, name, component, parameters)
    modules = to_verilog(component, name, assertions=assertions, sleepers=sleepers)
    text = _header(component_name, parameters, assertions, sleepers) + "".join(
        map(_commented, modules)
    )
    text += "".join(f"/* verilator lint_on {rule} */\n" for rule in LINT_WAIVERS)
    return Verilog(name, text, sidecar)


def _header(
    component_name: str, parameters: dict[str, Any], assertions: bool, sleepers: Sleepers
) -> str:
    width = max(len("assertions"), *map(len, parameters))
    lines = [
        f"{component_name}, generated by cdma {version('cdma-rtl')}. "
        "Do not edit: generate it again.",
        "",
        *(f"{parameter:{width}} = {value}" for parameter, value in parameters.items()),
        f"{'assertions':{width}} = {'on (SystemVerilog)' if assertions else 'off'}",
        "",
        "One clock; synchronous reset, active high. Ready and valid are AMBA's: a transfer is a",
        "rising edge with both high; a valid payload stays until then.",
        *(["Edges of clks may be left out where wakes, before them, is low."] if sleepers else []),
    ]
    waivers = [f"/* verilator lint_off {rule} */  // {why}" for rule, why in LINT_WAIVERS.items()]
    return "\n".join([*(f"// {line}".rstrip() for line in lines), "", *waivers, "", ""])


def _commented(module: ModuleText) -> str:
    """The module under a comment that is its component's docstring, without the Python in it."""
    kind = type(module.component)
    paragraphs = f"{kind.__name__}. {summary(kind)}".split("\n\n")
    blocks = ["\n".join(textwrap.wrap(paragraph, WIDTH - 3)) for paragraph in paragraphs]
    described = [f"{name}: {text}" for name, text in members(kind).items() if text]
    if described:
        blocks.append("\n".join(textwrap.fill(line, WIDTH - 3) for line in described))
    comment = "\n\n".join(blocks).replace("`", "")
    lines = [f"// {line}".rstrip() for line in comment.split("\n")]
    return "\n".join([*lines, module.text, "", ""])


def _sidecar(
    component_name: str, name: str, component: wiring.Component, parameters: dict[str, Any]
) -> dict[str, Any]:
    return {
        "format": SIDECAR_FORMAT,
        "generator": f"cdma {version('cdma-rtl')}",
        "component": component_name,
        "module": name,
        "description": " ".join(summary(type(component)).split("\n\n")[0].split()),
        "parameters": parameters,
        "latency_cycles": {
            key.removesuffix("_latency"): value
            for key, value in {**vars(type(component)), **vars(component)}.items()
            if key.endswith("_latency")
        },
        "clock": "clk",
        "reset": {"port": "rst", "active": "high", "synchronous": True},
        "interfaces": _interfaces(component),
    }


def _interfaces(component: wiring.Component) -> list[dict[str, Any]]:
    described = members(type(component))
    interfaces = []
    for member_name, member in component.signature.members.items():
        record: object = None
        signature = None if member.is_port else member.signature
        if signature is None:
            kind = "signal"
        elif isinstance(signature, Axi4Signature):
            kind = "axi4"
        elif isinstance(signature, AxiLiteSignature):
            kind = "axi4-lite"
        elif isinstance(signature, AxiStreamSignature):
            kind = "axi4-stream"
        elif isinstance(signature, RecordPortSignature):
            kind, record = "record", signature.record
        else:
            kind = "stream"
            shape = signature.members["payload"].shape
            record = shape if isinstance(shape, data.StructLayout) else None
        fields = members(type(record)) if record is not None else {}
        ports = [
            port
            for port in ports_of(component)
            if port.name == member_name or port.name.startswith(f"{member_name}_")
        ]
        interfaces.append(
            {
                "name": member_name,
                "kind": kind,
                "role": "sink" if member.flow == wiring.In else "source",
                "description": described.get(member_name, ""),
                "ports": [
                    {
                        "name": port.name,
                        "direction": port.direction,
                        "width": port.width,
                        "description": fields.get(port.name.removeprefix(f"{member_name}_"), ""),
                    }
                    for port in ports
                ],
            }
        )
    return interfaces
