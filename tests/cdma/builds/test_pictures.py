"""Pictures as files: three formats by the name, and the same bytes every time."""

from pathlib import Path

import pytest

from cdma.builds.pictures import FORMATS, encoded, format_of, literal, new_figure

STARTS = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml", "pdf": b"%PDF-"}


def figure():
    made = new_figure(3, 2)
    axes = made.subplots()
    axes.plot([0, 1], [1, 0], label="a line")
    axes.set_title(literal("costs $1 and $2"))
    made.legend()
    return made


@pytest.mark.parametrize("file_format", FORMATS)
def test_a_figure_is_the_same_file_every_time(file_format):
    first, second = (encoded(figure(), file_format) for _ in range(2))
    assert first.startswith(STARTS[file_format])
    assert first == second


@pytest.mark.parametrize(
    ("name", "file_format"),
    [("a.png", "png"), ("a.SVG", "svg"), ("x.y.pdf", "pdf"), ("a.jpg", None), ("png", None)],
)
def test_the_name_says_the_format(name, file_format):
    assert format_of(Path(name)) == file_format
