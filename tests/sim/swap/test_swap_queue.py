"""Arrays queued across each other through the engine: order, windows, faults, and what counts."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cdma.builds.progress import observed
from cdma.hw.dma.control.descriptor import Status
from cdma.sim.driver import THROTTLES, OutOfMemoryError
from cdma.sim.machine import BusFault, Machine
from cdma.sim.swap import EngineBackend, Swapper, SwapRun, engine_backend, swapper
from tests.sim.machine.engine.bench import NEAR
from tests.sim.machine.engine.cases import SMALL

PIECE_BYTES = 1024


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Swapper]]:
    """Makes swappers through a small engine, in transfers of `PIECE_BYTES`."""
    monkeypatch.setattr(swapper, "TRANSFER_BYTES", PIECE_BYTES)
    made = []

    def swapper_with(**options: Any) -> Swapper:
        around = replace(NEAR, channels=SMALL.units)
        backend = EngineBackend(SMALL, around, throttle=THROTTLES["none"], **options)
        made.append(backend)
        return Swapper(backend)

    yield swapper_with
    for backend in made:
        backend.close()


def activations(
    elements: int, seed: int = 0, dtype: type[np.generic] = np.float32
) -> np.ndarray[Any, np.dtype[Any]]:
    rng = np.random.default_rng(seed)
    return np.maximum(rng.standard_normal(elements), 0).astype(dtype)


def swap(made: Swapper, *arrays: np.ndarray[Any, np.dtype[Any]]) -> SwapRun:
    named = [(str(number), array) for number, array in enumerate(arrays)]
    return made.swap(named, baselines=False)


def test_results_are_in_the_order_of_the_arrays(make):
    sizes = (300, 0, 1, 700, 257)
    run = swap(make(), *(activations(size, seed=size) for size in sizes))
    assert [(t.name, t.shape) for t in run.round_trips] == [
        (f"{k}", (n,)) for k, n in enumerate(sizes)
    ]
    assert all(round_trip.bit_exact for round_trip in run.round_trips)
    empty = run.round_trips[1]
    assert (empty.cycles_out, empty.cycles_in, empty.compressed_bytes) == (0, 0, 0)


def test_an_array_costs_what_it_adds_to_the_queue(make):
    array = activations(2000)
    alone = swap(make(), array).round_trips[0]
    first, *others = swap(make(), *[array] * 4).round_trips
    # The first one has the latency of memory and link in it, and the others hide theirs.
    assert first.cycles_out == pytest.approx(alone.cycles_out, rel=0.1)
    for round_trip in others:
        assert round_trip.cycles_out < 0.9 * alone.cycles_out
        assert round_trip.cycles_in < 0.9 * alone.cycles_in
        # Its own descriptor arrived while the one before was at work.
        assert round_trip.engine is not None
        assert round_trip.engine.latency_cycles_out > round_trip.cycles_out


def test_busy_cycles_and_reads_are_those_between_two_records(make):
    arrays = [activations(3000, seed) for seed in range(4)]
    run = swap(make(), *arrays)
    for round_trip in run.round_trips:
        assert round_trip.engine is not None
        assert 0 <= round_trip.engine.link_out_busy_cycles <= round_trip.cycles_out
        assert 0 <= round_trip.engine.link_in_busy_cycles <= round_trip.cycles_in
        assert round_trip.engine.statuses == (Status.OK,) * 24
    assert sum(t.engine.dram_read_bytes for t in run.round_trips if t.engine) == 4 * 12_000
    assert run.queue is not None
    assert 0 < run.queue.buffer_high_water_bytes <= SMALL.buffer_bytes
    assert sum(run.queue.stall_cycles.values()) > 0


def test_arrays_that_do_not_fit_together_go_in_windows(make, monkeypatch):
    windows = []
    transfer = engine_backend.transfer_window

    def noted(engine, window, progress):
        windows.append([placed.piece.index for placed in window])
        return transfer(engine, window, progress)

    monkeypatch.setattr(engine_backend, "transfer_window", noted)
    # Three pieces of device memory; host memory has the ring in it as well.
    made = make(memory_bytes=4096, ring_entries=2)
    arrays = [activations(300), activations(1100, 1), activations(20, 2)]
    run = swap(made, *arrays)
    assert all(round_trip.bit_exact for round_trip in run.round_trips)
    assert [index for window in windows for index in window] == [0, 0, *[1] * 5, 2]
    assert all(1 <= len(window) <= 2 for window in windows)
    assert len([window for window in windows if 1 in window]) > 1
    # What is in two windows counts in both.
    assert run.round_trips[1].engine is not None
    assert run.round_trips[1].engine.statuses == (Status.OK,) * 10


def test_memory_limits_a_window_and_the_ring_another(make, monkeypatch):
    sizes = []
    fill = engine_backend.fill_window

    def noted(engine, queue):
        window = fill(engine, queue)
        sizes.append(len(window))
        return window

    monkeypatch.setattr(engine_backend, "fill_window", noted)
    array = activations(5 * PIECE_BYTES // 4)
    assert swap(make(memory_bytes=8192, ring_entries=2), array).round_trips[0].bit_exact
    assert swap(make(memory_bytes=4096, ring_entries=8), array).round_trips[0].bit_exact
    assert sizes == [2, 2, 1, 2, 2, 1]


def test_a_piece_that_fits_nowhere_is_refused(make, monkeypatch):
    monkeypatch.setattr(swapper, "TRANSFER_BYTES", 8192)
    with pytest.raises(OutOfMemoryError, match="device memory has no 8192 bytes"):
        swap(make(memory_bytes=4096, ring_entries=2), activations(2048))


def test_an_array_that_fails_does_not_lose_the_others(make, monkeypatch):
    class FaultyMachine(Machine):
        """Refuses reads of what the second array has of device memory."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            where = (3 * PIECE_BYTES + 256, 3 * PIECE_BYTES + 260)
            self.set_faults([BusFault(p, "r", "slverr", addresses=where) for p in range(2)])

    monkeypatch.setattr(engine_backend, "Machine", FaultyMachine)
    arrays = [activations(3 * PIECE_BYTES // 4, seed) for seed in range(4)]
    run = swap(make(), *arrays)
    assert [round_trip.name for round_trip in run.round_trips] == ["0", "1", "2", "3"]
    assert [round_trip.bit_exact for round_trip in run.round_trips] == [True, False, True, True]
    wrong = run.round_trips[1]
    assert "the way out's status is READ_ERROR" in wrong.faults
    assert "the array did not come back as it was" in wrong.faults
    assert wrong.engine is not None
    assert Status.READ_ERROR in wrong.engine.statuses
    # Its other pieces are whole.
    assert wrong.engine.statuses.count(Status.OK) == 4


def test_progress_counts_transfers_both_ways_and_then_arrays(make):
    reports: dict[str, list[tuple[int, int]]] = {}

    def note(phase: str, done: int, total: int) -> None:
        if phase in ("swap out", "swap in", "golden models"):
            reports.setdefault(phase, []).append((done, total))

    with observed(note):
        swap(make(), activations(300), activations(0), activations(20))
    every = [(done, 3) for done in range(4)]
    assert reports["swap out"] == reports["swap in"] == every
    assert reports["golden models"] == every


def test_progress_of_nothing(make):
    reports = []
    with observed(lambda *what: reports.append(what)):
        run = swap(make(), activations(0))
    assert run.round_trips[0].bit_exact
    assert reports[-1] == ("golden models", 1, 1)
