"""Docstrings as comments of generated text have them."""

from cdma.hw.emit.docstrings import members, summary


class Described:
    """Something that promises a thing.

    It costs little.

    Members
    -------
    go : `In(1)`
        Starts it.
    i, o : `Stream`
        Beats that come,
        and that leave.
    bare : `In(1)`

    Notes
    -----
    kept : no member
        Of no account.
    """


class Bare:
    """Something without members."""


def test_members_have_their_descriptions_on_one_line():
    assert members(Described) == {
        "go": "Starts it.",
        "i": "Beats that come, and that leave.",
        "o": "Beats that come, and that leave.",
        "bare": "",
    }
    assert members(Bare) == {}


def test_a_summary_has_no_sections():
    assert summary(Described) == "Something that promises a thing.\n\nIt costs little."
    assert summary(Bare) == "Something without members."
