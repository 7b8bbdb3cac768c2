"""Boolean functions of cells, tried on all inputs."""

from itertools import product

import pytest

from cdma.synth.gates.function import evaluate, pins_of


@pytest.mark.parametrize(
    ("function", "meant"),
    [
        ("A", lambda a, b, c: a),
        ("!A", lambda a, b, c: not a),
        ("(A)'", lambda a, b, c: not a),
        ("!(A & B)", lambda a, b, c: not (a and b)),
        ("(A * B)'", lambda a, b, c: not (a and b)),
        ("A B", lambda a, b, c: a and b),
        ("A | B & C", lambda a, b, c: a or (b and c)),
        ("A + B' C", lambda a, b, c: a or (not b and c)),
        ("A ^ B & C", lambda a, b, c: (a != b) and c),
        ("!((A & B) | C)", lambda a, b, c: not ((a and b) or c)),
        ("((A & B)|(C & !A))", lambda a, b, c: b if a else c),
        ("!!A | 0", lambda a, b, c: a),
        ("A & 1", lambda a, b, c: a),
    ],
)
def test_value(function, meant):
    for a, b, c in product((False, True), repeat=3):
        assert evaluate(function, {"A": a, "B": b, "C": c}) == bool(meant(a, b, c)), (a, b, c)


@pytest.mark.parametrize("function", ["", "A &", "(A", "A)", "D"])
def test_what_is_no_function(function):
    with pytest.raises(ValueError, match="is no function"):
        evaluate(function, {"A": True})


def test_pins_are_names_without_constants():
    assert pins_of("!((A1 & B) | 0)") == {"A1", "B"}
