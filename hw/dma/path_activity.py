"""Whether a data path may have something to do, for its clock's gate."""

from amaranth.hdl import Assert, Module, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from cdma.hw.config import EngineConfig
from cdma.hw.dma.job_faults import most_jobs

LINGER_CYCLES = 8
"""Cycles that a path's clock goes on behind its last outcome, and behind a reset.

All registers have come to rest with the last outcome in whatever has been simulated
(`tests/sim/machine/engine/test_clock_gates.py`), and two cycles behind a reset
(`tests/formal/dma/test_clock_gates.py`); the others are for what a codec may add.
"""


class PathActivity(wiring.Component):
    """Counts the jobs in a path, and asks for its clock while there are any, and for a while after.

    The path's clock goes on while a job is offered, in the path, or was so in one of the last
    `LINGER_CYCLES` cycles, while the path offers something to a port, and in reset. Nothing else
    makes a path begin something: it reads and writes for jobs only, and has no outcome before all
    that it asked for has been answered.

    Latency: none from a job's offer; all else is known from registers. Resources: a counter of
    jobs, and one of cycles.

    Parameters
    ----------
    config : EngineConfig

    Members
    -------
    job_valid : `In(1)`
        A job is offered to the path.
    job_fire : `In(1)`
        It is accepted.
    outcome_fire : `In(1)`
        The outcome of the path's oldest job is accepted.
    offers : `In(1)`
        The path offers a request or a beat to a port, which may answer before it has all beats.
    enable : `Out(1)`
        The path's clock must not stop in this cycle.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.config = config
        super().__init__(
            {
                "job_valid": In(1),
                "job_fire": In(1),
                "outcome_fire": In(1),
                "offers": In(1),
                "enable": Out(1),
            }
        )

    def elaborate(self, platform) -> Module:
        m = Module()
        most = most_jobs(self.config)
        jobs = Signal(range(most + 1))
        linger = Signal(range(LINGER_CYCLES + 1), init=LINGER_CYCLES)
        busy = Signal()
        m.d.comb += [
            busy.eq(self.job_valid | (jobs != 0) | self.offers),
            self.enable.eq(busy | (linger != 0) | ResetSignal()),
        ]
        m.d.sync += [
            jobs.eq(jobs + self.job_fire - self.outcome_fire),
            Assert(~self.outcome_fire | (jobs != 0)),
            Assert(~self.job_fire | (jobs != most)),
        ]
        with m.If(busy):
            m.d.sync += linger.eq(LINGER_CYCLES)
        with m.Elif(linger != 0):
            m.d.sync += linger.eq(linger - 1)
        return m
