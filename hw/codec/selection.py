"""The pipelines of several codecs side by side, and each line through its own.

An engine of one codec, which carries plain copies too, has its pipelines alone: no multiplexer.
"""

from collections.abc import Collection

from amaranth.hdl import Array, C, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.interface import LineCodec
from cdma.hw.codec.payloads import ExpandedSector, LineBeat, Sector
from cdma.hw.config import CodecConfig
from cdma.hw.lib.fifo import Fifo
from cdma.hw.lib.lanes import selected
from cdma.hw.lib.pipeline import PipelineRegister

LINES = 8
"""Lines that may be in the pipelines together, unless their latency needs more."""


def is_one_of(index: Value, wanted: Collection[int], config: CodecConfig) -> Value:
    """A bit that says whether a codec's index is one of those wanted, among the configuration's."""
    if len(wanted) == len(config.codecs):
        return C(1, 1)
    return Cat(index == i for i in wanted).any() if wanted else C(0, 1)


def is_copy(index: Value, config: CodecConfig) -> Value:
    """A bit that says whether a codec's index is that of plain copies."""
    return is_one_of(index, (config.copy_index,), config)


def head_sizes(index: Value, config: CodecConfig) -> list[tuple[int, Value]]:
    """The sizes of heads that the codecs have, in elements, each with whether it is this one's."""
    sizes: dict[int, list[int]] = {}
    for i, entry in enumerate(config.entries):
        if head := entry.head_bytes(config):
            sizes.setdefault(head // config.element_bytes, []).append(i)
    return [(size, is_one_of(index, indices, config)) for size, indices in sizes.items()]


def locates_errors(index: Value, config: CodecConfig) -> Value:
    """A bit that says, by its index, whether a codec finds errors itself."""
    entries = enumerate(config.entries)
    return is_one_of(index, [i for i, e in entries if e.locates_errors], config)


def summarizing_codecs(config: CodecConfig) -> list[LineCodec]:
    """The codecs that have a result for the record, in the configuration's order."""
    return [entry for entry in config.entries if entry.result]


def lossy_codecs(config: CodecConfig) -> list[LineCodec]:
    """The codecs whose data comes back with errors, in the configuration's order."""
    return [entry for entry in config.entries if not entry.lossless]


def is_counted(index: Value, config: CodecConfig) -> Value:
    """A bit that says, by its index, whether a mask announces the elements of a codec's lines."""
    return is_one_of(index, [i for i, e in enumerate(config.entries) if e.counted], config)


def pipelines(config: CodecConfig) -> list[tuple[LineCodec, tuple[int, ...]]]:
    """The codecs that need pipelines, each with the indices of what goes through them."""
    copy = config.copy_index
    carrier = next(
        (i for i, entry in enumerate(config.entries) if entry.carries_copies and i != copy), copy
    )
    return [
        (entry, (i, copy) if i == carrier != copy else (i,))
        for i, entry in enumerate(config.entries)
        if i != copy or carrier == copy
    ]


def expanding_lines(sector_latency: int, config: CodecConfig) -> int:
    """The number of lines that a decompressor may hold: enough that none waits for another."""
    return max(LINES, sector_latency // config.sectors + 2)


def line_compressor(config: CodecConfig) -> wiring.Component:
    """The compressor of the configuration's one codec, or a `SelectedCompressor`."""
    choices = pipelines(config)
    return choices[0][0].compressor(config) if len(choices) == 1 else SelectedCompressor(config)


class SelectedCompressor(wiring.Component):
    """Compresses each line by the codec that its sectors name, and keeps the lines in order.

    Latency: that of the codec, and up to 2 cycles to find its turn. Throughput: a sector per cycle
    while lines are of one codec.

    Resources: the codecs' compressors and a queue of `LINES` indices.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    i : `In(stream.Signature(Sector(config)))`
        Whole lines of sectors.
    o : `Out(stream.Signature(LineBeat(config)))`
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "i": In(stream.Signature(Sector(config))),
                "o": Out(stream.Signature(LineBeat(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        choices = pipelines(config)
        m.submodules.order = order = Fifo(range(len(choices)), LINES)

        # In: each line's first sector takes a place in the order.
        position = Signal(range(config.sectors))
        begins = Signal()
        which = Signal(range(len(choices)))
        ready = Signal(len(choices))
        x_ready = Signal()
        m.d.comb += [
            begins.eq(position == 0),
            x_ready.eq(Array(ready)[which] & (~begins | order.i.ready)),
            self.i.ready.eq(x_ready),
            order.i.valid.eq(self.i.valid & begins & Array(ready)[which]),
            order.i.payload.eq(which),
        ]
        with m.If(self.i.valid & x_ready):
            ends = self.i.payload.empty | (position == config.sectors - 1)
            m.d.sync += position.eq(Mux(ends, 0, position + 1))

        # Out: the beats of the line whose turn it is. Turns are in registers, as a compressor's
        # readiness, which follows from them, may reach back to the memory.
        m.submodules.turns = turns = PipelineRegister(len(choices))
        beat = self.o.payload
        x_valid = Signal(len(choices))
        turn = turns.o.payload
        m.d.comb += [
            turns.i.valid.eq(order.o.valid),
            turns.i.payload.eq(1 << order.o.payload),
            order.o.ready.eq(turns.i.ready),
        ]
        beats = []
        for k, (entry, indices) in enumerate(choices):
            m.submodules[f"{entry.identifier}_compressor"] = block = entry.compressor(config)
            with m.If(is_one_of(self.i.payload.codec, indices, config)):
                m.d.comb += which.eq(k)
            m.d.comb += [
                block.i.payload.eq(self.i.payload),
                block.i.valid.eq(self.i.valid & (which == k) & (~begins | order.i.ready)),
                ready[k].eq(block.i.ready),
                x_valid[k].eq(block.o.valid),
                block.o.ready.eq(turns.o.valid & turn[k] & self.o.ready),
            ]
            beats.append(block.o.payload.as_value())
        m.d.comb += [
            self.o.valid.eq(turns.o.valid & (x_valid & turn).any()),
            beat.as_value().eq(selected(turn, beats)),
            turns.o.ready.eq(self.o.valid & self.o.ready & beat.eol),
        ]
        return m


class LineFormat(data.StructLayout):
    """The codec of a line and its parameters.

    Members
    -------
    codec, parameters
        Index among the configuration's codecs, and the descriptor's parameters for it.
    """

    def __init__(self, config: CodecConfig) -> None:
        super().__init__({"codec": range(len(config.codecs)), "parameters": config.parameter_bits})


class SelectedDecompressor(wiring.Component):
    """Expands each line by its codec, and keeps the lines in order.

    Latency: that of the codec, and up to 2 cycles to find its turn. Throughput: a sector per cycle
    while lines are of one codec.

    Resources: the codecs' decompressors and a queue of `expanding_lines` indices.

    Parameters
    ----------
    config : CodecConfig

    Attributes
    ----------
    sector_latency : int
        That of the slowest codec.

    Members
    -------
    format : `In(stream.Signature(LineFormat(config)))`
        For each line.
    i : `In(stream.Signature(LineBeat(config)))`
        Each line's last beat has `last` set.
    o : `Out(stream.Signature(ExpandedSector(config)))`
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        self._blocks = [entry.decompressor(config) for entry, _ in pipelines(config)]
        self.sector_latency = max(block.sector_latency for block in self._blocks)
        super().__init__(
            {
                "format": In(stream.Signature(LineFormat(config))),
                "i": In(stream.Signature(LineBeat(config))),
                "o": Out(stream.Signature(ExpandedSector(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        choices = pipelines(config)
        m.submodules.order = order = Fifo(
            range(len(choices)), expanding_lines(self.sector_latency, config)
        )
        beat = self.i.payload

        # In: a line's codec stays at its port until the line's last beat.
        which = Signal(range(len(choices)))
        ready = Signal(len(choices))
        x_offered = Signal()
        m.d.comb += [
            x_offered.eq(self.i.valid & self.format.valid & (~beat.sol | order.i.ready)),
            self.i.ready.eq(x_offered & Array(ready)[which]),
            order.i.valid.eq(self.i.valid & self.format.valid & beat.sol & Array(ready)[which]),
            order.i.payload.eq(which),
            self.format.ready.eq(self.i.ready & beat.eol),
        ]

        # Out: the sectors of the line whose turn it is.
        sector = self.o.payload
        x_valid = Signal(len(choices))
        turn = order.o.payload
        sectors = []
        for k, ((entry, indices), block) in enumerate(zip(choices, self._blocks, strict=True)):
            m.submodules[f"{entry.identifier}_decompressor"] = block
            with m.If(is_one_of(self.format.payload.codec, indices, config)):
                m.d.comb += which.eq(k)
            m.d.comb += [
                block.i.payload.eq(beat),
                block.i.valid.eq(x_offered & (which == k)),
                ready[k].eq(block.i.ready),
                x_valid[k].eq(block.o.valid),
                block.o.ready.eq(order.o.valid & (turn == k) & self.o.ready),
            ]
            sectors.append(block.o.payload.as_value())
            if entry.parameters:
                m.d.comb += block.parameters.eq(self.format.payload.parameters)
        m.d.comb += [
            self.o.valid.eq(order.o.valid & Array(x_valid)[turn]),
            sector.as_value().eq(Array(sectors)[turn]),
            order.o.ready.eq(self.o.valid & self.o.ready & sector.last),
        ]
        return m
