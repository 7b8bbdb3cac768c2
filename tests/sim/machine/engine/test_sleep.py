"""The engine whose components sleep does what it does when all of it is always awake."""

from collections.abc import Iterator

import pytest

from cdma.sim.driver import Throttle
from cdma.sim.machine import BusFault
from cdma.sim.machine.bus.bus import HOST, Counters
from tests.sim.machine.engine.bench import NEAR, STALLS, EngineBench
from tests.sim.machine.engine.cases import EACH_WAY

SLOW = Throttle(name="slow", bytes_per_s=1e9, burst_bytes=256)
"""A line takes 128 cycles: the bucket fills while all around it waits."""

FAULTS = (
    (),
    (BusFault(0, "r", "slverr", nth=3),),
    (BusFault(1, "b", "hang", nth=2),),
    # The descriptors are here by then.
    (BusFault(HOST, "r", "hang", nth=25),),
)
ABORT_AFTER = 300
IDLE_CYCLES = 3000


@pytest.fixture(params=STALLS)
def benches(request) -> Iterator[tuple[EngineBench, EngineBench]]:
    """One whose components sleep, and one that is always awake; nothing else differs."""
    pair = [
        EngineBench(environment=NEAR, stalls=request.param, seed=5, sleep=sleep)
        for sleep in (True, False)
    ]
    yield pair[0], pair[1]
    for bench in pair:
        bench.close()


@pytest.mark.parametrize("faults", FAULTS, ids=["none", "read-error", "write-hangs", "read-hangs"])
def test_everything_is_the_same_asleep_and_awake(benches, faults):
    asleep, awake = (list(story(bench, faults)) for bench in benches)
    for step, (one, other) in enumerate(zip(asleep, awake, strict=True)):
        assert one == other, f"step {step}"
    for memory in ("device", "host"):
        one, other = (getattr(bench.machine, memory).tobytes() for bench in benches)
        assert one == other


def story(bench: EngineBench, faults: tuple[BusFault, ...]) -> Iterator[object]:
    """Observations of transfers both ways, a throttled one, an abort, a reset and rest."""
    engine = bench.engine
    jobs = [bench.job(shape, area) for area, shape in enumerate(EACH_WAY)]
    transfers = bench.submit(jobs)
    bench.machine.set_faults(faults)
    engine.doorbell()
    engine.wait_all()
    yield [transfer.record for transfer in transfers]
    yield bench.machine.delivered_faults()
    bench.machine.set_faults([])
    yield from _look(bench)

    engine.set_throttle(0, SLOW)
    transfers = bench.submit(jobs[:1])
    engine.doorbell()
    yield [record.crc32 for record in engine.wait_all()]
    yield from _look(bench)

    transfers = bench.submit(jobs)
    engine.doorbell()
    bench.machine.run(ABORT_AFTER)
    engine.abort()
    yield [transfer.record for transfer in transfers]
    yield from _look(bench)
    engine.reset()
    bench.recovers()
    bench.machine.run(IDLE_CYCLES)
    yield from _look(bench)


def _look(bench: EngineBench) -> Iterator[object]:
    yield bench.machine.cycles
    yield bench.engine.counters()
    yield bench.engine.registers.read("STATUS")
    yield _plain(bench.machine.counters())
    yield bench.engine.first_error()


def _plain(counters: Counters) -> dict[str, object]:
    return {
        name: value.tolist() if hasattr(value, "tolist") else value
        for name, value in vars(counters).items()
    }
