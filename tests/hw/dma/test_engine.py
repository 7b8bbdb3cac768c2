"""The whole engine with software and memories in Amaranth's simulator, against numpy."""

import random
import zlib
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from cdma.golden import LINE_BYTES, StreamStatus
from cdma.golden.formats.zvc import Zvc
from cdma.hw.bus.burst import BusError
from cdma.hw.config import CodecConfig, EngineConfig
from cdma.hw.dma.control.descriptor import (
    Flag,
    Opcode,
    Status,
    TimeoutDetail,
    WindowDetail,
)
from cdma.hw.dma.limits import ENTRY_BYTES
from tests.golden.formats.data import sparse_bytes
from tests.hw.dma.simulated_engine import (
    DEVICE_BASE,
    ENTRIES,
    HOST_BASE,
    RING_BYTES,
    SimulatedEngine,
)
from tests.lib.rtl.axi4_bus import Behavior

ELEMENT = 2
CONFIG = EngineConfig(
    codec=CodecConfig(element_bytes=ELEMENT),
    units=2,
    host_bytes=64,
    buffer_bytes=1024,
    write_bursts=4,
    read_buffer_bytes=2048,
    rings=2,
)
AREA_BYTES = 1024
AREAS = 2 * ENTRIES
MOVED = 2 * CONFIG.rings * RING_BYTES
"""Where in host memory the areas begin."""
NO_FLAGS = Flag(0)
MOST = 600
"""Bytes of a transfer."""
OUTWARD = (Opcode.COMPRESS_OUT, Opcode.COPY_OUT)
PACKED = (Opcode.COMPRESS_OUT, Opcode.DECOMPRESS_IN)
GOOD = (Status.OK, Status.OK_EXPANDED)
BUSY = ("cycles_busy", "stall_throttle", "stall_dram", "stall_host_read", "outstanding_high_water")
"""Counters that are not 0 behind many transfers."""
COUNTED = (
    "raw_bytes_out",
    "raw_bytes_in",
    "stream_bytes_out",
    "lines_out",
    "lines_in",
    "host_read_beats",
    "host_write_beats",
    "reservation_high_water",
    *BUSY,
)


@cache
def engine(rings=CONFIG.rings):
    return SimulatedEngine(replace(CONFIG, rings=rings))


@dataclass
class Transfer:
    """A descriptor, what memory holds for it, and what must become of both."""

    opcode: Opcode
    area: int
    raw: np.ndarray
    src: int = 0
    dst: int = 0
    space_left: int | None = None
    flags: Flag = NO_FLAGS
    tag: int = 7

    @property
    def outward(self):
        return self.opcode in OUTWARD

    @property
    def stream(self):
        return Zvc(ELEMENT).compress(self.raw) if self.opcode in PACKED else self.raw

    @property
    def source(self):
        return self.raw if self.outward else self.stream

    @property
    def wanted(self):
        return self.stream if self.outward else self.raw

    @property
    def capacity(self):
        return self.wanted.size if self.space_left is None else self.space_left

    def place(self, *, in_device):
        """The offset of its bytes in one of the memories."""
        offset = self.src if in_device == self.outward else self.dst
        return self.area * AREA_BYTES + offset + (0 if in_device else MOVED)

    @property
    def fields(self):
        device, host = (self.place(in_device=there) for there in (True, False))
        device, host = DEVICE_BASE + device, HOST_BASE + host
        is_packed = self.opcode in PACKED
        checks = self.opcode is Opcode.DECOMPRESS_IN and Flag.CHECK_CRC in self.flags
        return {
            "opcode": self.opcode.value,
            "codec": CONFIG.codec.entries[0].number if is_packed else 0,
            "element_bytes": ELEMENT if is_packed else 0,
            "flags": self.flags.value,
            "tag": self.tag,
            "src": device if self.outward else host,
            "dst": host if self.outward else device,
            "length": self.raw.size,
            "dst_capacity": self.capacity,
            "src_length": self.stream.size if self.opcode is Opcode.DECOMPRESS_IN else 0,
            "crc32": zlib.crc32(self.raw) if checks else 0,
        }

    def provide(self, device, host):
        """Put the source where it is read."""
        memory = device if self.outward else host
        start = self.place(in_device=self.outward)
        memory[start : start + self.source.size] = self.source

    def leave(self, device, host):
        """Put what is written where it is written."""
        memory = host if self.outward else device
        start = self.place(in_device=not self.outward)
        size = min(self.wanted.size, self.capacity)
        memory[start : start + size] = self.wanted[:size]

    def ending(self):
        """Fields of the record."""
        done = {"tag": self.tag, "detail": 0, "fault_address": 0, "result": 0}
        if self.capacity < self.wanted.size:
            return done | {"status": Status.DESTINATION_OVERFLOW} | self._overflow()
        grows = self.outward and self.wanted.size > self.raw.size
        return done | {
            "status": Status.OK_EXPANDED if grows else Status.OK,
            "src_done": self.source.size,
            "out_size": self.wanted.size,
            "crc32": zlib.crc32(self.raw),
        }

    def _overflow(self):
        """Of a transfer out: where to go on."""
        capacity = self.capacity
        if self.opcode is Opcode.COPY_OUT:
            done = resume = capacity
        else:
            ends = [0, *np.cumsum(Zvc(ELEMENT).line_sizes(self.raw)).tolist()]
            whole = next(line for line, (_, end) in enumerate(pairwise(ends)) if end > capacity)
            done, resume = whole * LINE_BYTES, ends[whole]
        return {"src_done": done, "out_size": capacity, "fault_address": resume, "crc32": 0}


def drawn(seed, count):
    """Transfers of all kinds, each in an area of its own."""
    draw = random.Random(seed)
    found = []
    for area in range(count):
        opcode = draw.choice([*OUTWARD, Opcode.DECOMPRESS_IN, Opcode.COPY_IN])
        size = draw.choice([ELEMENT, LINE_BYTES, draw.randrange(1, MOST // ELEMENT) * ELEMENT])
        density = draw.choice([0.0, 0.3, 0.7, 1.0])
        raw = sparse_bytes(draw.getrandbits(32), size, density, ELEMENT)
        places = [draw.randrange(100) * ELEMENT for _ in range(2)]
        one = Transfer(opcode, area, raw, *places, tag=draw.getrandbits(32))
        one.flags = draw.choice([NO_FLAGS, Flag.INTERRUPT])
        if opcode is Opcode.DECOMPRESS_IN:
            one.flags |= draw.choice([NO_FLAGS, Flag.CHECK_CRC])
        if one.outward:
            one.flags |= draw.choice([NO_FLAGS, Flag.THROTTLE_CLASS])
            if one.wanted.size > ELEMENT and draw.random() < 0.25:
                one.space_left = draw.randrange(1, one.wanted.size // ELEMENT) * ELEMENT
            elif opcode is Opcode.COMPRESS_OUT:
                one.flags |= draw.choice([NO_FLAGS, Flag.VERIFY])
        found.append(one)
    return found


def memories(transfers):
    """Device and host memory before a scene: something everywhere, so that strays are seen."""
    generator = np.random.default_rng(9)
    device = generator.integers(0, 256, AREAS * AREA_BYTES, np.uint8)
    host = generator.integers(0, 256, MOVED + AREAS * AREA_BYTES, np.uint8)
    for transfer in transfers:
        transfer.provide(device, host)
    return device, host


def told(record):
    """A record's fields but for those that the ring gives it."""
    names = ("status", "detail", "tag", "src_done", "out_size", "fault_address", "crc32", "result")
    return {name: int(record[name]) for name in names}


def check_left(transfers, device, host, *, refused=()):
    """Memories hold what the transfers leave, and nothing else has changed but the rings."""
    wanted = memories([*transfers, *refused])
    for transfer in transfers:
        transfer.leave(*wanted)
    np.testing.assert_array_equal(device, wanted[0])
    np.testing.assert_array_equal(host[MOVED:], wanted[1][MOVED:])


@pytest.mark.parametrize(("stall", "seed"), [(0.0, 1), (0.3, 2)])
def test_transfers_of_two_rings(stall, seed):
    transfers = drawn(seed, AREAS)
    of_ring = [transfers[0::2], transfers[1::2]]
    device, host = memories(transfers)
    seen = {}

    async def software(sw):
        await sw.start(TIMEOUT_CYCLES=3000, THROTTLE1_RATE=1 << 12, THROTTLE1_BURST=128)
        for start in range(0, ENTRIES, 8):
            for ring, ones in enumerate(of_ring):
                await sw.submit([one.fields for one in ones[start : start + 8]], ring)
        seen["records"] = [await sw.ended(ring) for ring in range(2)]
        while not all([(await sw.fields("STATUS", ring))["idle"] for ring in range(2)]):
            pass
        seen["events"] = [await sw.fields("IRQ_STATUS", ring) for ring in range(2)]
        seen["errors"] = [await sw.get("ERROR_TAG", ring) for ring in range(2)]
        seen["irq"] = (await sw.bus.tick(engine().engine.irq))[0]
        seen["counters"] = {name: await sw.get(f"{name.upper()}_LO") for name in COUNTED}

    host_port, *device_ports = engine().play(
        software, device=device, host=host, stall=stall, seed=seed
    )
    for ones, records, events, error in zip(
        of_ring, seen["records"], seen["events"], seen["errors"], strict=True
    ):
        for number, (one, record) in enumerate(zip(ones, records, strict=True)):
            assert told(record) == one.ending(), one
            assert (record["index"], record["phase"]) == (number, number < ENTRIES)
            assert record["cycles"] > 0
        failed = [one for one in ones if one.ending()["status"] not in GOOD]
        asked = any(Flag.INTERRUPT in one.flags for one in ones)
        assert events == {"done": asked, "error": bool(failed), "ring_error": 0}
        assert error in ([one.tag for one in failed] or [0])
    assert seen["irq"] == 3
    check_left(transfers, device, host)
    outs = [one for one in transfers if one.outward]
    counted = seen["counters"]
    written = sum(min(one.wanted.size, one.capacity) for one in outs)
    assert counted["stream_bytes_out"] == written
    width = CONFIG.codec.sector_bytes
    beats = {
        channel: sum(len(port.transfers[channel]) for port in device_ports) for channel in "rw"
    }
    assert counted["raw_bytes_out"] == width * beats["r"]
    assert counted["raw_bytes_in"] == width * beats["w"]
    assert counted["host_read_beats"] == len(host_port.transfers["r"])
    assert counted["host_write_beats"] == len(host_port.transfers["w"])
    verified = [one for one in outs if Flag.VERIFY in one.flags]
    ins = [one for one in transfers if not one.outward] + verified
    lines = sum(-(-one.raw.size // LINE_BYTES) for one in ins)
    assert counted["lines_in"] == lines
    assert 0 < counted["lines_out"] <= sum(-(-one.raw.size // LINE_BYTES) for one in outs)
    for name in BUSY:
        assert counted[name] > 0, name
    assert 0 < counted["reservation_high_water"] <= CONFIG.buffer_bytes * 2


def test_an_engine_of_one_ring_is_idle_when_all_is_done():
    transfers = drawn(3, ENTRIES)
    device, host = memories(transfers)
    seen = {}

    async def software(sw):
        await sw.start(TIMEOUT_CYCLES=3000)
        seen["records"] = await sw.carry_out([one.fields for one in transfers])
        await sw.until("STATUS", "idle")

    engine(rings=1).play(software, device=device, host=host)
    for one, record in zip(transfers, seen["records"], strict=True):
        assert told(record) == one.ending(), one
    check_left(transfers, device, host)


def one_ring(transfers, *, settings=(), **options):
    """Carry out descriptors or transfers; records, the error registers, events, memories."""
    device, host = memories([one for one in transfers if isinstance(one, Transfer)])
    seen = {}

    async def software(sw):
        await sw.start(TIMEOUT_CYCLES=1500, **dict(settings))
        fields = [one.fields if isinstance(one, Transfer) else one for one in transfers]
        seen["records"] = await sw.carry_out(fields)
        seen["error"] = await sw.fields("ERROR_STATUS")
        seen["error"]["tag"] = await sw.get("ERROR_TAG")
        seen["error"]["fault_address"] = await sw.get_long("ERROR_ADDR")
        seen["events"] = await sw.fields("IRQ_STATUS")

    engine().play(software, device=device, host=host, **options)
    return seen["records"], seen["error"], seen["events"], device, host


@pytest.mark.parametrize("rings", [1, 2])
def test_laps_of_a_ring_and_a_fence(rings):
    """What is copied out comes back from there, behind a fence."""
    raw = sparse_bytes(4, 300, 0.6, ELEMENT)
    out = Transfer(Opcode.COMPRESS_OUT, 0, raw, 6, 10)
    back = Transfer(Opcode.DECOMPRESS_IN, 0, raw, 10, 600)
    fence = {"opcode": Opcode.FENCE.value, "tag": 5}
    device, host = memories([out])
    seen = {}

    async def software(sw):
        await sw.start()
        for _ in range(7):
            # Laps are of 16, and these are 3 each.
            seen["records"] = await sw.carry_out([out.fields, fence, back.fields], ring=rings - 1)

    engine(rings).play(software, device=device, host=host, seed=3)
    for number, record in zip(range(5, 21), seen["records"], strict=True):
        found = record["status"], record["phase"], record["index"]
        assert found == (Status.OK, number < ENTRIES, number)
    start = back.place(in_device=True)
    np.testing.assert_array_equal(device[start : start + raw.size], raw)


RAW = sparse_bytes(5, 520, 0.5, ELEMENT)
OUT = Transfer(Opcode.COMPRESS_OUT, 1, RAW, 64, 32, tag=11)
IN = Transfer(Opcode.DECOMPRESS_IN, 2, RAW, 32, 64, tag=12)
COPY = Transfer(Opcode.COPY_OUT, 3, RAW, 10, 6, tag=13)
HOST_END, DEVICE_END = 1 << 64, 1 << 40

BAD = {
    "opcode": (OUT, {"opcode": 9}, Status.BAD_OPCODE),
    "codec": (OUT, {"codec": 77}, Status.BAD_FLAG),
    "flag": (OUT, {"flags": 0x80}, Status.BAD_FLAG),
    "reserved": (COPY, {"reserved": 1}, Status.BAD_FLAG),
    "parameters": (IN, {"parameters": 1}, Status.BAD_FLAG),
    "element": (IN, {"element_bytes": 4}, Status.BAD_FLAG),
    "source": (COPY, {"src": DEVICE_BASE + 1}, Status.MISALIGNED),
    "destination": (OUT, {"dst": HOST_BASE + MOVED + 1}, Status.MISALIGNED),
    "nothing": (COPY, {"length": 0}, Status.BAD_LENGTH),
    "no stream": (IN, {"src_length": 0}, Status.BAD_LENGTH),
    "wraps around": (IN, {"src": HOST_END - 64, "src_length": 128}, Status.BAD_LENGTH),
    "leaves memory": (OUT, {"src": DEVICE_END - 64}, Status.BAD_LENGTH),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_bad_descriptors_end_between_good_ones(case):
    like, wrong, status = case
    bad = like.fields | {"tag": 99} | wrong
    others = [Transfer(Opcode.COPY_IN, 5, RAW, 2, 4), Transfer(Opcode.COMPRESS_OUT, 6, RAW)]
    records, error, events, device, host = one_ring([others[0], bad, others[1]])
    assert [told(record) for record in records[[0, 2]]] == [one.ending() for one in others]
    ending = told(records[1])
    assert (ending["status"], ending["tag"], ending["out_size"]) == (status, 99, 0)
    assert error == {"status": status, "detail": 0, "tag": 99, "fault_address": 0}
    assert events == {"done": 0, "error": 1, "ring_error": 0}
    check_left(others, device, host)


def test_records_are_not_written_into_what_is_moved():
    overlaps = COPY.fields | {"record": HOST_BASE + COPY.place(in_device=False) // 64 * 64}
    device, host = memories([COPY])

    async def software(sw):
        await sw.start()
        await sw.carry_out([overlaps])
        record = host[overlaps["record"] - HOST_BASE :][:ENTRY_BYTES]
        assert record[0] == Status.OVERLAP

    engine().play(software, device=device, host=host)


@pytest.mark.parametrize(
    ("window", "transfer", "detail"),
    [
        ("HOST", OUT, WindowDetail.DESTINATION),
        ("DEVICE", OUT, WindowDetail.SOURCE),
        ("HOST", IN, WindowDetail.SOURCE),
        ("DEVICE", IN, WindowDetail.DESTINATION),
    ],
)
def test_what_leaves_its_window_is_refused(window, transfer, detail):
    base = HOST_BASE if window == "HOST" else DEVICE_BASE
    inside = Transfer(transfer.opcode, 16, transfer.raw)
    first = base + inside.place(in_device=window == "DEVICE") // 4096 * 4096
    settings = {f"{window}_WINDOW_BASE_LO": first % 2**32, f"{window}_WINDOW_BASE_HI": first >> 32}
    records, error, _, device, host = one_ring([inside, transfer], settings=settings)
    assert told(records[0]) == inside.ending()
    assert (records[1]["status"], records[1]["detail"]) == (Status.OUTSIDE_WINDOW, detail)
    assert (error["status"], error["detail"]) == (Status.OUTSIDE_WINDOW, detail)
    check_left([inside], device, host, refused=[transfer])


BUS = {
    "read out": (OUT, {"at_device": Behavior(read_errors={3: BusError.DECERR})}, 3),
    "read in": (IN, {"at_host": Behavior(read_errors={3: BusError.SLVERR})}, 2),
    "write out": (OUT, {"at_host": Behavior(write_errors={0: BusError.SLVERR})}, 2),
    "write in": (IN, {"at_device": Behavior(write_errors={1: BusError.DECERR})}, 3),
}


@pytest.mark.parametrize("name", BUS)
def test_errors_of_the_buses_are_told_with_their_address(name):
    transfer, behavior, detail = BUS[name]
    records, error, _, device, host = one_ring([transfer], **behavior)
    ending = told(records[0])
    is_read = name.startswith("read")
    status = Status.READ_ERROR if is_read else Status.WRITE_ERROR
    assert (ending["status"], ending["detail"]) == (status, detail)
    fields = transfer.fields
    host_bytes, sector_bytes = CONFIG.host_bytes, CONFIG.codec.sector_bytes
    # The first beat that the host is asked for is the descriptor; units have every second line.
    address = {
        "read out": fields["src"] + 3 * sector_bytes,
        "read in": (fields["src"] // host_bytes + 2) * host_bytes,
        "write out": fields["dst"] // host_bytes * host_bytes,
        "write in": fields["dst"] + 2 * LINE_BYTES,
    }[name]
    assert ending["fault_address"] == error["fault_address"] == address
    assert (error["status"], error["detail"], error["tag"]) == (status, detail, transfer.tag)
    if name == "read in":
        assert ending["src_done"] == address - fields["src"]
    right = transfer.wanted[: ending["out_size"]]
    memory = host if transfer.outward else device
    start = transfer.place(in_device=not transfer.outward)
    np.testing.assert_array_equal(memory[start : start + right.size], right)
    assert right.size < transfer.wanted.size


@pytest.mark.parametrize(
    ("transfer", "behavior", "detail"),
    [
        (OUT, {"at_device": Behavior(hangs={"r": 2}, lift=1200)}, TimeoutDetail.READ),
        (IN, {"at_host": Behavior(hangs={"r": 3}, lift=1200)}, TimeoutDetail.READ),
        (IN, {"at_device": Behavior(hangs={"aw": 0}, lift=1200)}, TimeoutDetail.WRITE),
    ],
)
def test_silent_buses_end_a_transfer(transfer, behavior, detail):
    device, host = memories([transfer])
    later = Transfer(Opcode.COPY_IN, 8, RAW[:200])
    later.provide(device, host)

    async def software(sw):
        await sw.start(TIMEOUT_CYCLES=300)
        (record,) = await sw.carry_out([transfer.fields])
        assert (record["status"], record["detail"]) == (Status.TIMEOUT, detail)
        assert (await sw.fields("ERROR_STATUS"))["status"] == Status.TIMEOUT
        # Once the bus has given what it owes, everything goes on.
        await sw.until("STATUS", "idle")
        assert told((await sw.carry_out([later.fields]))[1]) == later.ending()

    engine().play(software, device=device, host=host, **behavior)
    start = later.place(in_device=True)
    np.testing.assert_array_equal(device[start : start + 200], later.raw)


@pytest.mark.parametrize("first", [0, 1])
def test_lines_go_to_the_units_in_turn(first):
    start = first * LINE_BYTES
    transfers = [
        Transfer(Opcode.COMPRESS_OUT, 0, RAW[:500], start),
        Transfer(Opcode.COPY_IN, 2, RAW[:400], 64, start),
    ]
    device, host = memories(transfers)
    seen = {}

    async def software(sw):
        await sw.start()
        seen["records"] = await sw.carry_out([one.fields for one in transfers])

    _, *units = engine().play(software, device=device, host=host)
    assert [told(record) for record in seen["records"]] == [one.ending() for one in transfers]
    for number, unit in enumerate(units):
        assert {address // LINE_BYTES % CONFIG.units for address in unit.asked} == {number}


LONG = np.random.default_rng(6).integers(1, 256, 12 * AREA_BYTES, np.uint8)


@pytest.mark.parametrize("opcode", [*OUTWARD, Opcode.DECOMPRESS_IN, Opcode.COPY_IN])
@pytest.mark.parametrize("cause", ["no room", "write error"])
def test_nothing_is_read_for_what_cannot_be_written(opcode, cause):
    transfer = Transfer(opcode, 0, LONG)
    options = {}
    if cause == "no room":
        transfer.space_left = 256
    else:
        fails = Behavior(write_errors={0: BusError.SLVERR})
        options["at_host" if transfer.outward else "at_device"] = fails
    device, host = memories([transfer])
    seen = {}

    async def software(sw):
        await sw.start()
        (seen["record"],) = await sw.carry_out([transfer.fields])

    ports = engine().play(software, device=device, host=host, **options)
    failed = Status.DESTINATION_OVERFLOW if cause == "no room" else Status.WRITE_ERROR
    assert seen["record"]["status"] == failed
    read = ports[1:] if transfer.outward else ports[:1]
    nbytes = sum(port.width * len(port.transfers["r"]) for port in read)
    assert nbytes < transfer.source.size / 2


STREAM = IN.stream
LAST_LINE = int(Zvc(ELEMENT).line_sizes(RAW)[-1])
"""Bytes of its mask and its elements."""
DAMAGED = {
    "cut": (STREAM[: 4 - LAST_LINE], {}, Status.STREAM_TRUNCATED, StreamStatus.MASK_TRUNCATED),
    "cut earlier": (STREAM[:-20], {}, Status.STREAM_TRUNCATED, StreamStatus.PAYLOAD_TRUNCATED),
    "too long": (
        np.append(STREAM, STREAM[:4]),
        {},
        Status.STREAM_CORRUPT,
        StreamStatus.TRAILING_BYTES,
    ),
    "checksum": (STREAM, {"flags": Flag.CHECK_CRC.value, "crc32": 3}, Status.CRC_MISMATCH, 0),
}


@pytest.mark.parametrize("case", DAMAGED.values(), ids=DAMAGED)
def test_damaged_streams_are_found(case):
    stream, more, status, detail = case
    device, host = memories([IN])
    start = IN.place(in_device=False)
    host[start : start + stream.size] = stream
    fields = IN.fields | {"src_length": stream.size} | more

    async def software(sw):
        await sw.start()
        (record,) = await sw.carry_out([fields])
        assert (record["status"], record["detail"]) == (status, detail)
        assert (await sw.fields("IRQ_STATUS"))["error"]

    engine().play(software, device=device, host=host)


class Flipping(np.ndarray):
    """Host memory of which a byte flips when it is written."""

    at = 0

    def __setitem__(self, place, value):
        is_written = isinstance(place, int) and place == self.at
        super().__setitem__(place, value ^ 16 if is_written else value)


def test_what_does_not_come_back_as_it_was_is_told():
    out = Transfer(Opcode.COMPRESS_OUT, 1, RAW, 64, 32, flags=Flag.VERIFY, tag=14)
    device, host = memories([out])
    host = host.view(Flipping)
    # An element, not a mask: the stream is another one, and as good.
    host.at = out.place(in_device=False) + 8 + 8

    async def software(sw):
        await sw.start()
        (record,) = await sw.carry_out([out.fields])
        assert record["status"] == Status.VERIFY_MISMATCH

    engine().play(software, device=device, host=host)


@pytest.mark.parametrize("reset", [False, True])
def test_an_abort_ends_everything_of_its_ring(reset):
    slow = Transfer(Opcode.COMPRESS_OUT, 0, RAW, flags=Flag.THROTTLE_CLASS, tag=1)
    more = [Transfer(Opcode.COPY_OUT, area, RAW, tag=area) for area in (1, 2)]
    device, host = memories([slow, *more])

    async def software(sw):
        await sw.start(THROTTLE1_RATE=1 << 8, THROTTLE1_BURST=1)
        await sw.submit([one.fields for one in (slow, *more)])
        await sw.wait(200)
        assert (await sw.fields("STATUS"))["idle"] == 0
        await sw.put("CONTROL", 5 if reset else 3)
        status = await sw.until("STATUS", "idle")
        assert status == {"idle": 1, "aborting": 0, "ring_error": 0, "resetting": 0}
        places = [sw.record_place(0, index) for index in range(3)]
        assert [host[place] for place in places] == [Status.ABORTED] * 3
        assert await sw.get("RING_HEAD") == await sw.get("RING_DONE") == (0 if reset else 3)
        if reset:
            await sw.begin_again()
        records = await sw.carry_out([more[0].fields])
        assert told(records[-1]) == more[0].ending()
        assert records[-1]["index"] == (0 if reset else 3)

    engine().play(software, device=device, host=host)


@pytest.mark.parametrize("detail", [WindowDetail.RING, WindowDetail.RECORD])
def test_a_ring_outside_its_window_stops(detail):
    device, host = memories([COPY])
    name = {WindowDetail.RING: "DESCRIPTOR", WindowDetail.RECORD: "RECORD"}[detail]

    async def software(sw):
        await sw.put_long(f"{name}_WINDOW_BASE", HOST_BASE + (1 << 20))
        await sw.start()
        await sw.submit([COPY.fields])
        await sw.until("STATUS", "ring_error")
        assert (await sw.fields("IRQ_STATUS"))["ring_error"]
        error = await sw.fields("ERROR_STATUS")
        assert error == {"status": Status.OUTSIDE_WINDOW, "detail": detail}
        place = 0 if detail == WindowDetail.RING else sw.record_place(0, 0)
        assert await sw.get_long("ERROR_ADDR") == HOST_BASE + place
        # The other ring goes on.
        (record,) = await sw.carry_out([COPY.fields], ring=1)
        assert told(record) == COPY.ending()

    engine().play(software, device=device, host=host)


@pytest.mark.parametrize(
    ("behavior", "error"),
    [
        (Behavior(write_errors={0: BusError.DECERR}), (Status.WRITE_ERROR, 3)),
        (Behavior(hangs={"b": 0}, lift=900), (Status.TIMEOUT, TimeoutDetail.WRITE)),
    ],
)
def test_a_record_that_cannot_be_written_stops_the_ring(behavior, error):
    device, host = memories([COPY])

    async def software(sw):
        await sw.start(TIMEOUT_CYCLES=300)
        await sw.submit([{"opcode": Opcode.FENCE.value}])
        await sw.until("STATUS", "ring_error")
        found = await sw.fields("ERROR_STATUS")
        assert (found["status"], found["detail"]) == error
        assert await sw.get_long("ERROR_ADDR") == HOST_BASE + sw.record_place(0, 0)
        await sw.put("CONTROL", 5)
        await sw.until("STATUS", "idle")
        await sw.begin_again()
        (record,) = await sw.carry_out([COPY.fields])
        assert told(record) == COPY.ending()

    engine().play(software, device=device, host=host, at_host=behavior)
