"""A block as an IP-XACT component (IEEE 1685-2014): its buses, registers, ports and files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

from cdma.hw.emit.ip.memory_map import add_memory_map
from cdma.hw.emit.ip.xml import named, node, root, text
from cdma.hw.registers.map import RegisterSource

MEMORY_MAP = "registers"


@dataclass(frozen=True)
class Bus:
    """A bus definition of Arm's, in the library AMBA4 of amba.com.

    Attributes
    ----------
    name, version : str
        The version is the abstraction definition's, too.
    clock : str
        The logical port of its clock.
    """

    name: str
    version: str
    clock: str


FILE_TYPES = ("SDC", "systemVerilogSource", "verilogSource")
"""File types of the standard that the folder has."""

BUSES = {
    "axi4": Bus("AXI4", "r0p0_0", "ACLK"),
    "axi4-lite": Bus("AXI4-Lite", "r0p0_0", "ACLK"),
    "axi4-stream": Bus("AXI4Stream", "r0p0_1", "ACLK"),
}
"""By the kind of an interface. Others have no standard definition: theirs are ports only."""


@dataclass(frozen=True)
class FileSet:
    """Files of one purpose.

    Attributes
    ----------
    name : str
    kind : str
        A file type of IP-XACT, or another name, which is a type of the user's there.
    paths : sequence of str
    """

    name: str
    kind: str
    paths: Sequence[str]


def component(
    sidecar: Mapping[str, Any],
    *,
    vendor: str,
    library: str,
    version: str,
    files: Sequence[FileSet],
    registers: RegisterSource | None,
) -> str:
    """Return the component as an XML document.

    Parameters
    ----------
    sidecar
        The block's description, as `cdma.hw.emit.verilog.generate` gives it.
    vendor, library, version
        The component's identifier, with the module's name.
    files
        The first ones are the RTL.
    registers
        Those behind the block's AXI4-Lite port, if it has any.
    """
    document = root("component")
    node(document, "vendor", vendor)
    node(document, "library", library)
    node(document, "name", sidecar["module"])
    node(document, "version", version)
    standard = [one for one in sidecar["interfaces"] if one["kind"] in BUSES]
    if standard:
        buses = node(document, "busInterfaces")
        own = {name: one["clock"] for one in sidecar["other_clocks"] for name in one["interfaces"]}
        for interface in standard:
            clock = own.get(interface["name"], sidecar["clock"])
            _add_bus(buses, interface, clock, registers is not None)
    managers = [one for one in standard if _role(one) == "master" and _is_addressed(one)]
    if managers:
        spaces = node(document, "addressSpaces")
        for interface in managers:
            space = named(spaces, "addressSpace", interface["name"])
            node(space, "range", f"'h{1 << _width(interface, 'awaddr'):x}")
            node(space, "width", _width(interface, "wdata"))
            node(space, "addressUnitBits", 8)
    if registers is not None:
        add_memory_map(document, MEMORY_MAP, registers)
    _add_model(document, sidecar, files[0].name)
    sets = node(document, "fileSets")
    for one in files:
        _add_files(named(sets, "fileSet", one.name), one)
    node(document, "description", sidecar["description"])
    parameters = node(document, "parameters")
    for name, value in sidecar["parameters"].items():
        kind = "longint" if isinstance(value, int) else "string"
        listed = isinstance(value, list | tuple)
        shown = " ".join(value) if listed else value
        parameter = node(parameters, "parameter", type=kind, parameterId=name)
        node(parameter, "name", name)
        node(parameter, "value", shown if kind == "longint" else f'"{shown}"')
    return text(document)


def _add_bus(buses: Element, interface: Mapping[str, Any], clock: str, registers: bool) -> None:
    bus = BUSES[interface["kind"]]
    added = named(buses, "busInterface", interface["name"], "", interface["description"])
    identifier = {"vendor": "amba.com", "library": "AMBA4", "version": bus.version}
    node(added, "busType", name=bus.name, **identifier)
    abstraction = node(node(added, "abstractionTypes"), "abstractionType")
    node(abstraction, "abstractionRef", name=f"{bus.name}_rtl", **identifier)
    maps = node(abstraction, "portMaps")
    _map(maps, bus.clock, clock)
    for port in interface["ports"]:
        _map(maps, port["name"].removeprefix(f"{interface['name']}_").upper(), port["name"])
    role = node(added, _role(interface))
    if _is_addressed(interface):
        if _role(interface) == "master":
            node(role, "addressSpaceRef", addressSpaceRef=interface["name"])
        elif registers and interface["kind"] == "axi4-lite":
            node(role, "memoryMapRef", memoryMapRef=MEMORY_MAP)


def _map(maps: Element, logical: str, physical: str) -> None:
    added = node(maps, "portMap")
    node(node(added, "logicalPort"), "name", logical)
    node(node(added, "physicalPort"), "name", physical)


def _role(interface: Mapping[str, Any]) -> str:
    """Return the interface's mode by IP-XACT's name of 2014 for managers and subordinates."""
    return "master" if interface["role"] == "source" else "slave"


def _is_addressed(interface: Mapping[str, Any]) -> bool:
    return interface["kind"] != "axi4-stream"


def _width(interface: Mapping[str, Any], pin: str) -> int:
    name = f"{interface['name']}_{pin}"
    (width,) = (port["width"] for port in interface["ports"] if port["name"] == name)
    return int(width)


def _add_model(document: Element, sidecar: Mapping[str, Any], files: str) -> None:
    model = node(document, "model")
    view = named(node(model, "views"), "view", "rtl")
    node(view, "envIdentifier", "verilogSource:*:*")
    node(view, "componentInstantiationRef", "rtl")
    instance = named(node(model, "instantiations"), "componentInstantiation", "rtl")
    node(instance, "language", "verilog")
    node(instance, "moduleName", sidecar["module"])
    node(node(instance, "fileSetRef"), "localName", files)
    ports = node(model, "ports")
    _add_port(ports, sidecar["clock"], "input", 1, "Clock: rising edges.")
    reset = sidecar["reset"]
    kind = "synchronous" if reset["synchronous"] else "asynchronous"
    about = f"Reset: {kind}, active {reset['active']}."
    _add_port(ports, reset["port"], "input", 1, about)
    for other in sidecar["other_clocks"]:
        whose = f" of {', '.join(other['interfaces'])}"
        _add_port(ports, other["clock"], "input", 1, f"Clock{whose}: rising edges.")
        _add_port(ports, other["reset"], "input", 1, about.replace(":", f"{whose}:", 1))
    for interface in sidecar["interfaces"]:
        for port in interface["ports"]:
            about = port["description"]
            if len(interface["ports"]) == 1:
                about = about or interface["description"]
            _add_port(ports, port["name"], port["direction"], port["width"], about)


def _add_port(ports: Element, name: str, direction: str, width: int, about: str) -> None:
    wire = node(named(ports, "port", name, "", about), "wire")
    node(wire, "direction", direction.removesuffix("put"))
    if width > 1:
        vector = node(node(wire, "vectors"), "vector")
        node(vector, "left", width - 1)
        node(vector, "right", 0)


def _add_files(added: Element, files: FileSet) -> None:
    for path in files.paths:
        file = node(added, "file")
        node(file, "name", path)
        if files.kind in FILE_TYPES:
            node(file, "fileType", files.kind)
        else:
            node(file, "fileType", "user", user=files.kind)
