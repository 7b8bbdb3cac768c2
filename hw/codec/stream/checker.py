"""From expanded sectors to packets of bytes that can be trusted: the decompressor's framing."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, enum, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import ExpandedSector
from cdma.hw.codec.stream.pack import LENGTH_BITS, OFFSET_BITS
from cdma.hw.config import CodecConfig
from cdma.hw.lib.beat import Beat
from cdma.hw.lib.count import count_ones


class Finding(enum.Enum, shape=unsigned(3)):  # type: ignore[call-arg]
    """The first thing wrong with a transfer's lines."""

    NONE = 0
    MASK_MISSING = 1
    ELEMENT_MISSING = 2
    ELEMENT_ZERO = 3
    FILL_NONZERO = 4


class Verdict(data.StructLayout):
    """What the lines of a transfer were like.

    Parameters
    ----------
    length_bits, offset_bits
        Widths of a transfer's length and of a position in its stream.

    Members
    -------
    finding
        The first thing wrong.
    offset
        Where it is in the stream; if nothing is wrong, where the last line ends.
    size
        Bytes given out: the transfer's length, or those before the first thing wrong.
    """

    def __init__(self, length_bits: int = LENGTH_BITS, offset_bits: int = OFFSET_BITS) -> None:
        super().__init__({"finding": Finding, "offset": offset_bits, "size": length_bits})


class SectorJudge(wiring.Component):
    """Judges sectors element by element, and lets the bytes before the first error out.

    Latency: 2 cycles, to beats and verdicts alike. Throughput: a sector per cycle, also across
    transfers.

    Resources: two sectors of registers; for n lanes, n comparators with zero, two n-input
    population counts and an n-input priority encoder.

    Parameters
    ----------
    config : CodecConfig
    length_bits, offset_bits
        Widths of a transfer's length and of a position in its stream.

    Members
    -------
    length : `In(stream.Signature(length_bits))`
        Announced length of each transfer in bytes.
    i : `In(stream.Signature(ExpandedSector(config)))`
    o : `Out(stream.Signature(Beat(config.sector_bytes)))`
        A packet per transfer, of at least one beat. Bytes beyond `size` are zero.
    verdict : `Out(stream.Signature(Verdict(length_bits, offset_bits)))`
        After each transfer.
    """

    def __init__(
        self,
        config: CodecConfig,
        *,
        length_bits: int = LENGTH_BITS,
        offset_bits: int = OFFSET_BITS,
    ) -> None:
        self.config = config
        self.length_bits = length_bits
        self.offset_bits = offset_bits
        super().__init__(
            {
                "length": In(stream.Signature(length_bits)),
                "i": In(stream.Signature(ExpandedSector(config))),
                "o": Out(stream.Signature(Beat(config.sector_bytes))),
                "verdict": Out(stream.Signature(Verdict(length_bits, offset_bits))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        lanes = config.lanes
        element_bytes = config.element_bytes
        sector = self.i.payload

        # Stage 1: what is wrong with each lane?
        active = Signal()
        left = Signal(self.length_bits, reset_less=True)
        room = Signal(range(config.sector_bytes + 1))
        beyond = Signal(config.sector_bytes)
        m.d.comb += [
            room.eq(Mux(left > config.sector_bytes, config.sector_bytes, left)),
            beyond.eq(Cat(j >= room for j in range(config.sector_bytes))),
        ]
        zero = Signal(lanes)
        fill = Signal(lanes)
        for i in range(lanes):
            element = sector.elements[i]
            m.d.comb += [
                zero[i].eq(sector.present[i] & ~sector.missing[i] & (element == 0)),
                fill[i].eq(
                    ~sector.missing[i]
                    & Cat(
                        beyond[i * element_bytes + b] & element.word_select(b, 8).any()
                        for b in range(element_bytes)
                    ).any()
                ),
            ]

        seen = Signal(ExpandedSector(config), reset_less=True)
        seen_valid = Signal()
        seen_zero = Signal(lanes, reset_less=True)
        seen_wrong = Signal(lanes, reset_less=True)
        seen_room = Signal.like(room, reset_less=True)
        seen_final = Signal(reset_less=True)
        seen_count = Signal(range(lanes + 1), reset_less=True)
        judged_ready = Signal()
        taken = Signal()
        m.d.comb += [
            self.i.ready.eq(active & (judged_ready | ~seen_valid)),
            taken.eq(self.i.valid & self.i.ready),
            self.length.ready.eq(~active | (taken & sector.last)),
        ]
        with m.If(judged_ready | ~seen_valid):
            m.d.sync += seen_valid.eq(taken)
        with m.If(taken):
            m.d.sync += [
                seen.eq(sector),
                seen_zero.eq(zero),
                seen_wrong.eq(sector.missing | zero | fill),
                seen_room.eq(room),
                seen_final.eq(left <= config.sector_bytes),
                seen_count.eq(count_ones(sector.present)),
                left.eq(left - room),
            ]
        with m.If(self.length.ready):
            m.d.sync += [active.eq(self.length.valid), left.eq(self.length.payload)]

        # Stage 2: which is the first, and what comes before it?
        first = Signal(lanes)
        wrong_before = []
        for i in range(lanes):
            wrong_before.append(seen_wrong[:i].any())
            m.d.comb += first[i].eq(seen_wrong[i] & ~wrong_before[i])
        right = Signal(lanes)
        m.d.comb += right.eq(~first & ~Cat(wrong_before))

        failed = Signal()
        complete = Signal()
        fails = Signal()
        gives = Signal()
        m.d.comb += [
            fails.eq(~failed & (seen.mask_missing | seen_wrong.any())),
            gives.eq(~failed & ~complete),
        ]
        keep = Signal(config.sector_bytes)
        m.d.comb += keep.eq(
            Cat(
                right[j // element_bytes] & ~seen.mask_missing & (j < seen_room)
                for j in range(config.sector_bytes)
            )
        )

        beat = Signal(Beat(config.sector_bytes), reset_less=True)
        beat_valid = Signal()
        beat_free = Signal()
        told = Signal()
        m.d.comb += [
            beat_free.eq(self.o.ready | ~beat_valid),
            # The former transfer's verdict must be out before this one's begins.
            judged_ready.eq((beat_free | ~gives) & ~(told & (fails | seen.last))),
            self.o.valid.eq(beat_valid),
            self.o.payload.eq(beat),
        ]
        judged = Signal()
        m.d.comb += judged.eq(seen_valid & judged_ready)
        size = Signal.like(room)
        m.d.comb += size.eq(count_ones(keep))
        with m.If(beat_free):
            m.d.sync += beat_valid.eq(judged & gives)
        with m.If(judged & gives):
            m.d.sync += [
                beat.data.eq(
                    Cat(
                        Mux(keep[j], seen.elements.as_value().word_select(j, 8), 0)
                        for j in range(config.sector_bytes)
                    )
                ),
                beat.size.eq(size),
                beat.last.eq(seen_final | fails),
            ]

        # Where in the stream the sector's first element is.
        position = Signal(self.offset_bits)
        start = Signal(self.offset_bits)
        given = Signal(self.length_bits)
        m.d.comb += start.eq(
            position + Mux(seen.sol & ~seen.empty & ~seen.mask_missing, config.mask_bytes, 0)
        )

        # The verdict gathers here: the finding and its place at the first error, the rest last.
        finding = Signal(Finding)
        found_start = Signal(self.offset_bits, reset_less=True)
        found_before = Signal(lanes, reset_less=True)
        verdict_size = Signal(self.length_bits, reset_less=True)
        end = Signal(self.offset_bits)
        total = Signal(self.length_bits)
        m.d.comb += [
            end.eq(start + seen_count * element_bytes),
            total.eq(given + Mux(gives, size, 0)),
        ]
        with m.If(judged):
            with m.If(fails):
                m.d.sync += [
                    found_start.eq(start),
                    found_before.eq(Mux(seen.mask_missing, 0, seen.present & right)),
                ]
                with m.If(seen.mask_missing):
                    m.d.sync += finding.eq(Finding.MASK_MISSING)
                with m.Elif((first & seen.missing).any()):
                    m.d.sync += finding.eq(Finding.ELEMENT_MISSING)
                with m.Elif((first & seen_zero).any()):
                    m.d.sync += finding.eq(Finding.ELEMENT_ZERO)
                with m.Else():
                    m.d.sync += finding.eq(Finding.FILL_NONZERO)
            with m.Elif(seen.last & ~failed):
                m.d.sync += [found_start.eq(end), found_before.eq(0)]

            with m.If(seen.last):
                m.d.sync += [
                    told.eq(1),
                    verdict_size.eq(total),
                    position.eq(0),
                    given.eq(0),
                    failed.eq(0),
                    complete.eq(0),
                ]
            with m.Else():
                m.d.sync += [
                    position.eq(end),
                    given.eq(total),
                    failed.eq(failed | fails),
                    complete.eq(complete | seen_final),
                ]

        m.d.comb += [
            self.verdict.valid.eq(told),
            self.verdict.payload.finding.eq(finding),
            self.verdict.payload.offset.eq(found_start + count_ones(found_before) * element_bytes),
            self.verdict.payload.size.eq(verdict_size),
        ]
        with m.If(told & self.verdict.ready):
            m.d.sync += [told.eq(0), finding.eq(Finding.NONE)]

        # Lines enough for the length came, unless the first error ended them.
        with m.If(judged & seen.last):
            m.d.sync += Assert(failed | fails | complete | seen_final)
        return m
