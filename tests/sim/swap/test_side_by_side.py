"""Arrays in parts through engines side by side: what each gets, and what comes of it together."""

from dataclasses import replace

import numpy as np
import pytest

from cdma.golden import LINE_BYTES, codec
from cdma.hw.config import ConfigError, preset
from cdma.plan.engine_cost import Setup
from cdma.sim.driver import THROTTLES
from cdma.sim.swap import EngineBackend, Swapper
from cdma.sim.swap.backend import ArrayResult, EngineFigures
from cdma.sim.swap.encoding import engine_encoding
from cdma.sim.swap.side_by_side import dealt, together
from cdma.sim.swap.window import Piece
from tests.sim.machine.engine.bench import NEAR
from tests.sim.machine.engine.cases import SMALL
from tests.sim.swap.test_swap_queue import activations


def pieces_of(*sizes: int, index: int = 0) -> list[Piece]:
    """An array's pieces, whose bytes say where they stand."""
    data = np.arange(sum(sizes)).astype(np.uint8)
    encoding = engine_encoding("raw", data, 4, None)
    cuts = np.split(data, np.cumsum(sizes)[:-1])
    return [Piece(index, cut, encoding, last=k == len(cuts) - 1) for k, cut in enumerate(cuts)]


def passed(queue: list[Piece], cycles: int) -> dict[int, ArrayResult]:
    """What an engine makes of a queue that comes back as it is, each piece in so many cycles."""
    results: dict[int, ArrayResult] = {}
    for piece in queue:
        part = ArrayResult(
            streams=[piece.data],
            returned=[piece.data + 1],
            cycles_out=cycles,
            cycles_in=2 * cycles,
            faults={f"array {piece.index}"},
            engine=EngineFigures(
                link_out_busy_cycles=cycles, dram_read_bytes=1, latency_cycles_out=cycles
            ),
        )
        begun = results.get(piece.index)
        results[piece.index] = part if begun is None else ArrayResult.joined([begun, part])
    return results


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ((12 * LINE_BYTES,), [[512], [512], [512]]),
        ((5 * LINE_BYTES - 1,), [[256], [256], [127]]),
        ((4 * LINE_BYTES,), [[256], [256], []]),
        ((1,), [[1], [], []]),
        ((6 * LINE_BYTES, LINE_BYTES), [[256, 128], [256], [256]]),
    ],
)
def test_each_engine_has_whole_lines_of_each_piece(sizes, parts):
    queues = dealt(pieces_of(*sizes), 3)
    assert [[piece.data.size for piece in own] for own in queues] == parts
    # An array ends in every engine that has a part of it.
    assert all(
        [piece.last for piece in own] == [False] * (len(own) - 1) + [True] * bool(own)
        for own in queues
    )


@pytest.mark.parametrize("engines", [2, 3, 8])
def test_parts_come_together_in_their_order(engines):
    first, second = pieces_of(700, 130, 5), pieces_of(1, index=1)
    queue = [*first, *second]
    results = [passed(own, 10) for own in dealt(queue, engines)]
    found = dict(together(queue, results))
    assert list(found) == [0, 1]
    for index, pieces in enumerate((first, second)):
        for piece, stream, back in zip(
            pieces, found[index].streams, found[index].returned, strict=True
        ):
            np.testing.assert_array_equal(stream, piece.data)
            np.testing.assert_array_equal(back, piece.data + 1)
        assert found[index].faults == {f"array {index}"}


def test_an_array_ends_with_the_last_engine():
    """The first engine is slow; the second has nothing of the array behind."""
    queue = [*pieces_of(2 * LINE_BYTES), *pieces_of(1, index=1), *pieces_of(256, index=2)]
    slow, fast = dealt(queue, 2)
    found = dict(together(queue, [passed(slow, 100), passed(fast, 30)]))
    # Ends: 100 of 100 and 30; 200 and 30; 300 and 60.
    assert [found[k].cycles_out for k in range(3)] == [100, 100, 100]
    assert [found[k].cycles_in for k in range(3)] == [200, 200, 200]
    engine = found[0].engine
    assert engine is not None
    # A share of the link each, and memories of their own.
    assert engine.link_out_busy_cycles == 65
    assert (engine.dram_read_bytes, engine.latency_cycles_out) == (2, 100)


@pytest.mark.parametrize("engines", [2, 3])
def test_the_rtl_s_parts_are_the_array_s_stream(engines):
    around = replace(NEAR, engines=engines, channels=SMALL.units)
    arrays = [
        activations(3000),
        activations(0),
        activations(1),
        activations(257, seed=2),
        activations(640, seed=3, dtype=np.float16),
    ]
    backend = EngineBackend(SMALL, around, throttle=THROTTLES["none"], stalls=0.2)
    with Swapper(backend) as swapper:
        run = swapper.swap([(str(k), array) for k, array in enumerate(arrays)])
    for array, round_trip in zip(arrays, run.round_trips, strict=True):
        assert round_trip.bit_exact, round_trip.faults
        stream = codec("zvc", array.dtype.itemsize).compress(array)
        assert round_trip.compressed_bytes == stream.size
    statuses = run.round_trips[0].engine.statuses
    assert len(statuses) == 2 * engines


@pytest.mark.parametrize("density", [0.3, 1.0])
def test_three_engines_take_as_long_as_the_closed_form_says(density):
    setup = Setup.named("titanx_gen3")
    machine = replace(
        setup.machine,
        engines=3,
        dram_bytes_per_s=3 * setup.machine.dram_bytes_per_s,
        link_out_bytes_per_s=48e9,
        link_in_bytes_per_s=48e9,
    )
    rng = np.random.default_rng(5)
    array = rng.integers(1, 2**32, 3 << 14, dtype=np.uint32)
    array[rng.random(array.size) >= density] = 0
    backend = EngineBackend(setup.engine, machine, throttle=THROTTLES["none"])
    with Swapper(backend) as swapper:
        (run,) = swapper.swap([("array", array)], baselines=False).round_trips
    assert run.bit_exact
    estimate = replace(setup, machine=machine)
    for way, cycles in (("out", run.cycles_out), ("in", run.cycles_in)):
        cost = estimate.cost(array.nbytes, run.compressed_bytes, way)
        assert cost.cycles == pytest.approx(cycles, rel=0.01), way


def test_waves_are_of_one_engine(tmp_path):
    with pytest.raises(ConfigError, match="engines must be 1 for waves, which are those of one"):
        EngineBackend(
            preset("pcie6x16"),
            replace(NEAR, engines=2, channels=4),
            throttle=THROTTLES["none"],
            waves=tmp_path / "waves.vcd",
        )
