"""The buddy controller in a machine: a GPU's accesses, device memory, buddy memory and its link."""

import ctypes
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cdma.golden.formats.stream import ByteArray
from cdma.hw.config import ConfigError
from cdma.sim.machine.buddy import library as lib
from cdma.sim.machine.buddy.config import BuddyMachineConfig
from cdma.sim.machine.buddy.trace import Access, AccessTrace, Playback
from cdma.sim.machine.build.build import BUDDY_SHIM, VerilogText, build_library
from cdma.sim.machine.bus.library import PORT_COUNTERS, EnvironmentStruct, MemoryStruct
from cdma.sim.machine.bus.machine import PAGE_BYTES, BusMachine, require_pages, require_stalls
from cdma.sim.machine.waves import trace_kind

PORTS = ("device", "buddy")
MOST_READS = 64
MOST_WRITES = 64
"""Accesses outstanding at once, if nothing else is said: more than the controller takes."""


@dataclass(frozen=True, kw_only=True)
class PortCounters:
    """Counts of a memory's port since the counters were cleared.

    Attributes
    ----------
    read_bytes, written_bytes : int
        Of device memory in whole beats of 32 B; of buddy memory those that are written without
        those that strobes leave out.
    read_bursts, write_bursts : int
        Addresses accepted.
    most_reads, most_writes : int
        Most bursts outstanding at once.
    decode_errors : int
        Beats read and bursts written where there is no memory.
    """

    read_bytes: int
    written_bytes: int
    read_bursts: int
    write_bursts: int
    most_reads: int
    most_writes: int
    decode_errors: int


@dataclass(frozen=True, kw_only=True)
class BuddyCounters:
    """Counts of the controller's environment since the counters were cleared.

    Attributes
    ----------
    cycles : int
    device, buddy : PortCounters
    link_out_busy_cycles, link_in_busy_cycles : float
        Cycles in which the link moved something to buddy memory, and from it.
    """

    cycles: int
    device: PortCounters
    buddy: PortCounters
    link_out_busy_cycles: float
    link_in_busy_cycles: float


class BuddyMachine(BusMachine):
    """RTL with the ports of `cdma_buddy`, simulated by Verilator, with memories around it.

    All of it runs in C++: a call runs until it is over, and does not hold the GIL. The memories are
    numpy arrays that the controller reads and writes while a call runs; between calls they are the
    caller's.

    Every port is watched: a controller that breaks a rule of AXI, or of its own ports (bursts of 4
    beats, IDs, whole-width INCR), raises `ProtocolError` in the cycle in which it does so, and the
    machine then needs a `reset`. Addresses outside the memories are no such rule; they are
    answered with DECERR.

    Parameters
    ----------
    verilog : VerilogText
        The controller.
    config : BuddyMachineConfig
        The environment of the controller.
    device_bytes, buddy_bytes : int
        Sizes of the memories, multiples of 4096.
    device_base : int
        Address of device memory's first byte, a multiple of 4096. `BuddyDriver` wants it at 0.
    buddy_base : int
        Address of buddy memory's first byte, a multiple of 4096: what GBBR should be.
    mirrored : bool
        The memories are at all other addresses as well, again and again, as where upper address
        lines lead nowhere.
    id_bits : int
        Width of the IDs at the port to the GPU.
    stalls : float
        The probability, per cycle and channel, that the environment is not ready or stalls
        what they have, beyond what latency and bandwidth do. At least 0 and less than 1.
    seed : int
        What stalls and the values of pins that must not matter are drawn from.
    waves : path, optional
        Write all signals there, as VCD or FST, whichever the suffix says. Time in it is a
        nanosecond per cycle. Complete after `close`.

    Attributes
    ----------
    device, buddy : uint8 array
        The memories.
    sector_bytes : int
        Width of the port to the GPU.

    Raises
    ------
    ConfigError
        The arguments do not fit each other.
    BuildError
        The simulator cannot be built; the message tells what to mend.
    MachineError
        `waves` cannot be written.
    """

    def __init__(
        self,
        verilog: VerilogText,
        config: BuddyMachineConfig,
        *,
        device_bytes: int,
        buddy_bytes: int,
        device_base: int = 0,
        buddy_base: int = 0,
        mirrored: bool = False,
        id_bits: int = 4,
        stalls: float = 0.0,
        seed: int = 0,
        waves: str | Path | None = None,
    ) -> None:
        require_pages(
            device_bytes=(device_bytes, PAGE_BYTES),
            buddy_bytes=(buddy_bytes, PAGE_BYTES),
            device_base=(device_base, 0),
            buddy_base=(buddy_base, 0),
        )
        require_stalls(stalls)
        trace = None if waves is None else trace_kind(Path(waves))
        library = lib.load(build_library(verilog, trace=trace, shim=BUDDY_SHIM))
        around = config.environment
        self.config = config
        self.id_bits = id_bits
        self.sector_bytes = int(library.cdma_buddy_sector_bytes())
        self.device_base = device_base
        self.buddy_base = buddy_base
        self.device: ByteArray = np.zeros(device_bytes, np.uint8)
        self.buddy: ByteArray = np.zeros(buddy_bytes, np.uint8)
        self._playing: _Playing | None = None
        environment = EnvironmentStruct(
            device=MemoryStruct(self.device.ctypes.data, device_bytes, device_base, mirrored),
            host=MemoryStruct(self.buddy.ctypes.data, buddy_bytes, buddy_base, mirrored),
            dram_bytes_per_cycle=around.channel_bytes_per_cycle,
            dram_latency=around.dram_latency_cycles,
            dram_outstanding=around.dram_outstanding,
            interleave_bytes=around.interleave_bytes,
            link_out_bytes_per_cycle=around.link_out_bytes_per_cycle,
            link_in_bytes_per_cycle=around.link_in_bytes_per_cycle,
            link_latency=around.link_latency_cycles,
            link_overhead_bytes=around.link_overhead_bytes,
            link_outstanding=around.link_outstanding,
            link_buffer_bursts=around.link_buffer_bursts,
            stall=stalls,
            seed=seed % 2**64,
        )
        super().__init__(
            library,
            verilog.name,
            "cdma_buddy_open",
            environment,
            (self.device, self.buddy),
            PORTS,
            waves,
        )

    def play(
        self,
        trace: AccessTrace | Sequence[Access],
        *,
        most_reads: int = MOST_READS,
        most_writes: int = MOST_WRITES,
        apart: bool = True,
        budget: int | None = None,
    ) -> Playback:
        """Issue accesses as fast as the controller takes them, until all are answered.

        Reads are issued in the trace's order, and so are writes; the ones may overtake the others,
        but for the same bytes.

        Parameters
        ----------
        trace : Trace or sequence of Access
        most_reads, most_writes : int
            Outstanding at once. 1 makes each wait for the one before.
        apart : bool
            A read of bytes that a write before it has is issued when that is answered, and so is a
            write of bytes that a read before it has, or a write with another ID. If not, what the
            bytes are is anybody's guess.
        budget : int, optional
            Cycles; by default, what would do if each access took a thousand, and 100,000 more.

        Raises
        ------
        ValueError
            An access that AXI does not have.
        HangError
            The budget ran out; the message lists what is outstanding. The machine then needs a
            `reset`.
        ProtocolError, AssertionFailedError
            The controller misbehaved.
        """
        playing = self._prepared(trace, most_reads, most_writes, apart, budget)
        with self._running():
            # What the simulator may look at until the next play.
            self._playing = playing
            self._check(self._library.cdma_buddy_play(self._handle, playing.play))
        return self._played(playing)

    def _prepared(
        self,
        trace: AccessTrace | Sequence[Access],
        most_reads: int,
        most_writes: int,
        apart: bool,
        budget: int | None,
    ) -> "_Playing":
        """The arrays of a play."""
        if not isinstance(trace, AccessTrace):
            trace = AccessTrace.of(trace)
        for name, value in (("most_reads", most_reads), ("most_writes", most_writes)):
            if value < 1:
                raise ConfigError(f"{name} must be at least 1, not {value!r}")
        table = trace.table(self.sector_bytes, self.id_bits)
        if budget is None:
            budget = 100_000 + 1000 * len(trace) + int(trace.earliest.max(initial=0))
        data = trace.data.copy()
        mask = None if trace.mask is None else trace.mask.astype(np.uint8)
        records = np.zeros(len(trace), lib.ACCESS_RECORD)
        play = lib.PlayStruct(
            access=table.ctypes.data,
            accesses=len(trace),
            data=data.ctypes.data,
            mask=None if mask is None else mask.ctypes.data,
            most_reads=most_reads,
            most_writes=most_writes,
            apart=apart,
            cycles=budget,
            record=records.ctypes.data,
        )
        return _Playing(trace, table, data, mask, records, play)

    def _played(self, playing: "_Playing") -> Playback:
        """The outcome of a play that has ended, or `HangError`."""
        trace, play = playing.trace, playing.play
        if play.finished < len(trace):
            message = f"{play.finished} of {len(trace)} accesses are answered"
            self._stopped = message
            self._hang(int(play.cycles), message)
        return Playback(
            trace=trace, data=playing.data, records=playing.records, cycles=int(play.took)
        )

    def counters(self) -> BuddyCounters:
        """Return the environment's counts since they were cleared."""
        totals = lib.CountersStruct()
        ports = np.zeros(len(PORTS), PORT_COUNTERS)
        with self._open():
            self._library.cdma_buddy_counters(self._handle, totals, ports.ctypes.data)
            now = int(self._library.cdma_bus_cycle(self._handle))
        device, buddy = (
            PortCounters(
                **{name: int(port[name]) for name in PortCounters.__dataclass_fields__},
            )
            for port in ports
        )
        return BuddyCounters(
            cycles=now - totals.since,
            device=device,
            buddy=buddy,
            link_out_busy_cycles=totals.link_out_busy_cycles,
            link_in_busy_cycles=totals.link_in_busy_cycles,
        )


class _Playing(NamedTuple):
    """The arrays that the simulator looks at while a play runs."""

    trace: AccessTrace
    table: npt.NDArray[np.void]
    data: ByteArray
    mask: ByteArray | None
    records: npt.NDArray[np.void]
    play: Any


def play_together(
    machines: Sequence[BuddyMachine],
    traces: Sequence[AccessTrace],
    *,
    most_reads: int = MOST_READS,
    most_writes: int = MOST_WRITES,
    budget: int | None = None,
) -> list[Playback]:
    """Play a trace on each of several machines at the same time, cycle by cycle.

    They are the channels of one memory: from then on they have one link, as fast as theirs
    together, whose bursts follow one another in the order in which the channels ask for them.

    Parameters
    ----------
    machines : sequence of BuddyMachine
        With the same environments, on which nothing is under way.
    traces : sequence of AccessTrace
    most_reads, most_writes : int
        Of each, as of `BuddyMachine.play`.
    budget : int, optional
        As of `BuddyMachine.play`; the longest of theirs if absent.

    Returns
    -------
    list of Playback
        One for each; `cycles` are from the common begin to its own end.

    Raises
    ------
    ConfigError
        They have other environments than each other.
    ValueError, HangError, ProtocolError, AssertionFailedError
        As of `BuddyMachine.play`.
    """
    if len({machine.config for machine in machines}) != 1:
        raise ConfigError("machines that play together must have the same environment")
    playing = [
        machine._prepared(trace, most_reads, most_writes, True, budget)
        for machine, trace in zip(machines, traces, strict=True)
    ]
    now = max(machine.cycles for machine in machines)
    for machine in machines:
        machine.run(now - machine.cycles)
    longest = max(int(each.play.cycles) for each in playing)
    plays = (lib.PlayStruct * len(playing))(*(each.play for each in playing))
    for play in plays:
        play.cycles = longest
    handles = (ctypes.c_void_p * len(machines))(*(machine._handle for machine in machines))
    failed = ctypes.c_uint64()
    with ExitStack() as running:
        for machine, each, play in zip(machines, playing, plays, strict=True):
            running.enter_context(machine._running())
            machine._playing = each._replace(play=play)
        library = machines[0]._library
        outcome = library.cdma_buddy_play_together(handles, plays, len(plays), failed)
        machines[failed.value]._check(outcome)
    return [
        machine._played(each._replace(play=play))
        for machine, each, play in zip(machines, playing, plays, strict=True)
    ]
