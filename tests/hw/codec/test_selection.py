"""Lines of several codecs through pipelines side by side: in order, whatever stalls."""

import random

import numpy as np
import pytest
from amaranth.hdl import Fragment

from cdma.hw.codec.payloads import Truncation
from cdma.hw.codec.selection import (
    SelectedCompressor,
    SelectedDecompressor,
    line_compressor,
    pipelines,
)
from cdma.hw.codec.zvc.compressor import ZvcCompressor
from cdma.hw.config import CodecConfig
from tests.hw.codec.xor.codec import xor_registered
from tests.hw.codec.xor.golden_model import XorModel
from tests.lib.rtl.bench import STALLS, Bench, stalls
from tests.lib.rtl.payloads import line_beats_of


@pytest.fixture(scope="module", autouse=True)
def xor():
    with xor_registered():
        yield


@pytest.fixture(scope="module", params=[("xor", "raw"), ("zvc", "xor", "raw")], ids="-".join)
def config(xor, request):
    return CodecConfig(codecs=request.param)


@pytest.fixture(scope="module")
def compressor(config):
    return Bench(SelectedCompressor(config))


@pytest.fixture(scope="module")
def decompressor(config):
    return Bench(SelectedDecompressor(config))


def lines_of(config, seed, count=30):
    """(index of the codec, content) of lines; more often than not a line's codec is the last's."""
    generator = random.Random(seed)
    lines, index = [], 0
    for number in range(count):
        if generator.random() < 0.4:
            index = generator.randrange(len(config.codecs))
        rng = np.random.default_rng(seed * count + number)
        data = rng.integers(0, 256, 128, np.uint8) * (rng.random(128) < 0.7).astype(np.uint8)
        lines.append((index, data))
    return lines


def words(config, data):
    return np.asarray(data, np.uint8).view(f"<u{config.element_bytes}").tolist()


def sectors_of(config, index, data):
    found = words(config, data)
    return [
        {"elements": found[at : at + config.lanes], "codec": index}
        for at in range(0, config.elements, config.lanes)
    ]


def beats_of(config, index, data):
    """The line in its codec."""
    name = config.codecs[index]
    if name == "zvc":
        return [{**beat, "last": 0} for beat in line_beats_of(config, data.tobytes())]
    stream = words(config, XorModel().compress(data) if name == "xor" else data)
    # Copies go through ZVC's pipelines, if there are some, as lines without a zero.
    masked = name == "raw" and "zvc" in config.codecs
    return [
        {
            "mask": (1 << config.elements) - 1 if masked and not at else 0,
            "elements": stream[at : at + config.lanes],
            "count": config.lanes,
            "sol": int(at == 0),
            "eol": int(at + config.lanes == config.elements),
        }
        for at in range(0, config.elements, config.lanes)
    ]


@pytest.mark.parametrize("probabilities", STALLS)
def test_lines_are_compressed_each_by_its_codec(compressor, config, probabilities):
    lines = lines_of(config, 1)
    compressor.source(
        compressor.component.i,
        [sector for line in lines for sector in sectors_of(config, *line)],
        willing=stalls(probabilities[0], seed=1),
    )
    expected = [beat for line in lines for beat in beats_of(config, *line)]
    taken = compressor.sink(
        compressor.component.o, len(expected), willing=stalls(probabilities[1], seed=2)
    )
    compressor.run()
    taken.assert_received(expected)


def full_beats(config, index, data):
    """The line as the splitter gives it: its last beat is a transfer's, copies have full masks."""
    beats = [dict(beat) for beat in beats_of(config, index, data)]
    if config.codecs[index] == "raw":
        beats[0]["mask"] = (1 << config.elements) - 1
    beats[-1]["last"] = 1
    return beats


@pytest.mark.parametrize("probabilities", STALLS)
def test_lines_are_expanded_each_by_its_codec(decompressor, config, probabilities):
    lines = lines_of(config, 2)
    component = decompressor.component
    decompressor.source(
        component.format,
        [{"codec": index, "parameters": 0} for index, _ in lines],
        willing=stalls(probabilities[0], seed=3),
    )
    decompressor.source(
        component.i,
        [beat for line in lines for beat in full_beats(config, *line)],
        willing=stalls(probabilities[0], seed=1),
    )
    count = len(lines) * config.sectors
    taken = decompressor.sink(component.o, count, willing=stalls(probabilities[1], seed=2))
    decompressor.run()
    found = [element for sector in taken.payloads for element in sector["elements"]]
    assert found == [word for _, data in lines for word in words(config, data)]
    assert not any(sector["missing"] for sector in taken.payloads)
    assert [s["last"] for s in taken.payloads] == ([0] * (config.sectors - 1) + [1]) * len(lines)


@pytest.mark.parametrize(
    ("cut", "elements"),
    [
        *(pytest.param(False, elements, id=f"short-{elements}") for elements in (1, 7, 8, 9, 31)),
        *(
            pytest.param(True, elements, id=f"damaged-{elements}")
            for elements in (0, 1, 7, 8, 9, 31)
        ),
    ],
)
def test_short_copy_is_filled_with_zeros_and_a_damaged_one_ends(
    decompressor, config, elements, cut
):
    """A copy's last line may be short; where elements are missing the line ends."""
    lanes, sectors = config.lanes, config.sectors
    data = np.arange(1, config.elements + 1, dtype=np.uint32)[:elements]
    full = elements // lanes
    beats = [
        {"elements": data[k * lanes : (k + 1) * lanes].tolist(), "count": lanes}
        for k in range(full)
    ]
    rest = data[full * lanes :].tolist()
    if rest or cut:
        padded = [*rest, *[0] * (lanes - len(rest))]
        beats.append({"elements": padded, "count": len(rest)})
    due = config.elements if cut else elements
    beats[0] |= {"sol": 1, "mask": (1 << due) - 1}
    beats[-1] |= {"eol": 1, "last": 1, "truncation": Truncation.PAYLOAD if cut else Truncation.NONE}
    component = decompressor.component
    decompressor.source(component.format, [{"codec": config.copy_index, "parameters": 0}] * 2)
    decompressor.source(component.i, beats * 2)
    expected = full + 1 if cut else sectors
    taken = decompressor.sink(component.o, 2 * expected)
    decompressor.run()
    for start in (0, expected):
        line = taken.payloads[start : start + expected]
        found = [element for sector in line for element in sector["elements"]]
        assert found[:elements] == data.tolist()
        assert cut or not any(found[elements:])
        assert [sector["last"] for sector in line] == [0] * (expected - 1) + [1]
        missing = ((1 << lanes) - 1) & ~((1 << len(rest)) - 1) if cut else 0
        assert line[-1]["missing"] == missing


def test_engine_of_one_codec_has_its_pipelines_alone():
    block = line_compressor(CodecConfig())
    # What is made must be used.
    Fragment.get(block, None)
    assert isinstance(block, ZvcCompressor)
    assert [(e.name, i) for e, i in pipelines(CodecConfig())] == [("zvc", (0, 1))]
    assert [(e.name, i) for e, i in pipelines(CodecConfig(codecs=("raw",)))] == [("raw", (0,))]
