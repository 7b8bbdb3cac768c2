"""Entries of XC: form, limit, choice, and what is refused."""

import numpy as np
import pytest

from cdma.golden import StreamStatus
from cdma.golden.buddy.address_map import AddressMap, PageFields, Target
from cdma.golden.buddy.entry import BEST_OF_THREE, MODES, EntryCodec
from cdma.golden.buddy.memory import BuddyMemory
from cdma.golden.buddy.xc_entry import encode, fits
from tests.golden.buddy.entries import mixed_entries
from tests.golden.buddy.xc_entries import (
    CENTRE,
    ODD,
    PATTERN,
    bf16_entries,
    entry_of,
    slow_entry,
    slow_restore,
    xc,
)

PARAMETERS = [(126, 1), (127, 0), (125, 2), (124, 3), (1, 0), (255, 3)]
THREE = EntryCodec("best-of-three", 2)


def restore(metadata, row, parameters):
    """Status, offset and data of one entry."""
    kept = np.zeros((1, 128), np.uint8)
    kept[0, : len(row)] = np.frombuffer(row, np.uint8)
    found = THREE.decode(np.array([metadata], np.uint8), kept, parameters)
    return StreamStatus(int(found.status[0])), int(found.offset[0]), found.data[0].tobytes()


@pytest.mark.parametrize(("centre", "pattern"), PARAMETERS)
def test_entries_are_what_the_page_says(centre, pattern):
    entries = np.concatenate([bf16_entries(200), mixed_entries(60)])
    parameters = np.full(len(entries), xc(centre, pattern))
    expected = [slow_entry(entry.tobytes(), centre, pattern) for entry in entries]
    found = fits(entries, parameters)
    assert found.tolist() == [row is not None for row in expected]
    kept = encode(entries[found], parameters[found])
    assert [row[:96].tobytes() for row in kept] == [row for row in expected if row is not None]
    assert not kept[:, 96:].any()


def test_parameters_fit_what_they_are_for():
    entries = bf16_entries(400, spread=0.3)
    share = fits(entries, np.full(400, xc())).mean()
    assert share > 0.7 > fits(entries, np.full(400, xc(60, 0))).mean()


def test_examples_of_the_page():
    dense = entry_of([0xBF80])
    metadata, kept = THREE.encode(np.concatenate([dense, entry_of([0, 0xBF80])]), xc(127, 0))
    # BPC is better for these; XC's form is there all the same.
    assert (metadata % 8 < 6).all()
    rows = encode(np.concatenate([dense, entry_of([0, 0xBF80])]), np.full(2, xc(127, 0)))
    assert rows[0].tobytes() == bytes(16) + b"\x80" * 64 + bytes(48)
    sparse = b"\xfe" + b"\xff" * 7 + bytes(16) + b"\x80" * 63 + bytes(8) + b"\x80" + bytes(32)
    assert rows[1].tobytes() == sparse
    assert kept.shape == (2, 128)


def of_extras(bits, escapes=0):
    """A dense entry with so many bits of extras: escapes, classes of 4, one of 2, then of 0."""
    generator = np.random.default_rng(3)
    exponents = [CENTRE - 100] * escapes
    exponents += [CENTRE - 4] * ((bits - 4 * escapes) // 4)
    exponents += [CENTRE - 2] * (bits % 4 // 2)
    exponents += [CENTRE] * (64 - len(exponents))
    rest = generator.integers(0, 256, 64)
    words = (rest & 128) << 8 | np.array(exponents) << 7 | rest & 127
    return entry_of(generator.permutation(words).tolist())


@pytest.mark.parametrize(
    ("entry", "fitting"),
    [
        (of_extras(0), True),
        (of_extras(120), True),
        (of_extras(126), True),
        (of_extras(128), False),
        # Escapes have 4 bits of extras and a byte each, behind all extras.
        (of_extras(112, 1), True),
        (of_extras(114, 1), False),
        (of_extras(40, 10), True),
        (of_extras(42, 10), False),
        (of_extras(44, 11), False),
        (bf16_entries(1) * 0, False),
    ],
)
def test_limit_of_767_bits(entry, fitting):
    assert fits(entry, np.array([xc()])).tolist() == [fitting]
    without = EntryCodec("best-of", 2).metadata(entry)
    metadata = THREE.metadata(entry, xc())
    assert metadata.tolist() == [8 if fitting and without == 7 else without]
    if fitting:
        row = encode(entry, np.array([xc()]))[0, :96].tobytes()
        assert row == slow_entry(entry.tobytes(), CENTRE, PATTERN)
        assert restore(8, row, xc()) == (StreamStatus.OK, 0, entry.tobytes())


def test_entry_of_odd_values():
    generator = np.random.default_rng(1)
    words = CENTRE << 7 | generator.integers(0, 128, 64) | generator.integers(0, 2, 64) << 15
    words[[3, 17, 18, 40, 41, 52, 60, 63]] = ODD
    entry = entry_of(words.tolist())
    metadata, kept = THREE.encode(entry, xc())
    assert metadata.tolist() == [8]
    assert kept[0, 84:92].tobytes() == (ODD >> 7).astype(np.uint8).tobytes()
    assert restore(8, kept[0].tobytes(), xc()) == (StreamStatus.OK, 0, entry.tobytes())


def test_choice_is_xc_only_where_the_others_keep_the_entry_as_it_is():
    entries = np.concatenate([bf16_entries(600), mixed_entries(300)])
    two = EntryCodec("best-of", 2).metadata(entries)
    three = THREE.metadata(entries, xc())
    of_xc = (two == 7) & fits(entries, np.full(len(entries), xc()))
    assert three.tolist() == np.where(of_xc, 8, two).tolist()
    assert 100 < of_xc.sum() < (fits(entries, np.full(len(entries), xc()))).sum()
    assert THREE.classes(three, xc()).tolist() == np.where(of_xc, 6, two % 8).tolist()


@pytest.mark.parametrize("mode", MODES)
def test_pages_without_xc_are_as_ever(mode):
    entries = bf16_entries(300)
    codec = EntryCodec(mode, 2)
    plain = EntryCodec("bpc" if mode == "bpc" else "best-of", 2).encode(entries)
    # Without a centre; or with, where the mode has no XC.
    for parameters in (0, 3 << 8, *([xc()] if mode != BEST_OF_THREE else [])):
        metadata, kept = codec.encode(entries, parameters)
        assert (metadata == plain[0]).all()
        assert (kept == plain[1]).all()
        found = codec.decode(np.array([8], np.uint8), kept[:1], parameters)
        assert (found.status.tolist(), found.offset.tolist()) == ([StreamStatus.BAD_TOKEN], [0])
        assert codec.classes(np.array([8, 15, 9], np.uint8), parameters).tolist() == [0, 7, 1]


def test_entries_of_many_pages():
    entries = bf16_entries(900, spread=2.0)
    generator = np.random.default_rng(2)
    parameters = generator.choice([0, *(xc(*each) for each in PARAMETERS)], 900)
    metadata, kept = THREE.encode(entries, parameters)
    assert (metadata[parameters == 0] != 8).all()
    for value in np.unique(parameters):
        here = parameters == value
        alone = THREE.encode(entries[here], int(value))
        assert (metadata[here].tolist(), kept[here].tolist()) == tuple(
            map(np.ndarray.tolist, alone)
        )
    # What lies behind an entry may be anything.
    kept[metadata == 8, 96:] = 0xA5
    restored = THREE.decode(metadata, kept, parameters)
    assert not restored.status.any()
    assert restored.data.tobytes() == entries.tobytes()


def coded(**changes):
    """An entry of XC with 8 B of extras, and byte `b95` and so on replaced."""
    _, kept = THREE.encode(of_extras(64), xc())
    row = bytearray(kept[0, :96].tobytes())
    for name, value in changes.items():
        row[int(name[1:])] = value
    return bytes(row)


def sparse_row(mask, zeros=True):
    """A sparse entry of elements of class 0 under this mask."""
    kept = mask.bit_count()
    classes = bytes(-(-kept // 4))
    row = mask.to_bytes(8, "little") + classes + (b"\0" if zeros else b"\1") * kept
    return row.ljust(95, b"\0") + b"\x80"


@pytest.mark.parametrize(
    ("row", "status", "offset"),
    [
        (coded(), "OK", 0),
        (coded(b88=1), "NONZERO_FILL", 88),
        (coded(b95=0x40), "NONZERO_FILL", 95),
        (coded(b94=2, b95=1), "NONZERO_FILL", 94),
        # The fields are read from other places.
        (coded(b95=0x80), "BAD_TOKEN", 0),
        (sparse_row(0), "BAD_TOKEN", 0),
        (sparse_row(2**64 - 1), "BAD_TOKEN", 0),
        (sparse_row(2**63 - 1), "OK", 0),
        # 63 classes have two bits of padding.
        (sparse_row(2**63 - 1)[:23] + b"\x40" + sparse_row(2**63 - 1)[24:], "BAD_TOKEN", 0),
        (bytes(96), "OK", 0),
        # All of class 3: 32 B of extras.
        (b"\xff" * 16 + bytes(80), "BAD_TOKEN", 0),
        # Two escapes: the first has a code; the other has none.
        (b"\x0f" + bytes(79) + b"\xff\x7e\x02" + bytes(13), "BAD_TOKEN", 0),
        (b"\x0f" + bytes(79) + b"\xff\x01\x02" + bytes(13), "OK", 0),
        (b"\x0f" + bytes(79) + b"\xff\x01\x02\x01" + bytes(12), "NONZERO_FILL", 83),
    ],
)
def test_damage(row, status, offset):
    found = restore(8, row, xc())
    assert found[:2] == (StreamStatus[status], offset)
    assert found == slow_restore(row, CENTRE, PATTERN)


def test_an_element_of_zero_is_refused():
    # The escape 00 with a rest of 00.
    row = b"\x03" + bytes(79) + b"\x0f\x00" + bytes(14)
    assert restore(8, row, xc())[:2] == (StreamStatus.BAD_TOKEN, 0)
    row = b"\x03" + bytes(15) + b"\x01" + bytes(63) + b"\x0f\x00" + bytes(14)
    assert restore(8, row, xc())[0] == StreamStatus.OK


@pytest.mark.parametrize(("centre", "pattern"), PARAMETERS[:4])
def test_any_bytes_are_restored_or_refused_as_the_page_says(centre, pattern):
    generator = np.random.default_rng(pattern)
    entries = bf16_entries(1500, seed=pattern)
    entries = entries[fits(entries, np.full(1500, xc(centre, pattern)))]
    kept = encode(entries, np.full(len(entries), xc(centre, pattern)))
    for _ in range(2):
        flip = generator.integers(0, 768, len(kept))
        flip[::3] = generator.integers(8 * 80, 768, flip[::3].size)
        kept[np.arange(len(kept)), flip // 8] ^= (1 << flip % 8).astype(np.uint8)
    kept[::7, :96] = generator.integers(0, 256, kept[::7, :96].shape)
    found = THREE.decode(np.full(len(kept), 8, np.uint8), kept, xc(centre, pattern))
    statuses = set()
    for row, status, offset, data in zip(kept, found.status, found.offset, found.data, strict=True):
        expected = slow_restore(row[:96].tobytes(), centre, pattern)
        assert (StreamStatus(int(status)), int(offset), data.tobytes()) == expected
        statuses.add(expected[0].name)
    assert statuses == {"OK", "BAD_TOKEN", "NONZERO_FILL"}


def test_memory_with_pages_of_several_parameters():
    page = 8192
    layout = AddressMap(
        device_bytes=1 << 18,
        logical_bytes=1 << 19,
        carve_out_bytes=3 << 18,
        gbbr=1 << 32,
        page_bytes=page,
    )
    memory = BuddyMemory(layout, THREE)
    entries = bf16_entries(64, spread=0.2)
    fit = fits(entries, np.full(64, xc()))
    assert fit.sum() > 40
    first = memory.allocate(page, Target.X1_33, centre=CENTRE, pattern=PATTERN)
    second = memory.allocate(page, Target.X1_33)
    assert PageFields.unpack(memory.page_entry(0)[0]).xc == xc()
    assert PageFields.unpack(memory.page_entry(1)[0]).xc == 0
    memory.write(first, entries)
    spilled = int((memory.metadata(first + 128 * np.arange(64)) == 7).sum())
    assert memory.traffic.buddy_written == spilled
    assert memory.traffic.device_written == 3 * 64 - sum(
        3 - count for count in device_sectors(memory, first)
    )
    assert spilled < 24
    memory.write(second, entries)
    assert memory.traffic.buddy_written > spilled + 40
    assert memory.read(first, page).tobytes() == entries.tobytes()
    assert memory.read(second, page).tobytes() == entries.tobytes()
    # A part of an entry that is of XC.
    memory.write(first + 130, np.array([1, 2], np.uint8))
    entries.reshape(-1)[130:132] = 1, 2
    assert memory.read(first, page).tobytes() == entries.tobytes()


def device_sectors(memory, address):
    """Device sectors of each entry of a page, counted from the translation."""
    addresses = address + 128 * np.arange(64)
    where = memory.translate(addresses)
    return (where.device_sectors(memory.metadata(addresses)) >= 0).sum(axis=1).tolist()


def test_page_fields_of_xc():
    fields = PageFields(compressed=True, target=Target.X2, buddy_page=9, centre=0x7F, pattern=2)
    assert fields.pack() == 2 << 32 | 0x7F << 24 | 0xA00009
    assert PageFields.unpack(fields.pack()) == fields
    # Ten bits that were never written, or a pattern alone: no XC.
    assert PageFields.unpack(3 << 32 | 0xA00009).xc == 0
    with pytest.raises(ValueError, match="centre must be of 8 bits, not 256"):
        PageFields(compressed=True, centre=256)
    with pytest.raises(ValueError, match="pattern must be of 2 bits, not 4"):
        PageFields(compressed=True, centre=1, pattern=4)
    with pytest.raises(ValueError, match=r"pattern must be 0 without a centre.*, not 1"):
        PageFields(compressed=True, pattern=1)
