"""Benches of the AXI4-Stream tops, with packets that the golden model has made."""

from collections.abc import Iterator

import numpy as np

from cdma.golden import LINE_BYTES, StreamStatus, crc32
from cdma.golden.formats.zvc import Zvc, decode
from cdma.hw.codec.stream.status import TransferStatus
from cdma.hw.codec.zvc.axis import CompressCommand, DecompressCommand
from cdma.hw.config import CodecConfig
from cdma.hw.emit.bench.files import Bench
from cdma.hw.emit.bench.streams import Packet, stream_bench
from cdma.hw.emit.reset import Reset

_DENSITIES = (0.0, 0.1, 0.5, 0.9, 1.0)
_SEED = 1


def compressor_bench(config: CodecConfig, name: str, reset: Reset) -> Bench | None:
    """Return the bench of the compressor, if the golden model has lines of its size."""
    if config.line_bytes != LINE_BYTES:
        return None
    return stream_bench(
        name,
        list(_to_compress(config)),
        data_bytes=config.sector_bytes,
        command=CompressCommand(),
        status=TransferStatus(),
        reset=reset,
    )


def decompressor_bench(config: CodecConfig, name: str, reset: Reset) -> Bench | None:
    """Return the bench of the decompressor, if the golden model has lines of its size."""
    if config.line_bytes != LINE_BYTES:
        return None
    return stream_bench(
        name,
        list(_to_decompress(config)),
        data_bytes=config.sector_bytes,
        command=DecompressCommand(),
        status=TransferStatus(),
        reset=reset,
    )


def _data(config: CodecConfig) -> Iterator[bytes]:
    """Packets of every density: none, one byte, around elements, sectors and lines, and long."""
    random = np.random.default_rng(_SEED)
    around = (config.element_bytes, config.sector_bytes, LINE_BYTES, 2 * LINE_BYTES)
    lengths = [0, 1, *(n + step for n in around for step in (-1, 0, 1)), 700, 16 * LINE_BYTES]
    for index, nbytes in enumerate(lengths):
        element = config.element_bytes
        values = random.integers(1, 256, nbytes, np.uint8)
        keep = random.random(-(-nbytes // element)) < _DENSITIES[index % len(_DENSITIES)]
        yield (values * np.repeat(keep, element)[:nbytes]).astype(np.uint8).tobytes()


def _compressed(config: CodecConfig, content: bytes) -> bytes:
    return Zvc(config.element_bytes).compress(np.frombuffer(content, np.uint8)).tobytes()


def _checksum(content: bytes) -> int:
    return crc32(np.frombuffer(content, np.uint8))


def _to_compress(config: CodecConfig) -> Iterator[Packet]:
    """Good packets, and behind every fourth one that is longer than announced."""
    for index, content in enumerate(_data(config)):
        yield _compressing(config, content, content, StreamStatus.OK)
        if index % 4 == 3:
            taken = content[: len(content) // 2]
            yield _compressing(config, content, taken, StreamStatus.LENGTH_MISMATCH)


def _compressing(config: CodecConfig, content: bytes, taken: bytes, status: StreamStatus) -> Packet:
    output = _compressed(config, taken)
    return Packet(
        command={"length": len(taken)},
        content=content,
        output=output,
        status={
            "status": int(status),
            "offset": len(taken),
            "out_size": len(output),
            "crc32": _checksum(taken),
        },
    )


def _to_decompress(config: CodecConfig) -> Iterator[Packet]:
    """Good packets, and behind some of them damaged ones: cut, too long, and of another CRC."""
    for index, content in enumerate(_data(config)):
        stream = _compressed(config, content)
        checksum = _checksum(content)
        yield _decompressing(config, stream, len(content), checksum)
        if index % 4 == 1:
            yield _decompressing(config, stream[: len(stream) // 2], len(content), None)
        elif index % 4 == 2:
            yield _decompressing(config, stream + b"\x01", len(content), checksum)
        elif index % 4 == 3:
            yield _decompressing(config, stream, len(content), checksum ^ 1)


def _decompressing(config: CodecConfig, stream: bytes, nbytes: int, crc: int | None) -> Packet:
    decoded = decode(np.frombuffer(stream, np.uint8), nbytes, config.element_bytes, crc)
    output = decoded.data.tobytes()
    is_ok = decoded.status == StreamStatus.OK
    return Packet(
        command={"length": nbytes, "crc32": crc or 0, "check_crc": int(crc is not None)},
        content=stream,
        output=output,
        status={
            "status": int(decoded.status),
            "offset": len(stream) if is_ok else decoded.offset,
            "out_size": len(output),
            "crc32": _checksum(output),
        },
    )
