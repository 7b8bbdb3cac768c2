"""Memory of scientific codes: smooth fields of small solvers, and arrays of indices.

Each workload is a run, and gives what it has allocated at ten moments evenly spread over it, as
Buddy Compression's snapshots (§3.1): a dictionary of allocations, each with its arrays in the
order of time, or with a single one if it never changes. There is nothing but +, −, ×, ÷ on
elements and seeded integers in them, so that the same bits come out everywhere.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Fields = Mapping[str, Sequence[Array]]

SNAPSHOTS = 10
HEAT_CELLS = 256
HEAT_STEPS = 16
LAKE_CELLS = 192
LAKE_STEPS = 30
MESH_VERTICES = 128
PARTICLES = 32768
_FLOATS = (np.float32, np.float64)


def heat() -> dict[str, list[Array]]:
    """The temperature of a cold plate with one hot disk, 256×256, in float32 and in float64.

    The five-point stencil in explicit time steps, with cold edges, and two arrays that take turns
    as such codes have them. Heat moves by one cell per step, so the first snapshots are mostly
    exact zeros and the last ones are smooth all over, as those of 355.seismic are (§3.1). Beside
    them is what marks the plate's edge, int32: zeros, and ones around them.
    """
    allocations: dict[str, list[Array]] = {}
    for dtype in _FLOATS:
        now = _bump(HEAT_CELLS, 24, dtype)
        after = np.zeros_like(now)
        names = [f"heat.{name}.{now.dtype.name}" for name in ("temperature", "scratch")]
        for snapshot in range(SNAPSHOTS):
            for _ in range(HEAT_STEPS if snapshot else 0):
                inner = now[1:-1, 1:-1]
                around = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:]
                after[1:-1, 1:-1] = inner + dtype(0.2) * (around - dtype(4) * inner)
                now, after = after, now
            for name, array in zip(names, (now, after), strict=True):
                allocations.setdefault(name, []).append(array.copy())
    edge = np.ones((HEAT_CELLS, HEAT_CELLS), np.int32)
    edge[1:-1, 1:-1] = 0
    allocations["heat.edge"] = [edge]
    return allocations


def shallow_water() -> dict[str, list[Array]]:
    """A wave in a lake, 192×192: the water's depth and velocities, in float32 and in float64.

    The shallow-water equations without advection on a staggered grid, forward in the velocities
    and backward in the depth, with walls around. The bed, which slopes, never changes.
    """
    allocations: dict[str, list[Array]] = {}
    for dtype in _FLOATS:
        n = LAKE_CELLS
        slope = (np.arange(n) / (2 * n)).astype(dtype)
        bed = np.ascontiguousarray(np.broadcast_to(slope, (n, n)))
        depth = dtype(1) - bed + dtype(0.1) * _bump(n, 20, dtype)
        east, south = np.zeros((2, n, n), dtype)
        # Gravity times the time step over the cell's width, and that ratio alone.
        pull, ratio = dtype(0.3), dtype(0.3)
        for snapshot in range(SNAPSHOTS):
            for _ in range(LAKE_STEPS if snapshot else 0):
                level = depth + bed
                # The walls' faces, which are the last of each row or column, keep velocity 0.
                east[:, :-1] -= pull * (level[:, 1:] - level[:, :-1])
                south[:-1] -= pull * (level[1:] - level[:-1])
                flow_east, flow_south = np.zeros((2, n, n), dtype)
                flow_east[:, :-1] = east[:, :-1] * (depth[:, 1:] + depth[:, :-1]) / dtype(2)
                flow_south[:-1] = south[:-1] * (depth[1:] + depth[:-1]) / dtype(2)
                depth = depth - ratio * (flow_east + flow_south)
                depth[:, 1:] += ratio * flow_east[:, :-1]
                depth[1:] += ratio * flow_south[:-1]
            for name, array in (("depth", depth), ("east", east), ("south", south)):
                key = f"lake.{name}.{array.dtype.name}"
                allocations.setdefault(key, []).append(array.copy())
        allocations[f"lake.bed.{bed.dtype.name}"] = [bed]
    return allocations


def indices() -> dict[str, list[Array]]:
    """Integers that point: a sparse matrix's in CSR form, and particles'.

    `mesh.row_pointers` and `mesh.columns` (int32) are of the matrix of a triangulated square of
    128×128 vertices, numbered along a Z-order curve as mesh codes do to keep neighbors near.
    `particles.ids` and `particles.cells` (int32) are 32,768 particles that are sorted by their
    cell at each snapshot, as particle codes do. They were numbered in that order to begin with,
    and mix as they move.
    """
    row_pointers, columns = _mesh_matrix(MESH_VERTICES)
    allocations: dict[str, list[Array]] = {
        "mesh.row_pointers": [row_pointers],
        "mesh.columns": [columns],
    }
    random = np.random.default_rng(35)
    # Places in units of 1/1024 of a cell; there are 64×64 cells, and what leaves comes in again.
    size = 64 * 1024
    place = random.integers(0, size, (2, PARTICLES))
    order = np.argsort(place[0] // 1024 * 64 + place[1] // 1024, kind="stable")
    place = place[:, order]
    velocity = random.integers(-400, 401, (2, PARTICLES))
    for _ in range(SNAPSHOTS):
        cells = place[0] // 1024 * 64 + place[1] // 1024
        ids = np.argsort(cells, kind="stable")
        allocations.setdefault("particles.ids", []).append(ids.astype(np.int32))
        allocations.setdefault("particles.cells", []).append(cells[ids].astype(np.int32))
        place = (place + velocity) % size
    return allocations


def _bump(cells: int, radius: int, dtype: type[np.floating[Any]]) -> Array:
    """A smooth hill of height 1 in the middle of a square, and exact zeros around it."""
    distance = np.arange(cells, dtype=dtype) - dtype(cells // 2)
    squared = (distance[:, None] * distance[:, None] + distance * distance) / dtype(radius**2)
    hill = np.maximum(dtype(1) - squared, dtype(0))
    return np.asarray(hill * hill)


def _mesh_matrix(n: int) -> tuple[Array, Array]:
    """Row pointers and columns of the adjacency of n×n vertices, each joined to up to six."""
    y, x = np.divmod(np.arange(n * n), n)
    key = np.zeros(n * n, np.int64)
    for bit in range(n.bit_length()):
        key |= (x >> bit & 1) << 2 * bit | (y >> bit & 1) << 2 * bit + 1
    # Where on the curve each vertex is.
    number = np.argsort(np.argsort(key))
    rows, columns = [], []
    for dy, dx in ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, -1)):
        inside = (y + dy >= 0) & (y + dy < n) & (x + dx >= 0) & (x + dx < n)
        rows.append(number[inside])
        columns.append(number[(y[inside] + dy) * n + x[inside] + dx])
    row, column = np.concatenate(rows), np.concatenate(columns)
    order = np.lexsort((column, row))
    counts = np.bincount(row, minlength=n * n)
    row_pointers = np.concatenate([[0], np.cumsum(counts)])
    return row_pointers.astype(np.int32), column[order].astype(np.int32)
