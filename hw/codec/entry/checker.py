"""Checks kept entries, in the order of `cdma.golden.buddy.entry.EntryCodec.decode`.

What can be told without decoding is found first, beside the decoder; the rest when the length of
the code is known.
"""

import numpy as np
from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.golden.buddy.entry import AS_IT_IS, ENTRY_BYTES, SIZES
from cdma.golden.formats.bpc.bpc import encode_entries
from cdma.golden.formats.stream import StreamStatus
from cdma.hw.codec.bpc.last_step import DecodedPlanes
from cdma.hw.codec.entry.payloads import CODE_BYTES, STATUS_BITS, KeptEntry
from cdma.hw.config import EntryConfig
from cdma.hw.lib.count import count_ones
from cdma.hw.lib.pipeline import PipelineControl

_ZEROS_BITS = int(encode_entries(np.zeros(ENTRY_BYTES, np.uint8)).bits[0])
"""Length of the BPC code of an entry of zeros, and of no other."""


class EntryNote(data.StructLayout):
    """Facts of a kept entry that stand beside its BPC code.

    Members
    -------
    size_class
        Its class, 0 to 7.
    by_bpc, by_zvc
        It has a code, of which codec.
    nonzero
        For each byte of its class whether it is not zero; none behind it.
    zvc_bytes
        Length of its ZVC code.
    status, offset
        What is wrong with its metadata, mask or ZVC elements: a
        `cdma.golden.formats.stream.StreamStatus`, and the byte that it is at.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "size_class": range(len(SIZES)),
                "by_bpc": 1,
                "by_zvc": 1,
                "nonzero": CODE_BYTES,
                # A mask may announce more than an entry has room for.
                "zvc_bytes": range(2 * ENTRY_BYTES),
                "status": STATUS_BITS,
                "offset": range(ENTRY_BYTES + 1),
            }
        )


class EntryPrechecker(wiring.Component):
    """Finds what is wrong with an entry as far as that needs no decoding.

    Two stages: which bytes are zero, and how many elements a mask announces; the first of these
    that is zero, or behind the end. Without ZVC, the first is all.

    Latency: 2 cycles, or 1. Throughput: an entry per cycle.

    Parameters
    ----------
    config : EntryConfig

    Members
    -------
    i : `In(stream.Signature(KeptEntry()))`
    o : `Out(stream.Signature(EntryNote()))`
    """

    def __init__(self, config: EntryConfig) -> None:
        self.config = config
        super().__init__(
            {"i": In(stream.Signature(KeptEntry())), "o": Out(stream.Signature(EntryNote()))}
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        best_of = self.config.mode == "best-of"
        kept = self.i.payload

        # Stage 1.
        seen = Signal(EntryNote(), reset_less=True)
        m.submodules.seen = seen_control = PipelineControl()
        size_class = Signal.like(seen.size_class, name="size_class")
        flag = Signal()
        coded = Signal()
        nonzero = Signal(CODE_BYTES)
        m.d.comb += [
            Cat(size_class, flag).eq(kept.metadata),
            coded.eq((size_class != 0) & (size_class != AS_IT_IS)),
            nonzero.eq(
                Cat(
                    kept.data.word_select(k, 8).any() & (size_class >= _class_with(k))
                    for k in range(CODE_BYTES)
                )
            ),
            seen_control.i_valid.eq(self.i.valid),
            self.i.ready.eq(seen_control.i_ready),
        ]
        with m.If(seen_control.load):
            m.d.sync += [
                seen.size_class.eq(size_class),
                seen.by_bpc.eq(coded & ~flag),
                seen.nonzero.eq(nonzero),
                seen.status.eq(
                    Mux(
                        flag & ~coded if best_of else flag,
                        StreamStatus.BAD_TOKEN,
                        StreamStatus.OK,
                    )
                ),
                seen.offset.eq(0),
            ]
        if not best_of:
            m.d.comb += [
                self.o.valid.eq(seen_control.o_valid),
                self.o.payload.eq(seen),
                # Nothing loads these, so they would stay as they are at power-up.
                self.o.payload.by_zvc.eq(0),
                self.o.payload.zvc_bytes.eq(0),
                seen_control.o_ready.eq(self.o.ready),
            ]
            return m

        zvc = self.config.zvc
        count = Signal(range(zvc.elements + 1), reset_less=True)
        with m.If(seen_control.load):
            m.d.sync += [
                seen.by_zvc.eq(coded & flag),
                count.eq(count_ones(kept.data[: zvc.elements])),
            ]

        # Stage 2: no class has all of the last element that is looked at here.
        elements = (CODE_BYTES - zvc.mask_bytes) // zvc.element_bytes + 1
        lacking = Signal(elements)
        m.d.comb += lacking.eq(
            Cat(
                *(
                    (k < count)
                    & ~seen.nonzero[zvc.mask_bytes :].word_select(k, zvc.element_bytes).any()
                    for k in range(elements - 1)
                ),
                count >= elements,
            )
        )
        bad = Signal()
        place = Signal(range(CODE_BYTES + 1))
        m.d.comb += [
            bad.eq(seen.by_zvc & lacking.any()),
            place.eq(zvc.mask_bytes + first_one(m, lacking, "lacking") * zvc.element_bytes),
        ]
        size = Signal(range(ENTRY_BYTES + 1))
        with m.Switch(seen.size_class):
            for number in range(1, AS_IT_IS):
                with m.Case(number):
                    m.d.comb += size.eq(SIZES[number])

        noted = Signal(EntryNote(), reset_less=True)
        m.submodules.noted = noted_control = PipelineControl()
        m.d.comb += [
            noted_control.i_valid.eq(seen_control.o_valid),
            seen_control.o_ready.eq(noted_control.i_ready),
            noted_control.o_ready.eq(self.o.ready),
            self.o.valid.eq(noted_control.o_valid),
            self.o.payload.eq(noted),
        ]
        with m.If(noted_control.load):
            m.d.sync += [
                noted.eq(seen),
                noted.zvc_bytes.eq(zvc.mask_bytes + count * zvc.element_bytes),
            ]
            with m.If(bad):
                m.d.sync += [
                    noted.offset.eq(place),
                    noted.status.eq(
                        Mux(
                            place >= size,
                            StreamStatus.PAYLOAD_TRUNCATED,
                            StreamStatus.ZERO_ELEMENT,
                        )
                    ),
                ]
            if zvc.mask_bytes > SIZES[1]:
                with m.If(seen.by_zvc & (seen.size_class == 1)):
                    m.d.sync += [
                        noted.status.eq(StreamStatus.MASK_TRUNCATED),
                        noted.offset.eq(0),
                    ]
        return m


class EntryChecker(wiring.Component):
    """Tells whether entries are right, but for what only their words tell.

    Behind the code: whether a lesser class would do, and whether there is nothing but zeros.

    Latency: 0 cycles.

    Parameters
    ----------
    config : EntryConfig

    Members
    -------
    note : `In(stream.Signature(EntryNote()))`
    planes : `In(stream.Signature(DecodedPlanes()))`
        Of the same entry. If it has no BPC code: those of zeros.
    o : `Out(stream.Signature(DecodedPlanes()))`
        With the entry's status and offset.
    """

    def __init__(self, config: EntryConfig) -> None:
        self.config = config
        super().__init__(
            {
                "note": In(stream.Signature(EntryNote())),
                "planes": In(stream.Signature(DecodedPlanes())),
                "o": Out(stream.Signature(DecodedPlanes())),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        note, planes, out = self.note.payload, self.planes.payload, self.o.payload

        used = Signal.like(note.zvc_bytes, name="used")
        zeros = Signal()
        m.d.comb += [used.eq((planes.bits + 7) >> 3), zeros.eq(planes.bits == _ZEROS_BITS)]
        if self.config.mode == "best-of":
            with m.If(note.by_zvc):
                m.d.comb += [
                    used.eq(note.zvc_bytes),
                    zeros.eq(note.zvc_bytes == self.config.zvc.mask_bytes),
                ]
        # What the next lesser class has room for.
        lesser = Signal(range(ENTRY_BYTES + 1))
        with m.Switch(note.size_class):
            for number in range(2, AS_IT_IS):
                with m.Case(number):
                    m.d.comb += lesser.eq(SIZES[number - 1])
        fill = Signal(CODE_BYTES)
        too_large = Signal()
        m.d.comb += [
            fill.eq(note.nonzero & (((1 << CODE_BYTES) - 1) << used)),
            too_large.eq(zeros | (used <= lesser)),
        ]

        m.d.comb += [
            self.o.valid.eq(self.note.valid & self.planes.valid),
            self.note.ready.eq(self.o.ready & self.planes.valid),
            self.planes.ready.eq(self.o.ready & self.note.valid),
            out.base.eq(planes.base),
            out.planes.eq(planes.planes),
            out.bits.eq(planes.bits),
            out.status.eq(note.status),
            out.offset.eq(note.offset),
        ]
        with m.If(note.by_bpc & (planes.status != StreamStatus.OK)):
            m.d.comb += [out.status.eq(planes.status), out.offset.eq(planes.offset)]
        with m.Elif((note.by_bpc | note.by_zvc) & (note.status == StreamStatus.OK)):
            with m.If(too_large):
                m.d.comb += [out.status.eq(StreamStatus.LENGTH_MISMATCH), out.offset.eq(used)]
            with m.Elif(fill.any()):
                m.d.comb += [
                    out.status.eq(StreamStatus.NONZERO_FILL),
                    out.offset.eq(first_one(m, fill, "fill")),
                ]
        return m


def first_one(m: Module, bits: Value, name: str) -> Value:
    """The place of the first bit that is set; any if there is none. Halves what it may be in."""
    index: list[Value] = []
    span = 1 << (len(bits) - 1).bit_length()
    left = bits
    while span > 1:
        span //= 2
        above = Signal(name=f"{name}_above_{span}")
        half = Signal(span, name=f"{name}_half_{span}")
        m.d.comb += [
            above.eq(~left[:span].any()),
            half.eq(Mux(above, left[span:], left[:span])),
        ]
        index.append(above)
        left = half
    return Cat(reversed(index))


def _class_with(byte: int) -> int:
    """The least class that has this byte."""
    return next(number for number, size in enumerate(SIZES) if byte < size)
