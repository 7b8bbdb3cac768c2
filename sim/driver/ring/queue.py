"""Transfers between software's hands and the ring's."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from cdma.hw.dma.control.descriptor import Opcode
from cdma.sim.driver.errors import DroppedError, EngineError, OverlapError
from cdma.sim.driver.memory.buffers import Memory, Span
from cdma.sim.driver.memory.ranges import Ranges
from cdma.sim.driver.ring.descriptor import Fields
from cdma.sim.driver.ring.record import CompletionRecord
from cdma.sim.driver.ring.ring import INDEXES, Ring


@dataclass(eq=False)
class Transfer:
    """A descriptor that was given to the engine.

    Attributes
    ----------
    index : int
        Its number since the engine was set up.
    fields : dict
        The descriptor's.
    reads, writes : tuple of Span
        What it uses of buffers.
    record : CompletionRecord or None
        None until the driver has seen it.
    dropped : bool
        A reset came first: there will be no record.
    """

    index: int
    fields: Fields
    reads: tuple[Span, ...] = ()
    writes: tuple[Span, ...] = ()
    record: CompletionRecord | None = field(default=None, init=False)
    dropped: bool = field(default=False, init=False)

    @property
    def done(self) -> bool:
        """True if the transfer has its record, or will never have one."""
        return self.record is not None or self.dropped

    def result(self) -> CompletionRecord:
        """The record of a transfer that is done; `DroppedError` if there is none."""
        assert self.done
        if self.record is None:
            raise DroppedError(f"{self}: the engine was reset before its record came")
        return self.record

    def __str__(self) -> str:
        code = self.fields.get("opcode", 0)
        name = Opcode(code).name if code in list(Opcode) else f"opcode {code}"
        return f"descriptor {self.index} ({name}, tag {self.fields.get('tag', 0):#x})"


class Queue:
    """Transfers in the order of the ring, and which of them may touch the same bytes.

    Parameters
    ----------
    ring : Ring
    """

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self._pending: deque[Transfer] = deque()
        # Those that nothing keeps from running at the same time as the next one, in order; and what
        # they read and write, by memory.
        self._concurrent: dict[Transfer, None] = {}
        self._read: dict[Memory, Ranges] = {}
        self._written: dict[Memory, Ranges] = {}
        self._end: int | None = None

    @property
    def oldest(self) -> Transfer | None:
        return self._pending[0] if self._pending else None

    def __iter__(self) -> Iterator[Transfer]:
        return iter(self._pending)

    def __contains__(self, transfer: object) -> bool:
        return transfer in self._pending

    def require_apart(self, reads: tuple[Span, ...], writes: tuple[Span, ...]) -> None:
        """Raise `OverlapError` if a transfer in flight could meet these bytes.

        Both may read the same.
        """
        for spans, used in (
            (writes, self._written),
            (writes, self._read),
            (reads, self._written),
        ):
            for span in spans:
                ranges = used.get(span.memory)
                if ranges is not None and ranges.meets(span.address, span.end):
                    raise self._overlap(reads, writes)

    def add(
        self,
        fields: Fields,
        reads: tuple[Span, ...] = (),
        writes: tuple[Span, ...] = (),
        *,
        fences: bool = False,
    ) -> Transfer:
        """Put a descriptor into the ring, which must have a free slot.

        `fences` says that those behind it wait for those before it.
        """
        transfer = Transfer(self.ring.put(fields), fields, reads, writes)
        self._pending.append(transfer)
        if fences:
            self._forget_concurrent()
        else:
            self._concurrent[transfer] = None
            for span, used in _uses(transfer, self._read, self._written):
                used.setdefault(span.memory, Ranges()).add(span.address, span.end)
        for span in (*reads, *writes):
            span.buffer.users += 1
        return transfer

    def stop(self, done: int) -> None:
        """Note that the ring has stopped at RING_DONE = `done`: later records are not to be
        believed.

        Of a record whose write was given up there may be a part.
        """
        ahead = (done - self.ring.taken) % INDEXES
        self._end = self.ring.taken + (ahead if ahead <= self.ring.entries else 0)

    def collect(self) -> int:
        """Hand all records that have come to their transfers, and return their number."""
        count = 0
        while self.ring.taken != self._end and (record := self.ring.take()) is not None:
            transfer = self._pending.popleft()
            tag = transfer.fields.get("tag", 0)
            if (record.index, record.tag) != (transfer.index % INDEXES, tag):
                raise EngineError(
                    f"the record of {transfer} is that of descriptor {record.index} with tag "
                    f"{record.tag:#x}"
                )
            transfer.record = record
            self._release(transfer)
            count += 1
        return count

    def drop_all(self) -> None:
        """Note a reset: a transfer without a record now never gets one."""
        while self._pending:
            if not self.collect():
                transfer = self._pending.popleft()
                self.ring.drop()
                transfer.dropped = True
                self._release(transfer)
        self._forget_concurrent()
        self._end = None

    def _release(self, transfer: Transfer) -> None:
        for span in (*transfer.reads, *transfer.writes):
            span.buffer.users -= 1
        if transfer in self._concurrent:
            del self._concurrent[transfer]
            for span, used in _uses(transfer, self._read, self._written):
                used[span.memory].remove(span.address, span.end)

    def _forget_concurrent(self) -> None:
        self._concurrent.clear()
        self._read.clear()
        self._written.clear()

    def _overlap(self, reads: tuple[Span, ...], writes: tuple[Span, ...]) -> OverlapError:
        """Make the error that names the transfer whose bytes overlap these; one is known to."""
        transfer, other = next(
            (transfer, other)
            for transfer in self._concurrent
            for spans, others in (
                (writes, transfer.writes),
                (writes, transfer.reads),
                (reads, transfer.writes),
            )
            for span in spans
            for other in others
            if _meet(span, other)
        )
        return OverlapError(
            f"{other.buffer} is still used by {transfer}; wait for it, or put a fence between"
        )


def _uses(
    transfer: Transfer, read: dict[Memory, Ranges], written: dict[Memory, Ranges]
) -> Iterator[tuple[Span, dict[Memory, Ranges]]]:
    """Yield each of a transfer's spans, with its memory."""
    for span in transfer.reads:
        yield span, read
    for span in transfer.writes:
        yield span, written


def _meet(a: Span, b: Span) -> bool:
    if a.memory is not b.memory or not a.nbytes or not b.nbytes:
        return False
    return a.address < b.end and b.address < a.end
