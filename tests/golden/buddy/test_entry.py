"""Entries: classes, metadata, and what is kept of them."""

import numpy as np
import pytest

from cdma.golden import CodecError, StreamStatus
from cdma.golden.buddy.entry import (
    MODES,
    SECTORS,
    SIZES,
    EntryCodec,
    classes_of,
    sectors_of,
    sizes_of,
)
from cdma.golden.formats.bpc.bpc import encode_entries
from cdma.golden.formats.zvc import Zvc
from tests.golden.buddy.entries import KINDS, all_planes_raw, entries_of, mixed_entries
from tests.golden.formats.bpc import slow_bpc
from tests.golden.formats.data import ELEMENT_SIZES


def words(*values):
    """uint8 (1, 128): these signed words and then zeros."""
    return np.array([*values, *[0] * (32 - len(values))], "<i4").view(np.uint8).reshape(1, 128)


def keep(entry, mode="best-of", element_bytes=4):
    """Metadata and bytes of one entry."""
    metadata, kept = EntryCodec(mode, element_bytes).encode(entry)
    return int(metadata[0]), kept[0, : SIZES[metadata[0] % 8]].tobytes()


def restore(metadata, kept, mode="best-of", element_bytes=4):
    """Status, offset and data of one entry."""
    row = np.zeros((1, 128), np.uint8)
    row[0, : len(kept)] = np.frombuffer(kept, np.uint8)
    decoded = EntryCodec(mode, element_bytes).decode(np.array([metadata], np.uint8), row)
    return StreamStatus(int(decoded.status[0])), int(decoded.offset[0]), decoded.data[0].tobytes()


def slow_class(code_bytes):
    return next(number for number in range(1, 8) if code_bytes <= SIZES[number] or number == 7)


def test_sectors_are_of_32_bytes():
    assert SECTORS == (0, 1, 1, 1, 2, 3, 3, 4)


@pytest.mark.parametrize("nbytes", range(1, 145))
def test_class_is_the_least_that_fits(nbytes):
    assert classes_of(np.array([nbytes])).tolist() == [slow_class(nbytes)]


def test_zeros_keep_nothing():
    assert keep(words()) == (0, b"")
    assert restore(0, b"") == (StreamStatus.OK, 0, bytes(128))


def test_entry_that_is_the_same_throughout_takes_8_bytes():
    metadata, kept = keep(words(*[1] * 32))
    assert (metadata, kept) == (1, slow_bpc.to_bytes("001" + "0001" + "0111111").ljust(8, b"\0"))


def test_sparse_entry_is_of_zvc():
    entry = words(0, 0x12345678, 0, 0, 0, -0x7654321)
    metadata, kept = keep(entry)
    assert metadata == 8 | 2
    assert kept == Zvc(4).compress(entry).tobytes().ljust(16, b"\0")
    assert keep(entry, "bpc")[0] < 8
    assert restore(metadata, kept) == (StreamStatus.OK, 0, entry.tobytes())


def test_entry_that_fits_nothing_is_kept_as_it_is():
    entry = all_planes_raw()
    for mode in MODES:
        assert keep(entry, mode) == (7, entry.tobytes())
        assert restore(7, entry.tobytes(), mode) == (StreamStatus.OK, 0, entry.tobytes())


@pytest.mark.parametrize("element_bytes", ELEMENT_SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_best_of_is_the_lesser_class_of_both(kind, element_bytes):
    entries = entries_of(kind, 300)
    best = EntryCodec("best-of", element_bytes).metadata(entries)
    alone = EntryCodec("bpc").metadata(entries)
    zvc_sizes = Zvc(element_bytes).line_sizes(entries)
    for entry, metadata, bpc_metadata, zvc_bytes in zip(
        entries, best, alone, zvc_sizes, strict=True
    ):
        if not entry.any():
            assert (metadata, bpc_metadata) == (0, 0)
            continue
        by_bpc = slow_class(-(-len(slow_bpc.encode(entry.tobytes())) // 8))
        by_zvc = slow_class(zvc_bytes)
        assert bpc_metadata == by_bpc
        assert metadata == (8 | by_zvc if by_zvc < by_bpc else by_bpc)


def test_best_of_is_strictly_better_on_mixed_entries():
    entries = mixed_entries(2000)
    best, alone = (sizes_of(EntryCodec(mode).metadata(entries)) for mode in ("best-of", "bpc"))
    zvc = np.minimum(np.array(SIZES)[classes_of(Zvc(4).line_sizes(entries))], 128)
    assert (best <= alone).all()
    assert (best <= zvc).all()
    assert best.sum() < 0.95 * min(alone.sum(), zvc.sum())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("element_bytes", ELEMENT_SIZES)
def test_round_trip(mode, element_bytes):
    entries = mixed_entries(2000, seed=element_bytes)
    codec = EntryCodec(mode, element_bytes)
    metadata, kept = codec.encode(entries)
    assert metadata.tolist() == codec.metadata(entries).tolist()
    sizes = sizes_of(metadata)
    behind = np.arange(128) >= sizes[:, None]
    assert not kept[behind].any()
    # What lies behind an entry may be anything.
    kept[behind] = 0xA5
    restored = codec.decode(metadata, kept)
    assert not restored.status.any()
    assert restored.data.tobytes() == entries.tobytes()
    assert sectors_of(metadata).tolist() == (-(-sizes // 32)).tolist()


def test_last_entry_is_zero_filled():
    metadata, kept = EntryCodec().encode(np.arange(40, dtype="<i4"))
    whole = EntryCodec().encode(np.append(np.arange(40, dtype="<i4"), np.zeros(24, "<i4")))
    assert (metadata.tolist(), kept.tolist()) == (whole[0].tolist(), whole[1].tolist())


def test_no_entries():
    metadata, kept = EntryCodec().encode(np.empty(0, np.uint8))
    assert (metadata.shape, kept.shape) == ((0,), (0, 128))
    assert EntryCodec().decode(metadata, kept).data.shape == (0, 128)


@pytest.mark.parametrize(
    ("mode", "metadata"),
    [("best-of", 8), ("best-of", 15), ("best-of", 17), *[("bpc", bad) for bad in range(8, 17)]],
)
def test_metadata_that_no_entry_has(mode, metadata):
    assert restore(metadata, b"", mode) == (StreamStatus.BAD_TOKEN, 0, bytes(128))


ZEROS = slow_bpc.to_bytes("000" + "0111111")
ONE_TO_32 = slow_bpc.to_bytes("001" + "0001" + "01" + "11110" + "00000")
MASK = bytes.fromhex("02000000")


@pytest.mark.parametrize(
    ("metadata", "kept", "status", "offset"),
    [
        # BPC: the size is all that there is.
        (1, b"\xa0\0\0\0\x7f\xff\xff\xff", "PAYLOAD_TRUNCATED", 4),
        (1, b"\x20" + bytes(7), "BAD_TOKEN", 0),
        (1, ZEROS, "LENGTH_MISMATCH", 2),
        (2, ONE_TO_32.ljust(16, b"\0"), "LENGTH_MISMATCH", 3),
        (1, ONE_TO_32 + b"\0\0\x80\0\0", "NONZERO_FILL", 5),
        (1, ONE_TO_32[:-1] + bytes([ONE_TO_32[-1] | 1]), "NONZERO_FILL", 2),
        # ZVC.
        (8 | 1, bytes.fromhex("06000000") + b"\1" * 4, "PAYLOAD_TRUNCATED", 8),
        (8 | 1, MASK + bytes(4), "ZERO_ELEMENT", 4),
        (8 | 1, bytes(8), "LENGTH_MISMATCH", 4),
        (8 | 2, MASK + b"\1" * 4 + bytes(8), "LENGTH_MISMATCH", 8),
        (8 | 2, bytes.fromhex("06000000") + b"\1" * 8 + b"\0\0\1\0", "NONZERO_FILL", 14),
    ],
)
def test_damage(metadata, kept, status, offset):
    assert restore(metadata, kept) == (StreamStatus[status], offset, bytes(128))


def test_mask_that_a_class_does_not_hold():
    status, offset, _ = restore(8 | 1, b"\1" * 8, element_bytes=1)
    assert (status, offset) == (StreamStatus.MASK_TRUNCATED, 0)


@pytest.mark.parametrize("mode", MODES)
def test_any_metadata_and_any_bytes_are_restored_or_refused(mode):
    """A restored entry, stored again, gives what was stored, but for the choice of codec."""
    generator = np.random.default_rng(0)
    codec = EntryCodec(mode)
    metadata, kept = codec.encode(mixed_entries(4000, seed=9))
    flip = generator.integers(0, 8 * np.maximum(sizes_of(metadata), 1))
    kept[np.arange(len(kept)), flip // 8] ^= (1 << flip % 8).astype(np.uint8)
    metadata[::3] ^= (1 << generator.integers(0, 4, metadata[::3].size)).astype(np.uint8)
    restored = codec.decode(metadata, kept)
    assert (restored.offset <= sizes_of(metadata)).all()
    assert not restored.data[restored.status != StreamStatus.OK].any()
    sound = restored.status == StreamStatus.OK
    assert 0 < sound.sum() < sound.size
    for index in np.flatnonzero(sound & (metadata % 8 > 0) & (metadata != 7)):
        data = restored.data[index : index + 1]
        code = Zvc(4).compress(data) if metadata[index] & 8 else encode_entries(data).data[0]
        size = SIZES[metadata[index] % 8]
        assert code.tobytes()[:size].ljust(size, b"\0") == kept[index, :size].tobytes()


def test_unknown_mode_and_element_size():
    with pytest.raises(CodecError, match="unknown mode 'zvc' of entries; choose from best-of, bpc"):
        EntryCodec("zvc")
    with pytest.raises(CodecError, match="elements of 3 bytes"):
        EntryCodec(element_bytes=3)
