"""How many cycles a line of a compressed stream takes at the engine's port to the link."""

from functools import lru_cache

import numpy as np

from cdma.hw.config import EngineConfig


@lru_cache(maxsize=4096)
def line_cycles(density: float, engine: EngineConfig, lines_at_once: int) -> float:
    """Mean cycles per line, if zeros are anywhere.

    In a cycle leaves a beat of a line, or two whole lines that fit one chunk, which is a mask and
    a port's width (`cdma.hw.dma.outbound.drain`, and on the way in `cdma.hw.dma.inbound.splitter`).
    The number of elements in a line is binomial. Whether two lines leave together depends on both
    of them, and the second one of a pair that did not fit is longer than others are: so it is a
    Markov chain, whose state is the size of the line in front.

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
    elements = np.arange(codec.elements + 1)
    data = elements * codec.element_bytes
    alone = np.maximum(1, -(-data // engine.host_bytes)).astype(float)
    fresh = _binomial(codec.elements, density)
    if lines_at_once == 1:
        return float(fresh @ alone)
    pairs = data[:, None] + data + codec.mask_bytes <= engine.host_bytes
    fits = pairs @ fresh
    # From the line in front to the next one in front: any, behind a pair; else the one that did not
    # fit.
    step = np.outer(fits, fresh) + np.where(pairs, 0.0, fresh)
    matrix = np.vstack([step.T - np.eye(elements.size), np.ones(elements.size)])
    front = np.linalg.lstsq(matrix, np.append(np.zeros(elements.size), 1.0), rcond=None)[0]
    cycles = front @ np.where(fits > 0, fits + (1 - fits) * alone, alone)
    return float(cycles / (1 + front @ fits))


def _binomial(count: int, probability: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Probabilities of 0 … `count` successes."""
    chances = np.array([1.0])
    for _ in range(count):
        chances = np.convolve(chances, [1 - probability, probability])
    return chances
