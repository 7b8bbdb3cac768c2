"""The DMA engine in a machine: device memory, host memory, a link, registers and an interrupt."""

import ctypes
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np

from cdma.golden.formats.stream import ByteArray
from cdma.hw.config import ConfigError
from cdma.plan.platform.environment import MachineConfig
from cdma.sim.machine.build.build import ENGINE_SHIM, VerilogText, build_library
from cdma.sim.machine.bus.bus import EVENT_KINDS, HOST, BusEvent, Counters
from cdma.sim.machine.bus.library import (
    BUS_EVENT,
    PORT_COUNTERS,
    EnvironmentStruct,
    MemoryStruct,
    RunStruct,
)
from cdma.sim.machine.bus.machine import PAGE_BYTES, BusMachine, require_pages, require_stalls
from cdma.sim.machine.engine import library as lib
from cdma.sim.machine.waves import require_writable, trace_kind

MOST_RATIO = 100
"""Of the two clocks of a simulated engine."""


class Machine(BusMachine):
    """RTL with the ports of `cdma_engine`, simulated by Verilator, with memories around it.

    All of it runs in C++: a call runs until something happens, and does not hold the GIL. Nothing
    but calls lets time pass. The memories are numpy arrays that the engine reads and writes while
    a call runs; between calls they are the caller's.

    Every port is watched: an engine that breaks a rule of AXI, or of its own ports (burst lengths,
    IDs, whole-width INCR bursts, no beat without bytes), raises `ProtocolError` in the cycle in
    which it does so, and the machine then needs a `reset`. Addresses outside the memories are no
    such rule; they are answered with DECERR.

    Parameters
    ----------
    verilog : VerilogText
        The engine; its top has any number of memory ports up to 16.
    config : MachineConfig
        The environment; of several engines, that of one of them, with its share.
    device_bytes, host_bytes : int
        Sizes of the memories, multiples of 4096. Pages become memory when they are touched.
    device_base, host_base : int
        Addresses of their first bytes, multiples of 4096.
    stalls : float
        The probability, per cycle and channel, that a slave is not ready or holds back what it has,
        beyond what latency and bandwidth do. At least 0 and less than 1.
    seed : int
        What stalls, refresh, the values of pins that must not matter and the phase of the host's
        clock are drawn from.
    host_clock_hz : float, optional
        Of an engine whose bus to the host has a clock of its own, `EngineConfig.host_clock`: its
        frequency, that of `config.clock_hz` if absent. Times in faults, counters and the link are
        in the engine's cycles all the same.
    sleep : bool
        Leave out what would change nothing (`cdma.hw.lib.sleep`). Without, a cycle takes longer;
        whatever happens in it is the same.
    window_cycles : int, optional
        The window of `Counters.window_dram_read_bytes`: 10 µs if absent.
    waves : path, optional
        Write all signals there, as VCD or FST, whichever the suffix says. Time in it is a
        nanosecond per cycle. Complete after `close`.

    Attributes
    ----------
    device, host : uint8 array
        The memories.
    rings : int
        The engine's rings: ring r has the page of registers at 4096 * r, and line r of the
        interrupt.

    Raises
    ------
    ConfigError
        The arguments do not fit each other or the engine.
    BuildError
        The simulator cannot be built; the message tells what to mend.
    MachineError
        `waves` cannot be written.
    """

    def __init__(
        self,
        verilog: VerilogText,
        config: MachineConfig,
        *,
        device_bytes: int,
        host_bytes: int,
        device_base: int = 0,
        host_base: int = 0,
        stalls: float = 0.0,
        seed: int = 0,
        host_clock_hz: float | None = None,
        sleep: bool = True,
        window_cycles: int | None = None,
        waves: str | Path | None = None,
    ) -> None:
        require_pages(
            device_bytes=(device_bytes, PAGE_BYTES),
            host_bytes=(host_bytes, PAGE_BYTES),
            device_base=(device_base, 0),
            host_base=(host_base, 0),
        )
        require_stalls(stalls)
        if window_cycles is None:
            window_cycles = max(1, round(10e-6 * config.clock_hz))
        if window_cycles < 1:
            raise ConfigError(f"window_cycles must be at least 1, not {window_cycles!r}")

        # All that can be refused is, before the simulator is built, which may take minutes.
        _require_channels(verilog, config)
        host_period = _host_period(verilog, config, host_clock_hz)
        trace = None if waves is None else trace_kind(Path(waves))
        if waves is not None:
            require_writable(Path(waves))
        library = lib.load(build_library(verilog, trace=trace, shim=ENGINE_SHIM))
        self.units = int(library.cdma_engine_units())
        self.sector_bytes = int(library.cdma_engine_sector_bytes())
        self.link_port_bytes = int(library.cdma_engine_host_bytes())
        self.rings = _rings(verilog)
        self.config = config
        self.window_cycles = window_cycles
        self.host_base = host_base
        self.device_base = device_base
        self.device: ByteArray = np.zeros(device_bytes, np.uint8)
        self.host: ByteArray = np.zeros(host_bytes, np.uint8)
        environment = EnvironmentStruct(
            device=MemoryStruct(self.device.ctypes.data, device_bytes, device_base),
            host=MemoryStruct(self.host.ctypes.data, host_bytes, host_base),
            dram_bytes_per_cycle=config.channel_bytes_per_cycle,
            dram_latency=config.dram_latency_cycles,
            dram_outstanding=config.dram_outstanding,
            refresh_interval=config.refresh_interval_cycles,
            refresh_length=config.refresh_cycles,
            interleave_bytes=config.interleave_bytes,
            link_out_bytes_per_cycle=config.link_out_bytes_per_cycle,
            link_in_bytes_per_cycle=config.link_in_bytes_per_cycle,
            link_latency=config.link_latency_cycles,
            link_overhead_bytes=config.link_overhead_bytes,
            link_outstanding=config.link_outstanding,
            link_buffer_bursts=config.link_buffer_bursts,
            host_period=host_period,
            host_phase=Random(seed).random(),
            window=window_cycles,
            stall=stalls,
            seed=seed % 2**64,
        )
        super().__init__(
            library,
            verilog.name,
            "cdma_engine_open",
            environment,
            (self.device, self.host),
            (*range(self.units), HOST),
            waves,
            PAGE_BYTES << (self.rings - 1).bit_length(),
        )
        library.cdma_engine_sleep(self._handle, sleep)

    def reset(self) -> None:
        """As of `BusMachine`; a computation ends, too."""
        super().reset()
        self._computes = False

    def run_until_word(
        self, address: int, budget: int, *, mask: int = 2**32 - 1, unlike: int = 0
    ) -> int:
        """Run until a word of host memory, masked, is no longer `unlike`, and return the word.

        What software does that polls a completion record.

        Parameters
        ----------
        address : int
            Of 32 bits, little-endian, in host memory; a multiple of 4.

        Raises
        ------
        HangError
            It still is after `budget` cycles; the message lists what is outstanding.
        ValueError
            The address is not in host memory.
        """
        offset = address - self.host_base
        if offset % 4 or not 0 <= offset <= len(self.host) - 4:
            raise ValueError(f"a word must be in host memory, aligned, not at {address:#x}")
        word = self.host[offset : offset + 4].view("<u4")
        run = RunStruct(cycles=budget, word=word.ctypes.data, mask=mask, value=unlike & mask)
        if not self._run(run):
            self._hang(budget, f"the word at {address:#x} stays {int(word[0]):#x}")
        return int(word[0])

    def compute(self, layers: Sequence[tuple[float, float]], start: float | None = None) -> None:
        """Compute layers one after another beside the engine, as a processor would.

        A layer takes cycles of arithmetic, and accesses to the device's memory, spread over these.
        It ends when both have ended. At a channel, copies come first: the computation's accesses
        are served when nothing else waits, each for as long as a line takes.

        Parameters
        ----------
        layers : sequence of (float, float)
            For each, the cycles of its arithmetic, and those for which its accesses take all
            channels if nothing else does.
        start : float, optional
            The cycle in which the first layer starts; one that is over counts for its arithmetic.
            Now if absent.

        Raises
        ------
        ValueError
            A number is negative or not finite, or a computation has not ended.
        """
        table = np.array([tuple(layer) for layer in layers], lib.LAYER)
        for name in lib.LAYER.names or ():
            if not np.all((table[name] >= 0) & np.isfinite(table[name])):
                raise ValueError(f"{name} must be 0 or more, not {table[name].tolist()}")
        with self._running():
            if self._computes:
                raise ValueError("a computation has not ended; run until it has")
            begin = float(self._library.cdma_bus_cycle(self._handle)) if start is None else start
            self._library.cdma_engine_compute(self._handle, table.ctypes.data, len(table), begin)
            self._computes = True

    def run_computation(self, cycles: int) -> float | None:
        """Run until the computation has ended, at most so many cycles.

        Returns
        -------
        float or None
            The cycle in which it ended, with its fraction; None if it has not.
        """
        if not self._run(RunStruct(cycles=cycles, computed=1)):
            return None
        self._computes = False
        with self._open():
            return float(self._library.cdma_engine_computed(self._handle))

    def watch(self) -> None:
        """Note addresses and errors of all ports from now on, and forget those noted before."""
        with self._open():
            self._library.cdma_engine_watch(self._handle)

    def events(self) -> list[BusEvent]:
        """The addresses and errors noted since `watch`, in the order of their cycles."""
        found = []
        with self._open():
            for number, port in enumerate(self._ports):
                start = ctypes.c_void_p()
                count = self._library.cdma_engine_events(self._handle, number, start)
                noted = np.empty(count, BUS_EVENT)
                if count and start.value:
                    ctypes.memmove(noted.ctypes.data, start.value, noted.nbytes)
                found += [
                    BusEvent(cycle, port, EVENT_KINDS[kind], address, beats)
                    for cycle, kind, address, beats in noted.tolist()
                ]
        return sorted(found, key=lambda event: event.cycle)

    def counters(self) -> Counters:
        """Counts of the environment since they were cleared."""
        totals = lib.CountersStruct()
        ports = np.zeros(self.units + 1, PORT_COUNTERS)
        with self._open():
            self._library.cdma_engine_counters(self._handle, totals, ports.ctypes.data)
            now = int(self._library.cdma_bus_cycle(self._handle))
        memories = ports[:-1]
        return Counters(
            cycles=now - totals.since,
            link_out_busy_cycles=totals.link_out_busy_cycles,
            link_in_busy_cycles=totals.link_in_busy_cycles,
            link_out_bytes=int(ports["written_bytes"][-1]),
            link_in_bytes=int(ports["read_bytes"][-1]),
            dram_read_bytes=memories["read_bytes"].copy(),
            dram_written_bytes=memories["written_bytes"].copy(),
            foreign_bytes=memories["foreign_bytes"].copy(),
            window_dram_read_bytes=totals.window_read_bytes,
            window_dram_written_bytes=totals.window_written_bytes,
            **{
                name: ports[name].copy()
                for name in PORT_COUNTERS.names or ()
                if name not in ("read_bytes", "written_bytes", "foreign_bytes")
            },
        )


def _rings(verilog: VerilogText) -> int:
    """The number of an engine's rings, which is that of its interrupt's lines."""
    lines = re.search(r"output[^;,\n]*\[(\d+):0\]\s*irq\b", verilog.text)
    return 1 if lines is None else int(lines[1]) + 1


def _host_period(verilog: VerilogText, config: MachineConfig, host_clock_hz: float | None) -> float:
    """The period of an engine's clock for the host, in cycles of its other one; 0 without one."""
    if re.search(r"^  input wire host_clk\b", verilog.text, re.M) is None:
        if host_clock_hz is not None:
            raise ConfigError(
                f"host_clock_hz must not be given: {verilog.name} has one clock; set host_clock of "
                "EngineConfig"
            )
        return 0.0
    ratio = config.clock_hz / (config.clock_hz if host_clock_hz is None else host_clock_hz)
    if not 1 / MOST_RATIO <= ratio <= MOST_RATIO:
        raise ConfigError(
            f"host_clock_hz must be within {MOST_RATIO} times of clock_hz, {config.clock_hz:g}, "
            f"not {host_clock_hz!r}"
        )
    return ratio


def _require_channels(verilog: VerilogText, config: MachineConfig) -> None:
    """Refuse a machine with another number of channels than the engine has memory ports."""
    ports = len(set(re.findall(r"m_axi_mem(\d+)_arvalid\b", verilog.text)))
    if config.channels != ports:
        raise ConfigError(
            f"channels must be {ports}, the memory ports of {verilog.name}, not {config.channels!r}"
        )
