"""What a descriptor becomes for the stages that carry it out, and what they tell in the end."""

from amaranth.lib import data

from cdma.hw.bus.burst import BusError
from cdma.hw.codec.stream.checker import Finding, status_shape
from cdma.hw.codec.stream.pack import LENGTH_BITS, OFFSET_BITS, StreamTail
from cdma.hw.config import CodecConfig, EngineConfig
from cdma.hw.dma.control.descriptor import DEVICE_ADDRESS_BITS, HOST_ADDRESS_BITS

LINE_COUNT_BITS = LENGTH_BITS - 6
"""Bits of a number of lines in a transfer."""


class ReadJob(data.StructLayout):
    """What to read from device memory.

    Members
    -------
    src, length
        Where, and how many bytes.
    codec, parameters
        Index among the configuration's codecs, and what the descriptor has for it.
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
                "codec": range(len(config.codecs)),
                "parameters": config.codec.parameter_bits,
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
    codec
        Index among the configuration's codecs.
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
                "codec": range(len(config.codecs)),
                "fill": range(config.codec.line_bytes),
                "capacity": OFFSET_BITS,
            }
        )


class DrainOutcome(data.StructLayout):
    """What a job's lines were like.

    Parameters
    ----------
    result_bits
        Width of a codec's result (`CodecConfig.result_bits`).

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
    result
        What the codec tells of the job's bytes beside; of no worth where `crc32` is of none.
    error, address
        The first error that the bus answered with, and the address of its beat. The stream ends
        before that line.
    """

    def __init__(self, result_bits: int = 0) -> None:
        super().__init__(
            {
                "lines": LINE_COUNT_BITS,
                "whole_lines": LINE_COUNT_BITS,
                "whole_size": OFFSET_BITS,
                "cut": 1,
                "crc32": 32,
                "result": result_bits,
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
    codec, parameters
        Index among the configuration's codecs, and what the descriptor has for it.
    throttle_class
        Which token bucket limits the reads.
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
            }
        )


class OutOutcome(data.StructLayout):
    """How a transfer to the host ended.

    Parameters
    ----------
    result_bits
        As in `DrainOutcome`.

    Members
    -------
    read
        What its lines were like.
    write
        What became of the stream.
    """

    def __init__(self, result_bits: int = 0) -> None:
        super().__init__({"read": DrainOutcome(result_bits), "write": WriteOutcome()})


class InJob(data.StructLayout):
    """A transfer from host to device memory.

    Members
    -------
    src, src_length
        What to read: so many bytes of the stream, at least 1; as many as `length` if copied.
    dst, capacity
        Where to write, and how many bytes at most: 0 to write nothing, only look.
    length
        Bytes that the stream should give, at least 1.
    codec, parameters
        Index among the configuration's codecs, and what the descriptor has for it.
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
            }
        )


class ReceiveJob(data.StructLayout):
    """What to read from host memory.

    Members
    -------
    src
    size
        In bytes.
    """

    def __init__(self) -> None:
        super().__init__({"src": HOST_ADDRESS_BITS, "size": OFFSET_BITS})


class ReceiveOutcome(data.StructLayout):
    """What came from host memory.

    Members
    -------
    size
        Bytes before the first error; all if there was none.
    cut
        Not all was asked for, since the engine was told to abort.
    error, address
        The first error that the bus answered with, and the address of its beat.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "size": OFFSET_BITS,
                "cut": 1,
                "error": BusError,
                "address": HOST_ADDRESS_BITS,
            }
        )


class SplitJob(data.StructLayout):
    """How to split a stream into lines.

    Members
    -------
    dst, length, capacity, codec, parameters
        As in `InJob`.
    first_unit
        The unit at the memory controller of the first line; the lines go round from there.
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
            }
        )


class LineCommand(data.StructLayout):
    """What to make of a line.

    Members
    -------
    address
        Where its first byte goes; a multiple of the element size.
    size
        Its bytes, 1 to the size of a line.
    writable
        How many of them may be written.
    codec, parameters
        Index among the configuration's codecs, and what the descriptor has for it.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {
                "address": DEVICE_ADDRESS_BITS,
                "size": range(config.line_bytes + 1),
                "writable": range(config.line_bytes + 1),
                "codec": range(len(config.codecs)),
                "parameters": config.parameter_bits,
            }
        )


class ExpansionReport(data.StructLayout):
    """What became of a line.

    Members
    -------
    finding, status
        The first thing wrong with it, and its status if the codec has found it.
    offset
        Bytes of the stream before that, the head's included; all of the line's if there is none.
    size
        Bytes before the first thing wrong and before the first burst with an error.
    crc32
        Of the line's bytes and the zeros that fill it, from a state of zero and without inversion:
        so that CRCs of lines can be combined in order.
    error, address
        The first error that the bus answered with, and the address of its burst.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {
                "finding": Finding,
                "status": status_shape(config),
                "offset": range(config.worst_line_bytes + 1),
                "size": range(config.line_bytes + 1),
                "crc32": 32,
                "error": BusError,
                "address": DEVICE_ADDRESS_BITS,
            }
        )


class GatherJob(data.StructLayout):
    """What there is to know of a job's lines before they are written.

    Members
    -------
    first_unit
        Where the first line's report comes from.
    fill
        Bytes that the last line lacks to be whole.
    """

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(
            {"first_unit": range(config.units), "fill": range(config.codec.line_bytes)}
        )


class GatherOutcome(data.StructLayout):
    """What became of a job's lines.

    Parameters
    ----------
    config : CodecConfig, optional
        Without it no codec locates errors itself.

    Members
    -------
    finding, status
        The first thing wrong with them, and its status if the codec has found it.
    offset
        Where it is in the stream; the size of all lines if there is none.
    size
        Bytes before the first thing wrong and before the first burst with an error.
    crc32
        Of the job's bytes, if all came and nothing was wrong.
    error, address
        The first error that the bus answered with, and the address of its burst.
    """

    def __init__(self, config: CodecConfig | None = None) -> None:
        super().__init__(
            {
                "finding": Finding,
                "status": status_shape(config),
                "offset": OFFSET_BITS,
                "size": LENGTH_BITS,
                "crc32": 32,
                "error": BusError,
                "address": DEVICE_ADDRESS_BITS,
            }
        )


class InOutcome(data.StructLayout):
    """How a transfer from the host ended.

    Parameters
    ----------
    config : CodecConfig, optional
        As in `GatherOutcome`.

    Members
    -------
    receive
        What came from host memory.
    tail
        How the stream ended behind its lines.
    gather
        What became of the lines.
    """

    def __init__(self, config: CodecConfig | None = None) -> None:
        super().__init__(
            {"receive": ReceiveOutcome(), "tail": StreamTail(), "gather": GatherOutcome(config)}
        )
