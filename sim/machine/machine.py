"""The DMA engine in a machine: device memory, host memory, a link, registers and an interrupt."""

import ctypes
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from golden.stream import ByteArray
from hw.config import ConfigError
from sim.machine import engine_library as lib
from sim.machine.build import ENGINE_SHIM, VerilogText, build_library
from sim.machine.bus import BusFault, Counters, DeliveredFault, fault_array
from sim.machine.config import MachineConfig
from sim.machine.errors import (
    AssertionFailedError,
    HangError,
    MachineError,
    ProtocolError,
    RegisterError,
    RunError,
    readable,
)
from sim.machine.library import ASSERTION, DONE, PROTOCOL
from sim.machine.waves import require_writable, trace_kind

PAGE_BYTES = 4096
_RUN_ERRORS: dict[int, type[RunError]] = {ASSERTION: AssertionFailedError, PROTOCOL: ProtocolError}
_RESPONSES = ("OKAY", "EXOKAY", "SLVERR", "DECERR")


class Machine:
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
        Its surroundings.
    device_bytes, host_bytes : int
        Sizes of the memories, multiples of 4096. Pages become memory when they are touched.
    device_base, host_base : int
        Addresses of their first bytes, multiples of 4096.
    stalls : float
        The probability, per cycle and channel, that a slave is not ready or holds back what it has,
        beyond what latency and bandwidth do. At least 0 and less than 1.
    seed : int
        What stalls, refresh and the values of pins that must not matter are drawn from.
    window_cycles : int, optional
        The window of `Counters.window_dram_read_bytes`: 10 µs if absent.
    waves : path, optional
        Write all signals there, as VCD or FST, whichever the suffix says. Time in it is a
        nanosecond per cycle. Complete after `close`.

    Attributes
    ----------
    device, host : uint8 array
        The memories.

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
        window_cycles: int | None = None,
        waves: str | Path | None = None,
    ) -> None:
        for name, value, least in (
            ("device_bytes", device_bytes, PAGE_BYTES),
            ("host_bytes", host_bytes, PAGE_BYTES),
            ("device_base", device_base, 0),
            ("host_base", host_base, 0),
        ):
            if value < least or value % PAGE_BYTES:
                raise ConfigError(f"{name} must be a multiple of {PAGE_BYTES}, not {value!r}")
        if not 0 <= stalls < 1:
            raise ConfigError(f"stalls must be at least 0 and less than 1, not {stalls!r}")
        if window_cycles is None:
            window_cycles = max(1, round(10e-6 * config.clock_hz))
        if window_cycles < 1:
            raise ConfigError(f"window_cycles must be at least 1, not {window_cycles!r}")

        trace = None if waves is None else trace_kind(Path(waves))
        self._library = lib.load(build_library(verilog, trace=trace, shim=ENGINE_SHIM))
        self.units = int(self._library.cdma_engine_units())
        self.sector_bytes = int(self._library.cdma_engine_sector_bytes())
        self.link_port_bytes = int(self._library.cdma_engine_host_bytes())
        if config.channels != self.units:
            raise ConfigError(
                f"channels must be {self.units}, the memory ports of {verilog.name}, not "
                f"{config.channels!r}"
            )
        if waves is not None:
            require_writable(Path(waves))
        self.config = config
        self.window_cycles = window_cycles
        self.host_base = host_base
        self.device_base = device_base
        self.device: ByteArray = np.zeros(device_bytes, np.uint8)
        self.host: ByteArray = np.zeros(host_bytes, np.uint8)
        self._faults = fault_array((), self.units)
        surroundings = lib.SurroundingsStruct(
            device=lib.MemoryStruct(self.device.ctypes.data, device_bytes, device_base),
            host=lib.MemoryStruct(self.host.ctypes.data, host_bytes, host_base),
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
            window=window_cycles,
            stall=stalls,
            seed=seed % 2**64,
        )
        handle = self._library.cdma_engine_open(
            surroundings, None if waves is None else str(waves).encode()
        )
        if handle is None:
            raise MachineError(f"the simulator of {verilog.name} cannot be started")
        self._handle = handle
        self._lock = threading.Lock()
        # It holds the memories as well: they must outlive the simulator.
        self._close = weakref.finalize(
            self, _close, self._library, handle, (self.device, self.host)
        )
        self._stopped: str | None = None
        self.reset()

    @property
    def cycles(self) -> int:
        """Cycles since the machine was opened, those of resets included."""
        with self._open():
            return int(self._library.cdma_engine_cycle(self._handle))

    @property
    def irq(self) -> bool:
        """The engine's interrupt pin."""
        with self._open():
            return bool(self._library.cdma_engine_irq(self._handle))

    def reset(self) -> None:
        """Assert the engine's reset for four cycles; the surroundings forget what is under way.

        Memories, counters and faults stay.

        Raises
        ------
        ProtocolError
            A VALID was high during reset.
        """
        with self._open():
            self._stopped = None
            self._check(self._library.cdma_engine_reset(self._handle))

    def read_register(self, address: int, *, budget: int = 10_000) -> int:
        """A 32-bit register's value. Takes the cycles that the access takes.

        Raises
        ------
        RegisterError
            The engine answered with an error.
        HangError
            It did not answer within `budget` cycles. The port is then dead until `reset`.
        """
        value, response, done = (ctypes.c_uint32() for _ in range(3))
        with self._running():
            outcome = self._library.cdma_engine_read_register(
                self._handle, _register_address(address), budget, value, response, done
            )
            self._check(outcome)
            self._check_access("read of", address, budget, done.value, response.value)
        return value.value

    def write_register(self, address: int, value: int, *, budget: int = 10_000) -> int:
        """Write a 32-bit register, and return the cycle in which the engine took the write.

        Raises
        ------
        RegisterError, HangError
            As of `read_register`.
        ValueError
            The value has more than 32 bits.
        """
        if not 0 <= value < 2**32:
            raise ValueError(f"a register's value must fit 32 bits, not {value:#x}")
        taken = ctypes.c_uint64()
        response, done = ctypes.c_uint32(), ctypes.c_uint32()
        with self._running():
            outcome = self._library.cdma_engine_write_register(
                self._handle, _register_address(address), value, budget, taken, response, done
            )
            self._check(outcome)
            self._check_access("write of", address, budget, done.value, response.value)
        return taken.value

    def run(self, cycles: int) -> None:
        """Let so many cycles pass."""
        self._run(lib.RunStruct(cycles=cycles))

    def run_until_irq(self, budget: int) -> None:
        """Run until the interrupt is high, at most `budget` cycles; `HangError` if it is not."""
        if not self._run(lib.RunStruct(cycles=budget, irq=1)):
            self._hang(budget, "no interrupt")

    def run_until_idle(self, budget: int, *, quiet_cycles: int = 256) -> None:
        """Run until nothing has been under way on the AXI ports for `quiet_cycles`.

        Raises
        ------
        HangError
            After `budget` cycles that is not so; the message lists what is outstanding.
        """
        if not self._run(lib.RunStruct(cycles=budget, idle_cycles=quiet_cycles)):
            self._hang(budget, "not idle")

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
        run = lib.RunStruct(cycles=budget, word=word.ctypes.data, mask=mask, value=unlike & mask)
        if not self._run(run):
            self._hang(budget, f"the word at {address:#x} stays {int(word[0]):#x}")
        return int(word[0])

    def outstanding(self) -> str:
        """What is under way on the ports, for people; empty if nothing is."""
        with self._open():
            return str(self._library.cdma_engine_describe(self._handle).decode())

    def set_faults(self, faults: Sequence[BusFault]) -> None:
        """From now on these faults happen, and none else. Hangs of earlier ones end.

        Raises
        ------
        ValueError
            A fault that cannot be; the message names what is wrong with it.
        """
        table = fault_array(faults, self.units)
        with self._open():
            self._library.cdma_engine_set_faults(self._handle, table.ctypes.data, len(table))
            self._faults = table

    def delivered_faults(self) -> list[DeliveredFault]:
        """What has become of the faults that were set, in their order."""
        return [
            DeliveredFault(int(row["delivered"]), int(row["cycle"]), int(row["address"]))
            if row["delivered"]
            else DeliveredFault(0, -1, -1)
            for row in self._faults
        ]

    def counters(self) -> Counters:
        """What the surroundings have counted since they were cleared."""
        totals = lib.CountersStruct()
        ports = np.zeros(self.units + 1, lib.PORT_COUNTERS)
        with self._open():
            self._library.cdma_engine_counters(self._handle, totals, ports.ctypes.data)
            now = int(self._library.cdma_engine_cycle(self._handle))
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
                for name in lib.PORT_COUNTERS.names or ()
                if name not in ("read_bytes", "written_bytes", "foreign_bytes")
            },
        )

    def clear_counters(self) -> None:
        """Start counting from zero."""
        with self._open():
            self._library.cdma_engine_clear_counters(self._handle)

    def close(self) -> None:
        """Free the simulator and complete the waves. Closing twice does no harm."""
        with self._lock:
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def _open(self) -> Iterator[None]:
        with self._lock:
            if not self._close.alive:
                raise MachineError("the machine is closed; open another one")
            yield

    @contextmanager
    def _running(self) -> Iterator[None]:
        with self._open():
            if self._stopped is not None:
                raise MachineError(f"the machine has stopped: {self._stopped}; call reset")
            yield

    def _run(self, run: lib.RunStruct) -> bool:
        with self._running():
            self._check(self._library.cdma_engine_run(self._handle, run))
        return bool(run.stopped)

    def _check(self, outcome: int) -> None:
        if outcome == DONE:
            return
        message = readable(self._library.cdma_engine_message(self._handle))
        self._stopped = message
        if outcome in _RUN_ERRORS:
            cycle = self._library.cdma_engine_cycle(self._handle)
            raise _RUN_ERRORS[outcome](cycle, message, counted="")
        raise MachineError(message)

    def _check_access(self, what: str, address: int, budget: int, done: int, response: int) -> None:
        if not done:
            self._stopped = f"the {what} register {address:#x} is not answered"
            raise HangError(
                self._library.cdma_engine_cycle(self._handle),
                f"{self._stopped} after {budget} cycles: "
                + self._library.cdma_engine_describe(self._handle).decode(),
                counted="",
            )
        if response:
            raise RegisterError(
                f"the {what} register {address:#x} is answered with {_RESPONSES[response]}"
            )

    def _hang(self, budget: int, what: str) -> None:
        outstanding = self.outstanding() or "nothing is outstanding"
        raise HangError(self.cycles, f"{what} after {budget} cycles: {outstanding}", counted="")


def _register_address(address: int) -> int:
    if address % 4 or not 0 <= address < 2**12:
        raise ValueError(f"a register's address must be a multiple of 4 below 4096, not {address}")
    return address


def _close(library: ctypes.CDLL, handle: int, memories: tuple[ByteArray, ByteArray]) -> None:
    library.cdma_engine_close(handle)
