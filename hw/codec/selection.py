"""The pipelines of several codecs side by side, and each line through its own.

An engine of one codec, which carries plain copies too, has its pipelines alone: no multiplexer.
"""

from collections.abc import Collection

from amaranth.hdl import Array, C, Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.codec.interface import LineCodec
from cdma.hw.codec.payloads import ExpandedSector, LineBeat, Sector
from cdma.hw.config import CodecConfig
from cdma.hw.lib.fifo import Fifo

LINES = 8
"""Lines that may be in the pipelines together."""


def is_one_of(index: Value, wanted: Collection[int], config: CodecConfig) -> Value:
    """Whether a codec's index is one of some, of a codec of the configuration."""
    if len(wanted) == len(config.codecs):
        return C(1, 1)
    return Cat(index == i for i in wanted).any() if wanted else C(0, 1)


def is_copy(index: Value, config: CodecConfig) -> Value:
    """Whether a codec's index is that of plain copies."""
    return is_one_of(index, (config.copy_index,), config)


def has_head(index: Value, config: CodecConfig) -> Value:
    """Whether the lines of a codec begin with a head, by its index."""
    entries = enumerate(config.entries)
    return is_one_of(index, [i for i, e in entries if e.head_bytes(config)], config)


def is_counted(index: Value, config: CodecConfig) -> Value:
    """Whether the elements of a codec's lines are announced by a mask, by its index."""
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

        # Out: the beats of the line whose turn it is.
        beat = self.o.payload
        x_valid = Signal(len(choices))
        turn = order.o.payload
        beats = []
        for k, (entry, indices) in enumerate(choices):
            m.submodules[f"{entry.name}_compressor"] = block = entry.compressor(config)
            with m.If(is_one_of(self.i.payload.codec, indices, config)):
                m.d.comb += which.eq(k)
            m.d.comb += [
                block.i.payload.eq(self.i.payload),
                block.i.valid.eq(self.i.valid & (which == k) & (~begins | order.i.ready)),
                ready[k].eq(block.i.ready),
                x_valid[k].eq(block.o.valid),
                block.o.ready.eq(order.o.valid & (turn == k) & self.o.ready),
            ]
            beats.append(block.o.payload.as_value())
        m.d.comb += [
            self.o.valid.eq(order.o.valid & Array(x_valid)[turn]),
            beat.as_value().eq(Array(beats)[turn]),
            order.o.ready.eq(self.o.valid & self.o.ready & beat.eol),
        ]
        return m


class SelectedDecompressor(wiring.Component):
    """Expands each line by its codec, and keeps the lines in order.

    Latency: that of the codec, and up to 2 cycles to find its turn. Throughput: a sector per cycle
    while lines are of one codec.

    Resources: the codecs' decompressors and a queue of `LINES` indices.

    Parameters
    ----------
    config : CodecConfig

    Members
    -------
    codec : `In(stream.Signature(range(len(config.codecs))))`
        For each line, its codec.
    i : `In(stream.Signature(LineBeat(config)))`
        Each line's last beat has `last` set.
    o : `Out(stream.Signature(ExpandedSector(config)))`
    """

    def __init__(self, config: CodecConfig) -> None:
        self.config = config
        super().__init__(
            {
                "codec": In(stream.Signature(range(len(config.codecs)))),
                "i": In(stream.Signature(LineBeat(config))),
                "o": Out(stream.Signature(ExpandedSector(config))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        config = self.config
        choices = pipelines(config)
        m.submodules.order = order = Fifo(range(len(choices)), LINES)
        beat = self.i.payload

        # In: a line's codec stays at its port until the line's last beat.
        which = Signal(range(len(choices)))
        ready = Signal(len(choices))
        x_offered = Signal()
        m.d.comb += [
            x_offered.eq(self.i.valid & self.codec.valid & (~beat.sol | order.i.ready)),
            self.i.ready.eq(x_offered & Array(ready)[which]),
            order.i.valid.eq(self.i.valid & self.codec.valid & beat.sol & Array(ready)[which]),
            order.i.payload.eq(which),
            self.codec.ready.eq(self.i.ready & beat.eol),
        ]

        # Out: the sectors of the line whose turn it is.
        sector = self.o.payload
        x_valid = Signal(len(choices))
        turn = order.o.payload
        sectors = []
        for k, (entry, indices) in enumerate(choices):
            m.submodules[f"{entry.name}_decompressor"] = block = entry.decompressor(config)
            with m.If(is_one_of(self.codec.payload, indices, config)):
                m.d.comb += which.eq(k)
            m.d.comb += [
                block.i.payload.eq(beat),
                block.i.valid.eq(x_offered & (which == k)),
                ready[k].eq(block.i.ready),
                x_valid[k].eq(block.o.valid),
                block.o.ready.eq(order.o.valid & (turn == k) & self.o.ready),
            ]
            sectors.append(block.o.payload.as_value())
        m.d.comb += [
            self.o.valid.eq(order.o.valid & Array(x_valid)[turn]),
            sector.as_value().eq(Array(sectors)[turn]),
            order.o.ready.eq(self.o.valid & self.o.ready & sector.last),
        ]
        return m
