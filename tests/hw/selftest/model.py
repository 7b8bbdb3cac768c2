"""A self-test in numpy, data and report: from docs/guide/silicon/board.md, not from the RTL."""

import re
import zlib
from dataclasses import dataclass

import numpy as np

from cdma import golden
from cdma.golden import StreamStatus
from cdma.golden.formats.stream import ByteArray
from cdma.golden.formats.zvc import decode
from cdma.hw.config import CodecConfig

SEED = 0x2545F491
DENSITIES = (0, 16, 6, 1, 15, 10, 3)
RAMP = 7
STALLED_EIGHTHS = (0, 2, 4, 7)
"""Of the cycles, in which each gate stands still, by how often it stalls."""
LANE_STEP = 0x9E3779B9

LINE = re.compile(
    r"round ([0-9a-f]{8}) lines ([0-9a-f]{8}) in ([0-9a-f]{8}) out ([0-9a-f]{8}) "
    r"cycles ([0-9a-f]{8}) errors ([0-9a-f]{8}) status ([0-9a-f])([0-9a-f]) (PASS|FAIL|TIMEOUT)"
)


def xorshift(state: np.ndarray) -> np.ndarray:
    for left, amount in ((True, 13), (False, 17), (True, 5)):
        moved = state << np.uint32(amount) if left else state >> np.uint32(amount)
        state = state ^ moved
    return state


def seed_of(number: int) -> int:
    state = np.array([SEED], np.uint32)
    for _ in range(number):
        state = xorshift(state)
    return int(state[0])


def stalls_of(number: int) -> int:
    return (number + (number >> 4)) % 4


def data_of(config: CodecConfig, lines: int, number: int) -> ByteArray:
    """The bytes of a round."""
    bits = 8 * config.element_bytes
    lanes = np.arange(1, config.lanes + 1, dtype=np.uint64) * LANE_STEP
    state = (np.uint32(seed_of(number)) ^ lanes.astype(np.uint32)) | np.uint32(1)
    states = np.empty((lines * config.sectors, config.lanes), np.uint32)
    for row in states:
        row[:] = state
        state = xorshift(state)
    line = np.arange(len(states)) // config.sectors
    profile = number % 8
    density = line % 17 if profile == RAMP else np.full(len(states), DENSITIES[profile])
    present = ((states ^ states >> np.uint32(16)) & 15) < density[:, None]
    if number >> 3 & 1:
        values = np.uint32(1) << ((states >> np.uint32(8)) % np.uint32(bits))
    else:
        values = states & np.uint32((1 << bits) - 1)
        values[values == 0] = 1
    return np.where(present, values, 0).astype(f"<u{config.element_bytes}").view(np.uint8).ravel()


def compressed(config: CodecConfig, data: ByteArray) -> ByteArray:
    """The stream: golden's, or told line by line for the narrow lines of proofs."""
    if config.line_bytes == golden.LINE_BYTES:
        return golden.codec("zvc", element_bytes=config.element_bytes).compress(data)
    return narrow_compressed(config, data)


def narrow_compressed(config: CodecConfig, data: ByteArray) -> ByteArray:
    stream = b""
    for line in data.view(f"<u{config.element_bytes}").reshape(-1, config.elements):
        stream += np.packbits(line != 0, bitorder="little").tobytes() + line[line != 0].tobytes()
    return np.frombuffer(stream, np.uint8)


def decompressed(config: CodecConfig, stream: ByteArray, nbytes: int) -> tuple[int, bytes]:
    """Status, and the bytes before the first error."""
    if config.line_bytes == golden.LINE_BYTES:
        decoded = decode(stream, nbytes, config.element_bytes)
        return decoded.status, decoded.data.tobytes()
    return narrow_decompressed(config, stream, nbytes)


def narrow_decompressed(config: CodecConfig, stream: ByteArray, nbytes: int) -> tuple[int, bytes]:
    width, position, out = config.element_bytes, 0, b""
    for _ in range(nbytes // config.line_bytes):
        mask = stream[position : position + config.mask_bytes]
        if len(mask) < config.mask_bytes:
            return StreamStatus.MASK_TRUNCATED, out
        position += config.mask_bytes
        for bit in np.unpackbits(mask, bitorder="little"):
            element = stream[position : position + width * int(bit)].tobytes()
            if bit and len(element) < width:
                return StreamStatus.PAYLOAD_TRUNCATED, out
            if bit and not any(element):
                return StreamStatus.ZERO_ELEMENT, out
            out += element or bytes(width)
            position += len(element)
    trailing = position < len(stream)
    return StreamStatus.TRAILING_BYTES if trailing else StreamStatus.OK, out


@dataclass(frozen=True)
class RoundReport:
    """A line of text."""

    round: int
    lines: int
    bytes_in: int
    bytes_out: int
    cycles: int
    errors: int
    compressor_status: int
    decompressor_status: int
    verdict: str

    @classmethod
    def parse(cls, text: str) -> "RoundReport":
        match = LINE.fullmatch(text)
        assert match is not None, f"not a line of a self-test: {text!r}"
        return cls(*(int(digits, 16) for digits in match.groups()[:-1]), verdict=match[9])


def expected(
    config: CodecConfig, lines: int, number: int, cycles: int, *, fault: bool = False
) -> RoundReport:
    """Return the report of a round that comes to its end, in so many cycles."""
    data = data_of(config, lines, number)
    stream = compressed(config, data)
    size = len(stream)
    if fault:
        stream = stream.copy()
        stream[config.sector_bytes - 1] ^= 0x80
    status, returned = decompressed(config, stream, len(data))
    sectors = [
        (returned[i : i + config.sector_bytes], data[i : i + config.sector_bytes].tobytes())
        for i in range(0, len(data), config.sector_bytes)
    ]
    failed_checks = [status != StreamStatus.OK, zlib.crc32(returned) != zlib.crc32(data)]
    errors = sum(got != want for got, want in sectors) + sum(failed_checks)
    verdict = "FAIL" if errors else "PASS"
    return RoundReport(
        number, lines, len(data), size, cycles, errors, StreamStatus.OK, status, verdict
    )
