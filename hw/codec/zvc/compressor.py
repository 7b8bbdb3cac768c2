"""The compressor of zero-value compression: the paper's pipeline (cDMA, §V-B and Fig 10).

A line is a mask with one bit per element, then the non-zero elements in order; the bit format is
specified by `cdma.golden.formats.zvc`. Here lines travel as `LineBeat`s, a sector's width of
payload at a time.
"""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.payloads import LineBeat, Sector, Truncation
from cdma.hw.codec.selection import is_copy
from cdma.hw.config import CodecConfig
from cdma.hw.lib.lanes import BlockCounts, gather, lanes_from, swaps
from cdma.hw.lib.pipeline import PipelineControl, PipelineRegister


class ComparedSector(data.StructLayout):
    """A sector, its elements that count as non-zero, and how many of them its blocks have."""

    def __init__(self, config: CodecConfig) -> None:
        super().__init__(
            {
                "sector": Sector(config),
                "present": config.lanes,
                "counted": BlockCounts(config.lanes),
            }
        )


class _ComparedStage:
    """Registers of the compressor's stage 1: a sector, and counts of what is not zero in it."""

    def __init__(self, config: CodecConfig) -> None:
        self.control = PipelineControl()
        self.sector = Signal(Sector(config), name="compared", reset_less=True)
        self.present = Signal(config.lanes, name="compared_present", reset_less=True)
        self.count = Signal(range(config.lanes + 1), name="compared_count", reset_less=True)
        # Ones before each lane; made with the prefix sum that says how wide they are.
        self.ones: list[Signal] = []


class _PackedStage:
    """Registers of the compressor's stage 2: elements in the lanes in which the line goes on.

    `place` is the sector's in the line, `needs` the last group of the window that it may change,
    both one-hot; `lands` has a bit for each place in the window that gets an element.
    """

    def __init__(self, config: CodecConfig) -> None:
        element_bits = 8 * config.element_bytes
        self.control = PipelineControl()
        self.elements = [
            Signal(element_bits, name=f"packed_{i}", reset_less=True) for i in range(config.lanes)
        ]
        self.present = Signal(config.lanes, name="packed_present", reset_less=True)
        self.place = Signal(config.sectors, name="packed_place", reset_less=True)
        self.completes = Signal(name="packed_completes", reset_less=True)
        self.total = Signal(range(config.elements + 1), name="packed_total", reset_less=True)
        self.last = Signal(name="packed_last", reset_less=True)
        self.empty = Signal(name="packed_empty", reset_less=True)
        self.needs = Signal(config.sectors, name="packed_needs", reset_less=True)
        self.lands = Signal(config.elements, name="packed_lands", reset_less=True)


class _Window:
    """The compressor's window: a line that is sent, group by group, and the next one behind it.

    Behind a line's elements there may be anything; `tail` tells the lanes of its last beat that
    have an element.
    """

    def __init__(self, config: CodecConfig) -> None:
        element_bits = 8 * config.element_bytes
        self.append = Signal()
        self.append_ready = Signal()
        self.sending = Signal()
        self.sent = Signal()
        self.beat_place = Signal(config.sectors, init=1)
        self.elements = [
            Signal(element_bits, name=f"window_{i}", reset_less=True)
            for i in range(config.elements)
        ]
        self.mask = Signal(config.elements, name="window_mask", reset_less=True)
        self.left = Signal(range(config.elements + 1), name="window_left", reset_less=True)
        self.tail = Signal(config.lanes, name="window_tail", reset_less=True)
        self.final = Signal(name="window_final", reset_less=True)
        self.last = Signal(name="window_last", reset_less=True)
        self.empty = Signal(name="window_empty", reset_less=True)


class ZvcCompressor(wiring.Component):
    """Compresses a sector per cycle.

    Three stages: compare with zero and count; move the non-zero elements to the lanes in which the
    line goes on; append them to it. If the latency is "fast", they are compared and counted within
    blocks of lanes in a stage before the first. A finished line is sent from the same window that
    the next one is appended to: a sector is let in once the beat that it overwrites has left, which
    is at once while the consumer is ready.

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
        compared = _ComparedStage(self.config)
        packed = _PackedStage(self.config)
        m.submodules.compared = compared.control
        m.submodules.packed = packed.control
        window = _Window(self.config)
        self._compare(m, compared, packed)
        self._pack(m, compared, packed, window)
        self._append(m, packed, window)
        self._send(m, window)
        # A line can only complete into a window whose previous line is out.
        with m.If(window.append & packed.completes & window.sending):
            m.d.sync += Assert(window.sent & window.final)
        return m

    def _compare(self, m: Module, compared: _ComparedStage, packed: _PackedStage) -> None:
        """Stage 1: compare with zero, and count what is not zero.

        These are two stages if the latency is "fast": the first one counts within blocks of lanes.
        Of a plain copy every element counts.
        """
        config = self.config
        lanes = config.lanes
        copied = Signal()
        found = Signal(lanes)
        blocks = BlockCounts(lanes)
        counted: Any = blocks.count(m, found, name="blocks")
        m.d.comb += [
            copied.eq(is_copy(self.i.payload.codec, config)),
            found.eq(Cat(self.i.payload.elements[i].any() | copied for i in range(lanes))),
        ]
        valid, ready = self.i.valid, self.i.ready
        sector, present = self.i.payload, found
        if config.latency == "fast":
            m.submodules.seen_register = register = PipelineRegister(ComparedSector(config))
            seen = register.i.payload
            m.d.comb += [
                register.i.valid.eq(valid),
                ready.eq(register.i.ready),
                seen.sector.eq(sector),
                seen.present.eq(found),
                *blocks.store(seen.counted, counted),
            ]
            valid, ready = register.o.valid, register.o.ready
            sector, present = register.o.payload.sector, register.o.payload.present
            counted = register.o.payload.counted
        ones, count = blocks.join(m, counted, name="compare")
        compared.ones = [
            Signal.like(Value.cast(before), name=f"compared_ones_{i}", reset_less=True)
            for i, before in enumerate(ones)
        ]
        m.d.comb += [
            compared.control.i_valid.eq(valid),
            ready.eq(compared.control.i_ready),
        ]
        # Here and below a lane is loaded only with an element: clock gates save what is zero.
        for i in range(lanes):
            with m.If(compared.control.load & present[i]):
                m.d.sync += compared.sector.elements[i].eq(sector.elements[i])
        with m.If(compared.control.load):
            m.d.sync += [
                compared.sector.last.eq(sector.last),
                compared.sector.empty.eq(sector.empty),
                compared.present.eq(present),
                compared.count.eq(count),
                *(own.eq(before) for own, before in zip(compared.ones, ones, strict=True)),
            ]

    def _pack(
        self, m: Module, compared: _ComparedStage, packed: _PackedStage, window: _Window
    ) -> None:
        """Stage 2: move the non-zero elements to where the line ends, a lane of the window."""
        config = self.config
        lanes, sectors = config.lanes, config.sectors
        offset = Signal(range(config.elements))
        index = Signal(range(sectors))
        offset_lane = Signal(range(lanes))
        completes = Signal()
        count = compared.count
        total = Signal(range(config.elements + 1))
        m.d.comb += [
            offset_lane.eq(offset),
            completes.eq((index == sectors - 1) | compared.sector.empty),
            total.eq(offset + count),
        ]
        filled, lands = self._landing(m, compared, offset, offset_lane, count)

        # A sector that is a line begins it.
        whole = sectors == 1
        turns = swaps(m, compared.ones, None if whole else offset_lane, name="pack_swap")
        elements = [compared.sector.elements[i] for i in range(lanes)]
        turned = gather(m, elements, turns, from_first=whole, name="pack")
        m.d.comb += [
            packed.control.i_valid.eq(compared.control.o_valid),
            compared.control.o_ready.eq(packed.control.i_ready),
        ]
        for i in range(lanes):
            with m.If(packed.control.load & filled[i]):
                m.d.sync += packed.elements[i].eq(turned[i])
        with m.If(packed.control.load):
            m.d.sync += [
                packed.present.eq(compared.present),
                packed.place.eq(1 << index),
                packed.completes.eq(completes),
                packed.needs.eq(1 << Mux(completes, sectors - 1, index)),
                packed.lands.eq(lands),
                packed.total.eq(Mux(compared.sector.empty, 0, total)),
                packed.last.eq(compared.sector.last),
                packed.empty.eq(compared.sector.empty),
                index.eq(Mux(completes, 0, index + 1)),
                offset.eq(Mux(completes, 0, total)),
            ]

    def _landing(
        self,
        m: Module,
        compared: _ComparedStage,
        offset: Signal,
        offset_lane: Signal,
        count: Value,
    ) -> tuple[Signal, Signal]:
        """The lanes that get an element, and the places of the window in which they land.

        From the offset's lane on they land in its group of lanes, those below in the next one. Of
        the lanes from the offset's on, round the end, as many get an element as there are.
        """
        config = self.config
        lanes = config.lanes
        lane_bits = (lanes - 1).bit_length()
        upper = Signal(lanes)
        group = Signal(config.sectors)
        lands = Signal(config.elements)
        filled = Signal(lanes)
        end = Signal(lane_bits + 1)
        m.d.comb += [
            upper.eq(lanes_from(offset_lane, lanes)),
            group.eq(Mux(compared.sector.empty, 0, 1 << (offset >> lane_bits))),
            end.eq(offset_lane + count),
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
        return filled, lands

    def _append(self, m: Module, packed: _PackedStage, window: _Window) -> None:
        """Stage 3: append to the window; what completes a line takes the whole window over.

        Sector s writes groups 0 … s. A group is free once it has been sent, or is sent in this
        cycle: all are, if the beat is the line's last.
        """
        config = self.config
        lanes, sectors = config.lanes, config.sectors
        lane_bits = (lanes - 1).bit_length()
        free = Signal(sectors, init=-1)
        leaving = Signal(sectors)
        m.d.comb += [
            packed.control.o_ready.eq(window.append_ready),
            window.append.eq(packed.control.o_valid & window.append_ready),
            window.sent.eq(window.sending & self.o.ready),
            leaving.eq(window.beat_place | free | window.final.replicate(sectors)),
            window.append_ready.eq(
                (packed.needs & free).any() | (window.sent & (packed.needs & leaving).any())
            ),
        ]

        # Elements over the line's full beats; without any the last one is full too.
        over = packed.total[:lane_bits]
        fills = (over == 0) & (packed.total != 0)
        for j, word in enumerate(window.elements):
            with m.If(window.append & packed.lands[j]):
                m.d.sync += word.eq(packed.elements[j % lanes])
        with m.If(window.sent):
            m.d.sync += [
                window.beat_place.eq(Mux(window.final, 1, window.beat_place << 1)),
                free.eq(leaving),
                window.left.eq(window.left - lanes),
                window.final.eq(window.left <= 2 * lanes),
            ]
            with m.If(window.final):
                m.d.sync += window.sending.eq(0)
        with m.If(window.append):
            for s in range(sectors):
                with m.If(packed.place[s]):
                    m.d.sync += window.mask[s * lanes : (s + 1) * lanes].eq(packed.present)
            with m.If(packed.completes):
                m.d.sync += [
                    window.sending.eq(1),
                    free.eq(0),
                    window.left.eq(packed.total),
                    window.tail.eq(~lanes_from(over, lanes) | fills.replicate(lanes)),
                    window.final.eq(packed.total <= lanes),
                    window.last.eq(packed.last),
                    window.empty.eq(packed.empty),
                ]

    def _send(self, m: Module, window: _Window) -> None:
        """Send a line's beats from the window's first group up."""
        lanes, sectors = self.config.lanes, self.config.sectors
        element_bits = 8 * self.config.element_bytes
        out = self.o.payload
        m.d.comb += [
            self.o.valid.eq(window.sending),
            out.mask.eq(Mux(window.beat_place[0] & ~window.empty, window.mask, 0)),
            out.count.eq(Mux(window.final, window.left, lanes)),
            out.sol.eq(window.beat_place[0]),
            out.eol.eq(window.final),
            out.last.eq(window.last & window.final),
            out.empty.eq(window.empty),
            out.truncation.eq(Truncation.NONE),
        ]
        for i in range(lanes):
            there = Signal(name=f"beat_there_{i}")
            m.d.comb += there.eq(~window.final | window.tail[i])
            choices = [Signal(element_bits, name=f"beat_{s}_{i}") for s in range(sectors)]
            for s, choice in enumerate(choices):
                word = window.elements[s * lanes + i]
                m.d.comb += choice.eq(Mux(window.beat_place[s] & there, word, 0))
            m.d.comb += out.elements[i].eq(reduce(or_, choices))
