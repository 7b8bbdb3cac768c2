"""What holds up a line is told in the cycles in which there is a line, and for one reason."""

from cdma.hw.dma.outbound.issue import LineIssuer
from tests.hw.dma.outbound.test_issue import LINE_BYTES, engine
from tests.lib.simulator import Simulator

LINES = 2
JOB = {"src": 0x1000, "length": LINES * LINE_BYTES, "first_unit": 0}
CYCLES = 20


def stalls(jobs, *, permits):
    """Cycles without credit and throttled, of a unit with room for `LINES` that frees none."""
    issuer = LineIssuer(engine(1, LINES))
    counts = {"no_credit": 0, "throttled": 0, "issued": 0}

    async def body(ctx):
        queue = list(jobs)
        ctx.set(issuer.o[0].ready, 1)
        ctx.set(issuer.ends.ready, 1)
        ctx.set(issuer.permits, permits)
        for _ in range(CYCLES):
            ctx.set(issuer.i.valid, bool(queue))
            if queue:
                ctx.set(issuer.i.payload, queue[0])
            await ctx.delay(1e-10)
            if queue and ctx.get(issuer.i.ready):
                queue.pop(0)
            for name in counts:
                counts[name] += ctx.get(getattr(issuer, name))
            await ctx.tick()

    simulator = Simulator(issuer)
    simulator.add_clock(1e-9)
    simulator.add_testbench(body)
    simulator.run()
    return counts


def test_no_credit_counts_nothing_without_a_line():
    assert stalls([JOB], permits=2) == {"no_credit": 0, "throttled": 0, "issued": LINES}


def test_no_credit_counts_each_cycle_that_a_line_waits_for_room():
    # A cycle to take each job, and one for each line of the first.
    waits = CYCLES - 1 - LINES
    assert stalls([JOB, JOB], permits=2) == {"no_credit": waits, "throttled": 0, "issued": LINES}


def test_throttled_counts_each_cycle_that_a_line_waits_for_a_permit():
    assert stalls([JOB], permits=0) == {"no_credit": 0, "throttled": CYCLES - 1, "issued": 0}
