"""The buddy memory controller's registers, as `registers.rdl` describes them."""

from pathlib import Path

from cdma.golden.buddy.entry import BEST_OF_THREE, MODES
from cdma.hw.config import BuddyConfig, EntryConfig
from cdma.hw.registers.file import RegisterFile
from cdma.hw.registers.map import Register, RegisterSource
from cdma.hw.registers.map import register_map as map_of


def register_source(
    config: BuddyConfig | None = None, *, name: str = "cdma_buddy"
) -> RegisterSource:
    """Return the path of the controller's register description; `narrow` without a configuration.

    `name` is the block's top module's.
    """
    config = config or BuddyConfig()
    return RegisterSource(
        path=Path(__file__).with_name("registers.rdl"),
        top="cdma_buddy",
        name=name,
        parameters={
            "SECTOR_BYTES": config.entry.sector_bytes,
            "MODE": MODES.index(config.entry.mode),
            "ELEMENT_BYTES": config.entry.element_bytes,
            "LOG2_PAGE_BYTES": (config.page_bytes - 1).bit_length(),
            "PAGES": config.pages,
            "CACHE_BYTES": config.cache.capacity_bytes,
            "CACHE_SLICES": config.cache.slices,
            "CACHE_WAYS": config.cache.ways,
            "CACHE_LINE_BYTES": config.cache.line_bytes,
        },
    )


WITH_ALL_REGISTERS = BuddyConfig(entry=EntryConfig(mode=BEST_OF_THREE))
"""A configuration that has every register: what software has to know."""


def register_map(config: BuddyConfig | None = None) -> dict[str, Register]:
    """All registers by name, in the order of their offsets; see `register_source`."""
    return map_of(register_source(config))


class BuddyRegisters(RegisterFile):
    # Described by `RegisterFile`, for readers and in the Verilog.

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(register_source(config))
