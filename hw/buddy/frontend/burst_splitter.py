"""Bursts at the subordinate port, split into accesses to single entries."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.entry import ENTRY_BYTES
from cdma.hw.buddy.payloads import (
    ENTRY_NUMBER_BITS,
    ENTRY_OFFSET_BITS,
    BurstRequest,
    BurstType,
    EntryAccess,
)
from cdma.hw.config import BuddyConfig
from cdma.hw.lib.pipeline import PipelineRegister


class BurstSplitter(wiring.Component):
    """Splits bursts into accesses to single entries.

    Latency: 1 cycle. Throughput: an access per cycle.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    i : `In(stream.Signature(BurstRequest(config)))`
    o : `Out(stream.Signature(EntryAccess(config)))`
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(BurstRequest(config))),
                "o": Out(stream.Signature(EntryAccess(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.accesses = accesses = PipelineRegister(EntryAccess(self.config))
        wiring.connect(m, accesses.o, wiring.flipped(self.o))
        burst = self.i.payload
        access = accesses.i.payload

        # After the first access of a burst, each access starts at the start of its entry.
        continues = Signal()
        next_number = Signal(ENTRY_NUMBER_BITS, reset_less=True)
        next_beats_left = Signal(range(257), reset_less=True)
        beats_left = Signal(range(257))
        offset = Signal(ENTRY_OFFSET_BITS)
        beats_to_end = Signal(range(ENTRY_BYTES + 1))
        last = Signal()
        m.d.comb += [
            beats_left.eq(Mux(continues, next_beats_left, burst.beats + 1)),
            offset.eq(Mux(continues, 0, burst.address[:ENTRY_OFFSET_BITS])),
            # An unaligned first beat takes the place of an aligned one.
            beats_to_end.eq((ENTRY_BYTES >> burst.size) - (offset >> burst.size)),
            last.eq(beats_left <= beats_to_end),
            accesses.i.valid.eq(self.i.valid),
            self.i.ready.eq(accesses.i.ready & last),
            access.id.eq(burst.id),
            access.address.eq(
                Mux(
                    continues,
                    Cat(C(0, ENTRY_OFFSET_BITS), next_number),
                    burst.address,
                )
            ),
            access.size.eq(burst.size),
            access.beats.eq(Mux(last, beats_left, beats_to_end)),
            access.last.eq(last),
            access.unsupported.eq(burst.burst != BurstType.INCR),
        ]
        with m.If(accesses.i.valid & accesses.i.ready):
            m.d.sync += [
                continues.eq(~last),
                next_beats_left.eq(beats_left - beats_to_end),
                next_number.eq(Mux(continues, next_number, burst.address[ENTRY_OFFSET_BITS:]) + 1),
            ]
        return m
