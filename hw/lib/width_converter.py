"""Packets of beats in beats of another width, as AXI4-Stream's width converters make them."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.lib.beat import Beat
from cdma.hw.lib.pipeline import PipelineRegister


class PacketWidener(wiring.Component):
    """Makes wider beats of the beats of a packet.

    A packet's first beat goes to the place of a wide beat that its job names. Bytes of a wide beat
    that no beat has given are 0.

    Latency: 1 cycle from the beat that completes a wide one. Throughput: a beat per cycle; no cycle
    is lost between packets whose jobs are there.

    Parameters
    ----------
    narrow_bytes, wide_bytes
        Widths of beats, powers of two, the second one larger.

    Members
    -------
    first : `In(stream.Signature(range(wide_bytes // narrow_bytes)))`
        For each packet, the place of its first beat.
    i : `In(stream.Signature(Beat(narrow_bytes)))`
    o : `Out(stream.Signature(Beat(wide_bytes)))`
        The size of a packet's only or first beat counts the places before it, too.
    """

    def __init__(self, narrow_bytes: int, wide_bytes: int) -> None:
        self.narrow_bytes = narrow_bytes
        self.places = wide_bytes // narrow_bytes
        super().__init__(
            {
                "first": In(stream.Signature(range(self.places))),
                "i": In(stream.Signature(Beat(narrow_bytes))),
                "o": Out(stream.Signature(Beat(wide_bytes))),
            }
        )

    # Beats of 2 bytes become beats of 8, the first one at place 2:
    #
    #     i           a b   c d   e f   g h   i j   k (last)
    #     place       2     3     0     1     2     3
    #     o                 . . . . a b c d           e f g h i j k .  (7 bytes, last)

    def elaborate(self, platform) -> Module:
        m = Module()
        width = self.narrow_bytes
        m.submodules.beats = beats = PipelineRegister(self.o.payload.shape())
        wiring.connect(m, beats.o, wiring.flipped(self.o))
        begins = Signal(init=1)
        next_place = Signal(range(self.places))
        place = Signal(range(self.places))
        present = Signal()
        completes = Signal()
        fires = Signal()
        m.d.comb += [
            place.eq(Mux(begins, self.first.payload, next_place)),
            present.eq(self.i.valid & (self.first.valid | ~begins)),
            completes.eq(self.i.payload.last | (place == self.places - 1)),
            beats.i.valid.eq(present & completes),
            self.i.ready.eq((self.first.valid | ~begins) & (beats.i.ready | ~completes)),
            fires.eq(self.i.valid & self.i.ready),
            self.first.ready.eq(fires & begins),
            beats.i.payload.size.eq(place * width + self.i.payload.size),
            beats.i.payload.last.eq(self.i.payload.last),
        ]
        with m.If(fires):
            m.d.sync += [begins.eq(self.i.payload.last), next_place.eq(place + 1)]
        # Each place before the present one keeps its beat; the last place needs no register.
        parts = []
        for k in range(self.places):
            part = self.i.payload.data
            if k < self.places - 1:
                held = Signal(8 * width, name=f"held_{k}", reset_less=True)
                before = Mux(begins, 0, held)
                part = Mux(place == k, self.i.payload.data, Mux(place > k, before, 0))
                with m.If(fires):
                    m.d.sync += held.eq(part)
            else:
                part = Mux(place == k, self.i.payload.data, 0)
            parts.append(part)
        m.d.comb += beats.i.payload.data.eq(Cat(parts))
        return m


class PacketNarrower(wiring.Component):
    """Makes narrower beats of the beats of a packet.

    Latency: 1 cycle. Throughput: a beat of the output per cycle. Resources: a wide beat, which is
    taken whole, so that what gives it need not wait for all of its parts.

    Parameters
    ----------
    wide_bytes, narrow_bytes
        Widths of beats, powers of two, the first one larger.

    Members
    -------
    i : `In(stream.Signature(Beat(wide_bytes)))`
        A packet may end with a beat of no bytes.
    o : `Out(stream.Signature(Beat(narrow_bytes)))`
        As many beats as the bytes need, at least one for each beat that comes.
    """

    def __init__(self, wide_bytes: int, narrow_bytes: int) -> None:
        self.narrow_bytes = narrow_bytes
        self.places = wide_bytes // narrow_bytes
        super().__init__(
            {
                "i": In(stream.Signature(Beat(wide_bytes))),
                "o": Out(stream.Signature(Beat(narrow_bytes))),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        width = self.narrow_bytes
        width_bits = (width - 1).bit_length()
        m.submodules.beats = beats = PipelineRegister(self.i.payload.shape())
        wiring.connect(m, wiring.flipped(self.i), beats.i)
        beat = beats.o.payload
        place = Signal(range(self.places))
        whole = Signal(range(self.places + 1))
        rest = Signal(width_bits)
        is_final = Signal()
        m.d.comb += [
            whole.eq(beat.size[width_bits:]),
            rest.eq(beat.size[:width_bits]),
            # Nothing behind this part: it is the last one, or what follows has no bytes.
            is_final.eq((whole <= place) | ((whole == place + 1) & (rest == 0))),
            self.o.valid.eq(beats.o.valid),
            self.o.payload.data.eq(beat.data.word_select(place, 8 * width)),
            self.o.payload.size.eq(Mux(whole > place, width, rest)),
            self.o.payload.last.eq(beat.last & is_final),
            beats.o.ready.eq(self.o.ready & is_final),
        ]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += place.eq(Mux(is_final, 0, place + 1))
        return m
