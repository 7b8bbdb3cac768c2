"""Address mapping: a logical address and its page's entry to places in memory (§3.2, §3.4).

    MapRequest ─ SlotFinder ─ Offsets ─ SlotPlacer ─ Extents ─ MapChecker ─ Mapping
                 in the page            in memory              in its region

A page's slots in device memory and in buddy memory, for 128 B entries e0, e1, … and a target of
n sectors (1 for X4, 2 for X2, 3 for X1_33; X16 has slots of 8 B and 128 B):

    device   page_frame ┬──────── e0 ─┬──────── e1 ─┬ …       32n B each
    buddy    buddy_page ┬─ e0 ────────┬─ e1 ────────┬ …       128 − 32n B each
    metadata         ┬e0┬e1┬ …                                a nibble each
"""

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.address_map import (
    BUDDY_PAGE_BITS,
    BUDDY_SLOT_BYTES,
    DEVICE_SLOT_BYTES,
    ENTRY_SECTORS,
    FIELD_BITS,
    METADATA_RATIO,
    TARGET_BITS,
    MapStatus,
    Target,
)
from cdma.golden.buddy.entry import ENTRY_BYTES, SECTOR_BYTES
from cdma.hw.buddy.payloads import (
    BUDDY_ADDRESS_BITS,
    DEVICE_ADDRESS_BITS,
    FRAME_BITS,
    LOGICAL_ADDRESS_BITS,
    Mapping,
    MapRequest,
    page_parameters,
)
from cdma.hw.config import BuddyConfig
from cdma.hw.lib.pipeline import PipelineRegister, SkidBuffer

REGION_BITS = 64
"""Width of the sizes and addresses that software sets."""

_PAGE_FRAMES = 16
_SECTOR_BITS = (SECTOR_BYTES - 1).bit_length()


class Offsets(data.StructLayout):
    """An entry's slots, relative to their pages.

    Members
    -------
    address, page_frame, buddy_page, compressed, target
        As in `Mapping` and `PageEntry`; `target` is X1 where the page's is invalid.
    outside, bad_target
        Errors: the logical address does not exist; the target is none of the five.
    spills
        The entry has a buddy slot.
    device_start, device_end, buddy_start, buddy_end
        Offsets in bytes from the page's start: of the slot's first byte, and of the byte after it.
    parameters
        As in `page_parameters`.
    """

    def __init__(self, config: BuddyConfig) -> None:
        within = range(config.page_bytes + 1)
        super().__init__(
            {
                "address": LOGICAL_ADDRESS_BITS,
                "page_frame": FRAME_BITS,
                "buddy_page": BUDDY_PAGE_BITS,
                "compressed": 1,
                "target": TARGET_BITS,
                "outside": 1,
                "bad_target": 1,
                "spills": 1,
                "device_start": within,
                "device_end": within,
                "buddy_start": within,
                "buddy_end": within,
                "parameters": page_parameters(config),
            }
        )


class Extents(data.StructLayout):
    """An entry's slots in the memories, at full width, so that no sum overflows.

    Members
    -------
    compressed, target, outside, bad_target, spills
        As in `Offsets`.
    device_start, device_end
        Addresses in device memory of the slot's first byte, and of the byte after it.
    buddy_start, buddy_end
        The same in buddy memory, relative to GBBR.
    metadata
        Address in device memory of the byte that holds the metadata.
    metadata_upper, parameters
        As in `Mapping`.
    """

    def __init__(self, config: BuddyConfig) -> None:
        # A page starts below 2^28 of its sixteenths, or 2^20 of its quarters, and is one at most.
        device = range(((1 << FRAME_BITS) + _PAGE_FRAMES) * config.page_bytes // _PAGE_FRAMES)
        buddy = range(((1 << BUDDY_PAGE_BITS) + ENTRY_SECTORS) * config.page_bytes // ENTRY_SECTORS)
        super().__init__(
            {
                "compressed": 1,
                "target": TARGET_BITS,
                "outside": 1,
                "bad_target": 1,
                "spills": 1,
                "device_start": device,
                "device_end": device,
                "buddy_start": buddy,
                "buddy_end": buddy,
                "metadata": REGION_BITS + 1,
                "metadata_upper": 1,
                "parameters": page_parameters(config),
            }
        )


class SlotFinder(wiring.Component):
    """Computes the offsets of an entry's slots in their pages. Combinational.

    Members
    -------
    request : `In(MapRequest(config))`
    logical_bytes : `In(64)`
    offsets : `Out(Offsets(config))`
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "request": In(MapRequest(config)),
                "logical_bytes": In(REGION_BITS),
                "offsets": Out(Offsets(config)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        address = self.request.address
        page = self.request.page
        page_bits = _bits(self.config.page_bytes)
        target = Signal(TARGET_BITS)
        known = Signal(TARGET_BITS)
        bad_target = Signal()
        compressed = Signal()
        # Numbers of the entry and of the next one.
        first = Signal(page_bits - _bits(ENTRY_BYTES))
        behind = Signal(page_bits - _bits(ENTRY_BYTES) + 1)
        m.d.comb += [
            compressed.eq(page.fields[FIELD_BITS - 1]),
            target.eq(page.fields[BUDDY_PAGE_BITS:][:TARGET_BITS]),
            bad_target.eq(compressed & (target >= len(Target))),
            known.eq(Mux(compressed & ~bad_target, target, Target.X1)),
            first.eq(address[_bits(ENTRY_BYTES) : page_bits]),
            behind.eq(first + 1),
            self.offsets.address.eq(address),
            self.offsets.page_frame.eq(page.frame),
            self.offsets.buddy_page.eq(page.fields[:BUDDY_PAGE_BITS]),
            self.offsets.compressed.eq(compressed),
            self.offsets.target.eq(known),
            self.offsets.outside.eq(~page.mapped | (address >= self.logical_bytes)),
            self.offsets.bad_target.eq(bad_target),
            self.offsets.parameters.eq(page.parameters),
        ]
        with m.Switch(known):
            for number in Target:
                device, buddy = DEVICE_SLOT_BYTES[number], BUDDY_SLOT_BYTES[number]
                with m.Case(number):
                    m.d.comb += [
                        self.offsets.spills.eq(buddy > 0),
                        self.offsets.device_start.eq(_times(first, device)),
                        self.offsets.device_end.eq(_times(behind, device)),
                        self.offsets.buddy_start.eq(_times(first, buddy)),
                        self.offsets.buddy_end.eq(_times(behind, buddy)),
                    ]
        return m


class SlotPlacer(wiring.Component):
    """Computes the addresses of an entry's slots and metadata. Combinational.

    Members
    -------
    offsets : `In(Offsets(config))`
    metadata_base : `In(64)`
    extents : `Out(Extents(config))`
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "offsets": In(Offsets(config)),
                "metadata_base": In(REGION_BITS),
                "extents": Out(Extents(config)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        offsets, extents = self.offsets, self.extents
        page_bits = _bits(self.config.page_bytes)
        device_page = offsets.page_frame << page_bits - _bits(_PAGE_FRAMES)
        buddy_page = offsets.buddy_page << page_bits - _bits(ENTRY_SECTORS)
        metadata = offsets.address[_bits(METADATA_RATIO) :]
        m.d.comb += [
            extents.compressed.eq(offsets.compressed),
            extents.target.eq(offsets.target),
            extents.outside.eq(offsets.outside),
            extents.bad_target.eq(offsets.bad_target),
            extents.spills.eq(offsets.spills),
            extents.device_start.eq(device_page + offsets.device_start),
            extents.device_end.eq(device_page + offsets.device_end),
            extents.buddy_start.eq(buddy_page + offsets.buddy_start),
            extents.buddy_end.eq(buddy_page + offsets.buddy_end),
            # The low five bits that software writes are ignored: metadata are sector-aligned.
            extents.metadata.eq(
                Cat(
                    metadata[:_SECTOR_BITS],
                    self.metadata_base[_SECTOR_BITS:] + metadata[_SECTOR_BITS:],
                )
            ),
            extents.metadata_upper.eq(offsets.address[_bits(ENTRY_BYTES)]),
            extents.parameters.eq(offsets.parameters),
        ]
        return m


class MapChecker(wiring.Component):
    """Checks that an entry's slots lie in their regions. Combinational.

    Members
    -------
    extents : `In(Extents(config))`
    metadata_base, carve_out_bytes, gbbr : `In(64)`
    mapping : `Out(Mapping(config))`
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "extents": In(Extents(config)),
                "metadata_base": In(REGION_BITS),
                "carve_out_bytes": In(REGION_BITS),
                "gbbr": In(REGION_BITS),
                "mapping": Out(Mapping(config)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        extents, mapping = self.extents, self.mapping
        beyond = Signal()
        overflow = Signal()
        # The low five bits that software writes are ignored: metadata and carve-out are
        # sector-aligned. Buddy slots are whole sectors.
        metadata_start = Signal(REGION_BITS - _SECTOR_BITS)
        gbbr = Signal(REGION_BITS - _SECTOR_BITS)
        buddy_start = Signal(BUDDY_ADDRESS_BITS - _SECTOR_BITS)
        buddy_end = Signal(BUDDY_ADDRESS_BITS - _SECTOR_BITS + 1)
        m.d.comb += [
            metadata_start.eq(self.metadata_base[_SECTOR_BITS:]),
            gbbr.eq(self.gbbr[_SECTOR_BITS:]),
            # If the address of the metadata is valid, so are those of the slots below them.
            beyond.eq(
                (extents.device_end > metadata_start << _SECTOR_BITS)
                | extents.metadata[DEVICE_ADDRESS_BITS:].any()
            ),
            buddy_start.eq(gbbr + extents.buddy_start[_SECTOR_BITS:]),
            buddy_end.eq(gbbr + extents.buddy_end[_SECTOR_BITS:]),
            overflow.eq(
                extents.spills
                & (
                    (extents.buddy_end > self.carve_out_bytes)
                    | (buddy_end[-1] & buddy_end[:-1].any())
                )
            ),
            mapping.compressed.eq(extents.compressed),
            mapping.target.eq(extents.target),
            mapping.device_address.eq(extents.device_start),
            mapping.buddy_address.eq(buddy_start << _SECTOR_BITS),
            mapping.metadata_address.eq(extents.metadata),
            mapping.metadata_upper.eq(extents.metadata_upper),
            mapping.parameters.eq(extents.parameters),
        ]
        with m.If(extents.outside):
            m.d.comb += mapping.status.eq(MapStatus.OUT_OF_REGION)
        with m.Elif(extents.bad_target):
            m.d.comb += mapping.status.eq(MapStatus.BAD_TARGET)
        with m.Elif(beyond):
            m.d.comb += mapping.status.eq(MapStatus.OUT_OF_REGION)
        with m.Elif(overflow):
            m.d.comb += mapping.status.eq(MapStatus.CARVE_OUT_OVERFLOW)
        with m.Else():
            m.d.comb += mapping.status.eq(MapStatus.OK)
        return m


class SectorMapper(wiring.Component):
    """Maps entries to their slots and metadata, as `cdma.golden.buddy.address_map.AddressMap` does.

    Addresses that cannot be represented are refused like those outside their region: device memory
    ends at 2^40, and a carve-out at 2^64. A page that is not mapped is OUT_OF_REGION, whatever
    other error it has.

    Latency: `translation_latency` = 3 cycles. Throughput: a translation per cycle. Resources: the
    payloads of three stages; no path in a stage passes two 64-bit adders or comparators in series.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    i : `In(stream.Signature(MapRequest(config)))`
    o : `Out(stream.Signature(Mapping(config)))`
    logical_bytes, metadata_base, carve_out_bytes, gbbr : `In(64)`
        As in `cdma.golden.buddy.address_map.AddressMap`. Stable during translations. The low five
        bits of `metadata_base` and `gbbr` are ignored.
    """

    translation_latency = 3

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(MapRequest(config))),
                "o": Out(stream.Signature(Mapping(config))),
                "logical_bytes": In(REGION_BITS),
                "metadata_base": In(REGION_BITS),
                "carve_out_bytes": In(REGION_BITS),
                "gbbr": In(REGION_BITS),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.finder = finder = SlotFinder(self.config)
        m.submodules.found = found = PipelineRegister(Offsets(self.config))
        m.submodules.placer = placer = SlotPlacer(self.config)
        m.submodules.placed = placed = PipelineRegister(Extents(self.config))
        m.submodules.checker = checker = MapChecker(self.config)
        # Cuts the path from a hazard, which comes late, to what is admitted.
        m.submodules.checked = checked = SkidBuffer(Mapping(self.config))
        m.d.comb += [
            finder.request.eq(self.i.payload),
            finder.logical_bytes.eq(self.logical_bytes),
            found.i.valid.eq(self.i.valid),
            found.i.payload.eq(finder.offsets),
            self.i.ready.eq(found.i.ready),
            placer.offsets.eq(found.o.payload),
            placer.metadata_base.eq(self.metadata_base),
            placed.i.valid.eq(found.o.valid),
            placed.i.payload.eq(placer.extents),
            found.o.ready.eq(placed.i.ready),
            checker.extents.eq(placed.o.payload),
            checker.metadata_base.eq(self.metadata_base),
            checker.carve_out_bytes.eq(self.carve_out_bytes),
            checker.gbbr.eq(self.gbbr),
            checked.i.valid.eq(placed.o.valid),
            checked.i.payload.eq(checker.mapping),
            placed.o.ready.eq(checked.i.ready),
        ]
        wiring.connect(m, checked.o, wiring.flipped(self.o))
        return m


def _bits(size: int) -> int:
    """Return the width of an offset in an object of `size`, a power of two."""
    return (size - 1).bit_length()


def _times(value: Value, factor: int) -> Value:
    """Return the product as a sum of shifts."""
    product: Value = C(0)
    for k in range(factor.bit_length()):
        if factor >> k & 1:
            product = product + (value << k)
    return product
