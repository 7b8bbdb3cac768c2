"""Generated blocks with two clocks: each register has its own, and nothing crosses unguarded.

Paths between the clocks are read from the Verilog, as Yosys flattens it: they must end in a
synchronizer's first register, without logic before it, or go through a memory with two clocks.
"""

import gc
import json
import re
from dataclasses import replace

import pytest

from cdma.hw.bus.clock_crossing import Axi4ClockCrossing
from cdma.hw.components import find_component
from cdma.hw.config import preset
from cdma.hw.emit.netlist import to_verilog, written_modules
from cdma.hw.emit.reset import RESETS
from cdma.hw.emit.verilog import STYLES
from cdma.hw.lib.clocks.async_fifo import LATENCY, RESET_CYCLES, AsyncFifo
from cdma.synth.tools.yosys import run_yosys
from tests.hw.emit.test_verilog import lint
from tests.lib.rtl.equivalence import check_module, prove_design
from tests.lib.rtl.verilog import verilog_of
from tests.lib.shares import configs, names

TINY = replace(preset("tiny"), host_clock=True)
SHAPES = {
    "tiny": TINY,
    "three rings": replace(TINY, rings=3, stream_id_bits=2),
    "titanx_gen3": replace(preset("titanx_gen3"), host_clock=True),
}
GUARDED = '(* ASYNC_REG = "TRUE", keep = "true" *) '


def crossing():
    return Axi4ClockCrossing(4, 32, 2, 3, domain="host")


@pytest.fixture(scope="module")
def written():
    return {module.name: module for module in written_modules(crossing(), "crossing")}


# Readable text against Amaranth's RTLIL


@pytest.mark.parametrize("is_asynchronous", [False, True], ids=["synchronous", "asynchronous"])
def test_readable_text_is_equivalent(is_asynchronous, tmp_path):
    modules = written_modules(crossing(), "crossing", async_reset=is_asynchronous)
    prove_design(modules, tmp_path, timeout_s=300)


def test_a_readable_engine_is_equivalent_where_its_clocks_meet(tmp_path):
    component = find_component("engine")
    top, *below = written_modules(component.make(TINY), component.top)
    for module in (top, *(one for one in below if "host_crossing" in one.name)):
        found = check_module(module, [top, *below], tmp_path / module.name)
        assert found.holds, f"{module.name}: {found.log}"


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("crossing", "posedge host_clk", "posedge clk"),
        ("crossing", "if (host_rst)", "if (rst)"),
        (
            "crossing_aw",
            "@(posedge o_clk)\n    if (o_rst) begin",
            "@(posedge i_clk)\n    if (i_rst) begin",
        ),
        ("crossing_aw", "if (i_rst) i_runs", "if (o_rst) i_runs"),
        ("crossing_two_clock_ram_16x37", "posedge read_clk", "posedge write_clk"),
    ],
)
def test_a_wrong_clock_or_reset_is_found(written, name, right, wrong, tmp_path):
    module = written[name]
    assert right in module.text
    damaged = replace(module, text=module.text.replace(right, wrong, 1))
    assert not check_module(damaged, written.values(), tmp_path).holds


# Texts of both styles


def texts(style, config=TINY, reset="sync-high"):
    return verilog_of("engine", config, style=style, reset=reset)


def bare(text):
    """Verilog without comments."""
    return re.sub(r"//.*|/\*.*?\*/", "", text)


@pytest.mark.parametrize("style", STYLES)
def test_registers_of_synchronizers_and_no_others_have_attributes(style):
    found = 0
    for name, body in re.findall(r"^module (\w+)(.*?)^endmodule", texts(style).text, re.M | re.S):
        registers = re.findall(r"^ .*\breg\b.*$", body, re.M)
        guarded = [line for line in registers if GUARDED in line]
        assert guarded == (registers if "_synchronizer" in name else [])
        found += len(guarded)
    # States of two, pointers of 4 and of 5 bits of three each.
    assert found == (5 if style == "readable" else 8)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("reset", names(RESETS, quick=["sync-high"]))
def test_ports_header_and_sidecar_name_both_clocks(reset, style):
    verilog = texts(style, reset=reset)
    way = RESETS[reset]
    low = "_n" if way.is_active_low else ""
    top = verilog.text[verilog.text.index("\nmodule cdma_engine (") :].partition(");")[0]
    assert re.findall(r"input wire (\w*(?:clk|rst|rst_n))\b", top) == [
        *("clk", f"rst{low}"),
        *("host_clk", f"host_rst{low}"),
    ]
    assert "// Clocks of any ratio and phase: clk, and host_clk of m_axi_host; " in verilog.text
    assert (
        f"// rst{low} and host_rst{low} come from one source, and last for 6 cycles of each "
        in (verilog.text)
    )
    assert verilog.sidecar["clock"] == "clk"
    assert verilog.sidecar["other_clocks"] == [
        {"clock": "host_clk", "reset": f"host_rst{low}", "interfaces": ["m_axi_host"]}
    ]
    at_once = re.findall(r"posedge (\w*clk)(?: or|,) posedge (\w*rst)\)", verilog.text)
    assert bool(at_once) == way.is_asynchronous
    assert all(reset == clock.replace("clk", "rst") for clock, reset in at_once)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("reset", names(RESETS, quick=["sync-high"]))
def test_is_clean(style, reset, tmp_path):
    verilog = texts(style, reset=reset)
    lint(verilog.name, verilog.text, tmp_path)


def test_memories_with_two_clocks_are_listed():
    memories = texts("readable").sidecar["memories"]
    two = {(m["words"], m["bits"]): m["instances"] for m in memories if m["clocks"] == 2}
    # Addresses, responses, and data: 32 bits with strobes and WLAST, or ID, RRESP and RLAST.
    assert two == {(8, 91): 2, (8, 4): 1, (16, 37): 2}
    assert all(m["clocks"] == 1 for m in verilog_of("engine", "tiny").sidecar["memories"])


def test_one_clock_is_as_before():
    for style in STYLES:
        verilog = verilog_of("engine", "tiny", style=style)
        assert "host_clk" not in bare(verilog.text)
        assert verilog.sidecar["other_clocks"] == []


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_resets_and_latency_are_those_of_the_queues():
    queue, port = AsyncFifo(8, 8, i_domain="a", o_domain="b"), crossing()
    assert queue.reset_cycles == port.reset_cycles == RESET_CYCLES
    assert queue.latency == port.latency == LATENCY
    latencies = texts("readable").sidecar["latency_cycles"]
    assert latencies["host_crossing"] == LATENCY
    assert "host_crossing" not in verilog_of("engine", "tiny").sidecar["latency_cycles"]
    # While what was not built may still go unused.
    del queue, port
    gc.collect()


# Paths between the clocks

CLOCK_PINS = ("C", "CLK")


class Netlist:
    """A flat module of Yosys: what each bit follows from, and the clock of each register.

    Attributes
    ----------
    clock_of : dict of bit to str
        For each register's output, and each input port.
    sources : dict of bit to list of bits
        For each output of logic.
    sinks : list of (str, str, bits)
        The name, the clock and the inputs of each register, write port, read port and output.
    """

    def __init__(self, text, top, folder):
        (folder / "top.v").write_text(text)
        # With a register's reset in the register, what is left before it is logic.
        steps = [
            "proc -norom",
            "flatten",
            "opt_clean",
            "opt_dff -nodffe",
            "memory -nomap",
            "opt_clean",
        ]
        steps += ["simplemap", "opt_clean", "write_json top.json"]
        run_yosys(["read_verilog top.v", f"hierarchy -top {top}", *steps], folder)
        module = json.loads((folder / "top.json").read_text())["modules"][top]
        self.names = {
            bit: f"{name}[{place}]"
            for name, net in module["netnames"].items()
            for place, bit in enumerate(net["bits"])
        }
        self.firsts = {
            bit
            for name, net in module["netnames"].items()
            if name.endswith(".stage_0")
            for bit in net["bits"]
        }
        self.clock_names = {module["ports"][name]["bits"][0]: name for name in ("clk", "host_clk")}
        self.clock_of, self.sources, self.sinks, self.resets = {}, {}, [], set()
        for name, port in module["ports"].items():
            clock = "host_clk" if "host" in name else "clk"
            if port["direction"] == "output":
                self.sinks.append((name, clock, port["bits"]))
            elif not name.endswith("clk"):
                self.clock_of |= dict.fromkeys(port["bits"], clock)
        for name, cell in module["cells"].items():
            self._add(name, cell)

    def _add(self, name, cell):
        pins, directions = cell["connections"], cell["port_directions"]
        if cell["type"].startswith("$mem"):
            self._add_memory(name, cell)
            return
        inputs = [b for p in pins if directions[p] == "input" for b in pins[p]]
        outputs = [b for p in pins if directions[p] == "output" for b in pins[p]]
        if "DFF" in cell["type"]:
            (bit,) = pins["C"]
            clock = self.clock_names[bit]
            self.clock_of |= dict.fromkeys(outputs, clock)
            inputs = [b for p in pins if directions[p] == "input" and p != "C" for b in pins[p]]
            self.sinks.append((outputs[0], clock, inputs))
        else:
            self.sources |= dict.fromkeys(outputs, inputs)

    def _add_memory(self, name, cell):
        pins = cell["connections"]
        (write,), (read,) = set(pins["WR_CLK"]), set(pins["RD_CLK"])
        written = [b for p in ("WR_ADDR", "WR_DATA", "WR_EN") for b in pins[p]]
        self.sinks.append((name, self.clock_names[write], written))
        chosen = [b for p in ("RD_ADDR", "RD_EN") for b in pins[p]]
        if int(cell["parameters"]["RD_CLK_ENABLE"], 2):
            self.sinks.append((name, self.clock_names[read], chosen))
            self.clock_of |= dict.fromkeys(pins["RD_DATA"], self.clock_names[read])
        else:
            # Yosys leaves the register behind it apart.
            self.sources |= dict.fromkeys(pins["RD_DATA"], chosen)

    def unguarded(self):
        """Sinks that follow from another clock's registers, but for synchronizers."""
        found = []
        for sink, clock, inputs in self.sinks:
            seen, left = set(), list(inputs)
            while left:
                bit = left.pop()
                if bit not in seen:
                    seen.add(bit)
                    left += self.sources.get(bit, [])
            others = {bit for bit in seen if self.clock_of.get(bit, clock) != clock}
            if not others or (sink in self.firsts and others <= set(inputs)):
                continue
            found.append(f"{self.names.get(sink, sink)} from {sorted(map(self.names.get, others))}")
        return found

    def crossings(self):
        """Bits that come from the other clock."""
        return sum(
            self.clock_of.get(bit, clock) != clock for _, clock, bits in self.sinks for bit in bits
        )


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("config", configs(SHAPES, quick=["tiny"]))
def test_paths_between_the_clocks_end_in_synchronizers(config, style, tmp_path):
    verilog = texts(style, config)
    netlist = Netlist(verilog.text, verilog.name, tmp_path)
    assert netlist.unguarded() == []
    # A state and a pointer of each queue, both ways.
    assert netlist.crossings() == 5 * 2 + 2 * (3 * 4 + 2 * 5)


FAULTS = {
    "state": ("crossing_aw", "!full && o_state_o", "!full && o_runs"),
    "pointer": ("crossing_r", ".i(written_gray)", ".i(written_gray ^ i_fire)"),
    "clock": (
        "crossing",
        ".o_clk(host_clk), .o_rst(host_rst), .o_ready(m_axi_arready)",
        ".o_clk(clk), .o_rst(rst), .o_ready(m_axi_arready)",
    ),
    "register": ("crossing", "posedge host_clk", "posedge clk"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_unguarded_path_is_found(fault, written, tmp_path):
    name, right, wrong = FAULTS[fault]
    modules = {one.name: one.text for one in written.values()}
    top = {**modules, "crossing": modules["crossing"].replace("m_axi_", "host_axi_")}
    good = Netlist("\n\n".join(top.values()), "crossing", tmp_path)
    assert good.unguarded() == []
    right, wrong = right.replace("m_axi_", "host_axi_"), wrong.replace("m_axi_", "host_axi_")
    assert right in top[name]
    top[name] = top[name].replace(right, wrong, 1)
    assert Netlist("\n\n".join(top.values()), "crossing", tmp_path).unguarded() != []


def test_modules_of_a_size_are_shared_whichever_way_they_go():
    modules = to_verilog(crossing(), "crossing", assertions=False)
    found = [one.name for one in modules if "ram" in one.name or "synchronizer" in one.name]
    assert sorted(found) == [
        *("crossing_synchronizer_1x2", "crossing_synchronizer_4x3", "crossing_synchronizer_5x3"),
        *("crossing_two_clock_ram_16x37", "crossing_two_clock_ram_8x4"),
        "crossing_two_clock_ram_8x62",
    ]
