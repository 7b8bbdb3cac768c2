"""Plans of a run: what the engine is given and what must come of it, in memories and records.

Nothing here knows a simulator. The same plan runs under cocotb and in `cdma.sim.machine`.
"""

import itertools
import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from cdma import golden
from cdma.golden import LINE_BYTES, StreamStatus
from cdma.golden.formats.stream import ByteArray
from cdma.golden.formats.zvc import decode
from cdma.hw.config import EngineConfig
from cdma.hw.dma.control.descriptor import RECORD_DTYPE, Flag, Opcode, Status
from cdma.hw.dma.limits import ENTRY_BYTES
from cdma.sim.driver.ring.descriptor import packed
from tests.golden.formats.data import sparse_bytes

PAGE = 4096
GUARD_BYTES = 64
DENSITIES = (0.0, 0.05, 0.4, 0.9, 1.0)
DEVICE_BASE = 0x5_0000
HOST_BASE = 0x12_3456_7000
MEMORY_BYTES = 8 << 20
Fields = dict[str, int]
RecordFields = dict[str, int | range]
"""Those of a record, or what they may be."""


class Space:
    """A memory before and after, and where it may then have anything.

    It is random where nothing is placed: every byte is a guard.
    """

    def __init__(self, name: str, base: int, seed: int, nbytes: int) -> None:
        self.name = name
        self.base = base
        self.before: ByteArray = np.random.default_rng(seed).integers(0, 256, nbytes, np.uint8)
        self.after = self.before.copy()
        self.anything = np.zeros(nbytes, bool)
        self._next = GUARD_BYTES

    @property
    def end(self) -> int:
        return self.base + len(self.before)

    def reserve(self, nbytes: int, page_offset: int) -> int:
        """An address at that place in a page, for so many bytes, with guards around."""
        start = -(-(self._next + GUARD_BYTES - page_offset) // PAGE) * PAGE + page_offset
        self._next = start + nbytes
        assert self._next + GUARD_BYTES <= len(self.before), f"{self.name} memory is too small"
        return self.base + start

    def reserve_entry(self) -> int:
        """An address for a record, with guards around."""
        start = -(-(self._next + GUARD_BYTES) // ENTRY_BYTES) * ENTRY_BYTES
        return self.reserve(ENTRY_BYTES, start % PAGE)

    def place(self, data: bytes, page_offset: int) -> int:
        """The address where these bytes are from the beginning."""
        address = self.reserve(len(data), page_offset)
        for image in (self.before, self.after):
            self._part(image, address, len(data))[:] = np.frombuffer(data, np.uint8)
        return address

    def expect(self, address: int, data: bytes) -> None:
        """These bytes will be there."""
        self._part(self.after, address, len(data))[:] = np.frombuffer(data, np.uint8)

    def expect_anything(self, address: int, nbytes: int) -> None:
        self._part(self.anything, address, nbytes)[:] = True

    def content(self, address: int, nbytes: int) -> bytes:
        """Content that is there in the end."""
        return self._part(self.after, address, nbytes).tobytes()

    def first_difference(self, memory: ByteArray) -> int | None:
        """The first address with another byte than it must have."""
        places = np.flatnonzero((memory != self.after) & ~self.anything)
        return self.base + int(places[0]) if len(places) else None

    def _part(self, image: np.ndarray, address: int, nbytes: int) -> np.ndarray:
        start = address - self.base
        return image[start : start + nbytes]


@dataclass(frozen=True)
class Step:
    """A descriptor, and the record that must come of it; without `cycles`, which is not known."""

    name: str
    descriptor: Fields
    record: RecordFields


class Plan:
    """Descriptors for a ring, one after the other, in two memories.

    Each method adds a step. Transfers have places of their own, at the offsets in a page that are
    asked for.
    """

    def __init__(
        self,
        config: EngineConfig,
        seed: int,
        *,
        log2_entries: int = 4,
    ) -> None:
        self.config = config
        self.element_bytes = config.codec.element_bytes
        self.log2_entries = log2_entries
        self.device = Space("device", DEVICE_BASE, 2 * seed, MEMORY_BYTES)
        self.host = Space("host", HOST_BASE, 2 * seed + 1, MEMORY_BYTES)
        self.random = np.random.default_rng(seed)
        self.steps: list[Step] = []
        self.ring_base = self.host.reserve(ENTRY_BYTES << log2_entries, 0)
        # The engine does not write there, but software does.
        self.host.expect_anything(self.ring_base, ENTRY_BYTES << log2_entries)

    @property
    def entries(self) -> int:
        return 1 << self.log2_entries

    def slot(self, index: int) -> int:
        """The address of a descriptor."""
        return self.ring_base + ENTRY_BYTES * (index % self.entries)

    def packed(self, index: int) -> bytes:
        """A descriptor's bytes."""
        return packed(self.steps[index].descriptor).tobytes()

    def data(self, nbytes: int, density: float | None = None) -> bytes:
        """Something to move."""
        if density is None:
            density = float(self.random.choice(DENSITIES))
        seed = int(self.random.integers(2**32))
        return sparse_bytes(seed, nbytes, density, self.element_bytes).tobytes()

    def compress_out(
        self,
        data: bytes,
        src_offset: int = 0,
        dst_offset: int = 0,
        *,
        capacity: int | None = None,
        flags: int = 0,
    ) -> int:
        """Returns the stream's address."""
        stream = self.stream(data)
        if capacity is None:
            capacity = len(stream) + int(self.random.choice((0, 0, 1, 200)))
        dst = self.host.reserve(max(capacity, len(stream)), dst_offset)
        self.host.expect(dst, stream[:capacity])
        record = {"status": Status.OK, "src_done": len(data), "crc32": zlib.crc32(data)}
        if len(stream) > len(data):
            record["status"] = Status.OK_EXPANDED
        if capacity < len(stream):
            lines = self.whole_lines(data, capacity)
            record |= {
                "status": Status.DESTINATION_OVERFLOW,
                "src_done": lines * self.config.codec.line_bytes,
                "fault_address": len(self.stream(data[: lines * self.config.codec.line_bytes])),
                "crc32": 0,
            }
        self._move(
            Opcode.COMPRESS_OUT,
            {"out_size": min(capacity, len(stream)), **record},
            src=self.device.place(data, src_offset),
            dst=dst,
            length=len(data),
            dst_capacity=capacity,
            element_bytes=self.element_bytes,
            flags=flags,
        )
        return dst

    def decompress_in(
        self,
        data: bytes,
        src_offset: int = 0,
        dst_offset: int = 0,
        *,
        capacity: int | None = None,
        flags: int = 0,
        crc32: int | None = None,
        src: int | None = None,
    ) -> int:
        """Returns where the data comes; its stream is at `src` if a step before brings it there."""
        stream = self.stream(data)
        if capacity is None:
            capacity = len(data)
        dst = self.device.reserve(max(capacity, len(data)), dst_offset)
        self.device.expect(dst, data[:capacity])
        own = zlib.crc32(data)
        record: RecordFields = {"status": Status.OK, "crc32": own, "src_done": len(stream)}
        if crc32 is not None and crc32 != own:
            record["status"] = Status.CRC_MISMATCH
        elif capacity < len(data):
            seen = self.seen_bytes(data, capacity)
            record |= {"status": Status.DESTINATION_OVERFLOW, "fault_address": capacity}
            if seen < len(data):
                least = len(self.stream(data[:seen]))
                record |= {"crc32": 0, "src_done": range(least, len(stream) + 1)}
        self._move(
            Opcode.DECOMPRESS_IN,
            {"out_size": min(capacity, len(data)), **record},
            src=self.host.place(stream, src_offset) if src is None else src,
            dst=dst,
            length=len(data),
            dst_capacity=capacity,
            src_length=len(stream),
            element_bytes=self.element_bytes,
            flags=flags if crc32 is None else flags | Flag.CHECK_CRC,
            crc32=crc32 or 0,
        )
        return dst

    def decompress_damaged(
        self, stream: bytes, length: int, src_offset: int = 0, dst_offset: int = 0
    ) -> None:
        """A stream that is not one of `length` bytes. Lines of 128 B only."""
        assert self.config.codec.line_bytes == LINE_BYTES
        decoded = decode(np.frombuffer(stream, np.uint8), length, self.element_bytes)
        assert decoded.status is not StreamStatus.OK
        truncated = decoded.status in (
            StreamStatus.MASK_TRUNCATED,
            StreamStatus.PAYLOAD_TRUNCATED,
        )
        dst = self.device.reserve(length, dst_offset)
        self.device.expect(dst, decoded.data.tobytes())
        self.device.expect_anything(dst + decoded.valid_bytes, length - decoded.valid_bytes)
        # No more is read than it takes to see that there is too much.
        most = min(len(stream), self.longest_stream(length) + self.element_bytes)
        self._move(
            Opcode.DECOMPRESS_IN,
            {
                "status": Status.STREAM_TRUNCATED if truncated else Status.STREAM_CORRUPT,
                "detail": decoded.status,
                "fault_address": decoded.offset,
                "src_done": range(min(decoded.offset, most), most + 1),
                "out_size": decoded.valid_bytes,
            },
            src=self.host.place(stream, src_offset),
            dst=dst,
            length=length,
            dst_capacity=length,
            src_length=len(stream),
            element_bytes=self.element_bytes,
        )

    def copy_out(
        self,
        data: bytes,
        src_offset: int = 0,
        dst_offset: int = 0,
        *,
        capacity: int | None = None,
        flags: int = 0,
    ) -> int:
        """Returns where the data comes."""
        return self._copy(
            Opcode.COPY_OUT,
            self.device.place(data, src_offset),
            self.host,
            data,
            dst_offset,
            len(data) if capacity is None else capacity,
            flags,
        )

    def copy_in(
        self,
        data: bytes,
        src_offset: int = 0,
        dst_offset: int = 0,
        *,
        capacity: int | None = None,
        flags: int = 0,
        src: int | None = None,
    ) -> int:
        """Returns where the data comes; it is at `src` if a step before brings it there."""
        return self._copy(
            Opcode.COPY_IN,
            self.host.place(data, src_offset) if src is None else src,
            self.device,
            data,
            dst_offset,
            len(data) if capacity is None else capacity,
            flags,
        )

    def _copy(
        self,
        opcode: Opcode,
        src: int,
        to: Space,
        data: bytes,
        dst_offset: int,
        capacity: int,
        flags: int,
    ) -> int:
        dst = to.reserve(max(capacity, len(data)), dst_offset)
        to.expect(dst, data[:capacity])
        done = min(capacity, len(data))
        record: RecordFields = {
            "status": Status.OK,
            "src_done": len(data),
            "crc32": zlib.crc32(data),
        }
        if capacity < len(data):
            record |= {"status": Status.DESTINATION_OVERFLOW, "fault_address": capacity}
            seen = self.seen_bytes(data, capacity)
            if opcode is Opcode.COPY_OUT:
                record |= {"src_done": done, "crc32": 0}
            elif seen < len(data):
                record |= {"src_done": range(seen, len(data) + 1), "crc32": 0}
        self._move(
            opcode,
            {"out_size": done, **record},
            src=src,
            dst=dst,
            length=len(data),
            dst_capacity=capacity,
            flags=flags,
        )
        return dst

    def fence(self, flags: int = 0) -> None:
        self._move(Opcode.FENCE, {"status": Status.OK}, flags=flags)

    def refused(self, status: Status, opcode: Opcode, /, **wrong: int) -> None:
        """A descriptor that would be good but for some fields."""
        outward = opcode in (Opcode.COMPRESS_OUT, Opcode.COPY_OUT)
        data = self.data(200)
        source, destination = (self.device, self.host) if outward else (self.host, self.device)
        fields = {
            "src": source.place(data, 0),
            "dst": destination.reserve(200, 0),
            "length": 200,
            "dst_capacity": 200,
        }
        if opcode in (Opcode.COMPRESS_OUT, Opcode.DECOMPRESS_IN):
            fields["element_bytes"] = self.element_bytes
        if opcode is Opcode.DECOMPRESS_IN:
            fields["src_length"] = 100
        self._move(opcode, {"status": status}, **{**fields, **wrong})

    def stream(self, data: bytes) -> bytes:
        """The one stream of these bytes."""
        codec = self.config.codec
        if codec.line_bytes == LINE_BYTES:
            return compressed(data, codec.element_bytes)
        return b"".join(
            self._line(data[start : start + codec.line_bytes])
            for start in range(0, len(data), codec.line_bytes)
        )

    def _line(self, data: bytes) -> bytes:
        codec = self.config.codec
        size = codec.element_bytes
        elements = [
            data[place : place + size].ljust(size, b"\0") for place in range(0, len(data), size)
        ]
        mask = sum(any(element) << place for place, element in enumerate(elements))
        return mask.to_bytes(codec.mask_bytes, "little") + b"".join(filter(any, elements))

    def longest_stream(self, nbytes: int) -> int:
        """The size of a stream without zeros."""
        codec = self.config.codec
        return -(-nbytes // codec.line_bytes) * (codec.mask_bytes + codec.line_bytes)

    def whole_lines(self, data: bytes, capacity: int) -> int:
        """Count the lines whose streams fit."""
        lines, size = 0, self.config.codec.line_bytes
        while len(self.stream(data[: size * (lines + 1)])) <= capacity:
            lines += 1
        return lines

    def seen_bytes(self, data: bytes, capacity: int) -> int:
        """Count the bytes that are expanded: none behind the first line that has no room."""
        line = self.config.codec.line_bytes
        return min(len(data), (capacity // line + 1) * line) if capacity else len(data)

    def _move(self, opcode: Opcode, record: RecordFields, /, **fields: int) -> None:
        index = len(self.steps)
        tag = int(self.random.integers(2**32))
        name = f"step {index}: {opcode.name}"
        address = fields.pop("record", None)
        if address is None:
            address = self.host.reserve_entry()
        place = address // ENTRY_BYTES * ENTRY_BYTES
        # It is compared by its fields.
        self.host.expect_anything(place, ENTRY_BYTES)
        descriptor = {"opcode": opcode, "tag": tag, "record": address, **fields}
        expected: RecordFields = dict.fromkeys(RECORD_DTYPE.names or (), 0)
        expected |= {
            "tag": tag,
            "index": index,
            "phase": 1 - (index >> self.log2_entries) % 2,
            **{
                key: value if isinstance(value, range) else int(value)
                for key, value in record.items()
            },
        }
        del expected["cycles"], expected["reserved"]
        self.steps.append(Step(name, descriptor, expected))

    def record_address(self, index: int) -> int:
        return self.steps[index].descriptor["record"] // ENTRY_BYTES * ENTRY_BYTES

    def record(self, index: int, host: ByteArray) -> Fields:
        """The record that is in host memory, as `Step.record` has it."""
        start = self.record_address(index) - self.host.base
        (entry,) = host[start : start + ENTRY_BYTES].view(RECORD_DTYPE)
        assert not any(bytes(entry["reserved"])), "reserved bytes of a record"
        assert 0 < entry["cycles"] < 2**20
        return {name: int(entry[name]) for name in self.steps[index].record}

    def check_record(self, index: int, host: ByteArray) -> None:
        step, record = self.steps[index], self.record(index, host)
        wrong = {
            name: f"{got:#x}, not {step.record[name]}"
            for name, got in record.items()
            if not _agrees(got, step.record[name])
        }
        assert not wrong, f"{step.name} {step.descriptor}: {wrong}"

    def check_memory(self, device: ByteArray, host: ByteArray) -> None:
        """All bytes of both memories that are not records."""
        for space, memory in ((self.device, device), (self.host, host)):
            differs = space.first_difference(memory)
            if differs is None:
                continue
            near = [
                f"{step.name} {step.descriptor}"
                for step in self.steps
                if step.descriptor.get("dst", 0) // PAGE in (differs // PAGE, differs // PAGE - 1)
            ]
            raise AssertionError(f"{space.name} memory differs at {differs:#x}: {near}")

    def check(self, device: ByteArray, host: ByteArray) -> None:
        for index in range(len(self.steps)):
            self.check_record(index, host)
        self.check_memory(device, host)


@cache
def compressed(data: bytes, element_bytes: int) -> bytes:
    array = np.frombuffer(data, np.uint8)
    return golden.codec("zvc", element_bytes=element_bytes).compress(array).tobytes()


# Plans by name: what a scenario runs is made again in the simulator's process.


def offsets(config: EngineConfig) -> list[int]:
    """Around 0 and around 4096, in elements: every place in a beat on both sides of a page's end,
    and a line before it."""
    size, beat = config.codec.element_bytes, config.host_bytes
    after = list(range(0, beat, size))
    return [*after, PAGE - config.codec.line_bytes, *(PAGE - beat + place for place in after)]


def lengths(config: EngineConfig) -> list[int]:
    """Around what hardware counts in: elements, beats, lines, bursts."""
    codec = config.codec
    steps = (codec.element_bytes, config.host_bytes, codec.line_bytes, 2 * codec.line_bytes)
    near = {step + more for step in steps for more in (-1, 0, 1)} - {0}
    return sorted({1, 2, *near, 16 * config.host_bytes + 1})


SWEEP_CELLS = 440


def sweep(plan: Plan, part: int, cells: int = SWEEP_CELLS) -> None:
    """Length x source offset x destination offset for the four ways; so many of them, at random.

    Each of `sweep_parts` has others.
    """
    ways = (plan.compress_out, plan.decompress_in, plan.copy_out, plan.copy_in)
    parts = sweep_parts(plan.config, cells)
    for way, length, src_offset, dst_offset in _cells(plan.config)[part::parts]:
        ways[way](plan.data(length), src_offset, dst_offset)


def sweep_parts(config: EngineConfig, cells: int = SWEEP_CELLS) -> int:
    return -(-len(_cells(config)) // cells)


@cache
def _cells(config: EngineConfig) -> list[tuple[int, int, int, int]]:
    cells = list(itertools.product(range(4), lengths(config), offsets(config), offsets(config)))
    # The same order for all parts.
    random.Random(1).shuffle(cells)
    return cells


def mixed(plan: Plan, count: int, longest: int) -> None:
    """Both ways at once, with all flags; what went out comes back behind a fence."""
    draw = random.Random(count)
    places = offsets(plan.config)

    def place() -> int:
        return draw.choice(places)

    def data() -> bytes:
        return plan.data(draw.randint(1, longest))

    outward: list[tuple[bytes, int]] = []
    copied: list[tuple[bytes, int]] = []
    for _ in range(count):
        match draw.randrange(7):
            case 0:
                flags = draw.choice((0, Flag.VERIFY, Flag.THROTTLE_CLASS))
                outward.append(
                    (out := data(), plan.compress_out(out, place(), place(), flags=flags))
                )
            case 1:
                back = data()
                crc = draw.choice((None, zlib.crc32(back)))
                plan.decompress_in(back, place(), place(), crc32=crc)
            case 2:
                copied.append((out := data(), plan.copy_out(out, place(), place())))
            case 3:
                plan.copy_in(data(), place(), place())
            case 4:
                plan.fence(draw.choice((0, Flag.INTERRUPT)))
                for out, src in outward:
                    plan.decompress_in(out, dst_offset=place(), src=src, crc32=zlib.crc32(out))
                for out, src in copied:
                    plan.copy_in(out, dst_offset=place(), src=src)
                outward.clear()
                copied.clear()
            case 5:
                # Two at once.
                plan.compress_out(data(), place(), place(), flags=Flag.INTERRUPT)
                plan.decompress_in(data(), place(), place(), flags=Flag.INTERRUPT)
            case 6:
                plan.compress_out(plan.data(longest, 0.0), place(), place())


def faulty(plan: Plan, count: int) -> None:
    """Everything that a descriptor or a stream can be wrong in, and good ones in between.

    What is wrong is repeated `count` times, with other data and at other places.
    """
    draw = random.Random(count)
    places = offsets(plan.config)
    line, size = plan.config.codec.line_bytes, plan.element_bytes

    def place() -> int:
        return draw.choice(places)

    out, back = Opcode.COMPRESS_OUT, Opcode.DECOMPRESS_IN
    for _ in range(count):
        for status, opcode, wrong in (
            (Status.BAD_OPCODE, out, {"opcode": 6}),
            (Status.BAD_OPCODE, back, {"opcode": 0}),
            (Status.BAD_FLAG, out, {"flags": Flag.CHECK_CRC}),
            (Status.BAD_FLAG, out, {"codec": 1}),
            (Status.BAD_FLAG, out, {"element_bytes": 8}),
            (Status.BAD_FLAG, Opcode.COPY_IN, {"src_length": 1}),
            (Status.BAD_FLAG, back, {"crc32": 1}),
            (Status.BAD_FLAG, back, {"flags": Flag.VERIFY}),
            (Status.BAD_FLAG, Opcode.COPY_OUT, {"reserved": 1 << 31}),
            (Status.BAD_LENGTH, out, {"length": 0}),
            (Status.BAD_LENGTH, back, {"src_length": 0}),
            (Status.BAD_LENGTH, Opcode.COPY_OUT, {"src": (1 << 40) - 192}),
            (Status.BAD_LENGTH, Opcode.COPY_IN, {"src": (1 << 64) - 192}),
        ):
            plan.refused(status, opcode, **wrong)
            if draw.random() < 0.4:
                plan.compress_out(plan.data(300), place(), place())
        if size > 1:
            plan.refused(Status.MISALIGNED, out, src=DEVICE_BASE + 1)
            plan.refused(Status.MISALIGNED, Opcode.COPY_IN, dst=DEVICE_BASE + size - 1)
        # The record comes where it was asked for, on a multiple of 64.
        own = plan.host.reserve(ENTRY_BYTES, 0)
        plan.refused(Status.MISALIGNED, back, record=own + 8)
        own = plan.host.reserve(2 * ENTRY_BYTES, PAGE - ENTRY_BYTES)
        plan.refused(Status.OVERLAP, out, dst=own + ENTRY_BYTES - size, record=own)
        own = plan.host.reserve(4 * ENTRY_BYTES, PAGE - 2 * ENTRY_BYTES)
        plan.refused(Status.OVERLAP, Opcode.COPY_IN, src=own, record=own + 3 * ENTRY_BYTES)

        data = plan.data(5 * line + size, 0.5)
        stream = plan.stream(data)
        for capacity in (0, 1, len(stream) // 2, len(stream) - 1):
            plan.compress_out(data, place(), place(), capacity=capacity)
            plan.decompress_in(data, place(), place(), capacity=min(capacity, len(data) - 1))
            plan.copy_out(data, place(), place(), capacity=capacity)
            plan.copy_in(data, place(), place(), capacity=capacity)
        plan.decompress_in(data, place(), place(), crc32=zlib.crc32(data) ^ 1)
        if line != LINE_BYTES:
            continue
        cut = draw.randrange(1, len(stream))
        plan.decompress_damaged(stream[:cut], len(data), place(), place())
        plan.decompress_damaged(stream + b"\1" * draw.choice((1, 5, 600)), len(data), place())
        plan.decompress_damaged(compressed_with_zero(stream, size), len(data), place(), place())
        plan.decompress_in(data, place(), place())


def _agrees(got: int, wanted: int | range) -> bool:
    return got in wanted if isinstance(wanted, range) else got == wanted


def compressed_with_zero(stream: bytes, element_bytes: int) -> bytes:
    """The first line's last element is zero although its mask announces it."""
    mask_bytes = LINE_BYTES // element_bytes // 8
    count = int.from_bytes(stream[:mask_bytes], "little").bit_count()
    end = mask_bytes + count * element_bytes
    return stream[: end - element_bytes] + bytes(element_bytes) + stream[end:]


def interrupts(plan: Plan) -> None:
    """Seven descriptors ask for an interrupt, in all ways, one does not, and one is bad."""
    asks = Flag.INTERRUPT
    for _ in range(2):
        plan.compress_out(plan.data(300), flags=asks)
        plan.copy_in(plan.data(300), flags=asks)
        plan.fence(asks)
    plan.decompress_in(plan.data(300), flags=asks)
    plan.copy_out(plan.data(300))
    plan.refused(Status.BAD_LENGTH, Opcode.COMPRESS_OUT, length=0)


PLANS: dict[str, Callable[..., None]] = {
    "sweep": sweep,
    "mixed": mixed,
    "faulty": faulty,
    "interrupts": interrupts,
}


def make(config: EngineConfig, name: str, seed: int, **arguments: int) -> Plan:
    """The plan of that name; the same each time."""
    plan = Plan(config, seed)
    PLANS[name](plan, **arguments)
    return plan
