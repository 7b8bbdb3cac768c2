"""The Liberty format: what is read, and what is told of files that are none."""

import pytest

from cdma.synth.gates.liberty import LibertyError, read_liberty
from tests.synth.gates.netlists import written


def test_groups_and_attributes(tmp_path):
    library = read_liberty(
        written(
            tmp_path,
            """/* a comment
               of two lines */
            library (small) {
              time_unit : "1ns"; // another
              capacitive_load_unit (1, pf);
              cell ("NAND2") {
                area : 1.5;
                values ("1, 2", \\
                        "3, 4");
              };
              cell (INV) { area : 1; }
            }""",
        )
    )
    assert (library.kind, library.name) == ("library", "small")
    assert library.attributes == {"time_unit": "1ns", "capacitive_load_unit": "1,pf"}
    assert [cell.name for cell in library.all("cell")] == ["NAND2", "INV"]
    assert library.groups[0].numbers("values") == (1, 2, 3, 4)
    assert library.groups[0].attributes["area"] == "1.5"


@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        ("", 1, "it ends early"),
        ("library (x) {\n  cell (A) {\n", 3, "it ends early"),
        ("module x;\nendmodule\n", 1, "'x' instead of one of : \\("),
        ("cell (A) { }", 1, "it does not begin with"),
        ("library (x) {\n cell (A {\n", 2, "'{' between parentheses"),
    ],
)
def test_what_is_no_liberty(tmp_path, text, line, cause):
    path = written(tmp_path, text)
    with pytest.raises(LibertyError, match=f"line {line}, is no Liberty: {cause}"):
        read_liberty(path)


def test_missing_file(tmp_path):
    with pytest.raises(LibertyError, match=r"none\.lib: No such file or directory; check the path"):
        read_liberty(tmp_path / "none.lib")
