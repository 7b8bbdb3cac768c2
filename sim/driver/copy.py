"""The translation of a copy's arguments into the fields of its descriptor."""

from collections.abc import Mapping, Sequence
from enum import Enum

from cdma.hw.codec.interface import CodecParameterError, LineCodec
from cdma.hw.codec.registry import line_codec
from cdma.hw.dma.control.descriptor import Flag, Opcode
from cdma.sim.driver.errors import DescriptorError, DriverError
from cdma.sim.driver.integers import is_integer
from cdma.sim.driver.memory.buffers import Buffer, Memory, Span
from cdma.sim.driver.ring.descriptor import check, integers
from cdma.sim.driver.windows import Windows

ENGINE_CODEC = "engine"
"""What stands for the first of the engine's codecs, whichever that is."""


class CopyKind(Enum):
    """The direction of a copy."""

    DEVICE_TO_HOST = "device to host"
    HOST_TO_DEVICE = "host to device"


def whole(name: str, place: Buffer | Span) -> Span:
    """Turn a buffer into the span of all of it; a span stays as it is. `name` is the argument's."""
    if not isinstance(place, Buffer | Span):
        raise DriverError(f"{name} must be a Buffer or a Span, not {place!r}")
    if isinstance(place, Buffer):
        place.require_live()
        return place.span()
    for field, value in (("offset", place.offset), ("nbytes", place.nbytes)):
        if not is_integer(value):
            raise DriverError(f"{field} of {name} must be an integer, not {value!r}")
    place.buffer.require_live()
    return Span(place.buffer, int(place.offset), int(place.nbytes))


def copy_fields(
    dst: Span,
    src: Span,
    nbytes: int,
    kind: CopyKind,
    codec: str | None,
    *,
    device: Memory,
    host: Memory,
    engine_element_bytes: int,
    engine_codecs: Sequence[str],
    windows: Windows,
    element_bytes: int | None,
    stream_bytes: int | None,
    verify: bool,
    crc: int | None,
    tag: int,
    throttle_class: int,
    interrupt: bool,
    record: int,
    parameters: Mapping[str, int],
) -> dict[str, int]:
    """The descriptor of a copy; the arguments are those of `Engine.submit`, and its memories.

    Raises
    ------
    DescriptorError
        The engine would refuse it, or it would leave its buffers.
    DriverError
        An argument is of another type.
    """
    if not isinstance(kind, CopyKind):
        raise DriverError(
            f"kind must be {' or '.join(f'CopyKind.{one.name}' for one in CopyKind)}, not {kind!r}"
        )
    if not isinstance(parameters, Mapping):
        raise DriverError(f"parameters must be a mapping from names, not {parameters!r}")
    if not isinstance(verify, bool):
        raise DriverError(f"verify must be True or False, not {verify!r}")
    entry = _line_codec(codec, engine_codecs)
    number = None if entry is None else entry.number
    if throttle_class not in (0, 1):
        raise DescriptorError(
            "flags", f"must have a throttle class of 0 or 1, not {throttle_class}"
        )
    outward = kind is CopyKind.DEVICE_TO_HOST
    if number is None:
        opcode = Opcode.COPY_OUT if outward else Opcode.COPY_IN
    else:
        opcode = Opcode.COMPRESS_OUT if outward else Opcode.DECOMPRESS_IN
    expands = opcode is Opcode.DECOMPRESS_IN
    flags = (
        (Flag.INTERRUPT if interrupt else 0)
        | (Flag.CHECK_CRC if crc is not None else 0)
        | (Flag.VERIFY if verify else 0)
        | (Flag.THROTTLE_CLASS if throttle_class else 0)
    )
    if stream_bytes is None:
        stream_bytes = src.nbytes if expands else 0
    if element_bytes is None:
        element_bytes = 0 if number is None else engine_element_bytes
    fields = {
        "opcode": opcode,
        "codec": number or 0,
        "element_bytes": element_bytes,
        "flags": int(flags),
        "tag": tag,
        "src": src.address,
        "dst": dst.address,
        "length": nbytes,
        "crc32": 0 if crc is None else crc,
        "dst_capacity": dst.nbytes,
        "src_length": stream_bytes,
        "record": record,
        "parameters": _packed_parameters(entry, parameters),
    }
    check(fields, engine_element_bytes, engine_codecs, windows)
    _check_values(entry, nbytes)
    source, destination = (device, host) if outward else (host, device)
    _check_place("src", src, source, kind)
    _check_place("dst", dst, destination, kind)
    _check_sizes(fields, dst, src)
    return integers(fields)


def _line_codec(codec: str | None, engine_codecs: Sequence[str]) -> LineCodec | None:
    """A codec, by what `Engine.submit` calls it; None for a plain copy."""
    if codec is None:
        return None
    name = engine_codecs[0] if codec == ENGINE_CODEC else codec
    if name not in engine_codecs:
        choices = ", ".join(map(repr, engine_codecs))
        raise DescriptorError("codec", f"must be {choices} or None, not {codec!r}")
    return line_codec(name)


def _packed_parameters(entry: LineCodec | None, parameters: Mapping[str, int]) -> int:
    """The field of the descriptor; a plain copy has no parameters."""
    if entry is None:
        if parameters:
            raise DescriptorError("parameters", f"must be none for a copy, not {dict(parameters)}")
        return 0
    try:
        return entry.packed_parameters(parameters)
    except CodecParameterError as error:
        raise DescriptorError("parameters", f"must be the codec's: {error}") from error


def _check_values(entry: LineCodec | None, nbytes: int) -> None:
    """Raise an error if the data end within a value: the engine, which counts bytes, would take
    what there is for one.
    """
    if entry is None:
        return
    try:
        entry.check_length(nbytes)
    except CodecParameterError as error:
        raise DescriptorError("length", f"must be the codec's: {error}") from error


def _check_place(field: str, span: Span, memory: Memory, kind: CopyKind) -> None:
    """Raise an error if bytes do not lie in a memory that this direction uses; the engine cannot
    know.
    """
    if span.memory is not memory:
        # Its name alone would not do: another machine's or ring's memories have the same ones.
        whose = " of another driver" if span.memory.name == memory.name else ""
        raise DescriptorError(
            field,
            f"must be in {memory.name} memory for {kind.name}, not in the {span.buffer}{whose}",
        )
    if span.offset < 0 or span.nbytes < 0 or span.offset + span.nbytes > span.buffer.nbytes:
        raise DescriptorError(
            field,
            f"must lie in the {span.buffer}, not have {span.nbytes} bytes at offset {span.offset}",
        )


def _check_sizes(fields: dict[str, int], dst: Span, src: Span) -> None:
    """Raise an error for sizes beyond the buffers' ends, which the engine cannot know."""
    sizes = "src_length" if fields["opcode"] == Opcode.DECOMPRESS_IN else "length"
    if fields[sizes] > src.nbytes:
        raise DescriptorError(sizes, f"must be at most {src.nbytes}, src's, not {fields[sizes]}")
    # A stream's size is not known beforehand: a destination that it does not fit is a status.
    if fields["opcode"] != Opcode.COMPRESS_OUT and dst.nbytes < fields["length"]:
        raise DescriptorError(
            "dst_capacity", f"must be at least {fields['length']}, the length, not {dst.nbytes}"
        )
