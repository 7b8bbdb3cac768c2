"""Rules of the payloads on the paths of reads and writes: what each sink relies on.

The proof of a payload's source asserts them, and that of its sink assumes them. Which sectors of
memory payloads may name is the subject of `contracts.py`.
"""

from typing import Any

from amaranth.hdl import Const, Mux, ResetSignal, Signal, Value

from cdma.golden.buddy.entry import ENTRY_BYTES
from cdma.hw.buddy.payloads import ENTRY_OFFSET_BITS
from cdma.hw.codec.entry.payloads import STATUS_BITS
from cdma.hw.config import BuddyConfig
from tests.formal.bench import Bench, Condition, Contract, Port
from tests.formal.rules import ALWAYS


class SectorsAlike:
    """The sectors of an entry follow one another, and all have the same status.

    Attributes
    ----------
    before : Signal
        Sectors of the present entry that have come before.
    status : Signal
        The status of these.
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.sectors = config.entry.sectors
        self.before = Signal(range(max(self.sectors, 2)), name="sectors_before")
        self.status = Signal(STATUS_BITS, name="status_before")

    def __call__(self, bench: Bench, port: Port) -> list[Condition]:
        status = Value.cast(port.payload.status)
        with bench.m.If(port.moves):
            bench.m.d.sync += [
                self.before.eq(Mux(self.before == self.sectors - 1, 0, self.before + 1)),
                self.status.eq(status),
            ]
        # In reset, an entry may go away before all of its sectors have come.
        return [((self.before != 0) & ~ResetSignal(), status == self.status)]


FETCHED, RESTORED = "FetchedSector, alike", "RestoredSector, alike"
"""Interfaces of `SectorsAlike`."""


def has_beats(config: BuddyConfig, access: Any) -> Value:
    """An access has beats, no wider than the bus, which end in its entry."""
    first = access.address[:ENTRY_OFFSET_BITS] >> access.size
    return (
        (access.beats != 0)
        & (((first + access.beats) << access.size) <= ENTRY_BYTES)
        & ((Const(1) << access.size) <= config.entry.sector_bytes)
    )


def read_info(config: BuddyConfig) -> Contract:
    """`ReadInfo`: of an access that has beats."""

    def rules(_bench: Bench, port: Port) -> list[Condition]:
        return [(ALWAYS, has_beats(config, port.payload.access))]

    return Contract("ReadInfo, with beats", rules)
