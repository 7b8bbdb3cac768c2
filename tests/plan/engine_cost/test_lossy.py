"""Times in a lossy codec: lines measured by the golden model, and the closed form against RTL."""

import numpy as np
import pytest

from cdma import golden
from cdma.golden.formats.lossy.power_of_two import bound_of
from cdma.hw.codec.registry import line_codec
from cdma.hw.config import ConfigError
from cdma.plan.engine_cost import LineSizes, NetworkEstimate, Setup, captured_sizes
from cdma.plan.workload import load_capture
from cdma.plan.workload.density import density
from cdma.plan.workload.graph import Graph
from tests.plan.engine_cost.cases import Rig, captured

TOLERANCE = 0.01
SETUP = Setup.named("titanx_gen3").with_codec("quantize")
CODEC = SETUP.engine.codec
KS = (112, 121, 124, 127)
"""Bounds of 2^-16, 2^-7, 1/16 and 1/2: of 2 to 40 times smaller."""


def model_of(k):
    return golden.codec("quantize", bound=bound_of(k))


def numbers(width, count=32 << 10):
    """Values of so many bits each, in steps of 2b with k = 128."""
    rng = np.random.default_rng(width)
    return 2.0 * rng.integers(-(2 ** (width - 1)), 2 ** (width - 1), count)


@pytest.fixture(scope="module")
def rig():
    made = Rig(SETUP)
    yield made
    made.close()


def errors(rig, array, k):
    """Estimate over RTL, less 1, by way and by what it knows."""
    data = array.view(np.uint8)
    lines = model_of(k).line_sizes(array)
    stream, measured = rig.round_trips(data, 1, "quantize", {"k": k})
    assert lines.sum() == stream
    known = {
        "sizes": {"sizes": LineSizes.of_lines(lines, CODEC)},
        "lines": {"lines": lines.tolist()},
    }
    return {
        (way, knows): SETUP.cost(data.size, stream, way, **given).cycles / cycles - 1
        for way, cycles in measured.items()
        for knows, given in known.items()
    }


@pytest.mark.verify
class TestAgainstTheRtl:
    @pytest.mark.parametrize("width", [1, 4, 8, 9, 16, 22])
    def test_lines_of_equal_numbers(self, rig, width):
        found = errors(rig, numbers(width).astype("<f4"), 128)
        assert max(map(abs, found.values())) <= TOLERANCE, found

    @pytest.mark.parametrize("value", [0.0, 1e30], ids=["zeros", "raw"])
    def test_shortest_and_longest_lines(self, rig, value):
        found = errors(rig, np.full(32 << 10, value, "<f4"), 128)
        assert max(map(abs, found.values())) <= TOLERANCE, found

    @pytest.mark.parametrize("k", KS)
    def test_captured_activations(self, rig, k):
        for case in captured(256 << 10):
            found = errors(rig, case.array.view("<f4"), k)
            assert max(map(abs, found.values())) <= TOLERANCE, (case.pattern, k, found)


def graph_of(name, epoch):
    return density.apply(Graph.from_table(name), "digits-cnn", epoch, 13)


def sizes_of(name, k, epoch=12):
    source = density.find("digits-cnn")
    assert isinstance(source, density.Captured)
    graph = graph_of(name, epoch)
    return captured_sizes(graph, source, epoch, 13, codec=CODEC, parameters={"k": k})


@pytest.mark.parametrize("k", KS)
@pytest.mark.parametrize(("epoch", "at"), [(0, 0), (2, 2), (12, 12)])
def test_tensors_of_the_captured_network_have_the_golden_model_s_streams(k, epoch, at):
    found = sizes_of("digits_cnn", k, epoch)
    arrays = [a for a in load_capture("digits-cnn").activations if a.epoch == at]
    assert len(arrays) == 7
    for one in arrays:
        stream = model_of(k).compress(one.array)
        estimated = found[one.layer].lines.stream_bytes(one.array.nbytes, CODEC)
        assert estimated == pytest.approx(stream.size)
        assert found[one.layer].measured_on == "tensor"


def test_epochs_between_captured_ones_are_between():
    early, between, late = (
        sizes_of("digits_cnn", 121, epoch)["conv2.relu"].lines.mean_payload for epoch in (2, 7, 12)
    )
    assert between == pytest.approx((early + late) / 2)
    assert late < early


def test_other_networks_have_the_lines_of_captured_layers_of_their_kind():
    found = sizes_of("vgg16", 121)
    own = sizes_of("digits_cnn", 121)
    first, last = own["conv0.relu"].lines.mean_payload, own["fc0.relu"].lines.mean_payload
    assert found["relu1_1"].measured_on == "kind"
    assert found["relu1_1"].lines.mean_payload == pytest.approx(first)
    assert min(first, last) > 0
    # Where no array stands for a tensor, no stream is longer than what counts.
    for name in ("drop6", "prob"):
        assert found[name].measured_on == "worst case"
        assert found[name].lines == LineSizes((128,), (1.0,))
    for each in found.values():
        assert sum(each.lines.chances) == pytest.approx(1)


def test_a_tighter_bound_takes_longer():
    totals = []
    for k in KS:
        lines = {name: each.lines for name, each in sizes_of("digits_cnn", k).items()}
        made = NetworkEstimate.of(graph_of("digits_cnn", 12), SETUP, lines)
        totals.append((made.stream_bytes, sum(each.cycles for each in made.offload)))
    assert totals == sorted(totals, reverse=True)


def test_lines_of_several_parts_are_mixed():
    halves = [LineSizes((0, 8), (0.5, 0.5)), LineSizes((8, 128), (0.25, 0.75))]
    mixed = LineSizes.mixed(zip((0.5, 0.5), halves, strict=True))
    assert dict(zip(mixed.payloads, mixed.chances, strict=True)) == {0: 0.25, 8: 0.375, 128: 0.375}
    assert mixed.stream_bytes(129, CODEC) == 2 * (1 + mixed.mean_payload)
    lines = model_of(121).line_sizes(numbers(9, 1000).astype("<f4"))
    assert LineSizes.of_lines(lines, CODEC).stream_bytes(4000, CODEC) == pytest.approx(lines.sum())


@pytest.mark.parametrize("name", ["quantize", "xc", "zvc"])
def test_an_engine_is_given_another_codec(name):
    codec = Setup.named("titanx_gen3").with_codec(name).engine.codec
    assert codec.codecs[0] == name
    assert codec.element_bytes == line_codec(name).granule_bytes({"xc": 2}.get(name, 4))
    with pytest.raises(ConfigError, match="codecs: unknown codec 'lz4'; choose from zvc, raw"):
        Setup.named("titanx_gen3").with_codec("lz4")


@pytest.mark.parametrize(("codec", "inward"), [("quantize", 1.0), ("zvc", 0.5)])
def test_two_short_lines_leave_together_whatever_their_codec(codec, inward):
    """The way in finds as many lines in a cycle as the codec's unpacker does."""
    setup = Setup.named("titanx_gen3").with_codec(codec).with_units(16).with_buffer_bytes(512 << 10)
    lines, head = 1 << 17, setup.engine.codec.entries[0].head_bytes(setup.engine.codec)
    for way, cycles in (("out", 0.5), ("in", inward)):
        cost = setup.cost(lines * 128, lines * head, way, sizes=LineSizes((0,), (1.0,)))
        assert (cost.flow_cycles / lines, cost.limit) == (cycles, "port"), way
