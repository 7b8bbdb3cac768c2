"""Compressed memory against a plain array: spills, growth, partial entries, refusals."""

import numpy as np
import pytest

from cdma.golden import StreamError, StreamStatus
from cdma.golden.buddy.address_map import (
    BUDDY_SLOT_BYTES,
    DEVICE_SLOT_BYTES,
    AddressMap,
    BuddyError,
    MapStatus,
    PageFields,
    Target,
)
from cdma.golden.buddy.entry import MODES, SECTORS, EntryCodec
from cdma.golden.buddy.memory import BuddyMemory, SectorCounts
from tests.golden.buddy.entries import KINDS, all_planes_raw, entries_of, mixed_entries

PAGE = 8192


def memory(mode="best-of", **changes):
    sizes = {
        "device_bytes": 1 << 18,
        "logical_bytes": 1 << 19,
        "carve_out_bytes": 3 << 18,
        "gbbr": 1 << 32,
        "page_bytes": PAGE,
    }
    return BuddyMemory(AddressMap(**{**sizes, **changes}), EntryCodec(mode))


def entry_of_class(number):
    """uint8 (128,): an entry of that class in either mode."""
    entries = mixed_entries(4000)
    classes = EntryCodec("bpc").metadata(entries)
    best = EntryCodec("best-of").metadata(entries)
    return entries[np.flatnonzero((classes == number) & (best == number))[0]]


@pytest.fixture(scope="module")
def entry_of():
    return [entry_of_class(number) for number in range(8)]


def test_memory_that_was_never_written_is_zeros():
    ours = memory()
    address = ours.allocate(3 * PAGE, Target.X4)
    assert not ours.read(address, 3 * PAGE).any()
    assert ours.traffic == SectorCounts()


def test_allocations_follow_one_another():
    ours = memory()
    addresses = [ours.allocate(nbytes, target) for nbytes, target in ((1, 0), (PAGE + 1, 3))]
    addresses.append(ours.allocate(PAGE, Target.X16))
    assert addresses == [0, PAGE, 3 * PAGE]
    pages = [(PageFields.unpack(bits), frame) for bits, frame in map(ours.page_entry, range(4))]
    assert pages == [
        (PageFields(compressed=True), 0),
        (PageFields(compressed=True, target=3, buddy_page=0), 16),
        (PageFields(compressed=True, target=3, buddy_page=3), 20),
        (PageFields(compressed=True, target=4, buddy_page=6), 24),
    ]


@pytest.mark.parametrize("mode", MODES)
def test_random_reads_and_writes(mode):
    generator = np.random.default_rng(0)
    ours = memory(mode)
    plain = np.zeros(0, np.uint8)
    for target in Target:
        ours.allocate(2 * PAGE, target)
        plain = np.append(plain, np.zeros(2 * PAGE, np.uint8))
    ours.allocate(PAGE, Target.X1, compressed=False)
    plain = np.append(plain, np.zeros(PAGE, np.uint8))
    for _ in range(400):
        address = int(generator.integers(0, plain.size))
        limit = int(generator.choice([1, 4, 40, 128, 400, 3000]))
        nbytes = min(int(generator.integers(0, limit + 1)), plain.size - address)
        if generator.random() < 0.6:
            kind = KINDS[generator.integers(len(KINDS))]
            data = entries_of(kind, 24, int(generator.integers(1 << 30))).reshape(-1)[:nbytes]
            ours.write(address, data)
            plain[address : address + nbytes] = data
        else:
            found = ours.read(address, nbytes)
            assert found.tobytes() == plain[address : address + nbytes].tobytes()
    assert ours.read(0, plain.size).tobytes() == plain.tobytes()
    entries = plain[: 10 * PAGE]
    expected = EntryCodec(mode).metadata(entries)
    assert ours.metadata(np.arange(0, entries.size, 128)).tolist() == expected.tolist()
    # All of what should be in buddy memory is: without it, nothing is right.
    assert ours.traffic.buddy_written > 0


@pytest.mark.parametrize("target", Target)
def test_entries_grow_and_shrink_in_place(target, entry_of):
    """An entry may change from every class to every class; only its slots and metadata change."""
    ours = memory()
    address = ours.allocate(PAGE, target)
    generator = np.random.default_rng(1)
    ours.device[:] = generator.integers(0, 256, ours.device.size)
    ours.buddy[:] = generator.integers(0, 256, ours.buddy.size)
    ours.write(address, np.zeros(PAGE, np.uint8))
    ours.write(address, mixed_entries(PAGE // 128)[: PAGE // 128])
    others = ours.read(address, PAGE).copy()
    entry = 21
    device_slot = entry * DEVICE_SLOT_BYTES[target] + np.arange(DEVICE_SLOT_BYTES[target])
    buddy_slot = entry * BUDDY_SLOT_BYTES[target] + np.arange(BUDDY_SLOT_BYTES[target])
    metadata = ours.map.metadata_base + entry // 2
    for before in range(8):
        for after in range(8):
            ours.write(address + 128 * entry, entry_of[before])
            device, buddy = ours.device.copy(), ours.buddy.copy()
            ours.write(address + 128 * entry, entry_of[after])
            device[device_slot], buddy[buddy_slot] = (
                ours.device[device_slot],
                ours.buddy[buddy_slot],
            )
            device[metadata] = device[metadata] & 0x0F | after << 4
            assert device.tobytes() == ours.device.tobytes()
            assert buddy.tobytes() == ours.buddy.tobytes()
            others[128 * entry : 128 * (entry + 1)] = entry_of[after]
            assert ours.read(address, PAGE).tobytes() == others.tobytes()


@pytest.mark.parametrize(
    ("target", "device", "buddy"),
    [
        ("X1", (0, 1, 1, 1, 2, 3, 3, 4), (0, 0, 0, 0, 0, 0, 0, 0)),
        ("X1_33", (0, 1, 1, 1, 2, 3, 3, 3), (0, 0, 0, 0, 0, 0, 0, 1)),
        ("X2", (0, 1, 1, 1, 2, 2, 2, 2), (0, 0, 0, 0, 0, 1, 1, 2)),
        ("X4", (0, 1, 1, 1, 1, 1, 1, 1), (0, 0, 0, 0, 1, 2, 2, 3)),
        ("X16", (0, 1, 0, 0, 0, 0, 0, 0), (0, 0, 1, 1, 2, 3, 3, 4)),
    ],
)
def test_sectors_that_move(target, device, buddy, entry_of):
    for number in range(8):
        ours = memory()
        address = ours.allocate(PAGE, Target[target])
        ours.write(address + 256, entry_of[number])
        moved = {"device_written": device[number], "buddy_written": buddy[number]}
        assert ours.traffic == SectorCounts(**moved)
        assert device[number] + buddy[number] == SECTORS[number]
        # A byte takes all of the entry's sectors.
        ours.read(address + 300, 1)
        moved |= {"device_read": device[number], "buddy_read": buddy[number]}
        assert ours.traffic == SectorCounts(**moved)


def test_partial_write_reads_the_entry_first(entry_of):
    ours = memory()
    address = ours.allocate(PAGE, Target.X2)
    ours.write(address, entry_of[7])
    ours.write(address + 128, entry_of[0])
    ours.traffic = SectorCounts()
    # The end of one entry, and the start of another that is nothing yet.
    ours.write(address + 127, np.array([1, 2], np.uint8))
    assert (ours.traffic.device_read, ours.traffic.buddy_read) == (2, 2)
    assert ours.read(address + 126, 4).tolist() == [entry_of[7][126], 1, 2, 0]
    # A whole entry is not read.
    ours.traffic = SectorCounts()
    ours.write(address, entry_of[7])
    assert (ours.traffic.device_read, ours.traffic.buddy_read) == (0, 0)


def test_page_that_is_not_compressed_is_what_is_written():
    ours = memory()
    ours.allocate(PAGE, Target.X2)
    address = ours.allocate(PAGE, Target.X4, compressed=False)
    data = np.arange(1, 200, dtype=np.uint8)
    ours.write(address + 30, data)
    start = PAGE // 2 + 30
    assert ours.device[start : start + data.size].tolist() == data.tolist()
    # Bytes 30 to 228: sectors 0 to 7.
    assert ours.traffic == SectorCounts(device_written=8)
    assert ours.read(address + 31, 2).tolist() == [2, 3]
    assert ours.traffic == SectorCounts(device_written=8, device_read=2)
    assert ours.metadata(np.array([address])).tolist() == [7]
    assert np.count_nonzero(ours.device) == data.size


def test_nothing_to_read_or_write():
    ours = memory()
    address = ours.allocate(PAGE, Target.X2)
    ours.write(address + 5, np.empty(0, np.uint8))
    assert ours.read(address + 5, 0).size == 0
    assert ours.traffic == SectorCounts()


def test_any_array_is_written_as_its_bytes():
    ours = memory()
    address = ours.allocate(PAGE, Target.X2)
    array = np.linspace(-1, 1, 90, dtype=np.float32).reshape(9, 10).T
    ours.write(address + 12, array)
    assert ours.read(address + 12, array.nbytes).tobytes() == array.tobytes()


def test_access_beyond_what_is_mapped_changes_nothing():
    ours = memory()
    address = ours.allocate(PAGE, Target.X2)
    ours.write(address, mixed_entries(64)[:64])
    device, buddy = ours.device.copy(), ours.buddy.copy()
    for access in (
        lambda: ours.write(PAGE - 200, np.ones(201, np.uint8)),
        lambda: ours.read(PAGE - 1, 2),
    ):
        with pytest.raises(BuddyError) as caught:
            access()
        assert (caught.value.status, caught.value.address) == (MapStatus.OUT_OF_REGION, PAGE)
    with pytest.raises(BuddyError) as caught:
        ours.read((1 << 19) + 5, 1)
    assert (caught.value.status, caught.value.address) == (MapStatus.OUT_OF_REGION, 1 << 19)
    with pytest.raises(BuddyError):
        ours.read(-1, 1)
    assert ours.device.tobytes() == device.tobytes()
    assert ours.buddy.tobytes() == buddy.tobytes()


@pytest.mark.parametrize(
    ("fields", "frame", "status"),
    [
        (PageFields(compressed=True, target=5), 0, "BAD_TARGET"),
        (PageFields(compressed=True, target=0), 1 << 20, "OUT_OF_REGION"),
        (PageFields(compressed=True, target=2, buddy_page=0xFFFFF), 0, "CARVE_OUT_OVERFLOW"),
    ],
)
def test_page_table_entries_that_are_wrong(fields, frame, status):
    ours = memory()
    ours.map_page(3, fields, frame)
    for access in (lambda: ours.read(3 * PAGE, 1), lambda: ours.write(3 * PAGE, np.ones(1))):
        with pytest.raises(BuddyError) as caught:
            access()
        assert (caught.value.status, caught.value.address) == (MapStatus[status], 3 * PAGE)


@pytest.mark.parametrize(
    ("nbytes", "target", "changes", "status"),
    [
        # Device memory is 31.75 pages and the metadata.
        (31 * PAGE, Target.X1, {}, None),
        (32 * PAGE, Target.X1, {}, "OUT_OF_REGION"),
        (63 * PAGE, Target.X2, {}, None),
        (64 * PAGE, Target.X2, {}, "OUT_OF_REGION"),
        (64 * PAGE, Target.X16, {}, None),
        (65 * PAGE, Target.X16, {}, "OUT_OF_REGION"),
        (4 * PAGE, Target.X4, {"carve_out_bytes": 3 * PAGE}, None),
        (5 * PAGE, Target.X4, {"carve_out_bytes": 3 * PAGE}, "CARVE_OUT_OVERFLOW"),
        (4 * PAGE, Target.X16, {"carve_out_bytes": 3 * PAGE}, "CARVE_OUT_OVERFLOW"),
        (9 * PAGE, Target.X1, {"carve_out_bytes": 0}, None),
    ],
)
def test_memory_that_is_used_up(nbytes, target, changes, status):
    ours = memory(**changes)
    if status is None:
        address = ours.allocate(nbytes, target)
        ours.write(address + nbytes - 128, all_planes_raw())
        assert ours.read(address + nbytes - 128, 128).tobytes() == all_planes_raw().tobytes()
        return
    with pytest.raises(BuddyError) as caught:
        ours.allocate(nbytes, target)
    assert caught.value.status == MapStatus[status]
    # Nothing is mapped, and what is left can still be had.
    with pytest.raises(BuddyError):
        ours.read(0, 1)
    assert ours.allocate(PAGE, Target.X1) == 0


def test_damage_is_told_and_not_given_out(entry_of):
    ours = memory()
    address = ours.allocate(PAGE, Target.X2)
    for number in range(8):
        ours.write(address + 128 * number, entry_of[number])
    # Entry 3 says that it is of ZVC and as it is: there is no such thing.
    ours.device[ours.map.metadata_base + 1] |= 0xF0
    for access in (
        lambda: ours.read(address + 200, 400),
        lambda: ours.write(address + 200, np.ones(185, np.uint8)),
    ):
        with pytest.raises(StreamError) as caught:
            access()
        assert (caught.value.status, caught.value.offset) == (StreamStatus.BAD_TOKEN, 0)
        assert caught.value.valid_bytes == 384 - 200
    assert ours.read(address + 200, 184).tobytes() == np.concatenate(entry_of)[200:384].tobytes()
    # Writing all of it mends it.
    ours.write(address + 384, entry_of[3])
    assert ours.read(address, 1024).tobytes() == np.concatenate(entry_of).tobytes()


def test_large_accesses():
    """More entries than are worked on at once."""
    ours = memory(device_bytes=1 << 20, logical_bytes=1 << 20, carve_out_bytes=1 << 20)
    address = ours.allocate(700_000, Target.X2)
    data = mixed_entries(5600).reshape(-1)[:700_000]
    ours.write(address, data)
    assert ours.read(address, data.size).tobytes() == data.tobytes()


@pytest.mark.parametrize("compressed", [pytest.param(True, marks=pytest.mark.verify), False])
def test_many_entries_at_once_are_as_many_accesses(compressed):
    rng = np.random.default_rng(7)
    one, many = memory(), memory()
    for ours in (one, many):
        ours.allocate(4 * PAGE, Target.X2, compressed=compressed)
    data = mixed_entries(6000)
    for _ in range(5):
        addresses = rng.permutation(4 * PAGE // 128)[:100] * 128
        rows = data[rng.integers(0, len(data), 100)]
        first, last = np.sort(rng.integers(0, 129, (2, 100)), axis=0)
        last = np.maximum(last, first + (first < 128))
        first = np.minimum(first, last - 1)
        covered = (np.arange(128) >= first[:, None]) & (np.arange(128) < last[:, None])
        for i, address in enumerate(addresses):
            one.write(address + first[i], rows[i, covered[i]])
        many.write_entries(addresses, rows, covered)
        np.testing.assert_array_equal(many.device, one.device)
        np.testing.assert_array_equal(many.buddy, one.buddy)
        for i, row in enumerate(many.read_entries(addresses, covered)):
            np.testing.assert_array_equal(
                row[covered[i]], one.read(addresses[i] + first[i], int(last[i] - first[i]))
            )
        assert many.traffic == one.traffic
    np.testing.assert_array_equal(many.read_entries(addresses), one.read_entries(addresses))
