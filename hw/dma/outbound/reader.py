"""Lines from memory: legal bursts to the bus, and sectors that begin where the line begins."""

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.bus.burst import PAGE_BYTES, BusError, ReadBeat, ReadRequest
from cdma.hw.codec.payloads import Sector
from cdma.hw.config import CodecConfig
from cdma.hw.dma.control.descriptor import DEVICE_ADDRESS_BITS
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.pipeline import PipelineRegister


class LinePlace(data.StructLayout):
    """The place of a line among those of its job.

    Members
    -------
    begins
        It is the job's first line.
    first, last
        It is the first, or the last, line of the job that its unit reads. A job that is cut short
        may have none that is the last.
    """

    def __init__(self) -> None:
        super().__init__({"begins": 1, "first": 1, "last": 1})


class LineRequest(data.StructLayout):
    """A line to read.

    Parameters
    ----------
    config : CodecConfig
    rings
        The number of rings that lines come from.

    Members
    -------
    address
        The address of its first byte; a multiple of the element size.
    size
        Its bytes, 1 to the size of a line.
    codec, parameters
        Index among the configuration's codecs, and the descriptor's parameters for it.
    place
        Its place in its job.
    ring
        The number of the descriptor's ring; no bits if there is one.
    """

    def __init__(self, config: CodecConfig, rings: int = 1) -> None:
        super().__init__(
            {
                "address": DEVICE_ADDRESS_BITS,
                "size": range(config.line_bytes + 1),
                "codec": range(len(config.codecs)),
                "parameters": config.parameter_bits,
                "place": LinePlace(),
                "ring": range(rings),
            }
        )


class _PendingLine(data.StructLayout):
    """A line that has been requested: `beats` less one are read for it."""

    def __init__(self, config: CodecConfig, rings: int) -> None:
        super().__init__({"line": LineRequest(config, rings), "beats": range(config.sectors + 1)})


class LineEnd(data.StructLayout):
    """The end of a line that has been read, and what is known of it.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    error, beat
        The first error among the bus's responses, and the number of the line's beat that has it,
        from 0 on; the address would take 40 bits where these are stored.
    place
        As in `LineRequest`.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {"error": BusError, "beat": range(config.sectors + 1), "place": LinePlace()}
        )


class LineReader(wiring.Component):
    """Reads lines that may begin at any element, and be shorter than a line.

    A line that crosses a page is read by two bursts. Beats are turned so that sectors begin where
    the line begins.

    Latency: a sector comes 1 cycle after the beat that completes it. Throughput: a sector per
    cycle, for lines that begin with a beat; others take a cycle more each. Lines of one sector need
    an end accepted per cycle for that.

    Parameters
    ----------
    config : CodecConfig
    lines
        The largest number of outstanding lines.
    rings
        The number of rings that lines come from.

    Members
    -------
    i : `In(stream.Signature(LineRequest(config, rings)))`
    request : `Out(stream.Signature(ReadRequest(40, rings)))`
    beats : `In(stream.Signature(ReadBeat(config.sector_bytes)))`
    o : `Out(stream.Signature(Sector(config)))`
        Whole lines, padded with zeros.
    end : `Out(stream.Signature(LineEnd(config)))`
        For each line.
    ended, failed : `Out(1)`
        In this cycle the oldest line's last sector is complete; a beat of it with an error is
        accepted.
    """

    def __init__(self, config: CodecConfig, lines: int, rings: int = 1) -> None:
        self.config = config
        self.lines = lines
        self.rings = rings
        super().__init__(
            {
                "i": In(stream.Signature(LineRequest(config, rings))),
                "request": Out(stream.Signature(ReadRequest(DEVICE_ADDRESS_BITS, rings))),
                "beats": In(stream.Signature(ReadBeat(config.sector_bytes))),
                "o": Out(stream.Signature(Sector(config))),
                "end": Out(stream.Signature(LineEnd(config))),
                "ended": Out(1),
                "failed": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        width = config.sector_bytes
        width_bits = (width - 1).bit_length()
        element_bits = 8 * config.element_bytes
        element_bytes_bits = (config.element_bytes - 1).bit_length()
        page_bits = (PAGE_BYTES - 1).bit_length()
        line = self.i.payload

        # Request the beats that the line lies in. `second`: those of the first page are requested.
        m.submodules.pending = pending = Fifo(_PendingLine(config, self.rings), self.lines)
        second = Signal()
        in_page = Signal(page_bits)
        end = Signal(page_bits + 1)
        crosses = Signal()
        first_page_end = Signal(DEVICE_ADDRESS_BITS - page_bits)
        request = self.request.payload
        m.d.comb += [
            in_page.eq(line.address[:page_bits]),
            end.eq(in_page + line.size),
            crosses.eq(end > PAGE_BYTES),
            first_page_end.eq(line.address[page_bits:] + 1),
        ]
        last_of_page = (1 << (page_bits - width_bits)) - 1
        last_beat = Signal(page_bits + 1 - width_bits)
        m.d.comb += last_beat.eq((end - 1) >> width_bits)
        with m.If(second):
            m.d.comb += [
                request.address.eq(first_page_end << page_bits),
                request.beats.eq(last_beat[: page_bits - width_bits]),
            ]
        with m.Else():
            m.d.comb += [
                request.address.eq(Cat(C(0, width_bits), line.address[width_bits:])),
                request.beats.eq(Mux(crosses, last_of_page, last_beat) - in_page[width_bits:]),
            ]
        second_follows = crosses & ~second
        m.d.comb += [
            request.owner.eq(line.ring),
            self.request.valid.eq(self.i.valid & pending.i.ready),
            self.i.ready.eq(self.request.ready & pending.i.ready & ~second_follows),
            pending.i.valid.eq(self.i.valid & self.request.ready & ~second_follows),
            pending.i.payload.line.eq(line),
            pending.i.payload.beats.eq((line.address[:width_bits] + line.size - 1) >> width_bits),
        ]
        with m.If(self.request.valid & self.request.ready):
            m.d.sync += second.eq(second_follows)

        # Assemble the sectors. Those of a line that begins inside a beat are one beat behind: a
        # sector is the end of the beat before and the beginning of the present one.
        expected = pending.o.payload.line
        lane_bits = (config.lanes - 1).bit_length()
        offset = Signal(width_bits)
        used = Signal(range(config.sectors + 2))
        sector = Signal(range(config.sectors))
        primed = Signal()
        held = Signal(8 * width, reset_less=True)
        m.d.comb += offset.eq(expected.address[:width_bits])
        needs_beat = Signal()
        primes = Signal()
        steps = Signal()
        m.submodules.sectors = sectors = PipelineRegister(Sector(config))
        wiring.connect(m, sectors.o, wiring.flipped(self.o))
        end_valid = Signal()
        # A line of several sectors ends when the former one's end has long been accepted.
        end_stays = end_valid & ~self.end.ready if config.sectors == 1 else end_valid
        ends = Signal()
        m.d.comb += [
            needs_beat.eq(used <= pending.o.payload.beats),
            primes.eq((offset != 0) & ~primed),
            ends.eq(~primes & (sector == config.sectors - 1)),
            sectors.i.valid.eq(
                pending.o.valid & ~primes & (self.beats.valid | ~needs_beat) & ~(ends & end_stays)
            ),
            steps.eq(
                Mux(
                    primes,
                    pending.o.valid & self.beats.valid,
                    sectors.i.valid & sectors.i.ready,
                )
            ),
            self.beats.ready.eq(steps & needs_beat),
            pending.o.ready.eq(steps & ends),
        ]
        beat = Signal(8 * width)
        m.d.comb += beat.eq(Mux(needs_beat, self.beats.payload.data, 0))
        window = [
            Mux(primed, held, beat).word_select(i, element_bits) for i in range(config.lanes)
        ] + [beat.word_select(i, element_bits) for i in range(config.lanes)]
        for k in reversed(range(lane_bits)):
            distance = 1 << k
            turned = [
                Signal(element_bits, name=f"turned_{distance}_{i}")
                for i in range(config.lanes + distance - 1)
            ]
            for i, element in enumerate(turned):
                far = offset[element_bytes_bits + k]
                m.d.comb += element.eq(Mux(far, window[i + distance], window[i]))
            window = list(turned)
        data_bytes = Cat(window[: config.lanes])
        for j in range(width):
            inside = Cat(C(j, width_bits), sector) < expected.size
            m.d.comb += (
                sectors.i.payload.elements.as_value()
                .word_select(j, 8)
                .eq(Mux(inside, data_bytes.word_select(j, 8), 0))
            )
        m.d.comb += [
            sectors.i.payload.codec.eq(expected.codec),
            sectors.i.payload.parameters.eq(expected.parameters),
        ]
        with m.If(steps):
            m.d.sync += [
                used.eq(Mux(ends, 0, used + needs_beat)),
                sector.eq(Mux(primes | ends, 0, sector + 1)),
                primed.eq(~ends & (offset != 0)),
                held.eq(beat),
            ]

        # The first error of the line.
        found = Signal(BusError)
        found_beat = Signal(range(config.sectors + 1), reset_less=True)
        line_end = Signal(LineEnd(config), reset_less=True)
        now = Signal(LineEnd(config))
        m.d.comb += [now.error.eq(found), now.beat.eq(found_beat), now.place.eq(expected.place)]
        with m.If(needs_beat & (found == BusError.NONE)):
            m.d.comb += [now.error.eq(self.beats.payload.error), now.beat.eq(used)]
        with m.If(steps):
            m.d.sync += [found.eq(Mux(ends, 0, now.error)), found_beat.eq(now.beat)]
        with m.If(steps & ends):
            m.d.sync += [end_valid.eq(1), line_end.eq(now)]
        with m.Elif(self.end.ready):
            m.d.sync += end_valid.eq(0)
        m.d.comb += [
            self.end.valid.eq(end_valid),
            self.end.payload.eq(line_end),
            self.ended.eq(pending.o.ready),
            self.failed.eq(self.beats.ready & (self.beats.payload.error != BusError.NONE)),
        ]
        return m
