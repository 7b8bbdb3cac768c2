"""Written Verilog: equivalent to Amaranth's RTLIL module by module, clean, and with its names."""

import dataclasses
import re
import subprocess
from functools import cache

import pytest
from amaranth.hdl import Cat, Const, Module, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.components import COMPONENTS, find_component
from cdma.hw.config import ConfigError
from cdma.hw.emit.fast_conversion import rtlil_of
from cdma.hw.emit.netlist import shared_modules, written_modules
from cdma.hw.emit.verilog import STYLES, generate
from cdma.hw.emit.writer.circuit import UnsupportedCell
from cdma.hw.emit.writer.module import write_module
from cdma.hw.emit.writer.usage import Usage
from tests.formal.smtbmc import UndecidedError
from tests.hw.emit.test_verilog import ABORT, lint
from tests.lib.requirements import ICARUS, require
from tests.lib.rtl.equivalence import check_module, parts_of_shared, prove_design
from tests.lib.shares import configs, names

DESIGNS = {
    f"{name}-{config}": (name, config)
    for name, component in COMPONENTS.items()
    for config in (
        component.family.presets
        if component.is_whole
        else dict.fromkeys([component.family.default, "tiny"])
    )
    # Codecs of whole lines have none as short as those of `tiny`.
    if not (name.startswith(("xc-", "quantize-")) and config == "tiny")
}
"""Whole blocks in every configuration that has a name, others in the usual one and the smallest."""

MODULE_S = 300
"""The time of each run of Yosys."""

CLEAN = ("crc32", "packer", "unpacker", "memory-port", "zvc-compressor")
"""Components that linters are asked about in `make test`."""

SUMS = 230
"""Of what needs more wires than any module did."""


@cache
def written(name, config=None):
    component = find_component(name)
    return written_modules(component.make(component.config(config)), component.top)


# What takes longer is open in `make verify`, not failed.
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "design", configs(DESIGNS, quick=["crc32-titanx_gen3", "memory-port-tiny"])
)
def test_every_module_is_equivalent_to_its_rtlil(design, tmp_path):
    prove_design(written(*design), tmp_path, timeout_s=MODULE_S)


WRONG = {
    "came && o_last": "came || o_last",
    "result = 32'd0;": "result = 32'd1;",
    "finishing <= 1'b0;": "finishing <= 1'b1;",
    "(posedge clk)": "(negedge clk)",
}
"""What the text of crc32 has, and what would be wrong."""


@pytest.mark.parametrize("right", names(WRONG, quick=["finishing <= 1'b0;"]))
def test_a_planted_error_is_found(right, tmp_path):
    modules = written("crc32")
    assert right in modules[0].text
    damaged = dataclasses.replace(modules[0], text=modules[0].text.replace(right, WRONG[right], 1))
    assert not check_module(damaged, modules, tmp_path).holds


class Picking(wiring.Component):
    """A bit of a word at a place that may be beyond its end."""

    place: In(2)
    word: In(3)
    o: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.word.bit_select(self.place, 1))
        return m


def test_a_bit_beyond_a_words_end_is_found(tmp_path):
    (module,) = written_modules(Picking(), "picking")
    assert check_module(module, [], tmp_path / "proof").holds
    # Amaranth's is 0, and Verilog's is not defined.
    text = module.text.replace("assign o = word >> place;", "assign o = word[place];")
    assert text != module.text
    damaged = dataclasses.replace(module, text=text)
    assert not check_module(damaged, [], tmp_path / "damaged").holds
    text = text.replace("word[place]", "place != 2'd3 && word[place]")
    mended = dataclasses.replace(module, text=text)
    assert check_module(mended, [], tmp_path / "mended").holds


def test_a_proof_is_found_once_whatever_the_design_is_called(tmp_path, monkeypatch):
    monkeypatch.setenv("CDMA_CACHE", str(tmp_path / "cache"))
    known = []
    for top in ("token_bucket", "other"):
        component = find_component("token-bucket")
        (module,) = written_modules(component.make("tiny"), top)
        found = check_module(module, [], tmp_path / top)
        assert found.holds
        assert found.module == top
        known.append(found.is_known)
        text = module.text.replace("tokens + rate", "tokens - rate")
        assert text != module.text
        damaged = check_module(dataclasses.replace(module, text=text), [], tmp_path / "damaged")
        assert not damaged.holds
        assert not damaged.is_known
    assert known == [False, True]


def test_a_module_that_takes_too_long_is_undecided(tmp_path, monkeypatch):
    monkeypatch.setenv("CDMA_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UndecidedError, match=r"not decided in 0\.01 s each: packer, packer_elem"):
        prove_design(written("packer", "tiny"), tmp_path, timeout_s=0.01)


def test_what_the_source_names_is_called_so():
    text = written("zvc-line-compressor")[0].text
    declared = set(re.findall(r"^  (?:wire|reg) (?:\[[^]]*\] )?(\w+)", text, re.M))
    # Registers and wires of `hw/codec/zvc/compressor.py`.
    assert {"beat_place", "window_left", "offset", "free", "leaving", "append", "sent"} <= declared
    assert not [name for name in declared if re.fullmatch(r"_\d+_?", name)]


MOST_MADE_UP = 0.01
"""The part of the declarations that may have none of the source's names in theirs."""


@pytest.mark.parametrize("name", names(["zvc-compressor", "engine"], quick=["zvc-compressor"]))
def test_declarations_have_names_of_the_source_in_theirs(name):
    declared, made_up = [], []
    for module in written(name):
        kinds = r"^  (?:wire|cell|memory) (?:.* )?\\([A-Za-z_]\w*)$"
        known = "|".join(map(re.escape, {*re.findall(kinds, module.rtlil, re.M)}))
        here = re.findall(r"^ +(?:wire|reg) (?:signed )?(?:\[.*?\] )?(\w+)", module.text, re.M)
        declared += here
        made_up += [found for found in here if not re.search(rf"(?:^|_)(?:{known})(?:_|$)", found)]
    assert len(declared) > 100
    assert len(made_up) <= MOST_MADE_UP * len(declared), made_up


def test_structs_are_fields_at_the_top_and_packed_below():
    top, *below = (module.text for module in written("memory-port", "tiny"))
    assert re.search(r"^  input wire \[39:0\] \w+_address,$", top, re.M)
    assert "address[39:0]" not in top
    ports = [line for text in below for line in re.findall(r"^  input .*", text, re.M)]
    assert "  input wire [47:0] i_0_payload,  // address[39:0], beats[47:40]" in ports


class Choosing(wiring.Component):
    """A struct with a field that depends on another one, as an arbiter's grant is sent along."""

    wanted: In(2)
    values: In(8)
    o: Out(data.StructLayout({"place": 1, "value": 4, "is_valid": 1}))

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.place.eq(~self.wanted[0])
        for place in range(2):
            with m.If(self.wanted[place] & (self.o.place == place)):
                m.d.comb += self.o.value.eq(self.values.word_select(place, 4))
                m.d.comb += self.o.is_valid.eq(self.o.value != 0)
        return m


def test_fields_that_depend_on_others_of_their_struct_are_cut_apart(tmp_path):
    modules = written_modules(Choosing(), "choosing")
    assert check_module(modules[0], [], tmp_path / "proof").holds
    # Verilator warns of a variable that depends on itself.
    waivers = "/* verilator lint_off DECLFILENAME */\n/* verilator lint_off WIDTHTRUNC */\n"
    lint("choosing", f"{waivers}{modules[0].text}\n", tmp_path)


def test_the_netlist_stays_as_it_is(monkeypatch):
    stays = []

    def write(netlist, *args, **options):
        before = rtlil_of(netlist)
        found = write_module(netlist, *args, **options)
        stays.append(rtlil_of(netlist) == before)
        return found

    monkeypatch.setattr("cdma.hw.emit.netlist.write_module", write)
    component = find_component("memory-port")
    modules = written_modules(component.make("tiny"), component.top)
    assert len(stays) >= len(modules)
    assert all(stays)


def test_modules_that_differ_in_sizes_share_one():
    modules = written("memory-port", "tiny")
    parts = parts_of_shared(modules)
    assert len(parts) >= 6
    assert len(shared_modules(modules)) < len(modules) - 3
    assert all(sizes for _, sizes in parts)


class Waiting(wiring.Component):
    """A combinational block whose inputs do not change at first."""

    go: In(1)
    stop: In(1)
    is_ready: Out(1)

    def elaborate(self, platform):
        m = Module()
        state = Signal(2, init=2)
        with m.Switch(state):
            with m.Case(2):
                m.d.comb += self.is_ready.eq(1)
                m.d.sync += state.eq(0)
            with m.Case(0):
                with m.If(self.go & ~self.stop):
                    m.d.comb += self.is_ready.eq(1)
            with m.Case(1):
                with m.If(self.stop):
                    m.d.comb += self.is_ready.eq(1)
        return m


@pytest.mark.parametrize("language", ["-g2005", "-g2012"])
def test_combinational_blocks_are_settled_from_the_start(language, tmp_path):
    require(ICARUS)
    (module,) = written_modules(Waiting(), "waiting")
    assert check_module(module, [], tmp_path / "proof").holds
    assert "always @* begin" in module.text
    bench = """
        module bench;
          reg low = 1'b0;
          wire is_ready;
          waiting waiting (.clk(low), .rst(low), .go(low), .stop(low), .is_ready(is_ready));
          initial #1 $display("is_ready %b", is_ready);
        endmodule
    """
    (tmp_path / "bench.v").write_text(f"{module.text}\n{bench}")
    build = ["iverilog", language, "-s", "bench", "-o", "bench.vvp", "bench.v"]
    subprocess.run(build, cwd=tmp_path, check=True)
    run = ["vvp", "-n", "bench.vvp"]
    said = subprocess.run(run, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert said == "is_ready 1\n"


def test_assertions_are_kept_on_request(tmp_path):
    text = generate("packer", assertions=True, style="readable").text
    assert re.search(r"^ +always @\(posedge clk\) if \(.*\) assert \(.*\);$", text, re.M)
    assert "assert" not in re.sub(r"//.*", "", generate("packer", style="readable").text)


def test_the_usual_style_is_readable_and_the_other_one_a_netlist():
    assert STYLES == ("readable", "netlist")
    netlist = generate("packer", style="netlist").text
    assert re.search(r"^  wire (?:\[\d+:0\] )?_\d+_;$", netlist, re.M)
    readable = generate("packer").text
    assert readable == generate("packer", style="readable").text
    assert not re.search(r"\b_\d+_\b", readable)
    # Only of a netlist may components sleep.
    assert generate("packer", sleep=True).text == netlist
    with pytest.raises(ConfigError, match="style must be one of readable, netlist, not 'short'"):
        generate("packer", style="short")
    with pytest.raises(ConfigError, match="style must be netlist for components that sleep, not"):
        generate("engine", "tiny", sleep=True, style="readable")


def test_what_cannot_be_readable_is_one_error_that_names_the_other_style(monkeypatch):
    def refuse(*_, **__):
        raise UnsupportedCell("a cell has no Verilog here")

    monkeypatch.setattr("cdma.hw.emit.netlist.write_module", refuse)
    with pytest.raises(ConfigError, match=r"packer cannot be readable, as a cell has no .*; take"):
        generate("packer", "tiny", style="readable")


class Signs(wiring.Component):
    """A part of a signed number that reaches beyond it: its sign, or zeros."""

    number: In(signed(4))
    o: Out(4)

    def elaborate(self, platform):
        m = Module()
        place = Signal(3)
        m.d.comb += [place.eq(2), self.o.eq(self.number.bit_select(place, 4))]
        return m


class Quotient(wiring.Component):
    """A value divided by a bit that is not known. It is first, so its net has the lowest number."""

    divisor: In(1)
    value: In(4)
    o: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.value // self.divisor)
        return m


def test_a_division_by_what_varies_is_refused():
    # Amaranth's is 0 where one divides by 0, and Verilog's is not known.
    with pytest.raises(UnsupportedCell, match="division by what is not constant"):
        written_modules(Quotient(), "quotient")


def test_what_would_be_written_otherwise_than_it_is_simulated_is_refused():
    with pytest.raises(UnsupportedCell, match="signed part that reaches beyond its value"):
        written_modules(Signs(), "signs")


class Places(wiring.Component):
    """Bits of an instance's input, each of a sum of its own: all of these need wires."""

    i: In(8)
    o: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.counting = counting = Bits(SUMS)
        m.d.comb += [
            counting.i.eq(Cat((self.i + Const(k, 8))[3] for k in range(1, SUMS + 1))),
            self.o.eq(counting.o),
        ]
        return m


class Bits(wiring.Component):
    """A bit tells that any bit is set."""

    def __init__(self, width):
        super().__init__({"i": In(width), "o": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.i.any())
        return m


def test_as_many_wires_are_added_as_are_needed():
    # The unpacker of sectors of 64 bytes needs that many; there was a limit of 200.
    top = next(module for module in written_modules(Places(), "places") if module.name == "places")
    assert len(re.findall(r"^  wire \[\d+:0\] \w+ = i\[3:0\] \+ ", top.text, re.M)) == SUMS


def test_a_wire_that_is_needed_again_is_an_error(monkeypatch):
    monkeypatch.setattr(Usage, "name_cell", lambda *_: None)
    with pytest.raises(UnsupportedCell, match="places needs wires that it has: "):
        written_modules(Places(), "places")


@pytest.mark.parametrize("name", names(COMPONENTS, quick=CLEAN))
def test_it_is_clean(name, tmp_path):
    config = None if name.startswith(("xc-", "quantize-")) else "tiny"
    verilog = generate(name, config, style="readable")
    waived = ["-Wno-SYMRSVDWORD"] if name in ABORT else []
    lint(verilog.name, verilog.text, tmp_path, *waived)
