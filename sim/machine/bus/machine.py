"""A design on AXI with memories around it, registers and an interrupt: what all of them do."""

import ctypes
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cdma.golden.formats.stream import ByteArray
from cdma.hw.config import ConfigError
from cdma.sim.machine.bus import library as lib
from cdma.sim.machine.bus.bus import BusFault, DeliveredFault, fault_array
from cdma.sim.machine.errors import (
    AssertionFailedError,
    HangError,
    MachineError,
    ProtocolError,
    RegisterError,
    RunError,
    readable,
)
from cdma.sim.machine.pipeline.library import ASSERTION, DONE, PROTOCOL
from cdma.sim.machine.waves import require_writable

PAGE_BYTES = 4096
_RUN_ERRORS: dict[int, type[RunError]] = {ASSERTION: AssertionFailedError, PROTOCOL: ProtocolError}
_RESPONSES = ("OKAY", "EXOKAY", "SLVERR", "DECERR")


def whole_pages(nbytes: int) -> int:
    """The least bytes of a memory of whole pages that holds so many."""
    return -(-nbytes // PAGE_BYTES) * PAGE_BYTES


class BusMachine:
    """RTL that runs in C++, between memories that are numpy arrays.

    A call runs until something happens, and does not hold the GIL. Nothing but calls lets time
    pass. The memories are the design's while a call runs; between calls they are the caller's.

    Parameters
    ----------
    library : CDLL
        What `shim/bus/abi.h` promises, and a function `open`.
    name : str
        Of the design, for messages.
    open_function : str
        The library's function that makes an instance.
    environment : EnvironmentStruct
        For that function.
    memories : tuple of uint8 arrays
        Those in `environment`: they outlive the simulator.
    ports : tuple of int or str
        How faults name the ports to memories, in the shim's order.
    waves : path, optional
    register_bytes : int
        Size of the registers' address space.

    Raises
    ------
    MachineError
        `waves` cannot be written, or the simulator cannot be started.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        name: str,
        open_function: str,
        environment: Any,
        memories: tuple[ByteArray, ...],
        ports: tuple[int | str, ...],
        waves: str | Path | None,
        register_bytes: int = PAGE_BYTES,
    ) -> None:
        if waves is not None:
            require_writable(Path(waves))
        self._library = library
        self._ports = ports
        self._register_bytes = register_bytes
        self._faults = fault_array((), ports)
        handle = getattr(library, open_function)(
            environment, None if waves is None else str(waves).encode()
        )
        if handle is None:
            raise MachineError(f"the simulator of {name} cannot be started")
        self._handle = handle
        self._lock = threading.Lock()
        # It holds the memories as well: they must outlive the simulator.
        self._close = weakref.finalize(self, _close, library, handle, memories)
        self._stopped: str | None = None
        self.reset()

    @property
    def cycles(self) -> int:
        """Cycles since the machine was opened, those of resets included."""
        with self._open():
            return int(self._library.cdma_bus_cycle(self._handle))

    @property
    def irq(self) -> bool:
        """The interrupt pin; of several lines, any of them."""
        return bool(self.irq_lines)

    @property
    def irq_lines(self) -> int:
        """The lines of the interrupt, a bit for each."""
        with self._open():
            return int(self._library.cdma_bus_irq(self._handle))

    def reset(self) -> None:
        """Assert the design's reset for four cycles; the environment forgets what is outstanding.

        Memories, counters and faults stay.

        Raises
        ------
        ProtocolError
            A VALID was high during reset.
        """
        with self._open():
            self._stopped = None
            self._check(self._library.cdma_bus_reset(self._handle))

    def read_register(self, address: int, *, budget: int = 10_000) -> int:
        """A 32-bit register's value. Takes the cycles that the access takes.

        Raises
        ------
        RegisterError
            The design answered with an error.
        HangError
            It did not answer within `budget` cycles. The port is then dead until `reset`.
        """
        value, response, done = (ctypes.c_uint32() for _ in range(3))
        with self._running():
            outcome = self._library.cdma_bus_read_register(
                self._handle, self._register_address(address), budget, value, response, done
            )
            self._check(outcome)
            self._check_access("read of", address, budget, done.value, response.value)
        return value.value

    def write_register(self, address: int, value: int, *, budget: int = 10_000) -> int:
        """Write a 32-bit register, and return the cycle in which the design took the write.

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
            outcome = self._library.cdma_bus_write_register(
                self._handle,
                self._register_address(address),
                *(value, budget, taken, response, done),
            )
            self._check(outcome)
            self._check_access("write of", address, budget, done.value, response.value)
        return taken.value

    def run(self, cycles: int) -> None:
        """Let so many cycles pass."""
        self._run(lib.RunStruct(cycles=cycles))

    def run_until_irq(self, budget: int, *, line: int = 0) -> None:
        """Run until a line of the interrupt is high, at most so long; `HangError` if it is not."""
        if not self._run(lib.RunStruct(cycles=budget, irq=1 << line)):
            self._hang(budget, "no interrupt")

    def run_until_idle(self, budget: int, *, quiet_cycles: int = 256) -> None:
        """Run until nothing has been outstanding on the AXI ports for `quiet_cycles`.

        Raises
        ------
        HangError
            After `budget` cycles that is not so; the message lists what is outstanding.
        """
        if not self._run(lib.RunStruct(cycles=budget, idle_cycles=quiet_cycles)):
            self._hang(budget, "not idle")

    def outstanding(self) -> str:
        """The outstanding accesses on the ports, for people; empty if there are none."""
        with self._open():
            return str(self._library.cdma_bus_describe(self._handle).decode())

    def set_faults(self, faults: Sequence[BusFault]) -> None:
        """Set the faults that happen from now on, and no others. Hangs of earlier ones end.

        Raises
        ------
        ValueError
            A fault that cannot be; the message names what is wrong with it.
        """
        table = fault_array(faults, self._ports)
        with self._open():
            self._library.cdma_bus_set_faults(self._handle, table.ctypes.data, len(table))
            self._faults = table

    def delivered_faults(self) -> list[DeliveredFault]:
        """The faults that were set, in their order, with how often they hit."""
        return [
            DeliveredFault(int(row["delivered"]), int(row["cycle"]), int(row["address"]))
            if row["delivered"]
            else DeliveredFault(0, -1, -1)
            for row in self._faults
        ]

    def clear_counters(self) -> None:
        """Start counting from zero."""
        with self._open():
            self._library.cdma_bus_clear_counters(self._handle)

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

    def _run(self, run: Any) -> bool:
        with self._running():
            self._check(self._library.cdma_bus_run(self._handle, run))
        return bool(run.stopped)

    def _check(self, outcome: int) -> None:
        if outcome == DONE:
            return
        message = readable(self._library.cdma_bus_message(self._handle))
        self._stopped = message
        if outcome in _RUN_ERRORS:
            cycle = self._library.cdma_bus_cycle(self._handle)
            raise _RUN_ERRORS[outcome](cycle, message, counted="")
        raise MachineError(message)

    def _check_access(self, what: str, address: int, budget: int, done: int, response: int) -> None:
        if not done:
            self._stopped = f"the {what} register {address:#x} is not answered"
            raise HangError(
                self._library.cdma_bus_cycle(self._handle),
                f"{self._stopped} after {budget} cycles: "
                + self._library.cdma_bus_describe(self._handle).decode(),
                counted="",
            )
        if response:
            raise RegisterError(
                f"the {what} register {address:#x} is answered with {_RESPONSES[response]}"
            )

    def _register_address(self, address: int) -> int:
        if address % 4 or not 0 <= address < self._register_bytes:
            raise ValueError(
                f"a register's address must be a multiple of 4 below {self._register_bytes}, not "
                f"{address}"
            )
        return address

    def _hang(self, budget: int, what: str) -> None:
        outstanding = self.outstanding() or "nothing is outstanding"
        raise HangError(self.cycles, f"{what} after {budget} cycles: {outstanding}", counted="")


def _close(library: ctypes.CDLL, handle: int, memories: tuple[ByteArray, ...]) -> None:
    library.cdma_bus_close(handle)


def require_pages(**sizes: tuple[int, int]) -> None:
    """Refuse what are not multiples of 4096, each given with the least that it may be."""
    for name, (value, least) in sizes.items():
        if value < least or value % PAGE_BYTES:
            raise ConfigError(f"{name} must be a multiple of {PAGE_BYTES}, not {value!r}")


def require_stalls(stalls: float) -> None:
    """Refuse what is no probability, and 1."""
    if not 0 <= stalls < 1:
        raise ConfigError(f"stalls must be at least 0 and less than 1, not {stalls!r}")
