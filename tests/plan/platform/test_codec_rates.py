"""Codec models: stream sizes and times."""

from itertools import pairwise

import pytest

from cdma.plan.platform.codec_rates import CODEC_MODELS, LAUNCH_SECONDS, codec_model
from cdma.plan.platform.device import device
from cdma.plan.timeline.errors import ScheduleError

DENSITIES = (0.0, 0.1, 0.38, 0.5, 0.9, 1.0)
MEBIBYTE = 1 << 20
V100 = device("v100").dram_bytes_per_s


@pytest.mark.parametrize("name", ["zvc", "zvc-sm", "zvc-host"])
@pytest.mark.parametrize("density", DENSITIES)
def test_zvc_leaves_a_mask_and_what_is_not_zero(name: str, density: float) -> None:
    ratio = MEBIBYTE / codec_model(name).stream_bytes(MEBIBYTE, density)
    assert ratio == pytest.approx(1 / (density + 1 / 32))


@pytest.mark.parametrize(
    ("density", "ratio"),
    # cDMA: "up to 32x", 3.1 % of overhead, and 60 % of zeros, which it calls 2.5x.
    [(0.0, 32.0), (1.0, 32 / 33), (0.4, 2.319), (0.38, 2.4316)],
)
def test_zvcs_ratios_are_cdmas_with_the_mask(density: float, ratio: float) -> None:
    assert MEBIBYTE / codec_model("zvc").stream_bytes(MEBIBYTE, density) == pytest.approx(
        ratio, abs=5e-4
    )


@pytest.mark.parametrize("bits", [9, 32, 64, 100, 128])
@pytest.mark.parametrize("density", [0.0, 1.0])
def test_zfp_takes_its_bits_of_128_whatever_the_density(bits: int, density: float) -> None:
    """CSWAP+, Eq. 7."""
    stream = codec_model(f"zfp-{bits}").stream_bytes(MEBIBYTE, density)
    assert stream == MEBIBYTE * bits / 128


def test_zvcs_index_is_a_thirty_second_and_csrs_as_long_as_the_values() -> None:
    """CSWAP+: 3 % against 50 %, at 50 % sparsity."""
    values = MEBIBYTE * 0.5
    assert codec_model("zvc-sm").stream_bytes(MEBIBYTE, 0.5) - values == MEBIBYTE / 32
    assert codec_model("csr-sm").stream_bytes(MEBIBYTE, 0.5) - values == MEBIBYTE / 2


@pytest.mark.parametrize("name", [name for name in CODEC_MODELS if not name.startswith("zfp")])
def test_fewer_zeros_never_make_a_stream_shorter(name: str) -> None:
    model = codec_model(name)
    streams = [model.stream_bytes(MEBIBYTE, density) for density in DENSITIES]
    # All of a tensor may be zero; something still has to say so.
    assert streams[0] >= 1
    # Lines of XC that are full have no mask, so that the first zero costs one.
    masks = MEBIBYTE // 8 if name.startswith("xc") else 0
    for fewer, more in pairwise(streams):
        assert fewer <= more + masks
    assert streams[-1] <= 2 * MEBIBYTE


@pytest.mark.parametrize("name", CODEC_MODELS)
def test_only_multiprocessors_take_time(name: str) -> None:
    model = codec_model(name)
    seconds = model.seconds(MEBIBYTE, 0.5, V100)
    if model.where == "sm":
        assert seconds > LAUNCH_SECONDS
    else:
        assert seconds == 0


def test_time_is_a_launch_and_both_sides_at_their_rates_by_the_devices_memory() -> None:
    model = codec_model("lz4-sm")
    stream = model.stream_bytes(MEBIBYTE, 0.38)
    # 1.80x (spec of codecs).
    assert MEBIBYTE / stream == pytest.approx(1.80, abs=0.01)
    work = MEBIBYTE / 40e9 + stream / 80e9
    assert model.seconds(MEBIBYTE, 0.38, V100) == pytest.approx(LAUNCH_SECONDS + work)
    half = model.seconds(MEBIBYTE, 0.38, V100 / 2)
    assert half == pytest.approx(LAUNCH_SECONDS + 2 * work)


def test_lossy_codecs_say_so() -> None:
    lossy = {name for name, model in CODEC_MODELS.items() if not model.lossless}
    assert lossy == {"quantize", "quantize-sm", *(f"zfp-{bits}" for bits in range(9, 129))}


@pytest.mark.parametrize("name", ["gzip", "zfp-8", "zfp-129", "ZVC", ""])
def test_an_unknown_codec_is_refused_with_those_there_are(name: str) -> None:
    message = (
        f"^unknown codec {name!r}; choose from zvc, xc, quantize, xc-fp16, xc-e4m3, xc-e5m2, "
        "xc-fp32, zvc-sm, csr-sm, rle-sm, lz4-sm, "
        "zvc-host, quantize-sm, zfp-9 … zfp-128$"
    )
    with pytest.raises(ScheduleError, match=message):
        codec_model(name)


def test_a_timed_rate_stands_in_for_the_declared_one() -> None:
    timed = {"zvc-sm": 2e9, "zfp": 4e9}
    model = codec_model("zvc-sm")
    stream = model.stream_bytes(MEBIBYTE, 0.5)
    seconds = model.seconds(MEBIBYTE, 0.5, 900e9, timed=timed)
    assert seconds == pytest.approx(LAUNCH_SECONDS + (MEBIBYTE + stream) / 2e9)
    assert codec_model("zfp-32").rates(900e9, timed) == (4e9, 4e9)
    assert codec_model("csr-sm").rates(900e9, timed) == codec_model("csr-sm").rates(900e9)
    # Declared rates are a V100's.
    assert codec_model("csr-sm").rates(450e9) == (125e9, 125e9)
