"""The closed form of a transfer's time against the engine's RTL."""

from dataclasses import replace

import numpy as np
import pytest

from cdma.hw.config import preset
from cdma.plan.engine_cost import (
    EstimateError,
    Setup,
    queue_cycles,
    transfer_cost,
    transfer_seconds,
)
from cdma.plan.engine_cost.packing import LineSizes, line_cycles
from cdma.sim.driver import THROTTLES
from cdma.sim.machine import machine_config
from tests.bench.engine.data import DENSE, with_ratio
from tests.plan.engine_cost.cases import SETUPS, Rig, captured, clustered, uniform

SHAPE = preset("titanx_gen3")
MACHINE = machine_config("titanx_gen3")
PACKETS = SETUPS["with packets"].machine
TOLERANCE = 0.01
QUEUED_TOLERANCE = 0.05
SHORT_TOLERANCE = 0.05
"""Of less than 64 KiB."""


def estimate(nbytes, stream, way, machine=MACHINE, **options):
    return transfer_cost(nbytes, stream, way=way, machine=machine, engine=SHAPE, **options)


@pytest.fixture(scope="module")
def rig():
    made = {}

    def get(machine=MACHINE, throttle="none"):
        key = machine, throttle
        if key not in made:
            throttled = THROTTLES[throttle]
            made[key] = Rig(
                Setup(config="titanx_gen3", engine=SHAPE, machine=machine, throttle=throttled)
            )
        return made[key]

    yield get
    for one in made.values():
        one.close()


class TestAgainstTheRtl:
    @pytest.mark.parametrize("nbytes", [64 << 10, 200 << 10])
    @pytest.mark.parametrize("ratio", [DENSE, 1.5, 2.6, 6, 12, 16, 31])
    def test_compressed(self, rig, nbytes, ratio):
        array = with_ratio(nbytes, ratio, "random")
        stream, measured = rig().round_trips(array, 1, "zvc")
        for way, cycles in measured.items():
            assert estimate(nbytes, stream, way).cycles == pytest.approx(cycles, rel=TOLERANCE), way

    @pytest.mark.parametrize("nbytes", [64 << 10, 200_000])
    def test_plain(self, rig, nbytes):
        array = with_ratio(nbytes, 2, "random")
        _, measured = rig().round_trips(array, 1, None)
        for way, cycles in measured.items():
            found = estimate(nbytes, nbytes, way, compressed=False).cycles
            assert found == pytest.approx(cycles, rel=TOLERANCE), way

    @pytest.mark.parametrize("ratio", [1, 2.6, 16])
    def test_overhead_of_packets_and_a_longer_way(self, rig, ratio):
        nbytes = 128 << 10
        stream, measured = rig(PACKETS).round_trips(with_ratio(nbytes, ratio, "random"), 1, "zvc")
        for way, cycles in measured.items():
            found = estimate(nbytes, stream, way, PACKETS).cycles
            assert found == pytest.approx(cycles, rel=TOLERANCE), way

    @pytest.mark.parametrize("ratio", [2.6, 6, 16])
    def test_throttle_limits_the_way_out(self, rig, ratio):
        nbytes = 128 << 10
        array = with_ratio(nbytes, ratio, "random")
        stream, measured = rig(throttle="bandwidth-aware").round_trips(array, 1, "zvc")
        throttle = THROTTLES["bandwidth-aware"]
        for way, cycles in measured.items():
            found = estimate(nbytes, stream, way, throttle=throttle)
            assert found.cycles == pytest.approx(cycles, rel=TOLERANCE), way
            assert (found.limit == "throttle") == (way == "out" and ratio > 3)

    @pytest.mark.parametrize(("ratio", "count"), [(2.6, 2), (2.6, 8), (16, 8)])
    def test_back_to_back(self, rig, ratio, count):
        nbytes = 64 << 10
        stream, measured = rig().round_trips(with_ratio(nbytes, ratio, "random"), count, "zvc")
        for way, cycles in measured.items():
            found = queue_cycles([estimate(nbytes, stream, way)] * count)
            assert found == pytest.approx(cycles, rel=QUEUED_TOLERANCE), way


class TestVariableDensity:
    """Times of transfers whose zeros are not everywhere alike. `make verify` has the grid."""

    @pytest.mark.parametrize("run_bytes", [512, 8192, 65536])
    @pytest.mark.parametrize("density", [0.05, 0.3])
    def test_lines_tell_how_long_runs_take(self, rig, density, run_bytes):
        errors = rig().errors(clustered(256 << 10, density, run_bytes))
        for way in ("out", "in"):
            assert abs(errors[way, "lines"]) <= TOLERANCE, way

    def test_the_density_alone_does_not(self, rig):
        """The buffer evens out what it holds, and no more."""
        assert rig().errors(clustered(256 << 10, 0.3, 65536))["out", "density"] < -2 * TOLERANCE

    def test_captured_activations_are_even_enough_for_their_density(self, rig):
        for case in captured(128 << 10):
            for key, error in rig().errors(case).items():
                assert abs(error) <= TOLERANCE, (case.pattern, key)

    @pytest.mark.parametrize("nbytes", [4 << 10, 10_000, 32 << 10])
    @pytest.mark.parametrize("density", [0, 0.05, 0.4, 1])
    def test_short_ones(self, rig, nbytes, density):
        for key, error in rig().errors(uniform(nbytes, density)).items():
            assert abs(error) <= SHORT_TOLERANCE, key

    def test_equal_lines_come_to_the_closed_form(self):
        for size in (4, 12, 48, 84, 132):
            lines = [size] * 4096
            for way in ("out", "in"):
                even = estimate(4096 * 128, sum(lines), way).cycles
                uneven = estimate(4096 * 128, sum(lines), way, lines=lines).cycles
                assert uneven == pytest.approx(even, rel=0.005), (size, way)

    def test_lines_are_the_streams(self):
        with pytest.raises(EstimateError, match="lines must be those of a compressed stream"):
            estimate(256, 8, "out", lines=[4, 5])
        with pytest.raises(EstimateError, match="lines must be those of a compressed stream"):
            estimate(256, 9, "out", lines=[4, 5], compressed=False)


class TestPort:
    # How busy `v100_nvlink2`'s 115 B/cycle were by RTL with a line beat per cycle.
    @pytest.mark.parametrize(
        ("ratio", "busy"), [(1.25, 0.8878), (1.5, 0.7465), (2, 0.8711), (2.6, 0.8488), (4, 0.5553)]
    )
    def test_lines_per_cycle_as_measured(self, ratio, busy):
        link = machine_config("v100_nvlink2").link_out_bytes_per_cycle
        engine = preset("v100_nvlink2")
        sizes = LineSizes.at_density(1 / ratio - 1 / 32, engine.codec)
        cycles = line_cycles(sizes, engine, 2)
        assert 128 / ratio / cycles / link == pytest.approx(busy, rel=0.01)

    @pytest.mark.parametrize("density", [0.05, 0.15, 0.2, 0.3, 0.5, 0.9])
    def test_two_beats_per_cycle_take_what_a_walk_along_the_lines_takes(self, density):
        counts = np.random.default_rng(5).binomial(32, density, 20_000)
        sizes = LineSizes.of_lines(4 + 4 * counts, SHAPE.codec)
        cycles, alone = 0, False
        for beats in np.maximum(1, -(-counts // 8)):
            # The first beat joins the last one of the line before, if that left alone.
            joins = alone
            cycles += int(beats) - joins
            alone = not joins or beats > 1
        least = (4 + 4 * counts.mean()) / 32
        found = line_cycles(sizes, SHAPE, 2, 2)
        assert found == pytest.approx(max(least, cycles / counts.size), rel=0.01)

    def test_two_beats_per_cycle_are_as_wide_as_the_port(self):
        for density in (0.2, 0.3, 0.5, 0.7, 0.9, 1.0):
            sizes = LineSizes.at_density(density, SHAPE.codec)
            least = (4 + sizes.mean_payload) / SHAPE.host_bytes
            assert line_cycles(sizes, SHAPE, 2, 2) == pytest.approx(least)
            assert line_cycles(sizes, SHAPE, 2, 1) > least or density == 1

    @pytest.mark.parametrize(("density", "cycles"), [(0, 0.5), (1, 4)])
    def test_ends(self, density, cycles):
        sizes = LineSizes.at_density(density, SHAPE.codec)
        assert line_cycles(sizes, SHAPE, 2) == pytest.approx(cycles)
        assert line_cycles(sizes, SHAPE, 1) == pytest.approx(max(1, cycles))


class TestForm:
    def test_more_bytes_never_take_less(self):
        for way in ("out", "in"):
            cycles = [estimate(1 << 20, s, way).cycles for s in range(1 << 15, 1 << 20, 1 << 15)]
            assert cycles == sorted(cycles)
            assert estimate(2 << 20, 1 << 15, way).cycles > cycles[0]

    def test_seconds_are_cycles_of_the_clock(self):
        fast = replace(MACHINE, clock_hz=2e9)
        cost = estimate(1 << 20, 1 << 18, "out", fast)
        options = {"way": "out", "machine": fast, "engine": SHAPE}
        assert transfer_seconds(1 << 20, 1 << 18, **options) == cost.cycles / 2e9

    def test_an_empty_queue_takes_no_time(self):
        assert queue_cycles([]) == 0

    def test_no_such_way(self):
        with pytest.raises(EstimateError, match="way must be out or in, not 'up'"):
            estimate(1, 1, "up")

    @pytest.mark.parametrize(("nbytes", "stream"), [(0, 1), (1, 0), (1, float("nan"))])
    def test_no_bytes(self, nbytes, stream):
        with pytest.raises(EstimateError, match="must be more than 0, not"):
            estimate(nbytes, stream, "out")
