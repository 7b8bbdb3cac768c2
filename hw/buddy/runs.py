"""Runs of sectors to and from memory, as bursts that cross no 4 KiB boundary."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.address_map import ENTRY_SECTORS
from cdma.golden.buddy.entry import ENTRY_BYTES, SECTOR_BYTES
from cdma.hw.bus.burst import PAGE_BYTES, BusError, ReadRequest, WriteBeat
from cdma.hw.codec.entry.payloads import ENTRY_BITS
from cdma.hw.lib.stream import Fifo, Register

SECTOR_OFFSET_BITS = 5
PAGE_SECTORS = PAGE_BYTES // SECTOR_BYTES
AHEAD = 4
"""Runs whose requests may be out before their beats."""


class SectorRun(data.StructLayout):
    """Sectors that follow one another.

    Members
    -------
    address
        Of the first one, or of any byte in it.
    sectors
        How many, up to an entry's; none is no run at all.
    """

    def __init__(self, address_bits: int) -> None:
        super().__init__({"address": address_bits, "sectors": range(ENTRY_SECTORS + 1)})


class RunCutter(wiring.Component):
    """Makes one or two bursts of a run, or none.

    Latency: 0 cycles. Throughput: a burst per cycle; a run without sectors takes a cycle too.

    Parameters
    ----------
    address_bits

    Members
    -------
    i : `In(stream.Signature(SectorRun(address_bits)))`
    o : `Out(stream.Signature(ReadRequest(address_bits)))`
        Write requests have the same shape.
    """

    def __init__(self, address_bits: int) -> None:
        self.address_bits = address_bits
        super().__init__(
            {
                "i": In(stream.Signature(SectorRun(address_bits))),
                "o": Out(stream.Signature(ReadRequest(address_bits))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        run = self.i.payload
        second = Signal()
        end = Signal(range(PAGE_SECTORS + ENTRY_SECTORS + 1))
        crosses = Signal()
        asks_more = Signal()
        first_sectors = Signal(range(ENTRY_SECTORS + 1))
        page = Signal(self.address_bits - 12)
        in_page = Signal(12 - SECTOR_OFFSET_BITS)
        m.d.comb += [
            Cat(in_page, page).eq(run.address[SECTOR_OFFSET_BITS:]),
            end.eq(in_page + run.sectors),
            crosses.eq(end > PAGE_SECTORS),
            asks_more.eq(crosses & ~second),
            first_sectors.eq(PAGE_SECTORS - in_page),
            self.o.valid.eq(self.i.valid & (run.sectors != 0)),
            self.i.ready.eq((run.sectors == 0) | (self.o.ready & ~asks_more)),
        ]
        with m.If(second):
            m.d.comb += [
                self.o.payload.address.eq(Cat(C(0, 12), page + 1)),
                self.o.payload.beats.eq(run.sectors - first_sectors - 1),
            ]
        with m.Else():
            m.d.comb += [
                self.o.payload.address.eq(Cat(C(0, SECTOR_OFFSET_BITS), in_page, page)),
                self.o.payload.beats.eq(Mux(crosses, first_sectors, run.sectors) - 1),
            ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += second.eq(asks_more)
        return m


class WriteRun(data.StructLayout):
    """Sectors to write.

    Members
    -------
    run
    data
        The sectors, the first in the low bits.
    strobe
        Which of their bytes to write.
    """

    def __init__(self, address_bits: int) -> None:
        super().__init__(
            {"run": SectorRun(address_bits), "data": ENTRY_BITS, "strobe": ENTRY_BYTES}
        )


class RunWriter(wiring.Component):
    """Writes runs of sectors, and tells for each how that ended.

    Latency: 1 cycle to the request, 2 to the first beat. Throughput: a sector per cycle; a run
    takes at least a cycle.

    Parameters
    ----------
    address_bits
    runs
        How many may be under way. For so many there is room for the outcomes, so that answers do
        not wait for those to be taken.

    Members
    -------
    i : `In(stream.Signature(WriteRun(address_bits)))`
    request : `Out(stream.Signature(ReadRequest(address_bits)))`
    beats : `Out(stream.Signature(WriteBeat(32)))`
    response : `In(stream.Signature(BusError))`
    o : `Out(stream.Signature(BusError))`
        For each run, also one without sectors, in order: the last error among its bursts.
    """

    def __init__(self, address_bits: int, runs: int) -> None:
        self.address_bits = address_bits
        self.runs = runs
        super().__init__(
            {
                "i": In(stream.Signature(WriteRun(address_bits))),
                "request": Out(stream.Signature(ReadRequest(address_bits))),
                "beats": Out(stream.Signature(WriteBeat(SECTOR_BYTES))),
                "response": In(stream.Signature(BusError)),
                "o": Out(stream.Signature(BusError)),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.asking = asking = Register(SectorRun(self.address_bits))
        m.submodules.cutter = cutter = RunCutter(self.address_bits)
        m.submodules.sending = sending = Fifo(WriteRun(self.address_bits), AHEAD)
        m.submodules.bursts = bursts = Fifo(2, self.runs)
        m.submodules.outcomes = outcomes = Fifo(BusError, self.runs)
        wiring.connect(m, outcomes.o, wiring.flipped(self.o))
        wiring.connect(m, cutter.o, wiring.flipped(self.request))
        m.d.comb += [
            self.i.ready.eq(asking.i.ready & sending.i.ready),
            asking.i.valid.eq(self.i.valid & sending.i.ready),
            asking.i.payload.eq(self.i.payload.run),
            sending.i.valid.eq(self.i.valid & asking.i.ready),
            sending.i.payload.eq(self.i.payload),
        ]

        # Requests run ahead of the beats, which a bus takes some cycles after them.
        count = Signal(2)
        asked = Signal()
        m.d.comb += [
            cutter.i.valid.eq(asking.o.valid & bursts.i.ready),
            cutter.i.payload.eq(asking.o.payload),
            asked.eq(cutter.i.valid & cutter.i.ready),
            asking.o.ready.eq(asked),
            bursts.i.valid.eq(asked),
            bursts.i.payload.eq(count + (cutter.o.valid & cutter.o.ready)),
        ]
        m.d.sync += count.eq(Mux(asked, 0, bursts.i.payload))

        run = sending.o.payload.run
        beat = Signal(range(ENTRY_SECTORS))
        place = Signal(12 - SECTOR_OFFSET_BITS)
        final = Signal()
        sends = Signal()
        m.d.comb += [
            final.eq(beat + 1 == run.sectors),
            place.eq(run.address[SECTOR_OFFSET_BITS:12] + beat),
            self.beats.valid.eq(sending.o.valid & (run.sectors != 0)),
            self.beats.payload.data.eq(sending.o.payload.data.word_select(beat, 8 * SECTOR_BYTES)),
            self.beats.payload.strobe.eq(sending.o.payload.strobe.word_select(beat, SECTOR_BYTES)),
            self.beats.payload.last.eq(final | (place == PAGE_SECTORS - 1)),
            sends.eq(self.beats.valid & self.beats.ready),
            sending.o.ready.eq((run.sectors == 0) | (sends & final)),
        ]
        with m.If(sends):
            m.d.sync += beat.eq(Mux(final, 0, beat + 1))

        # Answers are always taken: behind them may be the answer to a write of metadata for which
        # whoever takes the outcomes waits.
        answered = Signal(2)
        earlier = Signal(BusError)
        ended = Signal()
        expects = Signal()
        response = self.response.payload
        m.d.comb += [
            expects.eq(bursts.o.valid & (bursts.o.payload != 0)),
            ended.eq(
                bursts.o.valid
                & ((bursts.o.payload == 0) | (answered + self.response.valid == bursts.o.payload))
            ),
            outcomes.i.valid.eq(ended),
            outcomes.i.payload.eq(Mux(~expects | (response == BusError.NONE), earlier, response)),
            self.response.ready.eq(expects & outcomes.i.ready),
            bursts.o.ready.eq(ended & outcomes.i.ready),
        ]
        with m.If(bursts.o.ready):
            m.d.sync += [answered.eq(0), earlier.eq(BusError.NONE)]
        with m.Elif(self.response.valid & self.response.ready):
            m.d.sync += answered.eq(answered + 1)
            with m.If(response != BusError.NONE):
                m.d.sync += earlier.eq(response)
        return m
