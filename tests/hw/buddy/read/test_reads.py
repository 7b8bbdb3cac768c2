"""Entries read from both memories: what is asked for, and what is put together."""

import random
from functools import cache

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import wiring

from cdma.golden.buddy.address_map import Target, split_sectors
from cdma.golden.buddy.entry import sectors_of, sizes_of
from cdma.hw.buddy.payloads import AccessStatus, ExpectedEntry, MetadataError
from cdma.hw.buddy.read.assembler import EntryAssembler
from cdma.hw.buddy.read.issue import ReadIssue
from cdma.hw.bus.burst import BusError
from cdma.hw.lib.fifo import Fifo
from tests.golden.buddy.entries import mixed_entries
from tests.hw.buddy.address.pages import CONFIG, PLAIN, mapping_of, memory_with
from tests.lib.rtl.answers import Answers, append
from tests.lib.rtl.bench import Bench, assert_no_bubble, fields, stalls
from tests.lib.shares import configs

ENTRIES = 8


class ReadPath(wiring.Component):
    """Issuer and assembler, with the queue between them."""

    def __init__(self):
        self.issuer = ReadIssue(CONFIG, ENTRIES)
        self.assembler = EntryAssembler(CONFIG)
        parts = {
            **dict.fromkeys(ISSUER, self.issuer),
            **dict.fromkeys(ASSEMBLER, self.assembler),
        }
        self.parts = parts
        super().__init__(
            {name: part.signature.members[name] for name, part in parts.items()}
            | {"kept": self.assembler.signature.members["o"]}
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.issuer = self.issuer
        m.submodules.assembler = self.assembler
        m.submodules.expected = expected = Fifo(ExpectedEntry(CONFIG), ENTRIES)
        wiring.connect(m, self.issuer.o, expected.i)
        wiring.connect(m, expected.o, self.assembler.i)
        wiring.connect(m, self.assembler.o, wiring.flipped(self.kept))
        for name, part in self.parts.items():
            ours, theirs = getattr(self, name), getattr(part, name)
            if self.signature.members[name].flow == wiring.In:
                wiring.connect(m, wiring.flipped(ours), theirs)
            else:
                wiring.connect(m, theirs, wiring.flipped(ours))
        return m


ISSUER = ("i", "lookup", "hint", "result", "device_request", "buddy_request")
ASSEMBLER = ("device", "buddy", "info")


@cache
def shared_bench():
    return Bench(ReadPath())


class Scenario:
    """Reads of entries through the path, memory and metadata answered from the golden model."""

    def __init__(self, memory, reads, *, stall=0.0, slow=0.0, seed=1):
        self.memory = memory
        self.reads = reads
        self.random = random.Random(seed)
        self.bench = bench = shared_bench()
        path = bench.component
        where = memory.translate(np.array([read["address"] for read in reads]))
        metadata = memory.metadata(np.array([read["address"] for read in reads]))
        self.metadata, self.where = metadata, where
        self.device_asked, self.buddy_asked = [], []
        payloads = []
        for k, read in enumerate(reads):
            payloads.append(
                {
                    "access": {
                        "id": 0,
                        "address": read["address"],
                        "size": 5,
                        "beats": read.get("beats", 1),
                        "last": 1,
                        "unsupported": 0,
                    },
                    "fetch": read.get("fetch", 0),
                    "status": read.get("status", AccessStatus.OK).value,
                    "mapping": mapping_of(where, k),
                }
            )
        self.quick = random.Random(seed + 1)
        self.source = bench.source(path.i, payloads, willing=stalls(stall, seed))
        self.hint = bench.source(path.hint, [])
        self.result = bench.source(path.result, [])
        self.device = bench.source(path.device, [], willing=stalls(stall, seed + 2))
        self.buddy = bench.source(path.buddy, [], willing=stalls(stall, seed + 3))
        self.kept = bench.sink(path.kept, len(reads), willing=stalls(stall, seed + 4))
        self.info = bench.sink(path.info, len(reads), willing=stalls(stall, seed + 5))
        self.slow = slow
        self.due = []
        looked_up = [
            k
            for k, read in enumerate(reads)
            if where.compressed[k] and read.get("status", AccessStatus.OK) == AccessStatus.OK
        ]
        self.lookups = iter(looked_up)
        for port, answer in (
            (path.lookup, self.look_up),
            (path.device_request, self.read_device),
            (path.buddy_request, self.read_buddy),
        ):
            sink = Answers(port, 0, stalls(stall, seed + 6))
            sink.answer = answer
            bench.ends.append(sink)
        self.result.willing = self.is_due

    def is_due(self, cycle):
        """True if the next result comes now."""
        if self.due and self.due[0] <= cycle:
            self.due.pop(0)
            return True
        return False

    def look_up(self, lookup, cycle):
        k = next(self.lookups)
        assert lookup["address"] == self.where.metadata_address[k]
        assert not lookup["write"]
        error = self.reads[k].get("error", MetadataError.NONE)
        waits = self.quick.random() < self.slow
        behind = bool(self.due) and self.due[-1] > cycle + 4
        append(self.hint, int(waits or behind))
        latest = self.due[-1] if self.due else 0
        self.due.append(max(latest, cycle + (self.quick.randrange(20, 60) if waits else 3)))
        append(self.result, {"metadata": int(self.metadata[k]), "error": error.value})

    def read_device(self, request, cycle):
        self.device_asked.append(request)
        self.serve(request, self.memory.device, 0, self.device, "device_errors")

    def read_buddy(self, request, cycle):
        self.buddy_asked.append(request)
        self.serve(request, self.memory.buddy, self.memory.map.gbbr, self.buddy, "buddy_errors")

    def serve(self, request, memory, base, source, errors):
        assert request["address"] % 4096 + 32 * (request["beats"] + 1) <= 4096
        for beat in range(request["beats"] + 1):
            start = request["address"] - base + 32 * beat
            data = int.from_bytes(memory[start : start + 32].tobytes(), "little")
            failing = {error for read in self.reads for error in read.get(errors, ())}
            error = next((e for a, e in failing if a == start + base), BusError.NONE)
            append(source, {"data": data, "error": error.value})

    def run(self):
        self.bench.run()
        return self

    def check(self):
        """Assert that what came out is what is kept, and no more than the slot was asked for."""
        for k, read in enumerate(self.reads):
            info = fields(self.info.port.payload.shape(), self.info.received[k])
            assert info["status"] == read.get("expected", read.get("status", AccessStatus.OK))
            assert info["fetch"] == read.get("fetch", 0)
            assert info["access"]["address"] == read["address"]
            kept = fields(self.kept.port.payload.shape(), self.kept.received[k])
            if info["status"] != AccessStatus.OK:
                assert kept["metadata"] == 0
                continue
            assert kept["metadata"] == self.metadata[k]
            data = np.frombuffer(kept["data"].to_bytes(128, "little"), np.uint8)
            whole = read["address"] // 128 * 128
            if self.where.compressed[k]:
                metadata, expected = self.memory.codec.encode(self.memory.read(whole, 128))
                assert metadata[0] == kept["metadata"]
                size = sizes_of(metadata)[0]
                np.testing.assert_array_equal(data[:size], expected[0, :size])
            else:
                first = read["address"] % 128 // 32 * 32
                end = first + 32 * read.get("beats", 1)
                expected = self.memory.read(whole, 128)
                np.testing.assert_array_equal(data[first:end], expected[first:end])


@pytest.fixture(scope="module")
def stocked():
    return memory_with(mixed_entries(44), [*Target, PLAIN])


def reads_of(addresses, count, seed):
    draw = random.Random(seed)
    reads = []
    for _ in range(count):
        first = draw.randrange(4)
        reads.append(
            {
                "address": draw.choice(addresses) + 32 * first + draw.choice((0, 0, 5)),
                "beats": draw.randrange(1, 5 - first),
                "fetch": int(draw.random() < 0.2),
            }
        )
    return reads


@pytest.mark.parametrize("stall", [0.0, 0.4])
@pytest.mark.parametrize("slow", configs({"0.0": 0.0, "0.1": 0.1, "0.8": 0.8}, quick=["0.1"]))
def test_entries_of_all_targets_are_put_together(stocked, stall, slow):
    memory, addresses = stocked
    reads = reads_of(addresses, 150, seed=int(10 * slow))
    Scenario(memory, reads, stall=stall, slow=slow).run().check()


def test_only_what_is_needed_is_read_when_metadata_are_at_hand(stocked):
    memory, addresses = stocked
    scene = Scenario(memory, [{"address": address} for address in addresses]).run()
    scene.check()
    device, buddy = split_sectors(scene.where.target, scene.metadata)
    device[~scene.where.compressed] = 1
    buddy[~scene.where.compressed] = 0
    assert sum(request["beats"] + 1 for request in scene.device_asked) == device.sum()
    assert sum(request["beats"] + 1 for request in scene.buddy_asked) == buddy.sum()
    assert buddy.sum() > 20
    assert sectors_of(scene.metadata).sum() > device.sum() > 20


def test_device_memory_is_asked_while_metadata_are_fetched(stocked):
    memory, addresses = stocked
    target = Target.X1_33
    compressed = [a for a in addresses if memory.translate(np.array([a])).target[0] == target]
    scene = Scenario(memory, [{"address": address} for address in compressed[:4]], slow=1.0).run()
    scene.check()
    assert [request["beats"] for request in scene.device_asked] == [2] * 4


def test_errors_end_in_a_status(stocked):
    memory, addresses = stocked
    where = memory.translate(np.array(addresses))
    _, buddy = split_sectors(where.target, memory.metadata(np.array(addresses)))
    both = where.compressed & (where.target == Target.X2) & (buddy > 0)
    spilled = np.flatnonzero(both)
    good = [{"address": addresses[k]} for k in spilled[2:6]]
    at = int(where.device_address[spilled[0]]) + 32
    buddy_at = int(where.buddy_address[spilled[1]])
    reads = [
        *good[:1],
        {"address": addresses[0], "status": AccessStatus.OUT_OF_REGION},
        {
            "address": addresses[spilled[0]],
            "device_errors": ((at, BusError.SLVERR),),
            "expected": AccessStatus.DEVICE_READ,
        },
        *good[1:2],
        {
            "address": addresses[spilled[1]],
            "buddy_errors": ((buddy_at, BusError.FRAMING),),
            "expected": AccessStatus.BUDDY_READ,
        },
        *good[2:3],
        {
            "address": addresses[spilled[2]],
            "error": MetadataError.UNCORRECTABLE,
            "expected": AccessStatus.METADATA_UNCORRECTABLE,
        },
        {
            "address": addresses[spilled[3]],
            "error": MetadataError.READ,
            "expected": AccessStatus.METADATA_READ,
        },
        {
            "address": addresses[spilled[4]],
            "error": MetadataError.TIMEOUT,
            "expected": AccessStatus.TIMEOUT,
        },
        *good[3:],
    ]
    for slow in (0.0, 1.0):
        Scenario(memory, reads, slow=slow).run().check()


@pytest.mark.parametrize("memory_name", ["device", "buddy"])
def test_read_that_either_memory_does_not_answer_ends_in_a_timeout(stocked, memory_name):
    memory, addresses = stocked
    where = memory.translate(np.array(addresses))
    _, buddy = split_sectors(where.target, memory.metadata(np.array(addresses)))
    spilled = np.flatnonzero(where.compressed & (where.target == Target.X2) & (buddy > 0))
    silent, good = addresses[spilled[0]], addresses[spilled[1]]
    place = int(getattr(where, f"{memory_name}_address")[spilled[0]])
    reads = [
        {
            "address": silent,
            f"{memory_name}_errors": ((place, BusError.TIMEOUT),),
            "expected": AccessStatus.TIMEOUT,
        },
        {"address": good},
    ]
    Scenario(memory, reads).run().check()


def test_error_of_what_was_not_needed_is_none(stocked):
    memory, addresses = stocked
    where = memory.translate(np.array(addresses))
    device, _ = split_sectors(where.target, memory.metadata(np.array(addresses)))
    small = next(
        k for k in range(len(addresses)) if where.target[k] == Target.X1_33 and device[k] == 1
    )
    error = (int(where.device_address[small]) + 64, BusError.SLVERR)
    reads = [{"address": addresses[small], "device_errors": (error,)}]
    scene = Scenario(memory, reads, slow=1.0).run()
    scene.check()
    assert scene.device_asked[0]["beats"] == 2


def test_entry_of_one_sector_per_cycle(stocked):
    memory, addresses = stocked
    where = memory.translate(np.array(addresses))
    device, buddy = split_sectors(where.target, memory.metadata(np.array(addresses)))
    small = [
        address
        for k, address in enumerate(addresses)
        if where.compressed[k] and device[k] <= 1 and not buddy[k]
    ]
    scene = Scenario(memory, [{"address": address} for address in (3 * small)[:60]]).run()
    scene.check()
    assert_no_bubble(scene.kept.cycles[20:])
