"""Faults of sources: each kind, nothing else, and always a program."""

import pytest

from cdma.hw.lib import pipeline
from tests.mutation.operators import mutations

KINDS = [
    ("x = a == b", {("comparison", "a == b", "(a != b)")}),
    ("x = a < b", {("comparison", "a < b", "(a <= b)")}),
    ("x = a & b", {("operator", "a & b", "(a | b)")}),
    ("x = a and b", {("operator", "a and b", "(a or b)")}),
    ("x = ~a", {("inversion", "~a", "(a)")}),
    ("x = not a", {("inversion", "not a", "(a)")}),
    ("x = True", {("constant", "True", "(False)")}),
    ("x = y[7]", {("constant", "7", "(8)")}),
    ("x = Signal(7)", {("width", "7", "(6)")}),
    ('x = StructLayout({"a": 1, "b": 8})', {("width", "8", "(7)")}),
    ("x = a if b else c", {("choice", "a if b else c", "(c if b else a)")}),
    ("x = Mux(a, b, c)", {("choice", "Mux(a, b, c)", "(Mux(a, c, b))")}),
    ("if a:\n    x = b", {("condition", "a", "(not a)")}),
    (
        "with m.If(a):\n    m.d.sync += x.eq(b)",
        {("condition", "a", "(a == 0)"), ("assignment", "x.eq(b)", "")},
    ),
    (
        "m.d.comb += [x.eq(a), y.eq(b)]",
        {("assignment", "x.eq(a)", ""), ("assignment", "y.eq(b)", "")},
    ),
    ("connect(a, b)", {("call", "connect(a, b)", "")}),
]

UNTOUCHED = [
    '"""It is 1 + 1."""',
    "x: Literal[1] = y",
    "@given(1)\ndef f(): pass",
    "from a import b",
    "raise ValueError(a + 1)",
    "assert a == 1",
    'x = "a" + b',
    "x = Signal(y, reset_less=True)",
]


@pytest.mark.parametrize(("source", "expected"), KINDS)
def test_faults_of_each_kind(source, expected):
    assert {(one.kind, one.before, one.after) for one in mutations(source)} == expected


@pytest.mark.parametrize("source", UNTOUCHED)
def test_what_is_not_changed(source):
    assert not list(mutations(source))


def test_each_is_a_program_of_its_own():
    with open(pipeline.__file__, encoding="utf-8") as file:
        source = file.read()
    found = list(mutations(source))
    assert len(found) > 50
    texts = {one.text for one in found}
    assert len(texts) == len(found)
    assert source not in texts
    for one in found:
        compile(one.text, "mutant", "exec")


def test_only_the_place_is_changed():
    source = "é = 'ü'; x = a + b  # kept\ny = [c.eq(d)]\n"
    texts = [one.text for one in mutations(source)]
    assert texts == [
        "é = 'ü'; x = (a - b)  # kept\ny = [c.eq(d)]\n",
        "é = 'ü'; x = a + b  # kept\ny = [*[]]\n",
    ]
