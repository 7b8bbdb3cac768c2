"""The address map of Buddy Compression (§3.2, §3.4): where the parts of an entry lie.

*Logical* addresses are those that the GPU sees behind its page tables: device memory as large as
compression makes it. They are cut into pages, and pages into entries of 128 B. Each entry has a
slot in device memory and one in buddy memory, both fixed by the page's target ratio:

    target      device slot    buddy slot
    0: 1x       128 B          none
    1: 1.33x     96 B           32 B
    2: 2x        64 B           64 B
    3: 4x        32 B           96 B
    4: 16x        8 B          128 B

The slots of a page's entries follow one another, in device memory from the page's device frame on
and in buddy memory from its buddy page on. An entry's sectors fill the device slot first; what is
left goes into the buddy slot. With 16x, an entry of 8 B or less is in the device slot, and any
other is all in the buddy slot: it takes as many sectors there as the rest of it would, and the
device slot need not be touched. No entry ever moves because of another.

A page-table entry has, besides the device frame, 24 bits (§3.2):

    bits 19…0     buddy page: offset from GBBR, in quarters of a page
    bits 22…20    target
    bit 23        compressed; if 0, the page is in device memory as it is, whatever the rest says

and, where entries may be of XC (`cdma.golden.buddy.entry`), ten more for its parameters:

    bits 31…24    centre; 0: no entry of the page is of XC
    bits 33…32    pattern; meant if there is a centre

The device frame counts sixteenths of a page. The metadata of a logical address are in byte
address / 256 of the metadata region, which is at the end of device memory: the whole of it is
1/256 of the logical memory.
"""

from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from cdma.golden.buddy.entry import (
    AS_IT_IS,
    ENTRY_BYTES,
    METADATA_BITS,
    SECTOR_BYTES,
    XC_CLASS,
    XC_METADATA,
    sectors_of,
    sizes_of,
)
from cdma.golden.buddy.xc_entry import CENTRE_BITS, PATTERN_BITS, has_xc
from cdma.golden.formats.interface import Array, IntArray

BUDDY_PAGE_BITS = 20
TARGET_BITS = 3
FIELD_BITS = 24
"""Those of the paper."""
XC_BITS = CENTRE_BITS + PATTERN_BITS
"""Those behind them, which only XC needs."""
MIN_PAGE_BYTES = 8192
"""The entries whose metadata make a sector; a GPU page in the paper's Fig 6."""
METADATA_RATIO = ENTRY_BYTES * 8 // METADATA_BITS
"""Logical bytes per byte of metadata."""
ENTRY_SECTORS = ENTRY_BYTES // SECTOR_BYTES


class Target(IntEnum):
    """Target ratios, as page-table entries have them."""

    X1 = 0
    X1_33 = 1
    X2 = 2
    X4 = 3
    X16 = 4

    @property
    def ratio(self) -> float:
        """Logical bytes per byte of device memory."""
        return ENTRY_BYTES / DEVICE_SLOT_BYTES[self]


DEVICE_SLOT_BYTES = (128, 96, 64, 32, 8)
BUDDY_SLOT_BYTES = (0, 32, 64, 96, 128)


class MapStatus(IntEnum):
    """Outcome of a translation: the first of these that applies."""

    OK = 0
    OUT_OF_REGION = 1
    """The logical address is beyond the logical memory, or the page is not mapped, or the device
    slot reaches into the metadata or beyond device memory."""
    BAD_TARGET = 2
    """The target is none of the five."""
    CARVE_OUT_OVERFLOW = 3
    """The buddy slot reaches beyond the carve-out."""


class BuddyError(ValueError):
    """An access or an allocation that the address map refuses.

    Attributes
    ----------
    status : MapStatus
        The reason of the refusal.
    address : int
        The first logical address at fault.
    """

    def __init__(self, status: MapStatus, address: int) -> None:
        self.status = MapStatus(status)
        self.address = int(address)
        kind = self.status.name.lower().replace("_", " ")
        super().__init__(f"{kind} at logical address {self.address:#x}")


@dataclass(frozen=True, kw_only=True)
class PageFields:
    """The fields that Buddy Compression adds to a page-table entry.

    `target` is any number of 3 bits: whether there is such a target is the map's concern. `centre`
    and `pattern` are XC's parameters for the page; with centre 0, none of its entries is of XC.
    """

    compressed: bool
    target: int = Target.X1
    buddy_page: int = 0
    centre: int = 0
    pattern: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.target < 1 << TARGET_BITS:
            raise ValueError(f"target must be of {TARGET_BITS} bits, not {self.target!r}")
        if not 0 <= self.buddy_page < 1 << BUDDY_PAGE_BITS:
            raise ValueError(f"buddy page must be of {BUDDY_PAGE_BITS} bits, not {self.buddy_page}")
        for name, bits in (("centre", CENTRE_BITS), ("pattern", PATTERN_BITS)):
            value = getattr(self, name)
            if not 0 <= value < 1 << bits:
                raise ValueError(f"{name} must be of {bits} bits, not {value!r}")
        if self.pattern and not self.centre:
            raise ValueError(
                f"pattern must be 0 without a centre, that is without XC, not {self.pattern!r}"
            )

    @property
    def xc(self) -> int:
        """The ten bits of XC."""
        return self.centre | self.pattern << CENTRE_BITS

    def pack(self) -> int:
        """Encode the fields into 34 bits; 24 without XC."""
        high = self.compressed << TARGET_BITS | self.target
        return int(self.xc << FIELD_BITS | high << BUDDY_PAGE_BITS | self.buddy_page)

    @classmethod
    def unpack(cls, bits: int) -> "PageFields":
        """Decode the 34 bits. Without a centre, the pattern is taken for 0."""
        centre = bits >> FIELD_BITS & ((1 << CENTRE_BITS) - 1)
        pattern = bits >> (FIELD_BITS + CENTRE_BITS) & ((1 << PATTERN_BITS) - 1)
        return cls(
            compressed=bool(bits >> (FIELD_BITS - 1) & 1),
            target=bits >> BUDDY_PAGE_BITS & ((1 << TARGET_BITS) - 1),
            buddy_page=bits & ((1 << BUDDY_PAGE_BITS) - 1),
            centre=centre,
            pattern=pattern if centre else 0,
        )


@dataclass(frozen=True, kw_only=True)
class Translation:
    """Locations of n entries. All members but `status` are undefined where the status is not OK.

    Attributes
    ----------
    status : uint8 array (n,)
        Numbers of `MapStatus`.
    compressed : bool array (n,)
        True for entries of compressed pages. Others have no metadata and no buddy slot.
    target : int64 array (n,)
        The page's target; `Target.X1` for pages that are not compressed.
    device_address, buddy_address : int64 arrays (n,)
        The first byte of the slots: in device memory, and on the buddy link.
    metadata_address : int64 array (n,)
        The byte of device memory that holds the entry's metadata.
    metadata_shift : int64 array (n,)
        0 or 4: the metadata's lowest bit in that byte.
    xc : int64 array (n,)
        The ten bits of XC of the page; 0 if it has none.
    """

    status: npt.NDArray[np.uint8]
    compressed: npt.NDArray[np.bool_]
    target: IntArray
    device_address: IntArray
    buddy_address: IntArray
    metadata_address: IntArray
    metadata_shift: IntArray
    xc: IntArray

    def device_sectors(self, metadata: Array) -> IntArray:
        """Addresses of the sectors of device memory that entries of this metadata are in.

        int64 (n, 4), -1 behind the last.
        """
        device, _ = split_sectors(self.target, self._metadata(metadata))
        return _sector_addresses(self.device_address, device)

    def buddy_sectors(self, metadata: Array) -> IntArray:
        """Addresses of the sectors of buddy memory; see `device_sectors`."""
        _, buddy = split_sectors(self.target, self._metadata(metadata))
        return _sector_addresses(self.buddy_address, buddy)

    def some(self, entries: IntArray) -> "Translation":
        """Return the mapping of these entries only."""
        return Translation(
            **{field.name: getattr(self, field.name)[entries] for field in fields(self)}
        )

    def _metadata(self, metadata: Array) -> Array:
        of_xc = (metadata == XC_METADATA) & (self.xc != 0)
        return np.where(self.compressed, np.where(of_xc, XC_CLASS, metadata), AS_IT_IS)


@dataclass(frozen=True, kw_only=True)
class AddressMap:
    """Device memory with its metadata, and the carve-out of buddy memory.

    Attributes
    ----------
    device_bytes : int
        Device memory: pages first, metadata behind them. A multiple of 32.
    logical_bytes : int
        What the GPU sees of it: whole pages.
    carve_out_bytes : int
        Buddy memory. A multiple of 32. Three times the device memory is enough for 4x (§3.2).
    gbbr : int
        Global buddy base-address register: where the carve-out starts. A multiple of 32.
    page_bytes : int
        A power of two, at least 8 KiB. The 20 bits of a buddy page reach 2^18 of these.
    """

    device_bytes: int
    logical_bytes: int
    carve_out_bytes: int
    gbbr: int = 0
    page_bytes: int = 65536

    def __post_init__(self) -> None:
        size = self.page_bytes
        if size < MIN_PAGE_BYTES or size & (size - 1):
            raise ValueError(f"page_bytes must be a power of two of at least 8192, not {size!r}")
        if self.logical_bytes < size or self.logical_bytes % size:
            raise ValueError(f"logical_bytes must be whole pages, not {self.logical_bytes!r}")
        for name in ("device_bytes", "carve_out_bytes", "gbbr"):
            value = getattr(self, name)
            if value < 0 or value % SECTOR_BYTES:
                raise ValueError(f"{name} must be a multiple of 32, not {value!r}")
        if self.metadata_base < 0:
            raise ValueError(
                f"device_bytes must be at least the {self.metadata_bytes} of the metadata, "
                f"not {self.device_bytes}"
            )

    @property
    def metadata_bytes(self) -> int:
        """Size of the metadata region in bytes."""
        return self.logical_bytes // METADATA_RATIO

    @property
    def metadata_base(self) -> int:
        """Address in device memory at which the metadata start, and pages end."""
        return self.device_bytes - self.metadata_bytes

    @property
    def frame_bytes(self) -> int:
        """Bytes of a device frame: a page of 16x."""
        return self.page_bytes // 16

    @property
    def buddy_unit_bytes(self) -> int:
        """Bytes of a buddy page's unit: one sector for each entry of a page."""
        return self.page_bytes // ENTRY_SECTORS

    def translate(
        self, addresses: npt.ArrayLike, page_fields: npt.ArrayLike, frames: npt.ArrayLike
    ) -> Translation:
        """Map n logical addresses to the locations of their entries.

        Parameters
        ----------
        addresses : int array (n,)
            Any byte of each entry.
        page_fields, frames : int arrays (n,), or one number for all
            The 24 or 34 bits and the device frame in the page-table entry of the address's page.
        """
        address = np.atleast_1d(np.asarray(addresses, np.int64))
        field = np.broadcast_to(np.asarray(page_fields, np.int64), address.shape)
        frame = np.broadcast_to(np.asarray(frames, np.int64), address.shape)
        compressed = (field >> (FIELD_BITS - 1) & 1).astype(np.bool_)
        target = np.where(compressed, field >> BUDDY_PAGE_BITS & ((1 << TARGET_BITS) - 1), 0)
        bad_target = target >= len(Target)
        known = np.where(bad_target, 0, target)
        entry = address % self.page_bytes // ENTRY_BYTES
        device_slot = np.array(DEVICE_SLOT_BYTES)[known]
        buddy_slot = np.array(BUDDY_SLOT_BYTES)[known]
        device = frame * self.frame_bytes + entry * device_slot
        buddy_page = field & ((1 << BUDDY_PAGE_BITS) - 1)
        buddy = buddy_page * self.buddy_unit_bytes + entry * buddy_slot
        metadata = address // METADATA_RATIO
        outside = (address < 0) | (address >= self.logical_bytes)
        behind = (device + device_slot > self.metadata_base) | (device < 0)
        xc = field >> FIELD_BITS & ((1 << XC_BITS) - 1)
        overflow = (buddy_slot > 0) & (buddy + buddy_slot > self.carve_out_bytes)
        status = np.select(
            [outside, bad_target, behind, overflow],
            [
                MapStatus.OUT_OF_REGION,
                MapStatus.BAD_TARGET,
                MapStatus.OUT_OF_REGION,
                MapStatus.CARVE_OUT_OVERFLOW,
            ],
            MapStatus.OK,
        )
        return Translation(
            status=status.astype(np.uint8),
            compressed=compressed,
            target=known,
            device_address=device,
            buddy_address=self.gbbr + buddy,
            metadata_address=self.metadata_base + metadata,
            metadata_shift=address // ENTRY_BYTES % 2 * METADATA_BITS,
            xc=np.where(compressed & has_xc(xc), xc, 0),
        )


def split_sectors(targets: npt.ArrayLike, metadata: Array) -> tuple[IntArray, IntArray]:
    """Numbers of sectors of device and of buddy memory that entries occupy, int64 arrays.

    With 16x, the device sector is shared with three other entries. For entries of XC, the metadata
    are to be those of their class, as of `EntryCodec.classes`.
    """
    target = np.asarray(targets, np.int64)
    sectors = sectors_of(metadata)
    slot = np.array(DEVICE_SLOT_BYTES)[target]
    whole = np.where(slot >= SECTOR_BYTES, slot // SECTOR_BYTES, sizes_of(metadata) <= slot)
    # A slot of less than a sector has all of an entry or nothing of it.
    device = np.minimum(sectors, whole)
    return device, sectors - device


def spills(target: int, metadata: Array) -> npt.NDArray[np.bool_]:
    """True for entries of this metadata that need buddy memory."""
    _, buddy = split_sectors(target, metadata)
    return buddy > 0


def _sector_addresses(slots: IntArray, counts: IntArray) -> IntArray:
    numbers = np.arange(ENTRY_SECTORS)
    addresses = (slots // SECTOR_BYTES * SECTOR_BYTES)[:, None] + numbers * SECTOR_BYTES
    return np.where(numbers < counts[:, None], addresses, -1)
