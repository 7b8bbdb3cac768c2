"""Numbers of an entry's sectors in device memory and in buddy memory."""

from amaranth.hdl import Array, Module, Signal, Value

from cdma.golden.buddy.address_map import DEVICE_SLOT_BYTES, ENTRY_SECTORS
from cdma.golden.buddy.entry import SECTOR_BYTES, SECTORS, SIZES

_TARGETS = 8
"""Values of a target's three bits; the values of invalid targets are never used."""


def slot_sectors(target: Value) -> Value:
    """Return the number of sectors of device memory that an entry's slot touches."""
    return Array(_padded([-(-slot // SECTOR_BYTES) for slot in DEVICE_SLOT_BYTES]))[target]


def split_sectors(m: Module, target: Value, metadata: Value, *, name: str) -> tuple[Signal, Signal]:
    """Return the numbers of sectors in device memory and in buddy memory that an entry occupies,
    as `split_sectors` of `cdma.golden.buddy.address_map` does.

    Parameters
    ----------
    target
        Target of the compressed page.
    metadata
        Metadata of the entry, of which the size class alone is used.
    """
    sectors = Signal(range(ENTRY_SECTORS + 1), name=f"{name}_sectors")
    device = Signal(range(ENTRY_SECTORS + 1), name=f"{name}_device_sectors")
    buddy = Signal(range(ENTRY_SECTORS + 1), name=f"{name}_buddy_sectors")
    m.d.comb += [sectors.eq(Array(SECTORS)[metadata[:3]]), buddy.eq(sectors - device)]
    with m.Switch(target):
        for number, slot in enumerate(DEVICE_SLOT_BYTES):
            with m.Case(number):
                if slot < SECTOR_BYTES:
                    # A slot smaller than a sector holds an entry completely or not at all.
                    first_too_large = next(k for k, size in enumerate(SIZES) if size > slot)
                    with m.If(metadata[:3] < first_too_large):
                        m.d.comb += device.eq(sectors)
                else:
                    in_slot = slot // SECTOR_BYTES
                    with m.If(sectors > in_slot):
                        m.d.comb += device.eq(in_slot)
                    with m.Else():
                        m.d.comb += device.eq(sectors)
    return device, buddy


def _padded(values: list[int]) -> list[int]:
    return values + [0] * (_TARGETS - len(values))
