"""Traces taken apart and put together."""

import numpy as np
import pytest

from cdma.sim.machine.buddy.trace import Access, AccessTrace


@pytest.fixture
def trace():
    """Four accesses of different sizes, two of which are writes, one of a part."""
    return AccessTrace.of(
        [
            Access(address=0, nbytes=3, id=1),
            Access(
                address=64, nbytes=2, data=np.array([7, 8], np.uint8), mask=np.array([1, 0], bool)
            ),
            Access(address=128, nbytes=4, earliest=9, beat_bytes=4),
            Access(address=7, nbytes=1, data=np.array([5], np.uint8), id=3),
        ]
    )


def rows(trace):
    """Each access, with its bytes and its mask."""
    columns = (trace.write, trace.address, trace.nbytes, trace.id, trace.earliest, trace.beat_bytes)
    return [
        (
            *(column[i] for column in columns),
            *trace.bytes_of(i),
            *(() if trace.mask is None else trace.bytes_of(i, trace.mask)),
        )
        for i in range(len(trace))
    ]


@pytest.mark.parametrize("accesses", [[0, 1, 2, 3], [3, 1], [2], [1, 1, 0]])
def test_accesses_are_chosen_with_their_bytes_and_masks(trace, accesses):
    assert rows(trace.chosen(np.array(accesses))) == [rows(trace)[i] for i in accesses]


def test_a_trace_without_masks_has_none_when_chosen():
    plain = AccessTrace.uniform(write=False, address=[0, 128], nbytes=64)
    assert plain.chosen(np.array([1])).mask is None


def test_parts_joined_are_the_whole(trace):
    parts = [trace.chosen(np.array([0, 1])), trace.chosen(np.array([2, 3]))]
    assert rows(AccessTrace.joined(parts)) == rows(trace)


def test_a_trace_without_masks_is_joined_as_one_that_writes_all(trace):
    plain = AccessTrace.uniform(write=True, address=[0], nbytes=2)
    joined = AccessTrace.joined([plain, trace])
    assert joined.mask is not None
    assert joined.mask[:2].all()
    assert np.array_equal(joined.mask[2:], trace.mask)
    assert AccessTrace.joined([plain, plain]).mask is None
