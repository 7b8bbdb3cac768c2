"""Descriptors, completion records and statuses, as software and engine exchange them in memory.

Both are 64 B, aligned to 64 B, little-endian. The numpy types are software's view, the Amaranth
layouts the hardware's; they are built from the same lists of fields.
"""

from enum import IntEnum, IntFlag

import numpy as np
from amaranth.lib import data

from cdma.hw.codec.stream.pack import OFFSET_BITS

DEVICE_ADDRESS_BITS = 40
HOST_ADDRESS_BITS = 64
DETAIL_BITS = 2
"""Width of the detail of a descriptor that is refused."""


class Opcode(IntEnum):
    """The operation that a descriptor requests."""

    COMPRESS_OUT = 1
    """Device to host, compressed."""
    DECOMPRESS_IN = 2
    """Host to device, decompressed."""
    COPY_OUT = 3
    """Device to host, as it is."""
    COPY_IN = 4
    """Host to device, as it is."""
    FENCE = 5
    """Nothing, once everything before it has its record."""


class Flag(IntFlag):
    """Bits of a descriptor's `flags`; all others must be zero."""

    INTERRUPT = 1
    """Raise an interrupt when the record is written."""
    CHECK_CRC = 2
    """DECOMPRESS_IN: compare the CRC-32 of the uncompressed bytes with `crc32`."""
    VERIFY = 4
    """COMPRESS_OUT: decompress what was written and compare its CRC-32."""
    THROTTLE_CLASS = 8
    """The index of the token bucket that limits the reads of device memory."""


class Status(IntEnum):
    """The outcome of a descriptor."""

    IN_PROGRESS = 0
    """Not ended; the engine never writes this, software puts it there beforehand."""
    OK = 1
    OK_EXPANDED = 2
    """The data is valid, and takes more space than before."""
    DESTINATION_OVERFLOW = 3
    """`dst_capacity` bytes were written and more were to come. `src_done` and `fault_address` tell
    where to go on: so many uncompressed bytes, whose stream has so many bytes, are whole."""
    STREAM_TRUNCATED = 4
    """The compressed stream ends too early. Detail: the `golden.StreamStatus`."""
    STREAM_CORRUPT = 5
    """The compressed stream is not canonical. Detail: the `golden.StreamStatus`."""
    CRC_MISMATCH = 6
    READ_ERROR = 7
    """A read was answered with an error. Detail: RRESP, or 1 for RLAST on another beat."""
    WRITE_ERROR = 8
    """A write was answered with an error. Detail: BRESP."""
    TIMEOUT = 9
    """The bus was silent for TIMEOUT_CYCLES. Detail: a `TimeoutDetail`."""
    BAD_OPCODE = 10
    BAD_FLAG = 11
    """A reserved bit or byte is not zero, a parameter's among them that the codec has not, or
    codec or element size are not what the engine has."""
    MISALIGNED = 12
    """An address is no multiple of the element size, or the record's none of 64."""
    BAD_LENGTH = 13
    """A length is zero, or a range wraps around the end of its address space."""
    OVERLAP = 14
    """The record lies in the range that the descriptor reads or writes in host memory."""
    ABORTED = 15
    VERIFY_MISMATCH = 16
    OUTSIDE_WINDOW = 17
    """The source or the destination leaves its window. Detail: a `WindowDetail`."""
    MEMORY_ERROR = 18
    """More bits of the engine's memories had flipped than ECC corrects: nothing is known of what
    was moved. So end all transfers, until CONTROL.reset."""


class TimeoutDetail(IntEnum):
    """The kind of access that was not answered in time."""

    READ = 1
    WRITE = 2


class WindowDetail(IntEnum):
    """The addresses that leave their window."""

    SOURCE = 1
    DESTINATION = 2
    RING = 3
    """Those of the ring's descriptors: it stops."""
    RECORD = 4
    """Those of a descriptor's record, which therefore is not written: the ring stops."""


DESCRIPTOR_FIELDS = (
    ("opcode", 1),
    ("codec", 1),
    ("element_bytes", 1),
    ("flags", 1),
    ("tag", 4),
    ("src", 8),
    ("dst", 8),
    ("length", 4),
    ("crc32", 4),
    ("dst_capacity", 8),
    ("src_length", 8),
    ("record", 8),
    ("parameters", 4),
    ("reserved", 4),
)
"""Names and bytes, in order.

`length` counts uncompressed bytes. `src_length` is the stream's size for DECOMPRESS_IN, zero
otherwise. `codec` is the number of a codec that the engine has; it and `element_bytes` are zero
where nothing is compressed. `parameters` are the codec's (`LineCodec.parameters`), in its low bits;
the bits that the codec does not use are zero.
"""

RECORD_FIELDS = (
    ("status", 1),
    ("phase", 1),
    ("detail", 2),
    ("tag", 4),
    ("src_done", 8),
    ("out_size", 8),
    ("fault_address", 8),
    ("crc32", 4),
    ("index", 4),
    ("cycles", 8),
    ("result", 4),
    ("reserved", 12),
)
"""Names and bytes, in order.

`phase` is 1 in the ring's first lap and turns over with each lap. `out_size` counts the bytes that
are right at the destination; on a write error those before the burst at fault. Beyond them, within
`dst_capacity`, a descriptor that failed may have written anything. `src_done` counts, on the way
out, uncompressed bytes: those of the lines whose stream is whole in `out_size`, 0 if the write of a
compressed stream failed; on the way in, bytes of the stream that were read. `fault_address` is the
address of the beat or write burst, for a stream error the offset in the stream. `crc32` is that of
the uncompressed bytes, zero where not all of them were seen. `cycles` is from the descriptor's
arrival to its record. `result` is the codec's result for the data on the way out
(`LineCodec.result`), zero where it has none or not all of the data was seen.
"""


def _dtype(fields: tuple[tuple[str, int], ...]) -> np.dtype[np.void]:
    return np.dtype([(name, f"<u{size}" if size <= 8 else f"V{size}") for name, size in fields])


DESCRIPTOR_DTYPE = _dtype(DESCRIPTOR_FIELDS)
RECORD_DTYPE = _dtype(RECORD_FIELDS)


class Descriptor(data.StructLayout):
    """A descriptor's 64 bytes, by the fields of `DESCRIPTOR_FIELDS`."""

    def __init__(self) -> None:
        super().__init__({name: 8 * size for name, size in DESCRIPTOR_FIELDS})


class Record(data.StructLayout):
    """A completion record's 64 bytes, by the fields of `RECORD_FIELDS`."""

    def __init__(self) -> None:
        super().__init__({name: 8 * size for name, size in RECORD_FIELDS})


class CheckedDescriptor(data.StructLayout):
    """A descriptor and the result of its checks.

    Parameters
    ----------
    rings
        The number of rings that descriptors come from.

    Members
    -------
    descriptor
    status
        OK, or the first of the checks that failed.
    detail
        For OUTSIDE_WINDOW the `WindowDetail`, otherwise 0.
    index
        The descriptor's free-running number.
    worst_length
        More bytes than the longest stream of `length` bytes has.
    ring
        The number of the descriptor's ring; no bits if there is one.
    """

    def __init__(self, rings: int = 1) -> None:
        super().__init__(
            {
                "descriptor": Descriptor(),
                "status": 8,
                "detail": DETAIL_BITS,
                "index": 16,
                "worst_length": OFFSET_BITS,
                "ring": range(rings),
            }
        )


class FetchedDescriptor(data.StructLayout):
    """A descriptor as it was read from the ring.

    Members
    -------
    descriptor
    index
        The descriptor's free-running number.
    """

    def __init__(self) -> None:
        super().__init__({"descriptor": Descriptor(), "index": 16})
