"""The environment of the engine: presets, and values that no machine has."""

from dataclasses import replace

import pytest

from cdma.hw.config import ConfigError, preset
from cdma.plan.platform.throttles import throttle
from cdma.sim.machine import MACHINES, Machine, MachineConfig, MachineError, machine_config
from cdma.sim.machine.waves import require_writable
from cdma.sim.swap import EngineBackend
from tests.sim.machine.copier import QUIET, copier_rtl


class TestConfig:
    def test_presets_are_the_papers(self):
        titan_x = machine_config("titanx_gen3")
        assert (titan_x.channels, titan_x.channel_bytes_per_cycle) == (6, 56.0)
        assert titan_x.dram_latency_cycles == 350
        assert titan_x.link_out_bytes_per_cycle == titan_x.link_in_bytes_per_cycle == 16.0
        assert machine_config("titanxp_gen3").dram_bytes_per_s == 548e9
        volta = machine_config("v100_nvlink2")
        assert (volta.dram_bytes_per_s, volta.link_out_bytes_per_s) == (900e9, 150e9)
        assert volta.link_in_bytes_per_s == 150e9
        pcie5 = machine_config("pcie5x16")
        assert (pcie5.dram_bytes_per_s, pcie5.link_out_bytes_per_s) == (3350e9, 64e9)

    def test_engines_side_by_side_have_equal_shares(self):
        pcie6, c2c = machine_config("pcie6x16"), machine_config("c2c")
        # As much of the link as the engine of PCIe 5 has alone.
        assert (pcie6.engines, pcie6.link_out_bytes_per_cycle) == (2, 64.0)
        assert (c2c.engines, c2c.link_in_bytes_per_cycle) == (8, 56.25)
        assert c2c.channel_bytes_per_cycle == 4000 / 8 / 4
        assert preset("pcie6x16") == preset("c2c") == preset("pcie5x16")

    @pytest.mark.parametrize("name", MACHINES)
    def test_a_preset_reaches_its_bandwidth(self, name):
        line = 128
        config = MACHINES[name]
        # A port takes a sector per cycle each way, however fast the memory behind it is.
        port = preset(name).codec.sector_bytes
        in_flight = config.dram_latency_cycles * min(config.channel_bytes_per_cycle, port)
        assert config.dram_outstanding * line >= in_flight
        in_flight = 2 * config.link_latency_cycles * config.link_in_bytes_per_cycle
        assert config.link_outstanding * 16 * 128 >= in_flight

    def test_a_preset_that_there_is_not(self):
        with pytest.raises(ConfigError, match=f"one of {', '.join(MACHINES)}, not 'a100'"):
            machine_config("a100")

    def test_cycles_follow_the_clock(self):
        config = replace(QUIET, clock_hz=2e9)
        assert (config.dram_latency_cycles, config.link_latency_cycles) == (200, 100)
        assert config.channel_bytes_per_cycle == 32

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"clock_hz": 0.0}, "clock_hz must be more than 0, not 0.0"),
            ({"link_in_bytes_per_s": -1e9}, "link_in_bytes_per_s must be more than 0, not -1"),
            ({"dram_bytes_per_s": float("nan")}, "dram_bytes_per_s must be more than 0, not nan"),
            ({"engines": 0}, "engines must be 1 to 16, not 0"),
            ({"channels": 17}, "channels must be 1 to 16, not 17"),
            ({"dram_outstanding": 0}, "dram_outstanding must be 1 to 4096, not 0"),
            ({"link_buffer_bursts": 1}, "link_buffer_bursts must be 2 to 4096, not 1"),
            ({"interleave_bytes": 100}, "interleave_bytes must be a power of two, 32 to"),
            ({"link_efficiency": 1.5}, "link_efficiency must be more than 0 and at most 1, not"),
            ({"dram_latency_ns": 0.1}, "dram_latency_ns must be 1 to 1,000,000 cycles of clock_hz"),
            ({"link_latency_ns": -1}, "link_latency_ns must be a time, in nanoseconds, not -1"),
            ({"refresh_interval_ns": 100}, "refresh_ns must be at least a cycle and less than"),
            ({"refresh_ns": 100}, "refresh_interval_ns must be 2 to"),
        ],
    )
    def test_values_that_no_machine_has(self, changes, message):
        with pytest.raises(ConfigError, match=message):
            replace(QUIET, **changes)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"device_bytes": 5000}, "device_bytes must be a multiple of 4096, not 5000"),
            ({"host_base": 1}, "host_base must be a multiple of 4096, not 1"),
            ({"stalls": 1.0}, "stalls must be at least 0 and less than 1, not 1.0"),
            ({"window_cycles": 0}, "window_cycles must be at least 1, not 0"),
        ],
    )
    def test_machines_that_cannot_be(self, machine, arguments, message):
        with pytest.raises(ConfigError, match=message):
            machine(**arguments)

    def test_channels_must_be_the_ports_before_anything_is_built(self, monkeypatch):
        def too_late(*arguments, **options):
            raise AssertionError

        monkeypatch.setattr("cdma.sim.machine.engine.machine.build_library", too_late)
        with pytest.raises(
            ConfigError, match="channels must be 2, the memory ports of cdma_engine"
        ):
            Machine(copier_rtl(units=2), MachineConfig(), device_bytes=4096, host_bytes=4096)


def test_a_swap_needs_an_engine_of_the_machines_channels(monkeypatch):
    def too_late(*arguments, **options):
        raise AssertionError

    monkeypatch.setattr("cdma.sim.swap.engine_backend.generated_engine", too_late)
    with pytest.raises(ConfigError, match="channels must be 2, the engine's units, not 6"):
        EngineBackend(preset("tiny"), machine_config("titanx_gen3"), throttle=throttle("none"))


def test_looking_whether_waves_can_be_written_changes_nothing(tmp_path):
    require_writable(tmp_path / "new.vcd")
    (tmp_path / "old.vcd").write_text("before")
    require_writable(tmp_path / "old.vcd")
    assert [path.name for path in tmp_path.iterdir()] == ["old.vcd"]
    assert (tmp_path / "old.vcd").read_text() == "before"
    with pytest.raises(MachineError, match=r"waves cannot be written to .*: No such file"):
        require_writable(tmp_path / "missing" / "new.vcd")
