"""The choices of `--codec auto`, beside the sizes of the whole arrays in every codec."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cdma import golden
from cdma.golden.formats.bf16 import rounded_to_bf16
from cdma.golden.formats.sample import SAMPLE_LINES, sample
from cdma.hw.config import ConfigError
from cdma.sim.driver import THROTTLES
from cdma.sim.swap import EngineBackend, Swapper
from cdma.sim.swap.encoding import AUTO
from tests.sim.machine.engine.bench import NEAR
from tests.sim.machine.engine.cases import SMALL

LINES = 40
WITH_XC = replace(SMALL, codec=replace(SMALL.codec, element_bytes=1, codecs=("zvc", "raw", "xc")))
WITH_QUANTIZE = replace(WITH_XC, codec=replace(WITH_XC.codec, codecs=("zvc", "raw", "quantize")))

Array = np.ndarray[Any, np.dtype[Any]]


def backend(config=SMALL, codec=AUTO, **options):
    around = replace(NEAR, channels=config.units)
    return EngineBackend(config, around, throttle=THROTTLES["none"], codec=codec, **options)


@pytest.fixture
def auto() -> Iterator[Swapper]:
    with Swapper(backend()) as made:
        yield made


def gaussian(elements: int, density: float = 1.0) -> Array:
    rng = np.random.default_rng(elements)
    values = rng.standard_normal(elements).astype(np.float32)
    # A product with 0 would leave zeros of both signs, which ZVC keeps apart.
    return np.where(rng.random(elements) < density, values, np.float32(0))


def bytes_of(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


@pytest.mark.parametrize(
    ("array", "codec"),
    [
        (gaussian(32 * LINES, 0.3), "zvc"),
        (gaussian(32 * LINES), "raw"),
        (np.zeros(32 * LINES, np.float32), "zvc"),
        (np.zeros(0, np.float32), "zvc"),
        # A half of the elements, and so more than the masks cost.
        (gaussian(32 * LINES, 0.5), "zvc"),
    ],
)
def test_the_smallest_is_chosen(array, codec):
    with Swapper(backend()) as made:
        found = made.backend.encoding(bytes_of(array), 4)
    assert found.codec == codec
    sizes = [golden.codec(name, 4).compress(array).size for name in ("zvc", "raw")]
    assert found.model.compress(bytes_of(array)).size == min(sizes)


@pytest.mark.parametrize("density", [1.0, 0.4, 0.05])
def test_bf16_goes_in_the_codec_for_it_with_parameters_that_suit_it(density):
    array = rounded_to_bf16(gaussian(64 * LINES, density))
    with Swapper(backend(WITH_XC)) as made:
        found = made.backend.encoding(bytes_of(array), 2)
    others = [golden.codec(name, 1).compress(bytes_of(array)).size for name in ("zvc", "raw")]
    assert found.codec == "xc"
    assert found.model.compress(bytes_of(array)).size < min(others)


def test_a_codec_that_does_not_take_the_elements_is_no_choice():
    with Swapper(backend(WITH_XC)) as made:
        assert made.backend.encoding(bytes_of(gaussian(320)), 4).codec == "raw"


def test_what_the_sample_shows_decides():
    """Every second line is dense; a sample in step with them would have too many of one kind."""
    lines = np.zeros((4 * SAMPLE_LINES, 32), np.float32)
    lines[::2] = 1.0
    taken = sample(bytes_of(lines))
    assert taken.size == SAMPLE_LINES * 128
    dense = taken.reshape(-1, 128).any(axis=1).mean()
    assert dense == pytest.approx(0.5, abs=0.05)
    # Nothing of a short array is lost.
    assert np.array_equal(sample(bytes_of(lines[:3])[:300]), bytes_of(lines[:3])[:300])


def test_arrays_of_different_codecs_go_through_one_queue(auto):
    arrays = [gaussian(3000, density) for density in (0.2, 1.0, 0.4, 1.0)]
    run = auto.swap([(str(k), array) for k, array in enumerate(arrays)], baselines=False)
    assert all(round_trip.bit_exact for round_trip in run.round_trips)
    assert [round_trip.codec for round_trip in run.round_trips] == ["zvc", "raw", "zvc", "raw"]
    for array, round_trip in zip(arrays, run.round_trips, strict=True):
        assert round_trip.compressed_bytes == golden.codec(round_trip.codec, 4).compress(array).size


@pytest.mark.verify
def test_elements_of_all_sizes_go_through_engines_that_have_codecs_for_them():
    arrays = [
        rounded_to_bf16(gaussian(3000)),
        gaussian(1500, 0.3),
        np.arange(999, dtype=np.uint8),
        rounded_to_bf16(gaussian(2001, 0.1)),
    ]
    with Swapper(backend(replace(WITH_XC, units=1))) as made:
        run = made.swap([(str(k), array) for k, array in enumerate(arrays)], baselines=False)
    assert all(round_trip.bit_exact for round_trip in run.round_trips)
    assert [round_trip.codec for round_trip in run.round_trips] == ["xc", "zvc", "raw", "xc"]


@pytest.mark.parametrize("nbytes", [1, 1002])
def test_data_that_end_within_a_value_are_refused_before_any_rtl(nbytes):
    made = backend(WITH_QUANTIZE, codec="quantize", parameters={"k": 120})
    with pytest.raises(
        golden.CodecError, match=f"takes whole values of 4 bytes, not {nbytes} bytes; fill"
    ):
        made.encoding(np.ones(nbytes, np.uint8), 4)


def test_parameters_for_no_codec_in_particular_are_refused():
    with pytest.raises(ConfigError, match="parameters must be left out with 'auto'"):
        backend(WITH_XC, parameters={"centre": 127})
