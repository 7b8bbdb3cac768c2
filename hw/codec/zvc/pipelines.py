"""Zero-value compression of lines: the paper's two pipelines (cDMA, §V-B and Fig 10).

A line is a mask with one bit per element, then the non-zero elements in order; the bit format is
specified by `cdma.golden.formats.zvc`. Here lines travel as `LineBeat`s, a sector's width of
payload at a time.
"""

from functools import reduce
from operator import or_

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import ExpandedSector, LineBeat, Sector, Truncation
from cdma.hw.codec.selection import is_copy
from cdma.hw.codec.zvc.lanes import gather, lanes_from, ones_before, scatter, swaps
from cdma.hw.config import CodecConfig
from cdma.hw.lib.count import count_ones
from cdma.hw.lib.pipeline import PipelineRegister


class ComparedSector(data.StructLayout):
    """A sector, and which of its elements count as non-zero."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__({"sector": Sector(config), "present": config.lanes})


class ZvcCompressor(wiring.Component):
    """Compresses a sector per cycle.

    Three stages: compare with zero and count; move the non-zero elements to the lanes in which the
    line goes on; append them to it. If the latency is "fast", counting is a stage of its own. A
    finished line is sent from the same window that the next one is appended to: a sector is let in
    once the beat that it overwrites has left, which is at once while the consumer is ready.

    Latency: the first beat of a line is valid `line_latency` cycles after the line's first sector
    was taken, if it and the others were taken in consecutive cycles: the sectors per line - 1, and
    3 stages; 6 cycles for 32 B sectors, as in the paper. One more if "fast". Throughput: a sector
    per cycle for as long as beats are taken when offered; a transfer's end without a sector
    (`empty`) waits for the line before it.

    Resources: a line of window registers and two sectors of pipeline registers; for n lanes,
    n comparators with zero, an n-input prefix sum and a butterfly network.

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
        self.line_latency = config.sectors - 1 + (4 if config.latency == "fast" else 3)
        super().__init__(
            {
                "i": In(stream.Signature(Sector(config))),
                "o": Out(stream.Signature(LineBeat(config))),
            }
        )

    # A sector of four lanes, while the line so far ends in lane 3 of the window's group 0:
    #
    #     sector      0  a  0  b                 present = 0 1 0 1
    #     gathered    b  .  .  a                 from lane 3 on, round the end: one network
    #     window      x  y  z  a |  b  .  .  .   a lands in group 0, b in the next one
    #
    # A finished line leaves group by group, and the next one is appended behind it:
    #
    #     beats       x  y  z  a, then b         the mask goes with the first one

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        lanes, sectors = config.lanes, config.sectors
        lane_bits = (lanes - 1).bit_length()
        element_bits = 8 * config.element_bytes

        compared_ready = Signal()
        packed_ready = Signal()
        append_ready = Signal()

        # Stage 1: compare with zero, and count what is not; two stages if that is to be fast. Of a
        # plain copy every element counts.
        copied = Signal()
        m.d.comb += copied.eq(is_copy(self.i.payload.codec, config))
        seen = stream.Signature(ComparedSector(config)).create(path=("seen",))
        m.d.comb += [
            seen.valid.eq(self.i.valid),
            seen.payload.sector.eq(self.i.payload),
            seen.payload.present.eq(
                Cat(self.i.payload.elements[i].any() | copied for i in range(lanes))
            ),
            self.i.ready.eq(seen.ready),
        ]
        if config.latency == "fast":
            m.submodules.seen_register = register = PipelineRegister(ComparedSector(config))
            wiring.connect(m, seen, register.i)
            seen = register.o
        sector, present = seen.payload.sector, seen.payload.present
        compared_valid = Signal()
        compared = Signal(Sector(config), reset_less=True)
        compared_present = Signal(lanes, reset_less=True)

        ones, _ = ones_before(m, present, name="compare")
        compared_ones = [
            Signal.like(Value.cast(before), name=f"compared_ones_{i}", reset_less=True)
            for i, before in enumerate(ones)
        ]
        # The lower half's count is among those.
        half = lanes // 2
        compared_upper = Signal(range(half + 1), reset_less=True)
        m.d.comb += [
            compared_ready.eq(packed_ready | ~compared_valid),
            seen.ready.eq(compared_ready),
        ]
        # Here and below a lane is loaded only with an element: clock gates save what is zero.
        with m.If(compared_ready):
            m.d.sync += compared_valid.eq(seen.valid)
        for i in range(lanes):
            with m.If(compared_ready & seen.valid & present[i]):
                m.d.sync += compared.elements[i].eq(sector.elements[i])
        with m.If(compared_ready & seen.valid):
            m.d.sync += [
                compared.last.eq(sector.last),
                compared.empty.eq(sector.empty),
                compared_present.eq(present),
                compared_upper.eq(count_ones(present[half:])),
                *(own.eq(before) for own, before in zip(compared_ones, ones, strict=True)),
            ]

        # Stage 2: move the non-zero elements to where the line ends, which is a lane of the window.
        offset = Signal(range(config.elements))
        index = Signal(range(sectors))
        offset_lane = Signal(range(lanes))
        completes = Signal()
        total = Signal(range(config.elements + 1))
        m.d.comb += [
            offset_lane.eq(offset),
            completes.eq((index == sectors - 1) | compared.empty),
            total.eq(offset + (compared_ones[half] + compared_upper)),
        ]
        packed_valid = Signal()
        packed = [Signal(element_bits, name=f"packed_{i}", reset_less=True) for i in range(lanes)]
        packed_present = Signal(lanes, reset_less=True)
        packed_place = Signal(sectors, reset_less=True)
        packed_completes = Signal(reset_less=True)
        packed_total = Signal.like(total, reset_less=True)
        packed_last = Signal(reset_less=True)
        packed_empty = Signal(reset_less=True)
        # Groups of lanes of the window: up to which one it may change, and where each lane lands.
        # From the offset's lane on they land in its group, those below in the next one.
        packed_needs = Signal(sectors, reset_less=True)
        packed_lands = Signal(config.elements, reset_less=True)
        upper = Signal(lanes)
        group = Signal(sectors)
        lands = Signal(config.elements)
        m.d.comb += [
            upper.eq(lanes_from(offset_lane, lanes)),
            group.eq(Mux(compared.empty, 0, 1 << (offset >> lane_bits))),
        ]
        # Lanes that get an element: from the offset's on, as many as there are, round the end.
        filled = Signal(lanes)
        end = Signal(lane_bits + 1)
        m.d.comb += [
            end.eq(offset_lane + (compared_ones[half] + compared_upper)),
            filled.eq(
                Mux(
                    end[lane_bits],
                    upper | ~lanes_from(end[:lane_bits], lanes),
                    upper & ~lanes_from(end[:lane_bits], lanes),
                )
            ),
        ]
        for j in range(config.elements):
            g, lane = divmod(j, lanes)
            below = group[g - 1] if g else 0
            m.d.comb += lands[j].eq(filled[lane] & Mux(upper[lane], group[g], below))

        # A sector that is a line begins it.
        whole = sectors == 1
        turns = swaps(m, compared_ones, None if whole else offset_lane, name="pack_swap")
        elements = [compared.elements[i] for i in range(lanes)]
        turned = gather(m, elements, turns, from_first=whole, name="pack")
        m.d.comb += packed_ready.eq(append_ready | ~packed_valid)
        with m.If(packed_ready):
            m.d.sync += packed_valid.eq(compared_valid)
        for i in range(lanes):
            with m.If(packed_ready & compared_valid & filled[i]):
                m.d.sync += packed[i].eq(turned[i])
        with m.If(packed_ready & compared_valid):
            m.d.sync += [
                packed_present.eq(compared_present),
                packed_place.eq(1 << index),
                packed_completes.eq(completes),
                packed_needs.eq(1 << Mux(completes, sectors - 1, index)),
                packed_lands.eq(lands),
                packed_total.eq(Mux(compared.empty, 0, total)),
                packed_last.eq(compared.last),
                packed_empty.eq(compared.empty),
            ]
            m.d.sync += [
                index.eq(Mux(completes, 0, index + 1)),
                offset.eq(Mux(completes, 0, total)),
            ]

        # Stage 3: append to the window.
        append = Signal()
        m.d.comb += append.eq(packed_valid & append_ready)

        # The window sends a line's beats from its first group up.
        sending = Signal()
        beat_place = Signal(sectors, init=1)
        sent = Signal()
        # Behind a line's elements, anything.
        window = [
            Signal(element_bits, name=f"window_{i}", reset_less=True)
            for i in range(config.elements)
        ]
        window_mask = Signal(config.elements, reset_less=True)
        window_left = Signal(range(config.elements + 1), reset_less=True)
        # Lanes of the line's last beat that have an element.
        window_tail = Signal(lanes, reset_less=True)
        window_final = Signal(reset_less=True)
        window_last = Signal(reset_less=True)
        window_empty = Signal(reset_less=True)

        # Which groups have been sent, and which will have been when this beat is: all, if it is the
        # line's last. Sector s writes groups 0 … s; what completes a line takes the whole window
        # over.
        free = Signal(sectors, init=-1)
        leaving = Signal(sectors)
        m.d.comb += [
            sent.eq(sending & self.o.ready),
            leaving.eq(beat_place | free | window_final.replicate(sectors)),
            append_ready.eq((packed_needs & free).any() | (sent & (packed_needs & leaving).any())),
        ]

        # Elements over the line's full beats; without any the last one is full too.
        over = packed_total[:lane_bits]
        fills = (over == 0) & (packed_total != 0)
        for j, word in enumerate(window):
            with m.If(append & packed_lands[j]):
                m.d.sync += word.eq(packed[j % lanes])
        with m.If(sent):
            m.d.sync += [
                beat_place.eq(Mux(window_final, 1, beat_place << 1)),
                free.eq(leaving),
                window_left.eq(window_left - lanes),
                window_final.eq(window_left <= 2 * lanes),
            ]
            with m.If(window_final):
                m.d.sync += sending.eq(0)
        with m.If(append):
            for s in range(sectors):
                with m.If(packed_place[s]):
                    m.d.sync += window_mask[s * lanes : (s + 1) * lanes].eq(packed_present)
            with m.If(packed_completes):
                m.d.sync += [
                    sending.eq(1),
                    free.eq(0),
                    window_left.eq(packed_total),
                    window_tail.eq(~lanes_from(over, lanes) | fills.replicate(lanes)),
                    window_final.eq(packed_total <= lanes),
                    window_last.eq(packed_last),
                    window_empty.eq(packed_empty),
                ]

        out = self.o.payload
        m.d.comb += [
            self.o.valid.eq(sending),
            out.mask.eq(Mux(beat_place[0] & ~window_empty, window_mask, 0)),
            out.count.eq(Mux(window_final, window_left, lanes)),
            out.sol.eq(beat_place[0]),
            out.eol.eq(window_final),
            out.last.eq(window_last & window_final),
            out.empty.eq(window_empty),
            out.truncation.eq(Truncation.NONE),
        ]
        for i in range(lanes):
            there = Signal(name=f"beat_there_{i}")
            m.d.comb += there.eq(~window_final | window_tail[i])
            choices = [Signal(element_bits, name=f"beat_{s}_{i}") for s in range(sectors)]
            for s, choice in enumerate(choices):
                word = window[s * lanes + i]
                m.d.comb += choice.eq(Mux(beat_place[s] & there, word, 0))
            m.d.comb += out.elements[i].eq(reduce(or_, choices))

        # A line can only complete into a window whose previous line is out.
        with m.If(append & packed_completes & sending):
            m.d.sync += Assert(sent & window_final)
        return m


class ZvcDecompressor(wiring.Component):
    """Expands a sector per cycle.

    Two stages: count a segment of the mask, find the ways of its elements and take the beat that it
    needs; move them to their lanes. If the latency is "fast", the mask that comes with a line is
    counted in one more stage before. What decides whether a beat is needed was counted a cycle
    before. A line can begin before its later beats have arrived.

    Latency: a sector is valid `sector_latency` = 2 cycles after the beat that completes its
    payload was taken, as in the paper; 3 if "fast". Throughput: a sector per cycle for as long as
    the beats that it needs are offered; a line of s sectors takes s cycles, and one that is cut
    short one more.

    Resources: two beats and a mask of registers for the line, a sector at the output; for n lanes,
    two n-input prefix sums and a butterfly network.

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

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        self.sector_latency = 3 if config.latency == "fast" else 2
        super().__init__(
            {
                "i": In(stream.Signature(LineBeat(config))),
                "o": Out(stream.Signature(ExpandedSector(config))),
            }
        )

    # A line of two segments of four lanes, with the beats a b c d and e:
    #
    #     mask        1  0  1  1 |  0  1  1  0
    #     segment 0   a  0  b  c                 uses three of the first beat
    #     segment 1   0  d  e  0                 the row d e begins in lane 3 of the first slot and
    #                                            goes on in lane 0 of the second: one network

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        lanes, sectors = config.lanes, config.sectors
        element_bits = 8 * config.element_bytes

        # Count the first segment of the mask that comes with a line; in a stage of its own if that
        # is to be fast.
        first_ones, first_count = ones_before(m, self.i.payload.mask[:lanes], name="first")
        beat, beat_valid, beat_ready = self.i.payload, self.i.valid, self.i.ready
        if config.latency == "fast":
            # Not a `Register`: sums share parts, and as one bus they would be read where they are
            # written, which linters take for a loop.
            arriving, arriving_ready, beat_ready = beat, beat_ready, Signal()
            beat = Signal(LineBeat(config), name="counted_beat", reset_less=True)
            beat_valid = Signal(name="counted_valid")
            m.d.comb += arriving_ready.eq(beat_ready | ~beat_valid)
            counts = [
                Signal.like(Value.cast(before), name=f"counted_{i}", reset_less=True)
                for i, before in enumerate([*first_ones, first_count])
            ]
            with m.If(arriving_ready):
                m.d.sync += beat_valid.eq(self.i.valid)
            with m.If(arriving_ready & self.i.valid):
                m.d.sync += [
                    beat.eq(arriving),
                    *(
                        own.eq(before)
                        for own, before in zip(counts, [*first_ones, first_count], strict=True)
                    ),
                ]
            *first_ones, first_count = counts

        lane_bits = (lanes - 1).bit_length()
        # A line's beats go to two slots in turn, which are a ring of lanes; if a line is a beat, to
        # one. Its first beat begins a slot.
        slots = 1 if sectors == 1 else 2
        slot_elements = [
            [Signal(element_bits, name=f"slot_{s}_{i}", reset_less=True) for i in range(lanes)]
            for s in range(slots)
        ]
        slot_there = [Signal(lanes, name=f"slot_{s}_there", reset_less=True) for s in range(slots)]
        latest = Signal(slots - 1)

        # The line being expanded: its next segment and the rest of its mask, and of its latest beat
        # how much is used up. All of it is, between lines.
        busy = Signal()
        starts = Signal()
        index = Signal(range(sectors))
        used = Signal(range(lanes + 1), init=lanes)
        held_count = Signal(range(lanes + 1), reset_less=True)
        held_damaged = Signal(reset_less=True)
        held_last = Signal(reset_less=True)
        m.d.comb += starts.eq(~busy)

        # Stage 1: take the beat that the segment needs, and find the ways of its elements. Of the
        # first segment they follow from the beat that brings it; others were counted a cycle ahead,
        # so that whether a beat is needed is an addition.
        routed_ready = Signal()
        step = Signal()
        needs_beat = Signal()
        present = Signal(lanes)
        ways = swaps(m, first_ones, name="first_swap")
        # Elements of the latest beat up to the segment's end.
        wanted = Signal(range(2 * lanes + 1))
        if sectors == 1:
            m.d.comb += [present.eq(beat.mask), needs_beat.eq(1), wanted.eq(first_count)]
        else:
            segment = Signal(lanes, reset_less=True)
            segment_count = Signal(range(lanes + 1), reset_less=True)
            mask = Signal(config.elements - 2 * lanes, reset_less=True)
            ahead = Signal(lanes)
            m.d.comb += ahead.eq(Mux(starts, beat.mask[lanes : 2 * lanes], mask[:lanes]))
            ahead_ones, ahead_count = ones_before(m, ahead, name="ahead")
            segment_ones = [
                Signal.like(Value.cast(before), name=f"segment_ones_{i}", reset_less=True)
                for i, before in enumerate(ahead_ones)
            ]
            later_ways = swaps(m, segment_ones, used[:lane_bits], name="later_swap")
            ways = [Mux(starts, *pair) for pair in zip(ways, later_ways, strict=True)]
            need = Signal(range(2 * lanes + 1))
            exceeds = Signal()
            m.d.comb += [
                present.eq(Mux(starts, beat.mask[:lanes], segment)),
                need.eq(used + segment_count),
                exceeds.eq((need > lanes) & ~held_damaged),
                # Nothing follows a damaged beat: what it lacks is missing.
                needs_beat.eq(starts | exceeds),
            ]
            with m.If(starts):
                m.d.comb += wanted.eq(first_count)
            with m.Elif(exceeds):
                # Less what the older beat had: a number from 1 to `lanes`.
                m.d.comb += wanted.eq(Cat(need[:lane_bits], need[lane_bits + 1]))
            with m.Else():
                m.d.comb += wanted.eq(need)
            with m.If(step):
                m.d.sync += [
                    segment.eq(ahead),
                    segment_count.eq(ahead_count),
                    *(own.eq(before) for own, before in zip(segment_ones, ahead_ones, strict=True)),
                    mask.eq(Mux(starts, beat.mask[2 * lanes :], mask[lanes:])),
                ]

        # In stage 2: the stream ended before the segment's end, so that it is the line's last.
        # Stage 1 learns of it while it has the next one, if there is a next one.
        short = Signal()
        cut = Signal()
        m.d.comb += cut.eq(short & busy)
        mask_missing = Signal()
        no_line = Signal()
        ends_line = Signal()
        last = Signal()
        m.d.comb += [
            mask_missing.eq(starts & (beat.truncation == Truncation.MASK)),
            no_line.eq(starts & beat.empty),
            ends_line.eq((index == sectors - 1) | mask_missing | no_line),
            last.eq(ends_line & Mux(needs_beat, beat.last, held_last)),
            step.eq(routed_ready & (beat_valid | ~needs_beat) & ~cut),
            beat_ready.eq(routed_ready & needs_beat & ~cut),
        ]
        with m.If(step):
            m.d.sync += [
                busy.eq(~ends_line),
                index.eq(Mux(ends_line, 0, index + 1)),
                used.eq(Mux(ends_line, lanes, wanted)),
            ]
            with m.If(needs_beat):
                m.d.sync += [
                    latest.eq(~latest),
                    held_count.eq(beat.count),
                    held_damaged.eq(beat.truncation != Truncation.NONE),
                    held_last.eq(beat.last),
                ]
        with m.If(cut & routed_ready):
            m.d.sync += [busy.eq(0), index.eq(0), used.eq(lanes)]

        # Whatever the segment on the way to stage 2 needs of the older beat, it takes in this
        # cycle. So that slot may be loaded with anything: it counts once a beat was taken.
        for s in range(slots):
            loads = routed_ready & ((latest != s) if slots == 2 else 1)
            for i in range(lanes):
                with m.If(loads & beat_valid & (i < beat.count) & needs_beat):
                    m.d.sync += slot_elements[s][i].eq(beat.elements[i])
            with m.If(loads & (beat_valid | busy)):
                there = Cat(i < beat.count for i in range(lanes))
                m.d.sync += slot_there[s].eq(Mux(needs_beat, there, 0))

        # Stage 2: pick the segment's elements from the slots, and put them in their lanes.
        routed_valid = Signal()
        routed_picks = Signal(lanes, reset_less=True)
        routed_swaps = [
            Signal(lanes // 2, name=f"routed_swap_{1 << k}", reset_less=True)
            for k in range(lane_bits)
        ]
        routed_present = Signal(lanes, reset_less=True)
        routed_wanted = Signal.like(wanted, reset_less=True)
        routed_sol = Signal(reset_less=True)
        routed_mask_missing = Signal(reset_less=True)
        routed_last = Signal(reset_less=True)
        routed_empty = Signal(reset_less=True)

        # The slot in which the row begins gives the lanes from its place on, the other the rest.
        picks = Signal(lanes)
        begins = Signal()
        m.d.comb += [
            begins.eq(latest ^ used[lane_bits]),
            picks.eq(Cat(bit ^ ~begins for bit in lanes_from(used[:lane_bits], lanes))),
        ]
        with m.If(routed_ready):
            m.d.sync += routed_valid.eq(step)
        with m.If(routed_ready & (beat_valid | busy)):
            m.d.sync += [
                routed_picks.eq(picks),
                *(own.eq(way) for own, way in zip(routed_swaps, ways, strict=True)),
                routed_present.eq(present),
                routed_wanted.eq(wanted),
                routed_sol.eq(starts),
                routed_mask_missing.eq(mask_missing),
                routed_last.eq(last),
                routed_empty.eq(no_line),
            ]

        row = []
        for i in range(lanes):
            # With each element goes that it is there at all.
            words = [Cat(slot_elements[s][i], slot_there[s][i]) for s in range(slots)]
            word = Signal(element_bits + 1, name=f"row_{i}")
            m.d.comb += word.eq(
                Mux(routed_picks[i], words[1], words[0]) if slots == 2 else words[0]
            )
            row.append(word)
        spread = scatter(m, row, routed_swaps, from_first=slots == 1, name="spread")
        missing = Signal(lanes)
        m.d.comb += missing.eq(
            Cat(routed_present[i] & ~spread[i][element_bits] for i in range(lanes))
        )
        sector_valid = Signal()
        # From reset on a lane that is not present is zero.
        sector = Signal(ExpandedSector(config))
        m.d.comb += [
            routed_ready.eq(~routed_valid | self.o.ready | ~sector_valid),
            short.eq(routed_valid & held_damaged & (routed_wanted > held_count)),
        ]
        with m.If(self.o.ready | ~sector_valid):
            m.d.sync += sector_valid.eq(routed_valid)
        for i in range(lanes):
            # What is zero and stays so needs no clock.
            with m.If(
                (self.o.ready | ~sector_valid)
                & routed_valid
                & (routed_present[i] | sector.present[i])
            ):
                m.d.sync += sector.elements[i].eq(
                    Mux(routed_present[i], spread[i][:element_bits], 0)
                )
        with m.If((self.o.ready | ~sector_valid) & routed_valid):
            m.d.sync += [
                sector.present.eq(routed_present),
                sector.missing.eq(missing),
                sector.sol.eq(routed_sol),
                sector.mask_missing.eq(routed_mask_missing),
                sector.last.eq(routed_last | short),
                sector.empty.eq(routed_empty),
            ]
        m.d.comb += [self.o.valid.eq(sector_valid), self.o.payload.eq(sector)]

        # A line starts with its first beat, and takes no other line's beats.
        with m.If(beat_valid & beat_ready):
            m.d.sync += Assert(beat.sol == starts)
        return m
