"""Zero-value compression of lines: the paper's two pipelines (cDMA, §V-B and Fig 10).

A line is a mask with one bit per element, then the non-zero elements in order; the bit format is
specified by `golden.zvc`. Here lines travel as `LineBeat`s, a sector's width of payload at a time.
"""

from amaranth.hdl import Assert, C, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from hw.codec.lanes import compact, expand, routes, zeros_before
from hw.config import CodecConfig
from hw.stream import Damage, ExpandedSector, LineBeat, Sector


class ZvcCompressor(wiring.Component):
    """Compresses a sector per cycle.

    Three stages: compare with zero and count; move the non-zero elements to the low lanes; append
    them to the line at the running offset. A finished line is sent from the same window that the
    next one is appended to: a sector is let in once the beat that it overwrites has left, which is
    at once while the consumer is ready.

    Latency: the first beat of a line is valid `line_latency` cycles after the line's first sector
    was taken, if it and the others were taken in consecutive cycles: the sectors per line - 1, and
    3 stages; 6 cycles for 32 B sectors, as in the paper. Throughput: a sector per cycle for as
    long as beats are taken when offered; a transfer's end without a sector (`empty`) waits for the
    line before it.

    Resources: a line of window registers and two sectors of pipeline registers; for n lanes,
    n comparators with zero, an n-input prefix sum, a compaction and a rotation network.

    Parameters
    ----------
    config : CodecConfig

    Attributes
    ----------
    line_latency : int
        Cycles from a line's first sector to its first beat.

    Members
    -------
    i : `In(stream.Signature(Sector(config)))`
        Whole lines of sectors; short data has been filled with zeros.
    o : `Out(stream.Signature(LineBeat(config)))`
        Compressed lines, never damaged.
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        self.line_latency = config.sectors - 1 + 3
        super().__init__(
            {
                "i": In(stream.Signature(Sector(config))),
                "o": Out(stream.Signature(LineBeat(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        lanes, sectors = config.lanes, config.sectors
        lane_bits = (lanes - 1).bit_length()
        element_bits = 8 * config.element_bytes

        compared_ready = Signal()
        packed_ready = Signal()
        append_ready = Signal()

        # Stage 1: compare with zero, and count the zeros below each lane.
        compared_valid = Signal()
        compared = Signal(Sector(config), reset_less=True)
        compared_present = Signal(lanes, reset_less=True)
        compared_zeros = [
            Signal(range(max(i, 1) + 1), name=f"compared_zeros_{i}", reset_less=True)
            for i in range(lanes)
        ]
        compared_count = Signal(range(lanes + 1), reset_less=True)

        present = Signal(lanes)
        m.d.comb += present.eq(
            Cat(self.i.payload.elements[i].any() | self.i.payload.dense for i in range(lanes))
        )
        zeros, zeros_total = zeros_before(m, present, name="compare")
        m.d.comb += [
            compared_ready.eq(packed_ready | ~compared_valid),
            self.i.ready.eq(compared_ready),
        ]
        with m.If(compared_ready):
            m.d.sync += [
                compared_valid.eq(self.i.valid),
                compared.eq(self.i.payload),
                compared_present.eq(present),
                compared_count.eq(lanes - zeros_total),
                *(reg.eq(value) for reg, value in zip(compared_zeros, zeros, strict=True)),
            ]

        # Stage 2: move the non-zero elements to the low lanes; zero what is left over above them.
        packed_valid = Signal()
        packed = [Signal(element_bits, name=f"packed_{i}", reset_less=True) for i in range(lanes)]
        packed_present = Signal(lanes, reset_less=True)
        packed_count = Signal.like(compared_count)
        packed_last = Signal(reset_less=True)
        packed_empty = Signal(reset_less=True)

        moves = routes(m, compared_present, compared_zeros, name="pack")
        low_lanes = compact(m, [compared.elements[i] for i in range(lanes)], moves, name="pack")
        m.d.comb += packed_ready.eq(append_ready | ~packed_valid)
        with m.If(packed_ready):
            m.d.sync += [
                packed_valid.eq(compared_valid),
                packed_present.eq(compared_present),
                packed_count.eq(compared_count),
                packed_last.eq(compared.last),
                packed_empty.eq(compared.empty),
                *(packed[i].eq(Mux(i < compared_count, low_lanes[i], 0)) for i in range(lanes)),
            ]

        # Stage 3: append to the window. The sector is turned so that each of its elements stands
        # in the lane of its place in the window; two neighboring groups of lanes then pick theirs.
        offset = Signal(range(config.elements))
        index = Signal(range(sectors))
        offset_lane = Signal(range(lanes))
        offset_group = Signal(range(sectors))
        m.d.comb += Cat(offset_lane, offset_group).eq(offset)
        turned = list(packed)
        for k in range(lane_bits):
            turning = [Signal(element_bits, name=f"turned_{1 << k}_{i}") for i in range(lanes)]
            for i in range(lanes):
                m.d.comb += turning[i].eq(Mux(offset_lane[k], turned[i - (1 << k)], turned[i]))
            turned = turning
        upper = Signal(lanes)
        m.d.comb += upper.eq(Cat(*(i >= offset_lane for i in range(lanes - 1)), 1))

        append = Signal()
        completes = Signal()
        total = Signal(range(config.elements + 1))
        m.d.comb += [
            append.eq(packed_valid & append_ready),
            completes.eq((index == sectors - 1) | packed_empty),
            total.eq(offset + packed_count),
        ]

        # The window sends a line's beats from its first group up.
        sending = Signal()
        beat = Signal(range(sectors))
        sent = Signal()
        # Elements join what is there, so a reset must clear what it leaves of a line.
        window = [Signal(element_bits, name=f"window_{i}") for i in range(config.elements)]
        window_mask = Signal(config.elements, reset_less=True)
        window_count = Signal(range(config.elements + 1), reset_less=True)
        window_last = Signal(reset_less=True)
        window_empty = Signal(reset_less=True)

        left = Signal(range(config.elements + 1))
        first_beat = Signal()
        final_beat = Signal()
        m.d.comb += [
            first_beat.eq(beat == 0),
            left.eq(window_count - Cat(C(0, lane_bits), beat)),
            final_beat.eq(left <= lanes),
            sent.eq(sending & self.o.ready),
            # Sector s writes groups 0 … s of the window: these have been sent, or go out now. What
            # completes a line takes the whole window over.
            append_ready.eq(
                ~sending
                | (sent & final_beat)
                | (~completes & ((index < beat) | (sent & (index == beat))))
            ),
        ]

        group_sent = Signal(sectors)
        m.d.comb += group_sent.eq(Mux(sent, 1 << beat, 0))
        for j, word in enumerate(window):
            group, lane = divmod(j, lanes)
            lands = Signal(name=f"window_lands_{j}")
            kept = Signal(element_bits, name=f"window_kept_{j}")
            m.d.comb += [
                lands.eq(
                    append
                    & ~packed_empty
                    & Mux(
                        upper[lane],
                        offset_group == group,
                        (offset_group == group - 1) if group else 0,
                    )
                ),
                kept.eq(Mux(group_sent[group], 0, word)),
            ]
            m.d.sync += word.eq(Mux(lands, kept | turned[lane], kept))

        with m.If(sent):
            m.d.sync += beat.eq(Mux(final_beat, 0, beat + 1))
            with m.If(final_beat):
                m.d.sync += sending.eq(0)
        with m.If(append):
            m.d.sync += [
                index.eq(Mux(completes, 0, index + 1)),
                offset.eq(Mux(completes, 0, total)),
            ]
            for s in range(sectors):
                with m.If(index == s):
                    m.d.sync += window_mask[s * lanes : (s + 1) * lanes].eq(packed_present)
            with m.If(completes):
                m.d.sync += [
                    sending.eq(1),
                    window_count.eq(Mux(packed_empty, 0, total)),
                    window_last.eq(packed_last),
                    window_empty.eq(packed_empty),
                ]

        out = self.o.payload
        m.d.comb += [
            self.o.valid.eq(sending),
            out.mask.eq(Mux(first_beat & ~window_empty, window_mask, 0)),
            out.count.eq(Mux(final_beat, left, lanes)),
            out.sol.eq(first_beat),
            out.eol.eq(final_beat),
            out.last.eq(window_last & final_beat),
            out.empty.eq(window_empty),
            out.damage.eq(Damage.NONE),
        ]
        for i in range(lanes):
            choice = window[i]
            for s in range(1, sectors):
                picked = Signal(element_bits, name=f"beat_{s}_{i}")
                m.d.comb += picked.eq(Mux(beat == s, window[s * lanes + i], choice))
                choice = picked
            m.d.comb += out.elements[i].eq(choice)

        # A line can only complete into a window whose previous line is out.
        with m.If(append & completes & sending):
            m.d.sync += Assert(sent & final_beat)
        return m


class ZvcDecompressor(wiring.Component):
    """Expands a sector per cycle.

    Two stages: count and route a segment of the mask while its elements are picked from the
    payload; put them in their lanes. A line can begin before its later beats have arrived.

    Latency: a sector is valid `sector_latency` = 2 cycles after the beat that completes its
    payload was taken, as in the paper. Throughput: a sector per cycle for as long as the beats
    that it needs are offered; a line of s sectors takes s cycles.

    Resources: a beat and a mask of registers for the line, two sectors of pipeline registers; for
    n lanes, an n-input prefix sum, a picking network of 2n lanes and an expansion network.

    Parameters
    ----------
    config : CodecConfig

    Attributes
    ----------
    sector_latency : int
        Cycles from a sector's last beat to the sector.

    Members
    -------
    i : `In(stream.Signature(LineBeat(config)))`
    o : `Out(stream.Signature(ExpandedSector(config)))`
        All sectors of each line. After a beat with damage, the sectors up to the one in which data
        is missing; that one is `last`.
    """

    sector_latency = 2

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(LineBeat(config))),
                "o": Out(stream.Signature(ExpandedSector(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        lanes, sectors = config.lanes, config.sectors
        element_bits = 8 * config.element_bytes
        beat = self.i.payload

        # The line being expanded: what is left of its mask, its latest beat, and how much of that
        # beat is used up.
        busy = Signal()
        index = Signal(range(sectors + 1))
        mask = None
        if sectors > 1:
            mask = Signal(config.elements - lanes, reset_less=True)
        held = [Signal(element_bits, name=f"held_{i}", reset_less=True) for i in range(lanes)]
        held_used = Signal(range(lanes + 1), reset_less=True)
        held_count = Signal(range(lanes + 1), reset_less=True)
        held_damaged = Signal(reset_less=True)
        held_last = Signal(reset_less=True)

        # Stage 1: route the segment, pick its elements.
        segment = Signal(lanes)
        starts = Signal()
        routed_ready = Signal()
        m.d.comb += starts.eq(~busy)
        if mask is None:
            m.d.comb += segment.eq(beat.mask)
        else:
            m.d.comb += segment.eq(Mux(starts, beat.mask[:lanes], mask[:lanes]))
        zeros, zeros_total = zeros_before(m, segment, name="segment")
        moves = routes(m, segment, zeros, name="segment")
        count = Signal(range(lanes + 1))
        m.d.comb += count.eq(lanes - zeros_total)

        # A line's first beat stands behind a held beat that is used up.
        used = Signal(range(lanes + 1))
        need = Signal(range(2 * lanes + 1))
        needs_beat = Signal()
        m.d.comb += [
            used.eq(Mux(starts, lanes, held_used)),
            need.eq(used + count),
            # Nothing follows a damaged beat: what it lacks is missing.
            needs_beat.eq(starts | ((need > lanes) & ~held_damaged)),
        ]
        picked = [*held, *(beat.elements[i] for i in range(lanes))]
        for k in reversed(range(lanes.bit_length())):
            distance = 1 << k
            width = lanes + distance - 1
            picking = [Signal(element_bits, name=f"picked_{distance}_{i}") for i in range(width)]
            for i in range(width):
                far = picked[i + distance] if i + distance < len(picked) else 0
                m.d.comb += picking[i].eq(Mux(used[k], far, picked[i]))
            picked = picking

        # How many of the segment's elements are there: all, unless the stream ended.
        available = Signal(range(2 * lanes + 1))
        damaged = Signal()
        with m.If(starts):
            m.d.comb += [available.eq(beat.count), damaged.eq(beat.damage != Damage.NONE)]
        with m.Elif(held_damaged):
            m.d.comb += [available.eq(held_count - held_used), damaged.eq(1)]
        with m.Else():
            m.d.comb += [
                available.eq(lanes - held_used + beat.count),
                damaged.eq(needs_beat & (beat.damage != Damage.NONE)),
            ]
        short = Signal()
        m.d.comb += short.eq(damaged & (count > available))

        mask_missing = Signal()
        no_line = Signal()
        ends_line = Signal()
        last = Signal()
        m.d.comb += [
            mask_missing.eq(starts & (beat.damage == Damage.MASK)),
            no_line.eq(starts & beat.empty),
            ends_line.eq((index == sectors - 1) | short | mask_missing | no_line),
            last.eq(ends_line & Mux(needs_beat, beat.last, held_last)),
        ]

        step = Signal()
        m.d.comb += [
            step.eq(routed_ready & (self.i.valid | ~needs_beat)),
            self.i.ready.eq(routed_ready & needs_beat),
        ]
        with m.If(step):
            m.d.sync += [
                busy.eq(~ends_line),
                index.eq(Mux(ends_line, 0, index + 1)),
                held_used.eq(Mux(needs_beat, need - lanes, need)),
            ]
            if mask is not None:
                m.d.sync += mask.eq(Mux(starts, beat.mask[lanes:], mask[lanes:]))
            with m.If(needs_beat):
                m.d.sync += [
                    *(held[i].eq(beat.elements[i]) for i in range(lanes)),
                    held_count.eq(beat.count),
                    held_damaged.eq(beat.damage != Damage.NONE),
                    held_last.eq(beat.last),
                ]

        # Stage 2: put the elements in their lanes.
        routed_valid = Signal()
        routed = [Signal(element_bits, name=f"routed_{i}", reset_less=True) for i in range(lanes)]
        routed_moves = [
            Signal(lanes, name=f"routed_move_{1 << k}", reset_less=True) for k in range(len(moves))
        ]
        routed_present = Signal(lanes, reset_less=True)
        routed_missing = Signal(lanes, reset_less=True)
        routed_sol = Signal(reset_less=True)
        routed_mask_missing = Signal(reset_less=True)
        routed_last = Signal(reset_less=True)
        routed_empty = Signal(reset_less=True)

        missing = Signal(lanes)
        m.d.comb += missing.eq(
            Cat(damaged & segment[i] & (i - zeros[i] >= available) for i in range(lanes))
        )
        with m.If(routed_ready):
            m.d.sync += [
                routed_valid.eq(step),
                *(routed[i].eq(picked[i]) for i in range(lanes)),
                *(reg.eq(move) for reg, move in zip(routed_moves, moves, strict=True)),
                routed_present.eq(segment),
                routed_missing.eq(missing),
                routed_sol.eq(starts),
                routed_mask_missing.eq(mask_missing),
                routed_last.eq(last),
                routed_empty.eq(no_line),
            ]

        sector_valid = Signal()
        sector = Signal(ExpandedSector(config), reset_less=True)
        spread = expand(m, routed, routed_moves, name="spread")
        m.d.comb += routed_ready.eq(~routed_valid | self.o.ready | ~sector_valid)
        with m.If(self.o.ready | ~sector_valid):
            m.d.sync += [
                sector_valid.eq(routed_valid),
                *(
                    sector.elements[i].eq(Mux(routed_present[i], spread[i], 0))
                    for i in range(lanes)
                ),
                sector.present.eq(routed_present),
                sector.missing.eq(routed_missing),
                sector.sol.eq(routed_sol),
                sector.mask_missing.eq(routed_mask_missing),
                sector.last.eq(routed_last),
                sector.empty.eq(routed_empty),
            ]
        m.d.comb += [self.o.valid.eq(sector_valid), self.o.payload.eq(sector)]

        # A line starts with its first beat, and takes no other line's beats.
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += Assert(beat.sol == starts)
        return m
