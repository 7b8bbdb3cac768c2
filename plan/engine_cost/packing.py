"""Cycles that a line of a compressed stream takes at the engine's port to the link."""

from functools import lru_cache

import numpy as np

from cdma.hw.config import EngineConfig


@lru_cache(maxsize=4096)
def line_cycles(density: float, engine: EngineConfig, lines_at_once: int) -> float:
    """Mean cycles per line of the engine's first codec, if zeros are anywhere.

    In a cycle leaves a beat of a line, or two whole lines that fit one chunk, which is a head and
    a port's width (`cdma.hw.dma.outbound.drain`, and on the way in `cdma.hw.dma.inbound.splitter`).
    The codec tells how likely each size of a line is. Whether two lines leave together depends on
    both of them, and the second one of a pair that did not fit is longer than others are: so it is
    a Markov chain, whose state is the size of the line in front.

    Parameters
    ----------
    density : float
        Part of the elements that is not zero, 0…1.
    engine : EngineConfig
    lines_at_once : int
        1 or 2: whether two lines may leave together at all.

    Returns
    -------
    float
        Half a cycle to as many as a line has sectors.
    """
    codec = engine.codec
    entry = codec.entries[0]
    sizes, chances = entry.payload_chances(density, codec)
    data, fresh = np.array(sizes), np.array(chances)
    alone = np.maximum(1, -(-data // engine.host_bytes)).astype(float)
    if min(lines_at_once, entry.lines_per_cycle) == 1:
        return float(fresh @ alone)
    pairs = data[:, None] + data + entry.head_bytes(codec) <= engine.host_bytes
    fits = pairs @ fresh
    # From the line in front to the next one in front: any, behind a pair; else the one that did not
    # fit.
    step = np.outer(fits, fresh) + np.where(pairs, 0.0, fresh)
    matrix = np.vstack([step.T - np.eye(data.size), np.ones(data.size)])
    front = np.linalg.lstsq(matrix, np.append(np.zeros(data.size), 1.0), rcond=None)[0]
    cycles = front @ np.where(fits > 0, fits + (1 - fits) * alone, alone)
    return float(cycles / (1 + front @ fits))
