"""A calibration with a made-up clock: everything is where the times put it, and is a device."""

import pytest

from cdma.plan.calibration.calibrate import CalibrationError, calibrate, find_device
from cdma.plan.calibration.codecs import TIMED_CODECS
from cdma.plan.platform.device import Device
from cdma.plan.platform.link import Link
from cdma.plan.workload.layers import KINDS

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

SECONDS = 0.5


class Constant:
    """A stopwatch by which everything takes half a second."""

    def time(self, work):
        return (2 * SECONDS, SECONDS)


@pytest.fixture(scope="module")
def found():
    return calibrate("cpu", name="mine", engine="titanxp_gen3", stopwatch=Constant())


def test_it_is_a_device_and_a_link_with_all_that_was_timed(found):
    device = found.device
    assert isinstance(device, Device)
    assert isinstance(found.link, Link)
    assert (device.name, found.link.name, device.engine) == ("mine", "mine", "titanxp_gen3")
    assert list(device.efficiency) == list(device.efficiency_error) == list(KINDS)
    assert list(device.codec_bytes_per_s) == list(device.codec_error) == list(TIMED_CODECS)
    assert set(found.codecs_left_out) == {"rle-sm", "lz4-sm", "zfp"}
    assert "on cpu" in device.source


def test_peaks_are_the_most_that_was_done_in_the_time(found):
    most = max(timing.flops for timing in found.timings if not timing.narrow)
    assert found.device.peak_flops == pytest.approx(most / SECONDS, rel=1e-3)
    # Three arrays of 64 MiB.
    assert found.device.dram_bytes_per_s == pytest.approx(3 * 2**26 / SECONDS, rel=1e-3)


def test_efficiencies_are_the_planned_times_beside_the_taken(found):
    at_peak = {kind: [] for kind in KINDS}
    for timing in found.timings:
        if timing.kind in at_peak:
            seconds = max(
                timing.flops / found.device.peak_flops,
                timing.nbytes / found.device.dram_bytes_per_s,
            )
            at_peak[timing.kind].append(seconds)
    for kind in set(KINDS) - {"lstm"}:
        mean = sum(at_peak[kind]) / len(at_peak[kind]) / SECONDS
        assert found.device.efficiency[kind] == pytest.approx(mean, rel=1e-3), kind


def test_rates_of_copies_are_bytes_over_time(found):
    assert found.link.bytes_per_s == found.link.in_bytes_per_s
    assert found.link.bytes_per_s == pytest.approx((8 + 32) * 2**20 / (2 * SECONDS), rel=1e-3)
    assert found.link.efficiency == 1


def test_networks_are_planned_with_the_device_and_timed(found):
    assert {check.name for check in found.networks} == {"convolutions", "transformer"}
    for check in found.networks:
        assert check.seconds == SECONDS
        assert check.error == pytest.approx(SECONDS / check.planned_seconds - 1)


def test_bfloat16_that_is_no_faster_is_left_out(found):
    assert found.device.narrow_flops is None
    # The small product was slow enough to tell.
    assert sum(timing.narrow for timing in found.timings) == 1


def test_a_device_that_pytorch_does_not_find_is_refused():
    with pytest.raises(CalibrationError, match=r"finds no device 'tpu' here; choose .*cpu"):
        find_device("tpu")
