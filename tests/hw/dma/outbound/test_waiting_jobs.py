"""Jobs that wait in the way out while the host takes nothing: as many as `transfers` says."""

from collections import deque

from cdma.hw.config import EngineConfig
from cdma.hw.dma.outbound.burst_sender import SHORT_BURSTS
from cdma.hw.dma.outbound.path import OutPath
from tests.lib.rtl.bench import offer
from tests.lib.simulator import Simulator

CONFIG = EngineConfig(units=1, buffer_bytes=8192, read_buffer_bytes=1024, transfers=8)
JOBS = 30
CYCLES = 200
IN_WORK = 1 + 1 + 1 + SHORT_BURSTS
"""Jobs that are split, made ready for the writer and collected, and bursts that wait behind it."""


def accepted(config):
    """The number of jobs, of a line each, that are accepted while no burst leaves."""
    path = OutPath(config)
    left = [
        {"src": 128 * k, "length": 16, "dst": 1024 * k, "capacity": 1024, "codec": 0}
        for k in range(JOBS)
    ]

    async def body(ctx):
        beats = deque()
        ctx.set(path.read_request[0].ready, 1)
        for _ in range(CYCLES):
            ctx.set(path.read_beats[0].valid, bool(beats))
            await offer(ctx, [(path.job, left)])
            if beats and ctx.get(path.read_beats[0].ready):
                beats.popleft()
            if ctx.get(path.read_request[0].valid):
                beats.extend(range(ctx.get(path.read_request[0].payload.beats) + 1))
            await ctx.tick()

    simulator = Simulator(path)
    simulator.add_clock(1e-9)
    simulator.add_testbench(body)
    simulator.run()
    return JOBS - len(left)


def test_as_many_jobs_as_configured_wait_for_those_that_the_writer_has():
    assert accepted(CONFIG) == IN_WORK + CONFIG.transfers
