"""The files that the engine's bench reads: what they ask to be compared, and how much of it."""

import pytest

from cdma.hw.config import HOST_BYTES, EngineConfig
from cdma.hw.dma.bench import engine_bench
from cdma.hw.dma.control.descriptor import RECORD_DTYPE
from cdma.hw.emit.reset import DEFAULT_RESET, RESETS

DESCRIPTORS = 9
MATTERS = 1 << 8


@pytest.fixture(scope="module")
def vectors():
    bench = engine_bench(EngineConfig(units=2), "cdma_engine", RESETS[DEFAULT_RESET])
    return {
        name.removeprefix("cdma_engine_").removesuffix(".hex"): [
            int(row, 16) for row in text.splitlines()
        ]
        for name, text in bench.vectors.items()
    }


def test_every_byte_of_device_memory_is_compared(vectors):
    assert all(row & MATTERS for row in vectors["device_after"])


def test_every_byte_of_host_memory_but_the_cycles_in_records_is_compared(vectors):
    hidden = [row for row in vectors["host_after"] if not row & MATTERS]
    assert len(hidden) == DESCRIPTORS * RECORD_DTYPE["cycles"].itemsize


@pytest.mark.parametrize("memory", ["device", "host"])
def test_bytes_in_the_end_are_the_first_ones_where_nothing_is_written(vectors, memory):
    before, after = vectors[memory], vectors[f"{memory}_after"]
    assert max(before) < MATTERS
    assert max(after) < 2 * MATTERS
    assert len(before) == len(after)
    same = sum(row == byte | MATTERS for byte, row in zip(before, after, strict=True))
    assert 0.5 * len(after) < same < len(after)


@pytest.mark.parametrize("memory", ["device", "host"])
def test_memories_are_of_whole_beats_of_the_widest_bus(vectors, memory):
    assert len(vectors[memory]) % max(HOST_BYTES) == 0
