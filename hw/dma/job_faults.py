"""Faults among what is outstanding, and whether they are of the job that asks for more."""

from amaranth.hdl import Assert, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.config import EngineConfig


def most_jobs(config: EngineConfig) -> int:
    """Most jobs in a path: twice as many as may have begun and have no record, and a few that are
    between its stages."""
    return 2 * config.transfers + 8


def count_jobs(
    m: Module, config: EngineConfig, begins: Value, *, name: str, first: int = 0
) -> Signal:
    """The number of a stage's job, by which stages of a path know whether they are at the same one.

    It goes round, behind more jobs than there are in a path.

    Parameters
    ----------
    begins
        The stage's next job begins behind this cycle.
    first
        The number before any has.
    """
    number = Signal(most_jobs(config).bit_length(), init=first, name=name)
    with m.If(begins):
        m.d.sync += number.eq(number + 1)
    return number


class JobFaultFilter(wiring.Component):
    """Tells which faults are of the present job, although jobs overlap.

    A stage that asks for items, such as lines or beats, goes on to its next job while items of
    former ones are outstanding. They end in the order in which they were asked for, so a fault is
    of the present job if none of a former one is outstanding: those are counted.

    Latency: 1 cycle from a fault to `own`.

    Parameters
    ----------
    items
        The largest number of outstanding items.
    most
        The largest number that is asked for in a cycle.

    Members
    -------
    begins : `In(1)`
        The next job begins behind this cycle. Not in the cycle in which its first item fails.
    asked : `In(range(most + 1))`
        Items that are asked for in this cycle.
    ended : `In(1)`
        The oldest item ends in this cycle.
    failed : `In(1)`
        The oldest item has a fault, before it ends or in the same cycle.
    own : `Out(1)`
        In the cycle before, an item of the present job had a fault, and no other job began.
    """

    def __init__(self, items: int, most: int = 1) -> None:
        self.items = items
        self.most = most
        super().__init__(
            {
                "begins": In(1),
                "asked": In(range(most + 1)),
                "ended": In(1),
                "failed": In(1),
                "own": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        # A cycle late, as all of it may be known late in its cycle.
        begins = Signal()
        asked = Signal.like(self.asked)
        ended = Signal()
        failed = Signal()
        m.d.sync += [
            begins.eq(self.begins),
            asked.eq(self.asked),
            ended.eq(self.ended),
            failed.eq(self.failed),
        ]
        outstanding = Signal(range(self.items + 1))
        former = Signal.like(outstanding)
        now = Signal.like(outstanding)
        m.d.comb += [
            now.eq(outstanding + asked - ended),
            self.own.eq(failed & (former == 0) & ~begins),
        ]
        m.d.sync += [
            outstanding.eq(now),
            Assert(outstanding + asked >= ended),
            Assert(outstanding <= self.items),
        ]
        with m.If(begins):
            m.d.sync += former.eq(now)
        with m.Elif(former != 0):
            m.d.sync += former.eq(former - ended)
        return m
