"""Configurations refuse what the hardware cannot have, and say what would be right."""

import pytest

from cdma.hw.config import PRESETS, CodecConfig, ConfigError, EngineConfig, preset


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"element_bytes": 3}, "element_bytes must be 4, 2 or 1, not 3"),
        ({"element_bytes": 8}, "element_bytes must be 4, 2 or 1, not 8"),
        ({"element_bytes": "4"}, "element_bytes must be 4, 2 or 1, not '4'"),
        ({"sector_bytes": 16}, "sector_bytes must be 32, 64 or 128, not 16"),
        ({"sector_bytes": 256}, "sector_bytes must be 32, 64 or 128, not 256"),
        ({"latency": "slow"}, "latency must be paper or fast, not 'slow'"),
        ({"sector_bytes": None}, "sector_bytes must be 32, 64 or 128, not None"),
        (
            {"line_bytes": 100, "sector_bytes": 32},
            "line_bytes must be a multiple of sector_bytes, not 100",
        ),
        (
            {"element_bytes": 1, "sector_bytes": 1, "line_bytes": 8},
            "sector_bytes must hold a power of two of elements, at least 2, and line_bytes a power "
            "of two of sectors, not 1 and 8",
        ),
        (
            {"element_bytes": 1, "sector_bytes": 8, "line_bytes": 24},
            "sector_bytes must hold a power of two of elements, at least 2, and line_bytes a power "
            "of two of sectors, not 8 and 24",
        ),
        (
            {"element_bytes": 4, "sector_bytes": 16, "line_bytes": 64},
            "line_bytes must give a mask of whole elements, not 64",
        ),
    ],
)
def test_messages(fields, message):
    with pytest.raises(ConfigError) as error:
        CodecConfig(**fields)
    assert str(error.value) == message


@pytest.mark.parametrize("element_bytes", [4, 2, 1])
@pytest.mark.parametrize("sector_bytes", [32, 64, 128])
def test_derived_sizes(element_bytes, sector_bytes):
    config = CodecConfig(element_bytes=element_bytes, sector_bytes=sector_bytes)
    assert config.lanes * config.element_bytes == config.sector_bytes
    assert config.sectors * config.sector_bytes == 128
    assert config.elements == {4: 32, 2: 64, 1: 128}[element_bytes]
    assert config.mask_bytes == {4: 4, 2: 8, 1: 16}[element_bytes]
    assert config.mask_elements == {4: 1, 2: 4, 1: 16}[element_bytes]


def test_presets_are_found_by_name():
    assert preset("titanx_gen3").codec == CodecConfig(element_bytes=4, sector_bytes=32)
    for name, config in PRESETS.items():
        assert preset(name) is config


@pytest.mark.parametrize("name", PRESETS)
def test_buffers_of_presets_hold_whole_beats(name):
    config = PRESETS[name]
    assert config.buffer_bytes % config.codec.sector_bytes == 0
    assert config.read_buffer_bytes % config.host_bytes == 0


def test_unknown_preset_lists_those_that_there_are():
    with pytest.raises(ConfigError) as error:
        preset("titany")
    assert str(error.value) == (
        "config must be one of titanx_gen3, titanxp_gen3, v100_nvlink2, pcie5x16, pcie6x16, c2c, "
        "wide, wide_fast, tiny, not 'titany'"
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rings": 0}, "rings must be 1 to 8, not 0"),
        ({"rings": 9}, "rings must be 1 to 8, not 9"),
        ({"stream_id_bits": 17}, "stream_id_bits must be 0 to 16, not 17"),
        (
            {"rings": 4, "stream_id_bits": 1},
            "stream_id_bits must tell 4 rings apart, or be 0, not 1",
        ),
        ({"host_clock": 2}, "host_clock must be true or false, not 2"),
        ({"clock_gates": 1}, "clock_gates must be true or false, not 1"),
    ],
)
def test_rings_and_clocks_that_cannot_be_are_refused(fields, message):
    with pytest.raises(ConfigError) as error:
        EngineConfig(**fields)
    assert str(error.value) == message
