"""Ranges of addresses: what lies in one, and the cost of finding out."""

from hypothesis import given
from hypothesis import strategies as st

from cdma.sim.driver.memory.ranges import Ranges

RANGES = st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda r: (r[0], r[0] + r[1]))


@given(st.lists(st.tuples(st.booleans(), RANGES), max_size=40), st.lists(RANGES, max_size=20))
def test_a_range_meets_what_shares_a_byte(steps, asked):
    ranges = Ranges()
    inside = []
    for removes, (start, end) in steps:
        if removes and inside:
            ranges.remove(*inside.pop((start + end) % len(inside)))
        else:
            ranges.add(start, end)
            inside.append((start, end))
        for first, last in asked:
            shared = any(set(range(first, last)) & set(range(*one)) for one in inside)
            assert ranges.meets(first, last) == shared
    ranges.clear()
    assert not ranges.meets(0, 100)


class Counted(int):
    """An address that counts how often it is compared."""

    comparisons = 0

    def __lt__(self, other):
        Counted.comparisons += 1
        return int(self) < int(other)

    def __gt__(self, other):
        Counted.comparisons += 1
        return int(self) > int(other)


def test_comparisons_hardly_grow_with_what_is_there():
    costs = {}
    for count in (16, 1024):
        ranges = Ranges()
        for k in range(count):
            ranges.add(Counted(8 * k), Counted(8 * k + 4))
        gap = Counted(4 * count + 4), Counted(4 * count + 8)
        costs[count] = []
        for act in (ranges.meets, ranges.add, ranges.meets, ranges.remove):
            Counted.comparisons = 0
            act(*gap)
            costs[count].append(Counted.comparisons)
        assert not ranges.meets(*gap)
    # Two binary searches each: two comparisons more for every doubling, of which there are six.
    assert all(few > 0 for few in costs[16])
    assert all(many <= few + 2 * 6 for few, many in zip(costs[16], costs[1024], strict=True))
