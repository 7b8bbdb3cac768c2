"""The shipped samples of CSWAP+'s time model: that the RTL and the golden formats have said so."""

import json

import numpy as np
import pytest

from cdma import golden
from cdma.plan.platform.codec_rates import LAUNCH_SECONDS, codec_model
from cdma.plan.policies.cswap import model_samples, sample_names, shipped_samples
from cdma.plan.policies.cswap.samples import MODEL_BYTES, SHIPPED, SPARSE_RATIOS, shipped_conditions
from cdma.plan.timeline.errors import ScheduleError
from cdma.sim.execute import codec_samples as sampling

V100 = 900e9


@pytest.fixture(scope="module")
def measured() -> dict:
    return json.loads(SHIPPED.read_text())


def test_the_rtl_takes_the_same_cycles_again(measured):
    """Else the engine has changed: `python -m cdma.sim.execute.codec_samples`."""
    again = sampling.engine_rows(6)
    assert [list(row) for row in again] == measured["engine"]["rows"][:6]


def test_streams_of_the_engine_have_the_size_of_equation_7_with_masks(measured):
    for nbytes, ratio, stream_bytes, *_ in measured["engine"]["rows"]:
        assert stream_bytes / nbytes == pytest.approx(1 - ratio + 1 / 32, abs=1e-6)


@pytest.mark.parametrize("name", ["zvc", "csr", "zfp"])
def test_sizes_of_the_hosts_samples_are_the_formats_own(measured, name: str):
    """Times are of the processor that the samples name, and are not measured again."""
    nbytes, ratio, stream_bytes, *_ = measured["host"]["codecs"][name][0]
    if name == "zfp":
        codec, array = (
            golden.codec("zfp", rate=round((1 - ratio) * 128)),
            sampling.smooth(nbytes, 0),
        )
    else:
        codec, array = golden.codec(name), sampling.sparse(nbytes, ratio, 0)
    assert codec.compress(array).size == stream_bytes


def test_zfps_samples_have_every_parameter(measured):
    bits = {round((1 - row[1]) * 128) for row in measured["host"]["codecs"]["zfp"]}
    assert bits == set(range(9, 129))


def test_the_file_says_what_was_measured_where():
    conditions = shipped_conditions()
    assert conditions["command"] == "python -m cdma.sim.execute.codec_samples"
    assert conditions["engine"] == {"preset": "titanx_gen3", "clock_hz": 1e9}
    assert conditions["host"]["processor"]


@pytest.mark.parametrize("name", sample_names())
def test_shipped_samples_are_in_seconds(name: str, measured):
    samples = shipped_samples(name)
    assert len(samples) >= 200
    first = samples[0]
    kind = measured["engine"] if name == "engine" else measured["host"]
    row = kind["rows"][0] if name == "engine" else kind["codecs"][name][0]
    assert (first.nbytes, first.ratio) == (row[0], row[1])
    assert first.compress_seconds == pytest.approx(row[3] * 1e-9)
    assert first.decompress_seconds == pytest.approx(row[4] * 1e-9)


def test_unknown_samples_are_refused_with_those_there_are():
    with pytest.raises(ScheduleError, match="unknown samples 'gpu'; choose from engine, zvc"):
        shipped_samples("gpu")


def test_a_models_samples_cover_the_papers_sizes_and_ratios():
    samples = model_samples("zvc-sm", 2000, dram_bytes_per_s=V100)
    sizes, ratios = [s.nbytes for s in samples], [s.ratio for s in samples]
    assert MODEL_BYTES[0] * 0.99 < min(sizes) < MODEL_BYTES[0] * 1.1
    assert MODEL_BYTES[1] * 0.99 < max(sizes) < MODEL_BYTES[1]
    assert min(ratios) == pytest.approx(SPARSE_RATIOS[0], abs=0.01)
    assert max(ratios) == pytest.approx(SPARSE_RATIOS[1], abs=0.01)


def test_a_models_samples_are_the_models_times():
    samples = model_samples("zfp", 240, dram_bytes_per_s=2 * V100)
    assert {round((1 - s.ratio) * 128) for s in samples} == set(range(9, 129))
    sample = samples[0]
    stream = codec_model("zfp-9").stream_bytes(sample.nbytes, 1.0)
    seconds = LAUNCH_SECONDS + (sample.nbytes + stream) / 180e9 / 2
    assert sample.compress_seconds == sample.decompress_seconds == pytest.approx(seconds)


def test_samples_are_reproducible_by_their_seed():
    one, same, other = (
        model_samples("zvc-sm", 5, dram_bytes_per_s=V100, seed=s) for s in (1, 1, 2)
    )
    assert one == same != other


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "samples.json"
    sampling.write({"rows": [(1, 0.5, 3, 4, 5)], "unit": "ns"}, path)
    assert "[1, 0.5, 3, 4, 5]" in path.read_text()
    with pytest.raises(TypeError):
        sampling.write({"rows": object()}, path)
    assert json.loads(path.read_text()) == {"rows": [[1, 0.5, 3, 4, 5]], "unit": "ns"}
    assert list(tmp_path.iterdir()) == [path]


def test_the_generator_makes_the_share_of_zeros_that_it_is_asked_for():
    array = sampling.sparse(4096, 0.25, 3)
    assert (array.nbytes, array.dtype) == (4096, np.float32)
    assert np.count_nonzero(array) == 768
