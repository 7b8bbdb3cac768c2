"""Prefetches within free memory."""

from cdma.plan.timeline.placement import RECOMPUTE, RETAIN, SWAP
from cdma.sim.swap.step.prefetching import prefetches_of
from cdma.sim.swap.step.step_counts import Unpacking

CAPACITY = 100


def moments(*rows):
    """Unpackings of (name, bytes, most bytes before, most bytes while the value is brought)."""
    return [
        Unpacking(name=name, nbytes=nbytes, before_bytes=before, while_bytes=bringing)
        for name, nbytes, before, bringing in rows
    ]


def test_a_value_is_sent_for_as_early_as_it_has_room():
    rows = moments(("a", 10, 50, 50), ("b", 10, 85, 60), ("c", 10, 60, 60), ("d", 20, 60, 80))
    choices = {"a": RETAIN, "b": RETAIN, "c": RETAIN, "d": SWAP}
    # Before b's moment 85 + 20 is too much, so d comes behind it.
    assert prefetches_of(rows, 60, choices, CAPACITY) == {1: ("d",)}
    assert prefetches_of(rows, 60, choices, 105) == {0: ("d",)}


def test_values_come_in_the_order_in_which_they_are_asked_for():
    rows = moments(("a", 10, 20, 20), ("b", 10, 20, 30), ("c", 10, 20, 30))
    choices = {"a": RETAIN, "b": SWAP, "c": SWAP}
    assert prefetches_of(rows, 20, choices, CAPACITY) == {0: ("b", "c")}


def test_what_is_reserved_is_not_given_twice():
    rows = moments(("a", 10, 20, 20), ("b", 50, 40, 90), ("c", 50, 40, 90))
    choices = {"a": RETAIN, "b": SWAP, "c": SWAP}
    # 40 + 50 are there before b is asked for: c has room only behind it.
    assert prefetches_of(rows, 20, choices, CAPACITY) == {0: ("b",), 1: ("c",)}


def test_a_value_waits_for_what_is_brought_beside_it():
    # Whatever is computed again for b needs all there is.
    rows = moments(("a", 10, 20, 20), ("b", 10, 20, 95), ("c", 10, 20, 30))
    choices = {"a": RETAIN, "b": RECOMPUTE, "c": SWAP}
    assert prefetches_of(rows, 20, choices, CAPACITY) == {1: ("c",)}


def test_the_first_value_and_what_has_no_room_are_not_prefetched():
    rows = moments(("a", 10, 20, 20), ("b", 60, 50, 50))
    assert prefetches_of(rows, 20, {"a": SWAP, "b": SWAP}, CAPACITY) == {}
