"""Components by name, in configurations by name."""

import pytest

from hw.config import BUDDY_PRESETS, PRESETS, ConfigError
from synth.components import block, block_names
from synth.errors import SynthError


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
