"""Buffers: where they lie, and every way in which they must not be used."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdma.sim.driver import (
    BusyError,
    DoubleFreeError,
    DriverError,
    Memory,
    OutOfMemoryError,
    OverlapError,
    UseAfterFreeError,
)
from cdma.sim.driver.memory.allocator import Allocator

BASE = 0x4000
SIZE = 4096


@pytest.fixture
def memory():
    return Memory("device", np.zeros(SIZE, np.uint8), BASE)


class TestAllocator:
    @given(
        st.lists(
            st.tuples(st.booleans(), st.integers(1, 60), st.sampled_from([1, 2, 8, 32])),
            max_size=60,
        )
    )
    def test_ranges_are_apart_and_everything_comes_back(self, steps):
        allocator = Allocator(100, 300)
        taken: list[tuple[int, int]] = []
        for gives, size, alignment in steps:
            if gives and taken:
                allocator.give(*taken.pop(size % len(taken)))
            elif (address := allocator.take(size, alignment)) is not None:
                assert address % alignment == 0
                assert 100 <= address <= 400 - size
                assert all(
                    address + size <= start or start + length <= address for start, length in taken
                )
                taken.append((address, size))
            else:
                free = set(range(100, 400)) - {
                    byte for start, length in taken for byte in range(start, start + length)
                }
                assert not any(
                    free.issuperset(range(at, at + size)) for at in range(0, 400, alignment)
                )
            assert allocator.free_bytes == 300 - sum(size for _, size in taken)
        for address, size in taken:
            allocator.give(address, size)
        assert allocator.take_at(100, 300)

    def test_lowest_address_that_fits(self):
        allocator = Allocator(0, 100)
        assert [allocator.take(10, 1) for _ in range(3)] == [0, 10, 20]
        allocator.give(10, 10)
        assert allocator.take(11, 1) == 30
        assert allocator.take(4, 8) == 16
        assert allocator.largest_free_bytes == 100 - 41


class TestMemory:
    def test_a_buffer_is_a_view_of_the_memory(self, memory):
        buffer = memory.alloc(100)
        assert buffer.address == BASE
        buffer.array[:] = 7
        assert memory.array[:100].tolist() == [7] * 100
        assert not memory.array[100:].any()

    def test_alignment(self, memory):
        memory.alloc(1)
        assert memory.alloc(1).address == BASE + 128
        assert memory.alloc(1, alignment=1024).address == BASE + 1024
        assert memory.alloc(1, alignment=1).address == BASE + 1
        with pytest.raises(DriverError, match="alignment must be a power of two, not 3"):
            memory.alloc(1, alignment=3)

    def test_out_of_memory(self, memory):
        memory.alloc(SIZE - 256)
        message = "device memory has no 257 bytes at a multiple of 128: 256 are free, 256 of them"
        with pytest.raises(OutOfMemoryError, match=message):
            memory.alloc(257)
        assert memory.alloc(256).address == BASE + SIZE - 256
        assert memory.free_bytes == 0

    @pytest.mark.parametrize("nbytes", [0, -1])
    def test_no_buffer_is_empty(self, memory, nbytes):
        with pytest.raises(DriverError, match=f"nbytes must be at least 1, not {nbytes}"):
            memory.alloc(nbytes)

    @pytest.mark.parametrize("value", [13.7, 128.0, "128", True])
    @pytest.mark.parametrize("name", ["nbytes", "alignment", "address"])
    def test_sizes_are_integers(self, memory, name, value):
        with pytest.raises(DriverError, match=rf"{name} must be .*, not .*{value}"):
            memory.alloc(**{"nbytes": 128, name: value})
        assert memory.free_bytes == SIZE

    def test_only_buffers_are_freed(self, memory):
        with pytest.raises(DriverError, match="what is freed must be a Buffer, not 16384"):
            memory.free(BASE)

    @pytest.mark.parametrize(
        ("address", "nbytes"),
        [(BASE + 100, 1), (BASE, 101), (BASE + 199, 10), (BASE - 1, 1), (BASE + SIZE - 1, 2)],
    )
    def test_overlap_at_a_chosen_address(self, memory, address, nbytes):
        memory.alloc(100, address=BASE + 100)
        with pytest.raises(OverlapError, match="are not all free in device memory"):
            memory.alloc(nbytes, address=address)
        assert memory.alloc(100, address=BASE).address == BASE
        assert memory.alloc(1, address=BASE + 200).address == BASE + 200

    def test_use_after_free(self, memory):
        buffer = memory.alloc(100)
        span = buffer.span(10, 10)
        memory.free(buffer)
        for use in (lambda: buffer.array, lambda: span.array):
            with pytest.raises(UseAfterFreeError, match="buffer of 100 bytes at 0x4000 has been"):
                use()

    def test_double_free(self, memory):
        buffer = memory.alloc(100)
        memory.free(buffer)
        again = memory.alloc(100)
        assert again.address == buffer.address
        with pytest.raises(DoubleFreeError, match="has been freed before"):
            memory.free(buffer)
        with pytest.raises(DoubleFreeError, match="not of this host memory"):
            Memory("host", np.zeros(SIZE, np.uint8), BASE).free(again)
        again.array[:] = 1

    def test_free_while_in_use(self, memory):
        buffer = memory.alloc(100)
        buffer.users = 1
        with pytest.raises(BusyError, match="used by 1 transfers; wait"):
            memory.free(buffer)
        buffer.users = 0
        memory.free(buffer)

    def test_spans(self, memory):
        buffer = memory.alloc(100)
        buffer.array[:] = np.arange(100)
        assert buffer.span(90).array.tolist() == list(range(90, 100))
        assert buffer.span(4, 2).array.tolist() == [4, 5]
        assert buffer.span(4, 2).address == BASE + 4
        for offset, nbytes in ((0, 101), (100, 1), (-1, 1), (101, None), (1, -1)):
            with pytest.raises(DriverError, match=rf"has no -?\d+ bytes at offset {offset}"):
                buffer.span(offset, nbytes)
        for offset, nbytes in ((1.5, 4), (0, 4.0), ("0", None)):
            with pytest.raises(DriverError, match=r"(offset|nbytes) must be an integer, not"):
                buffer.span(offset, nbytes)
