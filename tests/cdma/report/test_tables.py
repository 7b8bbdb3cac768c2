"""Tables from rows of JSON: every figure is there, exactly, and in a unit."""

from cdma.report.content import Cell
from cdma.report.tables import facts_of, flat, table_of

ROWS = [
    {"name": "a", "seconds": 0.002, "x": {"bytes": 3_000_000, "deep": {"ratio": 2}}, "no": None},
    {"name": "b", "seconds": None, "x": {"bytes": 1}, "no": None, "list": [{"not": "here"}]},
]


def test_values_of_nested_objects_have_paths_and_lists_of_objects_have_none():
    assert dict(flat(ROWS[0])) == {
        "name": "a",
        "seconds": 0.002,
        "x.bytes": 3_000_000,
        "x.deep.ratio": 2,
        "no": None,
    }
    assert "list" not in dict(flat(ROWS[1]))


def test_a_table_has_a_column_per_path_that_is_not_null_everywhere():
    table = table_of("t", ROWS, first=("x.bytes", "name"))
    keys = [heading.key for heading in table.headings]
    assert keys == ["x.bytes", "name", "seconds", "x.deep.ratio"]
    assert [heading.unit for heading in table.headings] == ["MB", "", "ms", "×"]
    assert [heading.numeric for heading in table.headings] == [True, False, True, True]
    assert [[cell.value for cell in row] for row in table.rows] == [
        [3_000_000, "a", 0.002, 2],
        [1, "b", None, None],
    ]
    assert table.rows[1][2] == Cell(None, "–")


def test_a_total_is_below_in_the_same_units():
    table = table_of("t", ROWS, without=("x",), total={"seconds": 0.5})
    assert table.total == (Cell("total", "total"), Cell(0.5, "500.000"))


def test_facts_have_a_unit_each():
    facts = facts_of(
        "f", {"size_bytes": 2048, "clock": {"clock_hz": 1e9}, "left": 1}, without=["left"]
    )
    assert facts.rows == [
        ("size", Cell(2048, "2.05 kB")),
        ("clock: clock", Cell(1e9, "1.000 GHz")),
    ]
