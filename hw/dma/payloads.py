"""Jobs that a descriptor is split into for the stages that carry it out, and their outcomes."""

from amaranth.lib import data

from cdma.hw.bus.burst import BusError
from cdma.hw.codec.stream.checker import LineError, status_shape
from cdma.hw.codec.stream.pack import LENGTH_BITS, OFFSET_BITS
from cdma.hw.codec.stream.unpack import StreamTail
from cdma.hw.config import CodecConfig, EngineConfig
from cdma.hw.dma.control.descriptor import DEVICE_ADDRESS_BITS, HOST_ADDRESS_BITS

LINE_COUNT_BITS = LENGTH_BITS - 6
"""Bits of a number of lines in a transfer."""


class ReadJob(data.StructLayout):
    """A read of device memory.

    Members
    -------
    src, length
        The address, and the number of bytes.
    codec, parameters
        Index among the configuration's codecs, and the descriptor's parameters for it.
    throttle_class
        The token bucket that limits the reads.
    first_unit
        The unit at the memory controller of the first line; the following lines take the units
        round-robin.
    ring
        The number of the descriptor's ring; no bits if there is one.
    """

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(
            {
                "src": DEVICE_ADDRESS_BITS,
                "length": LENGTH_BITS,
                "codec": range(len(config.codecs)),
                "parameters": config.codec.parameter_bits,
                "throttle_class": 1,
                "first_unit": range(config.units),
                "ring": range(config.rings),
            }
        )


class IssuedLines(data.StructLayout):
    """The end of a job's issue.

    Members
    -------
    lines
        The number of its lines that were issued.
    cut
        Not all were issued: the ring aborts, or the job has failed.
    """

    def __init__(self) -> None:
        super().__init__({"lines": LINE_COUNT_BITS, "cut": 1})


class DrainJob(data.StructLayout):
    """The drain's part of a job.

    Members
    -------
    first_unit
        The unit that the first line comes from.
    head_pad
        Elements of padding before the first line, so that the stream is aligned as memory at its
        destination is.
    codec
        Index among the configuration's codecs.
    tail_pad
        Bytes of padding in the last line, behind the data.
    capacity
        Bytes of the stream that the destination has space for.
    """

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(
            {
                "first_unit": range(config.units),
                "head_pad": range(config.codec.lanes),
                "codec": range(len(config.codecs)),
                "tail_pad": range(config.codec.line_bytes),
                "capacity": OFFSET_BITS,
            }
        )


def beat_number_bits(config: CodecConfig) -> int:
    """Width of the number of a beat in a job's lines; a line may lie in a beat more than it has
    sectors."""
    return LINE_COUNT_BITS + config.sectors.bit_length()


class DrainOutcome(data.StructLayout):
    """The outcome of a job's reads and of its lines.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    lines
        The number of lines.
    whole_lines, whole_size
        The number of lines before the first one with an error and before the first one that the
        destination had no space for, and the size of their stream.
    cut
        Not all of the job's lines were read: the ring aborts, or the job has failed.
    crc32
        The CRC-32 of the job's bytes, if all of its lines were read without an error.
    result
        The codec's result for the job's bytes; meaningless where `crc32` is.
    error, faulty_beat
        The first error that the bus answered with, and the number of its beat, from 0 for the one
        that has the job's first byte. The stream ends before that line.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {
                "lines": LINE_COUNT_BITS,
                "whole_lines": LINE_COUNT_BITS,
                "whole_size": OFFSET_BITS,
                "cut": 1,
                "crc32": 32,
                "result": config.result_bits,
                "error": BusError,
                "faulty_beat": beat_number_bits(config),
            }
        )


class WriteJob(data.StructLayout):
    """A packet's destination.

    Parameters
    ----------
    address_bits
        Width of an address.
    size_bits
        Width of a packet's size in bytes.
    rings
        The number of rings that packets come from.

    Members
    -------
    dst
    capacity
        Bytes that may be written.
    limit
        Bytes of the packet, from `dst` on; what comes behind them is padding.
    ring
        The number of the packet's ring; no bits if there is one.
    """

    def __init__(
        self,
        address_bits: int = HOST_ADDRESS_BITS,
        size_bits: int = OFFSET_BITS,
        rings: int = 1,
    ) -> None:
        super().__init__(
            {
                "dst": address_bits,
                "capacity": size_bits,
                "limit": size_bits,
                "ring": range(rings),
            }
        )


class WriteOutcome(data.StructLayout):
    """The outcome of a packet's writes.

    Parameters
    ----------
    address_bits, size_bits
        As in `WriteJob`.

    Members
    -------
    size
        Bytes written.
    overflow
        The packet was longer than the capacity.
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
        The source, and the number of bytes.
    dst, capacity
        The destination, and the largest number of bytes to write.
    codec, parameters
        Index among the configuration's codecs, and the descriptor's parameters for it.
    throttle_class
        The token bucket that limits the reads.
    ring
        As in `ReadJob`.
    """

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(
            {
                "src": DEVICE_ADDRESS_BITS,
                "length": LENGTH_BITS,
                "dst": HOST_ADDRESS_BITS,
                "capacity": OFFSET_BITS,
                "codec": range(len(config.codecs)),
                "parameters": config.codec.parameter_bits,
                "throttle_class": 1,
                "ring": range(config.rings),
            }
        )


class OutOutcome(data.StructLayout):
    """The outcome of a transfer to the host.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    read
        The outcome of its reads and lines.
    write
        The outcome of the stream's writes.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__({"read": DrainOutcome(config), "write": WriteOutcome()})


class InJob(data.StructLayout):
    """A transfer from host to device memory.

    Members
    -------
    src, src_length
        The source, and the bytes of the stream, at least 1; as many as `length` if copied.
    dst, capacity
        The destination, and the largest number of bytes to write. Lines behind it are not expanded,
        but if it is 0: then nothing is written, and all of the stream is checked.
    length
        Bytes that the stream is expected to expand to, at least 1.
    codec, parameters
        Index among the configuration's codecs, and the descriptor's parameters for it.
    ring
        As in `ReadJob`.
    """

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(
            {
                "src": HOST_ADDRESS_BITS,
                "src_length": OFFSET_BITS,
                "dst": DEVICE_ADDRESS_BITS,
                "length": LENGTH_BITS,
                "capacity": OFFSET_BITS,
                "codec": range(len(config.codecs)),
                "parameters": config.codec.parameter_bits,
                "ring": range(config.rings),
            }
        )


class ReceiveJob(data.StructLayout):
    """A read of host memory.

    Members
    -------
    src
    size
        The number of bytes.
    ring
        As in `ReadJob`.
    """

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(
            {"src": HOST_ADDRESS_BITS, "size": OFFSET_BITS, "ring": range(config.rings)}
        )


class ReceiveOutcome(data.StructLayout):
    """The outcome of a read of host memory.

    Members
    -------
    size
        Bytes before the first error; all if there was none.
    aborted
        Not all was requested, since the ring aborts.
    error, address
        The first error that the bus answered with, and the address of its beat.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "size": OFFSET_BITS,
                "aborted": 1,
                "error": BusError,
                "address": HOST_ADDRESS_BITS,
            }
        )


class SplitJob(data.StructLayout):
    """The line splitter's part of a job.

    Members
    -------
    dst, length, capacity, codec, parameters
        As in `InJob`.
    first_unit
        The unit at the memory controller of the first line; the following lines take the units
        round-robin.
    ring
        As in `ReadJob`.
    """

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(
            {
                "dst": DEVICE_ADDRESS_BITS,
                "length": LENGTH_BITS,
                "capacity": OFFSET_BITS,
                "codec": range(len(config.codecs)),
                "parameters": config.codec.parameter_bits,
                "first_unit": range(config.units),
                "ring": range(config.rings),
            }
        )


class LineCommand(data.StructLayout):
    """The expansion of a line.

    Parameters
    ----------
    config : CodecConfig
    rings
        The number of rings that lines come from.

    Members
    -------
    address
        The destination of its first byte; a multiple of the element size.
    size
        Its bytes, 1 to the size of a line.
    writable
        The number of bytes that may be written.
    codec, parameters
        Index among the configuration's codecs, and the descriptor's parameters for it.
    ring
        As in `ReadJob`.
    """

    def __init__(self, config: CodecConfig, rings: int = 1) -> None:
        super().__init__(
            {
                "address": DEVICE_ADDRESS_BITS,
                "size": range(config.line_bytes + 1),
                "writable": range(config.line_bytes + 1),
                "codec": range(len(config.codecs)),
                "parameters": config.parameter_bits,
                "ring": range(rings),
            }
        )


class ExpansionReport(data.StructLayout):
    """The outcome of a line's expansion.

    Members
    -------
    line_error, status
        The first error in it. The status comes with it if the codec has found it.
    offset
        Bytes of the line's stream before the error, the head's included; all of them if there is
        none.
    size
        Bytes before the first error and before the first burst with an error.
    crc32
        The CRC-32 of the line's bytes and its padding of zeros, from a state of zero and without
        inversion, so that CRCs of lines can be combined in order.
    error, address
        The first error that the bus answered with, and the address of its burst.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {
                "line_error": LineError,
                "status": status_shape(config),
                "offset": range(config.worst_line_bytes + 1),
                "size": range(config.line_bytes + 1),
                "crc32": 32,
                "error": BusError,
                "address": DEVICE_ADDRESS_BITS,
            }
        )


class CollectJob(data.StructLayout):
    """The report collector's part of a job.

    Members
    -------
    first_unit
        The unit that the first line's report comes from.
    tail_pad
        Bytes of padding in the last line, behind the data.
    """

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(
            {"first_unit": range(config.units), "tail_pad": range(config.codec.line_bytes)}
        )


class CollectOutcome(data.StructLayout):
    """The outcome of all lines of a job.

    Parameters
    ----------
    config : CodecConfig, optional
        Without it no codec locates errors itself.

    Members
    -------
    line_error, status
        The first error in them. The status comes with it if the codec has found it.
    offset
        Its position in the stream; the size of all lines if there is none.
    size
        Bytes before the first error and before the first burst with an error.
    crc32
        The CRC-32 of the job's bytes, if all were received without an error.
    error, address
        The first error that the bus answered with, and the address of its burst.
    cut
        Not all of the job's lines were expanded: it had failed.
    """

    def __init__(self, config: CodecConfig | None = None) -> None:
        super().__init__(
            {
                "line_error": LineError,
                "status": status_shape(config),
                "offset": OFFSET_BITS,
                "size": LENGTH_BITS,
                "crc32": 32,
                "error": BusError,
                "address": DEVICE_ADDRESS_BITS,
                "cut": 1,
            }
        )


class InOutcome(data.StructLayout):
    """The outcome of a transfer from the host.

    Parameters
    ----------
    config : CodecConfig, optional
        As in `CollectOutcome`.

    Members
    -------
    receive
        The outcome of the read.
    tail
        The end of the stream behind its lines.
    lines
        The outcome of the lines.
    """

    def __init__(self, config: CodecConfig | None = None) -> None:
        super().__init__(
            {"receive": ReceiveOutcome(), "tail": StreamTail(), "lines": CollectOutcome(config)}
        )
