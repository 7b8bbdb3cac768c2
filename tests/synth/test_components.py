"""Components by name, in configurations by name."""

import re
from dataclasses import replace

import pytest

from cdma.hw.config import BUDDY_PRESETS, PRESETS, ConfigError
from cdma.synth.components import block, block_names
from cdma.synth.errors import SynthError


def test_names_are_those_that_have_the_configuration():
    assert "packer" in block_names("wide")
    assert "sector-mapper" not in block_names("wide")
    assert "packer" not in block_names("channel")
    assert block_names("tiny") == block_names()


def test_parameters_are_those_that_the_component_has():
    assert block("packer", "tiny").parameters == {
        "element_bytes": 1,
        "sector_bytes": 4,
        "line_bytes": 8,
        "latency": "paper",
        "codecs": ("zvc", "raw"),
    }
    assert block("line-drain").parameters["units"] == 6
    assert "ways" in block("metadata-cache").parameters
    assert set(block("entry-compressor").parameters) == {"sector_bytes", "mode", "element_bytes"}


def test_verilog_has_the_top_and_all_below_it():
    verilog = block("token-bucket", "tiny").verilog()
    assert "module token_bucket (" in verilog
    verilog = block("compression-unit", "tiny").verilog()
    assert "module compression_unit (" in verilog
    assert "module compression_unit_compressor" in verilog


@pytest.mark.verify
def test_a_whole_comes_in_parts_with_black_boxes_for_those_below():
    chosen = block("engine", "tiny")
    parts = {part.name: part for part in chosen.parts()}
    assert next(iter(parts)) == chosen.top == "engine"
    assert {"engine_host", "engine_memory", "engine_registers", "engine_out_path_unit"} <= set(
        parts
    )
    defined: list[str] = []
    for part in parts.values():
        boxes = re.findall(r"^\(\* blackbox \*\)\nmodule (\w+) \($", part.verilog, re.M)
        assert sorted(boxes) == sorted(part.below)
        assert set(boxes) <= set(parts)
        # Their ports are wires: what is inside, with its initial values, is not there.
        for box in boxes:
            text = re.search(rf"^module {box} \(\n(.*?)^endmodule", part.verilog, re.M | re.S)
            assert text is not None
            assert not re.search(r"\breg\b|=|assign", text[1])
        modules = re.findall(r"^module (\w+) \($", part.verilog, re.M)
        defined += [name for name in modules if name not in boxes]
    # Each module is in one part, and none is lost; some have no instance, as of an arbiter of one.
    assert len(set(defined)) == len(defined)
    whole = block("engine", "tiny").verilog()
    modules = re.findall(r"^module (\w+) \($", whole, re.M)
    used = set(re.findall(r"^\s+(\w+) \\?\S+ +\($", whole, re.M))
    assert sorted(defined) == sorted({"engine"} | set(modules) & used)


def test_what_is_no_whole_is_one_part():
    (part,) = block("token-bucket", "tiny").parts()
    assert (part.name, part.below) == ("token_bucket", ())
    assert part.verilog == block("token-bucket", "tiny").verilog()


def test_unknown_names_are_told_with_the_known_ones():
    with pytest.raises(SynthError, match="unknown component 'packet'; choose one of zvc-compr"):
        block("packet")
    with pytest.raises(SynthError, match="unknown configuration 'huge'; choose one of titanx_gen3"):
        block_names("huge")
    with pytest.raises(ConfigError, match=f"must be one of {', '.join(PRESETS)}, not 'channel'"):
        block("packer", "channel")
    with pytest.raises(ConfigError, match=f"must be one of {', '.join(BUDDY_PRESETS)}, not 'wide'"):
        block("sector-mapper", "wide")


def test_two_clocks_are_refused_with_what_helps():
    shape = replace(PRESETS["tiny"], host_clock=True)
    with pytest.raises(SynthError) as error:
        block("engine", "mine", shape)
    assert str(error.value) == (
        "engine with host_clock has two clocks, and synthesis times one; leave host_clock away: "
        "all but the crossing is the same"
    )
    # Parts have one.
    assert block("dispatcher", "mine", shape).parameters["host_clock"]


def test_gated_clocks_are_refused_with_what_helps():
    shape = replace(PRESETS["tiny"], clock_gates=True)
    with pytest.raises(SynthError) as error:
        block("engine", "mine", shape)
    assert str(error.value) == (
        "engine with clock_gates has clocks that stop, and synthesis has one that does not; leave "
        "clock_gates away: all but the gates and what enables them is the same"
    )
    assert block("token-bucket", "mine", shape).parameters["clock_gates"]
