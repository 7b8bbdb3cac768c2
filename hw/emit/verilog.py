"""Any component by name, as Verilog that people can read, with a JSON sidecar for tools."""

import re
import textwrap
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from typing import Any

from amaranth.lib import data, wiring

from cdma.hw.bus.axi import Axi4Signature, AxiLiteSignature, AxiStreamSignature
from cdma.hw.components import Config, find_component
from cdma.hw.config import ConfigError
from cdma.hw.emit.clock_gates import clock_gates_of, own_clock_gates
from cdma.hw.emit.docstrings import members, summary
from cdma.hw.emit.memories import memories_of, own_memories
from cdma.hw.emit.names import check_module_name
from cdma.hw.emit.netlist import (
    ModuleText,
    Sleepers,
    clocking_pins,
    ports_of,
    shared_modules,
    to_verilog,
    written_modules,
)
from cdma.hw.emit.reset import DEFAULT_RESET, RESETS, Reset, reset_beside
from cdma.hw.emit.writer.circuit import UnsupportedCell
from cdma.hw.lib.clocks.async_fifo import RESET_CYCLES
from cdma.hw.lib.clocks.clock_gate import ClockGate
from cdma.hw.lib.ports import RecordPortSignature
from cdma.hw.lib.ram import Ram

LINT_WAIVERS = {
    "CASEOVERLAP": "of several cases that match, the first is meant",
    "DECLFILENAME": "a file holds a block's whole hierarchy",
    "INITIALDLY": "always @* needs a change at time 0, behind all else",
    "PINCONNECTEMPTY": "outputs that nothing reads are left open",
    "PROCASSINIT": "registers have initial values, for FPGAs",
    "UNUSEDSIGNAL": "carries, and fields that a reader ignores",
    "WIDTHEXPAND": "constants are written without leading zeros",
    "WIDTHTRUNC": "'!' compares a vector with zero",
}
"""Rules of `verilator -Wall` that are switched off in generated files, and why."""

READABLE_WAIVERS = ("INITIALDLY",)
"""Those of them that a netlist does not need."""

STYLES = ("readable", "netlist")
"""How a module is written: with the source's `if` and `case`, or as Yosys' netlist."""

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
        What a tool needs to know of it; see docs/guide/silicon/generate.md.
    """

    name: str
    text: str
    sidecar: dict[str, Any]


def generate(
    component_name: str,
    config: Config | str | None = None,
    *,
    name: str | None = None,
    assertions: bool = False,
    sleep: bool = False,
    style: str | None = None,
    reset: str = DEFAULT_RESET,
) -> Verilog:
    """Generate a component as Verilog, with a sidecar that describes its ports.

    Parameters
    ----------
    component_name : str
        A name of `cdma.hw.components.COMPONENTS`.
    config : Config or str, optional
        The configuration, of the class that the component's family has, or the name of a preset;
        the family's default preset if not given.
    name : str, optional
        The top module's name instead of the usual one; the names of all modules below begin with
        it.
    assertions : bool
        Keep the components' assertions, as SystemVerilog.
    sleep : bool
        For a simulator: give what may sleep (`Component.sleepers`) clocks of its own, which need
        not tick while nothing changes in it. The sidecar does not describe the ports for that.
        Only of a netlist.
    style : str, optional
        "readable": by `cdma.hw.emit.writer`, with the source's names, its `if` and its `case`.
        "netlist": Amaranth's RTLIL by way of Yosys, an assignment for each operator. Readable if
        not given, but of what sleeps the netlist.
    reset : str
        One of `cdma.hw.emit.reset.RESETS`: "sync-high", "sync-low", "async-high" or "async-low".

    Raises
    ------
    ConfigError
        There is no component of that name, it cannot have this configuration, a module cannot
        have this name, there is no such style or reset, the component cannot be written in that
        style, or what has gated clocks was to sleep.

    Examples
    --------
    >>> from cdma.hw.config import CodecConfig
    >>> verilog = generate("packer", CodecConfig(sector_bytes=64))
    >>> verilog.name, "module packer" in verilog.text
    ('packer', True)
    """
    if style is None:
        style = "netlist" if sleep else "readable"
    if style not in STYLES:
        raise ConfigError(f"style must be one of {', '.join(STYLES)}, not {style!r}")
    if sleep and style != "netlist":
        raise ConfigError(f"style must be netlist for components that sleep, not {style!r}")
    if reset not in RESETS:
        raise ConfigError(f"reset must be one of {', '.join(RESETS)}, not {reset!r}")
    way = RESETS[reset]
    component = find_component(component_name)
    chosen = component.config(config)
    parameters = component.parameters(chosen)
    top = check_module_name(component.top if name is None else name)
    if sleep and getattr(chosen, "clock_gates", False):
        raise ConfigError(
            f"sleep must be false for {component_name} with clock_gates, whose clocks are its own"
        )
    made = component.make(chosen)
    sleepers = component.sleepers() if sleep else ()
    # Before the conversion, which elaborates the component and renames its signals.
    sidecar = _sidecar(component_name, top, made, parameters, way)
    if style == "readable":
        try:
            written = written_modules(
                made, top, assertions=assertions, async_reset=way.is_asynchronous
            )
        except UnsupportedCell as error:
            raise ConfigError(
                f"style of {component_name} cannot be readable, as {error}; take netlist"
            ) from error
        memories = memories_of(written)
        modules = shared_modules(written)
    else:
        modules = to_verilog(
            made,
            top,
            assertions=assertions,
            sleepers=sleepers,
            async_reset=way.is_asynchronous,
        )
        memories = memories_of(modules)
    sidecar["memories"] = [asdict(memory) for memory in memories]
    if way.is_active_low:
        for clock in ("clk", *(other["clock"] for other in sidecar["other_clocks"])):
            text = _active_low(modules[0].text, clock, way)
            modules[0] = replace(modules[0], text=text)
    unneeded = READABLE_WAIVERS if style == "netlist" else ()
    waivers = {rule: why for rule, why in LINT_WAIVERS.items() if rule not in unneeded}
    about = _clock_lines(sidecar, way)
    text = _header(component_name, parameters, assertions, sleepers, about, waivers) + "".join(
        _replaceable(_commented(module), module, top) for module in modules
    )
    text += "".join(f"/* verilator lint_on {rule} */\n" for rule in waivers)
    return Verilog(top, text, sidecar)


def _header(
    component_name: str,
    parameters: dict[str, Any],
    assertions: bool,
    sleepers: Sleepers,
    about_clocks: list[str],
    waivers: dict[str, str],
) -> str:
    width = max(len("assertions"), *map(len, parameters))
    lines = [
        f"{component_name}, generated by cdma {version('cdma-rtl')}. "
        "Do not edit: generate it again.",
        "",
        *(f"{parameter:{width}} = {value}" for parameter, value in parameters.items()),
        f"{'assertions':{width}} = {'on (SystemVerilog)' if assertions else 'off'}",
        "",
        *about_clocks,
        *(["Edges of clks may be left out where wakes, before them, is low."] if sleepers else []),
    ]
    rules = [f"/* verilator lint_off {rule} */  // {why}" for rule, why in waivers.items()]
    return "\n".join([*(f"// {line}".rstrip() for line in lines), "", *rules, "", ""])


def _clock_lines(sidecar: dict[str, Any], reset: Reset) -> list[str]:
    """Lines of the header about clocks, resets and handshakes."""
    ready = "Ready and valid are AMBA's: a transfer is a"
    if sidecar["other_clocks"]:
        resets = [reset.port, *(other["reset"] for other in sidecar["other_clocks"])]
        way = "ends synchronously" if reset.is_asynchronous else "is synchronous"
        return [
            "Clocks of any ratio and phase: clk, and "
            + "; ".join(
                f"{other['clock']} of {', '.join(other['interfaces'])}"
                for other in sidecar["other_clocks"]
            )
            + f"; {reset.kind} resets, active {reset.asserted}.",
            f"{' and '.join(resets)} come from one source, and last for {RESET_CYCLES} cycles of "
            "each clock at least;",
            f"each {way} to its own clock.",
            ready,
            "rising edge with both high; a valid payload stays until then.",
        ]
    about = f"One clock; {reset.kind} reset, active {reset.asserted}."
    if reset.is_asynchronous:
        about += f" {reset.port} must end synchronously to clk."
        return [about, ready, "rising edge with both high; a valid payload stays until then."]
    return [f"{about} {ready}", "rising edge with both high; a valid payload stays until then."]


def _active_low(text: str, clock: str, reset: Reset) -> str:
    """The top module with a clock's reset active low; without registers it has none.

    Modules below, and registers of the top itself, go on with the inverse.
    """
    name, port = reset_beside(clock), reset.port_of(clock)
    declared = re.search(rf"^  input (wire )?{name}(,?)$", text, re.M)
    if declared is None:
        return text
    renamed = f"  input {declared[1] or ''}{port}{declared[2]}"
    text = text.replace(declared[0], renamed, 1)
    return text.replace("\n);\n", f"\n);\n  wire {name} = !{port};\n", 1)


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


def _replaceable(text: str, module: ModuleText, top: str) -> str:
    """The text, left out where the user of the block has such a module of his own."""
    if isinstance(module.component, Ram):
        macro = own_memories(top)
    elif isinstance(module.component, ClockGate):
        macro = own_clock_gates(top)
    else:
        return text
    return f"`ifndef {macro}\n{text.rstrip()}\n`endif\n\n"


def _sidecar(
    component_name: str,
    name: str,
    component: wiring.Component,
    parameters: dict[str, Any],
    reset: Reset,
) -> dict[str, Any]:
    return {
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
        "reset": {
            "port": reset.port,
            "active": reset.asserted,
            "synchronous": not reset.is_asynchronous,
        },
        "other_clocks": _other_clocks(component, reset),
        "clock_gates": clock_gates_of(component, name),
        "interfaces": _interfaces(component),
    }


def _other_clocks(component: wiring.Component, reset: Reset) -> list[dict[str, Any]]:
    """Clocks beside `clk`, each with its reset and the interfaces that belong to it."""
    domains: dict[str, list[str]] = {}
    for member, domain in getattr(component, "member_domains", {}).items():
        domains.setdefault(domain, []).append(member)
    clocks = {clocking_pins(domain)[0]: members for domain, members in domains.items()}
    return [
        {"clock": clock, "reset": reset.port_of(clock), "interfaces": members}
        for clock, members in clocks.items()
    ]


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
        elif "payload" not in signature.members:
            kind = "bundle"
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
