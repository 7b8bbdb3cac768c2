"""The registry of line codecs: what it refuses, and that entries and golden formats agree."""

from dataclasses import replace

import numpy as np
import pytest

from cdma import golden
from cdma.hw.codec import registry
from cdma.hw.codec.interface import LineCodec
from cdma.hw.codec.registry import CodecRegistryError
from cdma.hw.config import CodecConfig, ConfigError, EngineConfig
from tests.hw.codec.xor.codec import Xor, xor_registered


class Tagged(Xor):
    name = "tagged"
    number = 7

    def head_bytes(self, config):
        return config.element_bytes


class PartialElements(Tagged):
    name = "ragged"
    number = 8

    def head_bytes(self, config):
        return 3


def test_codecs_are_found_by_name_and_number():
    with xor_registered() as xor:
        assert registry.line_codec("xor") is xor
        assert registry.codec_of_number(0x58) is xor
        assert "xor" in registry.codec_names()
    assert "xor" not in registry.codec_names()
    assert "xor" not in golden.codec_names()


def test_plain_copies_have_no_number():
    assert registry.copy_codec().name == "raw"
    assert registry.copy_codec() not in registry.compressing_codecs()
    numbers = [entry.number for entry in registry.compressing_codecs()]
    assert None not in numbers
    assert numbers == sorted(set(numbers))
    # Those of streams and descriptors that there are already.
    names = ("zvc", "xc", "quantize", "xc-fp16", "xc-e4m3", "xc-e5m2", "xc-fp32")
    assert [registry.line_codec(name).number for name in names] == list(range(7))


def test_plans_choose_among_lossless_codecs():
    names = ["zvc", "xc", "xc-fp16", "xc-e4m3", "xc-e5m2", "xc-fp32"]
    assert [entry.name for entry in registry.lossless_codecs()] == names
    for entry in registry.compressing_codecs():
        parameters = entry.all_parameters({} if entry.lossless else {"k": 128})
        model = entry.model(entry.array_element_bytes(1), parameters)
        assert entry.lossless == model.lossless == (model.name in golden.codec_names(lossy=False))


def test_names_are_identifiers_in_other_languages():
    for entry in registry.compressing_codecs():
        assert entry.identifier.isidentifier()


def test_unknown_names_and_numbers_are_refused():
    with pytest.raises(CodecRegistryError, match="unknown codec 'xor'; choose from zvc, raw"):
        registry.line_codec("xor")
    with pytest.raises(CodecRegistryError, match=r"number 88; choose from 0 \(zvc\)"):
        registry.codec_of_number(88)


@pytest.mark.parametrize(
    ("name", "number", "message"),
    [
        ("zvc", 3, "the codec 'zvc' is registered already; rename one"),
        ("raw", 3, "the codec 'raw' is registered already; rename one"),
        ("other", 0, "the codecs 'zvc' and 'other' have the same number, 0; change one"),
        ("other", 256, "the codec 'other' must have a number from 0 to 255, not 256"),
        ("other", None, "the codec 'other' must have a number from 0 to 255, not None"),
    ],
)
def test_second_codec_of_a_name_or_number_is_refused(name, number, message):
    entry = type("Other", (LineCodec,), {"name": name, "number": number})()
    before = registry.codec_names()
    with pytest.raises(CodecRegistryError, match=message):
        registry.register(entry)
    assert registry.codec_names() == before


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"parameters": {"a": 0}}, "the parameters of the codec 'other' must have at least a bit"),
        ({"parameters": {"a": 30, "b": 3}}, "at most 32 together, not 33"),
        (
            {"result": {"a": 33}, "line_summary_bits": 1},
            "the result of the codec 'other' must have",
        ),
        ({"result": {"a": 1}}, "must have both a result and line_summary_bits, or neither"),
        ({"line_summary_bits": 1}, "must have both a result and line_summary_bits, or neither"),
        ({"counted": True, "locates_errors": True}, "is counted and locates errors itself"),
    ],
)
def test_declaration_that_contradicts_itself_is_refused(declared, message):
    entry = type("Other", (LineCodec,), {"name": "other", "number": 9, **declared})()
    with pytest.raises(CodecRegistryError, match=message):
        registry.register(entry)


def test_golden_format_of_a_taken_name_is_refused():
    with (
        pytest.raises(golden.CodecError, match="the codec 'zvc' is registered already"),
        golden.registered("zvc", golden.codec),
    ):
        pass
    assert golden.codec("zvc").name == "zvc"


@pytest.mark.parametrize(
    ("codecs", "message"),
    [
        (("lz4", "raw"), "codecs: unknown codec 'lz4'; choose from zvc, raw"),
        (("zvc",), "codecs must contain 'raw', for plain copies, not zvc"),
        (("zvc", "zvc", "raw"), "codecs must be different ones"),
    ],
)
def test_engine_of_codecs_that_cannot_be_is_refused(codecs, message):
    with pytest.raises(ConfigError, match=message):
        CodecConfig(codecs=codecs)


def test_heads_are_of_whole_elements():
    with registry.registered(Tagged()), registry.registered(PartialElements()):
        assert CodecConfig(codecs=("tagged", "raw")).head_elements == 1
        assert CodecConfig(codecs=("tagged", "zvc", "raw")).worst_line_bytes == 132
        with pytest.raises(ConfigError, match=r"'ragged' must have a head of whole .* not of 3"):
            CodecConfig(codecs=("ragged", "raw"))
        several = CodecConfig(element_bytes=2, codecs=("tagged", "zvc", "raw"))
        assert several.head_elements == 4


ANY_ELEMENTS = [
    name for name in registry.codec_names() if not registry.line_codec(name).element_format
]
"""Codecs of elements of any size, whose lengths follow from how many of them are zero."""


@pytest.mark.parametrize("name", ANY_ELEMENTS)
@pytest.mark.parametrize("element_bytes", [4, 2, 1])
@pytest.mark.parametrize("nbytes", [0, 1, 3, 4, 127, 128, 129, 1000])
def test_worst_sizes_are_those_of_the_golden_format(name, element_bytes, nbytes):
    entry = registry.line_codec(name)
    config = CodecConfig(element_bytes=element_bytes)
    model = golden.codec(name, element_bytes)
    data = np.random.default_rng(nbytes).integers(1, 256, nbytes, np.uint8)
    stream = model.compress(data)
    assert stream.size == entry.worst_stream_bytes(nbytes, config)
    assert model.line_sizes(data).max(initial=0) <= entry.worst_line_bytes(config)
    np.testing.assert_array_equal(model.decompress(stream, nbytes), data)


@pytest.mark.parametrize("density", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("name", ANY_ELEMENTS)
def test_expected_sizes_are_those_of_the_golden_format(name, density):
    entry, config = registry.line_codec(name), CodecConfig()
    rng = np.random.default_rng(1)
    elements = rng.integers(1, 2**32, 1 << 18, np.uint32) * (rng.random(1 << 18) < density)
    found = golden.codec(name).compress(elements.astype(np.uint32)).size
    expected = entry.mean_stream_bytes(elements.size * 4, density, config)
    assert found == pytest.approx(expected, rel=0.01)
    sizes, chances = entry.payload_chances(density, config)
    line = entry.head_bytes(config) + np.dot(sizes, chances)
    assert line * elements.size / config.elements == pytest.approx(expected, rel=1e-9)
    if entry.counted:
        assert entry.density(expected, elements.size * 4, config) == pytest.approx(density)


def test_engine_tells_its_codecs():
    assert EngineConfig().codecs == ("zvc", "raw")
    codec = replace(CodecConfig(), codecs=("raw",))
    assert EngineConfig(codec=codec).codec.head_elements == 0
