"""Components by name, in configurations by name."""

import re

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


def test_engine_without_units_has_black_boxes_for_them():
    chosen = block("engine-without-units", "tiny")
    verilog = chosen.verilog()
    boxes = re.findall(r"^\(\* blackbox \*\)\nmodule (\w+) \($", verilog, re.M)
    assert sorted(boxes) == sorted(chosen.black_boxes)
    assert len(boxes) == 3
    modules = re.findall(r"^module (\w+) \($", verilog, re.M)
    assert len(set(modules)) == len(modules)
    assert not [m for m in modules if m.startswith(tuple(f"{box}_" for box in boxes))]
    # Their ports are wires: what is inside, with its initial values, is not there.
    for box in boxes:
        text = re.search(rf"^module {box} \(\n(.*?)^endmodule", verilog, re.M | re.S)
        assert text is not None
        assert not re.search(r"\breg\b|=|assign", text[1])


def test_unknown_names_are_told_with_the_known_ones():
    with pytest.raises(SynthError, match="unknown component 'packet'; choose one of zvc-compr"):
        block("packet")
    with pytest.raises(
        SynthError, match="engine takes too long as a whole; choose parts of it, of"
    ):
        block("engine")
    with pytest.raises(SynthError, match="unknown configuration 'huge'; choose one of titanx_gen3"):
        block_names("huge")
    with pytest.raises(ConfigError, match=f"must be one of {', '.join(PRESETS)}, not 'channel'"):
        block("packer", "channel")
    with pytest.raises(ConfigError, match=f"must be one of {', '.join(BUDDY_PRESETS)}, not 'wide'"):
        block("sector-mapper", "wide")
