"""The frontend: from AXI4 bursts to admitted accesses, and back to beats and responses."""

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.buddy.frontend.admission import Admission
from cdma.hw.buddy.frontend.burst_splitter import BurstSplitter
from cdma.hw.buddy.frontend.subordinate_port import SubordinatePort
from cdma.hw.buddy.frontend.write_collector import WriteCollector
from cdma.hw.buddy.payloads import (
    LOGICAL_ADDRESS_BITS,
    AdmittedAccess,
    CollectedWrite,
    SubordinateReadBeat,
    SubordinateWriteResponse,
)
from cdma.hw.bus.axi import Axi4Signature
from cdma.hw.config import BuddyConfig


class BuddyFrontend(wiring.Component):
    """Splits bursts into accesses to entries, collects the data of writes, and admits accesses.

        AR ─ split ───────────┐
        AW ─ split ─ collect ─┴─ admission ─ access, write_data
        W  ─────────────┘
        R  ─ read_beats
        B  ─ responses

    Latency: 2 cycles from ARVALID to `access`; 1 cycle from `read_beats` and `responses` to the
    pins. Throughput: an access per cycle, and a beat of data per cycle each way.

    Parameters
    ----------
    config : BuddyConfig

    Members
    -------
    s_axi : `In(Axi4Signature(sector_bytes, 40, id_bits))`
    access : `Out(stream.Signature(AdmittedAccess(config)))`
    write_data : `Out(stream.Signature(CollectedWrite(config)))`
        The data of each write, in the cycle in which `access` has it.
    read_beats : `In(stream.Signature(SubordinateReadBeat(config)))`
    responses : `In(stream.Signature(SubordinateWriteResponse(config)))`
    enable, lost, read_done, write_done, fetch_done, fetch_skipped : `In(1)`
        As in `Admission`.
    idle : `Out(1)`
        No access is outstanding.
    """

    def __init__(self, config: BuddyConfig) -> None:
        self.config = config
        width = config.entry.sector_bytes
        super().__init__(
            {
                "s_axi": In(Axi4Signature(width, LOGICAL_ADDRESS_BITS, config.id_bits)),
                "access": Out(stream.Signature(AdmittedAccess(config))),
                "write_data": Out(stream.Signature(CollectedWrite(config))),
                "read_beats": In(stream.Signature(SubordinateReadBeat(config))),
                "responses": In(stream.Signature(SubordinateWriteResponse(config))),
                "enable": In(1),
                "lost": In(1),
                "read_done": In(1),
                "write_done": In(1),
                "fetch_done": In(1),
                "fetch_skipped": In(1),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        m.submodules.port = port = SubordinatePort(config)
        m.submodules.read_splitter = read_splitter = BurstSplitter(config)
        m.submodules.write_splitter = write_splitter = BurstSplitter(config)
        m.submodules.collector = collector = WriteCollector(config)
        m.submodules.admission = admission = Admission(config)
        wiring.connect(m, wiring.flipped(self.s_axi), port.s_axi)
        wiring.connect(m, port.read, read_splitter.i)
        wiring.connect(m, port.write, write_splitter.i)
        wiring.connect(m, port.write_beats, collector.beats)
        wiring.connect(m, write_splitter.o, collector.i)
        wiring.connect(m, read_splitter.o, admission.read)
        wiring.connect(m, collector.o, admission.write)
        wiring.connect(m, admission.o, wiring.flipped(self.access))
        wiring.connect(m, admission.data, wiring.flipped(self.write_data))
        wiring.connect(m, wiring.flipped(self.read_beats), port.read_beats)
        wiring.connect(m, wiring.flipped(self.responses), port.response)
        m.d.comb += [
            admission.enable.eq(self.enable),
            admission.lost.eq(self.lost),
            admission.read_done.eq(self.read_done),
            admission.write_done.eq(self.write_done),
            admission.fetch_done.eq(self.fetch_done),
            admission.fetch_skipped.eq(self.fetch_skipped),
            admission.response_done.eq(self.responses.valid & self.responses.ready),
            self.idle.eq(admission.idle),
        ]
        return m
