"""The descriptor ring and its records, in host memory."""

from typing import Any

import numpy as np

from cdma.hw.dma.control.descriptor import RECORD_DTYPE, RECORD_FIELDS, Status
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.sim.driver.errors import DriverError
from cdma.sim.driver.integers import is_integer
from cdma.sim.driver.memory.buffers import Memory
from cdma.sim.driver.ring.descriptor import Fields, packed
from cdma.sim.driver.ring.record import CompletionRecord
from cdma.sim.driver.windows import OPEN, Windows

ENTRY_COUNTS = tuple(2**k for k in range(1, 16))
INDEXES = 1 << 16
"""The registers count descriptors modulo this."""

NO_INDEX = 2**32 - 1
"""What a record's index is until the engine has written that part of the record."""

_PHASE_BYTE = next(k for k, (name, _) in enumerate(RECORD_FIELDS) if name == "phase")
PHASE_MASK = 1 << 8 * _PHASE_BYTE
"""The phase bit in a record's first word."""


class Ring:
    """Slots for descriptors, with a record for each, which software fills and empties in order.

    Nothing here touches the engine.

    Parameters
    ----------
    memory : Memory
        The host's.
    entries : int
        A power of two, 2 to 32768.
    windows : Windows
        Descriptors and records are put into theirs.

    Attributes
    ----------
    tail : int
        Descriptors that were put in.
    taken : int
        Descriptors whose record has been taken.
    """

    def __init__(self, memory: Memory, entries: int, windows: Windows = OPEN) -> None:
        if not is_integer(entries) or entries not in ENTRY_COUNTS:
            raise DriverError(f"ring_entries must be a power of two, 2 to 32768, not {entries!r}")
        entries = int(entries)
        self.memory = memory
        self.entries = entries
        self._descriptors, self._records = (
            memory.alloc(ENTRY_BYTES * entries, alignment=ENTRY_BYTES, within=window)
            for window in (windows.descriptors, windows.records)
        )
        # Where each slot's record comes: a descriptor may name a place of its own, and the engine
        # aligns that.
        self._record_addresses = [0] * entries
        self.clear()

    @property
    def base(self) -> int:
        """The address of slot 0."""
        return self._descriptors.address

    @property
    def pending(self) -> int:
        """Number of descriptors whose record has not been taken."""
        return self.tail - self.taken

    @property
    def full(self) -> bool:
        return self.pending == self.entries

    @property
    def next_record(self) -> int:
        """Address of the record of the next descriptor."""
        return self._records.address + ENTRY_BYTES * (self.tail % self.entries)

    def clear(self) -> None:
        """Restart with slot 0, as the engine does after a reset."""
        self.tail = 0
        self.taken = 0

    def put(self, fields: Fields) -> int:
        """Fill the next slot, and return the descriptor's number."""
        assert not self.full
        index, slot = self.tail, self.tail % self.entries
        descriptor = np.frombuffer(packed(fields).tobytes(), np.uint8)
        self._descriptors.span(ENTRY_BYTES * slot, ENTRY_BYTES).array[:] = descriptor
        self._record_addresses[slot] = fields.get("record", 0) // ENTRY_BYTES * ENTRY_BYTES
        if self._has_record(slot):
            entry = self._entry(slot)
            entry["status"] = Status.IN_PROGRESS
            entry["phase"] = not self._phase(index)
            # Of a write that is given up the phase may come alone.
            entry["index"] = NO_INDEX
        self.tail += 1
        return index

    def waits_for(self) -> tuple[int, int] | None:
        """The address of the oldest descriptor's record, and its first word's phase before.

        None if the record is not in host memory.
        """
        slot = self.taken % self.entries
        if not self._has_record(slot):
            return None
        return self._record_addresses[slot], 0 if self._phase(self.taken) else PHASE_MASK

    def take(self) -> CompletionRecord | None:
        """Take the oldest descriptor's record, if all of it has come, and free its slot."""
        slot = self.taken % self.entries
        if not self.pending or not self._has_record(slot):
            return None
        entry = self._entry(slot)
        if entry["phase"] != self._phase(self.taken) or entry["index"] == NO_INDEX:
            return None
        self.taken += 1
        return CompletionRecord.parsed(entry)

    def drop(self) -> None:
        """Free the oldest descriptor's slot, whose record will never come."""
        self.taken += 1

    def _phase(self, index: int) -> bool:
        """Phase bit of the records in this lap of the ring."""
        return index // self.entries % 2 == 0

    def _has_record(self, slot: int) -> bool:
        return self.memory.holds(self._record_addresses[slot], ENTRY_BYTES)

    def _entry(self, slot: int) -> np.ndarray[Any, np.dtype[np.void]]:
        record = self.memory.at(self._record_addresses[slot], ENTRY_BYTES)
        return record.view(RECORD_DTYPE)[0]
