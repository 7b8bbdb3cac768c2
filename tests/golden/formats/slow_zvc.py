"""ZVC decoding told one element at a time: what the fast decoder must equal."""

import zlib

from cdma.golden import StreamStatus


def decode(
    stream: bytes, nbytes: int, element_bytes: int, crc: int | None = None
) -> tuple[StreamStatus, int, int, bytes]:
    """Status, offset, valid bytes and those bytes."""
    elements = 128 // element_bytes
    mask_bytes = elements // 8
    position = 0
    out = bytearray(-(-nbytes // 128) * 128)
    for line in range(len(out) // 128):
        if position + mask_bytes > len(stream):
            return _end(StreamStatus.MASK_TRUNCATED, position, 128 * line, out)
        mask = int.from_bytes(stream[position : position + mask_bytes], "little")
        position += mask_bytes
        for index in range(elements):
            if not mask >> index & 1:
                continue
            place = 128 * line + index * element_bytes
            element = stream[position : position + element_bytes]
            valid = min(nbytes, place)
            if len(element) < element_bytes:
                return _end(StreamStatus.PAYLOAD_TRUNCATED, position, valid, out)
            if not any(element):
                return _end(StreamStatus.ZERO_ELEMENT, position, valid, out)
            if any(element[max(0, nbytes - place) :]):
                return _end(StreamStatus.NONZERO_FILL, position, valid, out)
            out[place : place + element_bytes] = element
            position += element_bytes
    if position < len(stream):
        return _end(StreamStatus.TRAILING_BYTES, position, nbytes, out)
    if crc is not None and zlib.crc32(out[:nbytes]) != crc:
        return _end(StreamStatus.CRC_MISMATCH, len(stream), nbytes, out)
    return _end(StreamStatus.OK, 0, nbytes, out)


def _end(
    status: StreamStatus, offset: int, valid: int, out: bytearray
) -> tuple[StreamStatus, int, int, bytes]:
    return status, offset, valid, bytes(out[:valid])
