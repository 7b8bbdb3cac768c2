"""Entries into memory: what is written where, and what happens when it cannot be."""

import random
from functools import cache

import numpy as np
import pytest

from cdma.golden.buddy.address_map import Target
from cdma.golden.buddy.entry import EntryCodec
from cdma.hw.buddy.payloads import AccessStatus, MetadataError, WriteKind
from cdma.hw.buddy.write.write_back import POISON, WriteBack
from cdma.hw.bus.axi import AxiResponse
from cdma.hw.bus.burst import BusError
from cdma.hw.config import BUDDY_PRESETS
from tests.golden.buddy.entries import mixed_entries
from tests.hw.buddy.address.pages import CONFIG, PLAIN, mapping_of, memory_with
from tests.lib.rtl.answers import Answers, append
from tests.lib.rtl.bench import Bench, assert_no_bubble, stalls

OKAY, SLVERR = AxiResponse.OKAY, AxiResponse.SLVERR
ALL = (1 << 128) - 1


@cache
def shared_bench(config):
    return Bench(WriteBack(config))


class Scenario:
    """Writes of entries through the storer, into memories of Python."""

    def __init__(self, memory, writes, *, config=CONFIG, stall=0.0, seed=1):
        self.writes = writes
        self.device = memory.device.copy()
        self.buddy = memory.buddy.copy()
        self.gbbr = memory.map.gbbr
        self.random = random.Random(seed)
        self.metadata_written = []
        bench = self.bench = shared_bench(config)
        storer = bench.component
        where = self.where = memory.translate(np.array([write["address"] for write in writes]))
        payloads = []
        for k, write in enumerate(writes):
            kind = write.get(
                "kind", WriteKind.FULL if where.compressed[k] else WriteKind.UNCOMPRESSED
            )
            metadata, kept = memory.codec.encode(write["data"])
            data = write["data"] if kind == WriteKind.UNCOMPRESSED else kept[0]
            payloads.append(
                {
                    "write": {
                        "id": write.get("id", 0),
                        "last": write.get("last", 1),
                        "address": write["address"],
                        "kind": kind.value,
                        "status": write.get("status", AccessStatus.OK).value,
                        "mapping": mapping_of(where, k),
                    },
                    "metadata": int(metadata[0]),
                    "data": int.from_bytes(data.tobytes(), "little"),
                    "strobe": write.get("strobe", ALL),
                }
            )
        self.source = bench.source(storer.i, payloads, willing=stalls(stall, seed))
        self.result = bench.source(storer.result, [], willing=stalls(stall, seed + 1))
        self.poisoned = bench.source(storer.poisoned, [], willing=stalls(stall, seed + 2))
        coded = [k for k in range(len(writes)) if payloads[k]["write"]["kind"] >= 2]
        self.looked_up = iter(coded)
        self.errors = {"device": [], "buddy": []}
        for write in writes:
            for name, errors in self.errors.items():
                errors += write.get(f"{name}_errors", ())
        for port, answer in ((storer.lookup, self.look_up), (storer.poison, self.poison)):
            self.listen(port, answer, stall, seed + 3)
        for name, base in (("device", 0), ("buddy", self.gbbr)):
            self.listen_to_bus(name, base, stall, seed)
        bursts = [write for write in writes if write.get("last", 1)]
        self.o = bench.sink(storer.o, len(bursts), willing=stalls(stall, seed + 5))

    def listen(self, port, answer, stall, seed):
        sink = Answers(port, 0, stalls(stall, seed))
        sink.answer = answer
        self.bench.ends.append(sink)

    def listen_to_bus(self, name, base, stall, seed):
        storer, memory = self.bench.component, getattr(self, name)
        response = self.bench.source(
            getattr(storer, f"{name}_response"), [], willing=stalls(stall, seed + 6)
        )
        requests, beats = [], []

        def write_bursts():
            """Bursts whose address and data have come."""
            while requests and len(beats) > requests[0]["beats"]:
                request = requests.pop(0)
                error = BusError.NONE
                for k in range(request["beats"] + 1):
                    beat = beats.pop(0)
                    assert beat["last"] == (k == request["beats"])
                    address = request["address"] + 32 * k
                    data = np.frombuffer(beat["data"].to_bytes(32, "little"), np.uint8)
                    strobe = np.array([beat["strobe"] >> j & 1 for j in range(32)], bool)
                    start = address - base
                    memory[start : start + 32][strobe] = data[strobe]
                    for failing, kind in self.errors[name]:
                        if failing == address:
                            error = kind
                append(response, error.value)

        def take(queue):
            def answer(payload, cycle):
                queue.append(payload)
                write_bursts()

            return answer

        self.listen(getattr(storer, f"{name}_request"), take(requests), stall, seed + 7)
        self.listen(getattr(storer, f"{name}_beats"), take(beats), stall, seed + 8)

    def set_metadata(self, lookup):
        place, shift = lookup["address"], 4 * lookup["upper"]
        assert lookup["write"]
        self.metadata_written.append(lookup["metadata"])
        others = self.device[place] & (0xF0 if shift == 0 else 0x0F)
        self.device[place] = others | lookup["metadata"] << shift

    def look_up(self, lookup, cycle):
        write = self.writes[next(self.looked_up)]
        error = write.get("error", MetadataError.NONE)
        if error == MetadataError.NONE:
            self.set_metadata(lookup)
        append(self.result, {"metadata": 0, "error": error.value})

    def poison(self, lookup, cycle):
        self.set_metadata(lookup)
        append(self.poisoned, {"metadata": 0, "error": 0})

    def run(self):
        self.bench.run()
        return self

    @property
    def responses(self):
        return [(payload["id"], payload["resp"]) for payload in self.o.payloads]


def stocked():
    return memory_with(mixed_entries(44), [*Target, PLAIN])


def random_writes(addresses, count, seed):
    draw = random.Random(seed)
    data = mixed_entries(count, seed)
    return [
        {
            "address": draw.choice(addresses),
            "data": data[k],
            "id": draw.randrange(16),
            "last": int(draw.random() < 0.6 or k == count - 1),
        }
        for k in range(count)
    ]


@pytest.mark.parametrize("stall", [0.0, 0.4])
def test_entries_are_where_the_golden_model_has_them(stall):
    memory, addresses = stocked()
    writes = random_writes(addresses, 160, seed=2)
    scene = Scenario(memory, writes, stall=stall).run()
    for write in writes:
        memory.write(write["address"], write["data"])
    np.testing.assert_array_equal(scene.device, memory.device)
    np.testing.assert_array_equal(scene.buddy, memory.buddy)
    assert scene.responses == [(write["id"], OKAY) for write in writes if write["last"]]


def test_only_bytes_that_are_named_change_where_nothing_is_compressed():
    memory, addresses = stocked()
    plain = addresses[-10:]
    draw = random.Random(3)
    writes = random_writes(plain, 40, seed=3)
    for write in writes:
        first = draw.randrange(128)
        end = draw.randrange(first, 129)
        write["strobe"] = sum(1 << j for j in range(first, end))
        memory.write(write["address"] + first, write["data"][first:end])
    scene = Scenario(memory_with(mixed_entries(44), [*Target, PLAIN])[0], writes).run()
    np.testing.assert_array_equal(scene.device, memory.device)


def coded_write(memory, addresses, target, sectors):
    """A write to a page of this target, of incompressible or compressible data."""
    address = next(a for a in addresses if memory.translate(np.array([a])).target[0] == target)
    data = np.random.default_rng(1).integers(0, 256, 128).astype(np.uint8)
    return {"address": address, "data": data if sectors == 4 else np.zeros(128, np.uint8)}


@pytest.mark.parametrize("port", ["device", "buddy"])
@pytest.mark.parametrize("kind", [BusError.SLVERR, BusError.DECERR, BusError.TIMEOUT])
def test_entry_that_is_not_all_there_is_poisoned(port, kind):
    memory, addresses = stocked()
    bad = coded_write(memory, addresses, Target.X2, 4)
    where = memory.translate(np.array([bad["address"]]))
    address = int((where.device_address if port == "device" else where.buddy_address)[0])
    bad[f"{port}_errors"] = ((address + 32, kind),)
    good = random_writes(addresses[10:20], 3, seed=4)
    for write in good:
        write["last"] = 1
    scene = Scenario(memory, [*good[:1], bad, *good[1:]]).run()
    assert [response for _, response in scene.responses] == [OKAY, SLVERR, OKAY, OKAY]
    byte = scene.device[where.metadata_address[0]] >> where.metadata_shift[0] & 0xF
    assert byte == POISON
    restored = EntryCodec().decode(np.array([POISON], np.uint8), np.zeros((1, 128), np.uint8))
    assert restored.status[0] != 0


@pytest.mark.parametrize(
    "error", [MetadataError.UNCORRECTABLE, MetadataError.READ, MetadataError.TIMEOUT]
)
def test_nothing_is_written_whose_metadata_are_not(error):
    memory, addresses = stocked()
    bad = {**coded_write(memory, addresses, Target.X2, 4), "error": error}
    scene = Scenario(memory, [bad]).run()
    assert scene.responses == [(0, SLVERR)]
    np.testing.assert_array_equal(scene.device, memory.device)
    np.testing.assert_array_equal(scene.buddy, memory.buddy)


def test_burst_fails_if_one_of_its_entries_does():
    memory, addresses = stocked()
    writes = random_writes(addresses, 9, seed=5)
    for k, write in enumerate(writes):
        write["last"] = int(k % 3 == 2)
    writes[3]["status"] = AccessStatus.OUT_OF_REGION
    writes[3]["kind"] = WriteKind.FAILED
    scene = Scenario(memory, writes).run()
    assert [response for _, response in scene.responses] == [OKAY, SLVERR, OKAY]
    for k, write in enumerate(writes):
        if k != 3:
            memory.write(write["address"], write["data"])
    np.testing.assert_array_equal(scene.device, memory.device)
    np.testing.assert_array_equal(scene.buddy, memory.buddy)


def test_entry_of_one_sector_per_cycle():
    memory, addresses = stocked()
    writes = [
        {"address": addresses[k % 30], "data": np.arange(k, k + 32, dtype=np.uint32).view(np.uint8)}
        for k in range(40)
    ]
    scene = Scenario(memory, writes, config=BUDDY_PRESETS["channel"]).run()
    assert_no_bubble(scene.source.cycles[8:])
