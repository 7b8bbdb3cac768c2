"""The queue in a memory: order, latency, rate, and how much it holds."""

import pytest

from cdma.hw.lib.fifo import Fifo
from tests.lib.rtl.bench import STALLS, Bench, assert_no_bubble, from_cycle, stalls

VALUES = list(range(100, 160))


@pytest.fixture(scope="module", params=[2, 3, 8])
def bench(request):
    return Bench(Fifo(8, request.param))


def test_a_transfer_per_cycle_two_cycles_later(bench):
    given = bench.source(bench.component.i, VALUES)
    taken = bench.sink(bench.component.o, len(VALUES))
    bench.run()
    assert taken.payloads == VALUES
    assert_no_bubble(given.cycles)
    assert taken.cycles == [cycle + 2 for cycle in given.cycles]


@pytest.mark.parametrize(("source", "sink"), STALLS)
def test_stalls_lose_nothing(bench, source, sink):
    bench.source(bench.component.i, VALUES, willing=stalls(source, 1))
    taken = bench.sink(bench.component.o, len(VALUES), willing=stalls(sink, 2))
    bench.run()
    assert taken.payloads == VALUES


def test_holds_its_depth_and_one_at_the_output(bench):
    late = 40
    given = bench.source(bench.component.i, VALUES)
    taken = bench.sink(bench.component.o, len(VALUES), willing=from_cycle(late))
    bench.run()
    held = sum(cycle < late for cycle in given.cycles)
    assert held == bench.component.depth + 1
    assert_no_bubble(given.cycles[:held])
    assert_no_bubble(taken.cycles)
    assert taken.payloads == VALUES
