"""From the arguments of a copy to the fields of its descriptor."""

from enum import Enum

from hw.dma.descriptor import Codec, Flag, Opcode
from sim.driver.descriptor import check
from sim.driver.errors import DescriptorError
from sim.driver.memory import Buffer, Span


class CopyKind(Enum):
    """Which way a copy goes."""

    DEVICE_TO_HOST = "device to host"
    HOST_TO_DEVICE = "host to device"


def whole(place: Buffer | Span) -> Span:
    """A buffer as the span that it is; a span as it is."""
    span = place.span() if isinstance(place, Buffer) else place
    span.buffer.require_live()
    return span


def copy_fields(
    dst: Span,
    src: Span,
    nbytes: int,
    kind: CopyKind,
    codec: Codec | None,
    *,
    engine_element_bytes: int,
    element_bytes: int | None,
    stream_bytes: int | None,
    verify: bool,
    crc: int | None,
    tag: int,
    throttle_class: int,
    interrupt: bool,
    record: int,
) -> dict[str, int]:
    """The descriptor of a copy; the arguments are those of `Engine.submit`.

    Raises
    ------
    DescriptorError
        The engine would refuse it, or it would leave its buffers.
    """
    if codec not in (None, *Codec):
        raise DescriptorError("codec", f"must be {', '.join(Codec.__members__)} or None: {codec!r}")
    if throttle_class not in (0, 1):
        raise DescriptorError(
            "flags", f"must have a throttle class of 0 or 1, not {throttle_class}"
        )
    outward = kind is CopyKind.DEVICE_TO_HOST
    if codec is None:
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
        element_bytes = 0 if codec is None else engine_element_bytes
    fields = {
        "opcode": opcode,
        "codec": codec or 0,
        "element_bytes": element_bytes,
        "flags": int(flags),
        "tag": tag,
        "src": src.address,
        "dst": dst.address,
        "length": nbytes,
        "crc32": crc or 0,
        "dst_capacity": dst.nbytes,
        "src_length": stream_bytes,
        "record": record,
    }
    check(fields, engine_element_bytes)
    _check_places(fields, dst, src, kind)
    return fields


def _check_places(fields: dict[str, int], dst: Span, src: Span, kind: CopyKind) -> None:
    """What the engine cannot know: where memories and buffers end."""
    source, destination = kind.value.split(" to ")
    for field, span, name in (("src", src, source), ("dst", dst, destination)):
        if span.memory.name != name:
            raise DescriptorError(
                field, f"must be in {name} memory for {kind.name}, not in the {span.buffer}"
            )
    sizes = "src_length" if fields["opcode"] == Opcode.DECOMPRESS_IN else "length"
    if fields[sizes] > src.nbytes:
        raise DescriptorError(sizes, f"must be at most {src.nbytes}, src's, not {fields[sizes]}")
    # A stream's size is not known beforehand: a destination that it does not fit is a status.
    if fields["opcode"] != Opcode.COMPRESS_OUT and dst.nbytes < fields["length"]:
        raise DescriptorError(
            "dst_capacity", f"must be at least {fields['length']}, the length, not {dst.nbytes}"
        )
