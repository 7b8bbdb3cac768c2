"""A stream's queue between two clock domains.

Each side counts in a binary pointer and shows the other one its Gray code (Cummings, "Simulation
and Synthesis Techniques for Asynchronous FIFO Design", SNUG 2002). One bit of it changes per cycle,
so whenever the other side samples it, it finds the pointer as it is or as it was; an old pointer
makes a queue look fuller to its source, and emptier to its sink, than it is.

Amaranth's `AsyncFIFO` has such pointers, too. It is not taken, since it resets one side only, by an
asynchronous reset of its own, and since its parts are no components that Verilog is written of.
"""

from amaranth.hdl import Module, Shape, ShapeLike, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.lib.clocks.synchronizer import Synchronizer
from cdma.hw.lib.clocks.two_clock_ram import TwoClockRam

STAGES = 2
"""Registers in a row that bring one side's state to the other, if nothing is said."""


def latency_of(stages: int) -> int:
    """Latency of a queue with so many, in cycles of its sink's clock."""
    return stages + 2


def reset_cycles_of(stages: int) -> int:
    """The least cycles of each clock that a reset of such a queue takes."""
    return stages + 4


LATENCY = latency_of(STAGES)
RESET_CYCLES = reset_cycles_of(STAGES)
"""Those of queues of which nothing is said."""


class AsyncFifo(wiring.Component):
    """Queue in a memory that is written with one clock and read with another.

    Latency: `o` is valid with the `latency` = `stages` + 2nd edge of its clock after the transfer
    at `i`; one more where a register became metastable. Throughput: a transfer per cycle of the
    slower clock, if `depth` is at least 8 and `stages` is 2. No output depends combinationally on
    an input.

    A reset of either side empties the whole queue. It must last for `reset_cycles` = `stages` + 4
    cycles of either clock, and end synchronously to its own side's clock; the two sides' resets may
    begin and end in any order. The other side takes no transfer meanwhile, and the sink finds
    nothing that was not sent: what `o` offers already stays there, as streams demand, until it is
    taken or the sink's own side is reset.

    Parameters
    ----------
    shape
        Shape of the payload.
    depth
        The number of payloads that the memory holds, a power of two; one more is held at the
        output.
    i_domain, o_domain
        Clock domains of the source and of the sink, two different ones.
    stages
        Registers in a row that bring one side's state to the other; its pointer takes one more.

    Attributes
    ----------
    latency, reset_cycles : int
    local_domains : dict of str to str
        The module's own names of both domains, so that those of a size share one, whichever way
        they go.

    Members
    -------
    i : `In(stream.Signature(shape))`
    o : `Out(stream.Signature(shape))`

    Raises
    ------
    ValueError
        If the depth is no power of two of at least 2.
    """

    def __init__(
        self, shape: ShapeLike, depth: int, *, i_domain: str, o_domain: str, stages: int = STAGES
    ) -> None:
        if depth < 2 or depth & (depth - 1):
            raise ValueError(f"depth must be a power of two, at least 2, not {depth!r}")
        self._shape = shape
        self.depth = depth
        self.i_domain = i_domain
        self.o_domain = o_domain
        self.stages = stages
        self.latency = latency_of(stages)
        self.reset_cycles = reset_cycles_of(stages)
        self.local_domains = {i_domain: "i", o_domain: "o"}
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.storage = storage = TwoClockRam(
            Shape.cast(self._shape).width,
            self.depth,
            write_domain=self.i_domain,
            read_domain=self.o_domain,
        )
        # The upper bit is the lap's.
        bits = self.depth.bit_length()
        written = Signal(bits)
        written_gray = Signal(bits)
        taken = Signal(bits)
        taken_gray = Signal(bits)
        o_sees_input, written_seen = self._cross(m, "i", written_gray)
        i_sees_output, taken_seen = self._cross(m, "o", taken_gray)

        full = Signal()
        i_fire = Signal()
        m.d.comb += [
            # A lap ahead: in a Gray code, that turns the two upper bits over.
            full.eq(written_gray == taken_seen ^ (0b11 << bits - 2)),
            self.i.ready.eq(~full & i_sees_output),
            i_fire.eq(self.i.valid & self.i.ready),
            storage.write_enable.eq(i_fire),
            storage.write_address.eq(written[:-1]),
            storage.write_data.eq(self.i.payload),
        ]
        self._count(m, self.i_domain, written, written_gray, i_fire, i_sees_output)

        holds = Signal()
        read_fire = Signal()
        has_some = Signal()
        m.d.comb += [
            has_some.eq((taken_gray != written_seen) & o_sees_input),
            read_fire.eq(has_some & (self.o.ready | ~holds)),
            storage.read_enable.eq(read_fire),
            storage.read_address.eq(taken[:-1]),
            self.o.valid.eq(holds),
            Value.cast(self.o.payload).eq(storage.read_data),
        ]
        self._count(m, self.o_domain, taken, taken_gray, read_fire, o_sees_input)
        with m.If(read_fire):
            m.d[self.o_domain] += holds.eq(1)
        with m.Elif(self.o.ready):
            m.d[self.o_domain] += holds.eq(0)
        return m

    def _cross(self, m: Module, side: str, gray: Signal) -> tuple[Value, Value]:
        """Bring a side's state to the other one: if it is out of reset, and its pointer.

        A reset changes many bits of a pointer at once. Pointers are a stage late, so that the
        other side knows of the reset before it could see one of them.
        """
        own, other = self.i_domain, self.o_domain
        if side == "o":
            own, other = other, own
        runs = Signal(name=f"{side}_runs")
        m.d[own] += runs.eq(1)
        m.submodules[f"{side}_state"] = state = Synchronizer(1, self.stages, other)
        m.submodules[f"{side}_pointer"] = pointer = Synchronizer(len(gray), self.stages + 1, other)
        m.d.comb += [state.i.eq(runs), pointer.i.eq(gray)]
        return state.o, pointer.o

    def _count(
        self, m: Module, domain: str, pointer: Signal, gray: Signal, fire: Value, sees_other: Value
    ) -> None:
        """Count a side's transfers; from 0 again when the other side is in reset."""
        following = Signal.like(pointer, name=f"{pointer.name}_next")
        m.d.comb += following.eq(pointer + 1)
        with m.If(~sees_other):
            m.d[domain] += [pointer.eq(0), gray.eq(0)]
        with m.Elif(fire):
            m.d[domain] += [pointer.eq(following), gray.eq(following ^ following[1:])]
