"""The unpacker's slots for proofs: the oldest beat is always in the first one."""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.hdl._ast import AnySeq

from cdma.hw.codec.stream.slots import ElementSlots


class StraightSlots(ElementSlots):
    """The behavior of `ElementSlots`, cycle by cycle, with beats that move to the first slot.

    It serves proofs with properties of the elements that are held, which are hard to state while
    slots wrap around. What is not held is anything, as the contract has it.
    """

    def elaborate(self, platform) -> Module:
        m = Module()
        lanes, slots = self.config.lanes, self.slots
        element_bits = 8 * self.config.element_bytes
        word_bits = len(self.beat[0])
        slot_bits = lanes * word_bits
        held = [Signal(slot_bits, name=f"slot_{s}", reset_less=True) for s in range(slots)]
        held_count = Signal(range(slots + 1))
        start = Signal(range(lanes))

        shifted = Cat(held) >> (start * word_bits)
        head = self.length_elements
        words = [shifted[i * word_bits : (i + 1) * word_bits] for i in range(self.shown + head - 1)]
        for i in range(self.shown):
            element = words[i][:element_bits]
            announced = Signal(self.length_bits, name=f"announced_{i}")
            found = self.codec.payload_elements(words[i : i + head], self.config)
            m.d.comb += [
                announced.eq(Mux(i + head <= self.level, found, AnySeq(self.length_bits))),
                self.words[i].eq(
                    Cat(Mux(i < self.level, element, AnySeq(element_bits)), self.clipped(announced))
                ),
            ]
            if i == 0:
                first = announced if head else self.announced_by(self.words[0])
        m.d.comb += [
            self.announced.eq(first),
            self.free.eq(held_count != slots),
        ]

        length = Mux(self.reads, Mux(self.reads_both, self.both, self.alone), 0)
        end = Signal(range(lanes + self.shown))
        kept_count = Signal(range(slots + 1))
        freed = end // lanes
        kept: Value = Cat(held) >> (freed * slot_bits)
        arriving = self.beat.as_value()
        m.d.comb += [end.eq(start + length), kept_count.eq(held_count - freed)]
        m.d.sync += [
            start.eq(end % lanes),
            held_count.eq(kept_count + self.stores),
            self.level.eq(self.level - length + Mux(self.stores, self.count, 0)),
        ]
        for s, slot in enumerate(held):
            stays = kept[s * slot_bits : (s + 1) * slot_bits]
            m.d.sync += slot.eq(Mux(self.stores & (kept_count == s), arriving, stays))
        with m.If(self.drop):
            m.d.sync += self.level.eq(0)
        with m.If(self.clear):
            m.d.sync += [register.eq(0) for register in (held_count, start, self.level)]
        return m
