"""The estimate's figures against cDMA's own arithmetic (§V-C, V-D, VI), done here by hand."""

from dataclasses import replace

import pytest

from cdma.plan.engine_cost import EstimateError, Setup, TensorEstimate
from cdma.sim.driver import THROTTLES

LINK = 16e9
CAP = 200e9
LARGE = 1 << 34


def density_of(ratio: float) -> float:
    """Density of fp32 data that compress by a ratio: a mask is 1/32 of them."""
    return 1 / ratio - 1 / 32


def capped(cap: float = CAP) -> Setup:
    """cDMA's model has a link and a cap on reads, and nothing else: here, enough of all else, and a
    bucket whose whole rate is sustained."""
    setup = Setup.named("titanx_gen3")
    engine = replace(setup.engine, units=16, buffer_bytes=1 << 22, write_bursts=64)
    engine = replace(
        engine,
        codec=replace(engine.codec, sector_bytes=128),
        host_bytes=128,
        read_buffer_bytes=1 << 20,
    )
    machine = replace(setup.machine, channels=16, dram_bytes_per_s=1e13, link_outstanding=4096)
    throttle = replace(THROTTLES["performance-optimal"], bytes_per_s=cap, burst_bytes=0)
    return replace(setup, engine=engine, machine=machine, throttle=throttle)


class TestModelOfSection6:
    @pytest.mark.parametrize("ratio", [1, 1.5, 2.6, 6, 12, 12.5, 13.8, 20])
    def test_large_transfers_take_the_longer_of_link_and_cap(self, ratio):
        setup = capped()
        stream = setup.stream_bytes(LARGE, density_of(ratio))
        seconds = setup.cost(LARGE, stream, "out").seconds
        assert seconds == pytest.approx(max(LARGE / (ratio * LINK), LARGE / CAP), rel=1e-4)

    def test_the_largest_ratio_needs_220_8_gb_s(self):
        """13.8 x 16 GB/s (§V-C)."""
        setup = capped(cap=0)
        assert setup.ceilings(density_of(13.8), "out")["link"] == pytest.approx(220.8e9)

    def test_no_ratio_above_12_5_is_of_use_at_a_cap_of_200_gb_s(self):
        setup = capped()

        def limit(ratio: float) -> str:
            roofs = setup.ceilings(density_of(ratio), "out")
            return min(roofs, key=lambda name: roofs[name])

        assert CAP / LINK == 12.5
        assert limit(12.49) == "link"
        assert limit(12.51) == "throttle"
        fast, faster = (
            setup.cost(LARGE, setup.stream_bytes(LARGE, density_of(r)), "out") for r in (12.5, 20)
        )
        assert faster.cycles == pytest.approx(fast.cycles, rel=1e-4)

    def test_the_bandwidth_aware_cap_is_three_links(self):
        """48 GB/s (§V-D)."""
        assert THROTTLES["bandwidth-aware"].bytes_per_s == 48e9 == 3 * LINK
        tensor = TensorEstimate.of("t", LARGE, 0.05, capped(cap=48e9))
        assert tensor.offload.limit == "throttle"
        assert tensor.raw_offload.seconds / tensor.offload.seconds == pytest.approx(3, rel=1e-4)

    def test_2_6_times_the_link_is_41_6_gb_s_and_not_41_3(self):
        setup = capped()
        stream = setup.stream_bytes(LARGE, density_of(2.6))
        rate = LARGE / setup.cost(LARGE, stream, "out").seconds
        assert rate == pytest.approx(41.6e9, rel=1e-4)
        assert rate != pytest.approx(41.3e9, rel=1e-3)

    def test_the_special_case_needs_large_transfers(self):
        setup = capped()
        stream = setup.stream_bytes(4096, density_of(2.6))
        assert setup.cost(4096, stream, "out").seconds > 10 * stream / LINK


class TestBuffer:
    def test_70_kb_are_200_gb_s_for_350_ns(self):
        """§V-C."""
        machine = Setup.named("titanx_gen3").machine
        assert machine.dram_latency_ns == 350
        assert CAP * machine.dram_latency_ns * 1e-9 == pytest.approx(70e3)

    def test_the_window_gives_its_bytes_per_round_trip(self):
        """The paper's 70 KB, and 12 cycles more that the RTL's trip takes."""
        setup = capped().with_units(6).with_buffer_bytes(70_000)
        held = 70_000 // 6 // 128 * 6 * 128
        assert setup.ceilings(0.03, "out")["lines"] == pytest.approx(held / 362e-9)

    def test_the_preset_holds_what_six_units_read(self):
        roofs = Setup.named("titanx_gen3").ceilings(0.03, "out")
        assert roofs["units"] == 192e9 < roofs["lines"] < CAP


class TestForm:
    @pytest.mark.parametrize("density", [-0.1, 1.1, float("nan")])
    def test_density_is_a_part(self, density):
        with pytest.raises(EstimateError, match="density must be 0 to 1, not"):
            capped().ceilings(density, "out")
        with pytest.raises(EstimateError, match="density of x must be 0 to 1, not"):
            TensorEstimate.of("x", 4096, density, capped())

    def test_units_share_the_memory(self):
        setup = Setup.named("titanx_gen3").with_units(8)
        assert setup.ceilings(0.03, "out")["dram"] == pytest.approx(336e9)
        assert setup.ceilings(0.03, "out")["units"] == 256e9


class TestEnginesSideBySide:
    """Each has its part of a transfer, and its share of memory and link."""

    def test_a_transfer_takes_as_long_as_an_engine_takes_for_its_part(self):
        alone = Setup.named("pcie5x16")
        two = Setup.named("pcie6x16")
        for way in ("out", "in"):
            part, whole = alone.cost(1e6, 4e5, way), two.cost(2e6, 8e5, way)
            assert whole.cycles == pytest.approx(part.cycles), way
            assert whole.limit == part.limit

    def test_together_they_are_as_fast_as_all_of_them(self):
        alone, two = (Setup.named(name).ceilings(0.2, "out") for name in ("pcie5x16", "pcie6x16"))
        # The memory is the same one.
        doubled = {name: 2 * rate for name, rate in alone.items()}
        assert two == pytest.approx(doubled | {"dram": alone["dram"]})

    def test_a_link_beyond_one_engine_is_full_with_several(self):
        fast = Setup.named("pcie5x16", link="nvlink-c2c")
        rates = []
        for engines in (1, 2, 4, 8):
            roofs = fast.with_engines(engines).ceilings(density_of(2), "out")
            rates.append(min(roofs.values()))
        one = rates[0]
        assert one < 900e9 / 4 < 2 * one
        assert rates == pytest.approx([one, 2 * one, 4 * one, 900e9])

    def test_the_part_that_takes_longest_counts_where_lines_are_known(self):
        alone, two = Setup.named("pcie5x16"), Setup.named("pcie6x16")
        alone = replace(alone, machine=replace(alone.machine, dram_bytes_per_s=3350e9 / 2))
        lines = [132] * 1000 + [4] * 1000
        raw = 128.0 * len(lines)
        for way in ("out", "in"):
            uneven = two.cost(raw, sum(lines), way, lines=lines)
            longest = alone.cost(raw / 2, 132_000, way, lines=lines[:1000])
            assert uneven.cycles == pytest.approx(longest.cycles), way
