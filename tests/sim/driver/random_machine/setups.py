"""The parts of a random machine and its setup, drawn from a seed."""

from dataclasses import dataclass, replace
from functools import cache
from random import Random

from cdma.hw.bus.burst import PAGE_BYTES
from cdma.hw.config import EngineConfig
from cdma.hw.emit.verilog import Verilog
from cdma.sim.driver import Windows
from cdma.sim.machine import MachineConfig
from cdma.sim.machine.build.rtl import generated_engine
from tests.sim.machine.engine.bench import NEAR

DEVICE_BYTES = 12 * PAGE_BYTES
HOST_BYTES = 16 * PAGE_BYTES


@dataclass(frozen=True, kw_only=True)
class Setup:
    """An engine, its environment, and how the driver sets it up.

    Attributes
    ----------
    config : EngineConfig
    environment : MachineConfig
    stalls : float
    seed : int
        Of stalls, and of the memories' first content.
    device_base, host_base : int
    sleep : bool
    options : dict
        Arguments of `Engine`.
    """

    config: EngineConfig
    environment: MachineConfig
    stalls: float
    seed: int
    device_base: int
    host_base: int
    sleep: bool
    options: dict[str, object]

    @property
    def host_clock_hz(self) -> float | None:
        """Frequency of the host's clock, if it has one of its own."""
        if not self.config.host_clock:
            return None
        # Apart from the rest, so that setups of one clock are as they were.
        return self.environment.clock_hz * Random(~self.seed).choice(HOST_CLOCK_RATIOS)


HOST_CLOCK_RATIOS = (0.53, 0.97, 1.0, 1.03, 2.71, 9.1)
"""Of the host's clock to the engine's. Slower hosts would be silent for longer than time-outs."""


@cache
def rtl(config: EngineConfig) -> Verilog:
    """The engine, its sources looked at once per process."""
    return generated_engine(config)


def draw_setup(seed: int, config: EngineConfig) -> Setup:
    """A setup of an engine of this shape."""
    rng = Random(seed)
    environment = replace(
        NEAR,
        channels=config.units,
        dram_latency_ns=rng.choice((5.0, 20.0, 150.0)),
        dram_outstanding=rng.choice((1, 3, 64, 256)),
        **rng.choice(({}, {}, {"refresh_interval_ns": 400.0, "refresh_ns": 30.0})),
        link_out_bytes_per_s=rng.choice((12e9, 32e9, 64e9)),
        link_in_bytes_per_s=rng.choice((12e9, 32e9, 64e9)),
        link_overhead_bytes=rng.choice((0, 0, 24)),
        link_latency_ns=rng.choice((5.0, 10.0, 80.0)),
        link_outstanding=rng.choice((1, 4, 64)),
        link_buffer_bursts=rng.choice((2, 8)),
    )
    device_base = rng.choice((0, 0x12_3456_8000, (1 << 40) - DEVICE_BYTES))
    host_base = rng.choice((0, 0x89AB_CDEF_0000_0000, (1 << 64) - HOST_BYTES))
    # Where the buses reach.
    device_base %= 1 << config.device_address_bits
    host_base %= 1 << config.host_address_bits
    interrupts = rng.random() < 0.4
    options: dict[str, object] = {
        "ring_entries": rng.choice((2, 4, 8, 16)),
        "timeout_cycles": rng.choice((500, 1200)),
        "interrupts": interrupts,
        "codecs": config.codecs,
    }
    if interrupts and rng.random() < 0.5:
        options |= {"coalesce_count": rng.choice((1, 2, 5)), "coalesce_cycles": 200}
    if rng.random() < 0.25:
        options["windows"] = _windows(rng, device_base, host_base)
    return Setup(
        config=config,
        environment=environment,
        stalls=rng.choice((0.0, 0.0, 0.2, 0.5)),
        seed=seed,
        device_base=device_base,
        host_base=host_base,
        sleep=rng.random() < 0.9,
        options=options,
    )


def _windows(rng: Random, device_base: int, host_base: int) -> Windows:
    """Windows of which each leaves something out, or none."""

    def part(base: int, pages: int) -> range | None:
        if rng.random() < 0.3:
            return None
        first = rng.randrange(3)
        return range(base + first * PAGE_BYTES, base + rng.randint(first + 6, pages) * PAGE_BYTES)

    host_pages = HOST_BYTES // PAGE_BYTES
    return Windows(
        descriptors=part(host_base, host_pages),
        records=part(host_base, host_pages),
        host=part(host_base, host_pages),
        device=part(device_base, DEVICE_BYTES // PAGE_BYTES),
        lock=rng.random() < 0.3,
    )
