"""Reads that wait for buddy memory, and those of other IDs that overtake them."""

import random
from dataclasses import replace
from functools import cache

import pytest
from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import Out

from cdma.hw.buddy.frontend.admission import FETCHES
from cdma.hw.buddy.payloads import AccessStatus
from cdma.hw.buddy.read.assembler import EntryAssembler
from cdma.hw.buddy.read.spill_queues import PLACES, SpillQueues, read_queues
from cdma.hw.bus.burst import BusError
from cdma.hw.config import BUDDY_PRESETS
from tests.lib.rtl.bench import STALLS, Bench, fields, from_cycle, stalls

CONFIG = replace(BUDDY_PRESETS["tiny"], reads=16)
LATE = 80
"""The cycle in which buddy memory begins to answer, where it does so late."""


class QueuesAndAssembler(wiring.Component):
    """The queues, and the assembler that takes what leaves them."""

    def __init__(self):
        self.queues = SpillQueues(CONFIG)
        self.assembler = EntryAssembler(CONFIG)
        inputs = {name: self.queues.signature.members[name] for name in ("i", "device", "buddy")}
        outputs = {name: self.assembler.signature.members[name] for name in ("o", "info")}
        super().__init__({**inputs, **outputs, "done": Out(stream.Signature(1))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.queues = queues = self.queues
        m.submodules.assembler = assembler = self.assembler
        for name in ("i", "device", "buddy"):
            wiring.connect(m, wiring.flipped(getattr(self, name)), getattr(queues, name))
        for name, target in (("o", "i"), ("o_device", "device"), ("o_buddy", "buddy")):
            wiring.connect(m, getattr(queues, name), getattr(assembler, target))
        for name in ("o", "info"):
            wiring.connect(m, getattr(assembler, name), wiring.flipped(getattr(self, name)))
        m.d.comb += self.done.valid.eq(queues.read_done)
        return m


@cache
def shared_bench():
    return Bench(QueuesAndAssembler())


def read(id=0, *, device=1, buddy=0, extra=0, fetch=0, last=1, status=AccessStatus.OK, error=0):
    """An entry of so many sectors, and `extra` overfetched ones; `error`: of its sectors."""
    return {
        "id": id,
        "device": device,
        "buddy": buddy,
        "fetched": device + extra,
        "fetch": fetch,
        "last": last,
        "status": status.value,
        "error": error,
    }


def expected_entry(number, entry):
    """Expected entry as `ReadIssue` gives it; the address tells entries apart."""
    access = {"id": entry["id"], "address": 128 * number, "size": 5, "beats": 4}
    return {
        "access": {**access, "last": entry["last"], "unsupported": 0},
        "metadata": 1 + number % 14,
        "first": 0,
        "eighth": 0,
        "shared": 0,
        **{name: entry[name] for name in ("fetch", "status", "fetched", "device", "buddy")},
    }


def order_of(entries, *, stall=(0.0, 0.0), buddy=None, seed=1):
    """Numbers of the entries as they leave, each with its own sectors; those of a stream in order,
    and no burst in another."""
    bench = shared_bench()
    part = bench.component

    def sectors(kind, count, first):
        return [
            {"data": number << 8 | first + k, "error": entry["error"] * (entry[kind] > k)}
            for number, entry in enumerate(entries)
            for k in range(entry[count])
        ]

    bench.source(
        part.i,
        [expected_entry(number, entry) for number, entry in enumerate(entries)],
        willing=stalls(stall[0], seed),
    )
    device = sectors("device", "fetched", 0)
    bench.source(part.device, device, willing=stalls(stall[0], seed + 1))
    spilled = sectors("buddy", "buddy", 16)
    bench.source(part.buddy, spilled, willing=buddy or stalls(stall[0], seed + 2))
    kept = bench.sink(part.o, len(entries), willing=stalls(stall[1], seed + 3))
    infos = bench.sink(part.info, len(entries), willing=stalls(stall[1], seed + 4))
    done = bench.sink(part.done, sum(not entry["fetch"] for entry in entries))
    bench.run()

    order = []
    streams = {}
    burst = None
    for value, raw in zip(kept.received, infos.received, strict=True):
        entry, info = fields(part.o.payload.shape(), value), fields(part.info.payload.shape(), raw)
        number = info["access"]["address"] // 128
        order.append(number)
        given = entries[number]
        failed = given["status"] or (AccessStatus.DEVICE_READ.value if given["error"] else 0)
        assert info["status"].value == failed
        assert info["fetch"] == given["fetch"]
        assert entry["metadata"] == (0 if failed else 1 + number % 14)
        places = [*range(given["device"]), *range(16, 16 + given["buddy"])]
        for k, place in enumerate(places):
            assert entry["data"] >> 256 * k & (1 << 256) - 1 == number << 8 | place
        streams.setdefault("fetch" if given["fetch"] else given["id"], []).append(number)
        if not given["fetch"]:
            assert burst in (None, given["id"])
            burst = None if given["last"] else given["id"]
    assert sorted(order) == list(range(len(entries)))
    assert all(numbers == sorted(numbers) for numbers in streams.values())
    assert done.done
    return order


def drawn(count, seed, *, spills=0.3, longest=1):
    """Entries of bursts of up to so many, with fetches between them."""
    draw = random.Random(seed)
    entries, fetches = [], 0
    while len(entries) < count:
        id, length = draw.randrange(16), draw.randrange(1, longest + 1)
        for k in range(length):
            if draw.random() < 0.2 and fetches < FETCHES:
                fetches += 1
                entries.append(read(draw.randrange(16), fetch=1, buddy=draw.randrange(3)))
            device = draw.randrange(1, 4)
            buddy = draw.randrange(1, 5 - device) if draw.random() < spills else 0
            extra = draw.randrange(5 - device) * (draw.random() < 0.3)
            last = int(k == length - 1)
            if draw.random() < 0.05:
                status = AccessStatus.METADATA_READ
                entries.append(read(id, device=0, extra=extra, last=last, status=status))
                continue
            error = BusError.SLVERR.value * (draw.random() < 0.05)
            entries.append(
                read(id, device=device, buddy=buddy, extra=extra, last=last, error=error)
            )
    return entries


def test_reads_of_other_queues_overtake_one_that_waits():
    waits, others = [read(0, buddy=2)], [read(id) for id in (1, 2, 3, 1, 2, 3)]
    late = from_cycle(LATE)
    assert order_of([*waits, *others], buddy=late) == [1, 2, 3, 4, 5, 6, 0]


def test_reads_of_its_queue_stay_behind_one_that_waits():
    queues = read_queues(CONFIG)
    assert 1 < queues < 1 << CONFIG.id_bits
    entries = [read(0, buddy=1), read(0), read(queues), read(1), read(0, buddy=1), read(1)]
    assert order_of(entries, buddy=from_cycle(LATE)) == [3, 5, 0, 1, 2, 4]


def test_fetches_stay_in_order_and_stop_no_reads():
    entries = [read(0, fetch=1, buddy=1), read(0), read(1, fetch=1), read(1)]
    assert order_of(entries, buddy=from_cycle(LATE)) == [1, 3, 0, 2]


def test_nothing_comes_between_the_entries_of_a_burst():
    burst = [read(0, last=0), read(0, buddy=1, last=0), read(0, last=1)]
    entries = [*burst[:2], read(3, fetch=1), burst[2], read(1), read(2)]
    assert order_of(entries, buddy=from_cycle(LATE)) == [0, 2, 1, 3, 4, 5]


def test_burst_that_begins_late_is_overtaken_as_a_whole():
    entries = [read(0, buddy=1, last=0), read(0, last=1), read(1, last=0), read(1, last=1)]
    assert order_of(entries, buddy=from_cycle(LATE)) == [2, 3, 0, 1]


def test_full_queue_holds_up_what_comes_behind_until_there_is_room():
    entries = [*[read(0, buddy=1)] * PLACES, read(1), read(0), read(1)]
    order = order_of(entries, buddy=from_cycle(LATE))
    assert order[:2] == [PLACES, 0]
    assert order.index(PLACES + 2) > order.index(0)


def test_all_queues_full_and_a_burst_begun():
    queues = read_queues(CONFIG)
    entries = [read(id, buddy=1) for id in range(1, queues) for _ in range(PLACES)]
    burst = [read(0, buddy=1, last=0)] * (2 * PLACES) + [read(0)]
    fetches = [read(5, fetch=1, buddy=1)] * FETCHES
    order_of([*entries, *burst[:3], *fetches, *burst[3:]], buddy=from_cycle(LATE))


@pytest.mark.parametrize("stall", STALLS)
@pytest.mark.parametrize("longest", [1, 6])
def test_entries_keep_their_sectors_and_the_order_of_their_id(stall, longest):
    entries = drawn(150, seed=longest, longest=longest)
    order = order_of(entries, stall=stall, seed=10 * longest)
    assert len(entries) >= 150
    if longest == 1:
        assert order != sorted(order)
