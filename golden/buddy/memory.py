"""The memories behind the map of `cdma.golden.buddy.address_map`, as hardware must leave them.

Device memory with its metadata, the carve-out, and page-table entries; entries are compressed as
they are written, spill into their buddy slots, and grow and shrink in place. Memory that was never
written is zeros: its metadata are.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cdma.golden.buddy.address_map import (
    DEVICE_SLOT_BYTES,
    ENTRY_SECTORS,
    AddressMap,
    BuddyError,
    MapStatus,
    PageFields,
    Target,
    Translation,
    split_sectors,
)
from cdma.golden.buddy.entry import AS_IT_IS, ENTRY_BYTES, METADATA_BITS, SECTOR_BYTES, EntryCodec
from cdma.golden.buddy.pages import PageAllocator
from cdma.golden.formats.interface import Array, IntArray, as_bytes
from cdma.golden.formats.stream import ByteArray, StreamError, StreamStatus

Covered = npt.NDArray[np.bool_]
"""bool (n, 128): which bytes of entries an access is about."""

_CHUNK_ENTRIES = 4096
"""Entries that are worked on at once: bounds scratch memory."""


@dataclass(kw_only=True)
class SectorCounts:
    """Sectors of 32 B that accesses moved. Those of metadata are not among them.

    Each access stands alone: nothing is cached, and sectors that several entries share count once
    for each.
    """

    device_read: int = 0
    device_written: int = 0
    buddy_read: int = 0
    buddy_written: int = 0


class BuddyMemory:
    """Compressed memory, byte-addressed by logical addresses.

    Parameters
    ----------
    address_map : AddressMap
        Sizes of the memories and where their parts lie.
    codec : EntryCodec
        The codec of the entries.

    Attributes
    ----------
    device : uint8 array (device_bytes,)
        Device memory, metadata included.
    buddy : uint8 array (carve_out_bytes,)
        The carve-out; its first byte is at GBBR.
    traffic : SectorCounts
        The sectors that accesses have moved.
    """

    def __init__(self, address_map: AddressMap, codec: EntryCodec) -> None:
        self.map = address_map
        self.codec = codec
        self.device = np.zeros(address_map.device_bytes, np.uint8)
        self.buddy = np.zeros(address_map.carve_out_bytes, np.uint8)
        self.traffic = SectorCounts()
        pages = address_map.logical_bytes // address_map.page_bytes
        self._fields = np.zeros(pages, np.int64)
        self._frames = np.zeros(pages, np.int64)
        self._mapped = np.zeros(pages, np.bool_)
        self._allocator = PageAllocator(address_map)

    def allocate(
        self,
        nbytes: int,
        target: Target,
        *,
        compressed: bool = True,
        centre: int = 0,
        pattern: int = 0,
    ) -> int:
        """Map whole pages for `nbytes` behind the last allocation; their logical address.

        `centre` and `pattern` are XC's for these pages, which have no XC with centre 0.

        Raises
        ------
        BuddyError
            Logical memory, device memory or the carve-out are used up. Nothing is mapped then.
        """
        address, pages = self._allocator.allocate(
            nbytes, target, compressed=compressed, centre=centre, pattern=pattern
        )
        for page in pages:
            self.map_page(*page)
        return address

    def map_page(self, page: int, fields: PageFields, frame: int) -> None:
        """Set a page-table entry to the given fields and frame, which are not checked.

        Entries of XC that a page has are those of its old parameters: they have to be written anew
        with other ones.
        """
        self._fields[page] = fields.pack()
        self._frames[page] = frame
        self._mapped[page] = True

    def page_entry(self, page: int) -> tuple[int, int]:
        """Return the 34 bits and the device frame of a page-table entry."""
        return int(self._fields[page]), int(self._frames[page])

    def translate(self, addresses: Array) -> Translation:
        """Map entries, by any logical address in each; see `AddressMap.translate`."""
        pages = np.clip(np.asarray(addresses) // self.map.page_bytes, 0, self._mapped.size - 1)
        translation = self.map.translate(addresses, self._fields[pages], self._frames[pages])
        translation.status[~self._mapped[pages]] = MapStatus.OUT_OF_REGION
        return translation

    def metadata(self, addresses: Array) -> ByteArray:
        """Look up the metadata of the entries at these addresses, uint8 (n,); class 7 if not
        compressed.
        """
        return self._metadata_of(self._translated(np.asarray(addresses, np.int64)))

    def read(self, address: int, nbytes: int) -> ByteArray:
        """Read bytes of logical memory, uint8 (nbytes,).

        Raises
        ------
        BuddyError
            The map refuses one of the entries.
        StreamError
            What is kept of an entry is damaged. Offset: in bytes from the entry's start, as in
            `EntryCodec.decode`; valid bytes: those that were asked for before the entry.
        """
        starts, covered = _entries_of(address, nbytes)
        data = self._read_entries(starts, self._translated(starts), covered, address)
        skip = address % ENTRY_BYTES
        return data.reshape(-1)[skip : skip + nbytes]

    def write(self, address: int, data: Array) -> None:
        """Write the bytes of an array; entries that it covers in part are read before.

        Raises
        ------
        BuddyError, StreamError
            As in `read`. Nothing is written then.
        """
        payload = as_bytes(data)
        starts, covered = _entries_of(address, payload.size)
        rows = np.zeros(covered.shape, np.uint8)
        rows[covered] = payload
        self._write(starts, rows, covered, address)

    def read_entries(self, addresses: Array, covered: Covered | None = None) -> ByteArray:
        """Read n entries, one read each: uint8 (n, 128).

        `covered`, bool (n, 128), marks the bytes that are read, all if not given. Raises as `read`
        does.
        """
        starts, covered = _single_entries(addresses, covered)
        return self._read_entries(starts, self._translated(starts), covered, int(starts[0]))

    def write_entries(
        self, addresses: Array, rows: ByteArray, covered: Covered | None = None
    ) -> None:
        """Write n rows, uint8 (n, 128), to as many entries, no two to the same one.

        `covered`, bool (n, 128), marks the bytes that are written, all if not given. Raises as
        `write` does.
        """
        starts, covered = _single_entries(addresses, covered)
        assert np.unique(starts).size == starts.size, "an entry is written twice"
        self._write(starts, rows.copy(), covered, int(starts[0]))

    def _write(self, starts: IntArray, rows: ByteArray, covered: Covered, address: int) -> None:
        """Write rows; the bytes of `rows` outside the covered ones are overwritten."""
        where = self._translated(starts)
        partial = np.flatnonzero(~covered.all(axis=1) & where.compressed)
        before = self._read_entries(starts[partial], where.some(partial), covered[partial], address)
        rows[partial] = np.where(covered[partial], rows[partial], before)
        for first in range(0, starts.size, _CHUNK_ENTRIES):
            chunk = np.arange(first, min(first + _CHUNK_ENTRIES, starts.size))
            self._write_entries(rows[chunk], where.some(chunk), covered[chunk])

    def _translated(self, starts: IntArray) -> Translation:
        where = self.translate(starts)
        bad = np.flatnonzero(where.status)
        if bad.size:
            raise BuddyError(MapStatus(int(where.status[bad[0]])), int(starts[bad[0]]))
        return where

    def _read_entries(
        self, starts: IntArray, where: Translation, covered: Covered, address: int
    ) -> ByteArray:
        """Decompress the entries, uint8 (n, 128), of an access that starts at `address`."""
        data = np.empty(covered.shape, np.uint8)
        for first in range(0, starts.size, _CHUNK_ENTRIES):
            chunk = np.arange(first, min(first + _CHUNK_ENTRIES, starts.size))
            part = where.some(chunk)
            metadata = self._metadata_of(part)
            kept = np.zeros((chunk.size, ENTRY_BYTES), np.uint8)
            device, buddy = self._stored_at(part, metadata, covered[chunk])
            kept[device >= 0] = self.device[device[device >= 0]]
            kept[buddy >= 0] = self.buddy[buddy[buddy >= 0]]
            self.traffic.device_read += _sectors(device)
            self.traffic.buddy_read += _sectors(buddy)
            restored = self.codec.decode(metadata, kept, part.xc)
            bad = np.flatnonzero(restored.status)
            if bad.size:
                worst = int(bad[0])
                raise StreamError(
                    StreamStatus(int(restored.status[worst])),
                    int(restored.offset[worst]),
                    max(int(starts[first + worst]) - address, 0),
                )
            data[chunk] = restored.data
        return data

    def _write_entries(self, rows: ByteArray, where: Translation, covered: Covered) -> None:
        metadata, kept = self.codec.encode(rows, where.xc)
        plain = ~where.compressed
        metadata[plain] = AS_IT_IS
        kept[plain] = rows[plain]
        device, buddy = self._stored_at(where, metadata, covered)
        self.device[device[device >= 0]] = kept[device >= 0]
        self.buddy[buddy[buddy >= 0]] = kept[buddy >= 0]
        self.traffic.device_written += _sectors(device)
        self.traffic.buddy_written += _sectors(buddy)
        # One half of the bytes after the other, as two entries share each.
        for shift, others in ((0, 0xF0), (METADATA_BITS, 0x0F)):
            half = where.compressed & (where.metadata_shift == shift)
            place = where.metadata_address[half]
            self.device[place] = self.device[place] & others | metadata[half] << shift

    def _metadata_of(self, where: Translation) -> ByteArray:
        packed = self.device[where.metadata_address].astype(np.int64)
        metadata = packed >> where.metadata_shift & 0xF
        return np.where(where.compressed, metadata, AS_IT_IS).astype(np.uint8)

    def _stored_at(
        self, where: Translation, metadata: ByteArray, covered: Covered
    ) -> tuple[IntArray, IntArray]:
        """Index of each stored byte in `device` and in `buddy`, int64 (n, 128); or −1."""
        device, buddy = split_sectors(where.target, self.codec.classes(metadata, where.xc))
        column = np.arange(ENTRY_BYTES)
        sector = column // SECTOR_BYTES
        slot = np.array(DEVICE_SLOT_BYTES)[where.target]
        in_device = (sector < device[:, None]) & (column < slot[:, None])
        # A page that is not compressed is read and written by the byte.
        in_device &= where.compressed[:, None] | covered
        in_buddy = (sector >= device[:, None]) & (sector < (device + buddy)[:, None])
        buddy_start = where.buddy_address - self.map.gbbr - device * SECTOR_BYTES
        return (
            np.where(in_device, where.device_address[:, None] + column, -1),
            np.where(in_buddy, buddy_start[:, None] + column, -1),
        )


def _entries_of(address: int, nbytes: int) -> tuple[IntArray, Covered]:
    """Logical addresses of the entries of an access, and which of their bytes it covers."""
    first = address // ENTRY_BYTES
    last = -(-(address + nbytes) // ENTRY_BYTES) if nbytes > 0 else first
    starts = np.arange(first, last, dtype=np.int64) * ENTRY_BYTES
    place = starts[:, None] + np.arange(ENTRY_BYTES)
    return starts, (place >= address) & (place < address + nbytes)


def _single_entries(addresses: Array, covered: Covered | None) -> tuple[IntArray, Covered]:
    starts = np.asarray(addresses, np.int64) // ENTRY_BYTES * ENTRY_BYTES
    assert starts.size, "there must be at least one entry"
    if covered is None:
        covered = np.ones((starts.size, ENTRY_BYTES), np.bool_)
    return starts, covered


def _sectors(stored_at: IntArray) -> int:
    """Number of sectors of entries that these bytes touch."""
    used = (stored_at >= 0).reshape(-1, ENTRY_SECTORS, SECTOR_BYTES).any(axis=2)
    return int(used.sum())
