"""Traces through the buddy controller's RTL, held to the golden model bit for bit."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np

from cdma.golden.formats.stream import ByteArray
from cdma.hw.config import BuddyConfig
from cdma.sim.buddy.content import Content, ReplayError
from cdma.sim.buddy.expected import Expected, expect
from cdma.sim.driver.buddy.driver import BuddyDriver
from cdma.sim.machine.buddy.config import BuddyMachineConfig
from cdma.sim.machine.buddy.machine import MOST_READS, MOST_WRITES, BuddyMachine
from cdma.sim.machine.buddy.trace import AccessTrace, Playback
from cdma.sim.machine.build.rtl import generated_buddy

CACHE_SIZES = (512, 1024, 4096, 16384)
"""Capacities of metadata caches, bytes per channel. The paper's figure (5b) centers on 4 KB."""
LINKS_GB_PER_S = (50, 100, 150, 200)
"""The paper's range (Fig 11), of the whole GPU."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Replay:
    """The result of a trace.

    Attributes
    ----------
    config : BuddyConfig
    machine : BuddyMachineConfig
    playback : Playback
        The accesses' data and times.
    counters : dict of str to int
        The controller's.
    link_out_busy, link_in_busy : float
        The part of the cycles in which the link moved something.
    faults : tuple of str
        What differs from the golden model; empty if every bit is right.
    """

    config: BuddyConfig
    machine: BuddyMachineConfig
    playback: Playback
    counters: Mapping[str, int]
    link_out_busy: float
    link_in_busy: float
    faults: tuple[str, ...]

    @property
    def bit_exact(self) -> bool:
        return not self.faults

    @property
    def cycles(self) -> int:
        """Cycles from the first access to the last response."""
        return self.playback.cycles

    @property
    def nbytes(self) -> int:
        """Bytes that the accesses cover."""
        return int(self.playback.trace.nbytes.sum())

    @property
    def bytes_per_s(self) -> float:
        """Effective bandwidth of the channel, as the GPU sees it."""
        return self.nbytes / self.cycles * self.machine.clock_hz

    @property
    def hit_rate(self) -> float | None:
        """Hit rate of the metadata cache; None if nothing was looked up."""
        hits, misses = self.counters["metadata_hits"], self.counters["metadata_misses"]
        return hits / (hits + misses) if hits + misses else None

    @property
    def buddy_access_fraction(self) -> float:
        """Fraction of the accesses to entries that needed buddy memory."""
        accesses = self.counters["reads"] + self.counters["writes"]
        return self.counters["spilled"] / accesses if accesses else 0.0

    @property
    def mean_read_latency(self) -> float | None:
        """Cycles from an address's acceptance to its last beat; None if there are no reads."""
        reads = ~self.playback.trace.write
        return float(self.playback.latencies[reads].mean()) if reads.any() else None


def replay_trace(
    config: BuddyConfig,
    expected: Expected,
    machine: BuddyMachineConfig | None = None,
    *,
    most_reads: int = MOST_READS,
    most_writes: int = MOST_WRITES,
    stalls: float = 0.0,
    seed: int = 0,
) -> Replay:
    """Play a trace on memory that holds the content, flush, and compare everything.

    Parameters
    ----------
    config : BuddyConfig
        The controller: of the same pages and codec as the content's.
    expected : Expected
        Trace and content, with what is to come of them.
    machine : BuddyMachineConfig, optional
        The environment of the controller; a channel of the paper's GPU if not given.
    most_reads, most_writes : int
        Accesses outstanding at once.
    stalls, seed
        Passed to the environment; see `BuddyMachine`.
    """
    with open_replay(config, expected, machine, stalls=stalls, seed=seed) as opened:
        playback = opened.machine.play(
            expected.trace, most_reads=most_reads, most_writes=most_writes
        )
        return opened.finish(playback)


class OpenReplay:
    """A machine whose memory holds a content, for a trace to be played on.

    Attributes
    ----------
    machine : BuddyMachine
    """

    def __init__(
        self,
        config: BuddyConfig,
        expected: Expected,
        machine: BuddyMachine,
        driver: BuddyDriver,
    ) -> None:
        self.machine = machine
        self._config = config
        self._expected = expected
        self._driver = driver

    def finish(self, playback: Playback) -> Replay:
        """Flush what was played, and compare everything."""
        expected, around, driver = self._expected, self.machine, self._driver
        seen = around.counters()
        counters = driver.counters()
        driver.flush()
        faults = (
            *_failed(playback, driver),
            *_different_reads(playback, expected),
            *_different_memory("device", around.device, expected.device_after),
            *_different_memory("buddy", around.buddy, expected.buddy_after),
        )
        return Replay(
            config=self._config,
            machine=around.config,
            playback=playback,
            counters=counters,
            link_out_busy=seen.link_out_busy_cycles / max(1, seen.cycles),
            link_in_busy=seen.link_in_busy_cycles / max(1, seen.cycles),
            faults=faults,
        )


@contextmanager
def open_replay(
    config: BuddyConfig,
    expected: Expected,
    machine: BuddyMachineConfig | None = None,
    *,
    stalls: float = 0.0,
    seed: int = 0,
) -> Iterator[OpenReplay]:
    """Put a content into a machine's memory; parameters are those of `replay_trace`."""
    content = expected.content
    with BuddyMachine(
        generated_buddy(config),
        machine or BuddyMachineConfig(),
        device_bytes=expected.device_before.size,
        buddy_bytes=expected.buddy_before.size,
        buddy_base=content.address_map.gbbr,
        id_bits=config.id_bits,
        stalls=stalls,
        seed=seed,
    ) as around:
        driver = BuddyDriver(around, logical_bytes=content.address_map.logical_bytes)
        content.allocate(driver.allocate)
        around.device[:] = expected.device_before
        around.buddy[:] = expected.buddy_before
        driver.clear_counters()
        around.clear_counters()
        yield OpenReplay(config, expected, around, driver)


def sweep_caches(
    config: BuddyConfig,
    expected: Expected,
    machine: BuddyMachineConfig | None = None,
    sizes: Iterable[int] = CACHE_SIZES,
    *,
    most_reads: int = MOST_READS,
    most_writes: int = MOST_WRITES,
) -> dict[int, Replay]:
    """Replay with metadata caches of these sizes; each is a controller of its own to build."""
    return {
        size: replay_trace(
            replace(config, cache=replace(config.cache, capacity_bytes=size)),
            expected,
            machine,
            most_reads=most_reads,
            most_writes=most_writes,
        )
        for size in sizes
    }


def sweep_links(
    config: BuddyConfig,
    expected: Expected,
    machine: BuddyMachineConfig | None = None,
    rates: Iterable[float] = LINKS_GB_PER_S,
    *,
    most_reads: int = MOST_READS,
    most_writes: int = MOST_WRITES,
) -> dict[float, Replay]:
    """Replay behind links of so many GB/s for the whole GPU."""
    machine = machine or BuddyMachineConfig()
    return {
        rate: replay_trace(
            config,
            expected,
            machine.with_link(rate),
            most_reads=most_reads,
            most_writes=most_writes,
        )
        for rate in rates
    }


def link_slowdowns(
    config: BuddyConfig,
    content: Content,
    trace: AccessTrace,
    machine: BuddyMachineConfig | None = None,
    rates: Iterable[float] = LINKS_GB_PER_S,
    *,
    outstanding: int,
) -> dict[float, float]:
    """Slowdown against uncompressed memory, cycles over cycles less 1, by link in GB/s.

    Parameters
    ----------
    config, content, trace, machine
        The trace is replayed on the content, and on the same content uncompressed.
    rates
        GB/s of the whole GPU's link.
    outstanding
        Reads, and writes, outstanding at once.

    Raises
    ------
    ReplayError
        A bit differs from the golden model.
    """
    limits = {"most_reads": outstanding, "most_writes": outstanding}
    plain = replay_trace(config, expect(content.uncompressed(), trace), machine, **limits)
    swept = sweep_links(config, expect(content, trace), machine, rates, **limits)
    for done in (plain, *swept.values()):
        if done.faults:
            raise ReplayError(f"{done.faults[0]}; the controller's RTL is wrong")
    return {rate: done.cycles / plain.cycles - 1 for rate, done in swept.items()}


def _failed(playback: Playback, driver: BuddyDriver) -> list[str]:
    failed = playback.failed()
    if not failed:
        return []
    return [f"{len(failed)} accesses failed, the first is {failed[0]}: {driver.first_error()}"]


def _different_reads(playback: Playback, expected: Expected) -> list[str]:
    wrong = np.flatnonzero(playback.data != expected.data)
    if not wrong.size:
        return []
    access = int(np.searchsorted(playback.trace.offsets, wrong[0], side="right")) - 1
    address = int(playback.trace.address[access] + wrong[0] - playback.trace.offsets[access])
    return [
        f"access {access} read {playback.data[wrong[0]]:#04x} at {address:#x}, not "
        f"{expected.data[wrong[0]]:#04x}; {wrong.size} bytes in all are wrong"
    ]


def _different_memory(name: str, memory: ByteArray, right: ByteArray) -> list[str]:
    wrong = np.flatnonzero(memory != right)
    if not wrong.size:
        return []
    first = int(wrong[0])
    return [
        f"{name} memory has {memory[first]:#04x} at {first:#x}, not {right[first]:#04x}; "
        f"{wrong.size} bytes in all are wrong"
    ]
