"""The third code of entries: a line of XC without its header, if it fits 96 B."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.xc_entry import CODE_BITS, KEPT_BYTES
from cdma.hw.codec.entry.payloads import EntrySector
from cdma.hw.codec.xc.classes import Parameters
from cdma.hw.codec.xc.compressor.pipeline import add_stages
from cdma.hw.codec.xc.compressor.placer import PlacedSector
from cdma.hw.codec.xc.compressor.window import line_of
from cdma.hw.codec.xc.payloads import own_config
from cdma.hw.config import CodecConfig, EntryConfig


class XcCode(data.StructLayout):
    """An entry's XC code.

    Members
    -------
    fits
        The entry can be kept so: its page has a centre, it is not all zeros, and its fields leave
        the last bit to the kind.
    data
        What is kept of it then, the first byte in the low bits.
    """

    def __init__(self) -> None:
        super().__init__({"fits": 1, "data": 8 * KEPT_BYTES})


class EntryWindow(wiring.Component):
    """Joins the sectors' parts of an entry, and puts the kind into its last bit.

    Latency: 0 cycles: the code is there with the entry's last sector. Throughput: a sector per
    cycle.

    Resources: an entry of registers but for sectors that are entries, and for each bit the gates to
    join four fields.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    i : `In(stream.Signature(PlacedSector(config)))`
    o : `Out(stream.Signature(XcCode()))`
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(PlacedSector(config))),
                "o": Out(stream.Signature(XcCode())),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        sector = self.i.payload
        x_fire = Signal()
        whole = line_of(m, self.config, sector, x_fire)
        m.d.comb += [
            self.o.valid.eq(self.i.valid & sector.ends),
            self.i.ready.eq(~sector.ends | self.o.ready),
            x_fire.eq(self.i.valid & self.i.ready),
            self.o.payload.fits.eq(~sector.plan.raw),
            # No field of an entry that fits reaches the kind.
            self.o.payload.data.eq(Cat(whole[:CODE_BITS], sector.plan.sparse)),
        ]
        return m


class XcEntryCompressor(wiring.Component):
    """Codes entries as `cdma.golden.buddy.xc_entry` does, a sector per cycle.

    The pieces are those of `XcCompressor`, with a meter that knows an entry's room, and without
    what makes beats of a line. Entries of pages without a centre are taken for zeros, which no
    entry of XC is.

        EntrySector -> ClassCoder -+-> LineMeter -------- LinePlan --v
                                   +-> entry of registers -> counter -> FieldPlacer -> EntryWindow

    Latency: a code is valid `code_latency` cycles after the entry's first sector was taken, if its
    sectors were taken in consecutive cycles: 11, 7 and 5 cycles for sectors of 32, 64 and 128 B.
    Throughput: a sector per cycle while codes are taken when offered.

    Resources: two entries of registers, and those of the stages.

    Parameters
    ----------
    config : EntryConfig

    Attributes
    ----------
    code_latency : int
        Cycles from an entry's first sector to its code.

    Members
    -------
    parameters : `In(Parameters())`
        Those of the page whose sector is offered at `i`; centre 0 if it has no entries of XC.
    i : `In(stream.Signature(EntrySector(config)))`
    o : `Out(stream.Signature(XcCode()))`
        In the order of the entries.
    """

    def __init__(self, config: EntryConfig) -> None:
        self.config = config
        self.code_latency = 2 * config.sectors + 3
        super().__init__(
            {
                "parameters": In(Parameters()),
                "i": In(stream.Signature(EntrySector(config))),
                "o": Out(stream.Signature(XcCode())),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = own_config(self.config.zvc)
        window = EntryWindow(config)
        coder = add_stages(m, config, window, code_bits=CODE_BITS)
        sector = coder.i.payload
        m.d.comb += [
            coder.i.valid.eq(self.i.valid),
            self.i.ready.eq(coder.i.ready),
            sector.elements.eq(Mux(self.parameters.centre.any(), self.i.payload.data, 0)),
            sector.parameters.eq(self.parameters),
        ]
        wiring.connect(m, window.o, wiring.flipped(self.o))
        return m
