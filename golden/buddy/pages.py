"""Pages for allocations: which entries of a page table they take, and what these hold."""

from cdma.golden.buddy.address_map import (
    BUDDY_SLOT_BYTES,
    DEVICE_SLOT_BYTES,
    AddressMap,
    BuddyError,
    MapStatus,
    PageFields,
    Target,
)
from cdma.golden.buddy.entry import ENTRY_BYTES


class PageAllocator:
    """Hands out whole pages, one behind the other in logical memory, device memory and carve-out.

    Parameters
    ----------
    address_map : AddressMap

    Attributes
    ----------
    pages : int
        The number of pages that have been handed out; the next one has this number.
    """

    def __init__(self, address_map: AddressMap) -> None:
        self.map = address_map
        self.pages = self._frames = self._buddy_pages = 0

    def allocate(
        self,
        nbytes: int,
        target: Target,
        *,
        compressed: bool = True,
        centre: int = 0,
        pattern: int = 0,
    ) -> tuple[int, list[tuple[int, PageFields, int]]]:
        """Hand out pages for `nbytes`: their logical address; and number, fields and device frame
        of each, with XC's parameters as given.

        Raises
        ------
        BuddyError
            Logical memory, device memory or the carve-out are used up. Nothing is handed out then.
        """
        size = self.map.page_bytes
        target = Target(target) if compressed else Target.X1
        frames = size * DEVICE_SLOT_BYTES[target] // ENTRY_BYTES // self.map.frame_bytes
        units = size * BUDDY_SLOT_BYTES[target] // ENTRY_BYTES // self.map.buddy_unit_bytes
        first, count = self.pages, -(-nbytes // size)
        first_frame, first_buddy_page = self._frames, self._buddy_pages
        address = first * size
        if address + count * size > self.map.logical_bytes:
            raise BuddyError(MapStatus.OUT_OF_REGION, address)
        if (first_frame + count * frames) * self.map.frame_bytes > self.map.metadata_base:
            raise BuddyError(MapStatus.OUT_OF_REGION, address)
        buddy_end = (first_buddy_page + count * units) * self.map.buddy_unit_bytes
        if buddy_end > self.map.carve_out_bytes:
            raise BuddyError(MapStatus.CARVE_OUT_OVERFLOW, address)

        def entry(index: int) -> tuple[int, PageFields, int]:
            # Without buddy slots, the buddy page means nothing and may be too large for its bits.
            buddy_page = first_buddy_page + index * units if units else 0
            fields = PageFields(
                compressed=compressed,
                target=target,
                buddy_page=buddy_page,
                centre=centre,
                pattern=pattern,
            )
            return first + index, fields, first_frame + index * frames

        entries = [entry(index) for index in range(count)]
        self.pages += count
        self._frames += count * frames
        self._buddy_pages += count * units
        return address, entries
