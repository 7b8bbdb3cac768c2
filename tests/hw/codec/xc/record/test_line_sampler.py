"""Samples of lines, bit for bit as golden, at every width."""

import numpy as np
import pytest

from cdma.golden.formats.xc.recorded import line_samples
from cdma.hw.codec.xc.record.line_sampler import LineSampler
from tests.hw.codec.xc.lines import FORMATS, lines_of, sectors_of, xc_config
from tests.lib.rtl.bench import Bench, always, stalls
from tests.lib.shares import widths


@pytest.fixture(scope="module", params=FORMATS, ids=[form.name for form in FORMATS])
def elements(request):
    return request.param


@pytest.fixture(scope="module", params=widths(32, 64, 128, quick=[32, 128]))
def bench(request, elements):
    return Bench(LineSampler(xc_config(request.param, elements), elements))


def sample(bench, lines, *, source=always, sink=always):
    component = bench.component
    elements = component.elements
    words = line_samples(lines.reshape(-1), elements)
    most = (1 << elements.exponent_bits) - 1
    wanted = [
        {"exponent": int(word) >> elements.mantissa_bits & most, "present": int(word != 0)}
        for word in words
    ]
    given = bench.source(component.i, sectors_of(component.config, lines, 0, 0), willing=source)
    taken = bench.sink(component.o, len(lines), willing=sink)
    bench.run()
    taken.assert_received(wanted)
    return given, taken


def test_samples_are_those_of_the_golden_model(bench, elements):
    lines = lines_of(elements, np.random.default_rng(1), 300)
    # Lines that are zero but for one element.
    lonely = np.zeros((200, elements.line_elements), f"<u{elements.element_bytes}")
    places = np.random.default_rng(2).integers(0, elements.line_elements, 200)
    lonely[np.arange(200), places] = (1 << elements.mantissa_bits) + places
    sample(bench, np.concatenate([lines, lonely.view(np.uint8).reshape(200, 128)]))


def test_backpressure_changes_nothing(bench, elements):
    lines = lines_of(elements, np.random.default_rng(3), 50)
    sample(bench, lines, source=stalls(0.3, 1), sink=stalls(0.5, 2))


def test_a_sample_comes_a_cycle_behind_its_line_and_none_waits(bench, elements):
    lines = lines_of(elements, np.random.default_rng(4), 20)
    given, taken = sample(bench, lines)
    sectors = bench.component.config.sectors
    assert taken.cycles == [
        cycle + LineSampler.sample_latency for cycle in given.cycles[sectors - 1 :: sectors]
    ]
    assert given.cycles == list(range(sectors * len(lines)))
