"""The parameters of each round: its data, and how much the handshakes are stalled."""

from amaranth.hdl import Array, Cat, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

STATE_BITS = 32
SEED = 0x2545F491
"""Seed of round 0."""

FULL_DENSITY = 16
DENSITIES = (0, 16, 6, 1, 15, 10, 3, None)
"""Non-zero elements in sixteenths, by the low bits of the round; None: from line to line, 0 to 16
and again. 6 is the papers' typical 38 %."""


class RoundPlan(data.StructLayout):
    """The parameters of a round.

    Members
    -------
    seed
        Of its random numbers; not 0.
    density
        Non-zero elements in sixteenths.
    ramp
        The density is that of the first line, and one more from line to line.
    one_hot
        Non-zero elements have a single bit set.
    stalls
        How often a stream stands still: never, in a quarter of the cycles, in half of them, in
        seven eighths.
    """

    def __init__(self) -> None:
        super().__init__(
            {
                "seed": STATE_BITS,
                "density": range(FULL_DENSITY + 1),
                "ramp": 1,
                "one_hot": 1,
                "stalls": 2,
            }
        )


def xorshift(m: Module, state: Value, name: str) -> Signal:
    """The next state of a generator of 32 bits (Marsaglia, "Xorshift RNGs", 2003: 13, 17, 5).

    Never 0, if the state is not.
    """
    for shift in (13, -17, 5):
        stage = Signal(STATE_BITS, name=f"{name}_by_{abs(shift)}")
        moved = state << shift if shift > 0 else state >> -shift
        m.d.comb += stage.eq(state ^ moved)
        state = stage
    return stage


class RoundPlanner(wiring.Component):
    """Counts the rounds, and plans each.

    After 64 rounds each density has come with random and with one-hot elements, and with all
    stalls; then the seeds go on to differ. Latency: 1 cycle from `next`.

    Members
    -------
    next : `In(1)`
        Go on to the next round.
    round : `Out(32)`
        Its number, from 0.
    plan : `Out(RoundPlan())`
    """

    def __init__(self) -> None:
        super().__init__({"next": In(1), "round": Out(32), "plan": Out(RoundPlan())})

    def elaborate(self, platform) -> Module:
        m = Module()
        plan = self.plan
        seed = Signal(STATE_BITS, init=SEED)
        following = xorshift(m, seed, "seed")
        with m.If(self.next):
            m.d.sync += [self.round.eq(self.round + 1), seed.eq(following)]
        choice = self.round[:3]
        m.d.comb += [
            plan.seed.eq(seed),
            plan.density.eq(Array(density or 0 for density in DENSITIES)[choice]),
            plan.ramp.eq(Array(density is None for density in DENSITIES)[choice]),
            plan.one_hot.eq(self.round[3]),
            plan.stalls.eq(self.round[:2] + self.round[4:6]),
        ]
        return m


def lane_seed(seed: Value, lane: int) -> Value:
    """Return the seed of a lane's random numbers: different for each lane, and never 0."""
    constant = (lane + 1) * 0x9E3779B9 % (1 << STATE_BITS)
    return Cat(1, (seed ^ constant)[1:])
