"""Workloads of solvers and indices: what they model, and that they come out the same everywhere."""

import zlib
from itertools import pairwise

import numpy as np
import pytest

from cdma.plan.workload.capture import fields

WORKLOADS = (fields.heat, fields.shallow_water, fields.indices)


@pytest.fixture(scope="module")
def heat() -> dict[str, list[np.ndarray]]:
    return fields.heat()


@pytest.fixture(scope="module")
def lake() -> dict[str, list[np.ndarray]]:
    return fields.shallow_water()


@pytest.fixture(scope="module")
def indices() -> dict[str, list[np.ndarray]]:
    return fields.indices()


@pytest.mark.parametrize(
    ("workload", "crc32"),
    [(fields.heat, 0x8B80468C), (fields.shallow_water, 0x89540178), (fields.indices, 0x87A23BBE)],
)
def test_every_machine_gives_the_same_bits(workload, crc32: int) -> None:
    crc = 0
    for name, arrays in workload().items():
        crc = zlib.crc32(name.encode(), crc)
        for array in arrays:
            crc = zlib.crc32(array.astype(array.dtype.newbyteorder("<")).tobytes(), crc)
    assert crc == crc32


@pytest.mark.parametrize("workload", WORKLOADS)
def test_ten_snapshots_or_one_of_the_same_size(workload) -> None:
    for name, arrays in workload().items():
        assert len(arrays) in (1, fields.SNAPSHOTS), name
        assert len({(array.shape, array.dtype) for array in arrays}) == 1, name
        assert all(np.isfinite(array).all() for array in arrays), name
        # Copies: a later step must not change an earlier snapshot.
        assert not any(np.shares_memory(a, b) for a, b in pairwise(arrays))
        if len(arrays) > 1:
            assert len({array.tobytes() for array in arrays}) == len(arrays), name


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_heat_spreads_over_cold_cells_and_its_peak_falls(heat, dtype: str) -> None:
    plates = heat[f"heat.temperature.{dtype}"]
    assert all(plate.dtype == dtype for plate in plates)
    zeros = [np.count_nonzero(plate == 0) for plate in plates]
    peaks = [plate.max() for plate in plates]
    assert zeros == sorted(zeros, reverse=True)
    assert peaks == sorted(peaks, reverse=True)
    assert zeros[0] > 0.9 * plates[0].size
    assert zeros[-1] < 0.5 * plates[0].size
    edge = heat["heat.edge"][0] == 1
    for plate in plates:
        assert plate.min() >= 0
        assert not plate[edge].any()
    # Until the heat reaches the edge, none is lost.
    assert plates[3].sum(dtype=np.float64) == pytest.approx(plates[0].sum(), rel=1e-5)


def test_scratch_is_one_step_behind(heat) -> None:
    for now, before in zip(
        heat["heat.temperature.float64"][1:], heat["heat.scratch.float64"][1:], strict=True
    ):
        around = before[:-2, 1:-1] + before[2:, 1:-1] + before[1:-1, :-2] + before[1:-1, 2:]
        step = before[1:-1, 1:-1] + 0.2 * (around - 4 * before[1:-1, 1:-1])
        np.testing.assert_allclose(now[1:-1, 1:-1], step, rtol=0, atol=1e-15)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_water_is_neither_lost_nor_through_the_walls(lake, dtype: str) -> None:
    depths = lake[f"lake.depth.{dtype}"]
    volume = depths[0].sum(dtype=np.float64)
    for depth in depths:
        assert depth.min() > 0
        assert depth.sum(dtype=np.float64) == pytest.approx(volume, rel=1e-5)
    for east, south in zip(lake[f"lake.east.{dtype}"], lake[f"lake.south.{dtype}"], strict=True):
        assert not east[:, -1].any()
        assert not south[-1].any()
    assert not lake[f"lake.east.{dtype}"][0].any()
    assert lake[f"lake.east.{dtype}"][-1].any()


def test_still_water_stays_still(lake) -> None:
    # What the wave has not reached is as level as the bed's and depth's sum was.
    level = lake["lake.depth.float64"][1] + lake["lake.bed.float64"][0]
    assert level[0, 0] == pytest.approx(1, abs=1e-12)
    assert abs(level - 1).max() > 0.01


def test_matrix_is_symmetric_with_the_neighbors_of_a_triangulation(indices) -> None:
    row_pointers, columns = indices["mesh.row_pointers"][0], indices["mesh.columns"][0]
    n = fields.MESH_VERTICES**2
    assert (row_pointers.dtype, columns.dtype) == (np.int32, np.int32)
    assert row_pointers.size == n + 1
    assert (row_pointers[0], row_pointers[-1]) == (0, columns.size)
    lengths = np.diff(row_pointers)
    assert (lengths.min(), lengths.max()) == (3, 7)
    rows = np.repeat(np.arange(n), lengths)
    pairs = set(zip(rows.tolist(), columns.tolist(), strict=True))
    assert len(pairs) == columns.size
    assert all((b, a) in pairs for a, b in pairs)
    assert all((i, i) in pairs for i in range(n))
    ascending = np.diff(columns) > 0
    assert ascending[rows[1:] == rows[:-1]].all()


def test_particles_are_sorted_by_cell_and_mix(indices) -> None:
    moved = []
    for ids, cells in zip(indices["particles.ids"], indices["particles.cells"], strict=True):
        assert np.array_equal(np.sort(ids), np.arange(fields.PARTICLES))
        assert (np.diff(cells) >= 0).all()
        assert 0 <= cells[0] <= cells[-1] < 64 * 64
        moved.append(np.count_nonzero(np.diff(ids) != 1))
    assert moved[0] == 0
    assert moved[-1] > 0.9 * fields.PARTICLES
