"""How many sectors of an entry are in device memory and in buddy memory."""

from amaranth.hdl import Array, Module, Signal, Value

from cdma.golden.buddy.address_map import DEVICE_SLOT_BYTES, ENTRY_SECTORS
from cdma.golden.buddy.entry import SECTOR_BYTES, SECTORS, SIZES

_TARGETS = 8
"""Numbers of targets that three bits can tell; those that are none are never looked at."""


def slot_sectors(target: Value) -> Value:
    """Sectors of device memory that an entry's slot touches."""
    return Array(_padded([-(-slot // SECTOR_BYTES) for slot in DEVICE_SLOT_BYTES]))[target]


def split_sectors(m: Module, target: Value, metadata: Value, *, name: str) -> tuple[Signal, Signal]:
    """Sectors of device and of buddy memory that an entry takes, as `split_sectors` of
    `cdma.golden.buddy.address_map` tells.

    Parameters
    ----------
    target
        Of a compressed page.
    metadata
        Of the entry; its class alone is looked at.
    """
    sectors = Signal(range(ENTRY_SECTORS + 1), name=f"{name}_sectors")
    device = Signal(range(ENTRY_SECTORS + 1), name=f"{name}_device_sectors")
    buddy = Signal(range(ENTRY_SECTORS + 1), name=f"{name}_buddy_sectors")
    m.d.comb += [sectors.eq(Array(SECTORS)[metadata[:3]]), buddy.eq(sectors - device)]
    with m.Switch(target):
        for number, slot in enumerate(DEVICE_SLOT_BYTES):
            with m.Case(number):
                if slot < SECTOR_BYTES:
                    # A slot of less than a sector has all of an entry or nothing of it.
                    least = next(k for k, size in enumerate(SIZES) if size > slot)
                    with m.If(metadata[:3] < least):
                        m.d.comb += device.eq(sectors)
                else:
                    room = slot // SECTOR_BYTES
                    with m.If(sectors > room):
                        m.d.comb += device.eq(room)
                    with m.Else():
                        m.d.comb += device.eq(sectors)
    return device, buddy


def _padded(values: list[int]) -> list[int]:
    return values + [0] * (_TARGETS - len(values))
