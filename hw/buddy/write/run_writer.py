"""Runs of sectors, written to memory."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.address_map import ENTRY_SECTORS
from cdma.golden.buddy.entry import ENTRY_BYTES, SECTOR_BYTES
from cdma.hw.buddy.address.sector_runs import PAGE_SECTORS, RunSplitter
from cdma.hw.buddy.payloads import SECTOR_OFFSET_BITS, SectorRun
from cdma.hw.bus.burst import BusError, ReadRequest, WriteBeat
from cdma.hw.codec.entry.payloads import ENTRY_BITS
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.pipeline import PipelineRegister

RUNS_AHEAD = 4
"""Runs whose requests may be issued before their beats."""


class WriteRun(data.StructLayout):
    """A run of sectors to write.

    Members
    -------
    run
    data
        The sectors, the first one in the low bits.
    strobe
        Bit i tells that byte i is written.
    """

    def __init__(self, address_bits: int) -> None:
        super().__init__(
            {"run": SectorRun(address_bits), "data": ENTRY_BITS, "strobe": ENTRY_BYTES}
        )


class RunWriter(wiring.Component):
    """Writes runs of sectors, and reports the outcome of each.

    Latency: 1 cycle to the request, 2 to the first beat. Throughput: a sector per cycle; a run
    takes at least a cycle.

    Parameters
    ----------
    address_bits
    runs
        Outstanding runs, at most. As many outcomes are buffered, so that bus responses never wait
        for them to be accepted.

    Members
    -------
    i : `In(stream.Signature(WriteRun(address_bits)))`
    request : `Out(stream.Signature(ReadRequest(address_bits)))`
    beats : `Out(stream.Signature(WriteBeat(32)))`
    response : `In(stream.Signature(BusError))`
    o : `Out(stream.Signature(BusError))`
        One for each run, empty ones too, in order: the last error among its bursts.
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
        m.submodules.run_requests = run_requests = PipelineRegister(SectorRun(self.address_bits))
        m.submodules.splitter = splitter = RunSplitter(self.address_bits)
        m.submodules.run_data = run_data = Fifo(WriteRun(self.address_bits), RUNS_AHEAD)
        m.submodules.bursts = bursts = Fifo(2, self.runs)
        m.submodules.outcomes = outcomes = Fifo(BusError, self.runs)
        wiring.connect(m, outcomes.o, wiring.flipped(self.o))
        wiring.connect(m, splitter.o, wiring.flipped(self.request))
        m.d.comb += [
            self.i.ready.eq(run_requests.i.ready & run_data.i.ready),
            run_requests.i.valid.eq(self.i.valid & run_data.i.ready),
            run_requests.i.payload.eq(self.i.payload.run),
            run_data.i.valid.eq(self.i.valid & run_requests.i.ready),
            run_data.i.payload.eq(self.i.payload),
        ]

        # Requests: they run ahead of the beats, which a bus accepts some cycles after them.
        count = Signal(2)
        requested = Signal()
        m.d.comb += [
            splitter.i.valid.eq(run_requests.o.valid & bursts.i.ready),
            splitter.i.payload.eq(run_requests.o.payload),
            requested.eq(splitter.i.valid & splitter.i.ready),
            run_requests.o.ready.eq(requested),
            bursts.i.valid.eq(requested),
            bursts.i.payload.eq(count + (splitter.o.valid & splitter.o.ready)),
        ]
        m.d.sync += count.eq(Mux(requested, 0, bursts.i.payload))

        # Beats.
        run = run_data.o.payload.run
        beat = Signal(range(ENTRY_SECTORS))
        page_sector = Signal(12 - SECTOR_OFFSET_BITS)
        run_last = Signal()
        beat_fire = Signal()
        m.d.comb += [
            run_last.eq(beat + 1 == run.sectors),
            page_sector.eq(run.address[SECTOR_OFFSET_BITS:12] + beat),
            self.beats.valid.eq(run_data.o.valid & (run.sectors != 0)),
            self.beats.payload.data.eq(run_data.o.payload.data.word_select(beat, 8 * SECTOR_BYTES)),
            self.beats.payload.strobe.eq(run_data.o.payload.strobe.word_select(beat, SECTOR_BYTES)),
            self.beats.payload.last.eq(run_last | (page_sector == PAGE_SECTORS - 1)),
            beat_fire.eq(self.beats.valid & self.beats.ready),
            run_data.o.ready.eq((run.sectors == 0) | (beat_fire & run_last)),
        ]
        with m.If(beat_fire):
            m.d.sync += beat.eq(Mux(run_last, 0, beat + 1))

        # Responses are always accepted: behind them may be the response to a write of metadata,
        # for which the receiver of the outcomes waits.
        responses = Signal(2)
        earlier = Signal(BusError)
        run_done = Signal()
        response_outstanding = Signal()
        response = self.response.payload
        m.d.comb += [
            response_outstanding.eq(bursts.o.valid & (bursts.o.payload != 0)),
            run_done.eq(
                bursts.o.valid
                & ((bursts.o.payload == 0) | (responses + self.response.valid == bursts.o.payload))
            ),
            outcomes.i.valid.eq(run_done),
            outcomes.i.payload.eq(
                Mux(~response_outstanding | (response == BusError.NONE), earlier, response)
            ),
            self.response.ready.eq(response_outstanding & outcomes.i.ready),
            bursts.o.ready.eq(run_done & outcomes.i.ready),
        ]
        with m.If(bursts.o.ready):
            m.d.sync += [responses.eq(0), earlier.eq(BusError.NONE)]
        with m.Elif(self.response.valid & self.response.ready):
            m.d.sync += responses.eq(responses + 1)
            with m.If(response != BusError.NONE):
                m.d.sync += earlier.eq(response)
        return m
