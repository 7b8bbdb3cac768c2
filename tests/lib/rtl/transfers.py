"""Transfers through the AXI4-Stream tops: command, packet, and what must come of them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from cdma.golden import StreamStatus, crc32
from cdma.golden.formats.zvc import Zvc, decode
from cdma.hw.config import CodecConfig
from tests.golden.formats.data import sparse_bytes

AxisBeat = tuple[bytes, int]
"""TDATA and TKEEP. TLAST is on a packet's last one."""


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """A transfer; `status` holds the record's status, offset, out_size and crc32."""

    name: str
    command: dict[str, int]
    packet: list[AxisBeat]
    output: bytes
    status: tuple[int, int, int, int]


def axis_packet(content: bytes, width: int) -> list[AxisBeat]:
    """Dense beats; bytes that TKEEP leaves out are not zero."""
    parts = [content[i : i + width] for i in range(0, max(len(content), 1), width)]
    return [(part.ljust(width, b"\xa5"), (1 << len(part)) - 1) for part in parts]


def lengths(config: CodecConfig) -> list[int]:
    """Lengths of packets: none, one byte, and around elements, sectors and lines."""
    around = [config.element_bytes, config.sector_bytes, 128, 256]
    return [0, 1, *(n + step for n in around for step in (-1, 0, 1)), 700]


def content(config: CodecConfig, nbytes: int, seed: int) -> bytes:
    density = (0.0, 0.1, 0.5, 0.9, 1.0)[seed % 5]
    return sparse_bytes(seed, nbytes, density, config.element_bytes).tobytes()


def compress(config: CodecConfig, data: bytes) -> bytes:
    return Zvc(config.element_bytes).compress(np.frombuffer(data, np.uint8)).tobytes()


def checksum(data: bytes) -> int:
    return crc32(np.frombuffer(data, np.uint8))


# Compression.


def to_compress(
    config: CodecConfig,
    name: str,
    length: int,
    packet: list[AxisBeat],
    taken: bytes,
    status: StreamStatus = StreamStatus.OK,
) -> Transfer:
    stream = compress(config, taken)
    return Transfer(
        name=name,
        command={"length": length},
        packet=packet,
        output=stream,
        status=(status, len(taken), len(stream), checksum(taken)),
    )


def good_to_compress(config: CodecConfig, data: bytes) -> Transfer:
    packet = axis_packet(data, config.sector_bytes)
    return to_compress(config, f"{len(data)} B", len(data), packet, data)


def malformed_to_compress(config: CodecConfig) -> Iterator[Transfer]:
    width = config.sector_bytes
    mismatch = StreamStatus.LENGTH_MISMATCH
    for length, come in ((0, 1), (1, 0), (128, 127), (127, 128), (300, 40), (40, 300), (256, 128)):
        data = content(config, come, length + 3)
        packet = axis_packet(data, width)
        name = f"{come} B for {length} B"
        yield to_compress(config, name, length, packet, data[:length], mismatch)
    data = content(config, 3 * width, 3)
    for index in range(3):
        hole = axis_packet(data, width)
        hole[index] = (hole[index][0], (1 << width) - 1 - 4)
        name = f"hole in beat {index}"
        yield to_compress(config, name, 3 * width, hole, data[: index * width + 2], mismatch)
    for keep, kept in ((0, 0), (1, 1), ((1 << width - 1) - 1, width - 1)):
        partial = axis_packet(data, width)
        partial[1] = (partial[1][0], keep)
        name = f"{kept} B in the middle"
        yield to_compress(config, name, 3 * width, partial, data[: width + kept], mismatch)


# Decompression.


def to_decompress(
    config: CodecConfig,
    name: str,
    stream: bytes,
    nbytes: int,
    *,
    expected_crc: int | None = None,
    cut: int | None = None,
) -> Transfer:
    """Make a transfer of a stream, well-formed or not; its framing breaks after `cut` bytes, if
    given.
    """
    seen = stream if cut is None else stream[:cut]
    end = decode(np.frombuffer(seen, np.uint8), nbytes, config.element_bytes, expected_crc)
    status, offset = end.status, end.offset
    if status == StreamStatus.OK:
        offset = len(stream)
    truncated = (StreamStatus.MASK_TRUNCATED, StreamStatus.PAYLOAD_TRUNCATED)
    if cut is not None and status in truncated:
        status, offset = StreamStatus.LENGTH_MISMATCH, cut
    output = end.data.tobytes()
    return Transfer(
        name=name,
        command={
            "length": nbytes,
            "crc32": expected_crc or 0,
            "check_crc": expected_crc is not None,
        },
        packet=axis_packet(stream, config.sector_bytes),
        output=output,
        status=(status, offset, len(output), checksum(output)),
    )


def good_to_decompress(config: CodecConfig, data: bytes) -> Transfer:
    stream = compress(config, data)
    return to_decompress(config, f"{len(data)} B", stream, len(data), expected_crc=checksum(data))


def malformed_to_decompress(config: CodecConfig) -> Iterator[Transfer]:
    data = sparse_bytes(11, 300, 0.8, config.element_bytes).tobytes()
    stream = compress(config, data)
    for size in (0, 1, config.mask_bytes - 1, config.mask_bytes, 77, 128, len(stream) - 1):
        yield to_decompress(config, f"cut at {size}", stream[:size], len(data))
    for extra in (1, config.sector_bytes, 200):
        longer = stream + b"\x01" * extra
        yield to_decompress(config, f"{extra} B behind", longer, len(data))
    for nbytes in (0, 1, 128, 256, 299, 512):
        yield to_decompress(config, f"for {nbytes} B", stream, nbytes)
    for line in (0, 1):
        start = line * len(compress(config, data[:128])) + config.mask_bytes
        zeroed = bytearray(stream)
        zeroed[start : start + config.element_bytes] = bytes(config.element_bytes)
        name = f"zero element in line {line}"
        yield to_decompress(config, name, bytes(zeroed), len(data), expected_crc=checksum(data))
    yield to_decompress(config, "other CRC", stream, len(data), expected_crc=1)
    width = config.sector_bytes
    for index in range(2):
        malformed = to_decompress(
            config, f"hole in beat {index}", stream, len(data), cut=index * width + 2
        )
        malformed.packet[index] = (malformed.packet[index][0], (1 << width) - 1 - 4)
        yield malformed
        name = f"partial beat {index}"
        malformed = to_decompress(config, name, stream, len(data), cut=index * width + width - 1)
        malformed.packet[index] = (malformed.packet[index][0], (1 << width - 1) - 1)
        yield malformed


# Both.


def transfers(component: str, config: CodecConfig, *, malformed: bool = True) -> list[Transfer]:
    """Good transfers of every kind of length; each malformed one has a good one behind it."""
    good, bad = {
        "zvc-compressor": (good_to_compress, malformed_to_compress),
        "zvc-decompressor": (good_to_decompress, malformed_to_decompress),
    }[component]
    chosen = [good(config, content(config, n, i)) for i, n in enumerate(lengths(config))]
    if malformed:
        for i, wrong in enumerate(bad(config)):
            right = good(config, content(config, 90 + i, i))
            chosen += [wrong, replace(right, name=f"{right.name} after {wrong.name}")]
    return chosen
