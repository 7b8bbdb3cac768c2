"""The decompressor of zero-value compression: the paper's pipeline (cDMA, §V-B and Fig 10).

Its lines are those of the compressor (`compressor.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import ExpandedSector, LineBeat, Truncation
from cdma.hw.config import CodecConfig
from cdma.hw.lib.lanes import BlockCounts, lanes_from, scatter, swaps
from cdma.hw.lib.pipeline import PipelineControl


@dataclass(frozen=True)
class _CountedBeat:
    """A beat on its way into stage 1, with the counts of its mask's first segment.

    Attributes
    ----------
    beat : View of LineBeat
    valid, ready : Signal
        The handshake of the beat.
    ones : sequence of Value
        Ones before each lane of the segment.
    count : Value
        Ones of the segment.
    """

    beat: Any
    valid: Signal
    ready: Signal
    ones: Sequence[Value]
    count: Value


class _ExpandedLine:
    """Registers of the line that is expanded, and its next segment as stage 1 finds it.

    A line's beats go alternately to two slots, which are a ring of lanes; to one if a line is a
    beat. Its first beat begins a slot. `used` counts elements of the latest beat that are used up,
    which between lines is all of it; `segment_end` those up to the segment's end.
    """

    def __init__(self, config: CodecConfig) -> None:
        lanes = config.lanes
        element_bits = 8 * config.element_bytes
        slots = 1 if config.sectors == 1 else 2
        # Each slot's elements, and which of them are there.
        self.slots = [
            (
                [Signal(element_bits, name=f"slot_{s}_{i}", reset_less=True) for i in range(lanes)],
                Signal(lanes, name=f"slot_{s}_there", reset_less=True),
            )
            for s in range(slots)
        ]
        self.latest = Signal(slots - 1)
        self.busy = Signal()
        self.starts = Signal()
        self.used = Signal(range(lanes + 1), init=lanes)
        self.held_count = Signal(range(lanes + 1), reset_less=True)
        self.held_damaged = Signal(reset_less=True)
        self.step = Signal()
        self.needs_beat = Signal()
        self.present = Signal(lanes)
        self.ways: Sequence[Value] = ()
        self.segment_end = Signal(range(2 * lanes + 1))
        self.mask_missing = Signal()
        self.no_line = Signal()
        self.last = Signal()
        self.short = Signal()


class _RoutedStage:
    """Registers between the decompressor's stages 1 and 2: a segment and the ways of its elements.

    `picks` tells for each lane of the row which slot it comes from.
    """

    def __init__(self, config: CodecConfig) -> None:
        lanes = config.lanes
        self.control = PipelineControl()
        self.picks = Signal(lanes, name="routed_picks", reset_less=True)
        self.swaps = [
            Signal(lanes // 2, name=f"routed_swap_{1 << k}", reset_less=True)
            for k in range((lanes - 1).bit_length())
        ]
        self.present = Signal(lanes, name="routed_present", reset_less=True)
        self.segment_end = Signal(range(2 * lanes + 1), name="routed_segment_end", reset_less=True)
        self.sol = Signal(name="routed_sol", reset_less=True)
        self.mask_missing = Signal(name="routed_mask_missing", reset_less=True)
        self.last = Signal(name="routed_last", reset_less=True)
        self.empty = Signal(name="routed_empty", reset_less=True)


class ZvcDecompressor(wiring.Component):
    """Expands a sector per cycle.

    Two stages: count a segment of the mask, find the ways of its elements and take the beat that it
    needs; move them to their lanes. If the latency is "fast", the mask that comes with a line is
    counted within blocks of lanes in one more stage before. What decides whether a beat is needed
    was counted a cycle before. A line can begin before its later beats have arrived.

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
        line = _ExpandedLine(self.config)
        routed = _RoutedStage(self.config)
        m.submodules.routed = routed.control
        counted = self._count_first(m)
        self._find_segment(m, counted, line)
        self._take_beat(m, counted, line, routed)
        self._route(m, counted, line, routed)
        self._spread(m, line, routed)
        # A line starts with its first beat, and takes no other line's beats.
        with m.If(counted.valid & counted.ready):
            m.d.sync += Assert(counted.beat.sol == line.starts)
        return m

    def _count_first(self, m: Module) -> _CountedBeat:
        """Count the first segment of the mask that comes with a line.

        If the latency is "fast", counting within blocks of lanes is a stage of its own.
        """
        config = self.config
        blocks = BlockCounts(config.lanes)
        counted = blocks.count(m, self.i.payload.mask[: config.lanes], name="first_blocks")
        beat, valid, ready = self.i.payload, self.i.valid, self.i.ready
        if config.latency == "fast":
            m.submodules.counted = control = PipelineControl()
            beat = Signal(LineBeat(config), name="counted_beat", reset_less=True)
            counted_before = Signal(blocks, name="counted", reset_less=True)
            m.d.comb += [control.i_valid.eq(valid), ready.eq(control.i_ready)]
            with m.If(control.load):
                m.d.sync += [beat.eq(self.i.payload), *blocks.store(counted_before, counted)]
            counted, valid, ready = counted_before, control.o_valid, control.o_ready
        return _CountedBeat(beat, valid, ready, *blocks.join(m, counted, name="first"))

    def _find_segment(self, m: Module, counted: _CountedBeat, line: _ExpandedLine) -> None:
        """Stage 1: find the ways of the segment's elements, and whether it needs a beat.

        Of the first segment they follow from the beat that brings it; others were counted a cycle
        ahead, so that whether a beat is needed is an addition.
        """
        config = self.config
        lanes = config.lanes
        lane_bits = (lanes - 1).bit_length()
        beat = counted.beat
        m.d.comb += line.starts.eq(~line.busy)
        line.ways = swaps(m, counted.ones, name="first_swap")
        if config.sectors == 1:
            m.d.comb += [
                line.present.eq(beat.mask),
                line.needs_beat.eq(1),
                line.segment_end.eq(counted.count),
            ]
            return
        segment = Signal(lanes, reset_less=True)
        segment_count = Signal(range(lanes + 1), reset_less=True)
        mask = Signal(config.elements - 2 * lanes, reset_less=True)
        ahead = Signal(lanes)
        m.d.comb += ahead.eq(Mux(line.starts, beat.mask[lanes : 2 * lanes], mask[:lanes]))
        blocks = BlockCounts(lanes)
        ahead_blocks = blocks.count(m, ahead, name="ahead_blocks")
        ahead_ones, ahead_count = blocks.join(m, ahead_blocks, name="ahead")
        segment_ones = [
            Signal.like(Value.cast(before), name=f"segment_ones_{i}", reset_less=True)
            for i, before in enumerate(ahead_ones)
        ]
        later_ways = swaps(m, segment_ones, line.used[:lane_bits], name="later_swap")
        line.ways = [Mux(line.starts, *pair) for pair in zip(line.ways, later_ways, strict=True)]
        need = Signal(range(2 * lanes + 1))
        exceeds = Signal()
        m.d.comb += [
            line.present.eq(Mux(line.starts, beat.mask[:lanes], segment)),
            need.eq(line.used + segment_count),
            exceeds.eq((need > lanes) & ~line.held_damaged),
            # Nothing follows a truncated beat: what it lacks is missing.
            line.needs_beat.eq(line.starts | exceeds),
        ]
        with m.If(line.starts):
            m.d.comb += line.segment_end.eq(counted.count)
        with m.Elif(exceeds):
            # Less what the older beat had: a number from 1 to `lanes`.
            m.d.comb += line.segment_end.eq(Cat(need[:lane_bits], need[lane_bits + 1]))
        with m.Else():
            m.d.comb += line.segment_end.eq(need)
        with m.If(line.step):
            m.d.sync += [
                segment.eq(ahead),
                segment_count.eq(ahead_count),
                *(own.eq(before) for own, before in zip(segment_ones, ahead_ones, strict=True)),
                mask.eq(Mux(line.starts, beat.mask[2 * lanes :], mask[lanes:])),
            ]

    def _take_beat(
        self, m: Module, counted: _CountedBeat, line: _ExpandedLine, routed: _RoutedStage
    ) -> None:
        """Stage 1: take the beat that the segment needs into the slot that is not the latest.

        The line is cut when the stream ended before the end of the segment in stage 2, which is
        then the line's last. Stage 1 learns of it while it has the next one, if there is one.
        """
        lanes, sectors = self.config.lanes, self.config.sectors
        beat = counted.beat
        index = Signal(range(sectors))
        held_last = Signal(reset_less=True)
        cut = Signal()
        ends_line = Signal()
        m.d.comb += [
            cut.eq(line.short & line.busy),
            line.mask_missing.eq(line.starts & (beat.truncation == Truncation.MASK)),
            line.no_line.eq(line.starts & beat.empty),
            ends_line.eq((index == sectors - 1) | line.mask_missing | line.no_line),
            line.last.eq(ends_line & Mux(line.needs_beat, beat.last, held_last)),
            line.step.eq(routed.control.i_ready & (counted.valid | ~line.needs_beat) & ~cut),
            counted.ready.eq(routed.control.i_ready & line.needs_beat & ~cut),
        ]
        with m.If(line.step):
            m.d.sync += [
                line.busy.eq(~ends_line),
                index.eq(Mux(ends_line, 0, index + 1)),
                line.used.eq(Mux(ends_line, lanes, line.segment_end)),
            ]
            with m.If(line.needs_beat):
                m.d.sync += [
                    line.latest.eq(~line.latest),
                    line.held_count.eq(beat.count),
                    line.held_damaged.eq(beat.truncation != Truncation.NONE),
                    held_last.eq(beat.last),
                ]
        with m.If(cut & routed.control.i_ready):
            m.d.sync += [line.busy.eq(0), index.eq(0), line.used.eq(lanes)]

        # Whatever the segment on the way to stage 2 needs of the older beat, it takes in this
        # cycle. So that slot may be loaded with anything: it counts once a beat was taken.
        for s, (elements, there) in enumerate(line.slots):
            loads = routed.control.i_ready & ((line.latest != s) if len(line.slots) == 2 else 1)
            for i in range(lanes):
                with m.If(loads & counted.valid & (i < beat.count) & line.needs_beat):
                    m.d.sync += elements[i].eq(beat.elements[i])
            with m.If(loads & (counted.valid | line.busy)):
                arriving = Cat(i < beat.count for i in range(lanes))
                m.d.sync += there.eq(Mux(line.needs_beat, arriving, 0))

    def _route(
        self, m: Module, counted: _CountedBeat, line: _ExpandedLine, routed: _RoutedStage
    ) -> None:
        """Register the segment's ways, and the slot that each lane of its row comes from.

        The slot in which the row begins gives the lanes from its place on, the other the rest.
        """
        lanes = self.config.lanes
        lane_bits = (lanes - 1).bit_length()
        picks = Signal(lanes)
        begins = Signal()
        m.d.comb += [
            begins.eq(line.latest ^ line.used[lane_bits]),
            picks.eq(Cat(bit ^ ~begins for bit in lanes_from(line.used[:lane_bits], lanes))),
            routed.control.i_valid.eq(line.step),
        ]
        # Loaded also with what does not go on: whether it does is known late.
        with m.If(routed.control.i_ready & (counted.valid | line.busy)):
            m.d.sync += [
                routed.picks.eq(picks),
                *(own.eq(way) for own, way in zip(routed.swaps, line.ways, strict=True)),
                routed.present.eq(line.present),
                routed.segment_end.eq(line.segment_end),
                routed.sol.eq(line.starts),
                routed.mask_missing.eq(line.mask_missing),
                routed.last.eq(line.last),
                routed.empty.eq(line.no_line),
            ]

    def _spread(self, m: Module, line: _ExpandedLine, routed: _RoutedStage) -> None:
        """Stage 2: pick the segment's elements from the slots, and put them in their lanes."""
        config = self.config
        lanes = config.lanes
        element_bits = 8 * config.element_bytes
        row = []
        for i in range(lanes):
            # With each element goes that it is there at all.
            words = [Cat(elements[i], there[i]) for elements, there in line.slots]
            word = Signal(element_bits + 1, name=f"row_{i}")
            m.d.comb += word.eq(
                Mux(routed.picks[i], words[1], words[0]) if len(words) == 2 else words[0]
            )
            row.append(word)
        spread = scatter(m, row, routed.swaps, from_first=len(line.slots) == 1, name="spread")
        missing = Signal(lanes)
        m.d.comb += missing.eq(
            Cat(routed.present[i] & ~spread[i][element_bits] for i in range(lanes))
        )
        m.submodules.spread = control = PipelineControl()
        sector = Signal(ExpandedSector(config), reset_less=True)
        # A lane that is not present is zero: behind a reset all are loaded, whatever they hold.
        present = Signal(lanes, init=-1)
        m.d.comb += [
            control.i_valid.eq(routed.control.o_valid),
            routed.control.o_ready.eq(control.i_ready),
            line.short.eq(
                routed.control.o_valid & line.held_damaged & (routed.segment_end > line.held_count)
            ),
        ]
        for i in range(lanes):
            # What is zero and stays so needs no clock.
            with m.If(control.load & (routed.present[i] | present[i])):
                m.d.sync += sector.elements[i].eq(
                    Mux(routed.present[i], spread[i][:element_bits], 0)
                )
        with m.If(control.load):
            m.d.sync += [
                present.eq(routed.present),
                sector.missing.eq(missing),
                sector.sol.eq(routed.sol),
                sector.mask_missing.eq(routed.mask_missing),
                sector.last.eq(routed.last | line.short),
                sector.empty.eq(routed.empty),
            ]
        m.d.comb += [
            control.o_ready.eq(self.o.ready),
            self.o.valid.eq(control.o_valid),
            self.o.payload.eq(sector),
            self.o.payload.present.eq(present),
            # Its errors are found behind it. Nothing loads these, so they would stay as they are at
            # power-up.
            self.o.payload.status.eq(0),
            self.o.payload.offset.eq(0),
        ]
