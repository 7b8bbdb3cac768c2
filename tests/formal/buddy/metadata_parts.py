"""Stand-ins for parts of the metadata cache that make it visible to a proof, or narrow.

The parts stand as they are, but for queues whose items are always at the same positions, memories
that show what they hold, and codewords whose check bits are zero: no bits flip in these proofs, so
a decoder gives what an encoder was given. `StraightFifo` has a proof, and codewords are simulated.
"""

from types import SimpleNamespace
from typing import Any

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import memory

from cdma.hw.lib.codes.ecc import EccDecoder, EccEncoder
from cdma.hw.lib.ram import Ram
from tests.formal.queues import StraightFifo, open_fifos

PARTS = "cdma.hw.buddy.metadata"
NARROW = {
    "ROW_BITS": 16,
    "WORD_BITS": 8,
    "ROW_WORDS": 2,
    "WORD_PLACE_BITS": 1,
    "ROW_PLACE_BITS": 2,
}
"""A row of two words of two nibbles each."""


class OpenMemory(memory.Memory):
    """A memory that shows what it holds.

    Attributes
    ----------
    rows : list[Any]
        What is at each address.
    reads : list[memory.ReadPort]
        The ports that its user has made.
    """

    def __init__(self, *, shape: Any, depth: int, init: Any) -> None:
        super().__init__(shape=shape, depth=depth, init=init)
        self.reads: list[memory.ReadPort] = []
        self._views = [super(OpenMemory, self).read_port(domain="comb") for _ in range(depth)]
        self.rows = [view.data for view in self._views]

    def read_port(self, **options: Any) -> memory.ReadPort:
        self.reads.append(super().read_port(**options))
        return self.reads[-1]

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.memory = super().elaborate(platform)
        m.d.comb += [view.addr.eq(address) for address, view in enumerate(self._views)]
        return m


class OpenRam(Ram):
    """A `Ram` that shows what it holds, in `rows`."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__(width, depth)
        self.rows = [Signal(width, name=f"row_{k}") for k in range(depth)]

    def elaborate(self, platform) -> Module:
        m = super().elaborate(platform)
        words, _src_loc = m._named_submodules["words"]
        for address, row in enumerate(self.rows):
            port = words.read_port(domain="comb")
            m.d.comb += [port.addr.eq(address), row.eq(port.data)]
        return m


class PlainEncoder(EccEncoder):
    """An `EccEncoder` of codewords whose check bits are zero."""

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.comb += self.o.eq(self.i)
        return m


class PlainDecoder(EccDecoder):
    """An `EccDecoder` of the same, in which no bits have flipped."""

    def elaborate(self, platform) -> Module:
        m = Module()
        m.d.comb += self.o.eq(self.i)
        return m


def open_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give slices of the cache opened queues and memories, and plain codewords."""
    open_fifos(monkeypatch, f"{PARTS}.slice", f"{PARTS}.evictions", fifo=StraightFifo)
    monkeypatch.setattr(f"{PARTS}.mshr.Ram", OpenRam)
    for part in ("tags", "store"):
        monkeypatch.setattr(f"{PARTS}.{part}.memory", SimpleNamespace(Memory=OpenMemory))
        monkeypatch.setattr(f"{PARTS}.{part}.EccEncoder", PlainEncoder)
        monkeypatch.setattr(f"{PARTS}.{part}.EccDecoder", PlainDecoder)


def narrow_rows(monkeypatch: pytest.MonkeyPatch, *, line_bits: int) -> None:
    """Make rows narrow, and the numbers of lines of a cache with one slice `line_bits` wide.

    A line of 32 bytes is still one row. Of its nibbles, only the first four exist.
    """
    for part in ("line", "mshr", "evictions", "store"):
        for name, width in NARROW.items():
            monkeypatch.setattr(f"{PARTS}.{part}.{name}", width, raising=False)
    for part in ("slice", "mshr"):
        monkeypatch.setattr(f"{PARTS}.{part}.ROW_BYTES", NARROW["ROW_BITS"] // 8)
    monkeypatch.setattr(f"{PARTS}.line.DEVICE_ADDRESS_BITS", 5 + line_bits)
