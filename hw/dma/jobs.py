"""What a descriptor becomes for the stages that carry it out, and what they tell in the end."""

from amaranth.lib import data

from hw.codec.pack import LENGTH_BITS, OFFSET_BITS
from hw.config import EngineConfig
from hw.dma.bus import BusError
from hw.dma.descriptor import DEVICE_ADDRESS_BITS, HOST_ADDRESS_BITS

LINE_COUNT_BITS = LENGTH_BITS - 6
"""Bits of a number of lines in a transfer."""


class ReadJob(data.StructLayout):
    """What to read from device memory.

    Members
    -------
    src, length
        Where, and how many bytes.
    dense
        Not to be compressed.
    throttle_class
        Which token bucket limits the reads.
    first_unit
        The unit at the memory controller of the first line; the lines go round from there.
    """

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(
            {
                "src": DEVICE_ADDRESS_BITS,
                "length": LENGTH_BITS,
                "dense": 1,
                "throttle_class": 1,
                "first_unit": range(config.units),
            }
        )


class IssuedLines(data.StructLayout):
    """The end of a job's issue.

    Members
    -------
    lines
        How many of its lines were issued.
    cut
        Not all, since the engine was told to abort.
    """

    def __init__(self) -> None:
        super().__init__({"lines": LINE_COUNT_BITS, "cut": 1})


class DrainJob(data.StructLayout):
    """What to make of a job's lines.

    Members
    -------
    first_unit
        Where the first line comes from.
    lead
        Elements of padding before the first line, so that the stream stands as memory at its
        destination does.
    dense
        The lines' masks are not part of the stream.
    fill
        Bytes that the last line lacks to be whole.
    capacity
        Bytes of the stream that there is room for.
    """

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(
            {
                "first_unit": range(config.units),
                "lead": range(config.codec.lanes),
                "dense": 1,
                "fill": range(config.codec.line_bytes),
                "capacity": OFFSET_BITS,
            }
        )


class DrainOutcome(data.StructLayout):
    """What a job's lines were like.

    Members
    -------
    lines
        How many there were.
    whole_lines, whole_size
        How many lines without an error came before all that had one or that there was no room for,
        and the size of their stream.
    cut
        Not all of the job's.
    crc32
        Of the job's bytes, if all of its lines were read without an error.
    error, address
        The first error that the bus answered with, and the address of its beat. The stream ends
        before that line.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "lines": LINE_COUNT_BITS,
                "whole_lines": LINE_COUNT_BITS,
                "whole_size": OFFSET_BITS,
                "cut": 1,
                "crc32": 32,
                "error": BusError,
                "address": DEVICE_ADDRESS_BITS,
            }
        )


class WriteJob(data.StructLayout):
    """Where to write a packet.

    Parameters
    ----------
    address_bits
        Width of an address.
    size_bits
        Width of a packet's size in bytes.

    Members
    -------
    dst
    capacity
        Bytes that may be written.
    limit
        Bytes that count, from `dst` on; what comes behind them is padding.
    """

    def __init__(self, address_bits: int = HOST_ADDRESS_BITS, size_bits: int = OFFSET_BITS) -> None:
        super().__init__({"dst": address_bits, "capacity": size_bits, "limit": size_bits})


class WriteOutcome(data.StructLayout):
    """How the writes of a packet ended.

    Parameters
    ----------
    address_bits, size_bits
        As in `WriteJob`.

    Members
    -------
    size
        Bytes written.
    overflow
        There was more than the capacity.
    error, address
        The first error that the bus answered with, and the address of its burst.
    """

    def __init__(self, address_bits: int = HOST_ADDRESS_BITS, size_bits: int = OFFSET_BITS) -> None:
        super().__init__(
            {"size": size_bits, "overflow": 1, "error": BusError, "address": address_bits}
        )


class OutJob(data.StructLayout):
    """A transfer from device to host memory.

    Members
    -------
    src, length
        What to read, and how many bytes.
    dst, capacity
        Where to write, and how many bytes at most.
    dense
        Not to be compressed.
    throttle_class
        Which token bucket limits the reads.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "src": DEVICE_ADDRESS_BITS,
                "length": LENGTH_BITS,
                "dst": HOST_ADDRESS_BITS,
                "capacity": OFFSET_BITS,
                "dense": 1,
                "throttle_class": 1,
            }
        )


class OutOutcome(data.StructLayout):
    """How a transfer to the host ended.

    Members
    -------
    read
        What its lines were like.
    write
        What became of the stream.
    """

    def __init__(self) -> None:
        super().__init__({"read": DrainOutcome(), "write": WriteOutcome()})
