"""Payloads that pass between the rooms of the Buddy memory controller, each defined once.

In the order of an access: the burst at the subordinate port, the access to one entry, the entry's
place in memory, its metadata, and then the read or the write of it.
"""

from typing import Any

from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, enum, wiring
from amaranth.lib.wiring import Out

from cdma.golden.buddy.address_map import ENTRY_SECTORS, FIELD_BITS, TARGET_BITS
from cdma.golden.buddy.entry import ENTRY_BYTES, METADATA_BITS, SECTOR_BYTES
from cdma.hw.bus.axi import AxiResponse
from cdma.hw.codec.entry.payloads import ENTRY_BITS, EntryParameters
from cdma.hw.config import BuddyConfig

LOGICAL_ADDRESS_BITS = 40
DEVICE_ADDRESS_BITS = 40
BUDDY_ADDRESS_BITS = 64
FRAME_BITS = 28
"""Width of a device frame number, in units of a sixteenth of a page."""
ENTRY_OFFSET_BITS = (ENTRY_BYTES - 1).bit_length()
ENTRY_NUMBER_BITS = LOGICAL_ADDRESS_BITS - ENTRY_OFFSET_BITS
SECTOR_OFFSET_BITS = (SECTOR_BYTES - 1).bit_length()


class AccessStatus(enum.Enum, shape=unsigned(4)):  # type: ignore[call-arg]
    """Outcome of an access to an entry. The first three errors have the numbers of
    `cdma.golden.buddy.address_map.MapStatus`."""

    OK = 0
    OUT_OF_REGION = 1
    BAD_TARGET = 2
    CARVE_OUT_OVERFLOW = 3
    UNSUPPORTED_BURST = 4
    """The burst is FIXED or WRAP."""
    METADATA_UNCORRECTABLE = 5
    """Two bits of the cached metadata have flipped."""
    METADATA_READ = 6
    """Device memory answered the fetch of the metadata with an error."""
    DEVICE_READ = 7
    DEVICE_WRITE = 8
    BUDDY_READ = 9
    BUDDY_WRITE = 10
    CORRUPT_ENTRY = 11
    """The stored bytes are not a valid entry: corrupted, or poisoned after an earlier error."""
    TIMEOUT = 12
    """A memory did not answer in time."""
    DISABLED = 13
    """CONTROL.enable is 0."""
    METADATA_LOST = 14
    """Metadata of some entry are lost; no entry can be trusted until CONTROL.clear."""


class MetadataError(enum.Enum, shape=unsigned(2)):  # type: ignore[call-arg]
    """Reason why the metadata of an entry are unknown."""

    NONE = 0
    UNCORRECTABLE = 1
    """Two bits of the codeword have flipped."""
    READ = 2
    """Device memory answered with an error."""
    TIMEOUT = 3
    """Device memory did not answer in time."""


def set_metadata_status(m: Module, status: Signal, error: Signal) -> None:
    """Drive the status of an access whose lookup ended with `error`; no effect on NONE."""
    with m.Switch(error):
        with m.Case(MetadataError.UNCORRECTABLE):
            m.d.comb += status.eq(AccessStatus.METADATA_UNCORRECTABLE)
        with m.Case(MetadataError.READ):
            m.d.comb += status.eq(AccessStatus.METADATA_READ)
        with m.Case(MetadataError.TIMEOUT):
            m.d.comb += status.eq(AccessStatus.TIMEOUT)


class ErrorReport(wiring.Signature):
    """A failed access, from the reporter's side.

    Members
    -------
    valid
        An access ends with an error in this cycle.
    status
        The error.
    address
        The logical address of the access.
    """

    def __init__(self) -> None:
        super().__init__(
            {"valid": Out(1), "status": Out(AccessStatus), "address": Out(LOGICAL_ADDRESS_BITS)}
        )


# Frontend: bursts, and accesses to single entries.


class BurstType(enum.Enum, shape=unsigned(2)):  # type: ignore[call-arg]
    """AxBURST."""

    FIXED = 0
    INCR = 1
    WRAP = 2


class BurstRequest(data.StructLayout):
    """A burst at the subordinate port: AxID, AxADDR, AxLEN, AxSIZE, AxBURST."""

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__(
            {
                "id": config.id_bits,
                "address": LOGICAL_ADDRESS_BITS,
                "beats": 8,
                "size": 3,
                "burst": BurstType,
            }
        )


class EntryAccess(data.StructLayout):
    """The part of a burst that lies in one entry.

    Members
    -------
    id
        AxID of the burst.
    address
        Logical address of the first byte.
    size
        log2 of the bytes per beat (AxSIZE).
    beats
        Number of the burst's beats in this entry.
    last
        These are the burst's last beats.
    unsupported
        The burst is FIXED or WRAP. Its beats are counted as if it were INCR.
    """

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__(
            {
                "id": config.id_bits,
                "address": LOGICAL_ADDRESS_BITS,
                "size": 3,
                "beats": range(ENTRY_BYTES + 1),
                "last": 1,
                "unsupported": 1,
            }
        )


def last_byte(m: Module, access: Any) -> Signal:
    """Return the 7-bit offset in the entry of the last byte of an access."""
    first_beat = Signal(ENTRY_OFFSET_BITS, name="first_beat")
    last = Signal(ENTRY_OFFSET_BITS, name="last_byte")
    m.d.comb += [
        first_beat.eq(access.address[:ENTRY_OFFSET_BITS] >> access.size),
        last.eq(((first_beat + access.beats) << access.size) - 1),
    ]
    return last


class CollectedWrite(data.StructLayout):
    """One entry's part of a write burst with all of its data.

    Members
    -------
    access
    data
        The entry's bytes, the first one in the low bits; zero where `strobe` is 0.
    strobe
        Bit i tells that byte i is written.
    """

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__({"access": EntryAccess(config), "data": ENTRY_BITS, "strobe": ENTRY_BYTES})


class AdmittedAccess(data.StructLayout):
    """An access for which all buffer space that it needs is reserved.

    Members
    -------
    access
    write
    partial
        The write covers a part of the entry only.
    status
        The access is refused unless OK.
    """

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__(
            {
                "access": EntryAccess(config),
                "write": 1,
                "partial": 1,
                "status": AccessStatus,
            }
        )


class SubordinateReadBeat(data.StructLayout):
    """A beat of a read burst at the subordinate port: RID, RDATA, RRESP, RLAST."""

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__(
            {
                "id": config.id_bits,
                "data": 8 * config.entry.sector_bytes,
                "resp": AxiResponse,
                "last": 1,
            }
        )


class SubordinateWriteResponse(data.StructLayout):
    """The response to a write burst at the subordinate port: BID and BRESP."""

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__({"id": config.id_bits, "resp": AxiResponse})


# Address: pages, and places in memory.


def page_parameters(config: BuddyConfig) -> data.StructLayout:
    """Parameters of a page's entries, of no bits unless entries may be of XC.

    A page whose centre is 0 has no entries of XC.
    """
    return EntryParameters() if config.entry.has_parameters else data.StructLayout({})


class PageEntry(data.StructLayout):
    """An entry of the page table.

    Members
    -------
    fields
        The 24 bits of `cdma.golden.buddy.address_map.PageFields`.
    frame
        Start of the page in device memory, in units of a sixteenth of a page.
    mapped
        The page exists.
    parameters
        As in `page_parameters`.
    """

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__(
            {
                "fields": FIELD_BITS,
                "frame": FRAME_BITS,
                "mapped": 1,
                "parameters": page_parameters(config),
            }
        )


class MapRequest(data.StructLayout):
    """A logical address, and the page table's entry for its page.

    Members
    -------
    address
        Address of any byte of the entry.
    page
    """

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__({"address": LOGICAL_ADDRESS_BITS, "page": PageEntry(config)})


class Mapping(data.StructLayout):
    """The place of an entry in both memories. All members but `status` are undefined if that is
    not OK.

    Members
    -------
    status
        `cdma.golden.buddy.address_map.MapStatus`.
    compressed
        The entry belongs to a compressed page. Otherwise it has no metadata and no buddy slot.
    target
        `cdma.golden.buddy.address_map.Target`; X1 for pages that are not compressed.
    device_address, buddy_address
        The first byte of its slots.
    metadata_address
        The byte of device memory that holds its metadata.
    metadata_upper
        The metadata are in bits 7…4 of that byte.
    parameters
        As in `page_parameters`.
    """

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__(
            {
                "status": 2,
                "compressed": 1,
                "target": TARGET_BITS,
                "device_address": DEVICE_ADDRESS_BITS,
                "buddy_address": BUDDY_ADDRESS_BITS,
                "metadata_address": DEVICE_ADDRESS_BITS,
                "metadata_upper": 1,
                "parameters": page_parameters(config),
            }
        )


class SectorRun(data.StructLayout):
    """Consecutive sectors in memory.

    Members
    -------
    address
        Address of any byte of the first sector.
    sectors
        Number of sectors, 0 to an entry's. An empty run takes no burst.
    """

    def __init__(self, address_bits: int) -> None:
        super().__init__({"address": address_bits, "sectors": range(ENTRY_SECTORS + 1)})


# Metadata.


class MetadataLookup(data.StructLayout):
    """An access to the metadata of an entry.

    Members
    -------
    address
        The byte of device memory that holds them.
    upper
        They are in bits 7…4 of that byte.
    write
        Set them to `metadata`.
    metadata
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "address": DEVICE_ADDRESS_BITS,
                "upper": 1,
                "write": 1,
                "metadata": METADATA_BITS,
            }
        )


class MetadataResult(data.StructLayout):
    """The result of a metadata lookup.

    Members
    -------
    metadata
        Value before the lookup; undefined after an error.
    error
    """

    def __init__(self) -> None:
        super().__init__({"metadata": METADATA_BITS, "error": MetadataError})


# Reads.


class EntryRead(data.StructLayout):
    """An entry to read.

    Members
    -------
    access
    fetch
        The entry is fetched for a partial write, and handed to that instead of to the bus.
    status
        Status of the access so far; nothing is read unless it is OK.
    mapping
    """

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__(
            {
                "access": EntryAccess(config),
                "fetch": 1,
                "status": AccessStatus,
                "mapping": Mapping(config),
            }
        )


class ExpectedEntry(data.StructLayout):
    """An entry whose sectors are outstanding.

    Members
    -------
    access, fetch, status
        As in `EntryRead`.
    metadata
        AS_IT_IS for pages that are not compressed.
    first
        Index in the entry of the first sector from device memory. Non-zero only for pages that are
        not compressed, whose reads cover the sectors of the access alone.
    fetched
        Number of sectors requested from device memory.
    device
        Number of those that belong to the entry: the first ones.
    buddy
        Number of sectors requested from buddy memory.
    eighth
        Target 16x: index of the entry's 8 B in the sector of device memory.
    shared
        The target is 16x: four entries share a sector.
    parameters
        As in `page_parameters`.
    """

    def __init__(self, config: BuddyConfig) -> None:
        sectors = range(ENTRY_SECTORS + 1)
        super().__init__(
            {
                "access": EntryAccess(config),
                "fetch": 1,
                "status": AccessStatus,
                "metadata": METADATA_BITS,
                "first": range(ENTRY_SECTORS),
                "fetched": sectors,
                "device": sectors,
                "buddy": sectors,
                "eighth": 2,
                "shared": 1,
                "parameters": page_parameters(config),
            }
        )


class ReadInfo(data.StructLayout):
    """The access that an assembled entry is for, with its status; see `EntryRead`."""

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__({"access": EntryAccess(config), "fetch": 1, "status": AccessStatus})


class FetchedSector(data.StructLayout):
    """A decompressed sector of an entry that was fetched for a partial write.

    Members
    -------
    data
        Zero if `status` is not OK.
    status
        Status of the fetch, the same on each sector of the entry.
    """

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__({"data": 8 * config.entry.sector_bytes, "status": AccessStatus})


# Writes.


class WriteKind(enum.Enum, shape=unsigned(2)):  # type: ignore[call-arg]
    """Treatment of a write's data."""

    FAILED = 0
    """The access has failed; the data are dropped."""
    UNCOMPRESSED = 1
    """The page is not compressed; the data are written as they are."""
    FULL = 2
    """The write covers the whole entry, which is compressed."""
    PARTIAL = 3
    """The write is merged with the fetched entry, and the result is compressed."""


class EntryWrite(data.StructLayout):
    """An entry to write, without the data.

    Members
    -------
    id, last
        AWID of the burst; its response is sent with the last entry.
    address
        Logical address of the access.
    kind
    status
        Status of the access so far.
    mapping
    """

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__(
            {
                "id": config.id_bits,
                "last": 1,
                "address": LOGICAL_ADDRESS_BITS,
                "kind": WriteKind,
                "status": AccessStatus,
                "mapping": Mapping(config),
            }
        )


class StoredEntry(data.StructLayout):
    """An encoded entry that is to be written to memory.

    Members
    -------
    write
    metadata, data
        As in `KeptEntry`.
    strobe
        Bytes to write: all of them where the page is compressed.
    """

    def __init__(self, config: BuddyConfig) -> None:
        super().__init__(
            {
                "write": EntryWrite(config),
                "metadata": METADATA_BITS,
                "data": ENTRY_BITS,
                "strobe": ENTRY_BYTES,
            }
        )
