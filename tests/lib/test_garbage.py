"""Objects that refer to themselves are collected between tests, once there may be many."""

import gc
import warnings
import weakref

import pytest

from tests.lib.garbage import GROWTH_BYTES, Garbage, resident_bytes


class Design:
    """Refers to itself, and warns when it goes, as one that was never elaborated does."""

    def __init__(self):
        self.itself = self

    def __del__(self):
        warnings.warn("created but never used", stacklevel=1)


def design():
    made = Design()
    return weakref.ref(made)


@pytest.fixture
def idle_collector():
    gc.disable()
    yield
    gc.enable()


def test_garbage_is_collected_once_the_process_has_grown(idle_collector):
    size = [1000]
    garbage = Garbage(lambda: size[0])
    first = design()
    size[0] += GROWTH_BYTES
    garbage.collect()
    assert first() is not None
    size[0] += 1
    garbage.collect()
    assert first() is None
    # From there on it may grow as much again, or from the least that it has been since.
    second = design()
    size[0] -= 500
    garbage.collect()
    size[0] += GROWTH_BYTES
    garbage.collect()
    assert second() is not None
    size[0] += 1
    garbage.collect()
    assert second() is None


def test_memory_of_the_process_is_told():
    before = resident_bytes()
    held = bytes(range(256)) * (64 << 12)
    assert resident_bytes() - before > len(held) // 2
