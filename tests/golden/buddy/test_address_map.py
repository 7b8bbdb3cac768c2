"""The address map: where the parts of entries lie, and what it refuses."""

import numpy as np
import pytest

from cdma.golden.buddy.address_map import (
    BUDDY_SLOT_BYTES,
    DEVICE_SLOT_BYTES,
    AddressMap,
    BuddyError,
    MapStatus,
    PageFields,
    Target,
    spills,
    split_sectors,
)
from cdma.golden.buddy.entry import SECTORS, SIZES

PAGE = 8192
GBBR = 0x40_0000_0000
METADATA = [0, 1, 2, 3, 4, 5, 6, 7, *range(9, 15)]


def address_map(**changes):
    sizes = {
        "device_bytes": 1 << 20,
        "logical_bytes": 2 << 20,
        "carve_out_bytes": 3 << 20,
        "gbbr": GBBR,
        "page_bytes": PAGE,
    }
    return AddressMap(**{**sizes, **changes})


def packed(target, buddy_page=0, compressed=True):
    return PageFields(compressed=compressed, target=target, buddy_page=buddy_page).pack()


def slow_sectors(target, metadata, device_slot, buddy_slot):
    """Sectors of one entry: one byte after the other to where it is."""
    size = SIZES[metadata % 8]
    used = SECTORS[metadata % 8] * 32
    device, buddy = [], []
    for byte in range(used):
        if target == Target.X16:
            in_device, place = size <= 8, byte
        else:
            in_device = byte < DEVICE_SLOT_BYTES[target]
            place = byte if in_device else byte - DEVICE_SLOT_BYTES[target]
        sectors, start = (device, device_slot) if in_device else (buddy, buddy_slot)
        address = (start // 32 * 32) + place // 32 * 32
        if address not in sectors:
            sectors.append(address)
    return device, buddy


def test_slots():
    assert [target.ratio for target in Target] == [1, pytest.approx(4 / 3), 2, 4, 16]
    assert DEVICE_SLOT_BYTES == (128, 96, 64, 32, 8)
    # With 16x, an entry that is more than 8 B is all in buddy memory.
    assert BUDDY_SLOT_BYTES == (0, 32, 64, 96, 128)


@pytest.mark.parametrize(
    ("fields", "bits"),
    [
        (PageFields(compressed=False), 0x000000),
        (PageFields(compressed=True), 0x800000),
        (PageFields(compressed=True, target=Target.X16, buddy_page=0xFFFFF), 0xCFFFFF),
        (PageFields(compressed=True, target=Target.X1_33, buddy_page=1), 0x900001),
        (PageFields(compressed=False, target=7, buddy_page=2), 0x700002),
    ],
)
def test_page_fields_are_24_bits(fields, bits):
    assert fields.pack() == bits
    assert PageFields.unpack(bits) == fields


@pytest.mark.parametrize(
    "wrong", [{"target": 8}, {"target": -1}, {"buddy_page": -1}, {"buddy_page": 1 << 20}]
)
def test_page_fields_that_have_no_room(wrong):
    with pytest.raises(ValueError, match=f"must be of .* bits, not {next(iter(wrong.values()))}"):
        PageFields(compressed=True, **wrong)


@pytest.mark.parametrize("target", Target)
@pytest.mark.parametrize("metadata", METADATA)
def test_sectors_of_device_and_buddy_memory(target, metadata):
    device, buddy = slow_sectors(target, metadata, 0, 0)
    found = split_sectors(target, np.array([metadata]))
    assert (found[0].tolist(), found[1].tolist()) == ([len(device)], [len(buddy)])
    assert spills(target, np.array([metadata])).tolist() == [bool(buddy)]


@pytest.mark.parametrize(
    ("target", "classes"),
    [("X1", 8), ("X1_33", 7), ("X2", 5), ("X4", 4), ("X16", 2)],
)
def test_classes_that_stay_in_device_memory(target, classes):
    spilled = spills(Target[target], np.arange(8))
    assert spilled.tolist() == [number >= classes for number in range(8)]


def test_translation_of_random_addresses():
    generator = np.random.default_rng(0)
    layout = address_map()
    count = 3000
    pages = generator.integers(0, layout.logical_bytes // PAGE, count)
    offsets = generator.integers(0, PAGE, count)
    targets = generator.integers(0, 5, count)
    buddy_pages = generator.integers(0, (3 << 20) // (PAGE // 4) - 3, count)
    frames = generator.integers(0, layout.metadata_base // (PAGE // 16) - 15, count)
    fields = np.array([packed(*pair) for pair in zip(targets, buddy_pages, strict=True)])
    found = layout.translate(pages * PAGE + offsets, fields, frames)
    metadata = generator.choice(METADATA, count)
    device_sectors = found.device_sectors(metadata)
    buddy_sectors = found.buddy_sectors(metadata)
    assert not found.status.any()
    assert found.compressed.all()
    assert found.target.tolist() == targets.tolist()
    for index in range(count):
        target, entry = targets[index], offsets[index] // 128
        device = frames[index] * (PAGE // 16) + entry * DEVICE_SLOT_BYTES[target]
        buddy = GBBR + buddy_pages[index] * (PAGE // 4) + entry * BUDDY_SLOT_BYTES[target]
        assert found.device_address[index] == device
        assert found.buddy_address[index] == buddy
        number = pages[index] * (PAGE // 128) + entry
        assert found.metadata_address[index] == layout.metadata_base + number // 2
        assert found.metadata_shift[index] == number % 2 * 4
        for row, expected in zip(
            (device_sectors[index], buddy_sectors[index]),
            slow_sectors(target, metadata[index], device, buddy),
            strict=True,
        ):
            assert row.tolist() == expected + [-1] * (4 - len(expected))


def test_page_that_is_not_compressed():
    """Whatever its target and buddy page say, and whatever metadata there may be."""
    found = address_map().translate([PAGE + 300], packed(7, 0xFFFFF, compressed=False), 32)
    assert found.status.tolist() == [MapStatus.OK]
    assert found.compressed.tolist() == [False]
    sectors = found.device_sectors(np.array([1]))
    assert sectors.tolist() == [[2 * PAGE + 256 + 32 * number for number in range(4)]]
    assert found.buddy_sectors(np.array([1])).tolist() == [[-1] * 4]


@pytest.mark.parametrize("page_bytes", [8192, 65536])
def test_no_two_entries_share_a_sector(page_bytes):
    """All targets side by side, every entry as large as can be; but for 16x in device memory."""
    layout = address_map(page_bytes=page_bytes)
    frame = buddy_page = 0
    device, buddy, metadata = [], [], []
    for page, target in enumerate([*Target, *reversed(Target), *Target]):
        addresses = page * page_bytes + np.arange(0, page_bytes, 128)
        found = layout.translate(addresses, packed(target, buddy_page), frame)
        assert not found.status.any()
        sizes = np.full(addresses.size, 7)
        if target != Target.X16:
            device.append(found.device_sectors(sizes))
        else:
            small = found.device_sectors(np.ones_like(sizes))
            assert small[::4, 0].tolist() == small[3::4, 0].tolist()
            device.append(small[::4])
        buddy.append(found.buddy_sectors(sizes))
        metadata.append(found.metadata_address * 8 + found.metadata_shift)
        frame += page_bytes * DEVICE_SLOT_BYTES[target] // 128 // layout.frame_bytes
        buddy_page += page_bytes * BUDDY_SLOT_BYTES[target] // 128 // layout.buddy_unit_bytes
    for sectors in (device, buddy, metadata):
        used = np.concatenate([rows.reshape(-1) for rows in sectors])
        used = used[used >= 0]
        assert np.unique(used).size == used.size
    used = np.concatenate([rows.reshape(-1) for rows in device])
    # Nothing is left out between pages either.
    assert (np.sort(used[used >= 0]) == np.arange(frame * layout.frame_bytes // 32) * 32).all()
    used = np.concatenate([rows.reshape(-1) for rows in buddy])
    units = buddy_page * layout.buddy_unit_bytes
    assert (np.sort(used[used >= 0]) == GBBR + np.arange(units // 32) * 32).all()


def test_metadata_is_4_bits_per_entry():
    layout = address_map()
    assert layout.metadata_bytes / layout.logical_bytes == 4 / (128 * 8)
    addresses = np.arange(0, layout.logical_bytes, 128)
    # A target that takes no device memory to speak of, as the pages are all in one place.
    found = layout.translate(addresses, packed(Target.X16), 0)
    assert found.metadata_address.max() == layout.device_bytes - 1
    sectors = found.metadata_address // 32
    # A sector is 64 entries: a page of 8 KiB (§3.2).
    assert sectors.tolist() == np.repeat(np.unique(sectors), 64).tolist()


def test_carve_out_of_three_times_the_device_memory_is_enough_for_4x():
    device_pages = 1 << 18
    layout = AddressMap(
        device_bytes=device_pages + (1 << 20) // 256,
        logical_bytes=1 << 20,
        carve_out_bytes=3 * device_pages,
        page_bytes=PAGE,
    )
    last = layout.logical_bytes // PAGE - 1
    found = layout.translate(
        [layout.logical_bytes - 1], packed(Target.X4, 3 * last), last * (PAGE // 4) // (PAGE // 16)
    )
    assert found.status.tolist() == [MapStatus.OK]
    assert found.buddy_address.tolist() == [3 * device_pages - 96]
    assert found.device_address.tolist() == [device_pages - 32]


@pytest.mark.parametrize(
    ("address", "fields", "frame", "status"),
    [
        (0, packed(Target.X2), 0, "OK"),
        (-1, packed(Target.X2), 0, "OUT_OF_REGION"),
        ((2 << 20) - 1, packed(Target.X2), 0, "OK"),
        (2 << 20, packed(Target.X2), 0, "OUT_OF_REGION"),
        (0, packed(5), 0, "BAD_TARGET"),
        (0, packed(6), 0, "BAD_TARGET"),
        (0, packed(7), 0, "BAD_TARGET"),
        (2 << 20, packed(7), 0, "OUT_OF_REGION"),
        # The last frames before the metadata, which start at frame 2032.
        (PAGE - 1, packed(Target.X1), 2016, "OK"),
        (PAGE - 1, packed(Target.X1), 2017, "OUT_OF_REGION"),
        (PAGE - 1, packed(0, compressed=False), 2017, "OUT_OF_REGION"),
        (0, packed(Target.X1), 2017, "OK"),
        (PAGE - 1, packed(Target.X16), 2031, "OK"),
        (0, packed(Target.X16), 2032, "OUT_OF_REGION"),
        # The last buddy pages of the carve-out, of 1536 quarters.
        (PAGE - 1, packed(Target.X1_33, 1535), 0, "OK"),
        (PAGE - 1, packed(Target.X1_33, 1536), 0, "CARVE_OUT_OVERFLOW"),
        (PAGE - 1, packed(Target.X16, 1532), 0, "OK"),
        (PAGE - 1, packed(Target.X16, 1533), 0, "CARVE_OUT_OVERFLOW"),
        (0, packed(Target.X16, 1533), 0, "OK"),
        # Of 4,096 bytes, entry 42 would have the last 64 of its 96.
        (41 * 128, packed(Target.X4, 1534), 0, "OK"),
        (42 * 128, packed(Target.X4, 1534), 0, "CARVE_OUT_OVERFLOW"),
        (PAGE - 1, packed(Target.X1, 0xFFFFF), 0, "OK"),
        (PAGE - 1, packed(Target.X2, 0xFFFFF), 2032, "OUT_OF_REGION"),
    ],
)
def test_what_the_map_refuses(address, fields, frame, status):
    found = address_map().translate([address], fields, frame)
    assert found.status.tolist() == [MapStatus[status]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"page_bytes": 4096}, "page_bytes must be a power of two of at least 8192, not 4096"),
        ({"page_bytes": 12288}, "page_bytes must be a power of two of at least 8192, not 12288"),
        ({"logical_bytes": PAGE + 128}, "logical_bytes must be whole pages, not 8320"),
        ({"logical_bytes": 0}, "logical_bytes must be whole pages, not 0"),
        ({"gbbr": 16}, "gbbr must be a multiple of 32, not 16"),
        ({"carve_out_bytes": -32}, "carve_out_bytes must be a multiple of 32, not -32"),
        ({"device_bytes": 100}, "device_bytes must be a multiple of 32, not 100"),
        ({"device_bytes": 4096}, "device_bytes must be at least the 8192 of the metadata"),
    ],
)
def test_maps_that_there_are_not(changes, message):
    with pytest.raises(ValueError, match=message):
        address_map(**changes)


def test_error_tells_what_and_where():
    error = BuddyError(MapStatus.CARVE_OUT_OVERFLOW, 0x1280)
    assert str(error) == "carve out overflow at logical address 0x1280"
    assert (error.status, error.address) == (MapStatus.CARVE_OUT_OVERFLOW, 0x1280)
