"""The files that the engine's bench reads: what they ask to be compared, and how much of it."""

import zlib

import numpy as np
import pytest

from cdma.hw.codec.registry import line_codec
from cdma.hw.config import HOST_BYTES, CodecConfig, EngineConfig
from cdma.hw.dma.bench import _BOUND, _program, engine_bench
from cdma.hw.dma.control.descriptor import DESCRIPTOR_DTYPE, RECORD_DTYPE, Opcode
from cdma.hw.dma.limits import ENTRY_BYTES
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


@pytest.mark.parametrize("element_bytes", [1, 2, 4])
def test_data_begin_anywhere_that_its_elements_may(element_bytes):
    program = _program(EngineConfig(units=1, codec=CodecConfig(element_bytes=element_bytes)))
    entries = program.host.before[program.ring :][: ENTRY_BYTES * program.count]
    moves = [one for one in entries.view(DESCRIPTOR_DTYPE) if one["length"]]
    # The others are fences.
    assert len(moves) == DESCRIPTORS - 2
    for place in (int(one[end]) for one in moves for end in ("src", "dst")):
        assert place % element_bytes == 0
        # A multiple of more would leave out lanes.
        assert place % (2 * element_bytes) != 0


@pytest.mark.parametrize("memory", ["device", "host"])
def test_memories_are_of_whole_beats_of_the_widest_bus(vectors, memory):
    assert len(vectors[memory]) % max(HOST_BYTES) == 0


def test_what_comes_back_of_a_lossy_codec_is_other_numbers_within_its_bound():
    codec = CodecConfig(element_bytes=1, codecs=("zvc", "raw", "quantize"))
    program = _program(EngineConfig(units=1, codec=codec))
    ring = program.host.before[program.ring :][: ENTRY_BYTES * program.count]
    lossy = [
        one for one in ring.view(DESCRIPTOR_DTYPE) if one["codec"] == line_codec("quantize").number
    ]
    out, back = lossy
    assert (out["opcode"], back["opcode"]) == (Opcode.COMPRESS_OUT, Opcode.DECOMPRESS_IN)
    sent, come = (
        memory[address:][: out["length"]].view(np.float32)
        for memory, address in (
            (program.device.before, out["src"]),
            (program.device.after, back["dst"]),
        )
    )
    finite = np.isfinite(sent)
    assert 0 < np.count_nonzero(~finite) < 20
    np.testing.assert_array_equal(come[~finite], sent[~finite])
    errors = np.abs(come[finite] - sent[finite])
    assert 0 < errors.max() <= _BOUND
    assert back["crc32"] == zlib.crc32(come.tobytes()) != zlib.crc32(sent.tobytes())
