"""Pages of every target, in a memory that is small."""

from cdma.golden.buddy.address_map import AddressMap, Target
from cdma.golden.buddy.entry import EntryCodec
from cdma.golden.buddy.memory import BuddyMemory
from cdma.hw.config import BUDDY_PRESETS

CONFIG = BUDDY_PRESETS["tiny"]
PAGE = CONFIG.page_bytes
PLAIN = None
"""Beside the targets: a page that is not compressed."""


def memory_with(data, targets):
    """Pages of all targets that hold the entries; and the entries' addresses."""
    logical = CONFIG.pages * PAGE
    memory = BuddyMemory(
        AddressMap(
            device_bytes=12 * PAGE + logical // 256,
            logical_bytes=logical,
            carve_out_bytes=12 * PAGE,
            gbbr=1 << 40,
            page_bytes=PAGE,
        ),
        EntryCodec(),
    )
    addresses = []
    for target in targets:
        start = memory.allocate(PAGE, target or Target.X1, compressed=target is not PLAIN)
        for k, entry in enumerate(data):
            memory.write(start + 128 * k, entry)
            addresses.append(start + 128 * k)
    return memory, addresses


def mapping_of(where, k):
    """Mapping of a translation's entry k, as the hardware has it."""
    return {
        "status": int(where.status[k]),
        "compressed": int(where.compressed[k]),
        "target": int(where.target[k]),
        "device_address": int(where.device_address[k]),
        "buddy_address": int(where.buddy_address[k]),
        "metadata_address": int(where.metadata_address[k]),
        "metadata_upper": int(where.metadata_shift[k] > 0),
    }
