"""Loops of whole cells: what is cut, into which parts, and what is left as it is."""

from amaranth.hdl._nir import Assignment, AssignmentList, Net, Operator, PriorityMatch, Top, Value

from cdma.hw.emit.writer.loops import cut_loops

ZERO, ONE = Net.from_const(0), Net.from_const(1)


def of(cell: int, *bits: int) -> list[Net]:
    return [Net.from_cell(cell, bit) for bit in bits]


def assigned(width: int, *pieces: tuple[Net, int, list[Net]]) -> AssignmentList:
    """Bits that are 0 but for pieces: the condition, the first bit and the value of each."""
    assignments = [
        Assignment(cond=cond, start=start, value=Value(value), src_loc=None)
        for cond, start, value in pieces
    ]
    return AssignmentList(0, default=Value([ZERO] * width), assignments=assignments, src_loc=None)


def test_fields_are_cut_where_one_decides_about_the_other():
    # The loop is found from the match on, whose number is twice that of what is beside it.
    beside = assigned(4, (ONE, 0, [ONE, ONE]), (ONE, 2, [ONE, ONE]))
    decides = PriorityMatch(0, en=ONE, inputs=Value(of(3, 0)), src_loc=None)
    looped = assigned(4, (ONE, 0, [ONE, ZERO]), (Net.from_cell(2, 0), 2, [ZERO, ONE]))
    cells = [Top(), beside, decides, looped]
    wires = cut_loops(cells)
    assert wires == dict(zip(of(3, 0, 1, 2, 3), [*of(4, 0, 1), *of(5, 0, 1)], strict=True))
    assert beside.assignments != ()
    assert looped.assignments == ()
    (low,), (high,) = cells[4].assignments, cells[5].assignments
    assert (low.start, list(low.value), low.cond) == (0, [ONE, ZERO], ONE)
    assert (high.start, list(high.value), high.cond) == (0, [ZERO, ONE], Net.from_cell(2, 0))


def test_what_is_assigned_as_a_whole_is_cut_into_bits():
    looped = assigned(2, (ONE, 0, [Net.from_cell(0, 2), Net.from_cell(1, 0)]))
    cells = [Top(), looped]
    assert cut_loops(cells) == dict(zip(of(1, 0, 1), [*of(2, 0), *of(3, 0)], strict=True))
    assert [list(cell.assignments[0].value) for cell in cells[2:]] == [of(0, 2), of(1, 0)]


def test_an_operator_is_left_as_it_is():
    looped = Operator(
        0, operator="~", inputs=[Value([Net.from_cell(1, 1), Net.from_cell(0, 2)])], src_loc=None
    )
    cells = [Top(), looped]
    assert cut_loops(cells) == {}
    assert cells == [cells[0], looped]
