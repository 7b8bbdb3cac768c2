"""Cycles that a line of a compressed stream takes at the engine's port to the link."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import numpy as np

from cdma.golden.formats.interface import IntArray
from cdma.hw.config import CodecConfig, EngineConfig


@dataclass(frozen=True)
class LineSizes:
    """Sizes of a stream's lines, and how likely each is.

    Attributes
    ----------
    payloads : tuple of int
        Bytes behind a line's head.
    chances : tuple of float
        1 together.
    """

    payloads: tuple[int, ...]
    chances: tuple[float, ...]

    @classmethod
    def at_density(cls, density: float, codec: CodecConfig) -> Self:
        """Those of the engine's first codec, if zeros are anywhere; density from 0 to 1."""
        sizes, chances = codec.entries[0].payload_chances(density, codec)
        return cls(tuple(sizes), tuple(chances))

    @classmethod
    def of_lines(cls, lines: IntArray, codec: CodecConfig) -> Self:
        """Those of lines whose bytes of stream are known, head included, int64 (lines,)."""
        sizes, counts = np.unique(lines, return_counts=True)
        head = codec.entries[0].head_bytes(codec)
        return cls(tuple((sizes - head).tolist()), tuple((counts / lines.size).tolist()))

    @classmethod
    def mixed(cls, parts: Iterable[tuple[float, Self]]) -> Self:
        """Those of lines that are of each part with a share, 1 together."""
        chances: dict[int, float] = {}
        for share, part in parts:
            for payload, chance in zip(part.payloads, part.chances, strict=True):
                chances[payload] = chances.get(payload, 0.0) + share * chance
        return cls(tuple(chances), tuple(chances.values()))

    @property
    def mean_payload(self) -> float:
        return float(np.dot(self.payloads, self.chances))

    def stream_bytes(self, nbytes: float, codec: CodecConfig) -> float:
        """Bytes of the stream of so many bytes of data, heads included."""
        line = codec.entries[0].head_bytes(codec) + self.mean_payload
        return -(-nbytes // codec.line_bytes) * line


def is_slowed_by_port(engine: EngineConfig, chunk_beats: int) -> bool:
    """Return True if lines may be ready faster than their bytes pass the port: if two of their
    beats are ready in a cycle, or the port is narrower than a beat."""
    return chunk_beats > 1 or engine.host_bytes < engine.codec.sector_bytes


@lru_cache(maxsize=4096)
def line_cycles(
    sizes: LineSizes, engine: EngineConfig, lines_at_once: int, chunk_beats: int = 1
) -> float:
    """Mean cycles per line of the engine's first codec, in any order.

    In a cycle leaves a beat of a line, or two whole lines that fit one chunk, which is a head and
    a sector (`cdma.hw.dma.outbound.drain`, and on the way in `cdma.hw.dma.inbound.splitter`).
    Whether two lines leave together depends on both of them, and the second one of a pair that did
    not fit is longer than others are: so it is a Markov chain, whose state is the size of the line
    in front.

    In a chunk of two beats, the first beat of a line always leaves with the last one of the line
    before, but where that left with the one before itself, as a line of one beat does. A port that
    is narrower than a sector takes its own time for a line's bytes.

    Parameters
    ----------
    sizes : LineSizes
    engine : EngineConfig
    lines_at_once : int
        1 or 2: whether two lines may leave together at all.
    chunk_beats : int
        1 or 2: line beats that always fit a chunk.

    Returns
    -------
    float
        Half a cycle to as many as a line has sectors, more at a narrower port.
    """
    codec = engine.codec
    entry = codec.entries[0]
    data, fresh = np.array(sizes.payloads), np.array(sizes.chances)
    alone = np.maximum(1, -(-data // codec.sector_bytes)).astype(float)
    passing = 0.0
    if is_slowed_by_port(engine, chunk_beats):
        passing = (entry.head_bytes(codec) + sizes.mean_payload) / engine.stream_bytes_per_cycle
    if lines_at_once == 1:
        return max(float(fresh @ alone), passing)
    if chunk_beats == 2:
        ones = float(fresh @ (alone == 1))
        cycles = float((fresh @ (alone - 1) + ones * (fresh @ alone)) / (1 + ones))
        return max(cycles, passing)
    pairs = data[:, None] + data + entry.head_bytes(codec) <= codec.sector_bytes
    fits = pairs @ fresh
    # From the line in front to the next one in front: any, behind a pair; else the one that did not
    # fit.
    step = np.outer(fits, fresh) + np.where(pairs, 0.0, fresh)
    matrix = np.vstack([step.T - np.eye(data.size), np.ones(data.size)])
    front = np.linalg.lstsq(matrix, np.append(np.zeros(data.size), 1.0), rcond=None)[0]
    cycles = front @ np.where(fits > 0, fits + (1 - fits) * alone, alone)
    return max(float(cycles / (1 + front @ fits)), passing)
