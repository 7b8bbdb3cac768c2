"""The driver of the DMA engine: what a kernel would do, by registers and rings alone."""

from collections.abc import Mapping

from cdma.hw.config import DEFAULT_CODECS
from cdma.hw.dma.control.descriptor import Flag, Opcode
from cdma.hw.dma.control.registers import ring_register_map
from cdma.plan.platform.throttles import THROTTLES, Throttle
from cdma.sim.driver.copy import ENGINE_CODEC, CopyKind, copy_fields, whole
from cdma.sim.driver.errors import DescriptorError, DriverError, RingFullError, StuckError
from cdma.sim.driver.exclusive import Exclusive, claimed, exclusive
from cdma.sim.driver.integers import require_integer
from cdma.sim.driver.memory.buffers import Buffer, Span
from cdma.sim.driver.memory.sharing import shared_memories
from cdma.sim.driver.registers import RegisterFile
from cdma.sim.driver.ring.descriptor import Fields, check, integers
from cdma.sim.driver.ring.queue import Queue, Transfer
from cdma.sim.driver.ring.record import CompletionRecord, FirstError
from cdma.sim.driver.ring.ring import Ring
from cdma.sim.driver.shape import EngineShape, read_shape
from cdma.sim.driver.waiter import POLL_CYCLES, Waiter
from cdma.sim.driver.windows import OPEN, Windows, write_windows
from cdma.sim.machine import Machine

TIMEOUT_CYCLES = 100_000

THROTTLE_CLASSES = 2
NO_THROTTLES = (THROTTLES["none"], THROTTLES["none"])

PATIENCE_TIMEOUTS = 4
"""After so many time-outs without any movement, the engine counts as stuck."""


class Engine:
    """Copies between device and host memory, compressed or not.

    Sets up the engine and its ring in host memory. Then a copy is a descriptor in the ring, and its
    end a record that is written beside it.

    A ring of a machine has one driver at a time, until the driver is closed or nothing refers to it
    any more. One thread at a time may call it or its memories; a second one gets
    `ConcurrentUseError`. Drivers of several rings do not get in each other's way: each has its
    buffers in the memories, its transfers and its errors. Time-outs, throttles and counters are
    those of the engine; the driver of ring 0 sets them.

    Parameters
    ----------
    machine : Machine
    ring : int
        The engine's ring that is driven.
    ring_entries : int
        Descriptors that may be outstanding: a power of two, 2 to 32768.
    throttles : (Throttle, Throttle)
        Of ring 0's driver: what limits the reads of device memory of copies with throttle class 0,
        and of those with 1.
    timeout_cycles : int
        Of ring 0's driver: after so much silence on a bus that owes an answer, a copy ends with
        TIMEOUT. 0: never.
    interrupts : bool
        Sleep until an interrupt, instead of looking at the records in host memory.
    coalesce_count, coalesce_cycles : int
        So many records share an interrupt; none waits for others longer than that.
    codecs : tuple of str
        What the engine was built with (`CodecConfig.codecs`); no register tells.
    windows : Windows, optional
        The addresses that the engine keeps to. Without them they stay as they are: open, unless
        another driver has closed them since the block was reset.

    Attributes
    ----------
    ring : int
    shape : EngineShape
        The engine's configuration, from its registers.
    device, host : Memory
        Where buffers come from.
    registers : RegisterFile
    windows : Windows
        As given; `OPEN` if none were.

    Raises
    ------
    EngineError
        There is no engine that this driver knows.
    DriverError
        An argument is out of range, the machine has another driver, or other windows are locked.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        ring: int = 0,
        ring_entries: int = 64,
        throttles: tuple[Throttle, Throttle] = NO_THROTTLES,
        timeout_cycles: int = TIMEOUT_CYCLES,
        interrupts: bool = False,
        coalesce_count: int = 1,
        coalesce_cycles: int = 0,
        codecs: tuple[str, ...] = DEFAULT_CODECS,
        windows: Windows | None = None,
    ) -> None:
        for name, value, bits in (
            ("timeout_cycles", timeout_cycles, 32),
            ("coalesce_count", coalesce_count, 16),
            ("coalesce_cycles", coalesce_cycles, 32),
        ):
            require_integer(name, value, 0, 2**bits - 1)
        if coalesce_count > 1 and not coalesce_cycles:
            raise DriverError(
                "coalesce_cycles must be at least 1 with a coalesce_count of "
                f"{coalesce_count}, not 0: the last records would wait for ever"
            )
        if not isinstance(interrupts, bool):
            raise DriverError(f"interrupts must be True or False, not {interrupts!r}")
        if len(throttles) != THROTTLE_CLASSES:
            raise DriverError(
                f"throttles must be {THROTTLE_CLASSES}, one for each class, not {len(throttles)}"
            )
        if not isinstance(windows, Windows | None):
            raise DriverError(f"windows must be Windows or None, not {windows!r}")
        require_integer("ring", ring, 0)
        if ring >= machine.rings:
            rings = "one ring" if machine.rings == 1 else f"{machine.rings} rings"
            raise DriverError(
                f"ring must be 0 to {machine.rings - 1}, not {ring}: the engine has {rings}"
            )
        what = f"this engine's driver of ring {ring}" if ring else "this engine's driver"
        self._guard = Exclusive(what)
        self.machine = machine
        self.ring = ring
        if timeout_cycles != TIMEOUT_CYCLES:
            self._require_ring_0("timeout_cycles")
        if tuple(throttles) != NO_THROTTLES:
            self._require_ring_0("throttles")
        self.interrupts = interrupts
        self.timeout_cycles = timeout_cycles
        self.coalesce_count = coalesce_count
        self.coalesce_cycles = coalesce_cycles
        self._throttles = list(throttles)
        self._sets_windows = windows is not None
        self.windows = windows or OPEN
        with claimed(machine, self._guard, ring) as others:
            self.registers = RegisterFile(machine, ring_register_map(ring))
            self.shape: EngineShape = read_shape(self.registers, machine, codecs)
            memories = shared_memories(machine)
            for former in memories.rings():
                if former not in others:
                    # What is in flight still uses memory that others may get then; this ring's own
                    # ends before it gets any if there are no others.
                    if former != ring or others:
                        self._stop(former)
                    memories.give_back(former)
            self.device, self.host = memories.of_ring(ring, self._guard)
            self._ring = Ring(self.host, ring_entries, self.windows)
            self._queue = Queue(self._ring)
            self._waiter = Waiter(
                machine,
                self.registers,
                self._queue,
                interrupts=interrupts,
                patience_cycles=PATIENCE_TIMEOUTS * max(timeout_cycles, TIMEOUT_CYCLES),
                ring=ring,
            )
            self.reset()

    # Copies

    @exclusive
    def memcpy_compressed(
        self,
        dst: Buffer | Span,
        src: Buffer | Span,
        nbytes: int,
        kind: CopyKind,
        codec: str | None = ENGINE_CODEC,
        *,
        element_bytes: int | None = None,
        stream_bytes: int | None = None,
        verify: bool = False,
        crc: int | None = None,
        tag: int | None = None,
        throttle_class: int = 0,
        parameters: Mapping[str, int] | None = None,
    ) -> CompletionRecord:
        """Copy and wait: `cudaMemcpyCompressed` of cDMA, §V-E. Arguments as of `submit`."""
        transfer = self.submit(
            dst,
            src,
            nbytes,
            kind,
            codec,
            element_bytes=element_bytes,
            stream_bytes=stream_bytes,
            verify=verify,
            crc=crc,
            tag=tag,
            throttle_class=throttle_class,
            parameters=parameters,
        )
        return self.wait(transfer)

    @exclusive
    def submit(
        self,
        dst: Buffer | Span,
        src: Buffer | Span,
        nbytes: int,
        kind: CopyKind,
        codec: str | None = ENGINE_CODEC,
        *,
        element_bytes: int | None = None,
        stream_bytes: int | None = None,
        verify: bool = False,
        crc: int | None = None,
        tag: int | None = None,
        throttle_class: int = 0,
        parameters: Mapping[str, int] | None = None,
        doorbell: bool = True,
        wait_for_slot: bool = True,
    ) -> Transfer:
        """Begin a copy. Copies without a fence between them may run at the same time.

        Parameters
        ----------
        dst, src
            Buffers, or parts of them.
        nbytes
            Uncompressed bytes.
        kind
            Which memory is which.
        codec
            How host memory has it, by the codec's name: the engine's first one if not given. None
            is a plain copy.
        element_bytes
            The engine's if not given; there is no other choice.
        stream_bytes
            To the device: size of the compressed stream; all of `src` if not given.
        verify
            To the host: read back and decompress what was written, before the record.
        crc
            To the device: CRC-32 that the uncompressed bytes must have.
        tag
            The record has it, too; the descriptor's number if not given.
        throttle_class
            Which of the two throttles is for this copy to the host.
        parameters
            The codec's, by name (`LineCodec.parameters`), the same ones both ways; those that are
            not given are the usual ones.
        doorbell
            Tell the engine now. If not, the next doorbell does, or a wait for what has no record.
        wait_for_slot
            If the ring is full, wait until it is not.

        Raises
        ------
        DescriptorError
            The engine would refuse it; the message and `field` tell what is wrong.
        OverlapError
            It could meet a copy that is in flight.
        UseAfterFreeError
            A buffer has been freed.
        DriverError
            An argument is not of the type that it should be.
        RingFullError
            There is no room, and `wait_for_slot` is false.
        EngineError
            There is no room, and the engine does not go on.
        """
        target, source = whole("dst", dst), whole("src", src)
        fields = copy_fields(
            target,
            source,
            nbytes,
            kind,
            codec,
            device=self.device,
            host=self.host,
            engine_element_bytes=self.shape.element_bytes,
            engine_codecs=self.shape.codecs,
            windows=self.windows,
            element_bytes=element_bytes,
            stream_bytes=stream_bytes,
            verify=verify,
            crc=crc,
            tag=self._ring.tail % 2**32 if tag is None else tag,
            throttle_class=throttle_class,
            interrupt=self.interrupts,
            record=self._ring.next_record,
            parameters={} if parameters is None else parameters,
        )
        self._queue.collect()
        self._queue.require_apart((source,), (target,))
        self._wait_for_slot(wait_for_slot)
        fields["record"] = self._ring.next_record
        transfer = self._queue.add(fields, (source,), (target,))
        if doorbell:
            self.doorbell()
        return transfer

    @exclusive
    def fence(self, *, doorbell: bool = True) -> Transfer:
        """Make all later descriptors wait until every earlier one has its record."""
        return self.submit_raw(
            {"opcode": Opcode.FENCE, "tag": self._ring.tail % 2**32}, doorbell=doorbell, checks=True
        )

    @exclusive
    def submit_raw(
        self,
        fields: Fields,
        *,
        doorbell: bool = True,
        wait_for_slot: bool = True,
        checks: bool = False,
    ) -> Transfer:
        """Submit a descriptor of these fields, right or wrong. Buffers are not known, nor
        protected.

        Parameters
        ----------
        fields
            Of the descriptor, by name. What is missing is 0, but for `record`, which is the slot's,
            and the interrupt flag, if interrupts are used.
        doorbell, wait_for_slot
            As of `submit`.
        checks
            Raise `DescriptorError` for what the engine would refuse.
        """
        if not isinstance(fields, Mapping):
            raise DriverError(f"fields must be a mapping from names, not {fields!r}")
        fields = integers(fields)
        complete = {
            "record": self._ring.next_record,
            "flags": int(Flag.INTERRUPT) if self.interrupts else 0,
            **fields,
        }
        if checks:
            check(complete, self.shape.element_bytes, self.shape.codecs, self.windows)
        self._wait_for_slot(wait_for_slot)
        transfer = self._queue.add(complete, fences=self._fences(complete))
        if doorbell:
            self.doorbell()
        return transfer

    @exclusive
    def doorbell(self) -> int:
        """Let the engine fetch all that was submitted, and return the cycle of the write."""
        return self._waiter.doorbell()

    @exclusive
    def poll(self) -> int:
        """Collect the records that have come, without waiting, and return their number."""
        return self._queue.collect()

    @exclusive
    def wait(self, transfer: Transfer) -> CompletionRecord:
        """Run the machine until a transfer has its record, and return it.

        Raises
        ------
        RingError, StuckError
            There will not be one.
        DroppedError
            A reset came first.
        DriverError
            Another engine has it.
        """
        if not isinstance(transfer, Transfer):
            raise DriverError(f"transfer must be what submit returns, not {transfer!r}")
        if not transfer.done:
            if transfer not in self._queue:
                raise DriverError(f"{transfer} is of another engine; wait with that one")
            self._waiter.wait(lambda: transfer.done)
        return transfer.result()

    @exclusive
    def wait_all(self) -> list[CompletionRecord]:
        """The records of all outstanding transfers, in order. Raises as `wait` does."""
        transfers = list(self._queue)
        self._waiter.wait(lambda: not self._ring.pending)
        return [transfer.result() for transfer in transfers]

    @property
    def pending(self) -> int:
        """Transfers whose record the driver has not seen."""
        return self._ring.pending

    # Control

    @exclusive
    def abort(self) -> None:
        """End everything that the engine has fetched, with ABORTED unless it has ended before.

        Descriptors that it has not fetched come afterwards as if nothing had been.
        """
        self.registers.write("CONTROL", abort=1, enable=1)
        self._waiter.poll(lambda: not self._is_aborting(), "an abort does not end")
        self._queue.collect()

    @exclusive
    def reset(self) -> None:
        """Abort, drop what has not been fetched, and set up the engine anew.

        What was fetched has its record. Buffers and counters stay.
        """
        if self._waiter.look_at_ring():
            # Some may still end, and after the reset RING_DONE tells nothing of them.
            self.registers.write("CONTROL", abort=1)
            self._waiter.poll(lambda: not self._is_aborting(), "an abort does not end")
            self._waiter.look_at_ring()
        self.registers.write("CONTROL", reset=1)
        self._waiter.poll(lambda: _is_at_rest(self.registers), "a reset does not end")
        self._queue.drop_all()
        self._ring.clear()
        self._waiter.restart()
        self._set_up()

    def close(self) -> None:
        """Give up the machine, so that it can have another driver. Closing twice does no harm.

        The engine is left as it is: the next driver resets it, and what is in flight is lost.
        """
        if not self._guard.closed:
            with self._guard:
                self._guard.close()

    @exclusive
    def set_throttle(self, throttle_class: int, throttle: Throttle) -> None:
        """Limit the reads of a throttle class from now on. Only of ring 0's driver."""
        self._require_ring_0("throttles")
        require_integer("throttle_class", throttle_class, 0, THROTTLE_CLASSES - 1)
        if not isinstance(throttle, Throttle):
            raise DriverError(f"throttle must be a Throttle, not {throttle!r}")
        name = f"THROTTLE{throttle_class}"
        rate = throttle.rate(self.machine.config.clock_hz)
        self.registers.write(f"{name}_BURST", value=throttle.burst_bytes)
        self.registers.write(f"{name}_RATE", value=rate)
        self._throttles[throttle_class] = throttle

    @exclusive
    def counters(self) -> dict[str, int]:
        """Performance counters of the engine by their names, as `raw_bytes_out`."""
        return self.registers.counters()

    @exclusive
    def clear_counters(self) -> None:
        """Set all counters to zero. Only of ring 0's driver."""
        self._require_ring_0("counters")
        self.registers.write("PERF_CONTROL", clear=1)

    @exclusive
    def first_error(self) -> FirstError | None:
        """The first error since `clear_error`; None if there was none."""
        return self._waiter.first_error()

    @exclusive
    def clear_error(self) -> None:
        """Clear the error registers, so that the next error is the first."""
        self.registers.write("IRQ_STATUS", error=1)

    def _set_up(self) -> None:
        write = self.registers.write
        if self._sets_windows:
            write_windows(self.registers, self.windows)
        self.registers.write_long("RING_BASE", self._ring.base)
        write("RING_SIZE", log2_entries=self._ring.entries.bit_length() - 1)
        if not self.ring:
            write("TIMEOUT_CYCLES", value=self.timeout_cycles)
        write("IRQ_COALESCE_COUNT", value=self.coalesce_count)
        write("IRQ_COALESCE_CYCLES", value=self.coalesce_cycles)
        write("IRQ_STATUS", done=1, error=1, ring_error=1)
        # Errors of descriptors are in their records.
        write("IRQ_ENABLE", done=self.interrupts, ring_error=self.interrupts)
        if not self.ring:
            for throttle_class, throttle in enumerate(self._throttles):
                self.set_throttle(throttle_class, throttle)
        write("CONTROL", enable=1)

    def _stop(self, ring: int) -> None:
        """End what a former driver has left in a ring."""
        registers = RegisterFile(self.machine, ring_register_map(ring))
        registers.write("CONTROL", reset=1)
        deadline = self.machine.cycles + PATIENCE_TIMEOUTS * TIMEOUT_CYCLES
        while not _is_at_rest(registers):
            if self.machine.cycles > deadline:
                raise StuckError(f"a reset of ring {ring}, which has no driver, does not end")
            self.machine.run(POLL_CYCLES)

    def _require_ring_0(self, what: str) -> None:
        if self.ring:
            raise DriverError(f"{what} are the engine's; ring 0's driver sets them")

    def _fences(self, fields: Fields) -> bool:
        """Return True for a fence, but for one that the engine refuses: nothing waits for that."""
        if fields.get("opcode") != Opcode.FENCE:
            return False
        try:
            check(fields, self.shape.element_bytes, self.shape.codecs, self.windows)
        except DescriptorError:
            return False
        return True

    def _wait_for_slot(self, wait: bool) -> None:
        if not self._ring.full:
            return
        self._queue.collect()
        if self._ring.full and not wait:
            raise RingFullError(
                f"the ring's {self._ring.entries} slots are all in use; wait for "
                f"{self._queue.oldest}"
            )
        self._waiter.wait(lambda: not self._ring.full)

    def _is_aborting(self) -> bool:
        return bool(self.registers.read("STATUS")["aborting"])


def _is_at_rest(registers: RegisterFile) -> bool:
    status = registers.read("STATUS")
    return bool(status["idle"] and not status["resetting"])
