"""Pieces of arrays among engines side by side, and what the engines make of them put together.

    piece    lines 0 … 11          engines    0: 0 … 3    1: 4 … 7    2: 8 … 11

Each engine takes its part of every piece at the same time as the others. As parts are whole lines,
their streams behind one another are the piece's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from cdma.golden import LINE_BYTES
from cdma.golden.formats.stream import ByteArray
from cdma.plan.platform.environment import part_lines
from cdma.sim.swap.backend import ArrayResult, EngineFigures
from cdma.sim.swap.window import Piece


def dealt(queue: Sequence[Piece], engines: int) -> list[list[Piece]]:
    """The queue of each engine: its part of each piece that has enough lines to give it one."""
    queues: list[list[Piece]] = [[] for _ in range(engines)]
    for piece in queue:
        for own, part in zip(queues, _parts(piece.data.size, engines), strict=False):
            own.append(replace(piece, data=piece.data[part]))
    for own in queues:
        # An engine may have no part of an array's last piece.
        ends = {piece.index: k for k, piece in enumerate(own)}
        own[:] = [replace(piece, last=ends[piece.index] == k) for k, piece in enumerate(own)]
    return queues


def together(
    queue: Sequence[Piece], results: Sequence[Mapping[int, ArrayResult]]
) -> Iterator[tuple[int, ArrayResult]]:
    """Each array's index and result, from those of all engines.

    Engines do not wait for one another: an array ends with the last of them, and what it adds to
    the time is counted from the end of the array before.

    Parameters
    ----------
    queue
        The pieces, as `dealt` was given them.
    results
        For each engine, what has come of the arrays that it has a part of, by index.
    """
    ends = {"out": [0] * len(results), "in": [0] * len(results)}
    pieces: dict[int, list[int]] = {}
    for piece in queue:
        pieces.setdefault(piece.index, []).append(piece.data.size)
    for index, sizes in pieces.items():
        parts = [result.get(index, _NOTHING) for result in results]
        cycles = {}
        for way, own_ends in ends.items():
            begun = max(own_ends)
            for engine, part in enumerate(parts):
                own_ends[engine] += getattr(part, f"cycles_{way}")
            cycles[way] = max(own_ends) - begun
        counts = [len(_parts(size, len(results))) for size in sizes]
        yield (
            index,
            ArrayResult(
                streams=_behind_one_another([part.streams for part in parts], counts),
                returned=_behind_one_another([part.returned for part in parts], counts),
                cycles_out=cycles["out"],
                cycles_in=cycles["in"],
                faults={fault for part in parts for fault in part.faults},
                engine=_figures([part.engine for part in parts if part.engine], len(results)),
            ),
        )


_NOTHING = ArrayResult(streams=[], returned=[], cycles_out=0, cycles_in=0, faults=set())
"""Of an engine that has no part of an array."""


def _behind_one_another(
    parts: Sequence[Sequence[ByteArray]], counts: Sequence[int]
) -> list[ByteArray]:
    """Each piece of an array, from those of all engines: so many of the first ones have a part."""
    own = list(map(iter, parts))
    return [np.concatenate([next(engine) for engine in own[:count]]) for count in counts]


def _parts(nbytes: int, engines: int) -> list[slice]:
    """As many equal parts of whole lines as there are engines, or fewer of a short piece."""
    part = part_lines(-(-nbytes // LINE_BYTES), engines) * LINE_BYTES
    return [slice(start, min(start + part, nbytes)) for start in range(0, nbytes, part)]


def _figures(parts: Sequence[EngineFigures], engines: int) -> EngineFigures:
    """Figures of engines that work at the same time, each on its share of the link."""
    joined = EngineFigures.joined(parts)
    return replace(
        joined,
        link_out_busy_cycles=joined.link_out_busy_cycles / engines,
        link_in_busy_cycles=joined.link_in_busy_cycles / engines,
        latency_cycles_out=max(part.latency_cycles_out for part in parts),
        latency_cycles_in=max(part.latency_cycles_in for part in parts),
    )
