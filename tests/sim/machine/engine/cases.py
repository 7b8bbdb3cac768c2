"""Transfers for the engine's fault tests: where their bytes are, and how they should end."""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from cdma.golden import LINE_BYTES
from cdma.golden.formats.stream import ByteArray
from cdma.golden.formats.zvc import Zvc, decode
from cdma.hw.bus.burst import PAGE_BYTES
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor import Flag, Opcode, Status
from cdma.sim.driver import CompletionRecord
from cdma.sim.driver.ring.descriptor import COMPRESSED, OUTWARD
from tests.sim.machine.pipeline.zvc_cases import sparse

SMALL = EngineConfig(units=2, buffer_bytes=4096, read_buffer_bytes=2048)
"""So small that a transfer of some hundred bytes reaches its limits."""

ELEMENT = 4
NO_FLAGS = Flag(0)
WIDTH = 32
HOST_BURST_BEATS = 16
DEVICE_BURST = 8 * WIDTH

AREA_BYTES = 4 * PAGE_BYTES
AREAS = 8
"""A transfer's bytes are in areas of the same number in both memories, one for each that is under
way; what it has no business with, there and everywhere else, must stay as it is."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A transfer, but for where its area is.

    Attributes
    ----------
    opcode
    length : int
        Uncompressed bytes.
    src, dst : int
        Offsets in the areas.
    density : float
        The share of elements that are not zero.
    space_left : int, optional
        The destination's capacity; if absent, as much as is needed.
    flags : Flag
    seed : int
        What the data is drawn from.
    """

    opcode: Opcode
    length: int
    src: int = 0
    dst: int = 0
    density: float = 0.5
    space_left: int | None = None
    flags: Flag = NO_FLAGS
    seed: int = 0

    def __str__(self) -> str:
        verified = " verified" if self.flags & Flag.VERIFY else ""
        space_left = "" if self.space_left is None else f", room for {self.space_left}"
        return (
            f"{self.opcode.name}{verified} of {self.length} B at density {self.density}, offsets "
            f"{self.src:#x} to {self.dst:#x}{space_left}"
        )


EACH_WAY = (
    Shape(opcode=Opcode.COMPRESS_OUT, length=1500, src=0xFC4, dst=0x34, density=0.2, seed=1),
    Shape(opcode=Opcode.DECOMPRESS_IN, length=1400, src=0xFC4, dst=0x34, seed=2),
    Shape(opcode=Opcode.COMPRESS_OUT, length=700, flags=Flag.VERIFY, density=1.0, seed=3),
    Shape(opcode=Opcode.COPY_OUT, length=900, src=0xFC4, dst=0x34, seed=4),
    Shape(opcode=Opcode.COPY_IN, length=1100, src=0xFC4, dst=0x34, seed=5),
)
"""A transfer of each way, and one that is verified."""


@dataclass(frozen=True)
class Burst:
    """A burst on a port. `port` is a memory port's number, or -1 for the host's."""

    port: int
    address: int
    beats: int
    line: int = 0
    width: int = WIDTH

    @property
    def beat_addresses(self) -> range:
        return range(self.address, self.address + self.beats * self.width, self.width)


@dataclass(frozen=True, kw_only=True)
class Ending:
    """The expected record.

    Attributes
    ----------
    least_src_done : int, optional
        Of a transfer in that has failed, how much of the stream was read depends on when that was
        known: from so many bytes to `src_done`. Exactly `src_done` if absent.
    """

    status: Status
    detail: int = 0
    src_done: int
    least_src_done: int | None = None
    out_size: int
    fault_address: int = 0
    crc32: int = 0

    def agrees(self, record: CompletionRecord) -> bool:
        """True if the record may be like that."""
        least = self.src_done if self.least_src_done is None else self.least_src_done
        same = ("status", "detail", "out_size", "fault_address", "crc32")
        return least <= record.src_done <= self.src_done and all(
            getattr(record, name) == getattr(self, name) for name in same
        )


def bursts(start: int, end: int, boundary: int, width: int = WIDTH) -> Iterator[tuple[int, int]]:
    """Address and beats of the bursts for these bytes: none crosses a multiple of `boundary`."""
    while start < end:
        stop = min(end, start // boundary * boundary + boundary)
        first = start // width * width
        yield first, -(-(stop - first) // width)
        start = stop


@dataclass
class Job:
    """A transfer whose bytes have a place.

    Attributes
    ----------
    shape : Shape
    units : int
        The engine's.
    src, dst : int
        Addresses.
    host_bytes : int
        Width of the bus to the host.
    data : uint8 array (length,)
        Uncompressed.
    source : uint8 array
        What is read: data or stream.
    wanted : uint8 array
        What should be written if there is room.
    line_ends : list of int
        The size of the stream of the first 0, 1, 2, … lines.
    capacity : int
    fields : dict
        Of the descriptor.
    """

    shape: Shape
    units: int
    src: int
    dst: int
    host_bytes: int = WIDTH
    data: ByteArray = field(init=False)
    source: ByteArray = field(init=False)
    wanted: ByteArray = field(init=False)
    line_ends: list[int] = field(init=False)
    capacity: int = field(init=False)
    fields: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.shape.seed)
        self._take(sparse(rng, self.shape.length, ELEMENT, self.shape.density))

    def _take(self, data: ByteArray) -> None:
        self.data = data
        if self.compressed:
            codec = Zvc(ELEMENT)
            stream = codec.compress(self.data)
            sizes = codec.line_sizes(self.data)
        else:
            stream = self.data
            sizes = np.full(self.lines, LINE_BYTES)
        self.line_ends = [0, *np.minimum(np.cumsum(sizes), stream.size).tolist()]
        self.source, self.wanted = (self.data, stream) if self.outward else (stream, self.data)
        self._settle()

    def _settle(self) -> None:
        shape = self.shape
        self.capacity = self.wanted.size if shape.space_left is None else shape.space_left
        compressed = shape.opcode is Opcode.DECOMPRESS_IN
        self.fields = {
            "opcode": shape.opcode,
            "element_bytes": ELEMENT if self.compressed else 0,
            "flags": int(shape.flags),
            "tag": 0xC0DE0000 + shape.seed % 65536,
            "src": self.src,
            "dst": self.dst,
            "length": shape.length,
            "dst_capacity": self.capacity,
            "src_length": self.source.size if compressed else 0,
            "crc32": self.crc if shape.flags & Flag.CHECK_CRC else 0,
        }

    def with_data(self, data: ByteArray) -> "Job":
        """The same, with other data."""
        other = replace(self)
        other._take(data)
        return other

    def with_stream(
        self, stream: ByteArray, length: int, space_left: int, wanted: ByteArray, crc: int | None
    ) -> "Job":
        """The same way in, with another stream, from which something else should come."""
        other = replace(self)
        other.source, other.wanted = stream, wanted
        other._settle()
        other.capacity = space_left
        other.fields |= {"length": length, "dst_capacity": space_left}
        if crc is not None:
            other.fields |= {"flags": int(Flag.CHECK_CRC), "crc32": crc}
        return other

    @property
    def outward(self) -> bool:
        return self.shape.opcode in OUTWARD

    @property
    def compressed(self) -> bool:
        return self.shape.opcode in COMPRESSED

    @property
    def verified(self) -> bool:
        return bool(self.shape.flags & Flag.VERIFY)

    @property
    def lines(self) -> int:
        return -(-self.shape.length // LINE_BYTES)

    @property
    def crc(self) -> int:
        return zlib.crc32(self.data)

    # What is asked of the buses, in the order in which it is asked.

    def device_reads(self) -> list[Burst]:
        return self._device_bursts(self.src, self.shape.length, PAGE_BYTES)

    def device_writes(self) -> list[Burst]:
        return self._device_bursts(self.dst, min(self.shape.length, self.capacity), DEVICE_BURST)

    def host_reads(self) -> list[Burst]:
        return self._host_bursts(self.src, self.source.size)

    def host_writes(self) -> list[Burst]:
        return self._host_bursts(self.dst, min(self.wanted.size, self.capacity))

    def reads_back(self) -> list[Burst]:
        """The reads of the bytes that are verified."""
        return self._host_bursts(self.dst, self.wanted.size)

    def _host_bursts(self, start: int, nbytes: int) -> list[Burst]:
        width = self.host_bytes
        found = bursts(start, start + nbytes, HOST_BURST_BEATS * width, width)
        return [Burst(-1, *burst, width=width) for burst in found]

    def _device_bursts(self, start: int, nbytes: int, boundary: int) -> list[Burst]:
        found = []
        for line in range(-(-nbytes // LINE_BYTES)):
            first = start + line * LINE_BYTES
            end = min(first + LINE_BYTES, start + nbytes)
            port = (start // LINE_BYTES + line) % self.units
            found += [Burst(port, *burst, line) for burst in bursts(first, end, boundary)]
        return found

    # How it ends.

    def good(self) -> Ending:
        """Nothing goes wrong; there may be too little room."""
        if self.capacity < self.wanted.size:
            return self._overflow()
        expanded = self.outward and self.wanted.size > self.shape.length
        return Ending(
            status=Status.OK_EXPANDED if expanded else Status.OK,
            src_done=self.shape.length if self.outward else self.source.size,
            out_size=self.wanted.size,
            crc32=self.crc,
        )

    def _overflow(self) -> Ending:
        if self.outward and self.compressed:
            whole = self._whole_lines(self.capacity)
            done, resume = min(whole * LINE_BYTES, self.shape.length), self.line_ends[whole]
        else:
            done, resume = self.capacity if self.outward else self.source.size, self.capacity
        # On the way in, lines are left out behind the first one that has no room.
        whole = self.capacity // LINE_BYTES + 1 if self.capacity else self.lines
        all_seen = not self.outward and whole >= self.lines
        return Ending(
            status=Status.DESTINATION_OVERFLOW,
            src_done=done,
            least_src_done=None if self.outward or all_seen else self.line_ends[whole],
            out_size=self.capacity,
            fault_address=resume,
            crc32=self.crc if all_seen else 0,
        )

    def source_fails(self, status: Status, detail: int, burst: Burst, address: int) -> Ending:
        """A read of the source ends so, at the beat at `address`."""
        if self.outward:
            out_size = min(self.line_ends[burst.line], self.capacity)
            lines = min(burst.line, self._whole_lines(self.capacity))
            done = lines * LINE_BYTES if self.compressed else out_size
        else:
            done = max(0, address - self.src)
            out_size = min(self.valid_bytes(done), self.capacity)
        return Ending(
            status=status, detail=detail, src_done=done, out_size=out_size, fault_address=address
        )

    def destination_fails(self, status: Status, detail: int, burst: Burst) -> Ending:
        """A write to the destination ends so."""
        least = None
        if self.outward:
            out_size = max(0, burst.address - self.dst)
            done = 0 if self.compressed else out_size
        else:
            line = burst.line * LINE_BYTES
            out_size = line + max(0, burst.address - self.dst - line)
            done, least = self.source.size, self.line_ends[burst.line + 1]
        return Ending(
            status=status,
            detail=detail,
            src_done=done,
            least_src_done=least,
            out_size=out_size,
            fault_address=burst.address,
        )

    def reading_back_fails(self, status: Status, detail: int, address: int) -> Ending:
        return replace(self.good(), status=status, detail=detail, fault_address=address)

    def valid_bytes(self, size: int) -> int:
        """The count of output bytes that the first `size` bytes of the source give."""
        if not self.compressed:
            return size
        return decode(self.source[:size], self.shape.length, ELEMENT).valid_bytes

    def _whole_lines(self, size: int) -> int:
        return next(
            (line for line, (_, end) in enumerate(pairwise(self.line_ends)) if end > size),
            self.lines,
        )
