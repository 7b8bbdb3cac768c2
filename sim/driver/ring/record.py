"""Completion records, as software reads them."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from cdma.golden import StreamStatus
from cdma.hw.dma.control.descriptor import Status
from cdma.sim.driver.errors import DriverError

GOOD = (Status.OK, Status.OK_EXPANDED)
"""Statuses of transfers whose data is whole."""

STREAM_STATUSES = (Status.STREAM_TRUNCATED, Status.STREAM_CORRUPT)
"""Statuses whose detail is a `golden.StreamStatus`."""


@dataclass(frozen=True, kw_only=True)
class CompletionRecord:
    """Completion record of a descriptor.

    Attributes
    ----------
    status : Status
    detail : int
        READ_ERROR, WRITE_ERROR: the bus's response, or 1 for wrong framing. TIMEOUT: a
        `TimeoutDetail`. OUTSIDE_WINDOW: a `WindowDetail`. Stream errors: `stream_status`.
    tag : int
        The descriptor's.
    src_done : int
        To the host: uncompressed bytes whose lines are whole at the destination. To the device:
        bytes of the stream that were read.
    out_size : int
        Bytes at the destination that are right.
    fault_address : int
        Address of the beat or burst at fault; for stream errors, the offset in the stream; for a
        destination overflow, the size of the stream of `src_done` bytes, behind which to go on.
    crc32 : int
        CRC-32 of the uncompressed bytes.
    index : int
        Number of the descriptor since the ring was set up, modulo 65536.
    cycles : int
        Cycles from the descriptor's arrival in the engine to its record.
    result : int
        What the codec tells of the data on the way out, packed; `LineCodec.unpacked_result` has it
        by name.
    """

    status: Status
    detail: int
    tag: int
    src_done: int
    out_size: int
    fault_address: int
    crc32: int
    index: int
    cycles: int
    result: int = 0

    @classmethod
    def parsed(cls, entry: np.ndarray[Any, np.dtype[np.void]]) -> Self:
        """The record that `RECORD_DTYPE` describes."""
        names = (
            *("detail", "tag", "src_done", "out_size"),
            *("fault_address", "crc32", "index", "result"),
        )
        return cls(
            status=Status(int(entry["status"])),
            cycles=int(entry["cycles"]),
            **{name: int(entry[name]) for name in names},
        )

    @property
    def ok(self) -> bool:
        """True if the data has arrived as it should, expanded or not."""
        return self.status in GOOD

    @property
    def stream_status(self) -> StreamStatus | None:
        """Stream error that the record reports; None if the status is another one."""
        return StreamStatus(self.detail) if self.status in STREAM_STATUSES else None

    def check(self) -> Self:
        """Return this record if the transfer ended well; raise `TransferError` otherwise."""
        if not self.ok:
            raise TransferError(self)
        return self

    def describe(self) -> str:
        """Describe the record in one line."""
        detail = self.stream_status.name if self.stream_status else str(self.detail)
        return (
            f"descriptor {self.index} (tag {self.tag:#x}) ended with {self.status.name}, detail "
            f"{detail}, fault address {self.fault_address:#x}, after {self.src_done} bytes read "
            f"and {self.out_size} written"
        )


@dataclass(frozen=True, kw_only=True)
class FirstError:
    """The first error since `Engine.clear_error`; one of the ring itself has tag 0.

    Attributes
    ----------
    status, detail, tag, fault_address
        As in a record.
    """

    status: Status
    detail: int
    tag: int
    fault_address: int


class TransferError(DriverError):
    """Raised for a transfer that did not end well.

    Attributes
    ----------
    record : CompletionRecord
    """

    def __init__(self, record: CompletionRecord) -> None:
        self.record = record
        super().__init__(record.describe())
