"""The limit of a plan's memory, as buffers of the machine's."""

import numpy as np
import pytest

from cdma.sim.driver.memory.buffers import Memory
from cdma.sim.execute.device_memory import POISON, DeviceMemory


@pytest.fixture
def memory():
    return DeviceMemory(Memory("device", np.zeros(8192, np.uint8), 0), 4096)


def test_buffers_and_counted_bytes_are_within_the_limit_together(memory):
    memory.count(1000)
    assert memory.has_room(3096)
    assert not memory.has_room(3097)
    first = memory.take(3000)
    assert memory.has_room(96)
    assert not memory.has_room(97)
    assert memory.has_room(97, 999)
    memory.give(first, 3000)
    assert memory.has_room(3096)
    assert memory.peak == 4000


def test_more_is_not_taken(memory):
    memory.take(4000)
    with pytest.raises(AssertionError, match="no room for 97 bytes"):
        memory.take(97)
    with pytest.raises(AssertionError, match="counted more bytes"):
        memory.count(97)


def test_parts_of_lines_count_as_they_are(memory):
    """32 streams of 100 bytes are 3,200 bytes, in 32 lines of 128."""
    buffers = [memory.take(100) for _ in range(32)]
    assert len({buffer.address // 128 for buffer in buffers}) == 32
    assert memory.has_room(896)


def test_what_is_freed_is_overwritten(memory):
    buffer = memory.take(256)
    array = buffer.array
    array[:] = 7
    memory.give(buffer, 256)
    assert np.all(array == POISON)
